//! The own public address: looked up once a minute, and at once when a peer sees us under another.

use super::timing::{LOOKUP, LOOKUP_AGAIN, LOOKUP_TIMEOUT};
use crate::base::{Instant, Rng};
use core::net::IpAddr;

/// What is known of the own public address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Public {
    /// `None` where there is nothing to look it up with: then it never is.
    next: Option<Instant>,
    /// A lookup is under way until then.
    asked_until: Option<Instant>,
    asked_at: Option<Instant>,
    failures: u32,
    /// What the last lookup that worked gave.
    known: Option<Option<IpAddr>>,
}

impl Public {
    pub(super) fn new(looks_up: bool, boot: Instant) -> Self {
        Self { next: looks_up.then_some(boot), asked_until: None, asked_at: None, failures: 0, known: None }
    }

    /// A peer saw us under this address. True evidence that ours is out of date only makes us look.
    pub(super) fn seen(&mut self, address: IpAddr, now: Instant) {
        if self.known.is_some_and(|known| known != Some(address)) {
            self.doubt(now);
        }
    }

    /// It may be out of date: it is looked up as soon as that is due again.
    pub(super) fn doubt(&mut self, now: Instant) {
        let soonest = self.asked_at.map_or(now, |at| (at + LOOKUP_AGAIN).max(now));
        self.next = self.next.map(|next| next.min(soonest));
    }

    /// What came of a lookup; the address if it is the first one, or another. An error changes nothing.
    pub(super) fn looked_up(
        &mut self,
        result: Result<Option<IpAddr>, ()>,
        rng: &mut Rng,
        now: Instant,
    ) -> Option<Option<IpAddr>> {
        self.asked_until.take()?;
        match result {
            Ok(address) => {
                self.failures = 0;
                self.next = Some(now + LOOKUP);
                let changed = self.known != Some(address);
                self.known = Some(address);
                changed.then_some(address)
            }
            Err(()) => {
                self.fail(rng, now);
                None
            }
        }
    }

    fn fail(&mut self, rng: &mut Rng, now: Instant) {
        self.next = Some(now + rng.pause((LOOKUP_AGAIN, LOOKUP), self.failures));
        self.failures = self.failures.saturating_add(1);
    }

    /// Does what is due; true if a lookup is.
    pub(super) fn settle(&mut self, rng: &mut Rng, now: Instant) -> bool {
        if self.asked_until.is_some_and(|until| now >= until) {
            self.asked_until = None;
            self.fail(rng, now);
        }
        let due = self.asked_until.is_none() && self.next.is_some_and(|next| now >= next);
        if due {
            self.asked_until = Some(now + LOOKUP_TIMEOUT);
            self.asked_at = Some(now);
        }
        due
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.asked_until.or(self.next)
    }
}
