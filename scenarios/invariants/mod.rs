//! What must always hold, whatever a scenario does (ARCHITECTURE section 7): one file each, in words a user understands,
//! each with a planted bug that it catches.
//!
//! An invariant reads the scenario and the stream of facts, nothing else. What it takes from the scenario is what nobody
//! under test can get wrong: which service is exported when, and which faults are in force.

mod converges;
mod cut_is_not_dead;
mod dns_never_lies;
mod no_early_sweep;
mod no_flap;
mod no_lost_delete;
mod one_announcer;

use crate::report::as_millis;
use crate::{Fact, Scenario};
use core::time::Duration;
use serde::Serialize;

/// An invariant was broken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// When.
    #[serde(rename = "at_ms", serialize_with = "as_millis")]
    pub at: Duration,
    /// What was seen, and what it contradicts.
    pub text: String,
}

/// Something that must always hold.
pub trait Invariant {
    /// Its name, as ARCHITECTURE section 7 has it.
    fn name(&self) -> &'static str;
    /// The public reports (B…) and kinds of faults (F…) of `spec/faults.md` that it stands for.
    fn stands_for(&self) -> &'static str;
    /// Shows it the next fact.
    fn watch(&mut self, fact: &Fact) -> Option<Violation>;
    /// The run is over; what should have happened by now?
    fn end(&mut self, ended: Duration) -> Vec<Violation>;
}

/// All of them, for this scenario.
#[must_use]
pub fn all(scenario: &Scenario) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(one_announcer::OneAnnouncer::default()),
        Box::new(cut_is_not_dead::CutIsNotDead::of(scenario)),
        Box::new(no_lost_delete::NoLostDelete::of(scenario)),
        Box::new(no_early_sweep::NoEarlySweep::of(scenario)),
        Box::new(dns_never_lies::DnsNeverLies::of(scenario)),
        Box::new(no_flap::NoFlap::of(scenario)),
        Box::new(converges::Converges::of(scenario)),
    ]
}

/// All violations in these facts.
pub fn watch_all(invariant: &mut dyn Invariant, facts: &[Fact], ended: Duration) -> Vec<Violation> {
    let mut violations = facts.iter().filter_map(|fact| invariant.watch(fact)).collect::<Vec<_>>();
    violations.extend(invariant.end(ended));
    violations
}

#[cfg(test)]
mod tests;
