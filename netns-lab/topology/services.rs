//! Cluster IPs, translated on each node as kube-proxy does: a ready backend by chance for each flow, wherever the flow
//! comes from; where none is ready, a refusal. (`cluster.local`; what another cluster sends is Tombolo's to translate,
//! before this.)

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tombolo_core::base::ClusterId;
use tombolo_scenarios::ground::Door;
use tombolo_scenarios::layout::{HostId, Layout};

/// The services of a cluster with their ready backends, which listen on the same port. `ready` says which pods are: by
/// their address, and the node that they are on.
#[must_use]
pub fn doors(
    layout: &Layout,
    cluster: &ClusterId,
    ready: impl Fn(IpAddr, HostId) -> bool,
) -> BTreeMap<Door, Vec<IpAddr>> {
    let mut doors = BTreeMap::new();
    for service in layout.services().iter().filter(|service| service.cluster == *cluster && !service.headless) {
        let backends: Vec<IpAddr> =
            service.pods.iter().filter(|pod| ready(pod.address, pod.node)).map(|pod| pod.address).collect();
        for (port, protocol) in &service.ports {
            doors.insert((service.cluster_ip, *protocol, *port), backends.clone());
        }
    }
    doors
}

/// The nft script that puts these in the place of what was there.
#[must_use]
pub fn script(doors: &BTreeMap<Door, Vec<IpAddr>>) -> String {
    let mut text = String::from("table ip lab-services\ndelete table ip lab-services\ntable ip lab-services {\n");
    let key = |(address, protocol, port): &Door| format!("{address} . {protocol} . {port}");
    let (served, empty): (Vec<_>, Vec<_>) = doors.iter().partition(|(_, backends)| !backends.is_empty());
    for (number, (_, backends)) in served.iter().enumerate() {
        let choice: Vec<String> =
            (0..).zip(*backends).map(|(n, backend): (usize, _)| format!("{n} : {backend}")).collect();
        let (count, choice) = (backends.len(), choice.join(", "));
        let _ = writeln!(text, "\tchain s{number} {{\n\t\tdnat to numgen random mod {count} map {{ {choice} }}\n\t}}");
    }
    let served: Vec<String> =
        served.iter().enumerate().map(|(n, (door, _))| format!("{} : goto s{n}", key(door))).collect();
    let empty: Vec<String> = empty.iter().map(|(door, _)| key(door)).collect();
    let elements = |list: &[String]| {
        if list.is_empty() { String::new() } else { format!("; elements = {{ {} }}", list.join(", ")) }
    };
    let kinds = "ipv4_addr . inet_proto . inet_service";
    let _ = writeln!(text, "\tmap doors {{ type {kinds} : verdict{}; }}", elements(&served));
    let _ = writeln!(text, "\tset empty {{ type {kinds}{}; }}", elements(&empty));
    let packet = "ip daddr . meta l4proto . th dport";
    for (hook, priority) in [("prerouting", -100), ("output", -100)] {
        let _ = writeln!(
            text,
            "\tchain {hook} {{\n\t\ttype nat hook {hook} priority {priority};\n\t\t{packet} vmap @doors\n\t}}"
        );
    }
    for hook in ["forward", "output"] {
        let _ = writeln!(
            text,
            "\tchain refuse-{hook} {{\n\t\ttype filter hook {hook} priority 0;\n\t\t{packet} @empty reject\n\t}}"
        );
    }
    text.push_str("}\n");
    text
}
