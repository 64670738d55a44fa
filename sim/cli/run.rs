//! `run`: plays each seed of each scenario, on all cores, and tells the outcomes in order.

use super::Ending;
use super::args::{Format, Run};
use super::corpus::{self, Entry};
use super::output::{self, Progress};
use anyhow::{Context as _, bail};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tombolo_scenarios::{Expectation, Judgement, Options, Report, timeline, trace};
use tombolo_sim::{Speed, WorldError};

/// So many seeds that failed are named at the end.
const SEEDS_TOLD: usize = 10;

/// One run to do.
#[derive(Clone, Copy, Debug)]
struct Job<'a> {
    entry: &'a Entry,
    seed: u64,
    speed: Speed,
}

impl Job<'_> {
    fn play(self) -> Result<Report, WorldError> {
        let mut stage = self.speed.stage(&self.entry.scenario, self.seed)?;
        Ok(tombolo_scenarios::run(&self.entry.scenario, stage.as_mut(), &Options { seed: self.seed }))
    }

    fn replay(self) -> String {
        replay("run", &self.entry.path, self.seed, self.speed) + " --timeline"
    }
}

/// The command that does it again.
pub(super) fn replay(command: &str, path: &Path, seed: u64, speed: Speed) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let file = if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) };
    format!("tombolo-sim {command} {file} --seed {seed} --speed {speed}")
}

/// Plays what was asked for.
pub(super) fn run(asked: &Run) -> anyhow::Result<Ending> {
    if asked.output == Format::Json && (asked.trace || asked.timeline) {
        bail!("--trace and --timeline are for people: leave them out, or leave out --output json");
    }
    let (entries, mut not_run) = corpus::read_all(&asked.which.files);
    let seeds = asked.which.seeds();
    let speed = asked.which.speed;
    let jobs: Vec<Job<'_>> =
        entries.iter().flat_map(|entry| seeds.iter().map(move |seed| Job { entry, seed: *seed, speed })).collect();
    let mut teller = Teller { asked, several: seeds.len() > 1, ending: Ending::Held, summary: Summary::default() };
    let progress = Progress::of(jobs.len());
    let (mut done, mut failed) = (0, 0);
    in_order(&jobs, |job, result| {
        done += 1;
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                if !not_run.contains(&job.entry.path) {
                    progress.wipe();
                    output::complain(&format!("cannot simulate {}: {error}", job.entry.path.display()));
                    not_run.push(job.entry.path.clone());
                }
                return Ok(());
            }
        };
        failed += usize::from(report.judgement() == Judgement::Failed);
        progress.wipe();
        teller.tell(job, &report)?;
        progress.tell(done, failed);
        Ok(())
    })
    .inspect_err(|_| progress.wipe())?;
    progress.wipe();
    Ok(tell_not_run(&not_run, asked.which.files.len()).max(teller.ending))
}

/// Says at the end, where it is seen, which of several files were not played. Why stands above.
pub(super) fn tell_not_run(not_run: &[PathBuf], of: usize) -> Ending {
    if not_run.is_empty() {
        return Ending::Held;
    }
    if of > 1 {
        let names: Vec<String> = not_run.iter().map(|path| path.display().to_string()).collect();
        output::complain(&format!("{} of {of} scenarios did not run: {}", not_run.len(), names.join(", ")));
    }
    Ending::Unusable
}

/// Plays jobs on as many threads as there are cores, and hands out the results in the order of the jobs. A run stays on
/// one thread and shares nothing, so the number of threads changes no result.
fn in_order<'a>(
    jobs: &[Job<'a>],
    mut take: impl FnMut(Job<'a>, Result<Report, WorldError>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(2 * threads);
        for _ in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some((index, job)) = pick(jobs, next) {
                    // The receiver is gone after an error: nothing more is wanted.
                    if sender.send((index, job.play())).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        for (index, result) in receiver {
            early.insert(index, result);
            while let (Some(job), Some(result)) = (jobs.get(due), early.remove(&due)) {
                due += 1;
                take(*job, result)?;
            }
        }
        Ok(())
    })
}

fn pick<'a>(jobs: &[Job<'a>], next: &AtomicUsize) -> Option<(usize, Job<'a>)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(index).map(|job| (index, *job))
}

/// Tells reports, and at the end of a scenario what all its seeds come to.
struct Teller<'a> {
    asked: &'a Run,
    /// More than one seed a scenario.
    several: bool,
    ending: Ending,
    summary: Summary,
}

impl Teller<'_> {
    fn tell(&mut self, job: Job<'_>, report: &Report) -> anyhow::Result<()> {
        let failed = report.judgement() == Judgement::Failed;
        if failed {
            self.ending = self.ending.max(Ending::Failed);
        }
        if self.asked.output == Format::Json {
            output::say(&json(job, report)?)?;
            return Ok(());
        }
        if self.asked.trace {
            output::say(&trace::text(&job.entry.scenario, &report.facts))?;
        }
        if self.asked.timeline {
            output::say(&timeline(&job.entry.scenario, &report.facts))?;
        }
        let outage = worst_outage(job, report);
        if self.several && !failed && !self.asked.trace && !self.asked.timeline {
            output::say_table(&one_line(report, outage))?;
        } else {
            output::say_table(&report.table())?;
        }
        if failed {
            output::say(&format!("  replay: {}\n  (--trace tells every fact)", job.replay()))?;
        }
        self.summary.add(report, outage);
        if self.several && self.asked.which.seeds().last() == Some(&job.seed) {
            output::say_table(&core::mem::take(&mut self.summary).line(&job.entry.scenario.name))?;
        }
        Ok(())
    }
}

/// The report as one line of JSON, with the judgement of the whole and how to see the run again.
fn json(job: Job<'_>, report: &Report) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(report).context("cannot write the report as JSON")?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert(
            "judgement".into(),
            serde_json::to_value(report.judgement()).context("cannot write the judgement as JSON")?,
        );
        fields.insert("replay".into(), job.replay().into());
    }
    Ok(value.to_string())
}

fn one_line(report: &Report, outage: Option<Duration>) -> String {
    let outage = outage.map_or(String::new(), |outage| format!(", longest outage {}", seconds(outage)));
    let word = report.judgement().word();
    format!("{word:<8}{} | {} | seed {}{outage}, trace {}", report.scenario, report.stage, report.seed, report.hash)
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// The longest outage of all that the scenario bounds.
fn worst_outage(job: Job<'_>, report: &Report) -> Option<Duration> {
    let bounded = job.entry.scenario.expect.iter().zip(&report.verdicts);
    bounded
        .filter(|(expectation, _)| matches!(expectation, Expectation::Outage { .. }))
        .filter_map(|(_, v)| v.measured)
        .max()
}

/// What all seeds of one scenario come to.
#[derive(Default)]
struct Summary {
    runs: usize,
    failed: Vec<u64>,
    /// What did not hold, and how often.
    what: BTreeMap<String, usize>,
    skipped: usize,
    worst: Option<(Duration, u64)>,
}

impl Summary {
    fn add(&mut self, report: &Report, outage: Option<Duration>) {
        self.runs += 1;
        match report.judgement() {
            Judgement::Met => {}
            Judgement::Failed => {
                self.failed.push(report.seed);
                let verdicts = report.verdicts.iter().filter(|verdict| verdict.judgement == Judgement::Failed);
                let watches = report.watches.iter().filter(|watch| watch.broken > 0);
                let watches = watches.map(|watch| watch.invariant.to_owned());
                for what in verdicts.map(|verdict| verdict.expectation.clone()).chain(watches) {
                    *self.what.entry(what).or_default() += 1;
                }
            }
            Judgement::Skipped => self.skipped += 1,
        }
        if let Some(outage) = outage.filter(|outage| self.worst.is_none_or(|(worst, _)| *outage > worst)) {
            self.worst = Some((outage, report.seed));
        }
    }

    fn line(&self, name: &str) -> String {
        let judgement = match (self.failed.len(), self.skipped == self.runs) {
            (0, false) => Judgement::Met,
            (0, true) => Judgement::Skipped,
            (_, _) => Judgement::Failed,
        };
        let mut text = format!("{:<8}{name}: {} seeds, {} failed", judgement.word(), self.runs, self.failed.len());
        if self.skipped > 0 {
            text.push_str(&format!(", {} skipped", self.skipped));
        }
        if let Some((worst, seed)) = self.worst {
            text.push_str(&format!(", worst outage {} (seed {seed})", seconds(worst)));
        }
        if !self.failed.is_empty() {
            let seeds: Vec<String> = self.failed.iter().take(SEEDS_TOLD).map(ToString::to_string).collect();
            let more = if self.failed.len() > SEEDS_TOLD { ", …" } else { "" };
            text.push_str(&format!("; seeds {}{more}", seeds.join(", ")));
        }
        let what = self.what.iter().map(|(what, count)| format!("\n  failed  {count} times: {what}"));
        text + &what.collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_command_quotes_what_a_shell_would_take_apart() {
        let plain = replay("run", Path::new("scenarios/a.yaml"), 7, Speed::Core);
        assert_eq!(plain, "tombolo-sim run scenarios/a.yaml --seed 7 --speed core");
        let spaced = replay("run", Path::new("my file's.yaml"), 7, Speed::Full);
        assert_eq!(spaced, r"tombolo-sim run 'my file'\''s.yaml' --seed 7 --speed full");
    }
}
