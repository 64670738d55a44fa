//! One gateway between two APIs.

use super::cluster::{Apis, cluster, hello, node, slot, west};
use crate::base::{Instant, Machine, Wall};
use crate::model::{Api, ApiError, Key, Kind, Object, Write};
use crate::network::Wanted;
use crate::roles::addresses::probe_address;
use crate::roles::{Event, Gateway, Input, Output, Role, Via};
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

/// One gateway and two APIs that answer at once.
pub(super) struct Scene {
    pub(super) gateway: Gateway,
    pub(super) apis: Apis,
    pub(super) now: Instant,
    pub(super) events: Vec<Event>,
    /// The broker answers nothing.
    pub(super) broker_down: bool,
    /// What the broker does not let this cluster write.
    pub(super) forbidden: Option<Kind>,
    /// Writes of this at the broker get lost.
    pub(super) held: Option<Key>,
    /// What was written at the broker, in order.
    pub(super) written: Vec<Kind>,
    /// Whether networks are applied at once; if not, nobody says anything about them.
    pub(super) applies: bool,
    /// The network that was wanted last.
    pub(super) wanted: Option<Arc<Wanted>>,
    pub(super) inputs: VecDeque<Input>,
    pub(super) beat: u32,
    /// What a lookup of the own public address gives; without it none is answered.
    pub(super) looked_up: Option<Result<Option<IpAddr>, String>>,
}

impl Scene {
    pub(super) fn new() -> Self {
        let mut apis = Apis::default();
        for object in [node("gw-a", 1, 0, true), node("gw-b", 1, 1, true), node("worker", 1, 2, false)] {
            apis.put(Api::Local, object);
        }
        Self {
            gateway: Gateway::new(west("gw-a", 0)),
            apis,
            now: Instant::ZERO,
            events: vec![],
            broker_down: false,
            forbidden: None,
            held: None,
            written: vec![],
            applies: true,
            wanted: None,
            inputs: VecDeque::from([Input::Wall(Wall::from_unix_secs(1_000))]),
            beat: 0,
            looked_up: None,
        }
    }

    pub(super) fn list(&mut self, api: Api) {
        for (watched, kind) in self.gateway.watches() {
            if *watched == api {
                self.inputs.extend(self.apis.listing(api, *kind).into_iter().map(|event| Input::Watched(api, event)));
            }
        }
    }

    pub(super) fn show(&mut self, api: Api, object: Object) {
        let event = self.apis.put(api, object);
        self.inputs.push_back(Input::Watched(api, event));
    }

    /// Somebody else deletes it, which the watch shows.
    pub(super) fn delete(&mut self, api: Api, key: &Key) {
        let (_, version) = self.apis.get(api, key).unwrap();
        let (_, event) = self.apis.write(api, &Write::Delete(key.clone(), version)).unwrap();
        self.inputs.push_back(Input::Watched(api, event));
    }

    /// What this gateway told of its joining.
    pub(super) fn told(&self) -> Vec<String> {
        let joining = |event: &&Event| matches!(event, Event::Refused { .. } | Event::Contested { .. });
        self.events.iter().filter(joining).map(ToString::to_string).collect()
    }

    /// Lets so much time pass, everything answered at once.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let Some((at, _)) = self.gateway.poll_timeout().filter(|(at, _)| *at <= end) else { break };
            self.now = at;
            self.gateway.handle_timeout(at);
        }
        self.now = end;
    }

    /// The same, while candidate 1 of east says hello in the cable.
    pub(super) fn run_hearing_east(&mut self, time: Duration) {
        let from = probe_address(&cluster("east"), slot(1));
        let end = self.now + time;
        while self.now < end {
            self.beat += 1;
            let bytes = hello("east", self.beat, "west");
            self.inputs.push_back(Input::Hello { via: Via::Cable(slot(1)), from, bytes });
            self.run(Duration::from_millis(100));
        }
    }

    pub(super) fn settle(&mut self) {
        loop {
            while let Some(output) = self.gateway.poll_output() {
                self.carry_out(output);
            }
            let Some(input) = self.inputs.pop_front() else { return };
            self.gateway.handle(input, self.now);
        }
    }

    pub(super) fn carry_out(&mut self, output: Output) {
        match output {
            Output::Read(id, api, key) => {
                let found = self.apis.get(api, &key).map(|(object, version)| (object.clone(), version));
                self.inputs.push_back(Input::Read(id, Ok(found)));
            }
            Output::Write(id, Api::Broker, _) if self.broker_down => {
                self.inputs.push_back(Input::Written(id, Err(ApiError::Unreachable)));
            }
            Output::Write(id, Api::Broker, write) if self.forbidden == Some(write.key().kind) => {
                self.inputs.push_back(Input::Written(id, Err(ApiError::Refused("not yours".into()))));
            }
            Output::Write(id, Api::Broker, write) if self.held == Some(write.key()) => {
                self.inputs.push_back(Input::Written(id, Err(ApiError::Unreachable)));
            }
            Output::Write(id, api, write) => {
                self.written.extend(Some(write.key().kind).filter(|_| api == Api::Broker));
                let done = self.apis.write(api, &write);
                self.inputs.push_back(Input::Written(id, done.clone().map(|(version, _)| version)));
                if let Ok((_, event)) = done {
                    self.inputs.push_back(Input::Watched(api, event));
                }
            }
            Output::Event(event) => self.events.push(event),
            Output::Network(wanted) => {
                self.wanted = Some(wanted);
                self.inputs.extend(self.applies.then_some(Input::Applied(Ok(()))));
            }
            Output::LookUp => self.inputs.extend(self.looked_up.clone().map(Input::LookedUp)),
            Output::Send { .. } | Output::Probe { .. } | Output::Dns(_) => {}
        }
    }

    pub(super) fn endpoints(&self, api: Api) -> Vec<(&str, u64)> {
        self.apis
            .of_kind(api, Kind::Endpoint)
            .into_iter()
            .filter_map(
                |object| if let Object::Endpoint(e) = object { Some((e.node.as_str(), e.epoch.0)) } else { None },
            )
            .collect()
    }
}

/// East speaks at the broker, and gw-a holds the lease of west.
pub(super) fn settled(objects: &[Object]) -> Scene {
    let mut scene = Scene::new();
    for object in objects {
        scene.show(Api::Broker, object.clone());
    }
    scene.list(Api::Local);
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(3));
    scene
}
