//! Nodes of two clusters on one wire, each in a network namespace of its own, with real daemons and real cables.
//!
//! Pods are addresses on the loopback of their node. The APIs live beside the nodes, on the same wire.

use crate::bed::{BROKER, Bed, Daemon, Member};
use crate::place::Place;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tombolo_core::model::{Api, Node, Object};

/// A node, by cluster and name.
pub type At = (&'static str, &'static str);

pub struct Site {
    bed: Arc<Bed>,
    /// The switch, and the machine with the APIs.
    wire: Place,
    nodes: BTreeMap<At, Place>,
    numbers: BTreeMap<At, u8>,
    pub apis: BTreeMap<&'static str, Member>,
}

fn number_of(cluster: &str) -> u8 {
    if cluster == "east" { 1 } else { 2 }
}

impl Site {
    /// Nodes with these names; those whose name begins with `gw` may be gateways.
    pub fn new(name: &str, nodes: &[At]) -> Self {
        let (bed, wire) = (Arc::new(Bed::new(name)), Place::new());
        wire.sh("ip link add wire type bridge; ip addr add 192.0.2.200/24 dev wire; ip link set wire up");
        let mut site = Self { bed, wire, nodes: BTreeMap::new(), numbers: BTreeMap::new(), apis: BTreeMap::new() };
        for name in ["east", "west", "broker"] {
            let bed = Arc::clone(&site.bed);
            let at = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 200), 0));
            site.apis.insert(name, site.wire.run(move || bed.api_at(name, at)));
        }
        for (number, at) in (1..).zip(nodes) {
            site.place(*at, number);
        }
        for at in nodes {
            site.link_pods(*at);
        }
        std::fs::write(site.bed.path("psk"), "a secret of the clusterset\n").unwrap();
        site
    }

    fn place(&mut self, at: At, number: u8) {
        let place = Place::new();
        self.wire.sh(&format!(
            "ip link add port{number} type veth peer name wan netns {}; ip link set port{number} master wire up",
            place.thread_number
        ));
        let pods = number_of(at.0);
        place.sh(&format!(
            "ip addr add 192.0.2.{number}/24 dev wan; ip link set wan up; ip route add default via 192.0.2.200; \
             ip addr add 10.{pods}.{number}.10/32 dev lo; ip addr add fd00:{pods}:{number}::10/128 dev lo nodad; \
             sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
        ));
        self.announce_node(at.0, at.1, number);
        self.nodes.insert(at, place);
        self.numbers.insert(at, number);
    }

    /// Puts a node into the API of its cluster.
    pub fn announce_node(&self, cluster: &str, name: &str, number: u8) {
        let node = Node {
            name: name.parse().unwrap(),
            uid: format!("uid of {cluster}/{name}"),
            addresses: vec![Ipv4Addr::new(192, 0, 2, number).into()],
            pod_ranges: [
                format!("10.{}.{number}.0/24", number_of(cluster)),
                format!("fd00:{}:{number}::/64", number_of(cluster)),
            ]
            .map(|range| range.parse().unwrap())
            .into(),
            gateway: name.starts_with("gw"),
        };
        self.apis[cluster].put(Api::Local, &Object::from(node));
    }

    /// What the cluster's own pod network does: it knows the pods of all its nodes.
    fn link_pods(&self, at: At) {
        for (other, number) in self.numbers.iter().filter(|(other, _)| other.0 == at.0 && other.1 != at.1) {
            let pods = number_of(other.0);
            self.nodes[&at].sh(&format!("ip route add 10.{pods}.{number}.0/24 via 192.0.2.{number}"));
        }
    }

    pub fn node(&self, at: At) -> &Place {
        &self.nodes[&at]
    }

    /// The pod on a node.
    pub fn pod(&self, at: At) -> Ipv4Addr {
        Ipv4Addr::new(10, number_of(at.0), self.numbers[&at], 10)
    }

    /// The same pod's address of IPv6.
    pub fn pod_v6(&self, at: At) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, number_of(at.0).into(), self.numbers[&at].into(), 0, 0, 0, 0, 0x10)
    }

    /// From now on what is longer than this is lost between two nodes, and nobody is told.
    pub fn narrow(&self, one: At, other: At, longest: u16) {
        for (from, to) in [(one, other), (other, one)] {
            let (from, to, place) = (self.numbers[&from], self.numbers[&to], self.node(from));
            // Each packet by itself is to meet the rule.
            place.sh("ip link set wan gso_max_segs 1");
            self.wire.sh(&format!(
                "nft 'add table netdev narrow; add counter netdev narrow lost{from}; \
                 add chain netdev narrow from{from} {{ type filter hook ingress device port{from} priority 0; }}; \
                 add rule netdev narrow from{from} ip daddr 192.0.2.{to} meta length > {longest} counter name lost{from} drop'"
            ));
        }
    }

    /// How many packets from this node were lost since they were too long.
    pub fn too_long(&self, from: At) -> u64 {
        let counter = format!("nft list counter netdev narrow lost{}", self.numbers[&from]);
        let told = self.wire.sh(&counter);
        told.split_once("packets ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()).unwrap()
    }

    /// The node's cable to the wire is pulled, or put back.
    pub fn wire(&self, at: At, is: &str) {
        self.wire.sh(&format!("ip link set port{} {is}", self.numbers[&at]));
    }

    /// Starts the daemon of a node.
    pub fn start(&self, at: At, more: &[&str]) -> Daemon {
        let number = number_of(at.0);
        let file = |name: &str| self.bed.path(name).display().to_string();
        let mut flags: Vec<String> = vec![
            format!("--node-name={}", at.1),
            format!("--pod-cidrs=10.{number}.0.0/16,fd00:{number}::/32"),
            format!("--service-cidrs=10.10{number}.0.0/16"),
            format!("--state-dir={}", file(&format!("state-{}-{}", at.0, at.1))),
        ];
        let daemon = if at.1.starts_with("gw") {
            flags.push(format!("--private-address=192.0.2.{}", self.numbers[&at]));
            flags.push(format!("--broker-kubeconfig={}", file("broker")));
            flags.push(format!("--cable-dir={}", file(&format!("cables-{}-{}", at.0, at.1))));
            flags.push(format!("--psk-file={}", file("psk")));
            "gateway"
        } else {
            "route-agent"
        };
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        let (bed, of) = (Arc::clone(&self.bed), at.0);
        let start = move || bed.start(daemon, of, &flags.iter().map(String::as_str).collect::<Vec<_>>());
        let mut started = self.nodes[&at].run(start);
        started.place = Some(self.nodes[&at].clone());
        started
    }

    /// Starts a daemon that is of no node, beside the APIs.
    pub fn start_beside(&self, daemon: &'static str, of: &'static str, more: &[&str]) -> Daemon {
        let mut flags: Vec<String> = more.iter().map(|flag| (*flag).to_owned()).collect();
        if daemon == "discovery" {
            flags.push(format!("--broker-kubeconfig={}", self.bed.path("broker").display()));
        }
        let bed = Arc::clone(&self.bed);
        let start = move || bed.start(daemon, of, &flags.iter().map(String::as_str).collect::<Vec<_>>());
        let mut started = self.wire.run(start);
        started.place = Some(self.wire.clone());
        started
    }

    /// Whether the pod on one node gets an answer from that on another.
    pub fn reaches(&self, from: At, to: At) -> bool {
        self.nodes[&from].succeeds(&format!("ping -c 1 -W 1 -I {} {}", self.pod(from), self.pod(to)))
    }

    /// How many Endpoints stand at the broker.
    pub fn endpoints(&self) -> usize {
        self.apis["broker"].server.list("submariner.io", "endpoints", BROKER).len()
    }
}
