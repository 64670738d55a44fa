//! One peer cluster, seen from a node: the register of the pair of clusters, and the rules that change it (E1 to E3),
//! pace its sessions (T4) and turn it into a way (F1, F2, F4).

use super::carried::CarriedBySlot;
use super::grades::{Cluster, REACHED, quality};
use super::register::{Pair, Register};
use super::rules::Rules;
use super::session::Session;
use super::slots::{SlotSet, Slots};
use super::timing::{FIRST, FIRST_STEP, GRACE, HELLO, HOLD, KICK, LAST, LISTEN, QUIET, STALE};
use super::wake::{Reason, Wake, due};
use super::way::{Choice, Exit, Way};
use crate::base::{ClusterId, Instant, Rng, Slot};
use crate::model::Reach;
use core::cmp::Reverse;
use core::time::Duration;

/// Where and when a rule is applied.
#[derive(Clone, Copy)]
pub(super) struct Here {
    /// The own slot; none on a worker.
    pub(super) me: Option<Slot>,
    pub(super) boot: Instant,
    pub(super) rules: Rules,
    pub(super) now: Instant,
}

impl Here {
    /// T6: until then we say nothing to whom we never heard.
    pub(super) fn quiet_until(&self) -> Instant {
        if self.rules.quiet { self.boot + QUIET } else { self.boot }
    }
}

/// State for one peer cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Peer {
    pub(super) name: ClusterId,
    /// Whether the own cluster has the smaller id.
    own_is_left: bool,
    /// Its candidates' origins and grades.
    pub(super) cluster: Cluster,
    /// With its candidates; none on a worker.
    pub(super) sessions: Slots<Option<Session>>,
    register: Register,
    /// When the version was adopted.
    adopted_at: Instant,
    /// When anything in the register last changed.
    pub(super) changed_at: Instant,
    /// The last version claimed here.
    claimed: u32,
    /// Since when a session with it is up.
    first_up: Option<Instant>,
    /// Since when the choice is not alive.
    lost_since: Option<Instant>,
    hold_until: Option<Instant>,
    /// The last choice: a dead register keeps it.
    last: Option<Pair>,
    /// F2: its candidate into whose cable went what came from the overlay when a session last was up.
    carrier: Option<Slot>,
    pub(super) way: Way,
    /// The register changed in this step and nobody was told yet.
    news: bool,
    /// Something was heard; evaluate.
    touched: bool,
    next: Option<(Instant, Reason)>,
}

impl Peer {
    pub(super) fn new(own: &ClusterId, name: ClusterId, now: Instant) -> Self {
        Self {
            own_is_left: *own < name,
            name,
            cluster: Cluster::default(),
            sessions: Slots::default(),
            register: Register::default(),
            adopted_at: now,
            changed_at: now,
            claimed: 0,
            first_up: None,
            lost_since: None,
            hold_until: None,
            last: None,
            carrier: None,
            way: Way::UNKNOWN,
            news: false,
            touched: true,
            next: None,
        }
    }

    pub(super) const fn register(&self) -> Register {
        self.register
    }

    /// H3.
    pub(super) fn merge(&mut self, other: Register, now: Instant) {
        let version = self.register.version;
        if self.register.merge(other) {
            self.news = true;
            self.touched = true;
            self.changed_at = now;
            if self.register.version > version {
                self.adopted_at = now;
            }
        }
    }

    pub(super) const fn touch(&mut self) {
        self.touched = true;
    }

    /// H1: somebody is in a hurry.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.hold_until = Some(now + HOLD);
        self.touched = true;
    }

    pub(super) fn needs_evaluation(&self, now: Instant) -> bool {
        self.touched || due(self.next, now)
    }

    pub(super) const fn next(&self) -> Option<(Instant, Reason)> {
        self.next
    }

    /// Slots of `pair` here and there.
    const fn ends(&self, pair: Pair) -> (Slot, Slot) {
        if self.own_is_left { (pair.left, pair.right) } else { (pair.right, pair.left) }
    }

    const fn pair(&self, own: Slot, remote: Slot) -> Pair {
        if self.own_is_left { Pair { left: own, right: remote } } else { Pair { left: remote, right: own } }
    }

    /// Ends of the last choice, the own cluster's first.
    pub(super) fn last_ends(&self) -> Option<(Slot, Slot)> {
        self.last.map(|pair| self.ends(pair))
    }

    /// Applies all rules. True if the register changed since the last time: then the own cluster must be told.
    pub(super) fn evaluate(&mut self, here: Here, own: &Cluster, rng: &mut Rng) -> bool {
        self.touched = false;
        self.cluster.judge(None, here.rules, here.now);
        let mut wake = Wake::after(here.now);
        if let Some(me) = here.me {
            self.revoke(me, here);
            self.note_life(here, own);
            self.claim(me, here, own, &mut wake);
        }
        self.note_life(here, own);
        self.last = self.register.choice().or(self.last).or(self.register.best_claim());
        let told = core::mem::take(&mut self.news);
        if let Some(me) = here.me {
            self.pace(me, here, own);
            for session in self.sessions.iter_mut().filter_map(|(_, session)| session.as_mut()) {
                if told {
                    session.tell(here.now);
                }
                session.tick(HELLO, here.rules.ask, here.quiet_until(), rng, here.now);
                session.measure(here.now);
            }
        }
        self.way = self.find_way(here, own);
        self.find_next(here, own, wake);
        told
    }

    /// E1: each end takes back claims that are not the choice, and the choice when its other end is gone. A young
    /// claim of somebody else is spared: the claimant heard us, and our session may be on its way up.
    fn revoke(&mut self, me: Slot, here: Here) {
        let choice = self.register.choice();
        let young = self.register.version != self.claimed && here.now < self.adopted_at + GRACE && here.rules.grace;
        for pair in self.register.live() {
            let (own, remote) = self.ends(pair);
            let stands = Some(pair) == choice && (young || self.is_up(remote, here.now));
            if own == me && !stands {
                self.register.revoke(pair);
                self.news = true;
                self.changed_at = here.now;
            }
        }
    }

    fn is_up(&self, remote: Slot, now: Instant) -> bool {
        self.sessions.get(remote).as_ref().is_some_and(|session| session.is_up(now))
    }

    /// Whether a beat of either end of `pair` grew within `limit`. An end itself needs no proof of its life.
    fn beats(&self, pair: Pair, limit: Duration, here: Here, own: &Cluster) -> bool {
        let (local, remote) = self.ends(pair);
        let within = |grown: Option<Instant>| grown.is_some_and(|grown| here.now < grown + limit);
        here.me == Some(local) || within(own.grown(local)) || within(self.cluster.grown(remote))
    }

    fn is_alive(&self, here: Here, own: &Cluster) -> bool {
        self.register.choice().is_some_and(|pair| self.beats(pair, STALE, here, own))
    }

    fn note_life(&mut self, here: Here, own: &Cluster) {
        self.lost_since = if self.is_alive(here, own) { None } else { Some(self.lost_since.unwrap_or(here.now)) };
        let any_up = self.sessions.iter().any(|(remote, _)| self.is_up(remote, here.now));
        self.first_up = if any_up { Some(self.first_up.unwrap_or(here.now)) } else { None };
    }

    fn quality(&self, pair: Pair, here: Here, own: &Cluster) -> u8 {
        let (local, remote) = self.ends(pair);
        quality(own.plain(local), self.cluster.plain(remote), here.rules)
    }

    fn held_quality(&self, pair: Pair, here: Here, own: &Cluster) -> u8 {
        let (local, remote) = self.ends(pair);
        quality(own.held(local), self.cluster.held(remote), here.rules)
    }

    /// E2 and E3: who finds the choice missing, dead or worse claims the best pair of its own.
    fn claim(&mut self, me: Slot, here: Here, own: &Cluster, wake: &mut Wake) {
        let fresh = |session: &Session| session.is_up(here.now) && (session.is_fresh(here.now) || !here.rules.fresh);
        let best = self
            .sessions
            .iter()
            .filter(|(_, session)| session.as_ref().is_some_and(fresh))
            .map(|(remote, _)| self.pair(me, remote))
            .min_by_key(|pair| (Reverse(self.quality(*pair, here, own)), *pair));
        let Some(best) = best else { return };
        let mut allowed_at = here.boot + LISTEN;
        match (self.register.choice(), self.lost_since) {
            (Some(choice), None) => {
                if self.quality(best, here, own) <= self.held_quality(choice, here, own) {
                    return;
                }
            }
            (_, lost_since) => {
                if self.register.version == 0 {
                    let first = FIRST + FIRST_STEP * best.ranks_below_best();
                    allowed_at = allowed_at.max(self.first_up.unwrap_or(here.now) + first);
                }
                if self.quality(best, here, own) < REACHED && here.rules.last {
                    allowed_at = allowed_at.max(lost_since.unwrap_or(here.now) + LAST);
                }
            }
        }
        if here.now < allowed_at {
            wake.at(allowed_at, Reason::Claim);
            return;
        }
        self.register = self.register.outbid(best);
        self.claimed = self.register.version;
        self.adopted_at = here.now;
        self.changed_at = here.now;
        self.news = true;
    }

    /// T4.
    fn pace(&mut self, me: Slot, here: Here, own: &Cluster) {
        let alive = self.is_alive(here, own);
        let choice = self.register.choice();
        let held = self.hold_until.is_some_and(|until| here.now < until);
        let woken = here.rules.wake && (held || !choice.is_some_and(|pair| self.beats(pair, KICK, here, own)));
        let chosen = choice.map(|pair| (self.ends(pair), self.quality(pair, here, own)));
        let mut fast = Slots::<bool>::default();
        for (remote, _) in self.sessions.iter() {
            *fast.get_mut(remote) = !alive
                || woken
                || chosen.is_none_or(|((own_end, remote_end), quality)| {
                    own_end == me
                        || remote_end == remote
                        || here.rules.better_is_fast && self.quality(self.pair(me, remote), here, own) > quality
                });
        }
        for (remote, session) in self.sessions.iter_mut() {
            if let Some(session) = session {
                session.set_fast(*fast.get(remote), here.now);
                session.set_backs_off(alive, here.now);
            }
        }
    }

    /// F1, F2, F4.
    fn find_way(&mut self, here: Here, own: &Cluster) -> Way {
        let alive = self.is_alive(here, own);
        let reach = if alive {
            Reach::Connected
        } else if self.last.is_some() {
            Reach::Lost
        } else {
            Reach::Unknown
        };
        let ends = self.last_ends();
        let choice = ends.map(|(local, remote)| Choice { version: self.register.version, local, remote, alive });
        let out = match ends {
            None => Exit::Nowhere,
            Some((local, remote)) if here.me == Some(local) => Exit::Cable(remote),
            Some((local, _)) => Exit::Overlay(local),
        };
        let from_overlay = here.me.and_then(|me| self.find_from_overlay(me, ends, here, own));
        Way { choice, out, from_overlay, reach, carries: self.carries(here.now), carried: self.carried() }
    }

    /// How much its cables carry.
    fn carried(&self) -> CarriedBySlot {
        let mut carried = CarriedBySlot::default();
        for (slot, session) in self.sessions.iter().filter_map(|(slot, session)| Some((slot, session.as_ref()?))) {
            carried.set(slot, session.carried());
        }
        carried
    }

    /// Whose cables may carry.
    fn carries(&self, now: Instant) -> SlotSet {
        let carry = |session: &Option<Session>| session.as_ref().is_some_and(|session| session.stands_in(now));
        let carrying = self.sessions.iter().filter(|(_, session)| carry(session));
        carrying.fold(SlotSet::EMPTY, |set, (slot, _)| set.union(SlotSet::of(slot)))
    }

    /// F2. With no session up, the cable that carried last goes on: daemons that were killed say nothing, but their
    /// kernels forward (F4), and what goes into the cable of a dead host is lost as it would be here. Who has just
    /// started takes the choice's, or the first there is.
    fn find_from_overlay(&mut self, me: Slot, ends: Option<(Slot, Slot)>, here: Here, own: &Cluster) -> Option<Slot> {
        let up = self.find_carrier(me, ends, here, own);
        self.carrier = up.or(self.carrier);
        let known = |remote: &Slot| self.sessions.get(*remote).is_some();
        let unheard = [self.carrier, ends.map(|(_, remote)| remote)].into_iter().flatten().chain(Slot::all());
        up.or_else(|| unheard.into_iter().find(known))
    }

    /// The choice's remote end if that session is up, else the best that is; what stands in stays as long as it can, so
    /// that the routes rest, but not when it has only aged and another is up.
    fn find_carrier(&self, me: Slot, ends: Option<(Slot, Slot)>, here: Here, own: &Cluster) -> Option<Slot> {
        let chosen = ends.map(|(_, remote)| remote).filter(|remote| self.is_up(*remote, here.now));
        let stands_in =
            |remote: &Slot| self.sessions.get(*remote).as_ref().is_some_and(|session| session.stands_in(here.now));
        let best = || {
            let key = |remote: &Slot| {
                let pair = self.pair(me, *remote);
                (!self.is_up(*remote, here.now), Reverse(self.quality(pair, here, own)), pair)
            };
            Slot::all().into_iter().filter(stands_in).min_by_key(key)
        };
        let any_up = || Slot::all().into_iter().any(|remote| self.is_up(remote, here.now));
        let has_aged =
            |remote: &Slot| self.sessions.get(*remote).as_ref().is_some_and(|session| session.is_aged(here.now));
        let rests = |remote: &Slot| stands_in(remote) && !(has_aged(remote) && any_up());
        chosen.or_else(|| self.carrier.filter(rests)).or_else(best)
    }

    /// Whether the choice is dead, or its end over there suspect: then others should wake their sessions (T5).
    pub(super) fn is_in_hurry(&self, now: Instant) -> bool {
        let remote_end = self.last_ends().and_then(|(_, remote)| self.sessions.get(remote).as_ref());
        self.register.is_dead() || remote_end.is_some_and(|session| session.is_suspect(now))
    }

    fn find_next(&mut self, here: Here, own: &Cluster, mut wake: Wake) {
        self.cluster.wake(None, &mut wake);
        for session in self.sessions.iter().filter_map(|(_, session)| session.as_ref()) {
            session.wake_cable(here.now, &mut wake);
        }
        if let Some((local, remote)) = self.last_ends() {
            let grown = own.grown(local).filter(|_| here.me != Some(local));
            for grown in [grown, self.cluster.grown(remote)].into_iter().flatten() {
                wake.at(grown + STALE, Reason::Stale);
                wake.at(grown + KICK, Reason::Stale);
            }
        }
        wake.at(self.adopted_at + GRACE, Reason::Claim);
        if let Some(until) = self.hold_until {
            wake.at(until, Reason::Calm);
        }
        self.next = wake.next();
    }
}
