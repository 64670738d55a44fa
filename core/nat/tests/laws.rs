//! The six laws of machines, for a gateway among plain and sealed peers that answer, lie, and change.

use super::{cluster, config, east, id, ip, me, millis};
use crate::base::laws::{Subject, prove};
use crate::base::{Instant, Machine, Rng};
use crate::nat::wire::{Details, IpPort, Message, Request, Response, Verdict};
use crate::nat::{Arrival, Config, Dialect, Discovery, Input, Output, Remote, RemoteId, Seal};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// What is around the gateway: two peers, of which one seals.
struct Peers;

fn peers(rng: &mut Rng) -> BTreeMap<RemoteId, Remote> {
    let mut all = BTreeMap::new();
    for (name, dialect) in [("east", Dialect::Plain), ("north", Dialect::Sealed)] {
        if rng.chance(900_000) {
            let mut remote = Remote { dialect, nat_enabled: rng.chance(500_000), ..east() };
            remote.load_balancer = rng.chance(100_000);
            remote.discovery_port = (!rng.chance(50_000)).then_some(4490);
            if rng.chance(200_000) {
                remote.public = Some(ip("203.0.113.3"));
            }
            if rng.chance(100_000) {
                remote.private = None;
            }
            all.insert(id(name), remote);
        }
    }
    all
}

fn seal_of(name: &str, rng: &mut Rng) -> Seal {
    match rng.below(20) {
        0 => Seal::Broken,
        1 => Seal::None,
        _ if name == "north" => Seal::By(cluster("north")),
        _ => Seal::None,
    }
}

fn verdict(rng: &mut Rng) -> Verdict {
    match rng.below(10) {
        0 => Verdict::UnknownCluster,
        1 => Verdict::Malformed,
        2..=4 => Verdict::NatDetected,
        _ => Verdict::Ok,
    }
}

fn arrival(rng: &mut Rng) -> Arrival {
    if rng.chance(50_000) { Arrival::Tunnel } else { Arrival::Uplink }
}

impl Subject for Peers {
    type M = Discovery;
    const GAP_MAX: Duration = Duration::from_secs(90);

    fn begin(rng: &mut Rng) -> (Self, Discovery) {
        let config = Config { looks_up: rng.chance(500_000), seed: rng.bits(), ..config(me("west", "10.1.0.1")) };
        let mut machine = Discovery::new(config);
        machine.handle(Input::Remotes(peers(rng)), Instant::ZERO);
        (Self, machine)
    }

    fn input(&mut self, rng: &mut Rng, _: Instant) -> Input {
        let name = if rng.chance(500_000) { "east" } else { "north" };
        let from = SocketAddr::new(ip("203.0.113.2"), 4490);
        match rng.below(10) {
            0 | 1 => Input::Remotes(peers(rng)),
            2 => {
                let private = if rng.chance(500_000) { "10.1.0.1" } else { "10.1.0.2" };
                let mut me = me("west", private);
                me.port = if rng.chance(200_000) { 0 } else { 4490 };
                Input::Me(me)
            }
            3 => {
                let inside = rng.chance(300_000).then(|| "10.2.0.0/16".parse().unwrap());
                Input::Tunnelled(inside.into_iter().collect::<BTreeSet<_>>())
            }
            4 | 5 => Input::Doubt(id(name)),
            6 => Input::LookedUp(Ok(Some(ip("198.51.100.1")))),
            7 => {
                let bytes = (0..rng.below(20)).map(|_| rng.bits() as u8).collect();
                Input::Datagram { arrival: arrival(rng), from, seal: Seal::None, bytes }
            }
            _ => {
                let (sender, receiver) = (id(name), id("west"));
                let request = Request {
                    number: rng.bits(),
                    sender: Some(Details { cluster: name, endpoint: &sender.endpoint }),
                    receiver: Some(Details { cluster: "west", endpoint: &receiver.endpoint }),
                    source: Some(from.into()),
                    destination: rng.chance(900_000).then_some(from.into()),
                };
                let bytes = Message::Request(1, request).encode();
                Input::Datagram { arrival: arrival(rng), from, seal: seal_of(name, rng), bytes }
            }
        }
    }

    fn react(&mut self, output: &Output, rng: &mut Rng, _: Instant) -> Vec<(Duration, Input)> {
        match output {
            Output::LookUp if rng.chance(700_000) => {
                let last = if rng.chance(500_000) { "198.51.100.1" } else { "198.51.100.2" };
                let result = if rng.chance(300_000) { Err("no answer".to_string()) } else { Ok(Some(ip(last))) };
                vec![(millis(rng.below(40_000)), Input::LookedUp(result))]
            }
            Output::Send { to, bytes, .. } if rng.chance(500_000) => {
                let Ok(Message::Request(_, request)) = Message::decode(bytes) else { return vec![] };
                let Some(asked) = request.receiver else { return vec![] };
                let response = Response {
                    number: request.number,
                    verdict: verdict(rng),
                    sender: request.receiver,
                    receiver: request.sender,
                    received: Some(IpPort { address: Some(ip("198.51.100.3")), port: 1 }),
                    ..Response::default()
                };
                let seal = seal_of(asked.cluster, rng);
                let bytes = Message::Response(response).encode();
                let answer = Input::Datagram { arrival: arrival(rng), from: *to, seal, bytes };
                let latency = if rng.chance(800_000) { 100 } else { 3_000 };
                let mut answers = vec![(millis(rng.below(latency)), answer.clone())];
                if rng.chance(100_000) {
                    answers.push((millis(rng.below(latency)), answer));
                }
                answers
            }
            Output::LookUp
            | Output::Send { .. }
            | Output::Chosen { .. }
            | Output::Unanswered { .. }
            | Output::Public(_)
            | Output::Ignored { .. } => vec![],
        }
    }
}

#[test]
fn discovery_keeps_the_laws() {
    let proof = prove::<Peers>(100);
    assert!(
        proof.inputs > 500 && proof.answers > 1_000 && proof.coincidences > 100 && proof.wakes > 2_000,
        "{proof:?}"
    );
}
