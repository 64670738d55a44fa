//! The ways of packets through both clusters: rule F of `spec/failover.md` and section 3 of `spec/data-plane.md`.

use super::clusters::*;
use crate::base::Cidr;
use crate::network::constants::{OVERLAY_PORT, TABLE_FROM_CABLE, TABLE_FROM_OVERLAY};
use crate::network::{
    AllowanceId, Arrival, Encapsulation, Entry, Packet, PeerId, RouteId, RouteKind, TranslationId, Verdict, forward,
};
use alloc::string::{String, ToString};

/// From a pod on west's worker to one on east's worker.
fn across() -> Packet {
    tcp((pod(WEST_WORKER), 4000), (pod(EAST_WORKER), 8080), SYN)
}

#[test]
fn a_pod_reaches_a_pod_of_the_other_cluster_over_the_chosen_gateways_and_keeps_its_source() {
    let journey = Clusters::usual().pod_sends(WEST_WORKER, across());
    assert_eq!(
        journey.told(),
        "west/worker vx-tombolo, west/gw-a tb-cable-1, east/gw-a vx-tombolo, east/worker delivered to a pod"
    );
    assert_eq!((journey.packet.source, journey.packet.ttl), (pod(WEST_WORKER), 60));
    assert_eq!(journey.packet.outer, None);
}

#[test]
fn each_cluster_follows_its_own_choice() {
    let mut clusters = Clusters::with((2, 1), (1, 2));
    assert_eq!(
        clusters.pod_sends(WEST_WORKER, across()).told(),
        "west/worker vx-tombolo, west/gw-b tb-cable-1, east/gw-a vx-tombolo, east/worker delivered to a pod"
    );
    let back = tcp((pod(EAST_WORKER), 8080), (pod(WEST_WORKER), 4000), SYN_ACK);
    assert_eq!(
        clusters.pod_sends(EAST_WORKER, back).told(),
        "east/worker vx-tombolo, east/gw-a tb-cable-2, west/gw-b vx-tombolo, west/worker delivered to a pod"
    );
}

#[test]
fn a_gateways_own_pod_goes_straight_into_the_cable() {
    let packet = tcp((pod(WEST_A), 4000), (pod(EAST_A), 8080), SYN);
    let told = Clusters::usual().pod_sends(WEST_A, packet).told();
    assert_eq!(told, "west/gw-a tb-cable-1, east/gw-a delivered to a pod");
}

#[test]
fn in_any_mixture_of_choices_no_packet_takes_more_than_overlay_cable_overlay() {
    let choices = [(1, 1), (1, 2), (2, 1), (2, 2)];
    let from = [WEST_A, WEST_B, WEST_WORKER];
    for (worker, a, b) in choices.iter().flat_map(|w| choices.iter().flat_map(move |a| choices.map(|b| (*w, *a, b)))) {
        let mut clusters = Clusters::with(worker, (1, 1));
        for (place, choice) in [(WEST_A, a), (WEST_B, b)] {
            clusters.node(place).network = host(place);
            ours(place, choice).entries().for_each(|entry| clusters.node(place).network.put(entry));
        }
        for place in from {
            let packet = tcp((pod(place), 4000), (pod(EAST_WORKER), 8080), SYN);
            let journey = clusters.pod_sends(place, packet);
            let tunnels: String =
                journey.hops.iter().map(|hop| if hop.contains("cable") { 'c' } else { 'o' }).collect();
            assert!(["oco", "co"].contains(&&*tunnels), "{}", journey.told());
            assert!(matches!(journey.end, Verdict::DeliverPod { .. }));
        }
    }
}

#[test]
fn what_comes_from_the_overlay_leaves_by_a_cable_or_not_at_all() {
    let mut clusters = Clusters::usual();
    let id = RouteId { table: TABLE_FROM_OVERLAY, to: cidr("10.2.0.0/16") };
    let mut route = clusters.node(WEST_A).network.routes[&id].clone();
    route.kind = RouteKind::Blackhole;
    clusters.node(WEST_A).network.routes.insert(id, route);
    let told = clusters.pod_sends(WEST_WORKER, across()).told();
    assert_eq!(told, "west/worker vx-tombolo, west/gw-a dropped, blackhole 10.2.0.0/16 in table 7402");
}

#[test]
fn what_comes_from_a_cable_never_goes_into_another() {
    let mut clusters = Clusters::usual();
    // East's gateway would send for west through the overlay; a packet from west for west must not get there.
    let outer = Encapsulation {
        source: ip("172.16.1.1"),
        source_port: 4511,
        destination: ip("172.16.2.1"),
        destination_port: 4511,
        key: Some(key(WEST_A, 1)),
    };
    clusters.node(EAST_A).network.filters.remove(&AllowanceId::Inner(cable(1)));
    let packet = Packet { outer: Some(outer), ..tcp((pod(WEST_WORKER), 4000), (ip("10.1.2.7"), 80), SYN) };
    let outcome = clusters.at(EAST_A, &Arrival::Link(link("eth0")), &packet);
    assert_eq!(dropped(&outcome.verdict), "blackhole 10.1.0.0/16 in table 7401");
}

#[test]
fn without_the_rule_for_cables_the_model_shows_the_loop_that_the_rule_prevents() {
    let mut clusters = Clusters::with((1, 1), (2, 1));
    clusters.node(EAST_A).network.rules.remove(&(crate::network::constants::RULE_FROM_CABLE + 1));
    clusters.node(EAST_A).network.filters.remove(&AllowanceId::Inner(cable(1)));
    let packet = tcp((pod(WEST_WORKER), 4000), (ip("10.101.0.9"), 80), SYN);
    let outer = Encapsulation {
        source: ip("172.16.1.1"),
        source_port: 4511,
        destination: ip("172.16.2.1"),
        destination_port: 4511,
        key: Some(key(WEST_A, 1)),
    };
    let packet = Packet { outer: Some(outer), ..packet };
    let outcome = clusters.at(EAST_A, &Arrival::Link(link("eth0")), &packet);
    assert!(matches!(outcome.verdict, Verdict::Send { .. }), "{outcome:?}");
}

#[test]
fn a_cable_takes_nothing_from_a_stranger_and_nothing_that_its_peer_may_not_send() {
    let mut clusters = Clusters::usual();
    let outer = Encapsulation {
        source: ip("172.16.2.1"),
        source_port: 4511,
        destination: ip("172.16.1.1"),
        destination_port: 4511,
        key: Some(key(EAST_A, 1)),
    };
    let packet = |source: &str, key| Packet {
        outer: Some(Encapsulation { key, ..outer }),
        ..tcp((ip(source), 1), (pod(WEST_WORKER), 2), SYN)
    };
    let uplink = Arrival::Link(link("eth0"));
    let mut because = |packet| dropped(&clusters.at(WEST_A, &uplink, &packet).verdict).to_string();
    let stranger = key(EAST_WORKER, 1);
    assert_eq!(because(packet("10.2.3.7", None)), "the sender on tb-cable-1 proved no key");
    assert_eq!(because(packet("10.2.3.7", Some(stranger))), "tb-cable-1 has no peer with key 02030100…");
    assert_eq!(
        because(packet("10.1.3.7", Some(key(EAST_A, 1)))),
        "the peer with key 02010100… on tb-cable-1 may not send from 10.1.3.7"
    );
}

#[test]
fn a_prefix_belongs_to_the_peer_that_has_it_most_closely() {
    let mut clusters = Clusters::usual();
    let other = PeerId { link: cable(1), key: key((3, 1), 1) };
    let mut peer = clusters.node(WEST_A).network.peers[&PeerId { link: cable(1), key: key(EAST_A, 1) }].clone();
    (peer.endpoint, peer.allowed) = ("172.16.3.1:4511".parse().unwrap(), [cidr("10.2.3.0/24")].into());
    clusters.node(WEST_A).network.peers.insert(other, peer);
    let journey = clusters.pod_sends(WEST_WORKER, across());
    assert_eq!(journey.told(), "west/worker vx-tombolo, west/gw-a tb-cable-1, west/gw-a sent to 172.16.1.254");
    assert_eq!(sent(&journey.end).0.outer.unwrap().destination, ip("172.16.3.1"));
}

#[test]
fn two_peers_with_one_prefix_give_two_possible_outcomes() {
    let mut clusters = Clusters::usual();
    let id = PeerId { link: cable(1), key: key(EAST_A, 1) };
    let mut peer = clusters.node(WEST_A).network.peers[&id].clone();
    peer.endpoint = "172.16.2.9:4511".parse().unwrap();
    clusters.node(WEST_A).network.peers.insert(PeerId { key: key(EAST_B, 1), ..id }, peer);
    let node = clusters.node(WEST_A);
    let packet = tcp((pod(WEST_A), 4000), (pod(EAST_WORKER), 8080), SYN);
    let outcomes = forward(&node.network, &node.conntrack, &Arrival::Link(link("cni0")), &packet);
    let ends: alloc::vec::Vec<_> =
        outcomes.iter().map(|outcome| sent(&outcome.verdict).0.outer.unwrap().destination).collect();
    assert_eq!(ends, [ip("172.16.2.1"), ip("172.16.2.9")]);
}

#[test]
fn the_overlay_takes_packets_only_from_nodes_and_only_with_inner_addresses_of_the_clusterset() {
    let mut clusters = Clusters::usual();
    let mut because = |outer_source: &str, source: &str, destination: &str| {
        let outer = Encapsulation {
            source: ip(outer_source),
            source_port: 50_000,
            destination: ip("172.16.1.1"),
            destination_port: OVERLAY_PORT,
            key: None,
        };
        let packet = Packet { outer: Some(outer), ..udp((ip(source), 1), (ip(destination), 2)) };
        dropped(&clusters.at(WEST_A, &Arrival::Link(link("eth0")), &packet).verdict).to_string()
    };
    assert_eq!(because("172.16.9.9", "10.1.3.7", "10.2.3.7"), "UDP port 4804 takes nothing from 172.16.9.9");
    assert_eq!(because("172.16.1.3", "8.8.8.8", "10.2.3.7"), "vx-tombolo takes nothing from 8.8.8.8");
    assert_eq!(because("172.16.1.3", "10.1.3.7", "8.8.8.8"), "vx-tombolo takes nothing to 8.8.8.8");
}

#[test]
fn hellos_reach_the_other_end_of_the_overlay_and_of_the_cable() {
    let mut clusters = Clusters::usual();
    let on = |link: &str| Arrival::Local { link: Some(super::clusters::link(link)) };
    let hello = udp((overlay_address(WEST_A), 4491), (overlay_address(WEST_WORKER), 4491));
    let journey = clusters.follow(WEST_A, on("vx-tombolo"), hello);
    assert_eq!(journey.told(), "west/gw-a vx-tombolo, west/worker delivered to the host");
    assert!(matches!(journey.end, Verdict::DeliverHost { link: Some(via), .. } if via == link("vx-tombolo")));

    let hello = udp((probe_address(WEST_A), 4491), (probe_address(EAST_B), 4491));
    let journey = clusters.follow(WEST_A, on("tb-cable-2"), hello);
    assert_eq!(journey.told(), "west/gw-a tb-cable-2, east/gw-b delivered to the host");
    assert!(
        matches!(journey.end, Verdict::DeliverHost { link: Some(via), packet } if via == cable(1) && packet.ttl == 64)
    );
}

#[test]
fn a_hello_on_a_link_without_the_neighbour_or_peer_goes_nowhere() {
    let mut clusters = Clusters::usual();
    let mut because = |name: &str, to| {
        let arrival = Arrival::Local { link: Some(link(name)) };
        dropped(&clusters.at(WEST_A, &arrival, &udp((overlay_address(WEST_A), 1), (to, 2))).verdict).to_string()
    };
    assert_eq!(because("vx-tombolo", ip("fd74:1::9")), "vx-tombolo has no neighbour fd74:1::9");
    assert_eq!(because("tb-cable-2", probe_address(EAST_A)), "tb-cable-2 has no peer for fd75:2::1");
    assert_eq!(because("tb-cable-7", probe_address(EAST_A)), "there is no link tb-cable-7");
}

#[test]
fn a_packet_in_an_ordinary_route_leaves_for_the_next_hop() {
    let mut clusters = Clusters::usual();
    let local = Arrival::Local { link: None };
    let near = clusters.at(WEST_A, &local, &udp((ip("172.16.1.1"), 1), (ip("172.16.1.3"), 2)));
    let far = clusters.at(WEST_A, &local, &udp((ip("172.16.1.1"), 1), (ip("172.16.2.3"), 2)));
    assert_eq!(sent(&near.verdict).1, ip("172.16.1.3"));
    assert_eq!(sent(&far.verdict).1, ip("172.16.1.254"));
}

#[test]
fn forwarding_ends_with_the_hop_limit_and_at_what_the_link_takes() {
    let mut clusters = Clusters::usual();
    let old = Packet { ttl: 3, ..across() };
    let told = clusters.pod_sends(WEST_WORKER, old).told();
    assert_eq!(told, "west/worker vx-tombolo, west/gw-a tb-cable-1, east/gw-a dropped, hop limit reached");
    let large = Packet { length: 1421, ..across() };
    let told = clusters.pod_sends(WEST_WORKER, large).told();
    assert_eq!(
        told,
        "west/worker vx-tombolo, west/gw-a dropped, needs fragmentation: 1421 bytes, tb-cable-1 takes 1420"
    );
}

#[test]
fn out_by_the_cni_and_back_by_the_overlay_is_dropped_under_strict_rp_filter() {
    let mut clusters = Clusters::usual();
    let strict = Entry::Sysctl("net.ipv4.conf.all.rp_filter".into(), "1".into());
    clusters.node(EAST_WORKER).network.put(strict);
    let told = clusters.pod_sends(WEST_WORKER, across()).told();
    assert!(told.ends_with("east/worker delivered to a pod"), "both ways by the overlay passes: {told}");
    // The worker's own way to west is taken away: its answers would leave by the CNI.
    clusters.node(EAST_WORKER).network.rules.clear();
    let told = clusters.pod_sends(WEST_WORKER, across()).told();
    assert!(told.ends_with("dropped, rp_filter: the way back to 10.1.3.7 is not vx-tombolo"), "{told}");
}

#[test]
fn without_keep_source_the_hosts_masquerade_hides_who_calls() {
    let mut clusters = Clusters::usual();
    clusters.node(WEST_WORKER).network.translations.retain(|id, _| !matches!(id, TranslationId::KeepSource { .. }));
    let node = clusters.node(WEST_WORKER);
    let outcome = forward(&node.network, &node.conntrack, &Arrival::Link(link("cni0")), &across());
    assert_eq!(sent(&outcome[0].verdict).0.source, ip("172.16.1.3"));
}

#[test]
fn a_tunnel_is_never_sent_into_a_tunnel() {
    let mut clusters = Clusters::usual();
    let kind = RouteKind::Out { link: link("vx-tombolo"), via: Some(overlay_address(WEST_B)) };
    let table = crate::network::constants::TABLE_OUT;
    put_route(&mut clusters.node(WEST_A).network, table, "172.16.2.0/24", kind, None);
    let packet = tcp((pod(WEST_A), 4000), (pod(EAST_A), 8080), SYN);
    let outcome = clusters.at(WEST_A, &Arrival::Link(link("cni0")), &packet);
    assert_eq!(dropped(&outcome.verdict), "the outer packet to 172.16.2.1 would go into vx-tombolo again");
}

#[test]
fn a_node_forwards_nothing_while_forwarding_is_off() {
    let mut clusters = Clusters::usual();
    clusters.node(WEST_WORKER).network.put(Entry::Sysctl("net.ipv4.ip_forward".into(), "0".into()));
    assert_eq!(clusters.pod_sends(WEST_WORKER, across()).told(), "west/worker dropped, forwarding is off");
}

#[test]
fn what_is_in_no_route_and_no_device_is_dropped_with_the_reason() {
    let mut clusters = Clusters::usual();
    let outcome = clusters.at(WEST_A, &Arrival::Link(link("cni0")), &udp((pod(WEST_A), 1), (ip("fd99::1"), 2)));
    assert_eq!(dropped(&outcome.verdict), "no route to fd99::1");
    let outer = Encapsulation {
        source: ip("172.16.1.3"),
        source_port: 1,
        destination: ip("172.16.1.1"),
        destination_port: 9,
        key: None,
    };
    let mut packet = Packet { outer: Some(outer), ..across() };
    let outcome = clusters.at(WEST_A, &Arrival::Link(link("eth0")), &packet);
    assert_eq!(dropped(&outcome.verdict), "no device of ours listens on UDP port 9");
    packet.outer = Some(Encapsulation { destination: ip("172.16.1.2"), ..outer });
    let outcome = clusters.at(WEST_A, &Arrival::Link(link("eth0")), &packet);
    assert_eq!(dropped(&outcome.verdict), "the outer destination 172.16.1.2 is not an address of this node");
}

#[test]
fn a_pod_in_the_cluster_is_delivered_from_a_cable_by_the_main_table() {
    let mut clusters = Clusters::usual();
    let packet = tcp((pod(WEST_WORKER), 4000), (pod(EAST_A), 8080), SYN);
    let told = clusters.pod_sends(WEST_WORKER, packet).told();
    assert_eq!(told, "west/worker vx-tombolo, west/gw-a tb-cable-1, east/gw-a delivered to a pod");
    assert!(
        !clusters
            .node(EAST_A)
            .network
            .routes
            .contains_key(&RouteId { table: TABLE_FROM_CABLE, to: Cidr::host(pod(EAST_A)) })
    );
}
