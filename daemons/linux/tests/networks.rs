//! What is ours on the nodes of two clusters, as the core's own tests have it, and services with any backends.

use crate::clusters::{self, host};
use std::net::IpAddr;
use tombolo_core::model::Protocol;
use tombolo_core::network::{Entry, Network, Translation, TranslationId, slots};

/// A cluster, and a node of it: 1 and 2 are candidates, 3 is a worker.
pub type Node = clusters::Place;

/// A node's address on its uplink.
pub fn address(place: Node) -> IpAddr {
    host(place).addresses.into_keys().map(|(_, address)| address).next().unwrap()
}

/// What is ours on a node while its cluster's traffic goes from candidate `local` to the other's candidate `remote`.
pub fn node(place: Node, (local, remote): (u8, u8)) -> Network {
    let mut network = clusters::ours(place, (local, remote));
    network.sysctls.insert("net.ipv4.ip_forward".into(), "1".into());
    network
}

/// A service of a cluster on this port, with these backends.
pub fn service(cluster: u8, protocol: Protocol, port: u16, backends: &[(IpAddr, u16)]) -> Entry {
    let address = IpAddr::from([10, 100 + cluster, 0, 80]);
    let backends = slots(&backends.iter().copied().collect());
    Entry::Translation(
        TranslationId::Service { address, protocol, port },
        Translation::Service { backends, by_source: false },
    )
}
