//! The six laws, for the gateway and the route agent.

use super::cluster::{Apis, address, answer_to, behind_nat, candidates, card, claims, node, record, web, west};
use crate::base::laws::{Subject, prove};
use crate::base::{Instant, Machine, Rng, Wall};
use crate::model::{Api, ApiError, Kind, Object, WatchEvent};
use crate::nat::{Arrival, NAT_PORT, Seal};
use crate::roles::addresses::{overlay_address, probe_address};
use crate::roles::{Gateway, Input, Output, Role, RouteAgent, Via};
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::net::SocketAddr;
use core::time::Duration;

const CASES: u32 = 8;

/// A cluster around one node's daemon, with APIs that answer late, in vain or not at all, and hellos that are echoes.
struct Around<M> {
    apis: Apis,
    heard: Vec<Vec<u8>>,
    kinds: &'static [(Api, Kind)],
    machine: PhantomData<M>,
}

fn objects(epoch: u64) -> Vec<Object> {
    let mut objects = vec![
        node("gw-a", 1, 0, true),
        node("gw-b", 1, 1, true),
        node("worker", 1, 2, false),
        card("gw-a", 1, 0, Some(epoch)),
        card("gw-b", 1, 1, None),
        record("west", 1, epoch),
        record("east", 2, epoch),
        claims(&[("west", "uid-west", "10.1.0.0/16", "10.101.0.0/16")]),
        claims(&[("north", "uid-north", "10.1.0.0/17", "10.103.0.0/16")]),
        candidates("west", 1, epoch, &[("gw-a", 0), ("gw-b", 1)]),
        candidates("west", 1, epoch, &[("gw-b", 1)]),
        candidates("east", 2, epoch, &[("gw-a", 0)]),
        behind_nat(candidates("east", 2, epoch, &[("gw-a", 0)]), 1),
    ];
    objects.extend(web());
    objects
}

fn any_object(rng: &mut Rng) -> Object {
    let mut objects = objects(rng.below(4) + 1);
    let at = usize::try_from(rng.below(u64::try_from(objects.len()).unwrap())).unwrap();
    objects.swap_remove(at)
}

fn probe(rng: &mut Rng, bytes: Vec<u8>, from: SocketAddr) -> Input {
    let arrival = if rng.below(4) == 0 { Arrival::Tunnel } else { Arrival::Uplink };
    Input::Probe { arrival, from, seal: Seal::By(super::cluster::cluster("east")), bytes }
}

impl<M: Role> Around<M> {
    /// Everything is there and has been seen: the machine is in the middle of its work.
    fn seen_by(machine: &mut M) -> Self {
        let mut around = Self { apis: Apis::default(), heard: vec![], kinds: machine.watches(), machine: PhantomData };
        for object in objects(1).into_iter().rev() {
            around.apis.put(Api::Local, object);
        }
        for (api, kind) in around.kinds {
            for event in around.apis.listing(*api, *kind) {
                machine.handle(Input::Watched(*api, event), Instant::ZERO);
            }
        }
        around
    }

    fn event(&mut self, rng: &mut Rng) -> Input {
        let at = usize::try_from(rng.below(u64::try_from(self.kinds.len()).unwrap())).unwrap();
        let (api, kind) = self.kinds[at];
        let object = any_object(rng);
        let event = match rng.below(8) {
            0 => WatchEvent::Began(kind),
            1..=3 => WatchEvent::Synced(kind),
            4 => WatchEvent::Deleted(object.key()),
            _ => self.apis.put(api, object),
        };
        Input::Watched(api, event)
    }

    fn hello(&self, rng: &mut Rng) -> Input {
        let bytes = match self.heard.last() {
            Some(bytes) if rng.below(4) > 0 => bytes.clone(),
            _ => vec![7; 20],
        };
        let slot = super::cluster::slot(1);
        let (via, from) = match rng.below(2) {
            0 => (Via::Overlay, overlay_address(&super::cluster::cluster("west"), "uid-1-gw-b")),
            _ => (Via::Cable(slot), probe_address(&super::cluster::cluster("east"), slot)),
        };
        Input::Hello { via, from, bytes }
    }

    fn any_input(&mut self, rng: &mut Rng, now: Instant) -> Input {
        match rng.below(22) {
            20 => Input::LookedUp(Ok(Some([198, 51, 100, 1].into()))),
            21 => probe(rng, vec![7; 9], SocketAddr::new(address(2, 0), NAT_PORT)),
            0 | 1 => Input::Wall(Wall::from_unix_secs(1_000) + now.since_origin()),
            2..=5 => self.hello(rng),
            6 => Input::Applied(Err("busy".into())),
            7 => Input::Applied(Ok(())),
            8 if rng.below(4) == 0 => Input::Leave,
            8 => Input::Stop,
            _ => self.event(rng),
        }
    }

    fn answer(&mut self, output: &Output, rng: &mut Rng) -> Vec<(Duration, Input)> {
        let late = Duration::from_millis(rng.below(6_000));
        match output {
            Output::Read(id, api, key) => {
                let found = self.apis.get(*api, key).map(|(object, version)| (object.clone(), version));
                let result = if rng.below(5) == 0 { Err(ApiError::Unreachable) } else { Ok(found) };
                vec![(late, Input::Read(*id, result))]
            }
            Output::Write(id, api, write) => match rng.below(6) {
                0 => vec![],
                1 => vec![(late, Input::Written(*id, Err(ApiError::Unreachable)))],
                _ => match self.apis.write(*api, write) {
                    Ok((version, event)) => vec![
                        (late, Input::Written(*id, Ok(version))),
                        (Duration::from_millis(rng.below(500)), Input::Watched(*api, event)),
                    ],
                    Err(error) => vec![(late, Input::Written(*id, Err(error)))],
                },
            },
            Output::Send { bytes, .. } => {
                self.heard.push(bytes.clone());
                vec![]
            }
            Output::Network(_) => vec![(Duration::from_millis(1), Input::Applied(Ok(())))],
            Output::Probe { to, bytes, .. } => match answer_to(bytes) {
                Some(answer) if rng.below(3) > 0 => {
                    vec![(Duration::from_millis(rng.below(1_500)), probe(rng, answer, *to))]
                }
                _ => vec![],
            },
            Output::LookUp => {
                let last = u8::try_from(rng.below(2)).unwrap();
                let result =
                    if rng.below(3) == 0 { Err("no answer".into()) } else { Ok(Some([198, 51, 100, last].into())) };
                vec![(late, Input::LookedUp(result))]
            }
            Output::Dns(_) | Output::Event(_) => vec![],
        }
    }
}

impl Subject for Around<Gateway> {
    type M = Gateway;
    const GAP_MAX: Duration = Duration::from_secs(1);

    fn begin(_: &mut Rng) -> (Self, Gateway) {
        let mut gateway = Gateway::new(west("gw-a", 0));
        gateway.handle(Input::Wall(Wall::from_unix_secs(1_000)), Instant::ZERO);
        (Self::seen_by(&mut gateway), gateway)
    }

    fn input(&mut self, rng: &mut Rng, now: Instant) -> Input {
        self.any_input(rng, now)
    }

    fn react(&mut self, output: &Output, rng: &mut Rng, _: Instant) -> Vec<(Duration, Input)> {
        self.answer(output, rng)
    }
}

impl Subject for Around<RouteAgent> {
    type M = RouteAgent;
    const GAP_MAX: Duration = Duration::from_secs(1);

    fn begin(_: &mut Rng) -> (Self, RouteAgent) {
        let mut agent = RouteAgent::new(west("worker", 2).node);
        (Self::seen_by(&mut agent), agent)
    }

    fn input(&mut self, rng: &mut Rng, now: Instant) -> Input {
        self.any_input(rng, now)
    }

    fn react(&mut self, output: &Output, rng: &mut Rng, _: Instant) -> Vec<(Duration, Input)> {
        self.answer(output, rng)
    }
}

#[test]
fn the_gateway_keeps_the_laws() {
    let proof = prove::<Around<Gateway>>(CASES);
    assert!(proof.answers > 20 && proof.wakes > 400, "{proof:?}");
}

#[test]
fn the_route_agent_keeps_the_laws() {
    let proof = prove::<Around<RouteAgent>>(CASES);
    assert!(proof.outputs > 200 && proof.wakes > 200, "{proof:?}");
}
