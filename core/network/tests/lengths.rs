//! What a route into a cable says of lengths: segments that are asked for fit, and what is longer goes nowhere (B28).

use super::clusters::{
    Clusters, EAST_A, EAST_WORKER, Place, SYN, SYN_ACK, WEST_A, WEST_WORKER, answer, cable, cidr, ip, link, pod,
    put_route, tcp,
};
use crate::network::constants::{RULE_OUT, TABLE_FROM_OVERLAY, TABLE_OUT};
use crate::network::{
    Arrival, Conntrack, Entry, Flags, Link, LinkKind, Network, Packet, Route, RouteKind, Rule, Table, Translation,
    TranslationId, Transport, Verdict, Wanted, forward,
};

/// What each of both gateways' cables carries.
fn across(west: u16, east: u16) -> Clusters {
    let mut clusters = Clusters::usual();
    for (place, mtu) in [(WEST_A, west), (EAST_A, east)] {
        for (id, route) in &mut clusters.node(place).network.routes {
            let into_cable = matches!(&route.kind, RouteKind::Out { link, .. } if *link == cable(1));
            if into_cable && [TABLE_OUT, TABLE_FROM_OVERLAY].contains(&id.table) {
                route.mtu = Some(mtu);
            }
        }
    }
    clusters
}

/// The segments that SYN and SYN-ACK ask for where they arrive, of a connection from one pod to another.
fn asked(clusters: &mut Clusters, from: Place, to: Place) -> (Option<u16>, Option<u16>) {
    let syn = Packet { mss: Some(1_460), ..tcp((pod(from), 4_000), (pod(to), 80), SYN) };
    let there = clusters.pod_sends(from, syn);
    assert!(matches!(there.end, Verdict::DeliverPod { .. }), "{}", there.told());
    let syn_ack = Packet { mss: Some(1_460), outer: None, ..answer(&there.packet, SYN_ACK) };
    let back = clusters.pod_sends(to, syn_ack);
    assert!(matches!(back.end, Verdict::DeliverPod { .. }), "{}", back.told());
    (there.packet.mss, back.packet.mss)
}

#[test]
fn syn_and_syn_ack_ask_for_segments_that_the_cables_of_both_directions_carry_whoever_opens_b28() {
    for (west, east, fits) in [(1_220, 1_420, 1_180), (1_420, 1_220, 1_180), (1_300, 1_240, 1_200)] {
        let mut clusters = across(west, east);
        for (from, to) in
            [(WEST_WORKER, EAST_WORKER), (EAST_WORKER, WEST_WORKER), (WEST_A, EAST_A), (EAST_WORKER, WEST_A)]
        {
            assert_eq!(asked(&mut clusters, from, to), (Some(fits), Some(fits)), "{west} there, {east} back");
        }
    }
}

#[test]
fn a_cable_that_carries_all_its_link_takes_still_lowers_what_ethernet_would_allow() {
    assert_eq!(asked(&mut Clusters::usual(), WEST_WORKER, EAST_WORKER), (Some(1_380), Some(1_380)));
}

#[test]
fn without_the_clamp_the_answer_asks_for_more_than_the_cable_carries() {
    let mut clusters = across(1_220, 1_220);
    for place in [WEST_A, EAST_A] {
        clusters.node(place).network.translations.retain(|_, what| *what != Translation::ClampMss);
    }
    assert_eq!(asked(&mut clusters, WEST_WORKER, EAST_WORKER), (Some(1_460), Some(1_460)));
}

#[test]
fn only_what_opens_a_connection_is_changed_and_nothing_is_raised() {
    let mut clusters = across(1_220, 1_220);
    let mut arrives = |mss, flags| {
        let packet = Packet { mss: Some(mss), ..tcp((pod(WEST_WORKER), 4_000), (pod(EAST_WORKER), 80), flags) };
        clusters.pod_sends(WEST_WORKER, packet).packet.mss
    };
    assert_eq!(arrives(536, SYN), Some(536));
    assert_eq!(arrives(1_460, SYN), Some(1_180));
    assert_eq!(arrives(1_460, Flags { rst: true, ..SYN }), Some(1_460));
}

#[test]
fn what_is_longer_than_the_cable_carries_goes_nowhere_from_pods_anywhere() {
    for place in [WEST_WORKER, WEST_A] {
        let long = Packet { length: 1_221, ..tcp((pod(place), 4_000), (pod(EAST_WORKER), 80), SYN) };
        let mut clusters = across(1_220, 1_420);
        let told = clusters.pod_sends(place, long).told();
        assert!(told.ends_with("needs fragmentation: 1221 bytes, tb-cable-1 takes 1220"), "{told}");
        assert!(matches!(clusters.pod_sends(place, Packet { length: 1_220, ..long }).end, Verdict::DeliverPod { .. }));
    }
}

#[test]
fn ipv6_segments_leave_room_for_its_longer_header() {
    let mut network = Network::default();
    network.put(Entry::Link(link("eth0"), Link { kind: LinkKind::Uplink, mtu: 1_500 }));
    network.put(Entry::Link(link("cni0"), Link { kind: LinkKind::Pods, mtu: 1_500 }));
    let out = |name: &str| RouteKind::Out { link: link(name), via: None };
    put_route(&mut network, Table::MAIN, "fd01::/64", out("cni0"), None);
    put_route(&mut network, TABLE_OUT, "fd02::/64", out("eth0"), None);
    network.routes.values_mut().for_each(|route| route.mtu = (route.kind == out("eth0")).then_some(1_300));
    network.put(Entry::Rule(RULE_OUT, Rule { from_link: None, table: TABLE_OUT }));
    network.put(Entry::Translation(TranslationId::ClampMss { link: link("eth0") }, Translation::ClampMss));
    for (from, to, by) in [("fd01::7", "fd02::7", "cni0"), ("fd02::7", "fd01::7", "eth0")] {
        let transport = Transport::Tcp { source: 4_000, destination: 80, flags: SYN };
        let packet = Packet {
            source: ip(from),
            destination: ip(to),
            transport,
            ttl: 64,
            length: 80,
            mss: Some(1_440),
            outer: None,
        };
        let outcome = forward(&network, &Conntrack::new(), &Arrival::Link(link(by)), &packet).remove(0);
        let (Verdict::Send { packet, .. } | Verdict::DeliverPod { packet }) = outcome.verdict else {
            panic!("{:?}", outcome.verdict)
        };
        assert_eq!(packet.mss, Some(1_240), "from {from}");
    }
}

#[test]
fn while_nothing_is_measured_a_route_that_leads_the_same_way_keeps_its_mtu() {
    let id = crate::network::RouteId { table: TABLE_OUT, to: cidr("10.2.0.0/16") };
    let route = |rank, mtu| Route { kind: RouteKind::Out { link: cable(rank), via: None }, source: None, mtu };
    let network = |route| Network { routes: [(id, route)].into(), ..Network::default() };
    let wanted = Wanted { network: network(route(1, None)), unmeasured: [id].into(), ..Wanted::default() };
    let target = |there| wanted.target(&network(there)).routes[&id].mtu;
    assert_eq!(target(route(1, Some(1_220))), Some(1_220));
    assert_eq!(target(route(2, Some(1_220))), None);
    let measured = Wanted { unmeasured: [].into(), ..wanted.clone() };
    assert_eq!(measured.target(&network(route(1, Some(1_220)))).routes[&id].mtu, None);
}
