//! Discovery and DNS: a service that one cluster exports is found by its name in the other.

use crate::bed::{BROKER, Bed, Member, OWN, cluster, get, until};
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use serde_json::json;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::time::Duration;
use tombolo_core::base::Epoch;
use tombolo_core::model::{Api, ClusterRecord, Object};

fn record(id: &str, services: &str) -> Object {
    let services = vec![services.parse().unwrap()];
    Object::from(ClusterRecord { cluster: cluster(id), pods: vec![], services, epoch: Epoch(1) })
}

/// What the gateways of both clusters would have written.
fn announce(east: &Member, west: &Member, broker: &Member) {
    for object in [record("east", "10.101.0.0/16"), record("west", "10.102.0.0/16")] {
        broker.put(Api::Broker, &object);
        east.put(Api::Local, &object);
        west.put(Api::Local, &object);
    }
}

pub fn export(api: &Member, name: &str, address: &str, (backend, node): (&str, &str)) {
    api.put_json(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "shop", "name": name },
        "spec": {
            "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"],
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080 }],
        },
    }));
    api.put_json(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "namespace": "shop", "name": format!("{name}-1"), "labels": { "kubernetes.io/service-name": name } },
        "endpoints": [{ "addresses": [backend], "nodeName": node, "conditions": { "ready": true } }],
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    }));
    api.put_json(json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport",
        "metadata": { "namespace": "shop", "name": name },
    }));
}

pub fn resolve(server: SocketAddr, name: &str) -> Option<(ResponseCode, Vec<IpAddr>)> {
    let mut query = Message::new(7, MessageType::Query, OpCode::Query);
    query.add_query(Query::query(Name::from_ascii(format!("{name}.")).unwrap(), RecordType::A));
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket.send_to(&query.to_vec().unwrap(), server).ok()?;
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).ok()?;
    let answer = Message::from_vec(&buffer[..length]).unwrap();
    let address = |data: &RData| if let RData::A(address) = data { Some(IpAddr::V4(address.0)) } else { None };
    let addresses = answer.answers.iter().filter_map(|record| address(&record.data));
    Some((answer.metadata.response_code, addresses.collect()))
}

#[test]
fn an_export_of_one_cluster_is_resolved_in_the_other_and_a_record_of_it_lives_again() {
    let bed = Bed::new("names");
    let (east, west, broker) = (bed.api("east"), bed.api("west"), bed.api("broker"));
    announce(&east, &west, &broker);
    export(&east, "web", "10.101.0.10", ("10.1.0.7", "worker"));
    let kubeconfig = bed.path("broker").display().to_string();
    let discoveries = ["east", "west"].map(|of| bed.start("discovery", of, &["--broker-kubeconfig", &kubeconfig]));
    let server = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (listen, records) = (server.to_string(), bed.path("dns.record").display().to_string());
    let dns = bed.start("dns", "west", &["--dns-listen", &listen, "--record", &records]);
    let name = "web.shop.svc.clusterset.local";
    until("the name is resolved", || {
        resolve(server, name).filter(|answer| *answer == (ResponseCode::NoError, vec!["10.101.0.10".parse().unwrap()]))
    });
    until("what is not there is denied", || {
        resolve(server, "api.shop.svc.clusterset.local").filter(|(code, _)| *code == ResponseCode::NXDomain)
    });
    for daemon in discoveries.iter().chain([&dns]) {
        until("it is ready", || daemon.is_ready().then_some(()));
        assert_eq!(daemon.get("/healthz").unwrap(), (200, "alive\n".to_owned()));
        assert_eq!(daemon.get("/elsewhere").unwrap().0, 404);
    }
    let metrics = dns.get("/metrics").unwrap().1;
    assert!(metrics.contains("\ntombolo_dns_names 1\n") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(west.server.get("multicluster.x-k8s.io", "serviceimports", "shop", "web").is_some());
    assert!(broker.server.list("tombolo.dev", "exports", BROKER).len() == 1);
    // What it published stays when it ends.
    let [east_discovery, west_discovery] = discoveries;
    assert!(east_discovery.terminate().success() && west_discovery.terminate().success() && dns.terminate().success());
    assert!(broker.server.list("tombolo.dev", "exports", BROKER).len() == 1);
    let replay = Command::new(env!("CARGO_BIN_EXE_tombolo")).args(["replay", &records]).output().unwrap();
    let said = String::from_utf8(replay.stdout).unwrap();
    assert!(replay.status.success() && said.ends_with("steps, each with the outputs of then\n"), "{said}");
}

#[test]
fn a_cluster_that_leaves_takes_its_exports_away_and_the_daemon_ends() {
    let bed = Bed::new("leaves");
    let (east, west, broker) = (bed.api("east"), bed.api("west"), bed.api("broker"));
    announce(&east, &west, &broker);
    export(&east, "web", "10.101.0.10", ("10.1.0.7", "worker"));
    let kubeconfig = bed.path("broker").display().to_string();
    let flags = ["--broker-kubeconfig", kubeconfig.as_str()];
    let discovery = bed.start("discovery", "east", &flags);
    let at_broker = || broker.server.list("tombolo.dev", "exports", BROKER).len();
    until("it is published", || (at_broker() == 1).then_some(()));
    discovery.kill();
    let mut leaving = bed.start("discovery", "east", &[flags.as_slice(), &["--leave"]].concat());
    assert!(leaving.wait().success(), "{}", leaving.log());
    assert_eq!(at_broker(), 0);
    assert_eq!(east.server.list("tombolo.dev", "exportsummaries", OWN).len(), 0);
}

#[test]
fn without_an_api_dns_says_that_it_knows_nothing_and_is_not_ready() {
    let bed = Bed::new("alone");
    drop(bed.api("west"));
    let config = std::fs::read_to_string(bed.path("west")).unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&config).unwrap();
    value["clusters"][0]["cluster"]["server"] = json!(format!("http://{closed}"));
    std::fs::write(bed.path("west"), value.to_string()).unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dns = bed.start("dns", "west", &["--dns-listen", &server.to_string()]);
    let code = until("it answers", || resolve(server, "web.shop.svc.clusterset.local")).0;
    assert_eq!(code, ResponseCode::ServFail);
    assert_eq!(until("it says so", || dns.get("/readyz")), (503, "not ready yet\n".to_owned()));
    assert!(dns.terminate().success());
}

/// The ports that are known from Submariner are among those that the kernel gives to whoever dials out.
#[test]
fn a_daemon_whose_status_port_somebody_else_has_works_and_serves_it_later() {
    let bed = Bed::new("taken");
    let _api = bed.api("east");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let status = format!("--status-address={at}");
    let daemon = bed.start("dns", "east", &["--dns-listen=127.0.0.1:0", &status]);
    until("it works without", || {
        daemon.log().contains("starts daemon=\"dns\" cluster=east status=none yet").then_some(())
    });
    assert!(daemon.log().contains("is somebody else's at the moment"), "{}", daemon.log());
    drop(taken);
    until("it is served", || get(at, "/readyz").filter(|(code, _)| *code == 200));
}
