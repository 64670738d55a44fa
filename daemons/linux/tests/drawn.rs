//! Networks drawn from a small world, such as a kernel can have: routes lead out of links that are there, to next hops of
//! a fitting family, from sources that are the node's.

use crate::clusters::link;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::net::{IpAddr, SocketAddr};
use tombolo_core::base::{Cidr, Slot};
use tombolo_core::model::{CableDriver, CableKey, Protocol};
use tombolo_core::network::{
    Allowance, AllowanceId, Link, LinkKind, LinkName, Mac, Neighbour, Network, Peer, PeerId, Route, RouteId, RouteKind,
    Rule, Table, Translation, TranslationId,
};

const NAMES: [&str; 3] = ["tb-cable-1", "tb-cable-2", "vx-tombolo"];

fn name() -> impl Strategy<Value = LinkName> {
    select(&NAMES[..]).prop_map(link)
}

fn range() -> impl Strategy<Value = Cidr> {
    let ranges =
        ["0.0.0.0/0", "10.1.0.0/16", "10.2.0.0/16", "10.2.1.0/24", "10.3.0.0/16", "::/0", "fd00::/8", "fd01::/64"];
    select(ranges.map(|text| text.parse().unwrap()).to_vec())
}

fn ip(texts: &'static [&'static str]) -> impl Strategy<Value = IpAddr> {
    select(texts).prop_map(|text| text.parse().unwrap())
}

fn overlay() -> impl Strategy<Value = Link> {
    (4801u16..4803, ip(&["192.0.2.1", "192.0.2.2"]), 1u8..3, 1400u16..1402).prop_map(|(port, local, last, mtu)| Link {
        kind: LinkKind::Overlay { vni: 7, port, local, mac: Mac([2, 0, 0, 0, 0, last]) },
        mtu,
    })
}

fn cable() -> impl Strategy<Value = Link> {
    let driver = select(&[CableDriver::Wireguard, CableDriver::Ipsec][..]);
    (driver, 1u8..3, 4510u16..4512, key(), 1400u16..1402).prop_map(|(driver, rank, port, key, mtu)| Link {
        kind: LinkKind::Cable { driver, rank: Slot::try_from(rank).unwrap(), port, key },
        mtu,
    })
}

fn key() -> impl Strategy<Value = CableKey> {
    (1u8..4).prop_map(|byte| CableKey([byte; 32]))
}

fn translation() -> impl Strategy<Value = (TranslationId, Translation)> {
    let address = || ip(&["10.102.0.1", "10.102.0.2", "fd02::1"]);
    let backend = (ip(&["10.2.1.7", "10.2.1.8", "fd01::7"]), 80u16..82);
    let protocol = select(&[Protocol::Tcp, Protocol::Udp][..]);
    let service = (address(), protocol, vec(backend, 0..4), any::<bool>());
    let service = service.prop_map(|(address, protocol, backends, by_source)| {
        let id = TranslationId::Service { address, protocol, port: 80 };
        (id, Translation::Service { backends, by_source })
    });
    let keep =
        (range(), range()).prop_map(|(from, to)| (TranslationId::KeepSource { from, to }, Translation::KeepSource));
    let untracked =
        (name(), name()).prop_map(|(from, to)| (TranslationId::Untracked { from, to }, Translation::Untracked));
    let clamp = name().prop_map(|link| (TranslationId::ClampMss { link }, Translation::ClampMss));
    prop_oneof![service, keep, clamp, untracked]
}

fn filter() -> impl Strategy<Value = (AllowanceId, Allowance)> {
    let id =
        prop_oneof![name().prop_map(AllowanceId::Inner), (4801u16..4803).prop_map(|port| AllowanceId::Outer { port })];
    let ranges = || btree_set(range(), 0..5);
    (id, ranges(), ranges()).prop_map(|(id, from, to)| (id, Allowance { from, to }))
}

fn route() -> impl Strategy<Value = (RouteId, Route)> {
    let table = select(&[7401u32, 7402, 7403, 7499][..]);
    let via = option::of(ip(&["fd74::2", "fd74::3", "fd79::2", "10.9.0.2"]));
    let kind = prop_oneof![
        3 => (name(), via).prop_map(|(link, via)| RouteKind::Out { link, via }),
        1 => Just(RouteKind::Blackhole),
    ];
    (table, range(), kind, option::of(ip(&["192.0.2.1", "192.0.2.2"])), option::of(576u16..578))
        .prop_map(|(table, to, kind, source, mtu)| (RouteId { table: Table(table), to }, Route { kind, source, mtu }))
}

fn sysctls() -> impl Strategy<Value = Vec<(String, String)>> {
    let keys = ["net.netfilter.nf_conntrack_tcp_loose", "net.ipv4.ip_forward", "net.ipv4.conf.vx-tombolo.rp_filter"];
    vec((select(keys.map(String::from).to_vec()), select(["0", "1"].map(String::from).to_vec())), 0..4)
}

/// A network that a kernel can have.
pub fn network() -> impl Strategy<Value = Network> {
    let links = (option::of(cable()), option::of(cable()), option::of(overlay()));
    let address = (name(), ip(&["10.9.0.1", "10.8.0.1", "fd74::1", "fd74::2", "fd73::1"]));
    let neighbour = (ip(&["fd74::2", "fd74::3", "10.9.0.2"]), ip(&["192.0.2.9", "192.0.2.10"]));
    let ground = (links, btree_map(address, 24u8..26, 0..5), vec(neighbour, 0..4), vec(route(), 0..9));
    let rule = (option::of(name()), select(&[7401u32, 7402, 7403, 7499][..]));
    let peer = (1u16..3, btree_set(range(), 0..3));
    let above = (
        btree_map(7410u32..7431, rule, 0..5),
        vec(translation(), 0..7),
        vec(filter(), 0..5),
        btree_map((name(), key()), peer, 0..4),
        sysctls(),
    );
    (ground, above).prop_map(
        |((links, addresses, neighbours, routes), (rules, translations, filters, peers, sysctls))| {
            let mut network = Network::default();
            let (one, two, overlay) = links;
            for (name, link) in NAMES.into_iter().zip([one, two, overlay]) {
                network.links.extend(link.map(|link| (LinkName(name.into()), link)));
            }
            let there = network.links.clone();
            network.addresses = addresses
                .into_iter()
                .filter(|((on, address), _)| {
                    there.contains_key(on) && is_of_overlay(*address) == (&*on.0 == "vx-tombolo")
                })
                .collect();
            if there.contains_key(&link("vx-tombolo")) {
                let of = |(n, (address, outer)): (u8, (IpAddr, IpAddr))| {
                    let mac = Mac([2, 0, 0, 0, 1, n]);
                    ((link("vx-tombolo"), address), Neighbour { mac, outer })
                };
                network.neighbours = (1..).zip(neighbours).map(of).collect();
            }
            network.routes = routes.into_iter().filter(|(id, route)| can_be(*id, route, &network)).collect();
            network.rules = rules
                .into_iter()
                .map(|(priority, (from_link, table))| (priority, Rule { from_link, table: Table(table) }))
                .collect();
            network.translations = translations.into_iter().collect();
            network.filters = filters.into_iter().collect();
            let of_cable =
                |name: &LinkName| there.get(name).is_some_and(|link| matches!(link.kind, LinkKind::Cable { .. }));
            let peers = peers.into_iter().filter(|((name, _), _)| of_cable(name));
            network.peers = peers
                .map(|((link, key), (port, allowed))| {
                    (PeerId { link, key }, Peer { endpoint: SocketAddr::new([192, 0, 2, 9].into(), port), allowed })
                })
                .collect();
            let has_link = |key: &String| !key.contains("vx-tombolo") || there.contains_key(&link("vx-tombolo"));
            network.sysctls = sysctls.into_iter().filter(|(key, _)| has_link(key)).collect();
            network
        },
    )
}

/// Of `fd74::/16`.
fn is_of_overlay(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.segments()[0] == 0xfd74)
}

fn can_be(id: RouteId, route: &Route, network: &Network) -> bool {
    match &route.kind {
        RouteKind::Blackhole => true,
        RouteKind::Out { link, via } => {
            let fits = via.is_none_or(|via| via.is_ipv6() || id.to.is_ipv4());
            // Linux takes no next hop that an address elsewhere says is behind another link.
            let elsewhere = via.is_some_and(|via| is_of_overlay(via) != (&*link.0 == "vx-tombolo") && via.is_ipv6());
            let own = via.is_some_and(|via| network.addresses.keys().any(|(_, own)| *own == via));
            network.links.contains_key(link) && fits && !elsewhere && !own
        }
    }
}
