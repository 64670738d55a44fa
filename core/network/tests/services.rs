//! Exported services: `spec/data-plane.md` section 1.

use super::clusters::*;
use crate::base::Instant;
use crate::model::Protocol;
use crate::network::{
    Arrival, Conntrack, Encapsulation, Entry, Flags, Item, Learned, Outcome, Packet, Stage, Translation, TranslationId,
    Tuple, Verdict, forward,
};
use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

const WEB: &str = "10.102.0.80";

fn client(port: u16) -> (IpAddr, u16) {
    (pod(WEST_WORKER), port)
}

fn call(port: u16, flags: Flags) -> Packet {
    tcp(client(port), (ip(WEB), 80), flags)
}

/// As `packet` comes out of west's gateway `from` for east's gateway `to`.
fn in_cable(packet: Packet, from: Place, to: Place) -> Packet {
    let outer = Encapsulation {
        source: IpAddr::from([172, 16, from.0, from.1]),
        source_port: 4510 + u16::from(to.1),
        destination: IpAddr::from([172, 16, to.0, to.1]),
        destination_port: 4510 + u16::from(from.1),
        key: Some(key(from, to.1)),
    };
    Packet { outer: Some(outer), ..packet }
}

/// The inner destination of what went on.
fn went(verdict: &Verdict) -> IpAddr {
    let (Verdict::Send { packet, .. } | Verdict::DeliverPod { packet }) = verdict else { panic!("{verdict:?}") };
    packet.destination
}

#[test]
fn a_cluster_ip_is_translated_to_a_backend_at_the_gateway_and_back_on_the_way_home() {
    let mut clusters = Clusters::usual();
    let there = clusters.pod_sends(WEST_WORKER, call(4000, SYN));
    assert_eq!(
        there.told(),
        "west/worker vx-tombolo, west/gw-a tb-cable-1, east/gw-a vx-tombolo, east/worker delivered to a pod"
    );
    assert_eq!((there.packet.destination, there.packet.source), (pod(EAST_WORKER), pod(WEST_WORKER)));
    let back = clusters.pod_sends(EAST_WORKER, answer(&there.packet, SYN_ACK));
    assert_eq!(
        back.told(),
        "east/worker vx-tombolo, east/gw-a tb-cable-1, west/gw-a vx-tombolo, west/worker delivered to a pod"
    );
    assert_eq!(Tuple::of(&back.packet), Tuple::of(&call(4000, SYN)).inverse());
}

#[test]
fn only_what_comes_from_a_cable_is_translated() {
    let mut clusters = Clusters::usual();
    let packet = tcp((pod(EAST_A), 4000), (ip(WEB), 80), SYN);
    let outcome = clusters.at(EAST_A, &Arrival::Link(link("cni0")), &packet);
    assert_eq!(sent(&outcome.verdict).0.destination, ip(WEB), "inside the cluster, kube-proxy translates");
}

#[test]
fn a_service_that_is_not_exported_and_a_port_that_it_does_not_have_are_for_nobody() {
    let mut clusters = Clusters::usual();
    let told = clusters.pod_sends(WEST_WORKER, tcp(client(1), (ip(WEB), 81), SYN)).told();
    assert!(told.ends_with("east/gw-a dropped, blackhole 10.102.0.0/16 in table 7401"), "{told}");
    let told = clusters.pod_sends(WEST_WORKER, udp(client(1), (ip(WEB), 80))).told();
    assert!(told.ends_with("east/gw-a dropped, blackhole 10.102.0.0/16 in table 7401"), "{told}");
}

#[test]
fn a_service_without_a_ready_backend_drops() {
    let mut clusters = Clusters::usual();
    clusters.export(&web(&[]));
    let told = clusters.pod_sends(WEST_WORKER, call(4000, SYN)).told();
    assert!(told.ends_with("east/gw-a dropped, no backend of 10.102.0.80:80 is ready"), "{told}");
}

/// Seen with 120 flows in a network namespace of Linux 6.18 with nft 1.0.6, slots in turn to backends .7, .8 and .9; these
/// are the first.
#[test]
fn the_choice_is_the_one_that_linux_makes() {
    let backends = |prefix: &str| (0..128).map(|slot| (ip(&format!("{prefix}{}", 7 + slot % 3)), 8080)).collect();
    let chosen = |service: &str, prefix: &str, by_source, source: &str, port| {
        let mut network = Clusters::usual().node(EAST_A).network.clone();
        network.filters.clear();
        network.rules.clear();
        network.peers.values_mut().for_each(|peer| peer.allowed.extend([cidr("fd01::/64")]));
        put_route(
            &mut network,
            crate::network::Table::MAIN,
            "fd02::/64",
            crate::network::RouteKind::Out { link: link("cni0"), via: None },
            None,
        );
        let id = TranslationId::Service { address: ip(service), protocol: Protocol::Udp, port: 80 };
        network.put(Entry::Translation(id, Translation::Service { backends: backends(prefix), by_source }));
        let packet = in_cable(udp((ip(source), port), (ip(service), 80)), WEST_A, EAST_A);
        let outcome = forward(&network, &Conntrack::new(), &Arrival::Link(link("eth0")), &packet).remove(0);
        format!("{}", went(&outcome.verdict)).trim_start_matches(prefix).parse::<u8>().unwrap()
    };
    let ports = 2000..2008;
    let v4: Vec<_> = ports.clone().map(|port| chosen("10.102.0.80", "10.2.3.", false, "10.1.3.7", port)).collect();
    let v6: Vec<_> = ports.clone().map(|port| chosen("fd66::80", "fd02::", false, "fd01::7", port)).collect();
    let by_source: Vec<_> = ports.map(|port| chosen("10.102.0.81", "10.2.3.", true, "10.1.3.7", port)).collect();
    assert_eq!(v4, [8, 7, 7, 9, 8, 8, 8, 7]);
    assert_eq!(v6, [8, 9, 7, 7, 7, 7, 9, 7]);
    assert_eq!(by_source, [8; 8]);
}

/// Seen with the script of `plans::the_script_of_a_gateway` loaded in a namespace of Linux 6.18, beside a masquerade at
/// priority 100 and a drop of invalid packets.
#[test]
fn slot_table_script_and_model_choose_the_backend_that_linux_chose() {
    let mut clusters = Clusters::usual();
    clusters.export(&web(&[EAST_B, EAST_WORKER]));
    let chosen: Vec<_> =
        (5000..5008).map(|port| clusters.pod_sends(WEST_WORKER, call(port, SYN)).packet.destination).collect();
    let [b, worker] = [pod(EAST_B), pod(EAST_WORKER)];
    assert_eq!(chosen, [b, worker, b, worker, worker, b, worker, worker]);
}

#[test]
fn every_gateway_makes_the_same_choice_so_a_flow_keeps_its_backend_when_the_client_speaks_next() {
    let mut clusters = Clusters::usual();
    clusters.export(&web(&[EAST_A, EAST_B, EAST_WORKER]));
    for port in 4000..4050 {
        let arrival = Arrival::Link(link("eth0"));
        let mut backend = |gateway, flags| {
            let packet = in_cable(call(port, flags), WEST_A, gateway);
            went(&clusters.at(gateway, &arrival, &packet).verdict)
        };
        let first = backend(EAST_A, SYN);
        assert_eq!(backend(EAST_B, ACK), first, "the standby meets the flow in the middle");
    }
}

#[test]
fn a_flow_survives_a_change_of_gateways_also_when_the_server_speaks_next() {
    let mut clusters = Clusters::usual();
    let there = clusters.pod_sends(WEST_WORKER, call(4000, SYN));
    // East's nodes now use gw-b, and it sees the flow for the first time from behind.
    let moved = Clusters::with((2, 2), (2, 2));
    for (place, node) in moved.nodes {
        let conntrack = clusters.node(place).conntrack.clone();
        *clusters.node(place) = Node { network: node.network, conntrack };
    }
    clusters.export(&web(&[EAST_WORKER]));
    let back = clusters.pod_sends(EAST_WORKER, answer(&there.packet, ACK));
    assert_eq!(
        back.told(),
        "east/worker vx-tombolo, east/gw-b tb-cable-2, west/gw-b vx-tombolo, west/worker delivered to a pod"
    );
    assert_eq!(back.packet.source, ip(WEB), "the mirror rule");
    let on = clusters.pod_sends(WEST_WORKER, call(4000, ACK));
    assert_eq!((on.packet.destination, on.at), (pod(EAST_WORKER), EAST_WORKER));
}

#[test]
fn with_strict_tracking_a_flow_met_in_the_middle_is_lost() {
    let mut clusters = Clusters::usual();
    clusters.node(EAST_A).network.put(Entry::Sysctl("net.netfilter.nf_conntrack_tcp_loose".into(), "0".into()));
    let told = clusters.pod_sends(WEST_WORKER, call(4000, ACK)).told();
    assert!(told.ends_with("east/gw-a dropped, blackhole 10.102.0.0/16 in table 7401"), "{told}");
}

#[test]
fn a_stray_fin_or_reset_opens_no_flow_and_is_not_translated() {
    for flags in [FIN, RST, SYN_ACK] {
        let told = Clusters::usual().pod_sends(WEST_WORKER, call(4000, flags)).told();
        assert!(told.ends_with("east/gw-a dropped, blackhole 10.102.0.0/16 in table 7401"), "{told}");
    }
}

#[test]
fn client_ip_affinity_sends_all_flows_of_a_client_to_one_backend() {
    let mut clusters = Clusters::usual();
    let Entry::Translation(id, Translation::Service { backends, .. }) = web(&[EAST_A, EAST_B, EAST_WORKER]) else {
        panic!()
    };
    clusters.export(&Entry::Translation(id, Translation::Service { backends, by_source: true }));
    let first = clusters.pod_sends(WEST_WORKER, call(4000, SYN)).packet.destination;
    for port in 4001..4040 {
        assert_eq!(clusters.pod_sends(WEST_WORKER, call(port, SYN)).packet.destination, first);
    }
}

#[test]
fn a_pod_that_is_called_by_its_own_address_answers_under_its_own_address() {
    let mut clusters = Clusters::usual();
    let direct = tcp(client(4000), (pod(EAST_WORKER), 8080), SYN);
    let there = clusters.pod_sends(WEST_WORKER, direct);
    let back = clusters.pod_sends(EAST_WORKER, answer(&there.packet, SYN_ACK));
    assert_eq!(back.packet.source, pod(EAST_WORKER), "though it is a backend of an exported service");
    assert_eq!(back.at, WEST_WORKER);
}

/// The limit of the mirror rule, the same in Linux: a gateway that never saw the flow cannot tell this answer from one
/// of the service's.
#[test]
fn a_direct_flow_to_an_exported_port_is_mistaken_for_the_services_if_the_server_speaks_next_at_a_new_gateway() {
    let mut clusters = Clusters::usual();
    let there = clusters.pod_sends(WEST_WORKER, tcp(client(4000), (pod(EAST_WORKER), 8080), SYN));
    clusters.node(EAST_A).conntrack = Conntrack::new();
    let back = clusters.pod_sends(EAST_WORKER, answer(&there.packet, ACK));
    assert_eq!(back.packet.source, ip(WEB));
}

#[test]
fn untranslated_transit_is_not_tracked_at_a_gateway() {
    let mut clusters = Clusters::usual();
    let packet = tcp(client(4000), (pod(EAST_WORKER), 9999), SYN);
    assert_eq!(clusters.pod_sends(WEST_WORKER, packet).at, EAST_WORKER);
    assert_eq!(clusters.node(WEST_A).conntrack.flows().count(), 0);
    assert_eq!(clusters.node(EAST_A).conntrack.flows().count(), 0);
    assert_eq!(clusters.node(EAST_WORKER).conntrack.flows().count(), 1, "its end is no transit");
}

#[test]
fn two_services_on_one_backend_called_from_one_port_clash_and_the_kernel_draws_a_port() {
    let mut clusters = Clusters::usual();
    clusters.export(&service(ip("10.102.0.81"), Protocol::Tcp, &[EAST_WORKER]));
    let first = clusters.pod_sends(WEST_WORKER, call(4000, SYN));
    assert_eq!(Tuple::of(&first.packet).source_port, 4000);
    let second = tcp(client(4000), (ip("10.102.0.81"), 80), SYN);
    let node = clusters.node(EAST_A).clone();
    let arrival = Arrival::Link(link("eth0"));
    let outcome = forward(&node.network, &node.conntrack, &arrival, &in_cable(second, WEST_A, EAST_A)).remove(0);
    assert_eq!(outcome.drawn, Some(1024..=65535));
    let port = |outcome: &Outcome| Tuple::of(&sent(&outcome.verdict).0).source_port;
    assert_eq!(port(&outcome), 1024);
    // Linux 6.18 drew 48740 for such a flow.
    let drawn = outcome.with_source_port(48_740, &node.conntrack).unwrap();
    assert_eq!(port(&drawn), 48_740);
    assert_eq!(outcome.with_source_port(4000, &node.conntrack), None, "that is the one that clashes");
    assert_eq!(outcome.with_source_port(80, &node.conntrack), None, "not of its range");

    // Its answers find the way back to the port that the client knows.
    clusters.node(EAST_A).conntrack.commit(drawn.learned.unwrap(), Instant::ZERO);
    let (packet, _) = sent(&drawn.verdict);
    let back = clusters.pod_sends(EAST_WORKER, answer(&Packet { outer: None, ..packet }, SYN_ACK));
    assert_eq!(Tuple::of(&back.packet), Tuple::of(&second).inverse());
}

#[test]
fn when_an_endpoint_goes_its_udp_flows_are_orphans_and_its_tcp_flows_are_not() {
    let mut clusters = Clusters::usual();
    clusters.export(&service(ip(WEB), Protocol::Udp, &[EAST_WORKER]));
    let query = udp(client(4001), (ip(WEB), 80));
    clusters.pod_sends(WEST_WORKER, query);
    clusters.pod_sends(WEST_WORKER, call(4000, SYN));
    let node = clusters.node(EAST_A);
    assert_eq!(node.conntrack.orphans(&node.network), []);
    assert_eq!(node.conntrack.outlived(&node.network), [].into());
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        clusters.export(&service(ip(WEB), protocol, &[EAST_B]));
    }
    let node = clusters.node(EAST_A);
    let orphans = node.conntrack.orphans(&node.network);
    assert_eq!(orphans, [Tuple::of(&query)]);
    orphans.iter().for_each(|tuple| assert!(node.conntrack.delete(tuple)));
    assert_eq!(
        clusters.pod_sends(WEST_WORKER, query).packet.destination,
        pod(EAST_B),
        "the next packet goes elsewhere"
    );
    assert_eq!(clusters.pod_sends(WEST_WORKER, call(4000, ACK)).packet.destination, pod(EAST_WORKER));
}

/// An open TCP flow and an answered UDP query, both to the service that runs on east's worker: what the backend saw.
fn one_of_each(clusters: &mut Clusters) -> [Packet; 2] {
    clusters.export(&service(ip(WEB), Protocol::Udp, &[EAST_WORKER]));
    [call(4000, SYN), udp(client(4001), (ip(WEB), 80))].map(|packet| {
        let there = clusters.pod_sends(WEST_WORKER, packet);
        let back = clusters.pod_sends(EAST_WORKER, answer(&there.packet, SYN_ACK));
        assert_eq!(Tuple::of(&back.packet), Tuple::of(&packet).inverse());
        there.packet
    })
}

/// What the hand does once the translations changed.
fn forget_orphans(clusters: &mut Clusters) -> Vec<Tuple> {
    let node = clusters.node(EAST_A);
    let orphans = node.conntrack.orphans(&node.network);
    orphans.iter().for_each(|tuple| assert!(node.conntrack.delete(tuple)));
    orphans
}

/// Both sides of the TCP flow speak and are heard as before.
fn goes_on(clusters: &mut Clusters, seen_by_backend: &Packet) {
    for _ in 0..2 {
        let there = clusters.pod_sends(WEST_WORKER, call(4000, ACK));
        assert_eq!(
            there.told(),
            "west/worker vx-tombolo, west/gw-a tb-cable-1, east/gw-a vx-tombolo, east/worker delivered to a pod"
        );
        assert_eq!(Tuple::of(&there.packet), Tuple::of(seen_by_backend));
        let back = clusters.pod_sends(EAST_WORKER, answer(seen_by_backend, ACK));
        assert_eq!(back.at, WEST_WORKER);
        assert_eq!(Tuple::of(&back.packet), Tuple::of(&call(4000, ACK)).inverse());
    }
}

#[test]
fn when_a_whole_service_goes_its_tcp_flows_go_on_and_its_udp_flows_are_forgotten() {
    let mut clusters = Clusters::usual();
    let [stream, _] = one_of_each(&mut clusters);
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let id = TranslationId::Service { address: ip(WEB), protocol, port: 80 };
        clusters.node(EAST_A).network.take(&Item::Translation(id));
    }
    assert_eq!(forget_orphans(&mut clusters), [Tuple::of(&udp(client(4001), (ip(WEB), 80)))]);
    let node = clusters.node(EAST_A);
    assert_eq!(node.conntrack.outlived(&node.network), [(pod(EAST_WORKER), Protocol::Tcp, 8080)].into());
    goes_on(&mut clusters, &stream);
    for packet in [udp(client(4001), (ip(WEB), 80)), call(4002, SYN)] {
        let told = clusters.pod_sends(WEST_WORKER, packet).told();
        assert!(told.ends_with("east/gw-a dropped, blackhole 10.102.0.0/16 in table 7401"), "{told}");
    }
}

#[test]
fn a_flow_that_a_backend_began_is_of_its_service_too() {
    let mut clusters = Clusters::usual();
    clusters.export(&service(ip(WEB), Protocol::Udp, &[EAST_WORKER]));
    let backend = (pod(EAST_WORKER), 8080);
    let datagram = udp(backend, client(4001));
    for packet in [datagram, tcp(backend, client(4000), ACK)] {
        assert_eq!(clusters.pod_sends(EAST_WORKER, packet).packet.source, ip(WEB), "the mirror rule");
    }
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let id = TranslationId::Service { address: ip(WEB), protocol, port: 80 };
        clusters.node(EAST_A).network.take(&Item::Translation(id));
    }
    assert_eq!(forget_orphans(&mut clusters), [Tuple::of(&datagram)]);
    let node = clusters.node(EAST_A);
    assert_eq!(node.conntrack.outlived(&node.network), [(backend.0, Protocol::Tcp, backend.1)].into());
}

#[test]
fn what_the_host_hides_is_no_flow_of_a_service() {
    let mut node = Node { network: host(EAST_A), conntrack: Conntrack::new() };
    let query = udp((pod(EAST_A), 4000), (ip("192.0.2.5"), 53));
    let outcome = forward(&node.network, &node.conntrack, &Arrival::Link(link("cni0")), &query).remove(0);
    assert_eq!(sent(&outcome.verdict).0.source, IpAddr::from([172, 16, 2, 1]));
    node.conntrack.commit(outcome.learned.unwrap(), Instant::ZERO);
    assert_eq!(node.conntrack.orphans(&node.network), []);
}

/// As Linux: a translation that names the port has no other to draw.
#[test]
fn the_mirror_rule_drops_where_its_port_is_taken() {
    let mut clusters = Clusters::usual();
    let original = Tuple::of(&call(4000, SYN));
    let taken = Learned::Opened { original, reply: original.inverse(), picked_up: false };
    clusters.node(EAST_A).conntrack.commit(taken, Instant::ZERO);
    let journey = clusters.pod_sends(EAST_WORKER, tcp((pod(EAST_WORKER), 8080), client(4000), ACK));
    assert_eq!(dropped(&journey.end), "all source ports towards 10.1.3.7:4000 are taken");
}

#[test]
fn when_an_endpoint_goes_the_answers_of_its_tcp_flows_still_come_from_the_service() {
    let mut clusters = Clusters::usual();
    let [stream, _] = one_of_each(&mut clusters);
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        clusters.export(&service(ip(WEB), protocol, &[EAST_B]));
    }
    assert_eq!(forget_orphans(&mut clusters), [Tuple::of(&udp(client(4001), (ip(WEB), 80)))]);
    goes_on(&mut clusters, &stream);
}

#[test]
fn transit_of_a_pod_that_served_once_is_still_not_tracked() {
    let mut clusters = Clusters::usual();
    one_of_each(&mut clusters);
    let id = TranslationId::Service { address: ip(WEB), protocol: Protocol::Tcp, port: 80 };
    clusters.node(EAST_A).network.take(&Item::Translation(id));
    let flows = clusters.node(EAST_A).conntrack.flows().count();
    let direct = tcp((pod(WEST_WORKER), 4000), (pod(EAST_WORKER), 9090), SYN);
    let there = clusters.pod_sends(WEST_WORKER, direct);
    clusters.pod_sends(EAST_WORKER, answer(&there.packet, SYN_ACK));
    assert_eq!(clusters.node(EAST_A).conntrack.flows().count(), flows);
}

#[test]
fn a_backend_on_the_hosts_own_network_is_served_by_the_gateway_itself() {
    let mut clusters = Clusters::usual();
    let id = TranslationId::Service { address: ip(WEB), protocol: Protocol::Tcp, port: 80 };
    let backends = [(ip("172.16.2.1"), 53)].into();
    clusters.export(&Entry::Translation(id, Translation::Service { backends, by_source: false }));
    let there = clusters.pod_sends(WEST_WORKER, call(4000, SYN));
    assert_eq!(there.told(), "west/worker vx-tombolo, west/gw-a tb-cable-1, east/gw-a delivered to the host");
    let back = clusters.follow(EAST_A, Arrival::Local { link: None }, answer(&there.packet, SYN_ACK));
    assert_eq!(back.told(), "east/gw-a tb-cable-1, west/gw-a vx-tombolo, west/worker delivered to a pod");
    assert_eq!(Tuple::of(&back.packet), Tuple::of(&call(4000, SYN)).inverse());
}

#[test]
fn the_flow_of_a_service_is_tracked_and_open_once_both_sides_spoke() {
    let mut clusters = Clusters::usual();
    let there = clusters.pod_sends(WEST_WORKER, call(4000, SYN));
    let stage = |clusters: &mut Clusters| clusters.node(EAST_A).conntrack.flows().next().map(|flow| flow.stage);
    assert_eq!(stage(&mut clusters), Some(Stage::Opening));
    clusters.pod_sends(EAST_WORKER, answer(&there.packet, SYN_ACK));
    assert_eq!(stage(&mut clusters), Some(Stage::Open));
    clusters.pod_sends(WEST_WORKER, call(4000, RST));
    assert_eq!(stage(&mut clusters), Some(Stage::Closed));
    let conntrack = &mut clusters.node(EAST_A).conntrack;
    conntrack.expire(Instant::from_origin(Duration::from_secs(11)));
    assert_eq!(conntrack.flows().count(), 0);
}

#[test]
fn asking_leaves_no_trace() {
    let clusters = Clusters::usual();
    let node = &clusters.nodes[&EAST_A];
    let packet = in_cable(call(4000, SYN), WEST_A, EAST_A);
    let ask = || forward(&node.network, &node.conntrack, &Arrival::Link(link("eth0")), &packet);
    let first = ask();
    assert!(matches!(first[0].learned, Some(Learned::Opened { picked_up: false, .. })));
    assert_eq!(ask(), first);
}
