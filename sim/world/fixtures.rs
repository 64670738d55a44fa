//! The scenario that tests here start from.

use std::collections::BTreeMap;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{CableDriver, Protocol, ServiceKey};
use tombolo_scenarios::{Broker, Cluster, Links, NodeSpec, Scenario, Workload};

fn cluster(pods: &str, services: &str, nodes: &[&str]) -> Cluster {
    let nodes = nodes
        .iter()
        .map(|name| NodeSpec { name: name.trim_end_matches('*').parse().unwrap(), gateway: name.ends_with('*') })
        .collect();
    Cluster { pods: pods.parse().unwrap(), services: services.parse().unwrap(), nodes, nat: None, apart: false }
}

/// `web.shop`, as a full name within one cluster.
pub(crate) fn web() -> ServiceKey {
    ServiceKey { namespace: "shop".parse().unwrap(), name: "web".parse().unwrap() }
}

/// West with two gateways and a worker, east with one and one; east holds the broker and exports `web.shop` with three
/// pods.
pub(crate) fn two_clusters() -> Scenario {
    let east: ClusterId = "east".parse().unwrap();
    let west: ClusterId = "west".parse().unwrap();
    Scenario {
        name: "two clusters".into(),
        about: "For tests.".into(),
        origin: Vec::new(),
        needs: std::collections::BTreeSet::new(),
        clusters: BTreeMap::from([
            (west, cluster("10.1.0.0/16", "10.101.0.0/16", &["gw-a*", "gw-b*", "worker"])),
            (east.clone(), cluster("10.2.0.0/16", "10.102.0.0/16", &["gw-a*", "worker"])),
        ]),
        broker: Broker::Member(east.clone()),
        cable: CableDriver::Wireguard,
        links: Links::default(),
        workloads: vec![Workload {
            service: web(),
            cluster: east,
            pods: 3,
            ports: vec![(80, Protocol::Tcp)],
            exported: true,
            headless: false,
        }],
        timeline: Vec::new(),
        expect: Vec::new(),
    }
}
