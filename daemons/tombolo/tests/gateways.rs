//! Two gateways on a real kernel, each in a network namespace of its own, with real cables between them.

use crate::bed::{Bed, Daemon, Member, OWN, until};
use crate::place::{Place, lacking};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tombolo_core::model::{Api, Node, Object};

/// East at 192.0.2.1 and west at 192.0.2.2, on one wire; the APIs are in east.
struct Stage {
    bed: Arc<Bed>,
    east: Place,
    west: Place,
    apis: [Member; 3],
}

impl Stage {
    fn new(name: &str) -> Self {
        let bed = Arc::new(Bed::new(name));
        let (east, west) = (Place::new(), Place::new());
        east.sh(&format!("ip link add wan type veth peer name wan netns {}", west.thread_number));
        east.sh("ip addr add 192.0.2.1/24 dev wan; ip link set wan up; ip addr add 10.1.0.10/32 dev lo");
        west.sh("ip addr add 192.0.2.2/24 dev wan; ip link set wan up; ip addr add 10.2.0.10/32 dev lo");
        for place in [&east, &west] {
            place.sh("ip route add default dev wan");
        }
        let at = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 0));
        let apis = ["east", "west", "broker"].map(|name| {
            let bed = Arc::clone(&bed);
            east.run(move || bed.api_at(name, at))
        });
        for (api, last) in [(&apis[0], 1), (&apis[1], 2)] {
            api.put(Api::Local, &node([192, 0, 2, last].into()));
        }
        std::fs::write(bed.path("psk"), "a secret of the clusterset\n").unwrap();
        Self { bed, east, west, apis }
    }

    fn place(&self, of: &str) -> &Place {
        if of == "east" { &self.east } else { &self.west }
    }

    fn api(&self, of: &str) -> &Member {
        if of == "east" { &self.apis[0] } else { &self.apis[1] }
    }

    fn gateway(&self, of: &'static str, more: &[&str]) -> Daemon {
        let number = if of == "east" { 1 } else { 2 };
        let file = |name: &str| self.bed.path(name).display().to_string();
        let mut flags: Vec<String> = vec![
            "--node-name=gw".into(),
            format!("--pod-cidrs=10.{number}.0.0/16"),
            format!("--service-cidrs=10.10{number}.0.0/16"),
            format!("--broker-kubeconfig={}", file("broker")),
            format!("--state-dir={}", file(&format!("state-{of}"))),
            format!("--cable-dir={}", file(&format!("cables-{of}"))),
            format!("--psk-file={}", file("psk")),
        ];
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        let bed = Arc::clone(&self.bed);
        let flags = move || bed.start("gateway", of, &flags.iter().map(String::as_str).collect::<Vec<_>>());
        let mut daemon = self.place(of).run(flags);
        daemon.place = Some(self.place(of).clone());
        daemon
    }

    fn reaches(&self, of: &str) -> bool {
        let (from, to) = if of == "east" { ("10.1.0.10", "10.2.0.10") } else { ("10.2.0.10", "10.1.0.10") };
        self.place(of).succeeds(&format!("ping -c 1 -W 1 -I {from} {to}"))
    }
}

fn node(address: Ipv4Addr) -> Object {
    Object::from(Node {
        name: "gw".parse().unwrap(),
        uid: format!("uid of {address}"),
        addresses: vec![address.into()],
        pod_ranges: vec![],
        gateway: true,
    })
}

fn is_skipped() -> bool {
    let lacking = lacking();
    if let Some(what) = &lacking {
        println!("SKIPPED: gateways on the kernel ({what})");
    }
    lacking.is_some()
}

#[test]
fn two_gateways_find_each_other_and_pods_talk_through_an_encrypted_cable() {
    if is_skipped() {
        return;
    }
    let stage = Stage::new("gateways");
    let daemons = ["east", "west"].map(|of| stage.gateway(of, &[]));
    until("pods reach each other", || (stage.reaches("east") && stage.reaches("west")).then_some(()));
    for daemon in &daemons {
        until("it is ready", || daemon.is_ready().then_some(()));
        until("it tells its connection", || {
            let metrics = daemon.get("/metrics")?.1;
            let line =
                metrics.lines().find(|line| line.starts_with("submariner_connections{cable_driver=\"wireguard\","))?;
            line.ends_with(",remote_hostname=\"gw\",remote_endpoint_ip=\"192.0.2.2\",status=\"connected\"} 1")
                .then_some(())
                .or_else(|| line.contains(",remote_endpoint_ip=\"192.0.2.1\",status=\"connected\"} 1").then_some(()))
        });
    }
    let endpoints = stage.apis[2].server.list("submariner.io", "endpoints", crate::bed::BROKER);
    assert_eq!(endpoints.len(), 2, "{endpoints:?}");

    // One daemon is told to end, the other is killed, and packets go on; the lease is given up.
    let [east, west] = daemons;
    assert!(east.terminate().success());
    west.kill();
    assert!(stage.reaches("east") && stage.reaches("west"));
    let lease = stage.api("east").server.get("coordination.k8s.io", "leases", OWN, "submariner-gateway-lock").unwrap();
    assert!(lease["spec"]["holderIdentity"].is_null(), "{lease}");

    // Daemons that start take over what is there.
    let daemons = ["east", "west"].map(|of| stage.gateway(of, &[]));
    for daemon in &daemons {
        until("it is ready", || daemon.is_ready().then_some(()));
        assert!(stage.reaches("east") && stage.reaches("west"));
    }

    // A cluster that leaves takes all of it away.
    let [east, west] = daemons;
    drop(east);
    let mut leaving = stage.gateway("east", &["--leave"]);
    assert!(leaving.wait().success(), "{}", leaving.log());
    assert!(!stage.east.sh("ip -o link; ip rule; nft list tables").contains("tombolo"));
    assert!(!stage.east.sh("ip -o link").contains("tb-cable"));
    let endpoints = stage.apis[2].server.list("submariner.io", "endpoints", crate::bed::BROKER);
    assert_eq!(endpoints.len(), 1, "{endpoints:?}");
    drop(west);
    let mut leaving = stage.gateway("west", &["--leave"]);
    assert!(leaving.wait().success(), "{}", leaving.log());
    assert!(!stage.west.sh("ip -o link").contains("tb-cable"));
}

#[test]
fn cables_of_vxlan_carry_packets_too() {
    if is_skipped() {
        return;
    }
    let stage = Stage::new("vxlan");
    let _daemons = ["east", "west"].map(|of| stage.gateway(of, &["--cable-driver=vxlan"]));
    until("pods reach each other", || (stage.reaches("east") && stage.reaches("west")).then_some(()));
}

#[test]
fn a_second_gateway_on_a_node_does_not_start() {
    if is_skipped() {
        return;
    }
    let stage = Stage::new("second");
    let first = stage.gateway("east", &[]);
    until("it is ready", || first.is_ready().then_some(()));
    let mut second = stage.gateway("east", &[]);
    assert!(!second.wait().success());
    assert!(
        second.log().contains("error: another gateway of cluster east runs on this node already"),
        "{}",
        second.log()
    );
}
