//! What time it is in the world, and what has happened: shared by everything in it.

use crate::world::Clock;
use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tombolo_scenarios::{Fact, Place, What};

/// The clocks of one host. Clones are the same clocks.
#[derive(Clone, Debug)]
pub(super) struct HostClock(Arc<Mutex<Clock>>);

impl HostClock {
    pub(super) fn new(clock: Clock) -> Self {
        Self(Arc::new(Mutex::new(clock)))
    }

    pub(super) fn get(&self) -> Clock {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, clock: Clock) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = clock;
    }
}

#[derive(Debug, Default)]
struct Pages {
    now_us: AtomicU64,
    facts: Mutex<Vec<Fact>>,
    broken: Mutex<Option<String>>,
}

/// See the module docs. Clones share their pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Chronicle(Arc<Pages>);

impl Chronicle {
    /// Time since the start, to the microsecond.
    pub(super) fn now(&self) -> Duration {
        Duration::from_micros(self.0.now_us.load(Ordering::Relaxed))
    }

    pub(super) fn set_now(&self, now: Duration) {
        self.0.now_us.store(u64::try_from(now.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn tell(&self, place: Place, what: What) {
        let fact = Fact { at: self.now(), place, what };
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner).push(fact);
    }

    pub(super) fn take(&self) -> Vec<Fact> {
        core::mem::take(&mut *self.0.facts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something in the world itself does not work: the run is not to go on. What broke first counts.
    pub(super) fn broke(&self, because: String) {
        self.0.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(because);
    }

    /// What broke, if something did.
    pub(super) fn broken(&self) -> Option<String> {
        self.0.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
