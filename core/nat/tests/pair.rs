//! Two machines with whatever between them.
//!
//! A side may stand behind a NAT box of any kind, with or without a forwarded port, and the two may share a private
//! network. What works is not computed from the kinds: [`Pair::works`] sends datagrams through copies of the boxes.

use super::{config, id, ip, key, me, millis, secs};
use crate::base::{Instant, Machine, Rng, drain};
use crate::nat::boxes::{Behaviour, Dependence, NatBox};
use crate::nat::seal::{open, seal};
use crate::nat::{Arrival, Choice, Config, Dialect, Discovery, Input, Output, Remote, Route};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use proptest::prelude::*;

const NAMES: [&str; 2] = ["west", "east"];

/// What stands before one side.
#[derive(Clone, Copy, Debug)]
struct Site {
    nat: Option<Behaviour>,
    /// The discovery port is forwarded.
    forwarded: bool,
}

/// A world of two.
#[derive(Clone, Copy, Debug)]
struct Plan {
    sites: [Site; 2],
    /// Each reaches the other's private address.
    joined: bool,
    /// Each private address is reached through the tunnel, once there is one.
    tunnelled: bool,
    dialect: Dialect,
    latency: Duration,
    loss_millionths: u32,
}

#[derive(Clone)]
struct Side {
    machine: Discovery,
    private: IpAddr,
    nat: Option<NatBox>,
    chosen: Vec<(Instant, Choice)>,
}

impl Side {
    fn new(n: usize, plan: Plan, seed: u64) -> Self {
        let private = ip(&format!("10.{}.0.1", n + 1));
        let machine = Discovery::new(Config { seed, ..config(me(NAMES[n], &format!("{private}"))) });
        let nat = plan.sites[n].nat.map(|behaviour| {
            let mut nat = NatBox::new(behaviour, ip(&format!("203.0.113.{}", n + 1)));
            if plan.sites[n].forwarded {
                nat.forward(4490, SocketAddr::new(private, 4490));
            }
            nat
        });
        Self { machine, private, nat, chosen: Vec::new() }
    }

    /// Its address in the internet: the box's, or one that is its own as well.
    fn public(&self) -> IpAddr {
        self.nat.as_ref().map_or_else(|| public_of(self.private), NatBox::outside)
    }

    fn record(&self, dialect: Dialect) -> Remote {
        Remote {
            private: Some(self.private),
            public: Some(self.public()),
            discovery_port: Some(4490),
            cable_port: 4500,
            nat_enabled: self.nat.is_some(),
            load_balancer: false,
            dialect,
        }
    }
}

/// A host without a box has a second, public address on its own link.
fn public_of(private: IpAddr) -> IpAddr {
    if private == ip("10.1.0.1") { ip("192.0.2.1") } else { ip("192.0.2.2") }
}

/// A datagram under way: source and destination as the receiver's socket will see them.
struct Flight {
    to: usize,
    arrival: Arrival,
    from: SocketAddr,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passed {
    from: SocketAddr,
    arrival: Arrival,
}

struct Pair {
    plan: Plan,
    now: Instant,
    sides: [Side; 2],
    coming: BTreeMap<(Instant, u64), Flight>,
    queued: u64,
    chance: Rng,
    /// Datagrams pass boxes but no wires.
    cut: bool,
    /// The hand's lie: whatever came in, it came by the uplink.
    credulous: bool,
}

impl Pair {
    fn new(plan: Plan, seed: u64) -> Self {
        let sides = [0, 1].map(|n| Side::new(n, plan, seed.wrapping_add(n as u64)));
        let mut pair = Self {
            plan,
            now: Instant::ZERO,
            sides,
            coming: BTreeMap::new(),
            queued: 0,
            chance: Rng::stream(seed, "pair"),
            cut: false,
            credulous: false,
        };
        pair.introduce();
        pair
    }

    /// Both are told of each other's records.
    fn introduce(&mut self) {
        for n in [0, 1] {
            let record = self.sides[1 - n].record(self.plan.dialect);
            self.tell(n, Input::Remotes(BTreeMap::from([(id(NAMES[1 - n]), record)])));
        }
    }

    fn tell(&mut self, n: usize, input: Input) {
        let now = self.now;
        while self.sides[n].machine.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.sides[n].machine.handle_timeout(now);
        }
        self.sides[n].machine.handle(input, now);
        self.settle(n);
    }

    fn settle(&mut self, n: usize) {
        for output in drain(&mut self.sides[n].machine) {
            match output {
                Output::Send { to, sealed, bytes } => {
                    let bytes = if sealed.is_some() { seal(&key(), bytes) } else { bytes };
                    let lost = self.cut || self.chance.chance(self.plan.loss_millionths);
                    let passed = pass(self.plan, &mut self.sides, n, to, self.now);
                    if let Some(Passed { from, arrival }) = passed.filter(|_| !lost) {
                        let at = self.now + self.plan.latency;
                        self.coming.insert((at, self.queued), Flight { to: 1 - n, arrival, from, bytes });
                        self.queued += 1;
                    }
                }
                Output::Chosen { choice, .. } => self.sides[n].chosen.push((self.now, choice)),
                Output::Unanswered { .. } | Output::LookUp | Output::Public(_) | Output::Ignored { .. } => {}
            }
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let wake = |n: usize| self.sides[n].machine.poll_timeout().map(|(at, _)| (at, n));
            let wake = [0, 1].into_iter().filter_map(wake).min();
            let coming = self.coming.first_key_value().map(|((at, _), _)| *at);
            match (wake, coming) {
                (Some((at, n)), coming) if at <= end && coming.is_none_or(|coming| at <= coming) => {
                    self.now = at;
                    self.sides[n].machine.handle_timeout(at);
                    self.settle(n);
                }
                (_, Some(at)) if at <= end => {
                    self.now = at;
                    if let Some((_, Flight { to, arrival, from, bytes })) = self.coming.pop_first() {
                        let found = open(&bytes, |_| Some(key()));
                        let arrival = if self.credulous { Arrival::Uplink } else { arrival };
                        self.tell(to, Input::Datagram { arrival, from, seal: found, bytes });
                    }
                }
                (_, _) => break,
            }
        }
        self.now = end;
    }

    /// Whether a question of `n` on that route is answered, once both sides have asked for a while: tried in copies.
    fn works(&self, n: usize, route: Route) -> bool {
        let mut sides = self.sides.clone();
        let mut answered = false;
        for _ in 0..3 {
            for asker in [0, 1] {
                for to in [sides[1 - asker].private, sides[1 - asker].public()] {
                    let to = SocketAddr::new(to, 4490);
                    let there = pass(self.plan, &mut sides, asker, to, self.now);
                    let Some(Passed { from, arrival: Arrival::Uplink }) = there else { continue };
                    let back = pass(self.plan, &mut sides, 1 - asker, from, self.now);
                    let home = back.is_some_and(|back| back.arrival == Arrival::Uplink);
                    let private = to.ip() == sides[1 - asker].private;
                    let right = back.is_some_and(|back| !private || back.from.ip() == to.ip());
                    answered |= asker == n && private == (route == Route::Private) && home && right;
                }
            }
        }
        answered
    }

    /// The address that `n` chose last.
    fn choice(&self, n: usize) -> Option<Choice> {
        self.sides[n].machine.choice(&id(NAMES[1 - n]))
    }

    fn address(&self, n: usize, route: Route) -> IpAddr {
        let other = &self.sides[1 - n];
        if route == Route::Private { other.private } else { other.public() }
    }
}

/// What becomes of a datagram that `n` sends to `to`: how the other side sees it, if it does.
fn pass(plan: Plan, sides: &mut [Side; 2], n: usize, to: SocketAddr, now: Instant) -> Option<Passed> {
    let socket = SocketAddr::new(sides[n].private, 4490);
    if to.ip() == sides[1 - n].private {
        let arrival = if plan.tunnelled { Arrival::Tunnel } else { Arrival::Uplink };
        return (plan.joined || plan.tunnelled).then_some(Passed { from: socket, arrival });
    }
    let public = sides[n].public();
    let from = match &mut sides[n].nat {
        Some(nat) => nat.outbound(socket, to, now),
        None => SocketAddr::new(public, 4490),
    };
    let other = &sides[1 - n];
    let arrives = to.ip() == other.public()
        && match &other.nat {
            Some(nat) => nat.inbound(to.port(), from, now).is_some(),
            None => to.port() == 4490,
        };
    arrives.then_some(Passed { from, arrival: Arrival::Uplink })
}

fn dependences() -> impl Strategy<Value = Dependence> {
    prop_oneof![Just(Dependence::Nothing), Just(Dependence::Address), Just(Dependence::AddressAndPort)]
}

fn sites() -> impl Strategy<Value = Site> {
    let nat = (dependences(), dependences(), any::<bool>()).prop_map(|(mapping, filtering, keeps_ports)| Behaviour {
        mapping,
        filtering,
        keeps_ports,
    });
    (proptest::option::weighted(0.75, nat), any::<bool>()).prop_map(|(nat, forwarded)| Site { nat, forwarded })
}

fn plans() -> impl Strategy<Value = Plan> {
    let dialect = prop_oneof![Just(Dialect::Plain), Just(Dialect::Sealed)];
    (sites(), sites(), any::<bool>(), any::<bool>(), dialect, 1_u64..200).prop_map(
        |(west, east, joined, tunnelled, dialect, latency)| Plan {
            sites: [west, east],
            joined: joined && !tunnelled,
            tunnelled,
            dialect,
            latency: millis(latency),
            loss_millionths: 0,
        },
    )
}

/// Two rounds of probes, for those boxes that let in only whom their side has written to; then the answer, and what the
/// private address still may say.
const SETTLED: Duration = Duration::from_secs(6);

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whenever a path exists each side settles on one that works, the private one if that does, and stays; where none
    /// does, the records decide after a minute.
    #[test]
    fn a_pair_settles_on_what_works_and_stays(plan in plans(), seed in any::<u64>()) {
        let mut pair = Pair::new(plan, seed);
        let works = [0, 1].map(|n| [Route::Private, Route::Public].map(|route| pair.works(n, route)));
        pair.run(SETTLED);
        for n in [0, 1] {
            let wanted = match works[n] {
                [true, _] => Some(Route::Private),
                [false, true] => Some(Route::Public),
                [false, false] => None,
            };
            let wanted = wanted.map(|route| pair.address(n, route));
            prop_assert_eq!(pair.choice(n).map(|choice| choice.address), wanted, "{} {:?}", NAMES[n], works);
        }
        pair.run(secs(60));
        let settled = pair.sides.clone().map(|side| side.chosen.len());
        prop_assert!(pair.choice(0).is_some() && pair.choice(1).is_some());
        for n in [0, 1] {
            if works[n] == [false, false] {
                let presumed = pair.sides[1 - n].record(plan.dialect);
                let route = if presumed.nat_enabled { Route::Public } else { Route::Private };
                prop_assert_eq!(pair.choice(n).map(|choice| choice.address), Some(pair.address(n, route)));
            }
        }
        pair.run(secs(1_800));
        prop_assert_eq!(pair.sides.clone().map(|side| side.chosen.len()), settled, "it moved again");
    }

    /// Whatever is lost on the way, a side ends on an address that works, and does not move often.
    #[test]
    fn losses_delay_and_do_not_mislead(plan in plans(), seed in any::<u64>(), loss in 0_u32..300_000) {
        let mut pair = Pair::new(Plan { loss_millionths: loss, ..plan }, seed);
        let works = [0, 1].map(|n| [Route::Private, Route::Public].map(|route| pair.works(n, route)));
        pair.run(secs(1_200));
        pair.plan.loss_millionths = 0;
        pair.run(secs(150));
        for n in [0, 1] {
            let chosen = pair.choice(n).map(|choice| choice.address);
            let right = [Route::Private, Route::Public].into_iter().zip(works[n]);
            let right: Vec<_> = right.filter(|(_, works)| *works).map(|(route, _)| pair.address(n, route)).collect();
            prop_assert!(right.is_empty() || chosen.is_some_and(|chosen| right.contains(&chosen)), "{works:?}");
            // At the worst loss one test in ten or so moves a side away and the next back again.
            prop_assert!(pair.sides[n].chosen.len() <= 14, "{:?}", pair.sides[n].chosen);
        }
    }
}

const OPEN: Behaviour = Behaviour { mapping: Dependence::Nothing, filtering: Dependence::Nothing, keeps_ports: true };
const STRICT: Behaviour =
    Behaviour { mapping: Dependence::AddressAndPort, filtering: Dependence::AddressAndPort, keeps_ports: false };

fn plan(west: Option<Behaviour>, east: Option<Behaviour>) -> Plan {
    Plan {
        sites: [Site { nat: west, forwarded: true }, Site { nat: east, forwarded: true }],
        joined: false,
        tunnelled: false,
        dialect: Dialect::Sealed,
        latency: millis(20),
        loss_millionths: 0,
    }
}

#[test]
fn both_behind_nat_with_their_private_addresses_answering_through_the_tunnel_stay_public_b13() {
    let mut pair = Pair::new(Plan { tunnelled: true, ..plan(Some(STRICT), Some(STRICT)) }, 1);
    pair.run(secs(600));
    for n in [0, 1] {
        assert_eq!(
            pair.sides[n].chosen.iter().map(|(_, c)| (c.address, c.nat)).collect::<Vec<_>>(),
            [(pair.address(n, Route::Public), true)]
        );
    }
    // A restart of the daemon meets a standing tunnel.
    pair.sides[0] = Side::new(0, pair.plan, 99);
    pair.introduce();
    pair.run(secs(600));
    assert_eq!(pair.choice(0).map(|choice| choice.address), Some(pair.address(0, Route::Public)));
}

/// What the test above stands on.
#[test]
fn with_a_hand_that_does_not_say_what_came_through_the_tunnel_the_same_world_breaks() {
    let mut pair = Pair::new(Plan { tunnelled: true, ..plan(Some(STRICT), Some(STRICT)) }, 1);
    pair.credulous = true;
    pair.run(secs(10));
    assert_eq!(pair.choice(0).map(|choice| choice.address), Some(pair.address(0, Route::Private)));
}

#[test]
fn a_new_public_address_is_dialled_as_soon_as_the_record_says_it_b11() {
    let mut pair = Pair::new(plan(None, Some(OPEN)), 3);
    pair.run(secs(100));
    let old = pair.address(0, Route::Public);
    pair.sides[1].nat.as_mut().unwrap().change_address(ip("203.0.113.77"));
    pair.run(secs(30));
    assert_eq!(pair.choice(0).map(|choice| choice.address), Some(old), "nobody has said so yet");
    pair.introduce();
    pair.run(millis(100));
    assert_eq!(pair.choice(0).map(|choice| (choice.address, choice.nat)), Some((ip("203.0.113.77"), true)));
    pair.run(secs(600));
    let new: Vec<bool> = pair.sides[0].chosen.iter().skip(1).map(|(_, choice)| choice.answered).collect();
    assert_eq!(new, [false, true], "believed at once, and then it answered");
}

#[test]
fn a_private_network_that_fails_is_left_within_a_test_and_three_probes_and_found_again_in_time() {
    let mut pair = Pair::new(Plan { joined: true, ..plan(Some(OPEN), Some(OPEN)) }, 5);
    pair.run(secs(100));
    assert_eq!(pair.choice(0).map(|choice| choice.address), Some(pair.address(0, Route::Private)));
    pair.plan.joined = false;
    pair.run(secs(66 + 6));
    assert_eq!(pair.choice(0).map(|choice| choice.address), Some(pair.address(0, Route::Public)));
    pair.plan.joined = true;
    pair.run(secs(500));
    assert_eq!(pair.choice(0).map(|choice| choice.address), Some(pair.address(0, Route::Public)), "not so fast");
    pair.run(secs(300));
    assert_eq!(pair.choice(0).map(|choice| choice.address), Some(pair.address(0, Route::Private)));
}

#[test]
fn a_box_that_forgets_its_mappings_moves_nothing() {
    let mut pair = Pair::new(plan(Some(STRICT), Some(STRICT)), 8);
    pair.run(secs(100));
    for side in &mut pair.sides {
        if let Some(nat) = &mut side.nat {
            nat.forget();
        }
    }
    pair.run(secs(600));
    assert_eq!(pair.sides.clone().map(|side| side.chosen.len()), [1, 1]);
}

#[test]
fn a_total_outage_of_an_hour_moves_nothing() {
    let mut pair = Pair::new(plan(Some(OPEN), None), 8);
    pair.run(secs(100));
    pair.cut = true;
    pair.run(secs(3_600));
    pair.cut = false;
    pair.run(secs(600));
    assert_eq!(pair.sides.clone().map(|side| side.chosen.len()), [1, 1]);
}
