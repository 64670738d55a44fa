use crate::stand::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tombolo_apiserver::{Change, Faults};
use tombolo_core::base::{ClusterId, Epoch, Few, Label, NodeName, Wall};
use tombolo_core::model::{
    Api, ApiError, CableKey, Condition, ConditionType, Families, Gateway, Import, Key, Kind, Lease, Object, Offer,
    ServiceKey, ServiceType, Version, Write,
};
use tombolo_core::roles::RequestId;
use tombolo_shell::KubeHand as _;

fn create(object: Object) -> Write {
    Write::Create(object)
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_read_with_the_version_of_the_write() {
    let mut stand = Stand::new();
    let object = Object::from(lease("x", "a"));
    let version = stand.write(Api::Local, create(object.clone())).await.unwrap();
    let found = stand.read(Api::Local, object.key()).await.unwrap();
    assert_eq!(found, Some((object.clone(), version.clone())));
    let renewed = Object::from(lease("x", "b"));
    let next = stand.write(Api::Local, Write::Replace(renewed.clone(), version.clone())).await.unwrap();
    assert_ne!(next, version);
    assert_eq!(stand.read(Api::Local, object.key()).await.unwrap(), Some((renewed, next.clone())));
    assert_eq!(stand.write(Api::Local, Write::Delete(object.key(), next.clone())).await, Ok(next));
    assert_eq!(stand.read(Api::Local, object.key()).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_another_came_before_is_a_conflict() {
    let mut stand = Stand::new();
    let object = Object::from(lease("x", "a"));
    let first = stand.write(Api::Local, create(object.clone())).await.unwrap();
    let replace = |holder: &str, version: &Version| Write::Replace(Object::from(lease("x", holder)), version.clone());
    stand.write(Api::Local, replace("b", &first)).await.unwrap();
    assert_eq!(stand.write(Api::Local, replace("c", &first)).await, Err(ApiError::Conflict));
    assert_eq!(stand.write(Api::Local, create(object.clone())).await, Err(ApiError::Conflict));
    assert_eq!(stand.write(Api::Local, Write::Delete(object.key(), first.clone())).await, Err(ApiError::Conflict));
    let absent = Object::from(lease("y", "a"));
    assert_eq!(stand.write(Api::Local, Write::Replace(absent.clone(), first.clone())).await, Err(ApiError::Conflict));
    assert_eq!(stand.write(Api::Local, Write::Delete(absent.key(), first)).await, Err(ApiError::Conflict));
}

#[tokio::test(start_paused = true)]
async fn a_version_of_a_former_life_of_the_api_does_not_fit() {
    let mut stand = Stand::new();
    let object = Object::from(lease("x", "a"));
    let former = stand.write(Api::Local, create(object.clone())).await.unwrap();
    stand.server.restart_empty(|spec, _| spec.kind == "Namespace");
    let mut revisions = 0;
    // Written by somebody else until the bare resourceVersion is the same again.
    while !former.0.starts_with(&format!("{}@", stand.server.revision())) {
        revisions += 1;
        let holder = format!("h{revisions}");
        let theirs = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "namespace": OWN, "name": "x" }, "spec": { "holderIdentity": holder },
        });
        stand.server.put("them", theirs).unwrap();
    }
    assert!(revisions > 0);
    let replace = Write::Replace(object.clone(), former.clone());
    assert_eq!(stand.write(Api::Local, replace).await, Err(ApiError::Conflict));
    assert_eq!(stand.write(Api::Local, Write::Delete(object.key(), former)).await, Err(ApiError::Conflict));
}

#[tokio::test(start_paused = true)]
async fn what_will_never_work_is_refused() {
    let mut stand = Stand::new();
    stand.server.delete("them", "", "namespaces", "", OWN).unwrap();
    let refused = stand.write(Api::Local, create(Object::from(lease("x", "a")))).await;
    assert_eq!(refused, Err(ApiError::Refused("namespaces \"submariner-operator\" not found".into())));
    let half = Lease { duration: std::time::Duration::from_millis(500), ..lease("x", "a") };
    let Err(ApiError::Refused(because)) = stand.write(Api::Broker, create(Object::from(half))).await else { panic!() };
    assert!(because.starts_with("Lease x: spec.leaseDurationSeconds cannot be written"), "{because}");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_does_not_answer_in_time_is_unreachable() {
    let mut stand = Stand::new();
    stand.server.set_faults(Faults { silent: true, ..Faults::default() });
    let object = Object::from(lease("x", "a"));
    let before = tokio::time::Instant::now();
    assert_eq!(stand.write(Api::Local, create(object.clone())).await, Err(ApiError::Unreachable));
    assert_eq!(before.elapsed(), secs(5));
    assert_eq!(stand.read(Api::Local, object.key()).await, Err(ApiError::Unreachable));
    stand.server.set_faults(Faults { slow: secs(8), ..Faults::default() });
    assert_eq!(stand.write(Api::Local, create(object.clone())).await, Err(ApiError::Unreachable));
    stand.server.set_faults(Faults { erroring: true, ..Faults::default() });
    assert_eq!(stand.write(Api::Local, create(object.clone())).await, Err(ApiError::Unreachable));
    stand.server.set_faults(Faults::default());
    assert!(stand.read(Api::Local, object.key()).await.unwrap().is_some(), "the slow one was written all the same");
}

#[tokio::test(start_paused = true)]
async fn requests_do_not_wait_for_each_other() {
    let mut stand = Stand::new();
    let key = Object::from(lease("x", "a")).key();
    stand.server.set_faults(Faults { slow: secs(3), ..Faults::default() });
    let before = tokio::time::Instant::now();
    for id in 0..10 {
        stand.hand.read(RequestId(id), Api::Local, key.clone());
    }
    for _ in 0..10 {
        stand.next().await;
    }
    assert_eq!(before.elapsed(), secs(3));
}

#[tokio::test(start_paused = true)]
async fn what_others_wrote_on_an_object_survives_a_replace() {
    let mut stand = Stand::new();
    stand.server.put("them", cluster_json("west")).unwrap();
    let Some((_, version)) = stand.read(Api::Local, cluster("west").key()).await.unwrap() else { panic!() };
    stand.write(Api::Local, Write::Replace(cluster("west"), version)).await.unwrap();
    let after = stand.server.get("submariner.io", "clusters", OWN, "west").unwrap();
    assert_eq!(after["metadata"]["labels"]["theirs"], "x");
    assert_eq!(after["metadata"]["labels"]["submariner-io/clusterID"], "west");
    assert_eq!(after["spec"]["cluster_cidr"], json!(["10.1.0.0/16"]));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_a_refusal() {
    let mut stand = Stand::new();
    let mut bad = cluster_json("west");
    bad["spec"]["cluster_id"] = json!("east");
    stand.server.put("them", bad).unwrap();
    let refused = stand.read(Api::Local, cluster("west").key()).await;
    let because = "Cluster west: it is named west but its content is east";
    assert_eq!(refused, Err(ApiError::Refused(because.into())));
}

fn import(clusters: &[&str]) -> Object {
    let since = |cluster: &&str| (ClusterId::new(cluster).unwrap(), Wall::from_unix_secs(1_000));
    let key = ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() };
    let offer = Offer::new(ServiceType::ClusterIp, Few::default(), Families::default());
    Object::from(Import { key, offer: Arc::new(offer), sources: clusters.iter().map(since).collect() })
}

#[tokio::test(start_paused = true)]
async fn of_an_export_only_the_status_is_written() {
    let mut stand = Stand::new();
    let user = json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport",
        "metadata": { "name": "web", "namespace": "shop", "labels": { "theirs": "x" } },
        "spec": { "exportedLabels": { "team": "a" } },
        "status": { "conditions": [{ "type": "Mirrored", "status": "True" }] },
    });
    stand.server.put("user", user).unwrap();
    let key = Key::new(Kind::ServiceExport, "shop", "web");
    let (read, version) = stand.read(Api::Local, key.clone()).await.unwrap().unwrap();
    let Object::ServiceExport(export) = read else { panic!("{read:?}") };
    let mut export = (*export).clone();
    let since = Wall::from_unix_secs(1_767_225_600);
    let valid = Condition { status: Some(true), reason: "Valid".into(), message: String::new(), since };
    export.conditions.insert(ConditionType::Valid, valid);
    let export = Object::from(export);
    let version = stand.write(Api::Local, Write::Replace(export.clone(), version)).await.unwrap();
    assert_eq!(stand.read(Api::Local, key).await, Ok(Some((export.clone(), version.clone()))));
    let stored = stand.server.get("multicluster.x-k8s.io", "serviceexports", "shop", "web").unwrap();
    assert_eq!(stored["metadata"]["labels"], json!({ "theirs": "x" }));
    assert_eq!(stored["status"]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(stand.write(Api::Local, Write::Replace(export, version.clone())).await, Ok(version), "no write");
}

#[tokio::test(start_paused = true)]
async fn an_import_is_written_with_its_status_and_only_as_often_as_needed() {
    let mut stand = Stand::new();
    let writes = Arc::new(Mutex::new(0));
    let counter = writes.clone();
    stand.server.observe(move |accepted| {
        assert_eq!(accepted.who, "east/gw-a gateway");
        assert_ne!(accepted.change, Change::Deleted);
        *counter.lock().unwrap() += 1;
    });
    let first = stand.write(Api::Local, create(import(&["east"]))).await.unwrap();
    assert_eq!(*writes.lock().unwrap(), 2);
    let second = stand.write(Api::Local, Write::Replace(import(&["east", "west"]), first)).await.unwrap();
    assert_eq!(*writes.lock().unwrap(), 4);
    let found = stand.read(Api::Local, import(&[]).key()).await.unwrap();
    assert_eq!(found, Some((import(&["east", "west"]), second.clone())));
    assert_eq!(stand.write(Api::Local, Write::Replace(import(&["east", "west"]), second.clone())).await, Ok(second));
    assert_eq!(*writes.lock().unwrap(), 4, "what changes nothing is no write");
    let stored = stand.server.get("multicluster.x-k8s.io", "serviceimports", "shop", "web").unwrap();
    assert_eq!(stored["status"]["clusters"], json!([{ "cluster": "east" }, { "cluster": "west" }]));
    assert_eq!(stored["status"]["conditions"][0]["reason"], "Ready");
}

#[tokio::test(start_paused = true)]
async fn a_write_of_two_steps_has_one_deadline() {
    let mut stand = Stand::new();
    stand.server.set_faults(Faults { slow: secs(4), ..Faults::default() });
    let before = tokio::time::Instant::now();
    assert_eq!(stand.write(Api::Local, create(import(&["east"]))).await, Err(ApiError::Unreachable));
    assert_eq!(before.elapsed(), secs(5));
}

#[tokio::test(start_paused = true)]
async fn records_go_to_our_namespaces() {
    let mut stand = Stand::new();
    stand.write(Api::Local, create(cluster("east"))).await.unwrap();
    stand.write(Api::Broker, create(cluster("east"))).await.unwrap();
    for namespace in [OWN, "submariner-k8s-broker"] {
        assert!(stand.server.get("submariner.io", "clusters", namespace, "east").is_some(), "{namespace}");
    }
    assert_eq!(stand.read(Api::Local, key(Kind::Cluster, "", "west")).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_gateway_object_gets_signs_of_life_and_nothing_else_of_it_changes() {
    let mut stand = Stand::new();
    let node: NodeName = "gw-a".parse().unwrap();
    let gateway = Gateway {
        node: node.clone(),
        address: "10.0.1.5".parse().unwrap(),
        public: Some("198.51.100.5".parse().unwrap()),
        discovery_port: Some(4490),
        keys: vec![CableKey([7; 32])],
        active: Some(Epoch(3)),
        reach: BTreeMap::new(),
        remarks: BTreeMap::new(),
    };
    let object = Object::from(gateway);
    let first = stand.write(Api::Local, create(object.clone())).await.unwrap();
    let start = tokio::time::Instant::now();
    stand.hand.sign_gateway(node, move || Wall::from_unix_secs(1_000) + start.elapsed());
    tokio::time::sleep(secs(12)).await;
    let stored = stand.server.get("submariner.io", "gateways", OWN, "gw-a").unwrap();
    assert_eq!(stored["metadata"]["annotations"]["update-timestamp"], "1010");
    let Some((found, version)) = stand.read(Api::Local, object.key()).await.unwrap() else { panic!() };
    assert_eq!(found, object);
    assert_ne!(version, first);
}
