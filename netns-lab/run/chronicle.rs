//! What time it is in the lab, and what has happened: shared by all threads.

use core::time::Duration;
use nix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tombolo_scenarios::{Fact, Place, What};

/// What the machine's monotonic clock reads. All its namespaces have the same.
fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

#[derive(Debug, Default)]
struct Pages {
    /// By the monotonic clock, in nanoseconds.
    began_ns: AtomicU64,
    facts: Mutex<Vec<Fact>>,
    broken: Mutex<Option<String>>,
}

/// See the module docs. Clones share their pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Chronicle(Arc<Pages>);

impl Chronicle {
    /// Time begins now. What was told before happened at the start.
    pub(super) fn begin(&self) {
        let now = u64::try_from(monotonic().as_nanos()).unwrap_or(u64::MAX);
        self.0.began_ns.store(now, Ordering::Relaxed);
        for fact in self.facts().iter_mut() {
            fact.at = Duration::ZERO;
        }
    }

    fn facts(&self) -> MutexGuard<'_, Vec<Fact>> {
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the start, to the microsecond.
    pub(super) fn now(&self) -> Duration {
        self.since_start(monotonic())
    }

    /// The same of a moment by the monotonic clock.
    fn since_start(&self, at: Duration) -> Duration {
        let since = at.saturating_sub(Duration::from_nanos(self.0.began_ns.load(Ordering::Relaxed)));
        Duration::new(since.as_secs(), since.subsec_micros() * 1_000)
    }

    /// Something happened just now.
    pub(super) fn tell(&self, place: Place, what: What) {
        self.tell_at(self.now(), place, what);
    }

    /// Something happened then.
    pub(super) fn tell_at(&self, at: Duration, place: Place, what: What) {
        self.facts().push(Fact { at, place, what });
    }

    /// Something happened at this moment by the monotonic clock.
    pub(super) fn tell_of(&self, at: Duration, place: Place, what: What) {
        self.tell_at(self.since_start(at), place, what);
    }

    /// What was told since the last call, in order of time. What happened a moment ago may be told in the next call.
    pub(super) fn take(&self) -> Vec<Fact> {
        let mut facts = core::mem::take(&mut *self.facts());
        facts.sort_by_key(|fact| fact.at);
        facts
    }

    /// Something in the lab itself does not work: the run is not to go on. What broke first counts.
    pub(super) fn broke(&self, because: String) {
        self.0.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(because);
    }

    /// What broke, if something did.
    pub(super) fn broken(&self) -> Option<String> {
        self.0.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_in_order_of_time_whoever_told_them_first() {
        let chronicle = Chronicle::default();
        chronicle.tell_of(Duration::from_millis(2), Place::World, What::Power(true));
        chronicle.tell_of(Duration::from_nanos(1_500), Place::World, What::Power(false));
        let told = chronicle.take().into_iter().map(|fact| (fact.at, fact.what)).collect::<Vec<_>>();
        assert_eq!(
            told,
            [(Duration::from_micros(1), What::Power(false)), (Duration::from_millis(2), What::Power(true))]
        );
        assert_eq!(chronicle.take(), []);
    }
}
