//! What is ours on the nodes of two clusters: west (1) and east (2), each with candidates 1 and 2 and a worker 3.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use tombolo_core::base::{Cidr, Slot};
use tombolo_core::model::{CableDriver, CableKey, Protocol};
use tombolo_core::network::constants::{
    CABLE_PORT_BASE, OVERLAY_PORT, OVERLAY_VNI, RULE_FROM_CABLE, RULE_FROM_OVERLAY, RULE_OUT, TABLE_FROM_CABLE,
    TABLE_FROM_OVERLAY, TABLE_OUT,
};
use tombolo_core::network::{
    Allowance, AllowanceId, Entry, Link, LinkKind, LinkName, Mac, Neighbour, Network, Peer, PeerId, Route, RouteId,
    RouteKind, Rule, Table, Translation, TranslationId, slots,
};

/// A cluster, and a node of it.
pub type Node = (u8, u8);

pub fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn link(name: &str) -> LinkName {
    LinkName(name.into())
}

/// A node's address on its uplink.
pub fn address((cluster, node): Node) -> IpAddr {
    IpAddr::from([172, 16, cluster, node])
}

pub fn overlay_address((cluster, node): Node) -> IpAddr {
    ip(&format!("fd74:{cluster}::{node}"))
}

fn probe_address((cluster, node): Node) -> IpAddr {
    ip(&format!("fd75:{cluster}::{node}"))
}

fn pods((cluster, node): Node) -> Cidr {
    cidr(&format!("10.{cluster}.{node}.0/24"))
}

fn mac((cluster, node): Node) -> Mac {
    Mac([2, 0, 0, 0, cluster, node])
}

pub fn cable(rank: u8) -> LinkName {
    link(&format!("tb-cable-{rank}"))
}

pub fn put_route(network: &mut Network, table: Table, to: Cidr, kind: RouteKind, source: Option<IpAddr>) {
    network.routes.insert(RouteId { table, to }, Route { kind, source });
}

/// What is ours on a node while its cluster's traffic goes from candidate `local` to the other's candidate `remote`.
/// `sources`: with the sources of routes, which the kernel takes only where they are addresses of the node.
pub fn node(place: Node, (local, remote): (u8, u8), sources: bool) -> Network {
    let mut network = Network::default();
    put_overlay(&mut network, place);
    let theirs = 3 - place.0;
    let gateway = place.1 <= 2;
    let source = (gateway && sources).then(|| address(place));
    for range in ranges(theirs) {
        let kind = if place.1 == local {
            RouteKind::Out { link: cable(remote), via: None }
        } else {
            RouteKind::Out { link: link("vx-tombolo"), via: Some(overlay_address((place.0, local))) }
        };
        put_route(&mut network, TABLE_OUT, range, kind, source);
        if gateway {
            let kind = RouteKind::Out { link: cable(remote), via: None };
            put_route(&mut network, TABLE_FROM_OVERLAY, range, kind, source);
        }
        let own = cidr(&format!("10.{}.0.0/16", place.0));
        for (from, to) in [(own, range), (range, own)] {
            network.translations.insert(TranslationId::KeepSource { from, to }, Translation::KeepSource);
        }
    }
    network.rules.insert(RULE_OUT, Rule { from_link: None, table: TABLE_OUT });
    network.sysctls.insert("net.ipv4.ip_forward".into(), "1".into());
    if gateway {
        put_cables(&mut network, place);
    }
    network
}

/// Ranges of a cluster: pods and services.
fn ranges(cluster: u8) -> [Cidr; 2] {
    [cidr(&format!("10.{cluster}.0.0/16")), cidr(&format!("10.10{cluster}.0.0/16"))]
}

fn others(place: Node) -> impl Iterator<Item = Node> {
    (1..=3).map(move |node| (place.0, node)).filter(move |other| *other != place)
}

fn put_overlay(network: &mut Network, place: Node) {
    let overlay = link("vx-tombolo");
    let kind = LinkKind::Overlay { vni: OVERLAY_VNI, port: OVERLAY_PORT, local: address(place), mac: mac(place) };
    network.links.insert(overlay.clone(), Link { kind, mtu: 1450 });
    network.addresses.insert((overlay.clone(), overlay_address(place)), 64);
    for other in others(place) {
        let neighbour = Neighbour { mac: mac(other), outer: address(other) };
        network.neighbours.insert((overlay.clone(), overlay_address(other)), neighbour);
    }
    let nodes = (1..=3).map(|node| Cidr::host(address((place.0, node)))).collect();
    network.filters.insert(AllowanceId::Outer { port: OVERLAY_PORT }, Allowance { from: nodes, to: [].into() });
    let mut inner: BTreeSet<_> = [ranges(1), ranges(2)].concat().into_iter().collect();
    inner.extend([cidr("fd74::/16"), pods(place)]);
    network.filters.insert(AllowanceId::Inner(overlay.clone()), Allowance { from: inner.clone(), to: inner });
    network.rules.insert(RULE_FROM_OVERLAY, Rule { from_link: Some(overlay), table: TABLE_FROM_OVERLAY });
}

fn key((cluster, node): Node, rank: u8) -> CableKey {
    let mut key = [0; 32];
    key[..3].copy_from_slice(&[cluster, node, rank]);
    CableKey(key)
}

fn put_cables(network: &mut Network, place: Node) {
    let theirs = 3 - place.0;
    for rank in 1..=2 {
        let (cable, remote) = (cable(rank), (theirs, rank));
        let port = CABLE_PORT_BASE + u16::from(rank);
        let slot = Slot::try_from(rank).unwrap();
        let kind = LinkKind::Cable { driver: CableDriver::Wireguard, rank: slot, port, key: key(place, rank) };
        network.links.insert(cable.clone(), Link { kind, mtu: 1420 });
        network.addresses.insert((cable.clone(), probe_address(place)), 128);
        let endpoint = SocketAddr::new(address(remote), CABLE_PORT_BASE + u16::from(place.1));
        let mut allowed: BTreeSet<_> = ranges(theirs).into();
        allowed.insert(Cidr::host(probe_address(remote)));
        let peer = Peer { endpoint, allowed: allowed.clone() };
        network.peers.insert(PeerId { link: cable.clone(), key: key(remote, place.1) }, peer);
        let mut to: BTreeSet<_> = ranges(place.0).into();
        to.insert(Cidr::host(probe_address(place)));
        network.filters.insert(AllowanceId::Inner(cable.clone()), Allowance { from: allowed, to });
        let rule = Rule { from_link: Some(cable.clone()), table: TABLE_FROM_CABLE };
        network.rules.insert(RULE_FROM_CABLE + u32::from(rank), rule);
        for (from, to) in [(cable.clone(), link("vx-tombolo")), (link("vx-tombolo"), cable)] {
            network.translations.insert(TranslationId::Untracked { from, to }, Translation::Untracked);
        }
    }
    for other in others(place) {
        let kind = RouteKind::Out { link: link("vx-tombolo"), via: Some(overlay_address(other)) };
        put_route(network, TABLE_FROM_CABLE, pods(other), kind, None);
    }
    for range in ranges(theirs).into_iter().chain([ranges(place.0)[1]]) {
        put_route(network, TABLE_FROM_CABLE, range, RouteKind::Blackhole, None);
    }
    network.sysctls.insert("net.netfilter.nf_conntrack_tcp_loose".into(), "1".into());
}

/// A service of a cluster on this port, with these backends.
pub fn service(cluster: u8, protocol: Protocol, port: u16, backends: &[(IpAddr, u16)]) -> Entry {
    let address = IpAddr::from([10, 100 + cluster, 0, 80]);
    let backends = slots(&backends.iter().copied().collect());
    Entry::Translation(
        TranslationId::Service { address, protocol, port },
        Translation::Service { backends, by_source: false },
    )
}
