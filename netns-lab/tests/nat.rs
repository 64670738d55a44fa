//! NAT boxes of each kind: which port a socket gets outside, and who is let in.

use crate::Test;
use crate::bed::{Machine, until};
use std::net::SocketAddr;
use std::process::Child;

pub const TESTS: &[Test] = &[
    ("a_mapping_depends_on_as_much_of_the_other_side_as_its_kind_says", mappings),
    ("a_filter_lets_in_whom_the_inside_wrote_to_by_its_kind", filters),
    ("a_box_that_forgets_gives_new_ports_and_one_that_moves_another_address", forgets),
];

/// Two hosts of east answer at two ports each; west is behind a box.
struct Site {
    machine: Machine,
    answering: Vec<Child>,
}

impl Site {
    fn new(nat: &str) -> Self {
        let machine = Machine::new();
        machine.up(
            "nat",
            &format!(
                "\
scenario: behind a box
about: For tests.
clusters:
  west: {{ pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*], nat: {{ {nat} }} }}
  east: {{ pods: 10.2.0.0/16, services: 10.102.0.0/16, nodes: [gw-a*, worker] }}
broker: east
cable: wireguard
links: {{ default: {{ latency: 1ms }} }}
expect:
  - {{ by: 60s, settled: true }}
"
            ),
        );
        let mut site = Self { machine, answering: Vec::new() };
        for (place, port) in [("east/gw-a", 1), ("east/gw-a", 2), ("east/worker", 1)] {
            site.answer(place, port);
        }
        site
    }

    fn answer(&mut self, place: &str, port: u16) {
        let door = format!("{port}/udp");
        let answer = ["--", env!("CARGO_BIN_EXE_tombolo-lab"), "answer", &door];
        self.answering.push(self.machine.start(&[&["shell", place][..], &answer].concat()));
        let number = format!("udp://127.0.0.1:{port}");
        until("it answers", || self.machine.lab(&["call", place, &number, "--timeout", "200"]).is_ok());
    }

    /// What the other side sees of a call from there, if anybody answers.
    fn seen(&self, from: (&str, u16), to: &str) -> Option<SocketAddr> {
        let (port, number) = (from.1.to_string(), format!("udp://{to}"));
        let said = self.machine.lab(&["call", from.0, &number, "--port", &port, "--timeout", "500"]).ok()?;
        Some(said.split(' ').next_back().unwrap().parse().unwrap())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.machine.lab(&["down", "--all"]);
        self.answering.iter_mut().for_each(|child| drop(child.wait()));
    }
}

const EAST: [&str; 4] = ["172.16.1.10:1", "172.16.1.10:2", "172.16.1.11:1", "172.16.1.10:1"];

fn mappings() {
    for (mapping, equal) in [
        ("endpoint-independent", [true, true, true]),
        ("address-dependent", [true, false, true]),
        ("address-and-port-dependent", [false, false, true]),
    ] {
        let site = Site::new(&format!("mapping: {mapping}, filtering: address-and-port-dependent"));
        let seen = EAST.map(|to| site.seen(("west/gw-a", 5000), to).unwrap());
        let [first, others @ ..] = seen;
        assert!(seen.iter().all(|seen| seen.ip().to_string() == "198.18.2.1" && seen.port() != 5000), "{seen:?}");
        assert_eq!(others.map(|other| other == first), equal, "{mapping}: {seen:?}");
    }
    let site = Site::new("mapping: endpoint-independent, filtering: address-and-port-dependent, ports: kept");
    for to in EAST {
        assert_eq!(site.seen(("west/gw-a", 5000), to), Some("198.18.2.1:5000".parse().unwrap()));
    }
    // A private address is nobody's elsewhere.
    assert_eq!(site.seen(("east/worker", 0), "172.16.2.10:4490"), None);
}

fn filters() {
    for (filtering, ports, passes) in [
        ("endpoint-independent", "kept", [true, true, true]),
        ("address-dependent", "kept", [true, true, false]),
        ("address-and-port-dependent", "kept", [true, false, false]),
        ("endpoint-independent", "changed", [true, true, true]),
        ("address-dependent", "changed", [true, true, false]),
    ] {
        let mut site = Site::new(&format!("mapping: endpoint-independent, filtering: {filtering}, ports: {ports}"));
        let drawn = || site.seen(("west/gw-a", 4490), EAST[0]).unwrap();
        let outside = if ports == "kept" { "198.18.2.1:4490".parse().unwrap() } else { drawn() };
        // Nobody answers there, but it was written to.
        assert_eq!(site.seen(("west/gw-a", 4490), "172.16.1.10:6001"), None);
        site.answer("west/gw-a", 4490);
        let callers = [("east/gw-a", 6001), ("east/gw-a", 6002), ("east/worker", 6001)];
        let passed = callers.map(|from| site.seen(from, &outside.to_string()).is_some());
        assert_eq!(passed, passes, "{filtering}, ports {ports}");
        // Where nobody has written from, nobody is let in.
        assert_eq!(site.seen(("east/gw-a", 6001), "198.18.2.1:4491"), None);
    }
}

fn forgets() {
    let site = Site::new("mapping: endpoint-independent, filtering: address-and-port-dependent");
    let seen = || site.seen(("west/gw-a", 5000), EAST[0]).unwrap();
    let first = seen();
    assert_eq!(seen(), first);
    site.machine.lab(&["remap", "router:west"]).unwrap();
    let second = seen();
    assert!(second.ip() == first.ip() && second.port() != first.port(), "{first} {second}");
    assert_eq!(site.machine.lab(&["move", "router:west"]).unwrap(), "198.19.2.1");
    let third = seen();
    assert_eq!((third.ip().to_string(), third.port()), ("198.19.2.1".into(), second.port()));
}
