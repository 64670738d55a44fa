//! A candidate's workers: their sessions, and what they report.

use super::peer::Here;
use super::session::{Session, Word};
use super::slots::SlotSet;
use super::timing::{HELLO, REPORT_PER_WORKER};
use super::wake::{Reason, Wake, due};
use super::wire::Hello;
use crate::base::{Instant, NodeName, Rng};
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

#[derive(Clone, PartialEq, Debug)]
struct Worker {
    session: Session,
    both: SlotSet,
    settled: bool,
}

/// All workers of the own cluster.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Workers {
    by_node: BTreeMap<NodeName, Worker>,
    /// Something was heard or is to be told: speak.
    touched: bool,
    /// A report changed: add up anew.
    changed: bool,
    lacked: SlotSet,
    had: SlotSet,
    next: Option<(Instant, Reason)>,
}

impl Workers {
    /// Ends sessions with others than `nodes`, begins missing ones.
    pub(super) fn set(&mut self, nodes: &BTreeSet<&NodeName>, rng: &mut Rng, now: Instant) {
        self.by_node.retain(|node, _| nodes.contains(node));
        for node in nodes {
            if !self.by_node.contains_key(*node) {
                let session = Session::new(now, rng);
                self.by_node.insert((*node).clone(), Worker { session, both: SlotSet::EMPTY, settled: false });
            }
        }
        let period = self.period();
        for worker in self.by_node.values_mut() {
            worker.session.expect(period);
        }
        self.touched = true;
        self.changed = true;
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.by_node.is_empty()
    }

    /// Time between two reports of a worker: HELLO, above 100 workers 1 ms for each (section 10).
    fn period(&self) -> Duration {
        HELLO.max(REPORT_PER_WORKER * u32::try_from(self.by_node.len()).unwrap_or(u32::MAX).min(60_000))
    }

    /// The same in milliseconds, as workers are told.
    pub(super) fn report_ms(&self) -> u16 {
        u16::try_from(self.period().as_millis()).unwrap_or(u16::MAX)
    }

    /// H1. None if there is no such worker.
    pub(super) fn hear(&mut self, node: &NodeName, hello: &Hello, now: Instant) -> Option<()> {
        let worker = self.by_node.get_mut(node)?;
        let overdue = due(self.next, now);
        self.touched |= overdue || hello.ask;
        self.changed |=
            overdue || !worker.session.hears(now) || (worker.both, worker.settled) != (hello.both, hello.settled);
        worker.session.hear(hello.hears, hello.ask, now);
        worker.session.digest = Some(hello.digest);
        (worker.both, worker.settled) = (hello.both, hello.settled);
        let mut wake = Wake::after(now);
        wake.also(self.next);
        worker.session.wake(&mut wake);
        self.next = wake.next();
        Some(())
    }

    /// E0: which candidates are lacked, and had, by workers heard lately.
    pub(super) fn report(&mut self, now: Instant) -> (SlotSet, SlotSet) {
        if core::mem::take(&mut self.changed) || due(self.next, now) {
            (self.lacked, self.had) = (SlotSet::EMPTY, SlotSet::EMPTY);
            for worker in self.by_node.values().filter(|worker| worker.session.hears(now)) {
                self.had = self.had.union(worker.both);
                if worker.settled && !worker.both.is_empty() {
                    self.lacked = self.lacked.union(worker.both.complement());
                }
            }
        }
        (self.lacked, self.had)
    }

    /// Tells all of a change.
    pub(super) fn tell(&mut self, now: Instant) {
        for worker in self.by_node.values_mut() {
            worker.session.tell(now);
        }
        self.touched = true;
    }

    /// Gives `say` what is due: to whom, on which session, whether it tells a change, and what.
    pub(super) fn speak(&mut self, here: Here, rng: &mut Rng, mut say: impl FnMut(&NodeName, &Session, bool, Word)) {
        if !core::mem::take(&mut self.touched) && !due(self.next, here.now) {
            return;
        }
        let mut wake = Wake::after(here.now);
        for (node, worker) in &mut self.by_node {
            let session = &mut worker.session;
            session.tick(HELLO, here.rules.ask, here.quiet_until(), rng, here.now);
            let tells = session.tells(here.now);
            if let Some(word) = session.take_word(here.now) {
                say(node, session, tells, word);
            }
            session.wake(&mut wake);
        }
        self.next = wake.next();
    }

    pub(super) const fn next(&self) -> Option<(Instant, Reason)> {
        self.next
    }
}
