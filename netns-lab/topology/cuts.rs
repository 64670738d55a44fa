//! Who sent a packet, and whom it may not reach: rules in the routers.
//!
//! Addresses cannot tell: a NAT box changes them, and pods have their own. A packet is marked with its sender's number as
//! it comes out of that host's port; between routers the number travels in the frame's source address; and the
//! receiver's port drops the packets of those who are cut off from it.

use super::{PlaceName, Port, Topology};
use core::fmt::Write as _;
use std::collections::BTreeSet;
use tombolo_core::network::Mac;
use tombolo_scenarios::layout::HostId;

/// The table's name.
const TABLE: &str = "netdev lab-cuts";
/// Before whatever else looks at a packet.
const FIRST: i32 = -500;

const fn mark(host: HostId) -> usize {
    host.0 + 1
}

/// The source address of frames between routers that a host has sent.
fn mac(host: HostId) -> Mac {
    let number = u16::try_from(mark(host)).unwrap_or(u16::MAX).to_be_bytes();
    Mac([2, b't', b'l', 0, number[0], number[1]])
}

/// The nft script for a router: with a rule for each port that `is_there`, and what is `closed`, from which host to which.
#[must_use]
pub fn script(
    topology: &Topology,
    router: &PlaceName,
    is_there: impl Fn(&Port) -> bool,
    closed: &BTreeSet<(HostId, HostId)>,
) -> String {
    let hosts = || topology.ports.iter().filter_map(|port| port.host);
    let senders: Vec<String> = hosts().map(|host| format!("{} : {}", mac(host), mark(host))).collect();
    let macs: Vec<String> = hosts().map(|host| format!("{} : {}", mark(host), mac(host))).collect();
    let mut text = format!("table {TABLE}\ndelete table {TABLE}\ntable {TABLE} {{\n");
    let _ = writeln!(text, "\tmap senders {{ type ether_addr : mark; elements = {{ {} }}; }}", senders.join(", "));
    let _ = writeln!(text, "\tmap macs {{ type mark : ether_addr; elements = {{ {} }}; }}", macs.join(", "));
    let mut chain = |hook: &str, link: &str, rule: &str| {
        let head = format!("type filter hook {hook} device \"{link}\" priority {FIRST}");
        let _ = writeln!(text, "\tchain {hook}-{link} {{\n\t\t{head};\n\t\t{rule}\n\t}}");
    };
    let mut sets = String::new();
    for (port, host) in own_ports(topology, router).filter(|(port, _)| is_there(port)) {
        chain("ingress", &port.name, &format!("meta mark set {}", mark(host)));
        chain("egress", &port.name, &format!("meta mark @not-to-{} drop", port.name));
        let senders: Vec<String> =
            closed.iter().filter(|(_, to)| *to == host).map(|(from, _)| mark(*from).to_string()).collect();
        let elements =
            if senders.is_empty() { String::new() } else { format!(" elements = {{ {} }};", senders.join(", ")) };
        let _ = writeln!(sets, "\tset not-to-{} {{ type mark;{elements} }}", port.name);
    }
    for link in topology.links.iter().filter(|link| link.routers.contains(router)) {
        for end in link.routers.iter().zip(&link.ends).filter(|(at, _)| *at == router).map(|(_, end)| end) {
            chain("ingress", end, "meta mark set ether saddr map @senders");
            chain("egress", end, "ether saddr set meta mark map @macs");
        }
    }
    let at = text.find("\tchain").unwrap_or(text.len());
    text.insert_str(at, &sets);
    text.push_str("}\n");
    text
}

fn own_ports<'a>(topology: &'a Topology, router: &'a PlaceName) -> impl Iterator<Item = (&'a Port, HostId)> {
    topology.ports.iter().filter(move |port| port.at == *router).filter_map(|port| Some((port, port.host?)))
}

/// The router at whose port packets to a host end, if they are to.
#[must_use]
pub fn router_of(topology: &Topology, host: HostId) -> Option<&PlaceName> {
    topology.ports.iter().find(|port| port.host == Some(host)).map(|port| &port.at)
}
