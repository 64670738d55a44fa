//! Where packets go in a lab.

use crate::Test;
use crate::bed::{Machine, TWO, until};
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("three_clusters_of_three_nodes_are_reached_as_a_cluster_is_without_us", three_clusters),
    ("cluster_addresses_lead_to_ready_pods_and_are_refused_without", services),
    ("a_cut_is_between_two_hosts_one_way_or_both_whatever_their_packets_carry", cuts),
    ("a_link_delays_and_loses_as_it_is_told", links),
    ("a_capture_holds_what_passed", captures),
];

const THREE: &str = "\
scenario: three by three
about: For tests.
clusters:
  west: { pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, gw-b*, worker] }
  east: { pods: 10.2.0.0/16, services: 10.102.0.0/16, nodes: [gw-a*, gw-b*, worker] }
  north: { pods: 10.3.0.0/16, services: 10.103.0.0/16, nodes: [gw-a*, gw-b*, worker] }
broker: own
cable: wireguard
links: { default: { latency: 5ms } }
workloads:
  - { service: web, namespace: shop, cluster: east, pods: 3, ports: [80/tcp], exported: true }
expect:
  - { by: 60s, settled: true }
";

fn three_clusters() {
    let machine = Machine::new();
    println!("{}", machine.up("three", THREE));
    for (from, to) in [
        ("west/gw-a", "172.16.3.12"),
        ("west/worker", "172.16.3.2"),
        ("west/gw-a", "172.16.1.10"),
        ("north/worker", "172.16.0.2"),
        ("west/worker/probe", "10.1.3.1"),
        ("west/worker/probe", "10.1.1.2"),
        ("east/gw-a/probe", "10.2.3.10"),
        ("east/gw-b/probe", "10.2.2.10"),
    ] {
        assert!(machine.pings(from, to), "{from} does not reach {to}");
    }
    for (from, to) in [("west/worker/probe", "10.2.3.10"), ("west/worker/probe", "10.3.1.2")] {
        assert!(!machine.pings(from, to), "{from} reaches {to}");
    }
}

fn services() {
    let machine = Machine::new();
    machine.up("two", TWO);
    let pods = ["east/gw-a/shop.web.2", "east/worker/shop.web.1"].map(ToOwned::to_owned);
    for number in ["http://10.102.0.10:80", "tcp://10.102.0.10:80", "udp://10.102.0.10:53"] {
        // Neighbours of a pod of the service among them.
        for from in ["east/worker/probe", "east/gw-a/probe", "east/worker"] {
            let mut answered: Vec<String> = (0..24).map(|_| machine.call(from, number).unwrap()).collect();
            answered.sort();
            answered.dedup();
            assert_eq!(answered, pods, "{from} {number}");
        }
    }
    machine.call("west/worker/probe", "http://10.102.0.10:80").unwrap_err();
    machine.lab(&["ready", "east/gw-a/shop.web.2", "--not"]).unwrap();
    for _ in 0..12 {
        assert_eq!(machine.call("east/gw-a/probe", "http://10.102.0.10:80").unwrap(), pods[1]);
    }
    machine.lab(&["ready", "east/worker/shop.web.1", "--not"]).unwrap();
    for from in ["east/gw-a/probe", "east/worker"] {
        let refused = machine.call(from, "http://10.102.0.10:80").unwrap_err();
        assert!(refused.contains("Connection refused"), "{refused}");
    }
    machine.lab(&["ready", "east/gw-a/shop.web.2"]).unwrap();
    assert_eq!(machine.call("east/worker/probe", "udp://10.102.0.10:53").unwrap(), pods[0]);
}

fn cuts() {
    let machine = Machine::new();
    machine.up("two", TWO);
    let heard = |at: &str, from: &str, to: &str| {
        let listen =
            format!("timeout 1 {} capture {at} -o /dev/null --frames 1 2>&1", env!("CARGO_BIN_EXE_tombolo-lab"));
        let ping = format!(
            "{} shell {from} -- ping -n -q -c 3 -i 0.2 -W 1 {to} >/dev/null",
            env!("CARGO_BIN_EXE_tombolo-lab")
        );
        let said = machine.sh(&format!("({ping} || true) & {listen} || true; wait"));
        said.contains("1 frames")
    };
    let (west, east, worker) = ("172.16.2.10", "172.16.1.10", "172.16.2.11");
    assert!(machine.pings("west/gw-a", east));
    machine.lab(&["cut", "west/gw-a", "east/gw-a", "--one-way"]).unwrap();
    assert!(!machine.pings("west/gw-a", east));
    assert!(!machine.pings("east/gw-a", west));
    // The other way packets still arrive; nobody else is cut off.
    assert!(heard("west/gw-a", "east/gw-a", west));
    assert!(machine.pings("west/worker", east) && machine.pings("west/gw-a", "172.16.1.11"));
    machine.lab(&["heal", "west/gw-a", "east/gw-a"]).unwrap();
    assert!(machine.pings("west/gw-a", east));
    // Between neighbours, and what pods send has the addresses of pods.
    machine.lab(&["cut", "west/gw-a", "west/worker"]).unwrap();
    assert!(!machine.pings("west/gw-a", worker) && !machine.pings("west/gw-a/probe", "10.1.2.2"));
    assert!(machine.pings("west/gw-a", "172.16.2.2"));
    machine.lab(&["heal", "west/gw-a", "west/worker"]).unwrap();
    // A neighbour that did not answer is asked again within a second.
    until("pods reach each other again", || machine.pings("west/gw-a/probe", "10.1.2.2"));
}

/// Average round trip and how many of a hundred pings were answered.
fn measured(machine: &Machine, from: &str, to: &str) -> (Duration, u32) {
    let ping = "ping -n -q -c 100 -i 0.01 -W 1".split(' ').chain([to]);
    let arguments: Vec<&str> = ["shell", from, "--"].into_iter().chain(ping).collect();
    let said = machine.lab(&arguments).unwrap();
    let word = |before: &str| said.split(before).nth(1).unwrap().trim_start();
    let answered = word("transmitted,").split(' ').next().unwrap().parse().unwrap();
    let average: f64 = word("mdev =").split('/').nth(1).unwrap().parse().unwrap();
    (Duration::from_secs_f64(average / 1000.0), answered)
}

fn links() {
    let machine = Machine::new();
    machine.up("two", TWO);
    let (from, to) = ("west/gw-a", "172.16.1.10");
    let (fast, answered) = measured(&machine, from, to);
    assert_eq!(answered, 100);
    assert!(fast > Duration::from_millis(10), "{fast:?}");
    machine.lab(&["link", "router:west", "router:east", "--latency", "40", "--one-way"]).unwrap();
    let (slow, _) = measured(&machine, from, to);
    assert!(slow > Duration::from_millis(45) && slow < Duration::from_millis(80), "{slow:?}");
    machine.lab(&["link", "router:west", "router:east", "--latency", "1", "--loss", "20%"]).unwrap();
    let (_, answered) = measured(&machine, from, to);
    // Lost on either way: 64 of a hundred come back, more or less.
    assert!((40..88).contains(&answered), "{answered}");
    machine.lab(&["link", "router:west", "router:east", "--loss", "0", "--cut"]).unwrap();
    assert!(!machine.pings(from, to));
    machine.lab(&["link", "router:west", "router:east", "--heal"]).unwrap();
    assert!(machine.pings(from, to));
    machine.lab(&["link", "router:west", "router:east", "--mtu", "1000"]).unwrap();
    let sized =
        |bytes: &str| machine.lab(&["shell", from, "--", "ping", "-c", "1", "-W", "1", "-s", bytes, to]).is_ok();
    // 28 bytes of headers.
    assert!(sized("972") && !sized("973"));
}

fn captures() {
    let machine = Machine::new();
    machine.up("two", TWO);
    let file = machine.file("captured", "");
    let capture = machine.start(&["capture", "router:west", "to-1", "--output", &file, "--seconds", "2"]);
    assert!(machine.pings("west/gw-a", "172.16.1.10"));
    let mut capture = capture;
    assert!(capture.wait().unwrap().success());
    let bytes = std::fs::read(&file).unwrap();
    let (mut at, mut pings) = (24, 0);
    while let Some(length) = bytes.get(at + 8..at + 12) {
        let length = usize::try_from(u32::from_le_bytes(length.try_into().unwrap())).unwrap();
        let frame = &bytes[at + 16..at + 16 + length];
        // IPv4, ICMP, echo request.
        pings +=
            u32::from(frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&1) && frame.get(34) == Some(&8));
        at += 16 + length;
    }
    assert!(at == bytes.len() && pings >= 1, "{pings}");
}
