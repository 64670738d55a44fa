//! What the objects of the MCS API look like, field by field, as other consumers of it see them.

use super::*;
use tombolo_core::model::{Condition, ConditionType, InternalTrafficPolicy, Port, Protocol, Service, ServiceExport};

fn key() -> ServiceKey {
    ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() }
}

fn port(name: &str, protocol: Protocol, number: u16) -> Port {
    Port { name: Some(Label::new(name).unwrap()), protocol, port: number, app_protocol: None }
}

fn import(offer: Offer) -> Value {
    let sources = ["west", "east"].map(|id| (ClusterId::new(id).unwrap(), Wall::from_unix_secs(1)));
    stored(&Object::from(Import { key: key(), offer: Arc::new(offer), sources: sources.into() }), Api::Local)
}

#[test]
fn an_import_says_all_that_readers_would_else_have_to_presume() {
    let mut dns = port("dns", Protocol::Udp, 53);
    dns.app_protocol = Some("dns".into());
    let both = [Family::V6, Family::V4].into();
    let written = import(Offer::new(ServiceType::ClusterIp, [port("http", Protocol::Tcp, 80), dns].into(), both));
    let expected = json!({
        "type": "ClusterSetIP",
        "ports": [
            { "name": "dns", "protocol": "UDP", "port": 53, "appProtocol": "dns" },
            { "name": "http", "protocol": "TCP", "port": 80 },
        ],
        "ips": [],
        "ipFamilies": ["IPv4", "IPv6"],
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    });
    assert_eq!(written["spec"], expected);
    assert_eq!(written["status"]["clusters"], json!([{ "cluster": "east" }, { "cluster": "west" }]));
    assert_eq!((&written["metadata"]["namespace"], &written["metadata"]["name"]), (&json!("shop"), &json!("web")));
}

#[test]
fn an_import_is_ready_from_its_first_export_on_and_conditions_that_others_keep_there_stay() {
    let of = |sources: &[(&str, u64)]| {
        let sources = sources.iter().map(|(id, since)| (ClusterId::new(id).unwrap(), Wall::from_unix_secs(*since)));
        let offer = Arc::new(Offer::new(ServiceType::ClusterIp, [].into(), [].into()));
        write(&Object::from(Import { key: key(), offer, sources: sources.collect() }), Api::Local, &writer()).unwrap()
    };
    let ready = |since: &str| json!({ "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": since });
    let since_a_thousand = ready("1970-01-01T00:16:40Z");
    let mut there = of(&[("east", 1_000), ("west", 2_000)]);
    assert_eq!(there["status"]["conditions"], json!([since_a_thousand]));

    let theirs = json!({ "type": "Mirrored", "status": "True" });
    there["status"]["conditions"].as_array_mut().unwrap().push(theirs.clone());
    lay_import_status(&mut there, &of(&[("west", 2_000)]));
    assert_eq!(there["status"]["clusters"], json!([{ "cluster": "west" }]));
    assert_eq!(there["status"]["conditions"], json!([theirs, since_a_thousand]), "it was ready all the time");

    there["status"]["conditions"][1]["status"] = json!("False");
    lay_import_status(&mut there, &of(&[("west", 2_000)]));
    assert_eq!(there["status"]["conditions"], json!([theirs, ready("1970-01-01T00:33:20Z")]));
    let absurd = of(&[("east", u64::MAX / 1_000_000)]);
    assert_eq!(absurd["status"]["conditions"], json!([ready("9999-12-30T22:00:00Z")]), "no API refuses it");
}

#[test]
fn an_import_has_the_policies_of_its_offer() {
    let mut offer = Offer::new(ServiceType::Headless, [].into(), [Family::V6].into());
    offer.affinity = SessionAffinity::ClientIp { timeout_s: 86_400 };
    offer.internal_traffic = InternalTrafficPolicy::Local;
    offer.traffic_distribution = Some("PreferSameZone".into());
    let expected = json!({
        "type": "Headless",
        "ports": [],
        "ips": [],
        "ipFamilies": ["IPv6"],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 86_400 } },
        "internalTrafficPolicy": "Local",
        "trafficDistribution": "PreferSameZone",
    });
    assert_eq!(import(offer)["spec"], expected);
}

#[test]
fn an_affinity_lasts_from_a_second_to_a_day_and_three_hours_where_nothing_is_said() {
    let read = |config: Value| {
        let mut value = import(Offer::new(ServiceType::ClusterIp, [].into(), [].into()));
        value["spec"]["sessionAffinity"] = json!("ClientIP");
        value["spec"]["sessionAffinityConfig"] = config;
        read(Kind::Import, &value).map(|object| match object {
            Some(Object::Import(import)) => import.offer.affinity,
            other => panic!("{other:?}"),
        })
    };
    let seconds = |timeout_s: u32| json!({ "clientIP": { "timeoutSeconds": timeout_s } });
    for silent in [json!(null), json!({}), json!({ "clientIP": {} })] {
        assert_eq!(read(silent), Ok(SessionAffinity::ClientIp { timeout_s: 10_800 }));
    }
    for timeout_s in [1, 86_400] {
        assert_eq!(read(seconds(timeout_s)), Ok(SessionAffinity::ClientIp { timeout_s }));
    }
    for wrong in [0, 86_401, u32::MAX] {
        let said = read(seconds(wrong)).unwrap_err().to_string();
        assert_eq!(said, format!("spec.sessionAffinityConfig.clientIP.timeoutSeconds: {wrong}: it is from 1 to 86400"));
    }
}

#[test]
fn an_import_of_another_type_is_refused() {
    let mut value = import(Offer::new(ServiceType::ClusterIp, [].into(), [].into()));
    value["spec"]["type"] = json!("ExternalName");
    assert_eq!(refusal(Kind::Import, &value), "spec.type: \"ExternalName\": it is ClusterSetIP or Headless");
}

#[test]
fn only_what_an_export_lists_is_exported_and_nothing_of_its_metadata() {
    let value = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "secret": "a" }, "annotations": { "kubectl": "b" },
        },
        "spec": { "exportedLabels": { "team": "c" }, "exportedAnnotations": { "note": "d" } },
    });
    let Ok(Some(Object::ServiceExport(export))) = read(Kind::ServiceExport, &value) else { panic!() };
    assert_eq!(export.labels, [("team".into(), "c".into())].into());
    assert_eq!(export.annotations, [("note".into(), "d".into())].into());
}

#[test]
fn a_condition_has_all_fields_that_the_api_requires() {
    let mut export = ServiceExport::new(key(), Wall::from_unix_secs(1_767_225_600));
    let of = |status, reason: &str| Condition {
        status,
        reason: reason.into(),
        message: String::new(),
        since: Wall::from_unix_secs(1_767_225_601),
    };
    export.conditions.insert(ConditionType::Valid, of(Some(true), "Valid"));
    export.conditions.insert(ConditionType::Ready, of(None, "Pending"));
    export.conditions.insert(ConditionType::Conflict, of(Some(false), "NoConflicts"));
    let condition = |about: &str, status: &str, reason: &str| {
        let since = "2026-01-01T00:00:01Z";
        json!({ "type": about, "status": status, "reason": reason, "message": "", "lastTransitionTime": since })
    };
    let expected = json!([
        condition("Valid", "True", "Valid"),
        condition("Ready", "Unknown", "Pending"),
        condition("Conflict", "False", "NoConflicts"),
    ]);
    assert_eq!(stored(&Object::from(export), Api::Local)["status"]["conditions"], expected);
}

#[test]
fn a_slice_of_the_clusterset_has_the_labels_that_its_readers_look_for() {
    let endpoint = |address: &str, ready| SourceEndpoint {
        address: address.parse().unwrap(),
        hostname: Some(Label::new("db-0").unwrap()),
        ready,
    };
    let slice = SourceSlice {
        cluster: ClusterId::new("north.eu").unwrap(),
        key: key(),
        family: Family::V6,
        number: 0,
        endpoints: [endpoint("fd00::5", true), endpoint("fd00::6", false)].into(),
        ports: [port("http", Protocol::Tcp, 80)].into(),
    };
    let written = stored(&Object::from(slice), Api::Local);
    let labels = &written["metadata"]["labels"];
    assert_eq!(labels["multicluster.kubernetes.io/service-name"], "web");
    assert_eq!(labels["multicluster.kubernetes.io/source-cluster"], "north.eu");
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "lighthouse-agent.submariner.io");
    assert_eq!(labels["kubernetes.io/service-name"], Value::Null, "kube-proxy is to have nothing of it");
    assert_eq!((&written["metadata"]["namespace"], &written["addressType"]), (&json!("shop"), &json!("IPv6")));
    let endpoint = |address: &str, ready: bool| json!({ "addresses": [address], "hostname": "db-0", "conditions": { "ready": ready } });
    assert_eq!(written["endpoints"], json!([endpoint("fd00::5", true), endpoint("fd00::6", false)]));
    assert_eq!(written["ports"], json!([{ "name": "http", "protocol": "TCP", "port": 80 }]));
}

#[test]
fn an_endpoint_that_does_not_say_whether_it_is_ready_is() {
    let slice = json!({
        "metadata": { "name": "web-1", "namespace": "shop", "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4",
        "endpoints": [
            { "addresses": ["10.2.1.5"] },
            { "addresses": ["10.2.1.6"], "conditions": {} },
            { "addresses": ["10.2.1.7"], "conditions": { "ready": true } },
            { "addresses": ["10.2.1.8"], "conditions": { "ready": false, "serving": true } },
        ],
    });
    let Ok(Some(Object::EndpointSlice(slice))) = read(Kind::EndpointSlice, &slice) else { panic!() };
    assert_eq!(slice.backends.iter().map(|backend| backend.ready).collect::<Vec<_>>(), [true, true, true, false]);
}

#[test]
fn services_of_the_types_node_port_and_load_balancer_have_a_cluster_ip_to_export() {
    let read = |kind: &str| -> Arc<Service> {
        let spec = json!({ "type": kind, "clusterIP": "10.101.0.1", "clusterIPs": ["10.101.0.1", "fd00::1"] });
        let value = json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": spec });
        let Ok(Some(Object::Service(service))) = read(Kind::Service, &value) else { panic!() };
        service
    };
    for kind in ["ClusterIP", "NodePort", "LoadBalancer"] {
        let service = read(kind);
        assert_eq!((service.service_type, service.cluster_ips.len()), (ServiceType::ClusterIp, 2), "{kind}");
        assert_eq!(service.families, [Family::V4, Family::V6], "{kind}");
    }
}

#[test]
fn endpoint_name_is_sanitised() {
    let name = |text: &str| object_name(&Key::new(Kind::Endpoint, "", text));
    assert_eq!(name("west-submariner-cable-West-fd00::1"), "west-submariner-cable-west-fd00--1");
    assert_eq!(name("a.b_c/d."), "a.b-c-d");
}
