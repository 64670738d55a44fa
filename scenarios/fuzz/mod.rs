//! Scenarios by chance, judged by what must always hold; and of one that fails, the smallest that fails alike.
//!
//! ```text
//! seed ─draw─> Scenario ─run─> Report ─Blame::of─> what is broken ─shrink─> a small Scenario ─format::write─> *.yaml
//!                  │
//!                  └ broken.rs: each fault has its cure, in the end nothing is broken, and then it is quiet
//! ```
//! A drawn scenario is *fair*: whatever it breaks it repairs, then nothing is done for long, and its expectations ask for
//! nothing before the bounds of `bounds.rs` are over. Beyond that only the invariants judge, with their own excuses.
//! Nodes are named, never meant by role: a role may be vacant at that moment, and the seed decides who has it anyway.

mod broken;
mod disturb;
mod draw;
mod shrink;
mod soak;
#[cfg(test)]
mod tests;

pub use draw::draw;
pub use shrink::{Shrunk, shrink};
pub use soak::soak;

use crate::wording::seconds;
use crate::{Expectation, Judgement, Report, Scenario, format};
use core::fmt;
use core::time::Duration;

/// What a run is blamed for. A smaller scenario fails *alike* if it is blamed for the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Blame {
    /// An invariant, by its name.
    Invariant(&'static str),
    /// Something in the timeline or the run could not be done.
    Run,
    /// An expectation of this kind.
    Expectation(&'static str),
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invariant(name) => f.pad(name),
            Self::Run => f.pad("the run itself"),
            Self::Expectation(kind) => f.pad(&format!("expectation {kind}")),
        }
    }
}

/// Something that a run is blamed for, as it was first seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What.
    pub blame: Blame,
    /// When.
    pub at: Duration,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.blame, seconds(self.at), self.text)
    }
}

/// All that this run is blamed for, one of each kind: invariants first.
#[must_use]
pub fn faults(scenario: &Scenario, report: &Report) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut add = |blame, at, text: &str| {
        if !faults.iter().any(|fault| fault.blame == blame) {
            faults.push(Fault { blame, at, text: text.to_owned() });
        }
    };
    for violation in &report.violations {
        add(Blame::Invariant(violation.invariant), violation.at, &violation.text);
    }
    for failure in &report.failures {
        add(Blame::Run, failure.at, &failure.text);
    }
    for (expectation, verdict) in scenario.expect.iter().zip(&report.verdicts) {
        if verdict.judgement == Judgement::Failed {
            let text = format!("{}: {}", verdict.expectation, verdict.detail);
            add(Blame::Expectation(kind(expectation)), verdict.at.unwrap_or(report.ended), &text);
        }
    }
    faults
}

/// A small scenario that fails, with its text.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// As read from the text.
    pub scenario: Scenario,
    /// The file, without the comment above it.
    pub text: String,
    /// What it is blamed for.
    pub fault: Fault,
    /// How many candidates were played on the way.
    pub runs: usize,
}

/// Shrinks a scenario that is blamed for this, in at most `runs_max` runs and until it `is_over`, and proves the result
/// from its text: what is read from it fails alike. `None` if it does not.
pub fn smallest(
    drawn: &Scenario,
    blame: Blame,
    runs_max: usize,
    is_over: &dyn Fn() -> bool,
    play: &dyn Fn(&Scenario) -> Vec<Fault>,
) -> Option<Kept> {
    let blamed = |scenario: &Scenario| play(scenario).into_iter().find(|fault| fault.blame == blame);
    let shrunk = shrink(drawn, runs_max, &mut |candidate| (!is_over()).then(|| blamed(candidate).is_some()));
    let text = format::written(&shrunk.scenario)?;
    let scenario = format::parse("kept.yaml", &text).ok()?;
    let fault = blamed(&scenario)?;
    Some(Kept { scenario, text, fault, runs: shrunk.runs })
}

const fn kind(expectation: &Expectation) -> &'static str {
    match expectation {
        Expectation::Connect { .. } => "connect",
        Expectation::Refuse { .. } => "refuse",
        Expectation::Dns { .. } => "dns",
        Expectation::Outage { .. } => "outage",
        Expectation::Unchanged { .. } => "unchanged",
        Expectation::Refused { .. } => "refused",
        Expectation::Settled { .. } => "settled",
    }
}
