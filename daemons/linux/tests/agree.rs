//! The kernel does what the model says: the same packets through [`forward`] and through a real node.

use crate::Test;
use crate::bed::inside;
use crate::clusters::{
    self, ACK, EAST_A, EAST_B, EAST_WORKER, FIN, Place, RST, SYN, SYN_ACK, WEST_A, WEST_WORKER, answer, host, ip, key,
    ours, pod, service,
};
use crate::rig::{Rig, Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tombolo_core::base::{Instant, Rng};
use tombolo_core::model::Protocol;
use tombolo_core::network::constants::{CABLE_LINK_PREFIX, CABLE_PORT_BASE, OVERLAY_PORT};
use tombolo_core::network::nft::Socket;
use tombolo_core::network::{
    Arrival, Conntrack, Direction, Encapsulation, Flow, Learned, LinkName, Network, Outcome, Packet, RouteKind, Stage,
    Transport, Tuple, forward,
};

pub const TESTS: &[Test] = &[("the_kernel_does_with_packets_what_the_model_says", agree)];

/// Packets through each node.
const PACKETS: usize = 400;
/// How many networks it has meanwhile, one after the other.
const NETWORKS: usize = 4;
/// Nodes; more where the environment asks for more cases.
const NODES: u64 = 12;

fn agree() {
    let cases = proptest::test_runner::Config::default().cases;
    let nodes = (NODES * u64::from(cases) / 256).max(1);
    let mut seen = BTreeMap::<_, usize>::new();
    for seed in 0..nodes {
        for (what, count) in inside(move || Bout::new(seed).run()) {
            *seen.entry(what).or_default() += count;
        }
    }
    let all = ["cable", "host", "nothing", "overlay", "pod", "uplink"];
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), all, "not all was seen: {seen:?}");
    assert!(seen.values().all(|count| *count > 10), "hardly seen: {seen:?}");
}

/// One node, some networks, many packets.
struct Bout {
    seed: u64,
    chance: Rng,
    place: Place,
    rig: Rig,
    whole: Network,
    conntrack: Conntrack,
    /// Backends of flows that outlived their translation.
    outlived: BTreeSet<Socket>,
    /// What came out, to be answered.
    heard: Vec<Seen>,
}

impl Bout {
    fn new(seed: u64) -> Self {
        let mut chance = Rng::new(seed);
        let place = one_of(&mut chance, &[WEST_A, WEST_WORKER, EAST_A, EAST_B]);
        let (rig, conntrack) = (Rig::new(place), Conntrack::new());
        Self { seed, chance, place, rig, whole: host(place), conntrack, outlived: BTreeSet::new(), heard: Vec::new() }
    }

    /// Another choice of path, other backends.
    fn change(&mut self) {
        let choice = (1 + below(&mut self.chance, 2), 1 + below(&mut self.chance, 2));
        let mut ours = ours(self.place, choice);
        if self.place.0 == 2 {
            let backends = [EAST_WORKER, EAST_A, EAST_B];
            for (address, protocol) in
                [("10.102.0.80", Protocol::Tcp), ("10.102.0.80", Protocol::Udp), ("10.102.0.81", Protocol::Udp)]
            {
                let (first, last) = (below(&mut self.chance, 3).into(), below(&mut self.chance, 4).into());
                ours.put(service(ip(address), protocol, backends.get(first..last).unwrap_or_default()));
            }
        }
        for route in ours.routes.values_mut() {
            let into_cable =
                matches!(&route.kind, RouteKind::Out { link, .. } if link.0.starts_with(CABLE_LINK_PREFIX));
            route.mtu = if into_cable { one_of(&mut self.chance, &[None, Some(1_220), Some(1_300)]) } else { None };
        }
        // Which keys may send what is the cable's business, and these cables have no keys.
        for peer in ours.peers.values_mut() {
            peer.allowed = [clusters::cidr("0.0.0.0/0")].into();
        }
        // Twice: the second time it forgets backends to which no flow goes any more.
        self.rig.apply(&ours);
        self.rig.apply(&ours);
        self.whole = ours.over(&host(self.place));
        for flow in self.conntrack.orphans(&self.whole) {
            self.conntrack.delete(&flow);
        }
        self.outlived = self.conntrack.outlived(&self.whole);
    }

    fn run(mut self) -> BTreeMap<&'static str, usize> {
        let mut count = BTreeMap::new();
        for number in 0..PACKETS {
            if number % (PACKETS / NETWORKS) == 0 {
                self.change();
            }
            let (from_pods, packet) = self.draw();
            if !self.is_fair(&packet) {
                continue;
            }
            let seen = self.check(number, from_pods, packet);
            *count.entry(seen.as_ref().map_or("nothing", Seen::kind)).or_default() += 1;
            self.heard.extend(seen);
        }
        count
    }

    /// What came of a packet, which the model must have among what may.
    fn check(&mut self, number: usize, from_pods: bool, packet: Packet) -> Option<Seen> {
        let link = LinkName(if from_pods { "cni0" } else { "eth0" }.into());
        let outcomes = forward(&self.whole, &self.conntrack, &Arrival::Link(link), &packet);
        self.rig.inject(from_pods, &packet);
        let seen = self.rig.seen();
        let outcome = match seen.as_slice() {
            [] => outcomes.iter().find(|outcome| Seen::of(&outcome.verdict).is_none()).cloned(),
            [one] => outcomes.iter().find_map(|outcome| matching(outcome, one, &self.conntrack)),
            _ => None,
        };
        let Some(outcome) = outcome else {
            panic!(
                "seed {} packet {number} on {} from {}: {packet:?}\nflow {:?}\nkernel {seen:?}\nmodel {outcomes:?}\n{}",
                self.seed,
                clusters::name(self.place),
                if from_pods { "pods" } else { "uplink" },
                self.conntrack.lookup(&Tuple::of(&packet)),
                crate::bed::sh("nft list table inet tombolo; conntrack -L 2>/dev/null || true"),
            );
        };
        if let Some(learned) = outcome.learned {
            self.conntrack.commit(learned, Instant::ZERO);
        }
        seen.into_iter().next()
    }

    fn draw(&mut self) -> (bool, Packet) {
        if !self.heard.is_empty() && self.chance.chance(400_000) {
            return self.draw_answer();
        }
        let (source, destination) = (self.address(), self.address());
        // The model does not track what ends at the host itself: ports of its own, that no translation meets.
        let to_host = destination == own_address(self.place);
        let (source_port, destination_port) = if to_host { (7001, 7002) } else { (self.port(), self.port()) };
        let transport = if self.chance.chance(500_000) {
            let flags = one_of(&mut self.chance, &[SYN, SYN, SYN, ACK, SYN_ACK, FIN, RST]);
            Transport::Tcp { source: source_port, destination: destination_port, flags }
        } else {
            Transport::Udp { source: source_port, destination: destination_port }
        };
        let ttl = one_of(&mut self.chance, &[1, 2, 64, 64, 64, 64]);
        let packet = Packet { source, destination, transport, ttl, length: 60, mss: None, outer: None };
        let packet = self.asking(packet);
        match below(&mut self.chance, 4) {
            0 => (true, packet),
            1 => (false, packet),
            2 => (false, Packet { outer: Some(self.overlay()), ..packet }),
            _ => (false, Packet { outer: self.cable(), ..packet }),
        }
    }

    /// Somebody answers what was seen, from where it went.
    fn draw_answer(&mut self) -> (bool, Packet) {
        let seen = self.heard[usize::try_from(self.chance.below(self.heard.len() as u64)).unwrap()].clone();
        let flags = one_of(&mut self.chance, &[SYN_ACK, ACK, ACK, FIN, RST]);
        let packet = answer(seen.packet(), flags);
        let packet = self.asking(packet);
        match seen {
            Seen::Pod(_) | Seen::Host(_) => (true, packet),
            Seen::Uplink(_) => (false, packet),
            Seen::Overlay(node, _) => {
                let outer = Encapsulation { source: node, ..self.overlay() };
                (false, Packet { outer: Some(outer), ..packet })
            }
            Seen::Cable(rank, _) => (false, Packet { outer: self.cable_of(rank), ..packet }),
        }
    }

    /// What opens a connection asks for segments of some length, or of none.
    fn asking(&mut self, packet: Packet) -> Packet {
        let opens = matches!(packet.transport, Transport::Tcp { flags, .. } if flags.syn);
        let mss = one_of(&mut self.chance, &[None, Some(536), Some(1_200), Some(1_460)]);
        Packet { mss: mss.filter(|_| opens), ..packet }
    }

    fn overlay(&mut self) -> Encapsulation {
        let (cluster, node) = (self.place.0, one_of(&mut self.chance, &[1, 2, 3, 9]));
        Encapsulation {
            source: IpAddr::from([172, 16, cluster, node]),
            source_port: 50_000,
            destination: own_address(self.place),
            destination_port: OVERLAY_PORT,
            key: None,
        }
    }

    fn cable(&mut self) -> Option<Encapsulation> {
        let rank = 1 + below(&mut self.chance, 2);
        self.cable_of(rank)
    }

    /// A worker has none.
    fn cable_of(&self, rank: u8) -> Option<Encapsulation> {
        let remote = (3 - self.place.0, rank);
        (self.place.1 <= 2).then(|| Encapsulation {
            source: own_address(remote),
            source_port: CABLE_PORT_BASE,
            destination: own_address(self.place),
            destination_port: CABLE_PORT_BASE + u16::from(rank),
            key: Some(key(remote, self.place.1)),
        })
    }

    fn address(&mut self) -> IpAddr {
        let places = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)];
        let place = one_of(&mut self.chance, &places);
        match below(&mut self.chance, 10) {
            0..=5 => pod(place),
            6 | 7 => one_of(&mut self.chance, &["10.102.0.80", "10.102.0.81", "10.101.0.80"].map(ip)),
            8 => own_address(place),
            _ => one_of(&mut self.chance, &["192.0.2.5", "198.51.100.7"].map(ip)),
        }
    }

    fn port(&mut self) -> u16 {
        one_of(&mut self.chance, &[80, 80, 8080, 8080, 4000, 4001])
    }

    /// Not what Linux refuses as nonsense before any rule of ours is asked: a source of its own from outside. Nor TCP that
    /// no two ends would speak: of its states the model has those alone that matter to them. Nor a new flow of a backend that
    /// other flows outlived: our table knows such backends by name, and not which flows.
    fn is_fair(&self, packet: &Packet) -> bool {
        let own = own_address(self.place);
        let tuple = Tuple::of(packet);
        let ends = [(tuple.source, tuple.source_port), (tuple.destination, tuple.destination_port)];
        let is_outlived = ends.iter().any(|(address, port)| self.outlived.contains(&(*address, tuple.protocol, *port)));
        // A flow whose port clashed goes on under the drawn one in the model; our table may take it for transit when the
        // backend that it went straight to is none any more.
        let redrawn = |flow: &Flow| {
            let Flow { original, reply, .. } = flow;
            original.source == reply.destination && original.source_port != reply.destination_port
        };
        let spoken = match (packet.transport, self.conntrack.lookup(&tuple)) {
            (_, None) => !is_outlived,
            (_, Some((flow, _))) if redrawn(flow) => false,
            (Transport::Udp { .. }, _) => true,
            (Transport::Tcp { flags, .. }, Some((flow, direction))) => match (flow.stage, direction) {
                (Stage::Opening, Direction::Original) => flags == SYN,
                (Stage::Opening, Direction::Reply) => flags == SYN_ACK,
                (Stage::Open, _) => flags == ACK,
                (Stage::Closing | Stage::Closed, _) => false,
            },
        };
        let from_itself = packet.source == own || packet.outer.is_some_and(|outer| outer.source == own);
        spoken && !from_itself && packet.source != packet.destination
    }
}

/// The outcome as the kernel chose it, if it is that.
fn matching(outcome: &Outcome, seen: &Seen, conntrack: &Conntrack) -> Option<Outcome> {
    if Seen::of(&outcome.verdict).as_ref() == Some(seen) {
        return Some(outcome.clone());
    }
    let (Transport::Tcp { source: port, .. } | Transport::Udp { source: port, .. }) = seen.packet().transport;
    let drawn = outcome.with_source_port(port, conntrack).or_else(|| {
        // A masquerade that once drew a port for this source keeps to it elsewhere (`find_appropriate_src`); the model tries
        // the source's own port first.
        let Some(Learned::Opened { original, .. }) = outcome.learned else { return None };
        let of_source = |flow: &&Flow| {
            let of = |tuple: Tuple| (tuple.protocol, tuple.source, tuple.source_port);
            of(flow.original) == of(original) && of(flow.leaves_as(Direction::Original)) == of(Tuple::of(seen.packet()))
        };
        conntrack.flows().find(of_source)?;
        Outcome { drawn: Some(1..=u16::MAX), ..outcome.clone() }.with_source_port(port, conntrack)
    })?;
    (Seen::of(&drawn.verdict).as_ref() == Some(seen)).then_some(drawn)
}

const fn own_address((cluster, node): Place) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(172, 16, cluster, node))
}

fn below(chance: &mut Rng, bound: u64) -> u8 {
    u8::try_from(chance.below(bound)).unwrap()
}

fn one_of<T: Clone>(chance: &mut Rng, all: &[T]) -> T {
    all[usize::try_from(chance.below(all.len() as u64)).unwrap()].clone()
}
