use super::*;
use std::collections::BTreeSet;

const SCENARIO: &str = "\
scenario: for the topology
about: Two clusters, one behind a box, and a broker of its own.
clusters:
  west:
    pods: 10.1.0.0/16
    services: 10.101.0.0/16
    nodes: [gw-a*, worker]
    nat: { mapping: endpoint-independent, filtering: address-dependent, ports: kept }
  east: { pods: 10.2.0.0/16, services: 10.102.0.0/16, nodes: [gw-a*] }
broker: own
cable: wireguard
links:
  default: { latency: 5ms, jitter: 1ms }
  pairs:
    - { between: [east, west], latency: 20ms, loss: 1%, mtu: 1400 }
workloads:
  - { service: web, namespace: shop, cluster: east, pods: 2, ports: [80/tcp, 53/udp], exported: true }
expect:
  - { by: 60s, settled: true }
";

fn topology() -> (Layout, Topology) {
    let scenario = tombolo_scenarios::parse("topology.yaml", SCENARIO).unwrap();
    let layout = Layout::of(&scenario).unwrap();
    let topology = Topology::of(&scenario, &layout);
    (layout, topology)
}

#[test]
fn a_topology_reads_as_what_is_where() {
    insta::assert_snapshot!(topology().1.to_string());
}

#[test]
fn services_are_translated_to_ready_pods_and_refused_without() {
    let (layout, _) = topology();
    let east = "east".parse().unwrap();
    let first = layout.services()[0].pods[0].address;
    let all = services_script(&doors(&layout, &east, |_, _| true));
    let one = services_script(&doors(&layout, &east, |address, _| address == first));
    let none = services_script(&doors(&layout, &east, |_, _| false));
    insta::assert_snapshot!(format!("{all}\n{one}\n{none}"));
}

#[test]
fn routers_mark_who_sent_and_drop_what_is_cut() {
    let (_, topology) = topology();
    let west = topology.find("router:west").unwrap();
    let host = |name: &str| topology.ports.iter().find(|port| port.to.to_string() == name).unwrap().host.unwrap();
    let pair = (host("east/gw-a"), host("west/worker"));
    let script = |is_there: fn(&Port) -> bool, closed| cuts::script(&topology, west, is_there, &closed);
    let whole = script(|_| true, BTreeSet::from([pair]));
    let without_worker = script(|port| !port.to.to_string().ends_with("worker"), BTreeSet::new());
    assert_eq!(cuts::router_of(&topology, pair.1), Some(west));
    insta::assert_snapshot!(format!("{whole}\nits worker without power, nothing cut:\n{without_worker}"));
}

#[test]
fn a_box_is_rules_by_its_kind() {
    use tombolo_core::nat::boxes::{Behaviour, Dependence::*};
    let (_, topology) = topology();
    let (plain, moved) = (nat::State::default(), nat::State { moves: 1, remaps: 3 });
    let kinds = [
        (Nothing, Address, true, plain),
        (AddressAndPort, AddressAndPort, false, moved),
        (Nothing, Nothing, false, plain),
    ];
    let scripts = kinds.map(|(mapping, filtering, keeps_ports, state)| {
        let behaviour = Behaviour { mapping, filtering, keeps_ports };
        nat::script(&NatPlan { behaviour, ..topology.nats[0].clone() }, state)
    });
    insta::assert_snapshot!(scripts.join("\n"));
}

#[test]
fn every_scenario_of_the_library_has_a_topology() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    assert!(files.len() > 40, "{}", files.len());
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let scenario = tombolo_scenarios::parse("it.yaml", &text).unwrap();
        let layout = Layout::of(&scenario).unwrap();
        let topology = Topology::of(&scenario, &layout);
        let is_host = |place: &&PlaceName| matches!(place, PlaceName::Node(..) | PlaceName::Api(_));
        assert_eq!(topology.places.keys().filter(is_host).count(), layout.hosts().len(), "{}", path.display());
        let boxes = layout.nats().iter().flatten().count();
        assert_eq!(topology.nats.len(), boxes, "{}", path.display());
        // A kernel takes names of links up to 15 bytes.
        assert!(topology.ports.iter().all(|port| port.name.len() < 16));
    }
}
