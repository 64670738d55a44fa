use super::*;
use crate::world::fixtures;
use std::collections::BTreeMap;
use tombolo_core::base::ClusterId;
use tombolo_core::model::Protocol;
use tombolo_core::nat::boxes::{Behaviour, Dependence};
use tombolo_core::network::{Encapsulation, Flags, Transport};

const START: Duration = Duration::ZERO;

fn fabric(change: impl FnOnce(&mut tombolo_scenarios::Scenario)) -> Fabric<&'static str> {
    let mut scenario = fixtures::two_clusters();
    change(&mut scenario);
    let layout = Arc::new(Layout::of(&scenario).unwrap());
    Fabric::new(layout, &scenario.links, 1)
}

fn node(fabric: &Fabric<&'static str>, cluster: &str, name: &str) -> HostId {
    fabric.layout().find_node(&cluster.parse().unwrap(), &name.parse().unwrap()).unwrap()
}

fn udp(from: (&str, u16), to: (&str, u16)) -> Packet {
    Packet {
        source: from.0.parse().unwrap(),
        destination: to.0.parse().unwrap(),
        transport: Transport::Udp { source: from.1, destination: to.1 },
        ttl: 64,
        length: 60,
        mss: None,
        outer: None,
    }
}

fn host_sends(fabric: &mut Fabric<&'static str>, from: HostId, packet: Packet) -> (Duration, Outcome<&'static str>) {
    fabric.send(START, from, Arrival::Local { link: None }, packet, "payload");
    arrives(fabric)
}

fn pod_sends(fabric: &mut Fabric<&'static str>, from: HostId, packet: Packet) -> (Duration, Outcome<&'static str>) {
    let pods = fabric.kernel(from).unwrap().pods_link();
    fabric.send(START, from, Arrival::Link(pods), packet, "payload");
    arrives(fabric)
}

fn arrives(fabric: &mut Fabric<&'static str>) -> (Duration, Outcome<&'static str>) {
    loop {
        let at = fabric.next_at().expect("a packet ends somewhere");
        if let Some(outcome) = fabric.step() {
            return (at, outcome);
        }
    }
}

fn loss(outcome: Outcome<&'static str>) -> Loss {
    match outcome {
        Outcome::Lost { loss, .. } => loss,
        Outcome::Host { .. } | Outcome::Pod { .. } => panic!("{outcome:?}"),
    }
}

#[test]
fn hosts_of_two_sites_reach_each_other_through_the_routers_in_the_latency_of_the_link() {
    let mut fabric = fabric(|_| {});
    let (west, east) = (node(&fabric, "west", "worker"), node(&fabric, "east", "gw-a"));
    let (at, outcome) = host_sends(&mut fabric, west, udp(("172.16.2.12", 9), ("172.16.1.10", 7)));
    assert!(matches!(outcome, Outcome::Host { host, payload: "payload", .. } if host == east), "{outcome:?}");
    assert_eq!(at, Duration::from_millis(5) + 2 * HANDLING);
}

#[test]
fn a_node_reaches_the_api_server_of_its_site_and_gets_an_answer() {
    let mut fabric = fabric(|_| {});
    let west = node(&fabric, "west", "worker");
    let (at, outcome) = host_sends(&mut fabric, west, udp(("172.16.2.12", 9), ("172.16.2.2", 7)));
    let Outcome::Host { host: api, .. } = outcome else { panic!("{outcome:?}") };
    assert!(at < Duration::from_millis(1), "{at:?}");
    let (_, outcome) = host_sends(&mut fabric, api, udp(("172.16.2.2", 7), ("172.16.2.12", 9)));
    assert!(matches!(outcome, Outcome::Host { host, .. } if host == west), "{outcome:?}");
}

#[test]
fn pods_of_one_cluster_reach_each_other_by_the_clusters_own_routes() {
    let mut fabric = fabric(|_| {});
    let (gateway, worker) = (node(&fabric, "west", "gw-a"), node(&fabric, "west", "worker"));
    let sent = udp(("10.1.1.2", 9), ("10.1.3.10", 7));
    let (_, outcome) = pod_sends(&mut fabric, gateway, sent);
    let Outcome::Pod { node, packet, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((node, packet.source, packet.ttl), (worker, sent.source, 62));
}

#[test]
fn a_pod_of_another_cluster_is_out_of_reach_without_us() {
    let mut fabric = fabric(|_| {});
    let west = node(&fabric, "west", "worker");
    let (_, outcome) = pod_sends(&mut fabric, west, udp(("10.1.3.2", 9), ("10.2.1.10", 7)));
    assert_eq!(loss(outcome), Loss::NoOwner("10.2.1.10".parse().unwrap()));
}

#[test]
fn a_cluster_ip_is_translated_at_the_clients_node_and_back() {
    let mut fabric = fabric(|_| {});
    let (client, server) = (node(&fabric, "east", "gw-a"), node(&fabric, "east", "worker"));
    let door = ("10.102.0.10".parse().unwrap(), Protocol::Tcp, 80);
    let pod: IpAddr = "10.2.2.10".parse().unwrap();
    fabric.proxy_mut(client).unwrap().set_services(BTreeMap::from([(door, vec![(pod, 8080)])]));
    let tcp = |source, destination, flags| Transport::Tcp { source, destination, flags };
    let syn = Flags { syn: true, ..Flags::default() };
    let mut sent = udp(("10.2.1.2", 0), ("10.102.0.10", 0));
    sent.transport = tcp(4000, 80, syn);
    let (_, outcome) = pod_sends(&mut fabric, client, sent);
    let Outcome::Pod { node, packet, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((node, packet.destination, packet.transport), (server, pod, tcp(4000, 8080, syn)));

    let answer = Flags { ack: true, ..syn };
    let mut reply = udp(("10.2.2.10", 0), ("10.2.1.2", 0));
    reply.transport = tcp(8080, 4000, answer);
    let (_, outcome) = pod_sends(&mut fabric, server, reply);
    let Outcome::Pod { packet, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((packet.source, packet.transport), (door.0, tcp(80, 4000, answer)));
}

#[test]
fn a_cut_acts_one_way_until_it_is_healed() {
    let mut fabric = fabric(|_| {});
    let (west, east) = (node(&fabric, "west", "gw-a"), node(&fabric, "east", "gw-a"));
    let there = udp(("172.16.2.10", 9), ("172.16.1.10", 7));
    let back = udp(("172.16.1.10", 7), ("172.16.2.10", 9));
    fabric.set_open(&[(west, east)], false);
    assert_eq!(loss(host_sends(&mut fabric, west, there).1), Loss::Cut(east));
    assert!(matches!(host_sends(&mut fabric, east, back).1, Outcome::Host { .. }));
    assert_eq!((fabric.passage(west, east), fabric.is_open(east, west)), (Err(Loss::Cut(east)), true));
    fabric.set_open(&[(west, east)], true);
    assert!(matches!(host_sends(&mut fabric, west, there).1, Outcome::Host { .. }));
}

#[test]
fn a_host_without_power_neither_sends_nor_receives_and_boots_with_an_empty_kernel() {
    let mut fabric = fabric(|_| {});
    let (west, east) = (node(&fabric, "west", "gw-a"), node(&fabric, "east", "gw-a"));
    let there = udp(("172.16.2.10", 9), ("172.16.1.10", 7));
    let ours = tombolo_core::network::Network {
        sysctls: BTreeMap::from([("net.ipv4.ip_forward".to_string(), "1".to_string())]),
        ..Default::default()
    };
    fabric.kernel_mut(east).unwrap().set_ours(ours.clone());
    assert_eq!(fabric.kernel(east).unwrap().ours(), &ours);
    fabric.set_power(east, false);
    assert_eq!(loss(host_sends(&mut fabric, west, there).1), Loss::Off);
    assert_eq!(fabric.passage(west, east), Err(Loss::Off));
    fabric.set_power(east, true);
    assert!(matches!(host_sends(&mut fabric, west, there).1, Outcome::Host { .. }));
    assert_eq!(fabric.kernel(east).unwrap().ours(), &tombolo_core::network::Network::default());
}

#[test]
fn loss_and_jitter_are_those_of_the_pair_of_sites() {
    let mut fabric = fabric(|scenario| {
        let pair = ("east".parse().unwrap(), "west".parse().unwrap());
        let latency = Duration::from_millis(20);
        let link = LinkSpec { latency, jitter: latency, loss_millionths: 250_000, ..LinkSpec::default() };
        scenario.links.pairs.insert(pair, link);
    });
    let west = node(&fabric, "west", "gw-a");
    let (mut lost, mut delays) = (0, std::collections::BTreeSet::new());
    for port in 1..=1000 {
        // So late that the one before has arrived.
        let sent = START + Duration::from_millis(50) * u32::from(port);
        let packet = udp(("172.16.2.10", port), ("172.16.1.10", 7));
        fabric.send(sent, west, Arrival::Local { link: None }, packet, "payload");
        let (at, outcome) = arrives(&mut fabric);
        match outcome {
            Outcome::Lost { loss: Loss::Chance(_), .. } => lost += 1,
            Outcome::Host { .. } => drop(delays.insert(at - sent)),
            Outcome::Pod { .. } | Outcome::Lost { .. } => panic!("{outcome:?}"),
        }
    }
    assert!((200..=300).contains(&lost), "{lost} of 1000 lost");
    assert!(*delays.first().unwrap() >= Duration::from_millis(20));
    assert!(*delays.last().unwrap() <= Duration::from_millis(41));
    assert!(delays.len() > 500, "{} different delays", delays.len());
}

#[test]
fn a_packet_that_is_longer_than_the_link_takes_is_lost_on_it_and_nowhere_else() {
    let mut fabric = fabric(|scenario| scenario.links.default.mtu = 1_300);
    let (west, east) = (node(&fabric, "west", "gw-a"), node(&fabric, "east", "gw-a"));
    let mut send = |from: HostId, packet: Packet| host_sends(&mut fabric, from, packet).1;
    let far = |length| Packet { length, ..udp(("172.16.2.10", 9), ("172.16.1.10", 7)) };
    assert!(matches!(send(west, far(1_300)), Outcome::Host { .. }));
    assert_eq!(loss(send(west, far(1_301))), Loss::TooLong { length: 1_301, mtu: 1_300 });
    let near = Packet { length: 1_500, ..udp(("172.16.1.10", 9), ("172.16.1.2", 7)) };
    assert!(matches!(send(east, near), Outcome::Host { .. }), "a site has no such link");
}

const STRICT: Behaviour =
    Behaviour { mapping: Dependence::AddressAndPort, filtering: Dependence::AddressAndPort, keeps_ports: false };

fn west_behind_nat() -> Fabric<&'static str> {
    fabric(|scenario| {
        if let Some(west) = scenario.clusters.get_mut(&"west".parse::<ClusterId>().unwrap()) {
            west.nat = Some(STRICT);
        }
    })
}

fn seen(outcome: Outcome<&'static str>) -> (String, String) {
    let Outcome::Host { packet, .. } = outcome else { panic!("{outcome:?}") };
    let (_, source, destination) = super::super::ports(&packet);
    (format!("{}:{source}", packet.source), format!("{}:{destination}", packet.destination))
}

#[test]
fn what_leaves_a_site_behind_nat_leaves_under_the_address_of_its_box_and_is_answered_there() {
    let mut fabric = west_behind_nat();
    let (west, east) = (node(&fabric, "west", "gw-a"), node(&fabric, "east", "gw-a"));
    let (_, there) = host_sends(&mut fabric, west, udp(("172.16.2.10", 9), ("172.16.1.10", 7)));
    assert_eq!(seen(there), ("198.18.2.1:20000".into(), "172.16.1.10:7".into()));
    let (_, back) = host_sends(&mut fabric, east, udp(("172.16.1.10", 7), ("198.18.2.1", 20_000)));
    assert_eq!(seen(back), ("172.16.1.10:7".into(), "172.16.2.10:9".into()));
    let (_, other) = host_sends(&mut fabric, east, udp(("172.16.1.10", 8), ("198.18.2.1", 20_000)));
    assert_eq!(loss(other), Loss::NotLetIn("198.18.2.1:20000".parse().unwrap()));
}

#[test]
fn behind_nat_an_address_is_nobodys_elsewhere_and_its_owners_at_home() {
    let mut fabric = west_behind_nat();
    let (west, east) = (node(&fabric, "west", "gw-b"), node(&fabric, "east", "gw-a"));
    let (_, far) = host_sends(&mut fabric, east, udp(("172.16.1.10", 9), ("172.16.2.10", 7)));
    assert_eq!(loss(far), Loss::NoOwner("172.16.2.10".parse().unwrap()));
    let (_, near) = host_sends(&mut fabric, west, udp(("172.16.2.11", 9), ("172.16.2.10", 7)));
    assert_eq!(seen(near), ("172.16.2.11:9".into(), "172.16.2.10:7".into()));
}

#[test]
fn a_box_that_forgets_or_moves_is_called_anew() {
    let mut fabric = west_behind_nat();
    let (west, east) = (node(&fabric, "west", "gw-a"), node(&fabric, "east", "gw-a"));
    let call = |fabric: &mut Fabric<&'static str>| {
        seen(host_sends(fabric, west, udp(("172.16.2.10", 9), ("172.16.1.10", 7))).1).0
    };
    assert_eq!(call(&mut fabric), "198.18.2.1:20000");
    assert!(fabric.forget_mappings(2) && !fabric.forget_mappings(1), "east has no box");
    let (_, late) = host_sends(&mut fabric, east, udp(("172.16.1.10", 7), ("198.18.2.1", 20_000)));
    assert_eq!(loss(late), Loss::NotLetIn("198.18.2.1:20000".parse().unwrap()));
    assert_eq!(call(&mut fabric), "198.18.2.1:20001");
    assert_eq!(fabric.change_address(2), Some("198.19.2.1".parse().unwrap()));
    assert_eq!(call(&mut fabric), "198.19.2.1:20002");
    assert_eq!([fabric.change_address(2), fabric.change_address(1)], [Some("198.18.2.2".parse().unwrap()), None]);
}

#[test]
fn what_a_cable_puts_around_a_packet_counts() {
    let fabric = fabric(|scenario| scenario.links.default.mtu = 1_300);
    let (west, east) = (node(&fabric, "west", "gw-a"), node(&fabric, "east", "gw-a"));
    let outer = Encapsulation {
        source: "172.16.2.10".parse().unwrap(),
        source_port: 4511,
        destination: "172.16.1.10".parse().unwrap(),
        destination_port: 4511,
        key: None,
    };
    let wrapped = |length| Packet { length, outer: Some(outer), ..udp(("10.1.0.7", 9), ("10.2.0.7", 7)) };
    assert_eq!(fabric.too_long(west, east, &wrapped(1_240)), None);
    let length = 1_301;
    assert_eq!(fabric.too_long(west, east, &wrapped(1_241)), Some(Loss::TooLong { length, mtu: 1_300 }));
}

#[test]
fn a_wire_keeps_the_order_of_its_packets_whatever_its_jitter() {
    let mut fabric = fabric(|scenario| scenario.links.default.jitter = Duration::from_millis(20));
    let west = node(&fabric, "west", "gw-a");
    let port_of = |outcome| match outcome {
        Outcome::Host { packet, .. } => super::super::ports(&packet).1,
        Outcome::Pod { .. } | Outcome::Lost { .. } => panic!("{outcome:?}"),
    };
    for port in 1..=100 {
        let packet = udp(("172.16.2.10", port), ("172.16.1.10", 7));
        fabric.send(START, west, Arrival::Local { link: None }, packet, "payload");
    }
    let arrived: Vec<u16> = (1..=100).map(|_| port_of(arrives(&mut fabric).1)).collect();
    assert_eq!(arrived, (1..=100).collect::<Vec<u16>>());
}

#[test]
fn the_same_seed_carries_the_same_packets_the_same_way() {
    let run = || {
        let mut fabric = fabric(|scenario| scenario.links.default.loss_millionths = 300_000);
        let west = node(&fabric, "west", "gw-a");
        let sent = (1..=100).map(|port| udp(("172.16.2.10", port), ("172.16.1.10", 7)));
        sent.map(|packet| host_sends(&mut fabric, west, packet)).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
