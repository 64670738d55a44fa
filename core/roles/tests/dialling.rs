//! Where a gateway dials the candidate of another cluster.

use super::cluster::{Apis, address, answer_to, behind_nat, candidates, cluster, hello, node, record, slot, west};
use crate::base::{Instant, Machine, drain};
use crate::model::{Api, Object, WatchEvent};
use crate::nat::{Arrival, Seal};
use crate::network::{Network, plan};
use crate::roles::addresses::probe_address;
use crate::roles::{Event, Gateway, Input, Output, Role, Via};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// West's first gateway, its kernel, and a way to east that some of its questions survive.
struct Scene {
    gateway: Gateway,
    apis: Apis,
    kernel: Network,
    now: Instant,
    beat: u32,
    /// From where questions are answered, and out of what the answers come.
    answers: Vec<(IpAddr, Arrival)>,
    lookups: u32,
    told: Vec<String>,
    /// How often its peer was set up anew.
    changes: u32,
}

const PRIVATE: &str = "172.16.2.10:4511";
const PUBLIC: &str = "203.0.113.1:4511";

fn private() -> IpAddr {
    address(2, 0)
}

fn public() -> IpAddr {
    IpAddr::from([203, 0, 113, 1])
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl Scene {
    /// East's candidate says that it is behind NAT.
    fn new() -> Self {
        let mut apis = Apis::default();
        for object in [
            node("gw-a", 1, 0, true),
            record("west", 1, 5),
            record("east", 2, 5),
            candidates("west", 1, 5, &[("gw-a", 0)]),
            behind_nat(candidates("east", 2, 5, &[("gw-a", 0)]), 1),
        ] {
            apis.put(Api::Local, object);
        }
        Self {
            gateway: Gateway::new(west("gw-a", 0)),
            apis,
            kernel: Network::default(),
            now: Instant::ZERO,
            beat: 0,
            answers: vec![],
            lookups: 0,
            told: vec![],
            changes: 0,
        }
    }

    /// A daemon that has just started sees everything.
    fn start(mut self) -> Self {
        let mut config = west("gw-a", 0);
        config.node.boot = self.now;
        self.gateway = Gateway::new(config);
        for (api, kind) in self.gateway.watches() {
            for event in self.apis.listing(*api, *kind) {
                self.handle(Input::Watched(*api, event));
            }
        }
        self
    }

    fn handle(&mut self, input: Input) {
        self.gateway.handle(input, self.now);
        self.drain();
    }

    fn drain(&mut self) {
        let mut answers = vec![];
        for output in drain(&mut self.gateway) {
            match output {
                Output::Network(wanted) => {
                    let plan = plan(&wanted, &self.kernel);
                    self.changes +=
                        u32::try_from(plan.lines().iter().filter(|l| l.starts_with("~ peer")).count()).unwrap();
                    plan.apply(&mut self.kernel);
                }
                Output::Probe { to, sealed, bytes } => {
                    assert_eq!(sealed, Some(cluster("east")));
                    let way = self.answers.iter().find(|(from, _)| *from == to.ip());
                    answers.extend(way.and_then(|(_, arrival)| Some((to, *arrival, answer_to(&bytes)?))));
                }
                Output::LookUp => self.lookups += 1,
                Output::Event(event @ (Event::Dials { .. } | Event::Unanswered { .. } | Event::Ignored { .. })) => {
                    self.told.push(event.to_string());
                }
                Output::Read(..) | Output::Write(..) | Output::Send { .. } | Output::Dns(_) | Output::Event(_) => {}
            }
        }
        for (from, arrival, bytes) in answers {
            let seal = Seal::By(cluster("east"));
            self.handle(Input::Probe { arrival, from, seal, bytes });
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((at, _)) = self.gateway.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = at;
            self.gateway.handle_timeout(at);
            self.drain();
        }
        self.now = end;
    }

    fn hear_east(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.beat += 1;
            let from = probe_address(&cluster("east"), slot(1));
            self.handle(Input::Hello { via: Via::Cable(slot(1)), from, bytes: hello("east", self.beat, "west") });
            self.run(Duration::from_millis(100));
        }
    }

    fn show(&mut self, object: Object) {
        let event: WatchEvent = self.apis.put(Api::Local, object);
        self.handle(Input::Watched(Api::Local, event));
    }

    /// Where the cable's one peer is dialled.
    fn dialled(&self) -> String {
        let [peer] = &self.kernel.peers.values().collect::<Vec<_>>()[..] else { panic!("{:?}", self.kernel.peers) };
        SocketAddr::to_string(&peer.endpoint)
    }
}

#[test]
fn who_says_that_it_is_behind_nat_is_dialled_at_its_public_address_until_another_answers() {
    let mut scene = Scene::new().start();
    assert_eq!(scene.dialled(), PUBLIC);
    scene.run(secs(5));
    scene.answers = vec![(private(), Arrival::Uplink)];
    scene.run(secs(3));
    assert_eq!(scene.dialled(), PRIVATE);
    assert_eq!(scene.told, ["dials candidate 1 of east at 172.16.2.10:4511"]);
}

#[test]
fn who_does_not_answer_is_dialled_as_its_record_says() {
    let mut scene = Scene::new().start();
    scene.run(secs(90));
    assert_eq!(scene.dialled(), PUBLIC);
    assert_eq!(scene.told, ["dials candidate 1 of east at 203.0.113.1:4511, through NAT"]);
    assert_eq!(scene.changes, 0);
}

#[test]
fn an_answer_out_of_a_tunnel_moves_no_cable_b13() {
    let through = |arrival| {
        let mut scene = Scene::new();
        scene.answers = vec![(public(), Arrival::Uplink)];
        let mut scene = scene.start();
        scene.run(secs(5));
        assert_eq!(scene.dialled(), PUBLIC);
        // The tunnel stands, and now the private address answers, alone.
        scene.answers = vec![(private(), arrival)];
        scene.run(secs(1_000));
        scene.dialled()
    };
    assert_eq!(through(Arrival::Tunnel), PUBLIC);
    assert_eq!(through(Arrival::Uplink), PRIVATE, "what would happen otherwise");
}

#[test]
fn a_restart_leaves_the_cable_where_it_was_dialled_until_discovery_has_chosen_b13() {
    for (way, place) in [(private(), PRIVATE), (public(), PUBLIC)] {
        let mut scene = Scene::new();
        scene.answers = vec![(way, Arrival::Uplink)];
        let mut scene = scene.start();
        scene.run(secs(5));
        assert_eq!(scene.dialled(), place);
        scene.changes = 0;
        scene.answers = vec![];
        let mut scene = scene.start();
        scene.run(secs(10));
        assert_eq!(scene.dialled(), place, "nobody has answered yet");
        scene.answers = vec![(way, Arrival::Uplink)];
        scene.run(secs(10));
        assert_eq!((scene.dialled().as_str(), scene.changes), (place, 0));
    }
}

#[test]
fn a_new_public_address_in_the_records_is_dialled_at_once_b11() {
    let mut scene = Scene::new();
    scene.answers = vec![(public(), Arrival::Uplink)];
    let mut scene = scene.start();
    scene.run(secs(5));
    scene.show(behind_nat(candidates("east", 2, 6, &[("gw-a", 0)]), 2));
    assert_eq!((scene.dialled().as_str(), scene.changes), ("203.0.113.2:4511", 1));
}

#[test]
fn a_peer_that_is_heard_is_not_set_up_anew_when_its_records_change_b15() {
    let mut scene = Scene::new().start();
    scene.hear_east(secs(20));
    scene.show(behind_nat(candidates("east", 2, 6, &[("gw-a", 0)]), 2));
    scene.hear_east(secs(100));
    assert_eq!((scene.dialled().as_str(), scene.changes), (PUBLIC, 0), "it is heard where it is");
    scene.run(secs(1));
    assert_eq!((scene.dialled().as_str(), scene.changes), ("203.0.113.2:4511", 1), "it is heard no more");
}

#[test]
fn a_restart_sets_no_peer_up_anew_that_is_heard_although_its_records_changed_b15() {
    let mut scene = Scene::new().start();
    scene.hear_east(secs(5));
    scene.apis.put(Api::Local, behind_nat(candidates("east", 2, 6, &[("gw-a", 0)]), 2));
    let mut scene = scene.start();
    scene.hear_east(secs(20));
    assert_eq!((scene.dialled().as_str(), scene.changes), (PUBLIC, 0));
}

#[test]
fn a_peer_that_is_heard_is_dialled_where_discovery_has_an_answer() {
    let mut scene = Scene::new().start();
    scene.hear_east(secs(5));
    scene.answers = vec![(private(), Arrival::Uplink)];
    scene.hear_east(secs(20));
    assert_eq!((scene.dialled().as_str(), scene.changes), (PRIVATE, 1));
}

#[test]
fn a_path_that_dies_lets_both_ends_addresses_be_looked_at_once() {
    let mut scene = Scene::new();
    scene.answers = vec![(public(), Arrival::Uplink)];
    let mut scene = scene.start();
    scene.handle(Input::LookedUp(Ok(Some(address(1, 0)))));
    scene.hear_east(secs(20));
    let (lookups, answered) = (scene.lookups, scene.told.len());
    scene.answers = vec![(private(), Arrival::Uplink)];
    scene.run(secs(2));
    assert_eq!(scene.lookups, lookups + 1, "perhaps it is the own address that changed");
    scene.handle(Input::LookedUp(Err("no answer".into())));
    scene.run(secs(8));
    assert_eq!(scene.told[answered..], ["dials candidate 1 of east at 172.16.2.10:4511"]);
    assert_eq!(scene.lookups, lookups + 2, "it is doubted once; what follows is the pause after a failure");
}
