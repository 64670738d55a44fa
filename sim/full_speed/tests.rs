//! The world without daemons: what its sockets, wires, pods and API servers do by themselves.

use super::*;
use crate::world::fixtures;
use tombolo_cluster::API_PORT;
use tombolo_scenarios::{ApiFault, ApiRef, Outcome, Place, ProbeTarget, Target, What};

fn cluster(name: &str) -> tombolo_core::base::ClusterId {
    name.parse().unwrap()
}

/// What came of probes since this was asked last.
fn probed(world: &mut FullSpeed) -> Vec<Outcome> {
    let outcome = |fact: Fact| if let What::Probed { outcome, .. } = fact.what { Some(outcome) } else { None };
    world.facts().into_iter().filter_map(outcome).collect()
}

/// Probes from a node, one after the other, and gives what came of each.
fn ask(world: &mut FullSpeed, from: (&str, &str), targets: &[ProbeTarget]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for (number, to) in (0..).zip(targets) {
        let timeout = Duration::from_secs(1);
        let from = (cluster(from.0), from.1.parse().unwrap());
        world.probe(ProbeId(number), &Probe { from, to: to.clone(), timeout, held: false }).unwrap();
        world.advance(world.reached + timeout + TICK).unwrap();
        outcomes.extend(probed(world));
    }
    outcomes
}

fn fetch(address: &str, port: u16, protocol: tombolo_core::model::Protocol) -> ProbeTarget {
    ProbeTarget::Fetch(Target::Address(address.parse().unwrap(), port, protocol))
}

#[test]
fn pods_of_a_cluster_exchange_tcp_and_udp_through_the_fabric() {
    use tombolo_core::model::Protocol::{Tcp, Udp};
    let mut scenario = fixtures::two_clusters();
    scenario.workloads[0].ports.push((53, Udp));
    let mut world = FullSpeed::without_daemons(&scenario, 1).unwrap();
    // The first pod of the service runs on the worker of east.
    let targets = [fetch("10.2.2.10", 80, Tcp), fetch("10.2.2.10", 53, Udp), fetch("10.102.0.10", 80, Tcp)];
    let outcomes = ask(&mut world, ("east", "gw-a"), &targets);
    let fetched = |address: &str| Outcome::Fetched { address: address.parse().unwrap(), server: "worker".into() };
    assert_eq!(outcomes[..2], [fetched("10.2.2.10"), fetched("10.2.2.10")]);
    assert!(matches!(&outcomes[2], Outcome::Fetched { address, .. } if address.to_string() == "10.102.0.10"));
}

#[test]
fn what_has_no_route_or_no_listener_fails_and_says_why() {
    use tombolo_core::model::Protocol::Tcp;
    let mut world = FullSpeed::without_daemons(&fixtures::two_clusters(), 1).unwrap();
    let outcomes = ask(&mut world, ("west", "worker"), &[fetch("10.2.2.10", 80, Tcp), fetch("10.1.1.2", 80, Tcp)]);
    let told: Vec<String> = outcomes.iter().map(|outcome| format!("{outcome:?}")).collect();
    assert_eq!(
        told,
        [
            "Failed { because: \"no connection to 10.2.2.10:80 (west/worker: nobody has 10.2.2.10)\" }",
            "Failed { because: \"10.1.1.2:80: connection refused\" }",
        ]
    );
}

#[test]
fn a_second_world_on_the_same_thread_is_refused() {
    let scenario = fixtures::two_clusters();
    let first = FullSpeed::without_daemons(&scenario, 1).unwrap();
    assert!(matches!(FullSpeed::without_daemons(&scenario, 1), Err(FullSpeedError::Occupied(_))));
    drop(first);
    assert!(FullSpeed::without_daemons(&scenario, 1).is_ok());
}

/// One probe over the long flow from `from` to the pod of `web` on the worker of east.
fn hold(world: &mut FullSpeed, from: (&str, &str)) -> Outcome {
    let timeout = Duration::from_secs(1);
    let to = fetch("10.2.2.10", 80, tombolo_core::model::Protocol::Tcp);
    let number = u64::try_from(world.reached.as_millis()).unwrap();
    let probe = Probe { from: (cluster(from.0), from.1.parse().unwrap()), to, timeout, held: true };
    world.probe(ProbeId(number), &probe).unwrap();
    world.advance(world.reached + timeout + TICK).unwrap();
    probed(world).pop().unwrap()
}

fn failed(because: &str) -> Outcome {
    Outcome::Failed { because: because.into() }
}

#[test]
fn a_long_flow_outlives_a_cut_and_not_the_power_of_its_server() {
    let mut world = FullSpeed::without_daemons(&fixtures::two_clusters(), 1).unwrap();
    let from = ("east", "gw-a");
    let served = Outcome::Fetched { address: "10.2.2.10".parse().unwrap(), server: "worker".into() };
    assert_eq!(hold(&mut world, from), served);

    let (client, server) =
        ("gw-a".parse().unwrap(), tombolo_scenarios::Host::Node(cluster("east"), "worker".parse().unwrap()));
    let client = tombolo_scenarios::Host::Node(cluster("east"), client);
    // Only what the client says gets through.
    world.act(&Fault::Cut { from: vec![server.clone()], to: vec![client.clone()], one_way: true }).unwrap();
    assert_eq!(hold(&mut world, from), failed("no answer from 10.2.2.10:80"));
    world.act(&Fault::Heal { from: vec![server], to: vec![client] }).unwrap();
    assert_eq!(hold(&mut world, from), served);

    world.act(&Fault::PowerOff(cluster("east"), "worker".parse().unwrap())).unwrap();
    assert_eq!(hold(&mut world, from), failed("no answer from 10.2.2.10:80 (east/worker: no power)"));
    world.act(&Fault::PowerOn(cluster("east"), "worker".parse().unwrap())).unwrap();
    assert_eq!(hold(&mut world, from), failed("the flow was reset"));
}

#[test]
fn a_node_without_power_says_nothing_of_the_flows_it_had() {
    let mut world = FullSpeed::without_daemons(&fixtures::two_clusters(), 1).unwrap();
    let (from, node) = (("east", "gw-a"), cluster("east"));
    hold(&mut world, from);
    let stack = world.sockets.pods_of(find_node(&world.layout, &node, &"gw-a".parse().unwrap()).unwrap())[0];
    assert!(world.sockets.connections(stack) > 0);
    world.act(&Fault::PowerOff(node.clone(), "gw-a".parse().unwrap())).unwrap();
    assert_eq!(world.sockets.connections(stack), 0);
    world.act(&Fault::PowerOn(node, "gw-a".parse().unwrap())).unwrap();
    world.advance(world.reached + Duration::from_secs(2)).unwrap();
    // A new client begins a new flow, and the old one does not come between.
    assert!(matches!(hold(&mut world, from), Outcome::Fetched { .. }));
}

fn told(facts: &[Fact]) -> Vec<String> {
    facts.iter().map(|fact| format!("{fact:?}")).collect()
}

fn after(scenario: &Scenario, seed: u64, seconds: u64) -> (FullSpeed, Vec<Fact>) {
    let mut world = FullSpeed::new(scenario, seed).unwrap();
    world.advance(Duration::from_secs(seconds)).unwrap();
    let facts = world.facts();
    (world, facts)
}

#[test]
fn the_same_seed_gives_the_same_facts_and_another_seed_others() {
    let scenario = fixtures::two_clusters();
    let run = |seed| told(&after(&scenario, seed, 4).1);
    let first = run(1);
    assert!(first.iter().any(|fact| fact.contains("Elected")), "{first:?}");
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}

#[test]
fn facts_come_in_order_of_time() {
    let (_, facts) = after(&fixtures::two_clusters(), 3, 4);
    assert!(facts.len() > 50);
    assert!(facts.is_sorted_by_key(|fact| fact.at));
}

#[test]
fn a_daemon_that_crashes_closes_its_connections_and_leaves_its_network() {
    let (mut world, _) = after(&fixtures::two_clusters(), 1, 4);
    let node = "gw-a".parse().unwrap();
    let host = find_node(&world.layout, &cluster("west"), &node).unwrap();
    let before = world.fabric.kernel(host).unwrap().ours().clone();
    assert!(!before.routes.is_empty());
    assert!(world.sockets.connections(StackId(host.0)) > 0);
    world.act(&Fault::Crash(cluster("west"), node, tombolo_scenarios::Daemons::All)).unwrap();
    world.advance(world.reached + Duration::from_millis(100)).unwrap();
    assert_eq!(world.sockets.connections(StackId(host.0)), 0);
    assert_eq!(*world.fabric.kernel(host).unwrap().ours(), before);
}

#[test]
fn an_api_that_was_down_has_kept_what_it_stored_and_its_daemons_come_back() {
    let (mut world, _) = after(&fixtures::two_clusters(), 1, 4);
    let api = ApiRef::Cluster(cluster("west"));
    let number = world.find_api(&api).unwrap();
    let stack = StackId(world.apis[number].host.0);
    let leases = |world: &FullSpeed| world.apis[number].api.server().list("coordination.k8s.io", "leases", "").len();
    assert_eq!(leases(&world), 1);
    world.act(&Fault::Api(api.clone(), ApiFault::Down)).unwrap();
    world.advance(world.reached + Duration::from_secs(3)).unwrap();
    assert_eq!(world.sockets.connections(stack), 0);
    world.act(&Fault::Api(api, ApiFault::Healthy)).unwrap();
    world.advance(world.reached + Duration::from_secs(8)).unwrap();
    assert_eq!(leases(&world), 1);
    assert!(world.sockets.connections(stack) > 0);
}

/// A world of four seconds whose API of west has become like this, one after the other and at once; and what happened in
/// the ten seconds after.
fn ten_seconds_after(faults: &[ApiFault]) -> (FullSpeed, Vec<Fact>) {
    let (mut world, _) = after(&fixtures::two_clusters(), 1, 4);
    for fault in faults {
        world.act(&Fault::Api(ApiRef::Cluster(cluster("west")), fault.clone())).unwrap();
    }
    world.advance(world.reached + Duration::from_secs(10)).unwrap();
    let facts = world.facts();
    (world, facts)
}

/// Which daemons of ours wrote into the API of west.
fn writers(facts: &[Fact]) -> std::collections::BTreeSet<String> {
    let west = Place::Api(ApiRef::Cluster(cluster("west")));
    let by = |fact: &Fact| {
        let What::Wrote { by: by @ Place::Daemon(..), .. } = &fact.what else { return None };
        (fact.place == west).then(|| by.to_string())
    };
    facts.iter().filter_map(by).collect()
}

#[test]
fn an_api_that_restarted_empty_gets_from_its_daemons_all_that_it_lost() {
    let (world, facts) = ten_seconds_after(&[ApiFault::RestartedEmpty]);
    let number = world.find_api(&ApiRef::Cluster(cluster("west"))).unwrap();
    let count = |group: &str, plural: &str| world.apis[number].api.server().list(group, plural, "").len();
    assert_eq!(count("coordination.k8s.io", "leases"), 1, "{:?}", writers(&facts));
    assert_eq!(count("multicluster.x-k8s.io", "serviceimports"), 1, "{:?}", writers(&facts));
}

#[test]
fn an_api_that_was_down_for_no_time_takes_writes_again() {
    let (_, facts) = ten_seconds_after(&[ApiFault::Down, ApiFault::Healthy]);
    assert!(!writers(&facts).is_empty());
}

#[test]
fn an_api_that_is_down_closes_its_connections_and_then_answers_nobody() {
    use tombolo_core::model::Protocol::Tcp;
    let (mut world, _) = after(&fixtures::two_clusters(), 1, 4);
    let api = ApiRef::Cluster(cluster("west"));
    let host = world.apis[world.find_api(&api).unwrap()].host;
    let address = world.layout.host(host).unwrap().address.to_string();
    world.act(&Fault::Api(api, ApiFault::Down)).unwrap();
    let outcomes = ask(&mut world, ("west", "worker"), &[fetch(&address, API_PORT, Tcp)]);
    assert_eq!(world.sockets.connections(StackId(host.0)), 0);
    assert_eq!(outcomes, [failed(&format!("no connection to {address}:{}", API_PORT))]);
}

#[test]
fn a_server_that_cannot_have_its_port_ends_the_run_and_says_why() {
    let mut world = FullSpeed::without_daemons(&fixtures::two_clusters(), 1).unwrap();
    world.advance(TICK).unwrap();
    let number = world.find_api(&ApiRef::Cluster(cluster("west"))).unwrap();
    // Another one, while the first still has the port: no verb can do that.
    let first = world.apis[number].process.take();
    let stack = StackId(world.apis[number].host.0);
    world.start_api(number).unwrap();
    let error = world.advance(Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.to_string(), "the world broke: the API of west cannot serve: address in use");
    world.sockets.enter(stack);
    drop(first);
}
