//! The next deadline of a step.

use crate::base::Instant;

/// Why the machine wants to wake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The own beat grows.
    Beat,
    /// A hello is due.
    Hello,
    /// A suspect is asked.
    Ask,
    /// An answer that had to wait.
    Answer,
    /// A session may have gone down, or is no longer fresh.
    Silent,
    /// An end's beat may have stood still.
    Stale,
    /// A bad grade may have lasted.
    Inside,
    /// A claim may be allowed, or a revocation.
    Claim,
    /// A session may turn slow.
    Calm,
    /// It is to be asked how long packets may be, or the answer is overdue.
    Length,
}

/// Collects the earliest deadline after `now`. A deadline of the past has had its effect in this very step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wake {
    now: Instant,
    next: Option<(Instant, Reason)>,
}

impl Wake {
    pub(super) const fn after(now: Instant) -> Self {
        Self { now, next: None }
    }

    pub(super) fn at(&mut self, at: Instant, reason: Reason) {
        if at > self.now && self.next.is_none_or(|(next, _)| at < next) {
            self.next = Some((at, reason));
        }
    }

    pub(super) fn also(&mut self, other: Option<(Instant, Reason)>) {
        if let Some((at, reason)) = other {
            self.at(at, reason);
        }
    }

    pub(super) const fn next(&self) -> Option<(Instant, Reason)> {
        self.next
    }
}

/// Whether a deadline has come.
pub(super) fn due(next: Option<(Instant, Reason)>, now: Instant) -> bool {
    next.is_some_and(|(at, _)| at <= now)
}
