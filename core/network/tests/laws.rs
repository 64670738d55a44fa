//! The laws of plans, over networks drawn from a world so small that everything collides with everything.

use crate::base::{Cidr, Slot};
use crate::model::{CableDriver, CableKey, Protocol};
use crate::network::{
    Allowance, AllowanceId, Entry, Item, Link, LinkKind, LinkName, Mac, Neighbour, Network, Peer, PeerId, Route,
    RouteId, RouteKind, Rule, Table, Translation, TranslationId, Wanted, leans_on, plan,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

fn link_name() -> impl Strategy<Value = LinkName> {
    select(&["tb-cable-1", "tb-cable-2", "vx-tombolo"][..]).prop_map(|name| LinkName(name.into()))
}

fn range() -> impl Strategy<Value = Cidr> {
    let ranges = ["0.0.0.0/0", "10.1.0.0/16", "10.2.0.0/16", "10.2.1.0/24", "10.3.0.0/16", "fd00::/8"];
    select(ranges.map(|text| text.parse().unwrap()).to_vec())
}

fn address() -> impl Strategy<Value = IpAddr> {
    select(["10.1.0.1", "10.2.1.7", "fd74::4", "fd74::5"].map(|text| text.parse().unwrap()).to_vec())
}

fn key() -> impl Strategy<Value = CableKey> {
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
    (kind, proptest::option::of(address())).prop_map(|(kind, source)| Route { kind, source })
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
    prop_oneof![service, keep, untracked]
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

fn network() -> impl Strategy<Value = Network> {
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

fn wanted(network: Network) -> Wanted {
    let because = network.entries().map(|entry| (entry.item(), format!("{entry} is tested"))).collect();
    Wanted { network, because }
}

/// What `entry`, which stands in `now`, leans on and does not find there as it should be.
fn unheld(entry: &Entry, now: &Network, desired: &Network, observed: &Network) -> Vec<Item> {
    let item = entry.item();
    let wanted = desired.entry(&item).as_ref() == Some(entry);
    let was = observed.entry(&item).as_ref() == Some(entry);
    let (after, before) = (leans_on(entry, desired), leans_on(entry, observed));
    let needed: Vec<_> = match (wanted, was) {
        (true, true) => after.into_iter().filter(|item| before.contains(item)).collect(),
        (true, false) => after,
        (false, true) => before,
        (false, false) => panic!("{entry} is in neither network"),
    };
    let held = leans_on(entry, now);
    needed.into_iter().filter(|item| !held.contains(item)).collect()
}

/// 64 cases each, so that a usual run stays quick; `PROPTEST_CASES=40000` gives 10,000.
fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases / 4, ..config }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_plan_to_what_is_already_there_is_empty(there in network()) {
        prop_assert!(plan(&wanted(there.clone()), &there).is_empty());
    }

    #[test]
    fn an_applied_plan_gives_what_is_desired(desired in network(), observed in network()) {
        let mut now = observed.clone();
        plan(&wanted(desired.clone()), &observed).apply(&mut now);
        prop_assert_eq!(now, desired);
    }

    #[test]
    fn after_no_step_does_an_item_lack_what_it_leans_on(desired in network(), observed in network()) {
        let plan = plan(&wanted(desired.clone()), &observed);
        let mut now = observed.clone();
        for (i, step) in plan.steps().iter().enumerate() {
            step.apply(&mut now);
            for entry in now.entries() {
                let unheld = unheld(&entry, &now, &desired, &observed);
                prop_assert!(unheld.is_empty(), "after step {}: {entry} lacks {unheld:?}\n{plan}", i + 1);
            }
        }
    }

    #[test]
    fn the_order_of_events_does_not_matter(desired in network(), observed in network(), seed in any::<u64>()) {
        let mut entries: Vec<_> = desired.entries().collect();
        let mut rng = crate::base::Rng::new(seed);
        entries.sort_by_cached_key(|_| rng.bits());
        let mut shuffled = Network::default();
        entries.into_iter().for_each(|entry| shuffled.put(entry));
        let left = plan(&wanted(desired), &observed);
        prop_assert_eq!(left.to_string(), plan(&wanted(shuffled), &observed).to_string());
    }

    #[test]
    fn a_plan_touches_each_item_once_unless_it_is_made_anew(desired in network(), observed in network()) {
        let plan = plan(&wanted(desired), &observed);
        let mut touched = BTreeMap::<_, usize>::new();
        for step in plan.steps() {
            *touched.entry(step.action.entry().item()).or_default() += 1;
        }
        let anew = plan.steps().iter().filter(|step| step.because == "it is made anew").count();
        prop_assert_eq!(touched.values().filter(|times| **times == 2).count(), anew);
        prop_assert!(touched.values().all(|times| *times <= 2));
    }
}
