//! The network of a node, as a person reads it.

use super::cluster::{Apis, candidates, cluster, hello, node, record, web, west};
use crate::base::{Instant, Machine, Slot, drain};
use crate::model::{Api, CableDriver, Kind, Object, WatchEvent};
use crate::network::{Entry, Network, Route, RouteId, RouteKind, plan};
use crate::roles::addresses::{overlay_address, probe_address};
use crate::roles::{Gateway, Input, Output, Role, RouteAgent, Via, cable_link};
use crate::sync::ABSENCE;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

fn objects() -> Vec<Object> {
    let mut objects = Vec::from([
        node("gw-a", 1, 0, true),
        node("gw-b", 1, 1, true),
        node("worker", 1, 2, false),
        record("west", 1, 5),
        record("east", 2, 5),
        candidates("west", 1, 5, &[("gw-a", 0), ("gw-b", 1)]),
        candidates("east", 2, 5, &[("gw-a", 0)]),
    ]);
    objects.extend(web());
    objects
}

/// What a daemon wants done to an empty kernel once it has seen everything.
fn first_plan(mut machine: impl Role) -> String {
    let mut apis = Apis::default();
    for object in objects() {
        apis.put(Api::Local, object);
    }
    let mut wanted = None;
    for (api, kind) in machine.watches() {
        for event in apis.listing(*api, *kind) {
            machine.handle(Input::Watched(*api, event), Instant::ZERO);
            for output in drain(&mut machine) {
                if let Output::Network(network) = output {
                    wanted = Some(network);
                }
            }
        }
    }
    plan(&wanted.unwrap(), &Network::default()).to_string()
}

#[test]
fn a_gateway_builds_cables_tables_and_translations() {
    insta::assert_snapshot!(first_plan(Gateway::new(west("gw-a", 0))));
}

#[test]
fn a_worker_builds_the_overlay_alone() {
    insta::assert_snapshot!(first_plan(RouteAgent::new(west("worker", 2).node)));
}

#[test]
fn a_cable_of_vxlan_is_left_by_way_of_the_candidate_behind_it() {
    for (driver, via) in
        [(CableDriver::Wireguard, None), (CableDriver::Vxlan, Some(probe_address(&cluster("east"), one())))]
    {
        let mut config = west("gw-a", 0);
        config.node.driver = driver;
        let mut gateway = Node::new(Gateway::new(config), Network::default());
        gateway.list();
        gateway.run(Duration::from_secs(2));
        let mut hops = gateway.kernel.routes.iter().filter_map(|(id, route)| match &route.kind {
            RouteKind::Out { link, via } if *link == cable_link(one()) => Some((id.to.to_string(), *via)),
            RouteKind::Out { .. } | RouteKind::Blackhole => None,
        });
        assert!(hops.any(|hop| hop == (PODS_OF_EAST.to_string(), via)), "{driver}");
    }
}

fn one() -> Slot {
    Slot::try_from(1).unwrap()
}

/// A daemon with its API, its kernel and what it wanted last.
struct Node<M> {
    machine: M,
    apis: Apis,
    kernel: Network,
    now: Instant,
    beat: u32,
}

impl<M: Role> Node<M> {
    fn new(machine: M, kernel: Network) -> Self {
        let mut apis = Apis::default();
        for object in objects() {
            apis.put(Api::Local, object);
        }
        Self { machine, apis, kernel, now: Instant::ZERO, beat: 0 }
    }

    fn handle(&mut self, input: Input) {
        self.machine.handle(input, self.now);
        self.drain();
    }

    fn drain(&mut self) {
        for output in drain(&mut self.machine) {
            if let Output::Network(wanted) = output {
                plan(&wanted, &self.kernel).apply(&mut self.kernel);
            }
        }
    }

    fn list(&mut self) {
        for (api, kind) in self.machine.watches() {
            for event in self.apis.listing(*api, *kind) {
                self.handle(Input::Watched(*api, event));
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((at, _)) = self.machine.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = at;
            self.machine.handle_timeout(at);
            self.drain();
        }
        self.now = end;
    }

    /// A hello of gw-a, candidate 1, that tells of a path to candidate 1 of east.
    fn hear_of_a_path(&mut self) {
        self.beat += 1;
        let from = overlay_address(&cluster("west"), "uid-1-gw-a");
        self.handle(Input::Hello { via: Via::Overlay, from, bytes: hello("west", self.beat, "east") });
    }

    fn routes_to(&self, range: &str) -> Vec<String> {
        let shown = |(id, route): (&RouteId, &Route)| Entry::Route(*id, route.clone()).to_string();
        self.kernel.routes.iter().filter(|(id, _)| id.to.to_string() == range).map(shown).collect()
    }
}

const PODS_OF_EAST: &str = "10.2.0.0/16";

#[test]
fn a_daemon_that_starts_leaves_the_routes_of_its_former_self_until_it_has_heard_of_the_paths() {
    let agent = || RouteAgent::new(west("worker", 2).node);
    let mut first = Node::new(agent(), Network::default());
    first.list();
    first.hear_of_a_path();
    let routes = first.routes_to(PODS_OF_EAST);
    assert!(routes.iter().any(|route| route.contains("via")), "{routes:?}");

    let mut second = Node::new(agent(), first.kernel.clone());
    second.list();
    assert_eq!(second.routes_to(PODS_OF_EAST), routes);
    second.hear_of_a_path();
    assert_eq!(second.kernel, first.kernel);

    let mut deaf = Node::new(agent(), first.kernel.clone());
    deaf.list();
    deaf.run(Duration::from_secs(60));
    assert_eq!(deaf.routes_to(PODS_OF_EAST), routes, "who knows of no path keeps that of its former self (W2)");
}

#[test]
fn what_a_former_self_left_and_nobody_wants_is_taken_away_a_second_after_the_start() {
    let agent = || RouteAgent::new(west("worker", 2).node);
    let mut first = Node::new(agent(), Network::default());
    first.list();
    first.hear_of_a_path();
    let mut second = Node::new(agent(), first.kernel);
    for object in [record("east", 2, 5), candidates("east", 2, 5, &[])] {
        second.apis.delete(Api::Local, &object.key());
    }
    second.list();
    second.run(Duration::from_millis(900));
    assert_ne!(second.routes_to(PODS_OF_EAST), Vec::<String>::new());
    second.run(Duration::from_millis(200));
    assert_eq!(second.routes_to(PODS_OF_EAST), Vec::<String>::new());
}

#[test]
fn a_daemon_that_starts_touches_nothing_before_its_views_are_complete() {
    let mut first = Node::new(Gateway::new(west("gw-a", 0)), Network::default());
    first.list();
    let before = first.kernel.clone();
    let mut second = Node::new(Gateway::new(west("gw-a", 0)), before.clone());
    for (api, kind) in second.machine.watches() {
        let listing = second.apis.listing(*api, *kind);
        for event in &listing[..listing.len() - 1] {
            second.handle(Input::Watched(*api, event.clone()));
        }
        second.run(Duration::from_secs(2));
        assert_eq!(second.kernel, before, "while {kind} of {api} is listed");
        second.handle(Input::Watched(*api, listing[listing.len() - 1].clone()));
    }
}

#[test]
fn an_own_api_that_lost_its_data_takes_no_route_to_a_cluster_that_is_reached() {
    let mut node = Node::new(RouteAgent::new(west("worker", 2).node), Network::default());
    node.list();
    node.hear_of_a_path();
    let before = node.kernel.clone();
    for kind in [Kind::Cluster, Kind::Candidates] {
        for event in [WatchEvent::Began(kind), WatchEvent::Synced(kind)] {
            node.handle(Input::Watched(Api::Local, event));
        }
    }
    for _ in 0..200 {
        node.run(Duration::from_millis(100));
        node.hear_of_a_path();
    }
    assert_eq!(node.kernel, before);
}

#[test]
fn what_a_new_listing_lacks_is_unrouted_once_its_path_is_dead_too_b48() {
    let mut node = Node::new(RouteAgent::new(west("worker", 2).node), Network::default());
    node.list();
    node.hear_of_a_path();
    for object in [record("east", 2, 5), candidates("east", 2, 5, &[])] {
        node.apis.delete(Api::Local, &object.key());
    }
    node.list();
    node.run(ABSENCE - Duration::from_secs(1));
    assert_ne!(node.routes_to(PODS_OF_EAST), Vec::<String>::new());
    node.run(Duration::from_secs(2));
    assert_eq!(node.routes_to(PODS_OF_EAST), Vec::<String>::new());
}

#[test]
fn an_own_api_that_lost_its_data_takes_no_route_before_the_holder_has_said_that_all_is_there() {
    let mut node = Node::new(RouteAgent::new(west("worker", 2).node), Network::default());
    node.list();
    node.hear_of_a_path();
    let before = node.kernel.clone();
    for object in objects().into_iter().filter(|object| !object.kind().is_the_clusters_own()) {
        node.apis.delete(Api::Local, &object.key());
    }
    node.list();
    node.run(Duration::from_secs(60));
    assert_eq!(node.kernel, before, "the path is dead, and nobody has said anything");
    let word = node.apis.put(Api::Local, record("west", 1, 6));
    node.handle(Input::Watched(Api::Local, word));
    node.run(ABSENCE - Duration::from_secs(1));
    assert_eq!(node.kernel, before, "what the word is about may come later");
    node.run(Duration::from_secs(2));
    assert_eq!(node.routes_to(PODS_OF_EAST), Vec::<String>::new());
}

#[test]
fn a_daemon_that_starts_takes_nothing_away_before_its_api_has_all_there_is() {
    let agent = || RouteAgent::new(west("worker", 2).node);
    let mut first = Node::new(agent(), Network::default());
    first.list();
    first.hear_of_a_path();
    let routes = first.routes_to(PODS_OF_EAST);
    let mut second = Node::new(agent(), first.kernel);
    for object in [record("west", 1, 5), record("east", 2, 5), candidates("east", 2, 5, &[])] {
        second.apis.delete(Api::Local, &object.key());
    }
    let own = candidates("west", 1, 5, &[]);
    let (own, _) = second.apis.get(Api::Local, &own.key()).map(|(own, version)| (own.clone(), version)).unwrap();
    second.apis.delete(Api::Local, &own.key());
    second.list();
    second.run(Duration::from_secs(60));
    // Only now it can hear of paths.
    let own = second.apis.put(Api::Local, own);
    second.handle(Input::Watched(Api::Local, own));
    second.run(Duration::from_secs(60));
    assert_eq!(second.routes_to(PODS_OF_EAST), routes, "the holder may not have reached the broker yet");
    let word = second.apis.put(Api::Local, record("west", 1, 5));
    second.handle(Input::Watched(Api::Local, word));
    second.run(Duration::from_millis(900));
    assert_eq!(second.routes_to(PODS_OF_EAST), routes);
    second.run(Duration::from_millis(200));
    assert_eq!(second.routes_to(PODS_OF_EAST), Vec::<String>::new());
}

#[test]
fn a_range_that_meets_ours_is_never_routed() {
    let mut apis = Apis::default();
    for object in objects() {
        apis.put(Api::Local, object);
    }
    let Object::Cluster(east) = record("east", 2, 6) else { unreachable!() };
    let mut east = (*east).clone();
    east.pods.push("10.1.2.0/24".parse().unwrap());
    apis.put(Api::Local, Object::from(east));
    let mut machine = RouteAgent::new(west("worker", 2).node);
    let mut routes = Vec::new();
    for kind in [Kind::Node, Kind::Cluster, Kind::Candidates] {
        for event in apis.listing(Api::Local, kind) {
            machine.handle(Input::Watched(Api::Local, event), Instant::ZERO);
        }
    }
    for output in drain(&mut machine) {
        if let Output::Network(wanted) = output {
            routes.extend(wanted.network.routes.keys().map(|id| id.to.to_string()));
        }
    }
    assert!(routes.contains(&"10.2.0.0/16".to_string()), "{routes:?}");
    assert!(!routes.iter().any(|to| to.starts_with("10.1.")), "{routes:?}");
}
