//! The server as clients see it: HTTP over pipes, with a clock that stands still until all wait.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod client;
mod faults;
mod reading;
mod watching;
mod writing;

use client::Client;
use serde_json::{Value, json};
use tombolo_apiserver::{ApiServer, Registry};
use tombolo_core::base::Wall;

/// A server with the namespace `shop`, at 2026-01-01 00:00 by its own clock.
fn server() -> ApiServer {
    let server = ApiServer::new(Registry::clusterset(), 7, || Wall::from_unix_secs(1_767_225_600));
    server.create_namespace("shop").unwrap();
    server
}

const SERVICES: &str = "/api/v1/namespaces/shop/services";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/shop/leases";
const EXPORTS: &str = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/shop/serviceexports";

fn lease(name: &str, holder: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "holderIdentity": holder } })
}

/// `object` with its holder changed.
fn held_by(mut object: Value, holder: &str) -> Value {
    object["spec"]["holderIdentity"] = json!(holder);
    object
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
