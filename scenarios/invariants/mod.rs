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
mod no_leak;
mod no_lost_delete;
mod no_overlap;
mod nothing_left_behind;
mod one_announcer;

use crate::bounds::{CONVERGED_WITHIN, PROBE_EVERY};
use crate::exports::Exports;
use crate::report::as_millis;
use crate::trouble::Trouble;
use crate::wording::seconds;
use crate::{Fact, Scenario};
use core::fmt;
use core::time::Duration;
use serde::Serialize;
use tombolo_core::base::ClusterId;
use tombolo_core::model::ServiceKey;

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

/// A time in which an invariant did not watch, or not all that it watches otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Excuse {
    /// From here.
    #[serde(rename = "from_ms", serialize_with = "as_millis")]
    pub from: Duration,
    /// To here.
    #[serde(rename = "to_ms", serialize_with = "as_millis")]
    pub to: Duration,
    /// Why, each reason once, in order of time.
    pub because: Vec<String>,
}

impl fmt::Display for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}: {}", seconds(self.from), seconds(self.to), self.because.join("; "))
    }
}

/// What an invariant saw in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Where it was broken.
    pub violations: Vec<Violation>,
    /// When it did not watch, in order of time.
    pub excuses: Vec<Excuse>,
}

/// Something that must always hold.
pub trait Invariant {
    /// Its name, as ARCHITECTURE section 7 has it.
    fn name(&self) -> &'static str;
    /// The public reports (B…) and kinds of faults (F…) of `spec/faults.md` that it stands for.
    fn stands_for(&self) -> &'static str;
    /// Shows it the next fact.
    fn watch(&mut self, fact: &Fact) -> Option<Violation>;
    /// Why it does not watch at this moment, if it does not. Asked between facts, in order of time.
    fn excuse(&mut self, at: Duration) -> Option<String>;
    /// The run is over; what should have happened by now?
    fn end(&mut self, ended: Duration) -> Vec<Violation>;
}

/// All of them, for this scenario.
#[must_use]
pub fn all(scenario: &Scenario) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(one_announcer::OneAnnouncer::of(scenario)),
        Box::new(cut_is_not_dead::CutIsNotDead::of(scenario)),
        Box::new(no_lost_delete::NoLostDelete::of(scenario)),
        Box::new(no_early_sweep::NoEarlySweep::of(scenario)),
        Box::new(dns_never_lies::DnsNeverLies::of(scenario)),
        Box::new(no_overlap::NoOverlap::of(scenario)),
        Box::new(no_leak::NoLeak::of(scenario)),
        Box::new(no_flap::NoFlap::of(scenario)),
        Box::new(converges::Converges::of(scenario)),
        Box::new(nothing_left_behind::NothingLeftBehind::of(scenario)),
    ]
}

/// What it says to these facts.
pub fn watch_all(invariant: &mut dyn Invariant, facts: &[Fact], ended: Duration) -> Seen {
    let mut seen = Seen::default();
    let mut next = Duration::ZERO;
    for fact in facts {
        seen.look(invariant, &mut next, fact.at);
        seen.violations.extend(invariant.watch(fact));
    }
    seen.look(invariant, &mut next, ended);
    seen.violations.extend(invariant.end(ended));
    seen
}

/// Whether the service was exported before, and that this ended, or that it is exported anew, may only now be noticed: since
/// then there was no time in which all worked and both must have passed through all APIs and daemons. Then what its end
/// takes away may go for a while, since deletes are carried out one after the other, in the order in which they come.
fn end_may_come_late(
    exports: &Exports,
    trouble: &Trouble,
    (cluster, key): (&ClusterId, &ServiceKey),
    at: Duration,
) -> bool {
    let Some(since) = exports.since(cluster, key, at) else { return false };
    let Some(before) = since.checked_sub(Duration::from_nanos(1)) else { return false };
    exports.within(cluster, key, Duration::ZERO, before) && !trouble.was_calm(since, at, CONVERGED_WITHIN)
}

impl Seen {
    /// Asks for excuses up to `until`, in the middle of each step, so that it does not matter to which side its ends count.
    fn look(&mut self, invariant: &mut dyn Invariant, next: &mut Duration, until: Duration) {
        while *next + PROBE_EVERY / 2 < until {
            let from = *next;
            *next += PROBE_EVERY;
            if let Some(because) = invariant.excuse(from + PROBE_EVERY / 2) {
                self.excused(from, *next, because);
            }
        }
    }

    fn excused(&mut self, from: Duration, to: Duration, because: String) {
        match self.excuses.last_mut().filter(|last| last.to == from) {
            Some(last) => {
                last.to = to;
                if !last.because.contains(&because) {
                    last.because.push(because);
                }
            }
            None => self.excuses.push(Excuse { from, to, because: vec![because] }),
        }
    }
}

#[cfg(test)]
mod tests;
