//! Networks drawn from a world so small that everything collides with everything.

use crate::base::{Cidr, Slot};
use crate::model::{CableDriver, CableKey, Protocol};
use crate::network::{
    Allowance, AllowanceId, Link, LinkKind, LinkName, Mac, Neighbour, Network, Peer, PeerId, Route, RouteId, RouteKind,
    Rule, Table, Translation, TranslationId,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::net::{IpAddr, SocketAddr};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

/// 64 cases each, so that a usual run stays quick; `PROPTEST_CASES=40000` gives 10,000.
pub(super) fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases / 4, ..config }
}

pub(super) fn link_name() -> impl Strategy<Value = LinkName> {
    select(&["tb-cable-1", "tb-cable-2", "vx-tombolo"][..]).prop_map(|name| LinkName(name.into()))
}

fn range() -> impl Strategy<Value = Cidr> {
    let ranges = ["0.0.0.0/0", "10.1.0.0/16", "10.2.0.0/16", "10.2.1.0/24", "10.3.0.0/16", "fd00::/8"];
    select(ranges.map(|text| text.parse().unwrap()).to_vec())
}

pub(super) fn address() -> impl Strategy<Value = IpAddr> {
    select(["10.1.0.1", "10.2.1.7", "fd74::4", "fd74::5"].map(|text| text.parse().unwrap()).to_vec())
}

pub(super) fn key() -> impl Strategy<Value = CableKey> {
    (1u8..4).prop_map(|byte| CableKey([byte; 32]))
}

fn link() -> impl Strategy<Value = Link> {
    let overlay = (4800u16..4802, 1u8..3).prop_map(|(port, last)| LinkKind::Overlay {
        vni: 7,
        port,
        local: IpAddr::from([192, 0, 2, 1]),
        mac: Mac([2, 0, 0, 0, 0, last]),
    });
    let driver = select(&[CableDriver::Wireguard, CableDriver::Vxlan][..]);
    let cable = (driver, 4800u16..4802, key()).prop_map(|(driver, port, key)| LinkKind::Cable {
        driver,
        rank: Slot::all()[0],
        port,
        key,
    });
    (prop_oneof![overlay, cable], 1400u16..1402).prop_map(|(kind, mtu)| Link { kind, mtu })
}

fn route() -> impl Strategy<Value = Route> {
    let out = (link_name(), proptest::option::of(address())).prop_map(|(link, via)| RouteKind::Out { link, via });
    let kind = prop_oneof![3 => out, 1 => Just(RouteKind::Blackhole)];
    let mtu = proptest::option::of(1300u16..1302);
    (kind, proptest::option::of(address()), mtu).prop_map(|(kind, source, mtu)| Route { kind, source, mtu })
}

fn translation() -> impl Strategy<Value = (TranslationId, Translation)> {
    let service = (address(), vec((address(), 80u16..82), 0..3)).prop_map(|(address, backends)| {
        let id = TranslationId::Service { address, protocol: Protocol::Tcp, port: 80 };
        (id, Translation::Service { backends, by_source: false })
    });
    let keep =
        (range(), range()).prop_map(|(from, to)| (TranslationId::KeepSource { from, to }, Translation::KeepSource));
    let untracked = (link_name(), link_name())
        .prop_map(|(from, to)| (TranslationId::Untracked { from, to }, Translation::Untracked));
    let clamp = link_name().prop_map(|link| (TranslationId::ClampMss { link }, Translation::ClampMss));
    prop_oneof![service, keep, clamp, untracked]
}

fn filter() -> impl Strategy<Value = (AllowanceId, Allowance)> {
    let id = prop_oneof![
        link_name().prop_map(AllowanceId::Inner),
        (4800u16..4802).prop_map(|port| AllowanceId::Outer { port })
    ];
    (id, btree_set(range(), 0..3)).prop_map(|(id, from)| (id, Allowance { from, to: BTreeSet::new() }))
}

fn peer() -> impl Strategy<Value = Peer> {
    (1u16..3, btree_set(range(), 0..3))
        .prop_map(|(port, allowed)| Peer { endpoint: SocketAddr::new(IpAddr::from([192, 0, 2, 9]), port), allowed })
}

fn sysctls() -> impl Strategy<Value = BTreeMap<String, String>> {
    let keys = [
        "net.ipv4.conf.vx-tombolo.rp_filter",
        "net.ipv4.conf.tb-cable-1.rp_filter",
        "net.netfilter.nf_conntrack_tcp_loose",
        "net.ipv4.ip_forward",
    ];
    btree_map(select(keys.map(String::from).to_vec()), select(["0", "1"].map(String::from).to_vec()), 0..4)
}

pub(super) fn network() -> impl Strategy<Value = Network> {
    let neighbour = (1u8..3, 1u8..3)
        .prop_map(|(mac, outer)| Neighbour { mac: Mac([2, 0, 0, 0, 1, mac]), outer: IpAddr::from([192, 0, 2, outer]) });
    let table = (1u32..3).prop_map(Table);
    let ground = (
        btree_map(link_name(), link(), 0..4),
        btree_map((link_name(), address()), 24u8..26, 0..4),
        btree_map((link_name(), address()), neighbour, 0..4),
        btree_map((table.clone(), range()).prop_map(|(table, to)| RouteId { table, to }), route(), 0..7),
    );
    let rule = (proptest::option::of(link_name()), table).prop_map(|(from_link, table)| Rule { from_link, table });
    let above = (
        btree_map(1u32..5, rule, 0..4),
        vec(translation(), 0..6),
        vec(filter(), 0..4),
        btree_map((link_name(), key()).prop_map(|(link, key)| PeerId { link, key }), peer(), 0..5),
        sysctls(),
    );
    (ground, above).prop_map(
        |((links, addresses, neighbours, routes), (rules, translations, filters, peers, sysctls))| Network {
            links,
            addresses,
            neighbours,
            routes,
            rules,
            translations: translations.into_iter().collect(),
            filters: filters.into_iter().collect(),
            peers,
            sysctls,
        },
    )
}
