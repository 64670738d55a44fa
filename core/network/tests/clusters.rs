//! Two clusters on one wire, for tests: `west` and `east`, each with two gateways and a worker, set up as the route
//! tables of `constants` say. A packet is followed from node to node until it ends, and its way is written down.
//!
//! | | west | east |
//! |---|---|---|
//! | pods | 10.1.0.0/16 | 10.2.0.0/16 |
//! | services | 10.101.0.0/16 | 10.102.0.0/16 |
//! | gw-a, gw-b, worker | 172.16.1.1 to .3 | 172.16.2.1 to .3 |

use crate::base::{Cidr, Instant, Slot};
use crate::model::{CableDriver, CableKey, Protocol};
use crate::network::constants::{
    CABLE_PORT_BASE, OVERLAY_PORT, OVERLAY_VNI, RULE_FROM_CABLE, RULE_FROM_OVERLAY, RULE_OUT, TABLE_FROM_CABLE,
    TABLE_FROM_OVERLAY, TABLE_OUT,
};
use crate::network::{
    Allowance, AllowanceId, Arrival, Conntrack, Flags, Link, LinkKind, LinkName, Mac, Neighbour, Network, Peer, PeerId,
    Route, RouteId, RouteKind, Rule, Table, Translation, TranslationId, Transport, Verdict, forward, slots,
};
use crate::network::{Entry, Outcome, Packet};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// A cluster and a node of it: 1 = west, 2 = east; 1 = gw-a, 2 = gw-b, 3 = worker.
pub(super) type Place = (u8, u8);

pub(super) const WEST_A: Place = (1, 1);
pub(super) const WEST_B: Place = (1, 2);
pub(super) const WEST_WORKER: Place = (1, 3);
pub(super) const EAST_A: Place = (2, 1);
pub(super) const EAST_B: Place = (2, 2);
pub(super) const EAST_WORKER: Place = (2, 3);

pub(super) fn name((cluster, node): Place) -> &'static str {
    match (cluster, node) {
        (1, 1) => "west/gw-a",
        (1, 2) => "west/gw-b",
        (1, _) => "west/worker",
        (_, 1) => "east/gw-a",
        (_, 2) => "east/gw-b",
        (_, _) => "east/worker",
    }
}

pub(super) fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(super) fn link(name: &str) -> LinkName {
    LinkName(name.into())
}

fn address((cluster, node): Place) -> IpAddr {
    IpAddr::from([172, 16, cluster, node])
}

pub(super) fn overlay_address((cluster, node): Place) -> IpAddr {
    format!("fd74:{cluster}::{node}").parse().unwrap()
}

pub(super) fn probe_address((cluster, node): Place) -> IpAddr {
    format!("fd75:{cluster}::{node}").parse().unwrap()
}

/// The address of a pod on a node.
pub(super) fn pod((cluster, node): Place) -> IpAddr {
    IpAddr::from([10, cluster, node, 7])
}

fn pods_of((cluster, node): Place) -> Cidr {
    cidr(&format!("10.{cluster}.{node}.0/24"))
}

pub(super) fn key((cluster, node): Place, rank: u8) -> CableKey {
    let mut key = [0; 32];
    key[..3].copy_from_slice(&[cluster, node, rank]);
    CableKey(key)
}

pub(super) fn cable(rank: u8) -> LinkName {
    link(&format!("tb-cable-{rank}"))
}

/// Where a cluster's traffic to the other goes: the local and the remote candidate.
pub(super) type Choice = (u8, u8);

/// What the host has without us.
pub(super) fn host(place: Place) -> Network {
    let mut network = Network::default();
    network.put(Entry::Link(link("eth0"), Link { kind: LinkKind::Uplink, mtu: 1500 }));
    network.put(Entry::Link(link("cni0"), Link { kind: LinkKind::Pods, mtu: 1450 }));
    network.put(Entry::Address(link("eth0"), address(place), 24));
    let out = |link: &str, via: Option<IpAddr>| RouteKind::Out { link: LinkName(link.into()), via };
    put_route(&mut network, Table::MAIN, "0.0.0.0/0", out("eth0", Some(IpAddr::from([172, 16, place.0, 254]))), None);
    for node in 1..=3 {
        let other = (place.0, node);
        let kind = if other == place { out("cni0", None) } else { out("eth0", Some(address(other))) };
        put_route(&mut network, Table::MAIN, &pods_of(other).to_string(), kind, None);
    }
    let (from, except) = (cidr(&format!("10.{}.0.0/16", place.0)), cidr(&format!("10.{}.0.0/16", place.0)));
    network.put(Entry::Translation(TranslationId::Masquerade { from, except }, Translation::Masquerade));
    network
}

pub(super) fn put_route(network: &mut Network, table: Table, to: &str, kind: RouteKind, source: Option<IpAddr>) {
    network.put(Entry::Route(RouteId { table, to: cidr(to) }, Route { kind, source, mtu: None }));
}

/// What is ours on a node.
pub(super) fn ours(place: Place, choice: Choice) -> Network {
    let mut network = Network::default();
    put_overlay(&mut network, place);
    let (local, remote) = choice;
    let theirs = 3 - place.0;
    let gateway = place.1 <= 2;
    for range in [format!("10.{theirs}.0.0/16"), format!("10.10{theirs}.0.0/16")] {
        let kind = if place.1 == local {
            RouteKind::Out { link: cable(remote), via: None }
        } else {
            RouteKind::Out { link: link("vx-tombolo"), via: Some(overlay_address((place.0, local))) }
        };
        put_route(&mut network, TABLE_OUT, &range, kind, gateway.then(|| address(place)));
        if gateway {
            let kind = RouteKind::Out { link: cable(remote), via: None };
            put_route(&mut network, TABLE_FROM_OVERLAY, &range, kind, Some(address(place)));
        }
        for (from, to) in [(format!("10.{}.0.0/16", place.0), range.clone()), (range, format!("10.{}.0.0/16", place.0))]
        {
            let id = TranslationId::KeepSource { from: cidr(&from), to: cidr(&to) };
            network.put(Entry::Translation(id, Translation::KeepSource));
        }
    }
    network.put(Entry::Rule(RULE_OUT, Rule { from_link: None, table: TABLE_OUT }));
    if gateway {
        put_cables(&mut network, place);
    }
    network
}

fn put_overlay(network: &mut Network, place: Place) {
    let overlay = link("vx-tombolo");
    let mac = |place: Place| Mac([2, 0, 0, 0, place.0, place.1]);
    let kind = LinkKind::Overlay { vni: OVERLAY_VNI, port: OVERLAY_PORT, local: address(place), mac: mac(place) };
    network.put(Entry::Link(overlay.clone(), Link { kind, mtu: 1450 }));
    network.put(Entry::Address(overlay.clone(), overlay_address(place), 64));
    for other in (1..=3).map(|node| (place.0, node)).filter(|other| *other != place) {
        let neighbour = Neighbour { mac: mac(other), outer: address(other) };
        network.put(Entry::Neighbour(overlay.clone(), overlay_address(other), neighbour));
    }
    let nodes = (1..=3).map(|node| Cidr::host(address((place.0, node)))).collect();
    let outer = Allowance { from: nodes, to: [].into() };
    network.put(Entry::Filter(AllowanceId::Outer { port: OVERLAY_PORT }, outer));
    let inner =
        [cidr("10.1.0.0/16"), cidr("10.2.0.0/16"), cidr("10.101.0.0/16"), cidr("10.102.0.0/16"), cidr("fd74::/16")];
    let inner = Allowance { from: inner.into(), to: inner.into() };
    network.put(Entry::Filter(AllowanceId::Inner(overlay.clone()), inner));
    network.put(Entry::Rule(RULE_FROM_OVERLAY, Rule { from_link: Some(overlay), table: TABLE_FROM_OVERLAY }));
}

fn put_cables(network: &mut Network, place: Place) {
    let theirs = 3 - place.0;
    let (own_pods, own_services) = (cidr(&format!("10.{}.0.0/16", place.0)), cidr(&format!("10.10{}.0.0/16", place.0)));
    let their_ranges = [cidr(&format!("10.{theirs}.0.0/16")), cidr(&format!("10.10{theirs}.0.0/16"))];
    for rank in 1..=2 {
        let (cable, remote) = (cable(rank), (theirs, rank));
        let kind = LinkKind::Cable {
            driver: CableDriver::Wireguard,
            rank: Slot::try_from(rank).unwrap(),
            port: CABLE_PORT_BASE + u16::from(rank),
            key: key(place, rank),
        };
        network.put(Entry::Link(cable.clone(), Link { kind, mtu: 1420 }));
        network.put(Entry::Address(cable.clone(), probe_address(place), 128));
        let endpoint = SocketAddr::new(address(remote), CABLE_PORT_BASE + u16::from(place.1));
        let mut allowed: Vec<_> = their_ranges.to_vec();
        allowed.push(Cidr::host(probe_address(remote)));
        let peer = Peer { endpoint, allowed: allowed.iter().copied().collect() };
        network.put(Entry::Peer(PeerId { link: cable.clone(), key: key(remote, place.1) }, peer));
        let to = [own_pods, own_services, Cidr::host(probe_address(place))];
        let inner = Allowance { from: allowed.into_iter().collect(), to: to.into() };
        network.put(Entry::Filter(AllowanceId::Inner(cable.clone()), inner));
        let rule = Rule { from_link: Some(cable.clone()), table: TABLE_FROM_CABLE };
        network.put(Entry::Rule(RULE_FROM_CABLE + u32::from(rank), rule));
        let id = TranslationId::ClampMss { link: cable.clone() };
        network.put(Entry::Translation(id, Translation::ClampMss));
        for (from, to) in [(cable.clone(), link("vx-tombolo")), (link("vx-tombolo"), cable)] {
            network.put(Entry::Translation(TranslationId::Untracked { from, to }, Translation::Untracked));
        }
    }
    for other in (1..=3).map(|node| (place.0, node)).filter(|other| *other != place) {
        let kind = RouteKind::Out { link: link("vx-tombolo"), via: Some(overlay_address(other)) };
        put_route(network, TABLE_FROM_CABLE, &pods_of(other).to_string(), kind, None);
    }
    for range in their_ranges.iter().chain([&own_services]) {
        put_route(network, TABLE_FROM_CABLE, &range.to_string(), RouteKind::Blackhole, None);
    }
    network.put(Entry::Sysctl("net.ipv4.ip_forward".into(), "1".into()));
    network.put(Entry::Sysctl("net.netfilter.nf_conntrack_tcp_loose".into(), "1".into()));
}

/// The exported service of east, behind its cluster IP on TCP port 80.
pub(super) fn web(backends: &[Place]) -> Entry {
    service(ip("10.102.0.80"), Protocol::Tcp, backends)
}

pub(super) fn service(address: IpAddr, protocol: Protocol, backends: &[Place]) -> Entry {
    let backends = slots(&backends.iter().map(|place| (pod(*place), 8080)).collect());
    let id = TranslationId::Service { address, protocol, port: 80 };
    Entry::Translation(id, Translation::Service { backends, by_source: false })
}

/// A node: what it has, and what its connection tracking knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) network: Network,
    pub(super) conntrack: Conntrack,
}

/// All nodes and the wire between them.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    pub(super) nodes: BTreeMap<Place, Node>,
}

/// Where a packet ended, and how it got there.
#[derive(Clone, Debug)]
pub(super) struct Journey {
    pub(super) end: Verdict,
    pub(super) at: Place,
    pub(super) packet: Packet,
    /// `west/worker vx-tombolo`, … : each node and the tunnel that it sent the packet into.
    pub(super) hops: Vec<String>,
}

impl Clusters {
    /// All nodes, each cluster with this choice of (local, remote) gateway.
    pub(super) fn with(west: Choice, east: Choice) -> Self {
        let places = [WEST_A, WEST_B, WEST_WORKER, EAST_A, EAST_B, EAST_WORKER];
        let node = |place: Place| {
            let mut network = host(place);
            ours(place, if place.0 == 1 { west } else { east }).entries().for_each(|entry| network.put(entry));
            Node { network, conntrack: Conntrack::new() }
        };
        Self { nodes: places.into_iter().map(|place| (place, node(place))).collect() }
    }

    /// Both clusters use their first gateways; east exports a service that runs on its worker.
    pub(super) fn usual() -> Self {
        let mut clusters = Self::with((1, 1), (1, 1));
        clusters.export(&web(&[EAST_WORKER]));
        clusters
    }

    pub(super) fn export(&mut self, service: &Entry) {
        for place in [EAST_A, EAST_B] {
            self.node(place).network.put(service.clone());
        }
    }

    pub(super) fn node(&mut self, place: Place) -> &mut Node {
        self.nodes.get_mut(&place).unwrap()
    }

    /// What one node does to one packet; what it learned is kept.
    pub(super) fn at(&mut self, place: Place, arrival: &Arrival, packet: &Packet) -> Outcome {
        let node = self.node(place);
        let outcome = forward(&node.network, &node.conntrack, arrival, packet).remove(0);
        if let Some(learned) = outcome.learned {
            node.conntrack.commit(learned, Instant::ZERO);
        }
        outcome
    }

    /// Follows a packet that a pod on `place` sends.
    pub(super) fn pod_sends(&mut self, place: Place, packet: Packet) -> Journey {
        self.follow(place, Arrival::Link(link("cni0")), packet)
    }

    /// Follows a packet from a node to its end.
    pub(super) fn follow(&mut self, place: Place, arrival: Arrival, packet: Packet) -> Journey {
        let mut journey =
            Journey { end: Verdict::Drop { because: String::new() }, at: place, packet, hops: Vec::new() };
        let mut arrival = arrival;
        loop {
            assert!(journey.hops.len() < 9, "a loop: {:?}", journey.hops);
            journey.end = self.at(journey.at, &arrival, &journey.packet).verdict;
            match &journey.end {
                Verdict::Send { packet, next_hop, .. } => {
                    let tunnel = packet.outer.map_or("eth0".into(), |outer| match outer.destination_port {
                        OVERLAY_PORT => "vx-tombolo".to_string(),
                        _ => format!("tb-cable-{}", outer.source_port - CABLE_PORT_BASE),
                    });
                    journey.hops.push(format!("{} {tunnel}", name(journey.at)));
                    let to = packet.outer.map_or(*next_hop, |outer| outer.destination);
                    let place = self.nodes.keys().find(|place| address(**place) == to);
                    let Some(place) = place else { return journey };
                    (journey.at, journey.packet) = (*place, *packet);
                    arrival = Arrival::Link(link("eth0"));
                }
                Verdict::DeliverHost { packet, .. } | Verdict::DeliverPod { packet } => {
                    journey.packet = *packet;
                    return journey;
                }
                Verdict::Drop { .. } => return journey,
            }
        }
    }
}

impl Journey {
    /// `west/worker vx-tombolo, west/gw-a tb-cable-1, … : how it ended`.
    pub(super) fn told(&self) -> String {
        let end = match &self.end {
            Verdict::DeliverHost { .. } => "delivered to the host".into(),
            Verdict::DeliverPod { .. } => "delivered to a pod".into(),
            Verdict::Send { next_hop, .. } => format!("sent to {next_hop}"),
            Verdict::Drop { because } => format!("dropped, {because}"),
        };
        let hops: String = self.hops.iter().map(|hop| format!("{hop}, ")).collect();
        format!("{hops}{} {end}", name(self.at))
    }
}

pub(super) const SYN: Flags = Flags { syn: true, ack: false, fin: false, rst: false };
pub(super) const SYN_ACK: Flags = Flags { syn: true, ack: true, fin: false, rst: false };
pub(super) const ACK: Flags = Flags { syn: false, ack: true, fin: false, rst: false };
pub(super) const FIN: Flags = Flags { syn: false, ack: true, fin: true, rst: false };
pub(super) const RST: Flags = Flags { syn: false, ack: false, fin: false, rst: true };

/// A TCP segment.
pub(super) fn tcp(from: (IpAddr, u16), to: (IpAddr, u16), flags: Flags) -> Packet {
    let transport = Transport::Tcp { source: from.1, destination: to.1, flags };
    Packet { source: from.0, destination: to.0, transport, ttl: 64, length: 60, mss: None, outer: None }
}

/// A UDP datagram.
pub(super) fn udp(from: (IpAddr, u16), to: (IpAddr, u16)) -> Packet {
    let transport = Transport::Udp { source: from.1, destination: to.1 };
    Packet { source: from.0, destination: to.0, transport, ttl: 64, length: 60, mss: None, outer: None }
}

/// The answer to a packet as its receiver saw it.
pub(super) fn answer(packet: &Packet, flags: Flags) -> Packet {
    let transport = match packet.transport {
        Transport::Tcp { source, destination, .. } => {
            Transport::Tcp { source: destination, destination: source, flags }
        }
        Transport::Udp { source, destination } => Transport::Udp { source: destination, destination: source },
    };
    Packet { source: packet.destination, destination: packet.source, transport, ttl: 64, ..*packet }
}

/// The packet as it left, and who takes it next.
pub(super) fn sent(verdict: &Verdict) -> (Packet, IpAddr) {
    let Verdict::Send { packet, next_hop, .. } = verdict else { panic!("{verdict:?}") };
    (*packet, *next_hop)
}

/// Why it was dropped.
pub(super) fn dropped(verdict: &Verdict) -> &str {
    let Verdict::Drop { because } = verdict else { panic!("{verdict:?}") };
    because
}
