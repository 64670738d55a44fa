//! What can be asked.

use clap::{Parser, Subcommand, ValueEnum};
use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;
use tombolo_sim::Speed;

/// Plays scenarios in a simulated world: the same seed gives the same run, bit for bit.
#[derive(Parser, Debug)]
#[command(name = "tombolo-sim", version, after_help = EXIT_CODES)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  everything that was expected held (or was SKIPPED, with the reason)
  1  an expectation or an invariant did not hold, or two runs of one seed differed
  2  wrong usage, or a scenario that cannot be read or simulated (the others are played all the same);
     or the output could not be written. Whoever closes the pipe early, as head does, has read enough: no failure";

const FUZZ_EXIT_CODES: &str = "\
Exit codes:
  0  nothing failed
  1  something failed: each failing seed has a line, and a file to replay
  2  wrong usage; or a drawn scenario cannot be simulated, or a file or the output cannot be written";

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Play scenarios and print a verdict table for each
    Run(Run),
    /// List the scenarios of a directory, with what each is about
    List {
        /// Where they are
        #[arg(default_value = super::corpus::DIRECTORY)]
        directory: PathBuf,
    },
    /// Play each seed in two processes and compare their traces line by line
    Doublecheck(Doublecheck),
    /// Draw scenarios by chance, judge them by the invariants, and shrink what fails to a small file
    #[command(after_help = FUZZ_EXIT_CODES)]
    Fuzz(Fuzz),
    /// Print the JSON Schema of scenario files, by which editors complete them
    Schema,
    /// Measure how many machine steps a second core speed makes (three clusters of three nodes)
    Bench {
        /// Simulated seconds
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Pins chance
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_seed, allow_hyphen_values = true)]
        seed: u64,
    },
}

/// What to play.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Which {
    /// Scenario files, or names of such here or in scenarios/ without .yaml
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Pins chance
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        conflicts_with = "seeds",
        value_parser = one_seed,
        allow_hyphen_values = true
    )]
    seed: u64,
    /// Each seed from A to B, both too
    #[arg(long, value_name = "A..B", value_parser = seeds_to_play, allow_hyphen_values = true)]
    seeds: Option<Seeds>,
    /// core: the machines alone, fast; full: real shell, kube client and packets
    #[arg(long, default_value_t = Speed::Core)]
    pub(super) speed: Speed,
}

/// More seeds of one scenario than anybody plays; each is told.
const SEEDS_MAX: u64 = 1_000_000;

fn seeds_to_play(text: &str) -> Result<Seeds, String> {
    let Seeds(first, last) = text.parse()?;
    if last - first >= SEEDS_MAX {
        return Err(format!("'{text}' are more than the {SEEDS_MAX} seeds that can be played at once"));
    }
    Ok(Seeds(first, last))
}

impl Which {
    pub(super) fn seeds(&self) -> Vec<u64> {
        self.seeds.map_or_else(|| vec![self.seed], |Seeds(first, last)| (first..=last).collect())
    }
}

#[derive(clap::Args, Clone, Debug)]
pub(super) struct Run {
    #[command(flatten)]
    pub(super) which: Which,
    /// Print everything that happened, before the verdicts
    #[arg(long)]
    pub(super) trace: bool,
    /// Print one line for each change that matters: acts, leadership, paths and flows
    #[arg(long)]
    pub(super) timeline: bool,
    /// table: for people; json: one document a run
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,
}

#[derive(clap::Args, Clone, Debug)]
pub(super) struct Doublecheck {
    #[command(flatten)]
    pub(super) which: Which,
}

/// How long, from where, and where to.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Fuzz {
    /// Each seed from A to B, both too: the seed draws the scenario and pins its chance [default: from 1 on, for a minute]
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    pub(super) seeds: Option<Seeds>,
    /// Stop after so many minutes (0.5 is half a minute); with --seeds, also when those are done
    #[arg(long, value_name = "N", value_parser = minutes, allow_hyphen_values = true)]
    pub(super) minutes: Option<Duration>,
    /// core: the machines alone, fast; full: real shell, kube client and packets
    #[arg(long, default_value_t = Speed::Core)]
    pub(super) speed: Speed,
    /// The folder where fuzz-SEED.yaml is written for each seed that fails
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(super) out: PathBuf,
    /// Play at most so many smaller scenarios for each seed that fails; 0 writes it as it was drawn
    #[arg(long, value_name = "RUNS", default_value_t = 400)]
    pub(super) shrink: usize,
    /// Draw nothing that a file calls by this word, a verb or the state of an API, such as restarted-empty: so that an
    /// open finding does not hide others
    #[arg(long, value_name = "WORD", value_parser = act_word)]
    pub(super) without: Vec<String>,
    /// table: for people, as it happens; json: one document in the end
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,
}

impl Fuzz {
    /// The first and the last.
    pub(super) fn range(&self) -> (u64, u64) {
        self.seeds.map_or((1, u64::MAX), |Seeds(first, last)| (first, last))
    }

    /// After which to stop; with neither seeds nor minutes, a minute.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.minutes.or_else(|| self.seeds.is_none().then_some(Duration::from_secs(60)))
    }
}

fn act_word(text: &str) -> Result<String, String> {
    let words = tombolo_scenarios::format::act_words().collect::<Vec<_>>();
    if words.contains(&text) { Ok(text.to_owned()) } else { Err(format!("'{text}' is none of {}", words.join(", "))) }
}

/// As `10` or `0.5`.
fn minutes(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no number of minutes above 0, such as 10 or 0.5");
    let minutes: f64 = text.parse().map_err(|_| wrong())?;
    let limit = Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| wrong())?;
    if limit.is_zero() { Err(wrong()) } else { Ok(limit) }
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Table,
    Json,
}

/// Numbers below 0 come here too, rather than being taken for options, so that they are answered in words.
fn one_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is no seed: a seed is 0 or more; --seeds A..B stands for several"))
}

/// From the first to the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seeds(u64, u64);

impl FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no range of seeds such as 1..50: a seed is 0 or more");
        let (first, last) = text.split_once("..").ok_or_else(wrong)?;
        let last = last.strip_prefix('=').unwrap_or(last);
        let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first > last {
            return Err(format!("'{text}' is empty: the first seed comes after the last"));
        }
        Ok(Self(first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_seeds_includes_both_ends() {
        let args = Args::try_parse_from(["tombolo-sim", "run", "x.yaml", "--seeds", "3..5"]).unwrap();
        let Command::Run(run) = args.command else { panic!() };
        assert_eq!(run.which.seeds(), [3, 4, 5]);
    }

    #[test]
    fn more_seeds_than_anybody_plays_are_refused_and_the_last_seed_there_is_can_be_played() {
        for many in ["0..18446744073709551615", "1..100000000000", "1..1000001"] {
            let told = Args::try_parse_from(["tombolo-sim", "run", "x.yaml", "--seeds", many]).unwrap_err().to_string();
            assert!(told.contains("more than the 1000000 seeds"), "{told}");
        }
        let last = "18446744073709551615..18446744073709551615";
        assert!(Args::try_parse_from(["tombolo-sim", "run", "x.yaml", "--seeds", last]).is_ok());
    }

    #[test]
    fn a_range_that_is_none_is_refused_with_the_reason() {
        for text in ["5", "a..b", "1..", "..3", "-1..3"] {
            assert!(text.parse::<Seeds>().unwrap_err().contains("no range of seeds"), "{text}");
        }
        assert!("5..3".parse::<Seeds>().unwrap_err().contains("empty"));
    }

    #[test]
    fn a_seed_below_0_is_told_what_a_seed_is() {
        let asked = [
            &["run", "x.yaml", "--seed", "-1"][..],
            &["run", "x.yaml", "--seeds", "-1..3"],
            &["doublecheck", "x.yaml", "--seeds", "-3..-1"],
            &["bench", "--seed", "-1"],
        ];
        for arguments in asked {
            let error = Args::try_parse_from([&["tombolo-sim"], arguments].concat()).unwrap_err().to_string();
            assert!(error.contains("a seed is 0 or more") && !error.contains("unexpected argument"), "{error}");
        }
    }

    #[test]
    fn one_seed_at_core_speed_is_what_is_meant_when_nothing_is_said() {
        let args = Args::try_parse_from(["tombolo-sim", "run", "x.yaml"]).unwrap();
        let Command::Run(run) = args.command else { panic!() };
        assert_eq!((run.which.seeds(), run.which.speed), (vec![1], Speed::Core));
        assert!(Args::try_parse_from(["tombolo-sim", "run"]).is_err());
        assert!(Args::try_parse_from(["tombolo-sim", "run", "x", "--seed", "1", "--seeds", "1..2"]).is_err());
    }
}
