//! How long something has been missing.

use crate::base::Instant;
use crate::model::Key;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

/// How long an absence must last before it is believed. An API that lost its data is filled again by those who wrote
/// there as soon as they see it: they poll and list within this time.
pub const ABSENCE: Duration = Duration::from_secs(5);

/// Objects that a listing did not show, and since when. An absence is weak evidence (F3): the object may be gone, or the
/// API may have lost it while its owner still stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Absences {
    /// When each will have lasted; `None` once it has.
    until: BTreeMap<Key, Option<Instant>>,
}

impl Absences {
    /// The object is missing now. Costs nothing if that is known.
    pub fn note(&mut self, key: &Key, now: Instant) {
        if !self.until.contains_key(key) {
            self.until.insert(key.clone(), Some(now + ABSENCE));
        }
    }

    /// Counts from now again.
    pub fn renew(&mut self, key: &Key, now: Instant) {
        self.until.insert(key.clone(), Some(now + ABSENCE));
    }

    /// The object is not missing (any more).
    pub fn clear(&mut self, key: &Key) {
        self.until.remove(key);
    }

    /// Whether it has been missing for [`ABSENCE`].
    #[must_use]
    pub fn lasted(&self, key: &Key) -> bool {
        self.until.get(key) == Some(&None)
    }

    /// When the next one will have lasted.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.until.values().flatten().min().copied()
    }

    /// Those that have lasted just now.
    pub fn due(&mut self, now: Instant) -> Vec<Key> {
        let mut due = Vec::new();
        for (key, until) in &mut self.until {
            if until.is_some_and(|at| at <= now) {
                *until = None;
                due.push(key.clone());
            }
        }
        due
    }
}
