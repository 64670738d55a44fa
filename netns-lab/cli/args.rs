//! What can be asked.

use crate::pods::call::Number;
use clap::{Parser, Subcommand, ValueEnum};
use core::time::Duration;
use std::path::PathBuf;
use tombolo_core::model::Protocol;
use tombolo_sim::Speed;

/// Plays scenarios on a real kernel: nodes and pods are network namespaces, and nothing of them stays.
#[derive(Parser, Debug)]
#[command(name = "tombolo-lab", version, after_help = EXIT_CODES)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXIT_CODES: &str = "\
Places:
  west/gw-a               a node             west/gw-a/probe          its pod from which probes come
  router:west             its site's router  east/worker/shop.web.1   a pod of service web in namespace shop
  api:west                its API server     router:broker, api:broker   the broker's, where it has its own

Exit codes:
  0  it was done, or there was nothing to do; `run`: everything that was expected held, or was SKIPPED with the reason
  1  it failed; `call`: nobody answered; `check`: no lab can come up here; `run`: something did not hold, or --against
     the simulator something was judged otherwise
  2  wrong usage; `run`: a scenario that cannot be read or played (the others are played all the same)
  `shell` ends as the program in it does";

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Build a scenario's topology and stay until Ctrl-C
    Up {
        /// A scenario file, or the name of one here or in scenarios/ without .yaml
        file: PathBuf,
        /// Call the lab so [default: the file's name]
        #[arg(long)]
        name: Option<String>,
        /// Pins the chance of its links
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Return when it is up; `down` ends it
        #[arg(long)]
        detach: bool,
    },
    /// Play scenarios with real daemons, and print a verdict table for each
    Run(Run),
    /// Play bursts of random faults, each with its cures and a quiet time after it, and see that nothing grows
    Soak(Soak),
    /// Measure what cables carry from pod to pod, beside others in the same place, in turns
    Bench(Bench),
    /// End a lab, so that nothing of it is left. None up is no failure
    Down {
        /// Which [default: the one that is up]
        name: Option<String>,
        /// All that are up
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// List the labs that are up
    List,
    /// List the places of a lab, with their addresses and how to enter them
    Places {
        #[command(flatten)]
        lab: Lab,
    },
    /// Run a shell in a place, or another program
    Shell {
        /// Where
        place: String,
        #[command(flatten)]
        lab: Lab,
        /// The program and its arguments [default: $SHELL]
        #[arg(last = true)]
        program: Vec<String>,
    },
    /// Call somebody from a place, and print who answered
    Call {
        /// From there
        place: String,
        /// http://ADDRESS:PORT, tcp://ADDRESS:PORT or udp://ADDRESS:PORT
        number: Number,
        #[command(flatten)]
        lab: Lab,
        /// Call from this port (UDP)
        #[arg(long)]
        port: Option<u16>,
        /// Give up after so many milliseconds
        #[arg(long, value_name = "MS", default_value_t = 2000)]
        timeout: u64,
    },
    /// Write what passes on a link of a place into a pcap file
    Capture {
        /// Where
        place: String,
        /// Which link there
        #[arg(default_value = "eth0")]
        link: String,
        #[command(flatten)]
        lab: Lab,
        /// The file; - is standard output
        #[arg(short, long, default_value = "-")]
        output: PathBuf,
        /// Stop after so many seconds [default: at Ctrl-C]
        #[arg(long)]
        seconds: Option<u64>,
        /// Stop after so many frames
        #[arg(long)]
        frames: Option<usize>,
    },
    /// Let no packet pass between two hosts
    Cut {
        #[command(flatten)]
        pair: Pair,
    },
    /// Let packets pass between two hosts again
    Heal {
        #[command(flatten)]
        pair: Pair,
    },
    /// Show the links between sites, or change one: what is not said stays
    Link {
        /// From this router, such as router:west
        #[arg(requires = "to")]
        from: Option<String>,
        /// To that one
        to: Option<String>,
        #[command(flatten)]
        lab: Lab,
        #[command(flatten)]
        change: Change,
        /// Only from the first to the second
        #[arg(long)]
        one_way: bool,
    },
    /// Say that a pod is ready, or is not: whether services of its cluster send new flows to it
    Ready {
        /// The pod
        pod: String,
        /// It is not
        #[arg(long)]
        not: bool,
        #[command(flatten)]
        lab: Lab,
    },
    /// Let the NAT box of a site forget all its mappings
    Remap {
        /// The site's router
        router: String,
        #[command(flatten)]
        lab: Lab,
    },
    /// Give the NAT box of a site another outside address, and print it
    Move {
        /// The site's router
        router: String,
        #[command(flatten)]
        lab: Lab,
    },
    /// Answer at a port, here, until Ctrl-C, as a pod would: `shell PLACE -- tombolo-lab answer 4500/udp`
    Answer {
        /// Such as 80/tcp
        #[arg(value_parser = door)]
        port: (u16, Protocol),
        /// The name to answer with
        #[arg(long, default_value = "here")]
        name: String,
    },
    /// Print what a scenario is made of, and build nothing
    Plan {
        /// A scenario file, or the name of one
        file: PathBuf,
    },
    /// Try what this machine can do of what labs need
    Check,
    /// Be a lab
    #[command(hide = true)]
    Keep {
        file: PathBuf,
        #[arg(long)]
        name: String,
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        stay: bool,
        #[arg(long, value_name = "PROGRAM")]
        play: Option<PathBuf>,
        #[arg(long)]
        record: Option<PathBuf>,
        #[arg(long, value_name = "JSON")]
        bench: Option<String>,
    },
}

/// What to play, and how to tell.
#[derive(clap::Args, Debug)]
pub(super) struct Run {
    /// Scenario files, or names of such here or in scenarios/ without .yaml
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Pins the chance of links, of probes, and of when daemons start; the machine has chance of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Play each so often, with the seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) times: u64,
    /// Play each in the simulator too, and say whether the verdicts are the same
    #[arg(long, value_name = "SPEED")]
    pub(super) against: Option<Speed>,
    /// Print everything that happened, before the verdicts
    #[arg(long)]
    pub(super) trace: bool,
    /// Print one line for each change that matters: acts, leadership, paths and flows
    #[arg(long)]
    pub(super) timeline: bool,
    #[command(flatten)]
    pub(super) told: Told,
}

/// How to soak.
#[derive(clap::Args, Debug)]
pub(super) struct Soak {
    /// Bursts begin for so long; each takes one minute to four, with its quiet time
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub(super) minutes: u64,
    /// Draws the faults: tombolo-sim plays the same ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) told: Told,
}

/// What to measure.
#[derive(clap::Args, Debug)]
pub(super) struct Bench {
    /// Measure each so often
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) rounds: u64,
    /// Let streams run so long
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub(super) lasts: u64,
    /// Another's userspace WireGuard: a program that takes the name of a link and returns when it is there, as wireguard-go does
    #[arg(long, value_name = "PROGRAM", default_value = "wireguard-go")]
    pub(super) beside: Vec<PathBuf>,
    /// table: for people; json: one document
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,
    /// The program tombolo [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    pub(super) program: Option<PathBuf>,
}

/// With which daemons it is played, and how it is told.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Told {
    /// table: for people; json: one document a run
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,
    /// Keep here what the daemons say (.log), what they took (.record, for tombolo replay), what happened (.trace), and
    /// what soak has drawn (.yaml) [default: nothing is kept, but what soak has drawn, among temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub(super) record: Option<PathBuf>,
    /// The program tombolo [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    pub(super) program: Option<PathBuf>,
}

/// How outcomes are told.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// For people.
    Table,
    /// One document a run.
    Json,
}

/// Which lab.
#[derive(clap::Args, Debug)]
pub(super) struct Lab {
    /// Which lab [default: the one that is up]
    #[arg(long = "lab", value_name = "NAME")]
    pub(super) name: Option<String>,
}

/// Two hosts.
#[derive(clap::Args, Debug)]
pub(super) struct Pair {
    /// A host: a node or an API server
    pub(super) from: String,
    /// Another
    pub(super) to: String,
    /// Only from the first to the second
    #[arg(long)]
    pub(super) one_way: bool,
    #[command(flatten)]
    pub(super) lab: Lab,
}

/// How a link is to be.
#[derive(clap::Args, Debug)]
pub(super) struct Change {
    /// What each packet takes, in milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(super) latency: Option<Duration>,
    /// Added to it by chance, at most so many milliseconds
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(super) jitter: Option<Duration>,
    /// Packets lost
    #[arg(long, value_name = "PERCENT", value_parser = millionths)]
    pub(super) loss: Option<u32>,
    /// Packets that later ones overtake
    #[arg(long, value_name = "PERCENT", value_parser = millionths)]
    pub(super) reorder: Option<u32>,
    /// The longest packet that passes
    #[arg(long, value_name = "BYTES")]
    pub(super) mtu: Option<u16>,
    /// Nothing passes
    #[arg(long, conflicts_with = "heal")]
    pub(super) cut: bool,
    /// What passes, passes again
    #[arg(long)]
    pub(super) heal: bool,
}

fn door(text: &str) -> Result<(u16, Protocol), String> {
    let wrong = || format!("'{text}' is no port such as 80/tcp or 53/udp");
    let (port, protocol) = text.split_once('/').ok_or_else(wrong)?;
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return Err(wrong()),
    };
    Ok((port.parse().map_err(|_| wrong())?, protocol))
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no number of milliseconds such as 20 or 0.5");
    let milliseconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(milliseconds / 1000.0).map_err(|_| wrong())
}

fn millionths(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is no percentage between 0 and 100");
    let percent: f64 = text.trim_end_matches('%').parse().map_err(|_| wrong())?;
    let millionths = Duration::try_from_secs_f64(percent / 100.0).map_err(|_| wrong())?;
    let millionths = u32::try_from(millionths.as_micros()).map_err(|_| wrong())?;
    if millionths <= 1_000_000 { Ok(millionths) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }

    #[test]
    fn percentages_are_read_exactly_and_only_such() {
        assert_eq!(["1", "0.5%", "100", "0"].map(millionths), [10_000, 5_000, 1_000_000, 0].map(Ok));
        assert!(["101", "-1", "x", ""].map(millionths).iter().all(Result::is_err));
        assert_eq!(milliseconds("0.5"), Ok(Duration::from_micros(500)));
    }
}
