use super::*;

/// West with two gateways and a worker, east with one and one; east holds the broker and exports `web.shop` with three
/// pods.
pub(super) fn two_clusters() -> Scenario {
    let text = "\
scenario: two clusters
about: For tests.
clusters:
  west: { pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, gw-b*, worker] }
  east: { pods: 10.2.0.0/16, services: 10.102.0.0/16, nodes: [gw-a*, worker] }
broker: east
cable: wireguard
workloads:
  - { service: web, namespace: shop, cluster: east, pods: 3, ports: [80/tcp], exported: true }
expect:
  - { by: 60s, settled: true }
";
    crate::parse("two-clusters.yaml", text).unwrap()
}

fn node(layout: &Layout, cluster: &str, name: &str) -> (HostLayout, NodeLayout) {
    let id = layout.find_node(&cluster.parse().unwrap(), &name.parse().unwrap()).unwrap();
    let host = layout.host(id).unwrap().clone();
    let node = host.node.clone().unwrap();
    (host, node)
}

#[test]
fn every_thing_has_the_place_that_the_address_plan_says() {
    let layout = Layout::of(&two_clusters()).unwrap();
    // East is the first in order of id.
    let (host, gateway) = node(&layout, "east", "gw-a");
    assert_eq!((host.site, host.address.to_string()), (1, "172.16.1.10".to_string()));
    assert_eq!(gateway.pod_range.to_string(), "10.2.1.0/24");
    assert_eq!((gateway.bridge.to_string(), gateway.probe_pod.to_string()), ("10.2.1.1".into(), "10.2.1.2".into()));
    let (host, worker) = node(&layout, "west", "worker");
    assert_eq!(host.address.to_string(), "172.16.2.12");
    assert_eq!(worker.pod_range.to_string(), "10.1.3.0/24");
    let api = layout.find(&Host::Api(ApiRef::Cluster("west".parse().unwrap()))).unwrap();
    assert_eq!(layout.host(api).unwrap().address.to_string(), "172.16.2.2");
    assert_eq!(layout.owner("172.16.2.2".parse().unwrap()), Some(api));
}

#[test]
fn pods_are_placed_in_turn_workers_first() {
    let layout = Layout::of(&two_clusters()).unwrap();
    let web = &layout.services()[0];
    assert_eq!(web.cluster_ip.to_string(), "10.102.0.10");
    let pods: Vec<(String, &NodeName)> = web
        .pods
        .iter()
        .map(|pod| (pod.address.to_string(), &layout.host(pod.node).unwrap().node.as_ref().unwrap().name))
        .collect();
    let [worker, gateway]: [NodeName; 2] = ["worker".parse().unwrap(), "gw-a".parse().unwrap()];
    assert_eq!(pods, [("10.2.2.10".into(), &worker), ("10.2.1.10".into(), &gateway), ("10.2.2.11".into(), &worker)]);
}

#[test]
fn uids_and_keys_are_equal_in_every_run_and_differ_between_nodes_and_ranks() {
    let layout = Layout::of(&two_clusters()).unwrap();
    assert_eq!(layout, Layout::of(&two_clusters()).unwrap());
    let uids: std::collections::BTreeSet<&str> = layout.nodes().map(|(_, node)| node.uid.as_str()).collect();
    assert_eq!(uids.len(), 5);
    assert!(uids.iter().all(|uid| uid.len() == 36), "{uids:?}");
    let keys: std::collections::BTreeSet<CableKey> = layout.nodes().flat_map(|(_, node)| node.cable_keys).collect();
    assert_eq!(keys.len(), 20);
}

#[test]
fn an_own_broker_has_a_site_of_its_own() {
    let mut scenario = two_clusters();
    assert_eq!(Layout::of(&scenario).unwrap().find(&Host::Api(ApiRef::Broker)), None);
    scenario.broker = Broker::Own;
    let layout = Layout::of(&scenario).unwrap();
    let broker = layout.find(&Host::Api(ApiRef::Broker)).unwrap();
    assert_eq!(layout.host(broker).unwrap().address.to_string(), "172.16.0.2");
    assert_eq!(layout.host(broker).unwrap().site, 0);
}

#[test]
fn a_scenario_without_room_is_told_what_has_none() {
    let mut scenario = two_clusters();
    let east: ClusterId = "east".parse().unwrap();
    scenario.clusters.get_mut(&east).unwrap().pods = "10.2.0.0/23".parse().unwrap();
    let error = Layout::of(&scenario).unwrap_err().to_string();
    assert_eq!(error, "pods 10.2.0.0/23 of cluster east have no /24 for node worker: take a shorter prefix");

    let mut scenario = two_clusters();
    scenario.clusters.get_mut(&east).unwrap().services = "10.102.0.0/29".parse().unwrap();
    let error = Layout::of(&scenario).unwrap_err().to_string();
    assert_eq!(error, "services 10.102.0.0/29 of cluster east have no address for service shop/web");

    let mut scenario = two_clusters();
    scenario.workloads[0].pods = 600;
    let error = Layout::of(&scenario).unwrap_err().to_string();
    assert_eq!(error, "service shop/web of cluster east: pod 491 finds no free address on its node");

    let mut scenario = two_clusters();
    scenario.clusters.get_mut(&east).unwrap().nodes.clear();
    assert!(matches!(Layout::of(&scenario), Err(LayoutError::NoNode { .. })));

    let mut scenario = two_clusters();
    scenario.clusters.get_mut(&east).unwrap().pods = "fd00::/48".parse().unwrap();
    assert!(matches!(Layout::of(&scenario), Err(LayoutError::NotIpv4 { .. })));
}

#[test]
fn singletons_live_on_the_first_worker_or_else_the_first_node() {
    let mut scenario = two_clusters();
    let west: ClusterId = "west".parse().unwrap();
    let home = |layout: &Layout| layout.host(layout.home_of_singletons(&west).unwrap()).unwrap().address.to_string();
    assert_eq!(home(&Layout::of(&scenario).unwrap()), "172.16.2.12");
    scenario.clusters.get_mut(&west).unwrap().nodes.truncate(2);
    assert_eq!(home(&Layout::of(&scenario).unwrap()), "172.16.2.10");
}
