//! What may not meet.

use super::{cidr, cidrs, cluster, ranges};
use crate::base::Cidr;
use crate::ipam::{Conflict, conflicts, own_conflicts};
use crate::model::Ranges;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use proptest::prelude::*;

fn between(west: &Ranges, east: &Ranges) -> Vec<String> {
    let found = conflicts((&cluster("west"), west), (&cluster("east"), east));
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn what_one_announces_may_not_meet_anything_that_the_other_uses() {
    let west = ranges(&["10.1.0.0/16", "fd00:1::/48"], &["10.101.0.0/16"]);
    let mut east = ranges(&["10.2.0.0/16"], &["10.1.128.0/17"]);
    east.nodes = Vec::from(["10.101.0.7".parse().unwrap()]);
    east.overlay = cidrs(&["fd00:1:0:5::/64"]);
    assert_eq!(
        between(&west, &east),
        [
            "10.1.0.0/16 for pods of west meets 10.1.128.0/17 for services of east",
            "fd00:1::/48 for pods of west meets fd00:1:0:5::/64 for the overlay of east",
            "10.101.0.0/16 for services of west meets 10.101.0.7/32 for a node of east",
        ]
    );
}

#[test]
fn pods_and_services_behind_global_addresses_may_be_equal() {
    let mut west = ranges(&["10.1.0.0/16"], &["10.101.0.0/16"]);
    let mut east = west.clone();
    assert_eq!(between(&west, &east).len(), 2);
    west.global = cidrs(&["242.0.0.0/16"]);
    assert_eq!(between(&west, &east).len(), 2, "east still announces its own");
    east.global = cidrs(&["242.1.0.0/16"]);
    assert_eq!(between(&west, &east), [""; 0]);
    east.global = cidrs(&["242.0.128.0/17"]);
    assert_eq!(
        between(&west, &east),
        ["242.0.0.0/16 for global addresses of west meets 242.0.128.0/17 for global addresses of east"]
    );
}

#[test]
fn nodes_and_overlays_of_two_clusters_may_be_equal() {
    let mut west = ranges(&["10.1.0.0/16"], &[]);
    west.nodes = Vec::from(["172.18.0.2".parse().unwrap()]);
    west.overlay = cidrs(&["fd74::/64"]);
    let east = Ranges { pods: cidrs(&["10.2.0.0/16"]), ..west.clone() };
    assert_eq!(between(&west, &east), [""; 0]);
}

#[test]
fn ranges_of_one_cluster_for_different_things_may_not_meet() {
    let mut west = ranges(&["10.1.0.0/16"], &["10.1.64.0/18"]);
    west.nodes = Vec::from(["10.1.0.9".parse().unwrap(), "10.1.64.1".parse().unwrap()]);
    let found: Vec<_> = own_conflicts(&cluster("west"), &west).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "10.1.0.0/16 for pods of west meets 10.1.64.0/18 for services of west",
            "10.1.64.0/18 for services of west meets 10.1.64.1/32 for a node of west",
        ]
    );
}

fn any_cidr() -> impl Strategy<Value = Cidr> {
    let v4 = (0..4_u8, 0..4_u8, prop_oneof![Just(8), Just(14), Just(16), Just(24)])
        .prop_map(|(a, b, length)| Cidr::holding([10 + a, b * 64, 0, 0].into(), length).unwrap());
    let v6 = (0..4_u8, prop_oneof![Just(48), Just(64)])
        .prop_map(|(a, length)| Cidr::holding(cidr("fd00::/16").nth(u128::from(a) << 64).unwrap(), length).unwrap());
    prop_oneof![3 => v4, 1 => v6]
}

fn any_ranges() -> impl Strategy<Value = Ranges> {
    let some = || proptest::collection::vec(any_cidr(), 0..3);
    (some(), some(), some(), some(), some()).prop_map(|(pods, services, global, overlay, nodes)| Ranges {
        pods,
        services,
        global,
        overlay,
        nodes: nodes.iter().map(Cidr::network).collect(),
    })
}

proptest! {
    #[test]
    fn the_test_is_symmetric(west in any_ranges(), east in any_ranges()) {
        let (w, e) = (cluster("west"), cluster("east"));
        let mut there = conflicts((&w, &west), (&e, &east));
        let turn = |Conflict { ours, theirs }| Conflict { ours: theirs, theirs: ours };
        let mut back: Vec<_> = conflicts((&e, &east), (&w, &west)).into_iter().map(turn).collect();
        there.sort();
        back.sort();
        prop_assert_eq!(there, back);
    }

    #[test]
    fn without_a_conflict_no_announced_address_is_used_by_the_other(west in any_ranges(), east in any_ranges()) {
        prop_assume!(between(&west, &east).is_empty());
        for (_, announced) in west.announced() {
            for (_, used) in east.all() {
                prop_assert!(!used.contains(announced.network()) && !announced.contains(used.network()));
            }
        }
    }
}
