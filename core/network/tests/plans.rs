//! Plans as text: what a person reads, and what nft gets.

use super::clusters::*;
use crate::network::constants::TABLE_OUT;
use crate::network::{Entry, Item, LinkKind, Network, RouteId, Wanted, nft, plan};
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

fn wanted(network: Network) -> Wanted {
    Wanted { network, ..Wanted::default() }
}

fn with_web(mut network: Network) -> Network {
    network.put(web(&[EAST_WORKER, EAST_B]));
    network
}

/// Only the first word of what each step does, for tests of the order.
fn order(desired: &Network, observed: &Network) -> Vec<String> {
    let plan = plan(&wanted(desired.clone()), observed);
    let words = |line: &str| line.split("      because").next().unwrap().trim_end().to_string();
    plan.lines().iter().map(|line| words(line)).collect()
}

#[test]
fn a_step_tells_what_it_does_and_why() {
    let mut desired = Wanted::default();
    let id = RouteId { table: crate::network::Table::MAIN, to: cidr("10.2.0.0/16") };
    let kind = crate::network::RouteKind::Out { link: link("vx-tombolo"), via: Some(ip("fd74::4")) };
    desired.network.put(Entry::Route(id, crate::network::Route { kind, source: None, mtu: None }));
    desired.because.insert(Item::Route(id), "east is reached through west/gw-a".into());
    assert_eq!(
        plan(&desired, &Network::default()).to_string(),
        "+ route 10.2.0.0/16 via inet6 fd74::4 dev vx-tombolo      because east is reached through west/gw-a\n"
    );
}

#[test]
fn a_gateway_is_set_up_from_nothing() {
    let plan = plan(&wanted(with_web(ours(EAST_A, (1, 1)))), &Network::default());
    insta::assert_snapshot!(plan);
}

#[test]
fn a_gateway_is_taken_down_in_reverse() {
    let plan = plan(&Wanted::default(), &with_web(ours(EAST_A, (1, 1))));
    insta::assert_snapshot!(plan);
}

#[test]
fn a_worker_follows_another_choice_by_replacing_its_routes_in_place() {
    let lines = order(&ours(WEST_WORKER, (2, 1)), &ours(WEST_WORKER, (1, 1)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_gateway_follows_another_choice_by_replacing_its_routes_in_place() {
    let lines = order(&ours(WEST_A, (1, 2)), &ours(WEST_A, (1, 1)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_new_peer_comes_before_the_old_one_goes() {
    let observed = ours(WEST_A, (1, 1));
    let mut desired = observed.clone();
    let old = desired.peers.keys().find(|id| id.link == cable(1)).unwrap().clone();
    let peer = desired.peers.remove(&old).unwrap();
    desired.peers.insert(crate::network::PeerId { key: key((2, 3), 1), ..old }, peer);
    let lines = order(&desired, &observed);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("+ peer 02030100") && lines[1].starts_with("- peer 02010100"), "{lines:?}");
}

#[test]
fn a_route_that_stays_is_never_without_a_peer_though_its_range_moves_from_one_to_another() {
    let observed = ours(WEST_A, (1, 1));
    let mut desired = observed.clone();
    let first = desired.peers.keys().find(|id| id.link == cable(1)).unwrap().clone();
    let peer = desired.peers[&first].clone();
    desired.peers.get_mut(&first).unwrap().allowed = [cidr("10.9.0.0/16")].into();
    desired.peers.insert(crate::network::PeerId { key: key((2, 3), 1), ..first }, peer);
    let lines = order(&desired, &observed);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("+ peer 02030100") && lines[1].starts_with("~ peer 02010100"), "{lines:?}");
}

#[test]
fn what_cannot_be_changed_in_place_is_made_anew_with_all_that_leans_on_it() {
    let observed = ours(WEST_WORKER, (1, 1));
    let mut desired = observed.clone();
    if let LinkKind::Overlay { port, .. } = &mut desired.links.get_mut(&link("vx-tombolo")).unwrap().kind {
        *port += 1;
    }
    insta::assert_snapshot!(plan(&wanted(desired), &observed));
}

#[test]
fn changes_that_wait_for_each_other_in_a_ring_are_resolved_without_a_window() {
    // 10.2 and 10.10 change cables, and each cable's peer changes to the other's range.
    let observed = ours(WEST_A, (1, 1));
    let mut observed = observed;
    let (first, second) = (cidr("10.2.0.0/16"), cidr("10.102.0.0/16"));
    let allow = |network: &mut Network, rank, range| {
        let peer = network.peers.iter_mut().find(|(id, _)| id.link == cable(rank)).unwrap().1;
        peer.allowed = [range].into();
    };
    let lead = |network: &mut Network, range, rank| {
        let id = RouteId { table: TABLE_OUT, to: range };
        network.routes.get_mut(&id).unwrap().kind = crate::network::RouteKind::Out { link: cable(rank), via: None };
        network.routes.remove(&RouteId { table: crate::network::constants::TABLE_FROM_OVERLAY, to: range });
    };
    let mut desired = observed.clone();
    for (network, ranks) in [(&mut observed, (1, 2)), (&mut desired, (2, 1))] {
        for (range, rank) in [(first, ranks.0), (second, ranks.1)] {
            allow(network, rank, range);
            lead(network, range, rank);
        }
    }
    let lines = order(&desired, &observed);
    insta::assert_snapshot!(lines.join("\n"));
    let mut now = observed.clone();
    plan(&wanted(desired.clone()), &observed).apply(&mut now);
    assert_eq!(now, desired);
}

#[test]
fn a_service_drains_by_one_replaced_translation() {
    let mut observed = ours(EAST_A, (1, 1));
    observed.put(web(&[EAST_WORKER, EAST_B]));
    let mut desired = observed.clone();
    desired.put(web(&[EAST_B]));
    let lines = order(&desired, &observed);
    assert_eq!(lines, ["~ dnat tcp 10.102.0.80:80 to 10.2.2.7:8080 (128/128) by flow"]);
}

#[test]
fn every_kind_of_item_has_words() {
    let mut desired = Network::default();
    desired.put(Entry::Sysctl("net.ipv4.conf.tb-cable-1.rp_filter".into(), "0".into()));
    desired.put(Entry::Translation(
        crate::network::TranslationId::Masquerade { from: cidr("10.1.0.0/16"), except: cidr("10.1.0.0/16") },
        crate::network::Translation::Masquerade,
    ));
    desired.put(web(&[]));
    host(WEST_A).links.into_iter().for_each(|(name, link)| desired.put(Entry::Link(name, link)));
    put_route(
        &mut desired,
        crate::network::Table::MAIN,
        "fd00::/8",
        crate::network::RouteKind::Out { link: link("eth0"), via: Some(ip("fe80::1")) },
        Some(ip("fd00::7")),
    );
    insta::assert_snapshot!(order(&desired, &Network::default()).join("\n"));
}

/// Checked and loaded by hand with nft 1.0.6, as were the two below.
#[test]
fn the_script_of_a_gateway() {
    insta::assert_snapshot!(nft::script(&with_web(ours(EAST_A, (1, 1))), &BTreeSet::new()));
}

#[test]
fn the_script_of_a_worker_has_no_services() {
    insta::assert_snapshot!(nft::script(&ours(WEST_WORKER, (1, 1)), &BTreeSet::new()));
}

#[test]
fn the_script_for_both_families_affinity_and_a_service_without_backends() {
    let mut network = ours(EAST_A, (1, 1));
    let v6 = |last: u8| (ip(&alloc::format!("fd02::{last}")), 53);
    let service = |address: &str, protocol, backends: &[(core::net::IpAddr, u16)]| {
        let id = crate::network::TranslationId::Service { address: ip(address), protocol, port: 53 };
        Entry::Translation(id, crate::network::Translation::Service { backends: backends.to_vec(), by_source: true })
    };
    network.put(service("fd66::80", crate::model::Protocol::Udp, &[v6(1), v6(2), v6(1)]));
    network.put(service("10.102.0.53", crate::model::Protocol::Udp, &[(ip("10.2.1.7"), 53)]));
    network.put(service("10.102.0.54", crate::model::Protocol::Tcp, &[]));
    insta::assert_snapshot!(nft::script(&network, &BTreeSet::new()));
}

/// Loaded with nft 1.0.6 on Linux 6.18 in the place of a script with the service: twenty of twenty flows went on and no
/// new one came through. Without the two sets, all twenty stood still.
#[test]
fn the_script_of_a_gateway_whose_only_service_went_tracks_what_its_backend_sends() {
    let outlived = [(ip("10.2.3.7"), crate::model::Protocol::Tcp, 8080)].into();
    insta::assert_snapshot!(nft::script(&ours(EAST_A, (1, 1)), &outlived));
}

#[test]
fn a_network_with_nothing_for_nft_leaves_no_table() {
    assert_eq!(nft::script(&host(WEST_A), &BTreeSet::new()), "table inet tombolo\ndelete table inet tombolo\n");
}
