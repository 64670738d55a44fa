//! `fuzz`: draws a scenario from each seed, plays it, and of each that fails writes the smallest that fails alike.
//!
//! Seeds are played on all cores; a run stays on one thread and shares nothing, so a seed always ends alike. What is found
//! is told as it comes. A file that was written is read and played again, as whoever gets it will: only then it counts.
#![allow(clippy::disallowed_types, reason = "the time after which to stop is the user's")]

use super::Ending;
use super::args::{Format, Fuzz};
use super::output::{self, Progress};
use super::run::replay;
use anyhow::{Context as _, bail};
use core::sync::atomic::{AtomicU64, Ordering};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Instant;
use tombolo_scenarios::fuzz::{Blame, Fault, Kept, draw, faults, smallest};
use tombolo_scenarios::{Options, Scenario};
use tombolo_sim::{Speed, WorldError};

/// What a thread has to say.
enum News {
    Played { seed: u64, failed: Option<Fault> },
    Kept { seed: u64, kept: Box<Kept> },
    Unusable { seed: u64, because: String },
}

/// Hunts.
pub(super) fn fuzz(asked: &Fuzz) -> anyhow::Result<Ending> {
    if !asked.out.is_dir() {
        bail!("{} is no folder: --out names the folder for the files of what fails", asked.out.display());
    }
    // Better now than when something was found.
    let trial = asked.out.join(".fuzz");
    std::fs::write(&trial, "").with_context(|| format!("nothing can be written to {} (--out)", asked.out.display()))?;
    std::fs::remove_file(&trial).with_context(|| trial.display().to_string())?;
    let began = Instant::now();
    let hunt = Hunt { asked, began, next: AtomicU64::new(asked.range().0) };
    let mut teller =
        Teller { asked, began, progress: Progress::open(), played: 0, failed: BTreeMap::new(), unusable: 0 };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (sender, receiver) = mpsc::sync_channel(2 * threads);
        for _ in 0..threads {
            let (sender, hunt) = (sender.clone(), &hunt);
            scope.spawn(move || hunt.work(&sender));
        }
        drop(sender);
        // An error drops the receiver: no thread goes on with nobody to listen.
        receiver.into_iter().try_for_each(|news| teller.tell(news))
    })
    .inspect_err(|_| teller.progress.wipe())?;
    teller.end()
}

struct Hunt<'a> {
    asked: &'a Fuzz,
    began: Instant,
    next: AtomicU64,
}

impl Hunt<'_> {
    fn work(&self, sender: &mpsc::SyncSender<News>) {
        while let Some(seed) = self.pick() {
            if self.hunt(seed, &|news| sender.send(news).is_ok()).is_none() {
                return;
            }
        }
    }

    fn pick(&self) -> Option<u64> {
        let (_, last) = self.asked.range();
        // The last seed that there is has no next one: it is left out.
        let next = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seed| seed.checked_add(1));
        next.ok().filter(|seed| *seed <= last && !self.is_over())
    }

    fn is_over(&self) -> bool {
        self.asked.limit().is_some_and(|limit| self.began.elapsed() >= limit)
    }

    /// Plays one seed to its file. `None` where nobody listens.
    fn hunt(&self, seed: u64, say: &dyn Fn(News) -> bool) -> Option<()> {
        let speed = self.asked.speed;
        let unusable = |because: String| News::Unusable { seed, because };
        let drawn = draw(seed, &self.asked.without);
        let found = match play(&drawn, seed, speed) {
            Ok(faults) => faults.into_iter().next(),
            Err(error) => return say(unusable(error.to_string())).then_some(()),
        };
        if !say(News::Played { seed, failed: found.clone() }) {
            return None;
        }
        let Some(found) = found else { return Some(()) };
        let alike = |candidate: &Scenario| play(candidate, seed, speed).unwrap_or_default();
        let kept = smallest(&drawn, found.blame, self.asked.shrink, &|| self.is_over(), &alike);
        let lost = || unusable(format!("it fails, but no file can be written that fails alike: {}", found.blame));
        say(kept.map_or_else(lost, |kept| News::Kept { seed, kept: Box::new(kept) })).then_some(())
    }
}

fn play(scenario: &Scenario, seed: u64, speed: Speed) -> Result<Vec<Fault>, WorldError> {
    let mut stage = speed.stage(scenario, seed)?;
    let report = tombolo_scenarios::run(scenario, stage.as_mut(), &Options { seed });
    Ok(faults(scenario, &report))
}

struct Teller<'a> {
    asked: &'a Fuzz,
    began: Instant,
    progress: Progress,
    played: usize,
    /// By seed, with the file if there is one by now.
    failed: BTreeMap<u64, (Fault, Option<Kept>)>,
    unusable: usize,
}

impl Teller<'_> {
    fn tell(&mut self, news: News) -> anyhow::Result<()> {
        self.progress.wipe();
        match news {
            News::Played { seed, failed } => {
                self.played += 1;
                if let Some(fault) = failed {
                    self.say(&format!("FAILED  seed {seed}: {fault}"))?;
                    self.failed.insert(seed, (fault, None));
                }
            }
            News::Kept { seed, kept } => {
                let path = self.path(seed);
                let text = format!("{}{}", self.header(seed, &kept.fault), kept.text);
                std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
                let (acts, runs) = (kept.scenario.timeline.len(), kept.runs);
                let nodes: usize = kept.scenario.clusters.values().map(|cluster| cluster.nodes.len()).sum();
                self.say(&format!(
                    "        seed {seed}: {acts} acts on {nodes} nodes after {runs} smaller runs\n        replay: {}",
                    self.replay(seed)
                ))?;
                self.failed.insert(seed, (kept.fault.clone(), Some(*kept)));
            }
            News::Unusable { seed, because } => {
                self.unusable += 1;
                output::complain(&format!("seed {seed}: {because}"));
            }
        }
        let seconds = self.began.elapsed().as_secs();
        self.progress.show(&format!("{} seeds in {seconds} s, {} failed", self.played, self.failed.len()));
        Ok(())
    }

    fn path(&self, seed: u64) -> PathBuf {
        self.asked.out.join(format!("fuzz-{seed}.yaml"))
    }

    fn replay(&self, seed: u64) -> String {
        replay("run", &self.path(seed), seed, self.asked.speed) + " --timeline"
    }

    /// What a reader of the file needs to know first.
    fn header(&self, seed: u64, fault: &Fault) -> String {
        let without = self.asked.without.iter().map(|word| format!(" --without {word}")).collect::<String>();
        let found = format!("tombolo-sim fuzz --seeds {seed}..{seed} --speed {}{without}", self.asked.speed);
        format!("# Breaks: {fault}\n# Found:  {found}\n# Replay: {}\n", self.replay(seed))
    }

    /// For people, as it happens.
    fn say(&self, text: &str) -> anyhow::Result<()> {
        if self.asked.output == Format::Table { output::say_table(text) } else { Ok(()) }
    }

    fn end(&self) -> anyhow::Result<Ending> {
        self.progress.wipe();
        let mut kinds: BTreeMap<Blame, usize> = BTreeMap::new();
        self.failed.values().for_each(|(fault, _)| *kinds.entry(fault.blame).or_default() += 1);
        match self.asked.output {
            Format::Table => {
                let word = if self.failed.is_empty() { "ok" } else { "FAILED" };
                let seconds = self.began.elapsed().as_secs_f64();
                let kinds = kinds.iter().map(|(blame, count)| format!(", {blame} {count}")).collect::<String>();
                let (played, failed, speed) = (self.played, self.failed.len(), self.asked.speed);
                output::say_table(&format!(
                    "{word:<8}{played} seeds at {speed} speed in {seconds:.0} s, {failed} failed{kinds}"
                ))?;
            }
            Format::Json => output::say(&self.json().to_string())?,
        }
        Ok(if self.unusable > 0 {
            Ending::Unusable
        } else if self.failed.is_empty() {
            Ending::Held
        } else {
            Ending::Failed
        })
    }

    fn json(&self) -> serde_json::Value {
        let one = |(seed, (fault, kept)): (&u64, &(Fault, Option<Kept>))| {
            json!({
                "seed": seed,
                "broken": fault.blame.to_string(),
                "at_ms": fault.at.as_millis(),
                "text": fault.text,
                "file": kept.as_ref().map(|_| self.path(*seed).display().to_string()),
                "acts": kept.as_ref().map(|kept| kept.scenario.timeline.len()),
                "replay": kept.as_ref().map(|_| self.replay(*seed)),
            })
        };
        json!({
            "speed": self.asked.speed.name(),
            "seeds": self.played,
            "not_simulated": self.unusable,
            "failed": self.failed.iter().map(one).collect::<Vec<_>>(),
        })
    }
}
