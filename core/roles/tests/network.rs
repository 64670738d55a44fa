//! The network of a node, as a person reads it.

use super::cluster::{Apis, candidates, node, record, web, west};
use crate::base::{Instant, Machine, drain};
use crate::model::{Api, Kind, Object};
use crate::network::{Network, plan};
use crate::roles::{Gateway, Input, Output, Role, RouteAgent};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

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
fn a_range_that_meets_ours_is_never_routed() {
    let mut apis = Apis::default();
    for object in objects() {
        apis.put(Api::Local, object);
    }
    let Object::Cluster(mut east) = record("east", 2, 6) else { unreachable!() };
    east.pods.push("10.1.2.0/24".parse().unwrap());
    apis.put(Api::Local, Object::Cluster(east));
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
