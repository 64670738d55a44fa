//! What must always hold, whatever a scenario does (ARCHITECTURE section 7): one file each, in words a user understands,
//! each with a planted bug that it catches.
//!
//! An invariant reads the scenario and the stream of facts, nothing else. What it takes from the scenario is what nobody
//! under test can get wrong: which service is exported when, and which faults are in force.

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

/// All of them.
#[must_use]
pub fn all(_scenario: &Scenario) -> Vec<Box<dyn Invariant>> {
    Vec::new()
}

/// All violations in these facts.
pub fn watch_all(invariant: &mut dyn Invariant, facts: &[Fact], ended: Duration) -> Vec<Violation> {
    let mut violations = facts.iter().filter_map(|fact| invariant.watch(fact)).collect::<Vec<_>>();
    violations.extend(invariant.end(ended));
    violations
}
