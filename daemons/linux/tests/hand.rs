//! The hand on its thread: what it tells, and what it puts back.

use crate::Test;
use crate::bed::{Place, Wires, until, wanted};
use crate::networks::{node, service};
use crate::round_trip::uplink;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tombolo_core::model::Protocol;
use tombolo_core::network::{Network, plan};
use tombolo_core::roles::Input;
use tombolo_linux::{Deed, Hand, Namespace, NoCables, Node, normal};
use tombolo_shell::{KernelHand, inbox};

pub const TESTS: &[Test] = &[
    ("what_others_spoil_comes_back", comes_back),
    ("what_others_do_to_their_own_makes_no_work", no_work),
    ("a_network_that_cannot_be_applied_is_told_and_not_tried_without_pause", failures),
    ("a_newer_network_overtakes_one_not_begun", overtaking),
    ("a_hand_that_ends_leaves_the_network_as_it_is", leaves),
];

/// A hand in a place, and what came of it.
struct Bench {
    hand: Hand,
    inputs: UnboundedReceiver<Input>,
    deeds: Arc<Mutex<Vec<Deed>>>,
}

impl Bench {
    fn of(place: &Place, wires: bool) -> Self {
        let (inbox, inputs) = inbox();
        let deeds = Arc::new(Mutex::new(Vec::new()));
        let told = deeds.clone();
        let tell = Box::new(move |deed| told.lock().unwrap().push(deed));
        let cables: Box<dyn tombolo_linux::Cables> = if wires { Box::<Wires>::default() } else { Box::new(NoCables) };
        let hand = Hand::start(Namespace::Of(place.namespace()), cables, inbox, tell).unwrap();
        Self { hand, inputs, deeds }
    }

    fn apply(&mut self, network: &Network) -> Result<(), String> {
        self.hand.apply(Arc::new(wanted(network)));
        match self.inputs.blocking_recv() {
            Some(Input::Applied(outcome)) => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn put_back(&self) -> usize {
        self.deeds.lock().unwrap().iter().filter(|deed| matches!(deed, Deed::PutBack(..))).count()
    }
}

fn gateway() -> Network {
    let mut network = node((1, 1), (1, 1));
    network.put(service(1, Protocol::Tcp, 80, &[([10, 1, 3, 7].into(), 8080)]));
    network
}

/// What others may do to what is ours.
const SPOILT: [&str; 13] = [
    "ip rule del pref 7430",
    "ip -6 rule del pref 7411",
    "ip route flush table 7403",
    "ip route replace blackhole 10.2.0.0/16 table 7402",
    "ip route del 10.2.0.0/16 table 7402; ip route add 10.2.0.0/16 dev eth0 table 7402 proto static",
    "ip address del fd74:1::1/64 dev vx-tombolo",
    "ip link set vx-tombolo down",
    "ip link del vx-tombolo",
    "bridge fdb del 02:00:00:00:01:02 dst 172.16.1.2 dev vx-tombolo",
    "ip neigh del fd74:1::2 dev vx-tombolo",
    "nft delete table inet tombolo",
    "nft flush chain inet tombolo sources",
    "echo 0 > /proc/sys/net/ipv4/ip_forward",
];

fn comes_back() {
    let place = Place::new();
    place.run(|| uplink((1, 1)));
    let mut bench = Bench::of(&place, true);
    let network = gateway();
    bench.apply(&network).unwrap();
    let before = text(&place);
    for spoil in SPOILT {
        let repaired = bench.put_back();
        place.sh(spoil);
        until(spoil, || bench.put_back() > repaired);
        let so = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            text(&place) == before
        });
        assert!(so, "{spoil}\n{}", difference(&before, &text(&place)));
    }
}

/// The lines that are in one alone.
fn difference(before: &str, after: &str) -> String {
    let gone = before.lines().filter(|line| !after.contains(line)).map(|line| format!("- {line}\n"));
    let come = after.lines().filter(|line| !before.contains(line)).map(|line| format!("+ {line}\n"));
    gone.chain(come).collect()
}

/// What is ours in a place, but for the numbers of links and the order of things.
fn text(place: &Place) -> String {
    place.sh("{ ip rule; ip -6 rule; ip route show table all; ip -6 route show table all proto 74
        ip -oneline address | cut -d: -f2-; ip -oneline link | cut -d: -f2,3 | grep -v -e p-tb -e tb-cable
        bridge fdb | grep dst || true; ip neigh | grep PERM || true; nft -t list table inet tombolo || true
        cat /proc/sys/net/ipv4/ip_forward; } | sort")
}

fn no_work() {
    let place = Place::new();
    place.run(|| uplink((1, 1)));
    let mut bench = Bench::of(&place, true);
    bench.apply(&gateway()).unwrap();
    place.sh("nft add table ip theirs; nft delete table ip theirs; ip link add br7 type bridge; ip link del br7
        ip rule add pref 99 lookup 99; ip rule del pref 99; ip route add 10.7.0.0/16 dev eth0; ip route del 10.7.0.0/16");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(bench.put_back(), 0);
    assert_eq!(bench.deeds.lock().unwrap().len(), 1, "told more than that it was applied");
}

fn failures() {
    let place = Place::new();
    place.run(|| uplink((1, 1)));
    let mut bench = Bench::of(&place, false);
    let network = gateway();
    let said = bench.apply(&network).unwrap_err();
    assert!(said.contains("nothing here makes cables"), "{said}");
    let began = Instant::now();
    bench.apply(&network).unwrap_err();
    assert!(began.elapsed() > Duration::from_millis(800), "tried again after {:?}", began.elapsed());
    // Another network does not wait.
    let began = Instant::now();
    bench.apply(&node((1, 3), (1, 1))).unwrap();
    bench.apply(&Network::default()).unwrap();
    assert!(began.elapsed() < Duration::from_millis(800), "waited {:?}", began.elapsed());
}

fn overtaking() {
    let place = Place::new();
    place.run(|| uplink((1, 1)));
    let mut bench = Bench::of(&place, true);
    for choice in [(1, 1), (2, 1), (1, 2), (2, 2), (1, 1)] {
        bench.hand.apply(Arc::new(wanted(&node((1, 1), choice))));
    }
    let last = normal(&node((1, 1), (1, 1)));
    let look = || place.run(|| Node::open(Box::new(NoCables)).unwrap().observe().unwrap());
    let so = |mut network: Network| {
        network.peers.clone_from(&last.peers);
        network == last
    };
    until("the last one is applied", || so(look()) && place_is_quiet(&mut bench.inputs));
    let applied = bench.deeds.lock().unwrap().iter().filter(|deed| matches!(deed, Deed::Applied(..))).count();
    assert!((1..=5).contains(&applied));
}

fn place_is_quiet(inputs: &mut UnboundedReceiver<Input>) -> bool {
    let mut any = false;
    while inputs.try_recv().is_ok() {
        any = true;
    }
    !any
}

fn leaves() {
    let place = Place::new();
    place.run(|| uplink((1, 3)));
    let mut bench = Bench::of(&place, false);
    let network = node((1, 3), (1, 1));
    bench.apply(&network).unwrap_or_else(|error| panic!("{error}"));
    drop(bench);
    let observed = place.run(|| Node::open(Box::new(NoCables)).unwrap().observe().unwrap());
    assert!(plan(&wanted(&normal(&network)), &observed).is_empty());
}
