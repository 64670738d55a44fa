//! One remote gateway: what was asked, what was answered, what was chosen.
//!
//! Every comparison with time flips at a deadline that [`Tested::wake`] gives, so a wake-up at any other moment finds
//! nothing to do.

use super::timing::{JITTER_PERCENT, MISSED, PREFER_PRIVATE, RESEND, RETEST, STEADY, TIMEOUT, TIMEOUT_LOAD_BALANCER};
use super::vocabulary::{Choice, Ignored, Reason, Remote, Route};
use crate::base::{Cidr, Instant, Rng};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// What a step has to know besides.
pub(super) struct Around<'a> {
    /// Whether this gateway has a discovery port.
    pub(super) asks: bool,
    pub(super) tunnelled: &'a BTreeSet<Cidr>,
    pub(super) rng: &'a mut Rng,
    pub(super) now: Instant,
}

/// What a step wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// Ask there under this number.
    Ask { to: SocketAddr, number: u64 },
    /// The choice is another.
    Choose(Choice),
    /// A choice that had worked is silent.
    Unanswered,
}

/// What was chosen and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Chosen {
    route: Route,
    choice: Choice,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It cannot be asked.
    Unasked,
    /// Probes go out.
    Testing {
        since: Instant,
        next_probe: Instant,
        /// Who answered, but is not the one that was chosen before; and whether through NAT.
        other: Option<(Route, bool)>,
        /// Silence was told.
        told: bool,
    },
    /// The public address answered; the private one may still.
    Hearing {
        until: Instant,
        /// The public address is a new choice.
        anew: bool,
    },
    /// The choice works.
    Resting { until: Instant },
}

/// One remote gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tested {
    remote: Remote,
    chosen: Option<Chosen>,
    /// What was last told.
    told: Option<Choice>,
    phase: Phase,
    /// Numbers of the last questions, until they are answered.
    private_number: Option<u64>,
    public_number: Option<u64>,
    /// Tests in a row in which the private address answered although the public one is the choice.
    steady: u8,
    wake: Option<(Instant, Reason)>,
    wishes: Vec<Wish>,
}

impl Tested {
    pub(super) fn new(remote: Remote, around: &mut Around<'_>) -> Self {
        let mut tested = Self {
            remote,
            chosen: None,
            told: None,
            phase: Phase::Unasked,
            private_number: None,
            public_number: None,
            steady: 0,
            wake: None,
            wishes: Vec::new(),
        };
        tested.start(around);
        tested
    }

    pub(super) const fn remote(&self) -> &Remote {
        &self.remote
    }

    pub(super) const fn choice(&self) -> Option<Choice> {
        self.told
    }

    pub(super) const fn wake(&self) -> Option<(Instant, Reason)> {
        self.wake
    }

    pub(super) fn take_wishes(&mut self) -> Vec<Wish> {
        core::mem::take(&mut self.wishes)
    }

    /// The records say something else. A chosen address that they still name stays, and is tested; of one that changed,
    /// the new value is believed at once: the old one is known to be wrong. So is another public address where nobody has
    /// answered yet: it may be the only one through which a box lets anything pass, once we have sent something there.
    pub(super) fn set(&mut self, remote: Remote, around: &mut Around<'_>) {
        if self.remote == remote {
            return;
        }
        let is_moved = self.remote.public != remote.public;
        self.remote = remote;
        if is_moved && self.chosen.is_none() {
            self.presume(around);
        }
        self.adjust(around);
    }

    /// The own addresses or the tunnelled ranges changed.
    pub(super) fn adjust(&mut self, around: &mut Around<'_>) {
        if let Some(chosen) = self.chosen {
            let address = self.address(chosen.route, around.tunnelled);
            let nat = chosen.choice.nat;
            match address {
                Some(address) if address == chosen.choice.address => {
                    self.choose(chosen.route, address, nat, chosen.choice.answered);
                }
                Some(address) => self.choose(chosen.route, address, nat, false),
                None => self.chosen = None,
            }
        }
        self.start(around);
    }

    /// Somebody doubts the choice.
    pub(super) fn doubt(&mut self, around: &mut Around<'_>) {
        let fast = match self.phase {
            Phase::Testing { since, .. } => around.now < since + TIMEOUT,
            Phase::Unasked => true,
            Phase::Hearing { .. } | Phase::Resting { .. } => false,
        };
        if !fast {
            self.start(around);
        }
    }

    /// Begins a test.
    fn start(&mut self, around: &mut Around<'_>) {
        self.steady = 0;
        let asked = around.asks
            && self.remote.discovery_port.is_some_and(|port| port != 0)
            && Self::routes().into_iter().any(|route| self.address(route, around.tunnelled).is_some());
        if asked {
            self.phase = Phase::Testing { since: around.now, next_probe: around.now, other: None, told: false };
        } else {
            self.phase = Phase::Unasked;
            if self.chosen.is_none_or(|chosen| !chosen.choice.answered) {
                self.presume(around);
            }
        }
        self.settle(around);
    }

    const fn routes() -> [Route; 2] {
        [Route::Private, Route::Public]
    }

    /// The address on a route. One that is reached through the tunnel is none; a public one that is the private one too
    /// is asked once.
    fn address(&self, route: Route, tunnelled: &BTreeSet<Cidr>) -> Option<IpAddr> {
        let address = match route {
            Route::Private => self.remote.private,
            Route::Public => self.remote.public.filter(|public| self.remote.private != Some(*public)),
        };
        address.filter(|address| !tunnelled.iter().any(|range| range.contains(*address)))
    }

    const fn number(&mut self, route: Route) -> &mut Option<u64> {
        match route {
            Route::Private => &mut self.private_number,
            Route::Public => &mut self.public_number,
        }
    }

    /// An answer with this number came from there.
    pub(super) fn answer(
        &mut self,
        number: u64,
        from: IpAddr,
        nat: bool,
        around: &mut Around<'_>,
    ) -> Result<(), Ignored> {
        let mut routes = Self::routes().into_iter();
        let route = routes.find(|route| *self.number(*route) == Some(number)).ok_or(Ignored::OldNumber)?;
        if route == Route::Private && self.remote.private != Some(from) {
            return Err(Ignored::OtherSource);
        }
        *self.number(route) = None;
        let used = self.hear(route, nat, around);
        self.settle(around);
        used
    }

    fn hear(&mut self, route: Route, nat: bool, around: &mut Around<'_>) -> Result<(), Ignored> {
        let Some(address) = self.address(route, around.tunnelled) else { return Err(Ignored::Tunnelled) };
        match self.phase {
            Phase::Unasked | Phase::Resting { .. } => return Err(Ignored::Late),
            Phase::Testing { since, ref mut other, .. } => {
                let kept = self.chosen.filter(|chosen| chosen.choice.answered && chosen.route != route);
                if kept.is_some() && around.now < since + MISSED {
                    *other = Some((route, nat));
                    return Ok(());
                }
                let private_too = other.filter(|(route, _)| *route == Route::Private).map(|(_, nat)| nat);
                let anew = self.chosen.is_none_or(|chosen| !chosen.choice.answered || chosen.route != route);
                self.choose(route, address, nat, true);
                match (route, private_too) {
                    (Route::Public, Some(nat)) => self.count_steady(nat, around),
                    (Route::Public, None) if self.private_number.is_some() => {
                        self.phase = Phase::Hearing { until: around.now + PREFER_PRIVATE, anew };
                    }
                    (Route::Public | Route::Private, _) => self.rest(around),
                }
            }
            Phase::Hearing { anew: true, .. } => {
                self.choose(route, address, nat, true);
                self.rest(around);
            }
            Phase::Hearing { anew: false, .. } => self.count_steady(nat, around),
        }
        Ok(())
    }

    /// The private address answered beside the public one, which is the choice.
    fn count_steady(&mut self, nat: bool, around: &mut Around<'_>) {
        let steady = self.steady.saturating_add(1);
        self.steady = steady;
        if let Some(address) = self.address(Route::Private, around.tunnelled).filter(|_| steady >= STEADY) {
            self.choose(Route::Private, address, nat, true);
        }
        self.rest(around);
    }

    fn rest(&mut self, around: &mut Around<'_>) {
        if self.chosen.is_some_and(|chosen| chosen.route == Route::Private) {
            self.steady = 0;
        }
        self.phase = Phase::Resting { until: around.now + around.rng.jitter(RETEST, JITTER_PERCENT) };
    }

    fn choose(&mut self, route: Route, address: IpAddr, nat: bool, answered: bool) {
        let choice = Choice { address, port: self.remote.cable_port, nat, answered };
        self.chosen = Some(Chosen { route, choice });
        if self.told != Some(choice) {
            self.told = Some(choice);
            self.wishes.push(Wish::Choose(choice));
        }
    }

    /// What the records say, without a test.
    fn presume(&mut self, around: &Around<'_>) {
        let behind_nat = self.remote.load_balancer || self.remote.nat_enabled;
        let order = if behind_nat { [Route::Public, Route::Private] } else { [Route::Private, Route::Public] };
        for route in order {
            if let Some(address) = self.address(route, around.tunnelled) {
                return self.choose(route, address, route == Route::Public, false);
            }
        }
    }

    const fn timeout(&self) -> Duration {
        if self.remote.load_balancer { TIMEOUT_LOAD_BALANCER } else { TIMEOUT }
    }

    /// Does what is due.
    pub(super) fn settle(&mut self, around: &mut Around<'_>) {
        let now = around.now;
        match self.phase {
            Phase::Hearing { until, .. } if now >= until => {
                self.steady = 0;
                self.rest(around);
            }
            Phase::Resting { until } if now >= until => {
                self.phase = Phase::Testing { since: now, next_probe: now, other: None, told: false };
            }
            Phase::Unasked | Phase::Testing { .. } | Phase::Hearing { .. } | Phase::Resting { .. } => {}
        }
        self.overdue(around);
        if let Phase::Testing { since, next_probe, other, told } = self.phase
            && now >= next_probe
        {
            let pause = if now < since + TIMEOUT { RESEND } else { RETEST };
            self.phase = Phase::Testing { since, next_probe: now + pause, other, told };
            self.ask(around);
        }
        self.wake = self.next(now);
    }

    /// The chosen address missed its probes, or nobody answered at all.
    fn overdue(&mut self, around: &mut Around<'_>) {
        let Phase::Testing { since, next_probe, other, told } = self.phase else { return };
        let now = around.now;
        if let Some((route, nat)) = other.filter(|_| now >= since + MISSED) {
            if let Some(address) = self.address(route, around.tunnelled) {
                self.choose(route, address, nat, true);
            }
            self.steady = 0;
            return self.rest(around);
        }
        if now >= since + self.timeout() && self.chosen.is_none() {
            self.presume(around);
        }
        let worked = self.chosen.is_some_and(|chosen| chosen.choice.answered);
        if now >= since + TIMEOUT && worked && !told {
            self.phase = Phase::Testing { since, next_probe, other, told: true };
            self.wishes.push(Wish::Unanswered);
        }
    }

    /// Asks at every address, each time under numbers of their own: an answer to an earlier round is worth nothing.
    fn ask(&mut self, around: &mut Around<'_>) {
        for route in Self::routes() {
            let to = self.address(route, around.tunnelled).zip(self.remote.discovery_port);
            let number = to.map(|_| around.rng.bits());
            *self.number(route) = number;
            if let Some(((address, port), number)) = to.zip(number) {
                self.wishes.push(Wish::Ask { to: SocketAddr::new(address, port), number });
            }
        }
    }

    fn next(&self, now: Instant) -> Option<(Instant, Reason)> {
        match self.phase {
            Phase::Unasked => None,
            Phase::Hearing { until, .. } => Some((until, Reason::Prefer)),
            Phase::Resting { until } => Some((until, Reason::Retest)),
            Phase::Testing { since, next_probe, .. } => {
                let all = [since + MISSED, since + self.timeout(), since + TIMEOUT].map(|at| (at, Reason::Timeout));
                let all = all.into_iter().chain([(next_probe, Reason::Probe)]);
                all.filter(|(at, _)| *at > now).min()
            }
        }
    }
}
