//! Both ways, and garbage.

use super::*;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use std::net::IpAddr;
use std::time::Duration;
use tombolo_core::base::{Cidr, Epoch, Label, NodeName, Slot, Wall};
use tombolo_core::model::{
    Backend, CableDriver, CableKey, Candidate, Candidates, ClusterRecord, Endpoint, EndpointSlice, ExportRecord,
    Gateway, Import, Lease, Node, Port, Protocol, Reach, Service, ServiceExport, ServiceKey, ServiceType, Source,
};

fn writer() -> Writer {
    Writer { cluster: ClusterId::new("east").unwrap(), places: Places::default() }
}

fn label() -> impl Strategy<Value = Label> {
    "[a-z]([a-z0-9-]{0,8}[a-z0-9])?".prop_map(|text| Label::new(&text).unwrap())
}

fn cluster() -> impl Strategy<Value = ClusterId> {
    "[a-z][a-z0-9]{0,6}(\\.[a-z]{1,3})?".prop_map(|text| ClusterId::new(&text).unwrap())
}

fn node_name() -> impl Strategy<Value = NodeName> {
    "[a-z][a-z0-9]{0,6}(\\.[a-z]{1,3}){0,2}".prop_map(|text| NodeName::new(&text).unwrap())
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)]
}

fn range() -> impl Strategy<Value = Cidr> {
    (address(), 0..=32_u8).prop_map(|(address, length)| Cidr::holding(address, length).unwrap())
}

fn key() -> impl Strategy<Value = ServiceKey> {
    (label(), label()).prop_map(|(namespace, name)| ServiceKey { namespace, name })
}

fn wall_secs() -> impl Strategy<Value = Wall> {
    (0..200_000_000_000_u64).prop_map(Wall::from_unix_secs)
}

fn wall_micros() -> impl Strategy<Value = Wall> {
    (0..200_000_000_000_000_000_u64).prop_map(Wall::from_unix_micros)
}

fn epoch() -> impl Strategy<Value = Epoch> {
    prop_oneof![Just(Epoch(0)), any::<u64>().prop_map(Epoch)]
}

fn cable_key() -> impl Strategy<Value = CableKey> {
    any::<[u8; 32]>().prop_map(CableKey)
}

fn port() -> impl Strategy<Value = Port> {
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    (option::of(label()), protocol, 1..=u16::MAX, 1..=u16::MAX).prop_map(|(name, protocol, port, target)| Port {
        name,
        protocol,
        port,
        target,
    })
}

fn routable() -> impl Strategy<Value = ServiceType> {
    prop_oneof![Just(ServiceType::ClusterIp), Just(ServiceType::Headless)]
}

fn node() -> impl Strategy<Value = Node> {
    (node_name(), "[0-9a-f]{8}", vec(address(), 0..3), vec(range(), 0..3), any::<bool>())
        .prop_map(|(name, uid, addresses, pod_ranges, gateway)| Node { name, uid, addresses, pod_ranges, gateway })
}

fn service() -> impl Strategy<Value = Service> {
    (key(), routable(), vec(address(), 1..3), vec(port(), 0..3), any::<bool>()).prop_map(
        |(key, service_type, addresses, ports, client_ip_affinity)| {
            let cluster_ips = if service_type == ServiceType::Headless { Vec::new() } else { addresses };
            Service { key, service_type, cluster_ips, ports, client_ip_affinity }
        },
    )
}

fn slice() -> impl Strategy<Value = EndpointSlice> {
    let backend = (any::<[u8; 4]>(), option::of(node_name()), any::<bool>())
        .prop_map(|(address, node, ready)| Backend { address: address.into(), node, ready });
    (label(), label(), label(), vec(backend, 0..4)).prop_map(|(namespace, name, service, backends)| EndpointSlice {
        namespace,
        name: name.to_string(),
        service,
        backends,
    })
}

fn lease() -> impl Strategy<Value = Lease> {
    let holder = option::of("[a-z0-9-]{1,20}");
    (label(), holder, 0..1_000_u64, wall_micros(), wall_micros(), 0..0x7fff_ffff_u32, epoch()).prop_map(
        |(name, holder, secs, acquired, renewed, transitions, epoch)| Lease {
            name: name.to_string(),
            holder,
            duration: Duration::from_secs(secs),
            acquired,
            renewed,
            transitions,
            epoch,
        },
    )
}

fn gateway() -> impl Strategy<Value = Gateway> {
    let reach = prop_oneof![Just(Reach::Connected), Just(Reach::Unknown), Just(Reach::Lost)];
    (node_name(), address(), vec(cable_key(), 0..5), option::of(epoch()), btree_map(cluster(), reach, 0..4))
        .prop_map(|(node, address, keys, active, reach)| Gateway { node, address, keys, active, reach })
}

fn cluster_record() -> impl Strategy<Value = ClusterRecord> {
    (cluster(), vec(range(), 0..3), vec(range(), 0..3), epoch())
        .prop_map(|(cluster, pods, services, epoch)| ClusterRecord { cluster, pods, services, epoch })
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let driver = prop_oneof![Just(CableDriver::Wireguard), Just(CableDriver::Vxlan), Just(CableDriver::Ipsec)];
    (cluster(), node_name(), any::<[u8; 4]>(), option::of(address()), vec(range(), 0..3), driver, epoch()).prop_map(
        |(cluster, node, private, public_ip, subnets, driver, epoch)| {
            let [a, b, c, d] = private;
            Endpoint {
                cable_name: format!("submariner-cable-{cluster}-{a}-{b}-{c}-{d}"),
                cluster,
                node,
                private_ip: private.into(),
                public_ip,
                subnets,
                driver,
                epoch,
            }
        },
    )
}

fn candidates() -> impl Strategy<Value = Candidates> {
    let slot = (1..=Slot::COUNT).prop_map(|slot| Slot::try_from(slot).unwrap());
    let candidate = (node_name(), address(), vec(cable_key(), 0..5), address())
        .prop_map(|(node, address, keys, probe)| Candidate { node, address, keys, probe });
    (cluster(), epoch(), btree_map(slot, candidate, 0..5)).prop_map(|(cluster, epoch, by_slot)| Candidates {
        cluster,
        epoch,
        by_slot,
    })
}

fn export_record() -> impl Strategy<Value = ExportRecord> {
    (cluster(), key(), routable(), vec(port(), 0..3), vec(address(), 0..3), any::<bool>(), wall_micros()).prop_map(
        |(cluster, key, service_type, ports, addresses, ready, created)| ExportRecord {
            cluster,
            key,
            service_type,
            ports,
            addresses,
            ready,
            created,
        },
    )
}

fn import() -> impl Strategy<Value = Import> {
    let source = (vec(address(), 0..3), any::<bool>()).prop_map(|(addresses, ready)| Source { addresses, ready });
    (key(), routable(), btree_set(port(), 0..4), btree_map(cluster(), source, 0..4))
        .prop_map(|(key, service_type, ports, sources)| Import { key, service_type, ports, sources })
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        node().prop_map(Object::Node),
        service().prop_map(Object::Service),
        slice().prop_map(Object::EndpointSlice),
        (key(), wall_secs()).prop_map(|(key, created)| Object::ServiceExport(ServiceExport { key, created })),
        lease().prop_map(Object::Lease),
        gateway().prop_map(Object::Gateway),
        cluster_record().prop_map(Object::Cluster),
        endpoint().prop_map(Object::Endpoint),
        candidates().prop_map(Object::Candidates),
        export_record().prop_map(Object::ExportRecord),
        import().prop_map(Object::Import),
    ]
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
        // At the broker there is one namespace, so nothing of the users' namespaces is written there.
        let at_broker = Some(Api::Broker).filter(|_| scope(object.kind()) != Scope::Anywhere);
        for api in [Some(Api::Local), at_broker].into_iter().flatten() {
            let value = stored(&object, api);
            prop_assert_eq!(read(object.kind(), &value), Ok(Some(object.clone())), "{}", value);
        }
    }

    #[test]
    fn laid_over_another_of_its_kind_it_reads_as_the_same(old in import(), new in import()) {
        let new = Object::Import(Import { key: old.key.clone(), ..new });
        let mut value = stored(&Object::Import(old), Api::Local);
        overlay(&mut value, &write(&new, Api::Local, &writer()).unwrap());
        prop_assert_eq!(read(Kind::Import, &value), Ok(Some(new)));
    }

    #[test]
    fn laid_over_another_lease_it_reads_as_the_same(old in lease(), new in lease()) {
        let new = Object::Lease(Lease { name: old.name.clone(), ..new });
        let mut value = stored(&Object::Lease(old), Api::Local);
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
            "backend_config": { "udp-port": "4500" },
        },
    })
}

#[test]
fn an_endpoint_of_submariner_is_understood() {
    let Ok(Some(Object::Endpoint(endpoint))) = read(Kind::Endpoint, &endpoint_json()) else { panic!() };
    assert_eq!((endpoint.driver, endpoint.public_ip, endpoint.epoch), (CableDriver::Ipsec, None, Epoch(7)));
    assert_eq!(endpoint.subnets, [Cidr::holding("10.1.0.0".parse().unwrap(), 16).unwrap()]);
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
    let ports: Vec<_> = node_port.ports.iter().map(|port| (port.port, port.target)).collect();
    assert_eq!(ports, [(80, 8080), (81, 81)]);
    let alias = service(json!({ "type": "ExternalName", "externalName": "example.org" }));
    assert_eq!(alias.service_type, ServiceType::ExternalName);
}

#[test]
fn a_copy_is_marked_with_its_origin_and_an_own_record_is_not() {
    let record = |cluster: &str| {
        let cluster = ClusterId::new(cluster).unwrap();
        Object::Cluster(ClusterRecord { cluster, pods: vec![], services: vec![], epoch: Epoch(3) })
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
    let Ok(Some(Object::Endpoint(mut endpoint))) = read(Kind::Endpoint, &there) else { panic!() };
    endpoint.epoch = Epoch(0);
    overlay(&mut there, &write(&Object::Endpoint(endpoint), Api::Local, &writer()).unwrap());
    assert_eq!(there["metadata"]["labels"]["theirs"], "x");
    assert_eq!(there["metadata"]["annotations"], json!({ "theirs": "y" }));
    assert_eq!(there["spec"]["healthCheckIP"], "10.1.0.1");
}

#[test]
fn an_import_names_only_sources_that_are_written_in_both_places() {
    let note = json!({ "east": { "addresses": ["10.101.0.1"], "ready": true } }).to_string();
    let import = |annotations: Value, clusters: Value| {
        let value = json!({
            "metadata": { "name": "web", "namespace": "shop", "annotations": annotations },
            "spec": { "type": "ClusterSetIP", "ports": [] },
            "status": { "clusters": clusters },
        });
        let Ok(Some(Object::Import(import))) = read(Kind::Import, &value) else { panic!() };
        import.sources.into_iter().map(|(cluster, source)| (cluster.to_string(), source.ready)).collect::<Vec<_>>()
    };
    let east = ("east".to_owned(), true);
    let both = json!([{ "cluster": "east" }, { "cluster": "west" }]);
    assert_eq!(import(json!({ SOURCES: note }), both), [east]);
    assert_eq!(import(json!({ SOURCES: note }), json!([])), []);
    assert_eq!(import(json!({}), json!([{ "cluster": "west" }])), [("west".to_owned(), false)]);
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
        write(&Object::Lease(lease), Api::Local, &writer())
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
    assert_eq!(stored(&Object::Lease(lease), Api::Local), expected);
}
