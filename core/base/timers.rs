//! The timer table of a machine: one deadline a reason, whose minimum is the machine's timeout.

use super::Instant;
use alloc::collections::BTreeMap;

/// One deadline for each reason `K`. Few entries are expected: the minimum is found by a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timers<K: Ord>(BTreeMap<K, Instant>);

impl<K: Ord> Default for Timers<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Timers<K> {
    /// Sets (or moves) the deadline of `reason`.
    pub fn set(&mut self, reason: K, at: Instant) {
        self.0.insert(reason, at);
    }

    /// Takes the deadline of `reason` away.
    pub fn clear(&mut self, reason: K) {
        self.0.remove(&reason);
    }

    /// The deadline of `reason`, if one is set.
    pub fn get(&self, reason: K) -> Option<Instant> {
        self.0.get(&reason).copied()
    }

    /// The earliest deadline; of equal ones the lowest reason.
    pub fn next(&self) -> Option<(Instant, K)> {
        self.0.iter().map(|(reason, at)| (*at, *reason)).min()
    }

    /// Takes the earliest deadline that is not after `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        let (_, reason) = self.next().filter(|(at, _)| *at <= now)?;
        self.0.remove(&reason);
        Some(reason)
    }
}
