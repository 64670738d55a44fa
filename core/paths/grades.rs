//! What a node knows of one cluster's candidates: their origins, and the grades that follow.
//!
//! A candidate's grade says how well its cluster's workers reach it: 0 no worker (or it drains), 1 not all, 2 all.
//! A grade counts against the choice only when it lasted for INSIDE without a gap ([`Cluster::held`]): a worker that
//! loses two gateways 100 ms apart would otherwise complain of the one for the other's sake.

use super::rules::Rules;
use super::slots::{SlotSet, Slots};
use super::timing::{INSIDE, KICK, STALE};
use super::wake::{Reason, Wake};
use super::wire::Origin;
use crate::base::{Instant, Slot};

/// No worker, or it drains.
const NONE: u8 = 0;
/// Lacked by some worker.
const SOME: u8 = 1;
/// All workers.
const ALL: u8 = 2;

/// An origin, and when its beat last grew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) origin: Origin,
    pub(super) grown: Instant,
}

/// Since when the reports are bad for one candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bad {
    /// Some settled worker lacks it.
    lacked: Option<Instant>,
    /// And no worker has it, but another.
    cut: Option<Instant>,
    /// No worker has anybody.
    deserted: Option<Instant>,
}

/// What came of an origin that was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// Nothing new, or a beat that was expected.
    Calm,
    /// It had been silent, or says something else than before.
    News,
}

/// One cluster, seen from here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Cluster {
    seen: Slots<Option<Seen>>,
    bad: Slots<Bad>,
    drains: SlotSet,
    plain: Slots<u8>,
    held: Slots<u8>,
}

impl Cluster {
    /// Stores `origin` if its beat is greater than the known one (H2). Beats wrap: greater is less than half the
    /// circle ahead, so that no number, however wild, can stop the counter for good.
    pub(super) fn hear(&mut self, slot: Slot, origin: Origin, now: Instant) -> Heard {
        let known = self.seen.get_mut(slot);
        let news = match known {
            None => true,
            Some(seen) if !grew(seen.origin.beat, origin.beat) => return Heard::Calm,
            Some(seen) => {
                let before = Origin { beat: origin.beat, ..seen.origin };
                before != origin || now >= seen.grown + KICK
            }
        };
        *known = Some(Seen { origin, grown: now });
        if news { Heard::News } else { Heard::Calm }
    }

    /// Puts the own origin beside the others.
    pub(super) fn set_own(&mut self, slot: Slot, origin: Origin, now: Instant) {
        *self.seen.get_mut(slot) = Some(Seen { origin, grown: now });
    }

    /// Origins as they were heard.
    pub(super) fn origins(&self) -> impl Iterator<Item = (Slot, Origin)> {
        self.seen.iter().filter_map(|(slot, seen)| seen.map(|seen| (slot, seen.origin)))
    }

    /// When the beat of `slot` last grew.
    pub(super) fn grown(&self, slot: Slot) -> Option<Instant> {
        self.seen.get(slot).map(|seen| seen.grown)
    }

    /// Recomputes the grades; `own` is the caller's slot here, whose origin never goes stale. True if one changed.
    pub(super) fn judge(&mut self, own: Option<Slot>, rules: Rules, now: Instant) -> bool {
        let mut lacked = SlotSet::EMPTY;
        let mut had = SlotSet::EMPTY;
        let mut workers = false;
        self.drains = SlotSet::EMPTY;
        for (slot, seen) in self.seen.iter() {
            let Some(seen) = seen else { continue };
            if seen.origin.drain {
                self.drains = self.drains.union(SlotSet::of(slot));
            }
            if own == Some(slot) || now < seen.grown + STALE {
                lacked = lacked.union(seen.origin.lacked);
                had = had.union(seen.origin.had);
                workers |= seen.origin.workers;
            }
        }
        let mut changed = false;
        for slot in Slot::all() {
            let deserted = rules.grades && had.is_empty() && workers;
            let unhad = rules.grades && !had.is_empty() && !had.contains(slot);
            let complaint = rules.grades && lacked.contains(slot);
            let bad = self.bad.get_mut(slot);
            since(&mut bad.deserted, deserted, now);
            since(&mut bad.cut, unhad && complaint, now);
            since(&mut bad.lacked, complaint, now);
            let lasting = |start: Option<Instant>| start.is_some_and(|start| !rules.inside || now >= start + INSIDE);
            let drains = self.drains.contains(slot);
            let plain = grade(drains || deserted || unhad, complaint);
            let held = grade(drains || lasting(bad.deserted) || lasting(bad.cut), lasting(bad.lacked));
            changed |= (plain, held) != (*self.plain.get(slot), *self.held.get(slot));
            *self.plain.get_mut(slot) = plain;
            *self.held.get_mut(slot) = held;
        }
        changed
    }

    /// The grade now.
    pub(super) const fn plain(&self, slot: Slot) -> u8 {
        *self.plain.get(slot)
    }

    /// The grade as far as it lasted.
    pub(super) const fn held(&self, slot: Slot) -> u8 {
        *self.held.get(slot)
    }

    /// When [`Self::judge`] may give another result though nothing is heard.
    pub(super) fn wake(&self, own: Option<Slot>, wake: &mut Wake) {
        for (slot, seen) in self.seen.iter() {
            if let Some(seen) = seen.filter(|_| own != Some(slot)) {
                wake.at(seen.grown + STALE, Reason::Stale);
            }
        }
        for (_, bad) in self.bad.iter() {
            for start in [bad.lacked, bad.cut, bad.deserted].into_iter().flatten() {
                wake.at(start + INSIDE, Reason::Inside);
            }
        }
    }
}

/// Whether `new` is ahead of `old` on the circle of beats.
pub(super) const fn grew(old: u32, new: u32) -> bool {
    new != old && new.wrapping_sub(old) < 1 << 31
}

/// Worth of a pair with these grades, 0 to 8 (section 6). With the minimum alone, a side without workers would hide
/// every difference on the other.
pub(super) fn quality(a: u8, b: u8, rules: Rules) -> u8 {
    if rules.both_ends { 3 * a.min(b) + a.max(b) } else { 4 * a.min(b) }
}

/// A pair of this quality or better is reached by workers on both sides.
pub(super) const REACHED: u8 = 4;

const fn grade(none: bool, some: bool) -> u8 {
    if none {
        NONE
    } else if some {
        SOME
    } else {
        ALL
    }
}

fn since(start: &mut Option<Instant>, holds: bool, now: Instant) {
    *start = if holds { Some(start.unwrap_or(now)) } else { None };
}
