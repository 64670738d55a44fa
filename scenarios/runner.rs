//! Plays a scenario on a stage: carries out its timeline, probes what its expectations and invariants need to see,
//! listens to the facts, and judges them.
//!
//! Time goes from moment to moment: the next act or the next probe, whichever is earlier; at equal times acts go first.
//! The fact that an act was carried out is written here, from what [`Stage::act`] says it did; a stage does not tell it
//! again.

use crate::addresses::AddressBook;
use crate::bounds::{PROBE_EVERY, PROBE_TIMEOUT};
use crate::casting::Casting;
use crate::invariants;
use crate::probing::{Stream, end_of, last_probe, probe_id, stream_of, streams};
use crate::report::{Failure, Report, Watch};
use crate::verdict::{Evidence, NOT_PROBED, Verdict};
use crate::{
    Ability, Act, Expectation, Fact, Outcome, Place, Probe, ProbeId, Scenario, Stage, StageError, TraceHash, What,
    wording,
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// How to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The seed that the stage was built with; the report repeats it.
    pub seed: u64,
}

/// How many violations of one invariant are told in full; the others are counted.
const VIOLATIONS_TOLD: usize = 5;

/// Plays the scenario to its end and judges it.
#[must_use]
pub fn run(scenario: &Scenario, stage: &mut dyn Stage, options: &Options) -> Report {
    let skipped = scenario
        .needs
        .iter()
        .find_map(|ability| stage.lacks(*ability).map(|why| format!("needs {}: {why}", ability_name(*ability))));
    let mut run = Run::new(scenario, stage);
    if skipped.is_none() {
        run.play();
    }
    run.report(options.seed, skipped)
}

/// Judges facts that were recorded earlier, as [`run`] would have.
#[must_use]
pub fn judge(scenario: &Scenario, facts: &[Fact], ended: Duration) -> Vec<Verdict> {
    let streams = streams(scenario);
    let addresses = AddressBook::of(facts);
    let evidence = Evidence { scenario, streams: &streams, facts, ended };
    scenario.expect.iter().map(|expectation| evidence.judge(expectation, &addresses)).collect()
}

struct Run<'a> {
    scenario: &'a Scenario,
    stage: &'a mut dyn Stage,
    streams: Vec<Stream>,
    /// Why a stream cannot be probed here, by its place.
    lacking: BTreeMap<usize, String>,
    casting: Casting<'a>,
    probes: Vec<u32>,
    /// Probes whose outcome is still to come.
    owed: BTreeSet<ProbeId>,
    facts: Vec<Fact>,
    failures: Vec<Failure>,
    ended: Duration,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, stage: &'a mut dyn Stage) -> Self {
        let streams = streams(scenario);
        let mut lacking = BTreeMap::new();
        for (index, stream) in streams.iter().enumerate() {
            if stream.held
                && let Some(why) = stage.lacks(Ability::HeldFlows)
            {
                lacking.insert(index, why);
            }
        }
        Self {
            scenario,
            stage,
            probes: vec![0; streams.len()],
            streams,
            lacking,
            casting: Casting::new(scenario),
            owed: BTreeSet::new(),
            facts: Vec::new(),
            failures: Vec::new(),
            ended: Duration::ZERO,
        }
    }

    fn play(&mut self) {
        let end = end_of(self.scenario);
        let mut acts = self.scenario.timeline.iter().peekable();
        let mut next_probe = Duration::ZERO;
        loop {
            let next_act = acts.peek().map_or(Duration::MAX, |act| act.at);
            let next = next_act.min(next_probe).min(end);
            if let Err(error) = self.stage.advance(next) {
                self.fail(format!("the run ended early: {error}"));
                return;
            }
            self.ended = next;
            self.listen();
            if next == end {
                break;
            }
            if next == next_act {
                acts.next().into_iter().for_each(|act| self.act(act));
            } else {
                self.probe_all(next);
                next_probe = if next + PROBE_EVERY > last_probe(end) { Duration::MAX } else { next + PROBE_EVERY };
            }
            self.listen();
        }
        if !self.owed.is_empty() {
            self.fail(format!("{} probes began and their outcome never came", self.owed.len()));
        }
    }

    fn listen(&mut self) {
        for fact in self.stage.facts() {
            if let What::Probed { id, .. } = &fact.what {
                self.owed.remove(id);
            }
            self.hear(fact);
        }
    }

    fn hear(&mut self, fact: Fact) {
        self.casting.watch(&fact);
        self.facts.push(fact);
    }

    fn act(&mut self, act: &Act) {
        let what = wording::verb(&act.verb);
        let fault = match self.casting.fault(&act.verb) {
            Ok(fault) => fault,
            Err(error) => return self.could_not(&what, &error),
        };
        match self.stage.act(&fault) {
            Ok(done) => {
                self.casting.done(&act.verb, &fault);
                let done = if done.is_empty() || done == what { what } else { format!("{what}: {done}") };
                self.hear(Fact { at: self.ended, place: Place::World, what: What::Act(done) });
            }
            Err(error) => self.could_not(&what, &error),
        }
    }

    /// An act that is not carried out is told where it should have been, and the run has failed.
    fn could_not(&mut self, what: &str, error: &dyn core::fmt::Display) {
        let text = format!("could not {what}: {error}");
        self.hear(Fact { at: self.ended, place: Place::World, what: What::Act(text.clone()) });
        self.fail(text);
    }

    fn probe_all(&mut self, at: Duration) {
        for index in 0..self.streams.len() {
            if !self.lacking.contains_key(&index) {
                self.probe(index, at);
            }
        }
    }

    fn probe(&mut self, index: usize, at: Duration) {
        let (Some(stream), Some(count)) = (self.streams.get(index), self.probes.get_mut(index)) else { return };
        if !stream.probes_at(at) {
            return;
        }
        let id = probe_id(index, *count);
        *count += 1;
        let began = match self.casting.source(&stream.from) {
            Ok(from) => {
                let probe = Probe { from, to: stream.to.clone(), timeout: PROBE_TIMEOUT, held: stream.held };
                self.stage.probe(id, &probe).map_err(|error: StageError| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match began {
            Ok(()) => {
                self.owed.insert(id);
            }
            Err(why) => {
                let outcome = Outcome::Failed { because: format!("{NOT_PROBED}{why}") };
                self.hear(Fact { at, place: Place::World, what: What::Probed { id, began: at, outcome } });
            }
        }
    }

    fn fail(&mut self, text: String) {
        self.failures.push(Failure { at: self.ended, text });
    }

    fn report(mut self, seed: u64, skipped: Option<String>) -> Report {
        // In a world with time of its own, what happened may be told a moment later.
        self.facts.sort_by_key(|fact| fact.at);
        let verdicts = self.verdicts(skipped.as_deref());
        let (watches, violations) = match &skipped {
            Some(_) => Default::default(),
            None => self.watch_invariants(),
        };
        Report {
            scenario: self.scenario.name.clone(),
            stage: self.stage.name().into(),
            seed,
            skipped,
            failures: self.failures,
            verdicts,
            watches,
            violations,
            ended: self.ended,
            hash: TraceHash::of(&self.facts),
            facts: self.facts,
        }
    }

    fn verdicts(&self, skipped: Option<&str>) -> Vec<Verdict> {
        let addresses = AddressBook::of(&self.facts);
        let evidence =
            Evidence { scenario: self.scenario, streams: &self.streams, facts: &self.facts, ended: self.ended };
        let judge = |expectation: &Expectation| {
            let stream = stream_of(&self.streams, expectation);
            match skipped.or_else(|| Some(self.lacking.get(&stream?)?.as_str())) {
                Some(why) => Verdict::skipped(expectation, why),
                None => evidence.judge(expectation, &addresses),
            }
        };
        self.scenario.expect.iter().map(judge).collect()
    }

    fn watch_invariants(&self) -> (Vec<Watch>, Vec<invariants::Violation>) {
        let mut watches = Vec::new();
        let mut violations = Vec::new();
        for mut invariant in invariants::all(self.scenario) {
            let seen = invariants::watch_all(invariant.as_mut(), &self.facts, self.ended);
            watches.push(Watch {
                invariant: invariant.name(),
                stands_for: invariant.stands_for(),
                broken: seen.violations.len() as u64,
                excuses: seen.excuses,
            });
            violations.extend(seen.violations.into_iter().take(VIOLATIONS_TOLD));
        }
        (watches, violations)
    }
}

fn ability_name(ability: Ability) -> &'static str {
    match ability {
        Ability::Loss => "loss",
        Ability::Delay => "delay",
        Ability::Jitter => "jitter",
        Ability::HeldFlows => "held-flows",
        Ability::Clocks => "clocks",
        Ability::Deterministic => "deterministic",
        Ability::Hours => "hours",
    }
}

#[cfg(test)]
mod tests;
