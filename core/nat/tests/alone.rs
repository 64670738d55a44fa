//! One machine, west's, and what it makes of what its peer east answers.

use super::{cluster, config, east, id, ip, me, millis, secs};
use crate::base::{Instant, Machine, drain};
use crate::nat::wire::{Details, IpPort, Message, Request, Response, VERSION, Verdict};
use crate::nat::{Arrival, Choice, Config, Dialect, Discovery, Ignored, Input, Output, Remote, RemoteId, Route, Seal};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

const PRIVATE: &str = "10.2.0.1";
const PUBLIC: &str = "203.0.113.2";

struct Alone {
    machine: Discovery,
    now: Instant,
    /// What was last asked on each route: the question's number.
    asked: BTreeMap<Route, u64>,
    /// How often anything was asked.
    probes: usize,
    outputs: Vec<Output>,
}

impl Alone {
    fn with(config: Config, remote: Remote) -> Self {
        let machine = Discovery::new(config);
        let mut alone = Self { machine, now: Instant::ZERO, asked: BTreeMap::new(), probes: 0, outputs: Vec::new() };
        alone.east_is(remote);
        alone
    }

    fn new(remote: Remote) -> Self {
        Self::with(config(me("west", "10.1.0.1")), remote)
    }

    fn east_is(&mut self, remote: Remote) {
        self.tell(Input::Remotes(BTreeMap::from([(id("east"), remote)])));
    }

    fn tell(&mut self, input: Input) {
        self.machine.handle(input, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        for output in drain(&mut self.machine) {
            if let Output::Send { to, bytes, .. } = &output
                && let Ok(Message::Request(_, request)) = Message::decode(bytes)
            {
                let route = if to.ip() == ip(PRIVATE) { Route::Private } else { Route::Public };
                self.asked.insert(route, request.number);
                self.probes += 1;
            }
            self.outputs.push(output);
        }
    }

    /// Lets time pass, with all that comes due in it.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some((at, _)) = self.machine.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = at;
            self.machine.handle_timeout(at);
            self.collect();
        }
        self.now = end;
    }

    fn datagram(&mut self, from: &str, seal: Seal, arrival: Arrival, bytes: Vec<u8>) {
        let from = SocketAddr::new(ip(from), 4490);
        self.tell(Input::Datagram { arrival, from, seal, bytes });
    }

    fn response(&self, route: Route, verdict: Verdict) -> Vec<u8> {
        let (west, east) = (id("west"), id("east"));
        let response = Response {
            number: self.asked.get(&route).copied().unwrap_or_default(),
            verdict,
            sender: Some(details(&east)),
            receiver: Some(details(&west)),
            received: Some(IpPort { address: Some(ip("10.1.0.1")), port: 4490 }),
            ..Response::default()
        };
        Message::Response(response).encode()
    }

    /// East answers what it was last asked on that route.
    fn answer(&mut self, route: Route, verdict: Verdict) {
        let from = if route == Route::Private { PRIVATE } else { PUBLIC };
        let bytes = self.response(route, verdict);
        self.datagram(from, Seal::None, Arrival::Uplink, bytes);
    }

    /// East answers all questions of the next so many tests, on these routes.
    fn tests(&mut self, count: usize, routes: &[Route]) {
        for _ in 0..count {
            let before = self.probes;
            while self.probes == before {
                self.pass(secs(1));
            }
            for route in routes {
                self.answer(*route, Verdict::Ok);
            }
            self.pass(secs(2));
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> Vec<Output> {
        let before = self.outputs.len();
        let bytes = Message::Request(VERSION, *request).encode();
        self.datagram(PUBLIC, Seal::None, Arrival::Uplink, bytes);
        self.outputs.split_off(before)
    }

    fn choice(&self) -> Option<(IpAddr, bool)> {
        self.machine.choice(&id("east")).map(|choice| (choice.address, choice.nat))
    }

    fn choices(&self) -> usize {
        self.outputs.iter().filter(|output| matches!(output, Output::Chosen { .. })).count()
    }

    fn ignored(&self, why: Ignored) -> u64 {
        self.machine.ignored().get(&why).copied().unwrap_or_default()
    }
}

fn details(id: &RemoteId) -> Details<'_> {
    Details { cluster: id.cluster.as_str(), endpoint: &id.endpoint }
}

// ── The behaviours that the specification names ──

#[test]
fn nat_private_preferred_within_1s() {
    let mut west = Alone::new(east());
    west.answer(Route::Public, Verdict::NatDetected);
    assert_eq!(west.choice(), Some((ip(PUBLIC), true)));
    west.pass(millis(999));
    west.answer(Route::Private, Verdict::Ok);
    assert_eq!(west.choice(), Some((ip(PRIVATE), false)));
    assert_eq!(west.choices(), 2);
}

#[test]
fn late_private_reply_ignored() {
    let mut west = Alone::new(east());
    west.answer(Route::Public, Verdict::NatDetected);
    west.pass(millis(1_000));
    west.answer(Route::Private, Verdict::Ok);
    assert_eq!(west.choice(), Some((ip(PUBLIC), true)));
    assert_eq!(west.ignored(Ignored::Late), 1);
}

#[test]
fn a_public_reply_after_a_private_one_changes_nothing() {
    let mut west = Alone::new(east());
    west.answer(Route::Private, Verdict::Ok);
    west.answer(Route::Public, Verdict::NatDetected);
    assert_eq!(west.choice(), Some((ip(PRIVATE), false)));
    assert_eq!((west.choices(), west.ignored(Ignored::Late)), (1, 1));
}

#[test]
fn private_reply_from_other_ip_rejected() {
    let mut west = Alone::new(east());
    let bytes = west.response(Route::Private, Verdict::Ok);
    west.datagram("10.2.0.99", Seal::None, Arrival::Uplink, bytes);
    assert_eq!((west.choice(), west.ignored(Ignored::OtherSource)), (None, 1));
    west.answer(Route::Private, Verdict::Ok);
    assert_eq!(west.choice(), Some((ip(PRIVATE), false)), "the right one is heard all the same");
}

#[test]
fn timeout_falls_back_60s() {
    for (nat_enabled, wanted) in [(true, (ip(PUBLIC), true)), (false, (ip(PRIVATE), false))] {
        let mut west = Alone::new(Remote { nat_enabled, ..east() });
        west.pass(millis(59_999));
        assert_eq!((west.choice(), west.probes), (None, 60), "two every two seconds");
        west.pass(millis(1));
        assert_eq!(west.choice(), Some(wanted));
    }
}

#[test]
fn lb_timeout_6s() {
    let mut west = Alone::new(Remote { nat_enabled: false, load_balancer: true, ..east() });
    west.pass(millis(5_999));
    assert_eq!(west.choice(), None);
    west.pass(millis(1));
    assert_eq!(west.choice(), Some((ip(PUBLIC), true)));
}

#[test]
fn no_port_uses_legacy() {
    for port in [None, Some(0)] {
        let west = Alone::new(Remote { discovery_port: port, ..east() });
        assert_eq!((west.choice(), west.probes), (Some((ip(PUBLIC), true)), 0));
    }
    let mut off = me("west", "10.1.0.1");
    off.port = 0;
    let west = Alone::with(config(off), Remote { nat_enabled: false, ..east() });
    assert_eq!((west.choice(), west.probes), (Some((ip(PRIVATE), false)), 0));
}

/// A question that east asks west.
fn question<'a>(east: &'a RemoteId, receiver: &'a RemoteId) -> Request<'a> {
    Request {
        number: 42,
        sender: Some(details(east)),
        receiver: Some(details(receiver)),
        source: Some(IpPort { address: Some(ip(PUBLIC)), port: 4490 }),
        destination: Some(IpPort { address: Some(ip("10.1.0.1")), port: 4490 }),
    }
}

fn verdict(outputs: &[Output]) -> (Verdict, [bool; 3]) {
    let [Output::Send { to, sealed: None, bytes }] = outputs else { unreachable!("{outputs:?}") };
    assert_eq!(*to, SocketAddr::new(ip(PUBLIC), 4490));
    let Ok(Message::Response(response)) = Message::decode(bytes) else { unreachable!("{bytes:?}") };
    let (west, east) = (id("west"), id("east"));
    assert_eq!((response.number, response.sender, response.receiver), (42, Some(details(&west)), Some(details(&east))));
    assert_eq!(response.received, Some(IpPort { address: Some(ip(PUBLIC)), port: 4490 }));
    let changed = [response.source_changed, response.source_port_changed, response.destination_changed];
    (response.verdict, changed)
}

#[test]
fn what_nat_changed_is_told() {
    let mut west = Alone::new(east());
    let (from, to) = (id("east"), id("west"));
    let asked = question(&from, &to);
    assert_eq!(verdict(&west.ask(&asked)), (Verdict::Ok, [false; 3]));
    let other = |address: &str, port| Some(IpPort { address: Some(ip(address)), port });
    let source = Request { source: other(PRIVATE, 4490), ..asked };
    assert_eq!(verdict(&west.ask(&source)), (Verdict::NatDetected, [true, false, false]));
    let port = Request { source: other(PUBLIC, 4491), ..asked };
    assert_eq!(verdict(&west.ask(&port)), (Verdict::NatDetected, [false, true, false]));
    let destination = Request { destination: other("198.51.100.1", 4490), ..asked };
    assert_eq!(verdict(&west.ask(&destination)), (Verdict::NatDetected, [false, false, true]));
}

#[test]
fn unknown_cluster_reply() {
    let mut west = Alone::new(east());
    let (from, south) = (id("east"), id("south"));
    assert_eq!(verdict(&west.ask(&question(&from, &south))), (Verdict::UnknownCluster, [false; 3]));
    west.answer(Route::Private, Verdict::UnknownCluster);
    assert_eq!((west.choice(), west.ignored(Ignored::Refused(Verdict::UnknownCluster))), (None, 1));
}

#[test]
fn unknown_endpoint_reply() {
    let mut west = Alone::new(east());
    let (from, mut other) = (id("east"), id("west"));
    other.endpoint = "submariner-cable-west-old".into();
    assert_eq!(verdict(&west.ask(&question(&from, &other))), (Verdict::UnknownEndpoint, [false; 3]));
    west.answer(Route::Public, Verdict::UnknownEndpoint);
    assert_eq!((west.choice(), west.ignored(Ignored::Refused(Verdict::UnknownEndpoint))), (None, 1));
}

#[test]
fn malformed_reply() {
    let mut west = Alone::new(east());
    let (from, to) = (id("east"), id("west"));
    let asked = question(&from, &to);
    for part in
        [Request { receiver: None, ..asked }, Request { source: None, ..asked }, Request { destination: None, ..asked }]
    {
        assert_eq!(verdict(&west.ask(&part)), (Verdict::Malformed, [false; 3]), "{part:?}");
    }
    assert!(west.ask(&Request { sender: None, ..asked }).iter().all(|o| matches!(o, Output::Ignored { .. })));
    assert_eq!(west.ignored(Ignored::Incomplete), 1, "who asks is not known, and strangers are not answered");
    west.answer(Route::Public, Verdict::Malformed);
    assert_eq!(west.ignored(Ignored::Refused(Verdict::Malformed)), 1);
    let bytes = west.response(Route::Public, Verdict::Ok);
    let Ok(Message::Response(full)) = Message::decode(&bytes) else { unreachable!("an answer was built") };
    let whole = Response { sender: None, receiver: None, ..full };
    for part in [whole, Response { sender: Some(details(&from)), ..whole }, Response { received: None, ..whole }] {
        west.datagram(PUBLIC, Seal::None, Arrival::Uplink, Message::Response(part).encode());
    }
    assert_eq!((west.choice(), west.ignored(Ignored::Incomplete)), (None, 4));
}

#[test]
fn old_request_number_rejected() {
    let mut west = Alone::new(east());
    let first = west.response(Route::Private, Verdict::Ok);
    west.pass(secs(2));
    west.datagram(PRIVATE, Seal::None, Arrival::Uplink, first);
    assert_eq!((west.choice(), west.ignored(Ignored::OldNumber)), (None, 1));
    west.answer(Route::Private, Verdict::Ok);
    west.answer(Route::Private, Verdict::Ok);
    assert_eq!(west.ignored(Ignored::OldNumber), 2, "a number is good for one answer");
    assert_eq!(west.choice(), Some((ip(PRIVATE), false)));
}

// ── What is done better ──

#[test]
fn a_request_of_another_version_and_a_stranger_get_no_answer() {
    let mut west = Alone::new(east());
    let (from, to, south) = (id("east"), id("west"), id("south"));
    for version in [0, 2] {
        let bytes = Message::Request(version, question(&from, &to)).encode();
        west.datagram(PUBLIC, Seal::None, Arrival::Uplink, bytes);
    }
    west.ask(&question(&south, &to));
    let itself = west.ask(&question(&to, &to));
    assert!(itself.iter().all(|output| matches!(output, Output::Ignored { .. })), "{itself:?}");
    assert_eq!((west.ignored(Ignored::Version), west.ignored(Ignored::Stranger)), (2, 2));
    west.pass(secs(1));
    let told = west.ask(&question(&south, &to));
    let from = SocketAddr::new(ip(PUBLIC), 4490);
    assert_eq!(told, [Output::Ignored { from, why: Ignored::Stranger, more: 3 }], "all are counted, one a second told");
}

#[test]
fn what_came_through_a_tunnel_is_no_evidence_b13() {
    let mut west = Alone::new(east());
    west.answer(Route::Public, Verdict::NatDetected);
    west.pass(secs(2));
    for test in 1..=3 {
        west.pass(secs(66));
        let bytes = west.response(Route::Private, Verdict::Ok);
        west.datagram(PRIVATE, Seal::None, Arrival::Tunnel, bytes);
        west.answer(Route::Public, Verdict::NatDetected);
        assert_eq!(west.ignored(Ignored::Tunnel), test);
    }
    assert_eq!((west.choice(), west.choices()), (Some((ip(PUBLIC), true)), 1));
    let (from, to) = (id("east"), id("west"));
    let before = west.outputs.len();
    let bytes = Message::Request(VERSION, question(&from, &to)).encode();
    west.datagram(PRIVATE, Seal::None, Arrival::Tunnel, bytes);
    let sent = west.outputs.get(before..).unwrap().iter().any(|output| matches!(output, Output::Send { .. }));
    assert!(!sent, "a plain peer whose probe went through the tunnel must not believe it either");
}

#[test]
fn an_address_inside_a_tunnelled_range_is_neither_asked_nor_believed_nor_presumed_b13() {
    let mut west = Alone::new(Remote { nat_enabled: false, ..east() });
    west.answer(Route::Private, Verdict::Ok);
    assert_eq!(west.choice(), Some((ip(PRIVATE), false)));
    west.asked.clear();
    west.tell(Input::Tunnelled(BTreeSet::from(["10.2.0.0/16".parse().unwrap()])));
    assert_eq!(west.asked.keys().collect::<Vec<_>>(), [&Route::Public]);
    let bytes = west.response(Route::Public, Verdict::Ok);
    west.datagram(PRIVATE, Seal::None, Arrival::Uplink, bytes);
    assert_eq!(west.ignored(Ignored::Tunnelled), 1);
    west.pass(secs(60));
    assert_eq!(west.choice(), Some((ip(PUBLIC), true)), "presumed, although the record says no NAT");
}

#[test]
fn a_choice_that_works_is_kept_while_the_other_address_comes_and_goes_f7() {
    let mut west = Alone::new(east());
    west.tests(1, &[Route::Public]);
    for _ in 0..20 {
        west.tests(9, &[Route::Private, Route::Public]);
        west.tests(1, &[Route::Public]);
    }
    assert_eq!((west.choice(), west.choices()), (Some((ip(PUBLIC), false)), 1));
    west.tests(10, &[Route::Public, Route::Private]);
    assert_eq!((west.choice(), west.choices()), (Some((ip(PRIVATE), false)), 2), "ten minutes without a gap");
}

#[test]
fn an_address_that_fails_makes_room_after_three_probes_and_not_before() {
    let mut west = Alone::new(east());
    west.answer(Route::Private, Verdict::Ok);
    let (doubted, before) = (west.now, west.probes);
    west.tell(Input::Doubt(id("east")));
    while west.choice() == Some((ip(PRIVATE), false)) {
        west.answer(Route::Public, Verdict::NatDetected);
        west.pass(millis(100));
        assert!(west.now - doubted < secs(10), "it stays");
    }
    assert_eq!((west.choice(), west.now - doubted), (Some((ip(PUBLIC), true)), secs(6)));
    assert_eq!((west.probes - before) / 2, 3);
}

#[test]
fn one_lost_answer_moves_nothing() {
    let mut west = Alone::new(east());
    west.answer(Route::Private, Verdict::Ok);
    west.pass(secs(66));
    west.answer(Route::Public, Verdict::NatDetected);
    west.pass(secs(2));
    west.answer(Route::Private, Verdict::Ok);
    west.pass(secs(60));
    assert_eq!((west.choice(), west.choices()), (Some((ip(PRIVATE), false)), 1));
}

#[test]
fn when_nobody_answers_the_last_good_choice_stays_and_is_told_once() {
    let mut west = Alone::new(Remote { nat_enabled: false, ..east() });
    west.answer(Route::Public, Verdict::NatDetected);
    west.pass(secs(3_600));
    assert_eq!((west.choice(), west.choices()), (Some((ip(PUBLIC), true)), 1));
    let told = west.outputs.iter().filter(|output| matches!(output, Output::Unanswered { .. })).count();
    assert_eq!(told, 1);
    let before = west.probes;
    west.pass(secs(600));
    assert_eq!(west.probes - before, 20, "two addresses, once a minute");
    west.tests(1, &[Route::Private]);
    assert_eq!(west.choice(), Some((ip(PRIVATE), false)), "whoever answers after that is right");
}

#[test]
fn a_presumption_gives_way_to_the_first_answer() {
    let mut west = Alone::new(east());
    west.pass(secs(60));
    assert_eq!(west.choice(), Some((ip(PUBLIC), true)));
    west.tests(1, &[Route::Private]);
    assert_eq!(west.choice(), Some((ip(PRIVATE), false)));
}

#[test]
fn a_changed_public_address_is_followed_at_once_and_a_private_choice_does_not_care_b11() {
    let moved = Remote { public: Some(ip("203.0.113.77")), ..east() };
    let mut west = Alone::new(east());
    west.answer(Route::Public, Verdict::NatDetected);
    west.pass(secs(10));
    west.east_is(moved.clone());
    assert_eq!(west.choice(), Some((ip("203.0.113.77"), true)));
    west.pass(secs(2));
    assert!(west.probes > 2, "and tested");

    let mut west = Alone::new(east());
    west.answer(Route::Private, Verdict::Ok);
    west.east_is(moved);
    assert_eq!((west.choice(), west.choices()), (Some((ip(PRIVATE), false)), 1));
}

/// Found by a newcomer: the box of one lets nobody in, that of the other whoever was sent something, so both waited for the minute
/// after which the records decide.
#[test]
fn a_public_address_that_becomes_known_is_believed_at_once_where_nobody_has_answered() {
    let mut west = Alone::new(Remote { public: None, nat_enabled: false, ..east() });
    west.pass(secs(1));
    assert_eq!(west.choice(), None);
    west.east_is(east());
    assert_eq!(west.choice(), Some((ip(PUBLIC), true)));
    west.answer(Route::Private, Verdict::Ok);
    assert_eq!(west.choice(), Some((ip(PRIVATE), false)), "whoever answers is right");
}

#[test]
fn equal_records_change_nothing_and_ask_nothing() {
    let mut west = Alone::new(east());
    west.answer(Route::Private, Verdict::Ok);
    let (before, probes) = (west.machine.clone(), west.probes);
    west.east_is(east());
    assert_eq!((west.machine == before, west.probes), (true, probes));
}

#[test]
fn who_is_gone_is_forgotten_and_its_answers_are_a_strangers() {
    let mut west = Alone::new(east());
    west.tell(Input::Remotes(BTreeMap::new()));
    assert_eq!(west.machine.poll_timeout(), None);
    west.answer(Route::Private, Verdict::Ok);
    assert_eq!((west.choice(), west.ignored(Ignored::Stranger)), (None, 1));
}

#[test]
fn between_us_only_what_bears_the_seal_of_its_sender_counts() {
    let mut west = Alone::new(Remote { dialect: Dialect::Sealed, ..east() });
    assert!(west.outputs.iter().all(|output| matches!(output, Output::Send { sealed: Some(_), .. })));
    let bytes = west.response(Route::Private, Verdict::Ok);
    for seal in [Seal::None, Seal::Broken, Seal::By(cluster("south"))] {
        west.datagram(PRIVATE, seal, Arrival::Uplink, bytes.clone());
    }
    assert_eq!((west.choice(), west.ignored(Ignored::Unsealed), west.ignored(Ignored::BadSeal)), (None, 1, 2));
    let (from, to) = (id("east"), id("west"));
    let asked = Message::Request(VERSION, question(&from, &to)).encode();
    let before = west.outputs.len();
    west.datagram(PUBLIC, Seal::None, Arrival::Uplink, asked.clone());
    west.datagram(PUBLIC, Seal::By(cluster("east")), Arrival::Uplink, asked);
    let sealed = west.outputs.split_off(before).into_iter().filter_map(|output| match output {
        Output::Send { sealed, .. } => Some(sealed),
        Output::Ignored { .. }
        | Output::Chosen { .. }
        | Output::Unanswered { .. }
        | Output::LookUp
        | Output::Public(_) => None,
    });
    assert_eq!(sealed.collect::<Vec<_>>(), [Some(cluster("east"))]);
    west.datagram(PRIVATE, Seal::By(cluster("east")), Arrival::Uplink, bytes);
    assert_eq!(west.choice(), Some((ip(PRIVATE), false)));
}

#[test]
fn a_choice_names_the_port_of_the_cable() {
    let mut west = Alone::new(Remote { cable_port: 4511, ..east() });
    west.answer(Route::Private, Verdict::Ok);
    let choice = Choice { address: ip(PRIVATE), port: 4511, nat: false, answered: true };
    assert_eq!(west.outputs.last(), Some(&Output::Chosen { remote: id("east"), choice }));
    assert_eq!(Choice { nat: true, ..choice }.to_string(), "10.2.0.1:4511, through NAT");
}

// ── The own public address ──

fn looking() -> Alone {
    Alone::with(
        Config { looks_up: true, ..config(me("west", "10.1.0.1")) },
        Remote { dialect: Dialect::Sealed, ..east() },
    )
}

fn lookups(west: &Alone) -> usize {
    west.outputs.iter().filter(|output| **output == Output::LookUp).count()
}

fn publics(west: &Alone) -> Vec<Option<IpAddr>> {
    let public = |output: &Output| match output {
        Output::Public(address) => Some(*address),
        Output::Send { .. }
        | Output::Chosen { .. }
        | Output::Unanswered { .. }
        | Output::LookUp
        | Output::Ignored { .. } => None,
    };
    west.outputs.iter().filter_map(public).collect()
}

#[test]
fn the_own_public_address_is_followed_and_a_failing_lookup_changes_nothing_b63() {
    let mut west = looking();
    let (p1, p2) = (Some(ip("198.51.100.1")), Some(ip("198.51.100.2")));
    assert_eq!(lookups(&west), 1);
    west.tell(Input::LookedUp(Ok(p1)));
    west.pass(secs(60));
    assert_eq!(lookups(&west), 2);
    west.tell(Input::LookedUp(Ok(p1)));
    assert_eq!(publics(&west), [p1], "no word when it is equal");
    for _ in 0..300 {
        let before = lookups(&west);
        west.pass(secs(1));
        if lookups(&west) > before {
            west.tell(Input::LookedUp(Err("no resolver answers".into())));
        }
    }
    assert_eq!(publics(&west), [p1]);
    assert!(lookups(&west) < 20, "failures are paced: {}", lookups(&west));
    let before = lookups(&west);
    while lookups(&west) == before {
        west.pass(secs(1));
    }
    west.tell(Input::LookedUp(Ok(p2)));
    assert_eq!(publics(&west), [p1, p2]);
}

#[test]
fn a_lookup_without_an_answer_is_given_up_and_a_late_answer_is_nobodys() {
    let mut west = looking();
    west.pass(secs(29));
    assert_eq!(lookups(&west), 1);
    west.pass(secs(1));
    west.tell(Input::LookedUp(Ok(Some(ip("198.51.100.9")))));
    assert_eq!(publics(&west), []);
    west.pass(secs(7));
    assert_eq!(lookups(&west), 2);
}

#[test]
fn being_seen_under_another_address_makes_it_look_at_once_b11() {
    let mut west = looking();
    west.tell(Input::LookedUp(Ok(Some(ip("198.51.100.1")))));
    west.pass(secs(10));
    let seen = |west: &mut Alone, address: &str| {
        let response = Response {
            number: west.asked[&Route::Public],
            sender: Some(Details { cluster: "east", endpoint: "submariner-cable-east" }),
            receiver: Some(Details { cluster: "west", endpoint: "submariner-cable-west" }),
            received: Some(IpPort { address: Some(ip(address)), port: 4490 }),
            ..Response::default()
        };
        let bytes = Message::Response(response).encode();
        west.datagram(PUBLIC, Seal::By(cluster("east")), Arrival::Uplink, bytes);
    };
    seen(&mut west, "198.51.100.1");
    assert_eq!(lookups(&west), 1, "that is what it knows");
    west.tell(Input::Doubt(id("east")));
    seen(&mut west, "198.51.100.2");
    assert_eq!(lookups(&west), 2);
    assert_eq!(publics(&west).len(), 1, "it is looked up, not believed");
}
