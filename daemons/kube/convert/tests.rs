//! Both ways, and garbage.

mod any;
mod corpus;
mod shapes;

use super::*;
use any::{import, lease, object};
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tombolo_core::base::{Cidr, Epoch, Label, Wall};
use tombolo_core::model::{
    CableDriver, ClusterRecord, Family, Import, Lease, Offer, ServiceKey, ServiceType, SessionAffinity, SourceEndpoint,
    SourceSlice, TargetPort,
};

fn writer() -> Writer {
    Writer { cluster: ClusterId::new("east").unwrap(), places: Places::default() }
}

/// `object` as a server would keep it after a create.
fn stored(object: &Object, api: Api) -> Value {
    let mut value = json!({ "metadata": {} });
    overlay(&mut value, &write(object, api, &writer()).unwrap());
    value
}

/// Every place in `value` at which something can be put.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                places(value, &format!("{here}/{}", key.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                places(value, &format!("{here}/{i}"), all);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    all.push(here.to_owned());
}

proptest! {
    #[test]
    fn what_is_written_reads_as_the_same(object in object()) {
        // At the broker there is one namespace, so nothing of the users' namespaces is written there, but for slices, which
        // say whose they are.
        let at_broker = scope(object.kind()) != Scope::Anywhere || object.kind() == Kind::SourceSlice;
        let at_broker = Some(Api::Broker).filter(|_| at_broker);
        for api in [Some(Api::Local), at_broker].into_iter().flatten() {
            let value = stored(&object, api);
            prop_assert_eq!(read(object.kind(), &value), Ok(Some(object.clone())), "{}", value);
        }
    }

    #[test]
    fn laid_over_another_of_its_kind_it_reads_as_the_same(old in import(), new in import()) {
        let new = Object::from(Import { key: old.key.clone(), ..new });
        let mut value = stored(&Object::from(old), Api::Local);
        overlay(&mut value, &write(&new, Api::Local, &writer()).unwrap());
        prop_assert_eq!(read(Kind::Import, &value), Ok(Some(new)));
    }

    #[test]
    fn laid_over_another_lease_it_reads_as_the_same(old in lease(), new in lease()) {
        let new = Object::from(Lease { name: old.name.clone(), ..new });
        let mut value = stored(&Object::from(old), Api::Local);
        overlay(&mut value, &write(&new, Api::Local, &writer()).unwrap());
        prop_assert_eq!(read(Kind::Lease, &value), Ok(Some(new)));
    }

    #[test]
    fn garbage_at_any_place_of_an_object_is_no_panic(
        object in object(),
        place in any::<prop::sample::Index>(),
        garbage in prop_oneof![
            Just(json!(null)), Just(json!(-1)), Just(json!(1e300)), Just(json!("\u{0}é/..")), Just(json!([[]])),
            Just(json!({ "": {} })), Just(json!(true)), Just(json!("")), Just(json!("9".repeat(400))),
        ],
    ) {
        let mut value = stored(&object, Api::Broker);
        let mut all = Vec::new();
        places(&value, "", &mut all);
        let chosen: &String = place.get(&all);
        *value.pointer_mut(chosen).unwrap() = garbage;
        let _ = read(object.kind(), &value);
        let mut under = value;
        overlay(&mut under, &write(&object, Api::Broker, &writer()).unwrap());
    }
}

fn refusal(kind: Kind, value: &Value) -> String {
    read(kind, value).unwrap_err().to_string()
}

fn endpoint_json() -> Value {
    json!({
        "metadata": { "name": "west-submariner-cable-west-10-0-1-5", "annotations": { EPOCH: "7" } },
        "spec": {
            "cluster_id": "west",
            "cable_name": "submariner-cable-west-10-0-1-5",
            "healthCheckIP": "10.1.0.1",
            "hostname": "gw-a",
            "subnets": ["10.1.0.0/16"],
            "private_ip": "10.0.1.5",
            "public_ip": "",
            "nat_enabled": true,
            "backend": "libreswan",
            "backend_config": { "udp-port": "4500", "natt-discovery-port": "4490" },
        },
    })
}

#[test]
fn an_endpoint_of_submariner_is_understood() {
    let Ok(Some(Object::Endpoint(endpoint))) = read(Kind::Endpoint, &endpoint_json()) else { panic!() };
    assert_eq!((endpoint.driver, endpoint.public_ip, endpoint.epoch), (CableDriver::Ipsec, None, Epoch(7)));
    assert_eq!((endpoint.nat_enabled, endpoint.discovery_port), (true, Some(4490)));
    assert_eq!(endpoint.subnets, [Cidr::holding("10.1.0.0".parse().unwrap(), 16).unwrap()]);
}

#[test]
fn a_discovery_port_that_is_none_is_missing() {
    for text in ["0", "70000", "", "about 4490"] {
        let mut value = endpoint_json();
        value["spec"]["backend_config"]["natt-discovery-port"] = json!(text);
        let Ok(Some(Object::Endpoint(endpoint))) = read(Kind::Endpoint, &value) else { panic!() };
        assert_eq!(endpoint.discovery_port, None, "{text:?}");
    }
}

#[test]
fn garbage_is_refused_with_field_and_reason() {
    let with = |pointer: &str, garbage: Value| {
        let mut value = endpoint_json();
        *value.pointer_mut(pointer).unwrap() = garbage;
        refusal(Kind::Endpoint, &value)
    };
    assert_eq!(
        with("/spec/subnets/0", json!("10.1.2.3/16")),
        "spec.subnets[0]: \"10.1.2.3/16\": bits behind the prefix are set; did you mean 10.1.0.0/16?"
    );
    assert_eq!(
        with("/spec/cluster_id", json!("a.b.c")),
        "spec.cluster_id: \"a.b.c\": 3 labels: a cluster id has one or two, joined by a dot"
    );
    assert_eq!(with("/spec/private_ip", json!("nowhere")), "spec.private_ip: \"nowhere\": invalid IP address syntax");
    assert_eq!(with("/spec/backend", json!("rope")), "spec.backend: \"rope\": no cable driver that we know");
    assert_eq!(
        with("/metadata/annotations/tombolo.dev~1epoch", json!("soon")),
        "annotation tombolo.dev/epoch: \"soon\": invalid digit found in string"
    );
    assert!(with("/spec", json!([1])).starts_with("not the shape of its kind: "));
    assert_eq!(refusal(Kind::Cluster, &json!({ "spec": { "cluster_id": "a" } })), "metadata.name is missing");
}

#[test]
fn an_object_about_another_cluster_than_it_is_named_after_is_refused() {
    let cluster = json!({ "metadata": { "name": "east" }, "spec": { "cluster_id": "west" } });
    assert_eq!(refusal(Kind::Cluster, &cluster), "it is named east but its content is west");
}

#[test]
fn bad_keys_slots_and_ports_are_refused() {
    let candidate = |slot: u8, key: &str| {
        let one = json!({ "slot": slot, "node": "a", "address": "10.0.0.1", "probe": "10.0.0.2", "keys": [key] });
        let spec = json!({ "cluster": "west", "epoch": 1, "candidates": [one] });
        refusal(Kind::Candidates, &json!({ "metadata": { "name": "west" }, "spec": spec }))
    };
    assert_eq!(candidate(5, ""), "spec.candidates[0].slot: 5: slot 5: a candidate has a slot from 1 to 4");
    assert_eq!(candidate(1, "AAAA"), "spec.candidates[0].keys: \"AAAA\": 3 bytes, a public key has 32");
    let claims = |members: Value| {
        refusal(Kind::Claims, &json!({ "metadata": { "name": "clusterset" }, "spec": { "members": members } }))
    };
    let claim = |pods: &str| json!({ "cluster": "west", "identity": "a", "pods": [pods] });
    assert_eq!(
        claims(json!([claim("10.1.2.3/16")])),
        "spec.members[0].pods[0]: \"10.1.2.3/16\": bits behind the prefix are set; did you mean 10.1.0.0/16?"
    );
    assert_eq!(
        claims(json!([claim("10.1.0.0/16"), claim("10.2.0.0/16")])),
        "spec.members[1].cluster: west: given twice"
    );
    let service = json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "clusterIP": "10.0.0.1", "ports": [{ "port": 0 }] },
    });
    assert_eq!(refusal(Kind::Service, &service), "spec.ports[0].port: 0: a port is from 1 to 65535");
}

#[test]
fn slices_of_no_service_or_of_names_are_not_for_us() {
    let labels = json!({ "kubernetes.io/service-name": "web" });
    let slice = |labels: &Value, kind: &str| {
        let metadata = json!({ "name": "web-1", "namespace": "shop", "labels": labels });
        read(Kind::EndpointSlice, &json!({ "metadata": metadata, "addressType": kind, "endpoints": [] }))
    };
    assert_eq!(slice(&json!({}), "IPv4"), Ok(None));
    assert_eq!(slice(&labels, "FQDN"), Ok(None));
    assert!(matches!(slice(&labels, "IPv4"), Ok(Some(_))));
}

#[test]
fn services_are_read_as_servers_write_them() {
    let service = |spec: Value| {
        let value = json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": spec });
        match read(Kind::Service, &value) {
            Ok(Some(Object::Service(service))) => service,
            other => panic!("{other:?}"),
        }
    };
    let headless = service(json!({ "clusterIP": "None", "clusterIPs": ["None"] }));
    assert_eq!((headless.service_type, headless.cluster_ips.len()), (ServiceType::Headless, 0));
    let node_port = service(json!({ "type": "NodePort", "clusterIP": "10.101.0.1", "ports": [
        { "port": 80, "targetPort": 8080, "nodePort": 30_000 },
        { "name": "named", "port": 81, "targetPort": "http" },
        { "name": "sctp", "port": 82, "protocol": "SCTP" },
    ] }));
    assert_eq!(node_port.service_type, ServiceType::ClusterIp);
    assert_eq!(node_port.cluster_ips, ["10.101.0.1".parse::<IpAddr>().unwrap()]);
    let ports: Vec<_> = node_port.ports.iter().map(|port| (port.port.port, port.target.clone())).collect();
    assert_eq!(ports, [(80, TargetPort::Number(8080)), (81, TargetPort::Named("http".into()))]);
    assert_eq!(node_port.families, [Family::V4], "where a server says none");
    let sticky = service(json!({ "clusterIP": "10.101.0.1", "sessionAffinity": "ClientIP" }));
    assert_eq!(sticky.affinity, SessionAffinity::ClientIp { timeout_s: 10_800 });
    let alias = service(json!({ "type": "ExternalName", "externalName": "example.org" }));
    assert_eq!(alias.service_type, ServiceType::ExternalName);
}

#[test]
fn a_copy_is_marked_with_its_origin_and_an_own_record_is_not() {
    let record = |cluster: &str| {
        let cluster = ClusterId::new(cluster).unwrap();
        Object::from(ClusterRecord { cluster, pods: vec![], services: vec![], epoch: Epoch(3) })
    };
    let origin = |object: &Object, api| stored(object, api)["metadata"]["labels"][ORIGIN].clone();
    assert_eq!(origin(&record("east"), Api::Local), Value::Null);
    assert_eq!(origin(&record("east"), Api::Broker), "east");
    assert_eq!(origin(&record("west"), Api::Local), "west");
    let value = stored(&record("east"), Api::Broker);
    assert_eq!(value["metadata"]["namespace"], "submariner-k8s-broker");
    assert_eq!(value["metadata"]["labels"][ORIGIN_NAMESPACE], "submariner-operator");
    assert_eq!(value["metadata"]["annotations"][EPOCH], "3");
}

#[test]
fn what_others_said_of_an_object_stays() {
    let mut there = endpoint_json();
    there["metadata"]["labels"] = json!({ "theirs": "x" });
    there["metadata"]["annotations"]["theirs"] = json!("y");
    let Ok(Some(Object::Endpoint(endpoint))) = read(Kind::Endpoint, &there) else { panic!() };
    let mut endpoint = (*endpoint).clone();
    endpoint.epoch = Epoch(0);
    overlay(&mut there, &write(&Object::from(endpoint), Api::Local, &writer()).unwrap());
    assert_eq!(there["metadata"]["labels"]["theirs"], "x");
    assert_eq!(there["metadata"]["annotations"], json!({ "theirs": "y" }));
    assert_eq!(there["spec"]["healthCheckIP"], "10.1.0.1");
}

#[test]
fn an_import_names_only_sources_that_are_written_in_both_places() {
    let note = json!({ "east": 1_000_000 }).to_string();
    let import = |annotations: Value, clusters: Value| {
        let value = json!({
            "metadata": { "name": "web", "namespace": "shop", "annotations": annotations },
            "spec": { "type": "ClusterSetIP", "ports": [] },
            "status": { "clusters": clusters },
        });
        let Ok(Some(Object::Import(import))) = read(Kind::Import, &value) else { panic!() };
        import.sources.iter().map(|(cluster, since)| (cluster.to_string(), since.unix_secs())).collect::<Vec<_>>()
    };
    let both = json!([{ "cluster": "east" }, { "cluster": "west" }]);
    assert_eq!(import(json!({ SOURCES: note }), both), [("east".to_owned(), 1)]);
    assert_eq!(import(json!({ SOURCES: note }), json!([])), []);
    assert_eq!(import(json!({}), json!([{ "cluster": "west" }])), [("west".to_owned(), 0)]);
}

#[test]
fn an_import_has_the_exported_labels_and_loses_them_with_the_export() {
    let import = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let offer = Offer { labels, ..Offer::new(ServiceType::ClusterIp, [].into(), [].into()) };
        let key = ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() };
        Object::from(Import { key, offer: Arc::new(offer), sources: [].into() })
    };
    let mut there = stored(&import(&[("team", "a"), ("tier", "web")]), Api::Local);
    there["metadata"]["labels"]["theirs"] = json!("x");
    overlay(&mut there, &write(&import(&[("team", "b")]), Api::Local, &writer()).unwrap());
    assert_eq!(there["metadata"]["labels"], json!({ "team": "b", "theirs": "x" }));
    assert_eq!(read(Kind::Import, &there), Ok(Some(import(&[("team", "b")]))));
}

#[test]
fn conditions_that_others_keep_on_an_export_stay() {
    let mut there = json!({ "status": { "conditions": [
        { "type": "Valid", "status": "False" },
        { "type": "Mirrored", "status": "True" },
    ] } });
    lay_conditions(&mut there, &json!({ "status": { "conditions": [{ "type": "Valid", "status": "True" }] } }));
    let expected = json!([{ "type": "Mirrored", "status": "True" }, { "type": "Valid", "status": "True" }]);
    assert_eq!(there["status"]["conditions"], expected);
}

#[test]
fn a_slice_of_the_clusterset_is_not_taken_for_the_clusters_own_nor_the_other_way_round() {
    let endpoint = SourceEndpoint { address: "10.102.0.10".parse().unwrap(), hostname: None, ready: true };
    let slice = SourceSlice {
        cluster: ClusterId::new("west").unwrap(),
        key: ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() },
        family: Family::V4,
        number: 3,
        endpoints: [endpoint].into(),
        ports: [].into(),
    };
    for api in [Api::Local, Api::Broker] {
        let mut value = stored(&Object::from(slice.clone()), api);
        // As the upstream controller marks slices for kube-proxy.
        value["metadata"]["labels"]["kubernetes.io/service-name"] = json!("derived-abc");
        assert_eq!(read(Kind::EndpointSlice, &value), Ok(None));
        assert_eq!(read(Kind::SourceSlice, &value), Ok(Some(Object::from(slice.clone()))));
        value["endpoints"][0]["addresses"][0] = json!("fd00::1");
        assert_eq!(refusal(Kind::SourceSlice, &value), "endpoints[0].addresses[0]: fd00::1: not IPv4");
    }
    let own = json!({
        "metadata": { "name": "web-1", "namespace": "shop", "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4", "endpoints": [],
    });
    assert_eq!(read(Kind::SourceSlice, &own), Ok(None));
}

#[test]
fn what_the_api_cannot_say_is_refused_before_it_is_sent() {
    let export = |duration| {
        let lease = Lease {
            name: "x".into(),
            holder: None,
            duration,
            acquired: Wall::default(),
            renewed: Wall::default(),
            transitions: 0,
            epoch: Epoch(0),
        };
        write(&Object::from(lease), Api::Local, &writer())
    };
    assert!(export(Duration::from_secs(15)).is_ok());
    assert_eq!(
        export(Duration::from_millis(1500)).unwrap_err().to_string(),
        "spec.leaseDurationSeconds cannot be written: 1.5s is no whole number of seconds below 2^31"
    );
}

#[test]
fn a_lease_looks_as_client_go_writes_it() {
    let lease = Lease {
        name: "tombolo-gateway".into(),
        holder: Some("gw-a-1".into()),
        duration: Duration::from_secs(15),
        acquired: Wall::from_unix_secs(1_767_225_600),
        renewed: Wall::from_unix_micros(1_767_225_601_500_000),
        transitions: 2,
        epoch: Epoch(1_767_225_600),
    };
    let expected = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "tombolo-gateway",
            "namespace": "submariner-operator",
            "annotations": { "tombolo.dev/epoch": "1767225600" },
        },
        "spec": {
            "holderIdentity": "gw-a-1",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:01.500000Z",
            "leaseTransitions": 2,
        },
    });
    assert_eq!(stored(&Object::from(lease), Api::Local), expected);
}
