//! Core speed: the machines themselves, driven by a discrete-event loop with no sockets, no threads and no clock.
//!
//! ```text
//!  queue ──event──> feed ──Input──> machine ──Output──┬─ Read, Write ──> message ──> API server ──> message ──> feed
//!    ^                                                ├─ Send ─────────> fabric ───> another machine's feed
//!    └────────────── everything that comes later ─────┼─ Network ──────> plan ─────> kernel, a little later
//!                                                     ├─ Dns ──────────> the table of the daemon's socket
//!                                                     └─ Event ────────> fact
//! ```
//! Time jumps from event to event. At equal times timers go first, then events in the order in which they were made, so
//! a run depends on the scenario and the seed alone.

mod api;
mod daemons;
mod faults;
mod flows;
mod messages;
mod nat;
mod nodes;
mod process;
mod queue;
mod roles;

use crate::world::{self, Clock, Fabric, HostId, Judgement, Layout, LayoutError, Lifecycles, Outcome, Outsiders};
use api::{Accepted, ApiServer};

use core::time::Duration;
use flows::{Flows, Payload};
use messages::Envelope;
pub use process::Driven;
use process::{Client, Process, ProcessId};
use queue::{Class, Queue};
pub(crate) use roles::{MachineUser, use_machine};
pub use roles::{Settings, Spawn, Start, real};
use std::sync::Arc;
use tombolo_core::base::{ClusterId, Rng};
use tombolo_core::model::{Api, ServiceKey, Write};
use tombolo_core::network::LinkName;
use tombolo_core::roles::RequestId;
use tombolo_scenarios::{
    Ability, ApiRef, Broker, Daemon, Fact, Fault, Host, Place, Probe, ProbeId, Scenario, Stage, StageError, What,
};

/// Daemons of a freshly started world begin within this.
const START_SPREAD: Duration = Duration::from_millis(200);

/// What is to happen.
#[derive(Debug)]
enum Event {
    /// A daemon's process comes up, if the host still has the power it had then.
    Start(ProcessId, u64),
    /// A machine wants to wake.
    Wake(Client),
    /// A daemon reads its wall clock.
    Wall(Client),
    /// A daemon's desired network is applied.
    Apply(Client),
    /// A daemon is told under which address its host is seen from outside.
    LookedUp(Client),
    /// A message is about to leave its host.
    Leave(Box<Envelope>),
    /// A message is there.
    Arrive(Box<Envelope>),
    /// A request may have no answer yet.
    RequestDue(Client, RequestId),
    /// A phase of a watch ends, if it is still the one that was meant.
    WatchDue(Client, usize),
    /// A node's kube-proxy takes a look at its services.
    ProxySync(HostId),
    /// The cluster judges a node that was not heard, or is heard again.
    NodeDue(Judgement),
    /// Pods that moved to another slice are back.
    Resliced(ClusterId, ServiceKey),
    /// A probe's time is over.
    ProbeDue(ProbeId),
    /// A probe may have to say its last word again.
    Repeat(ProbeId, u32),
}

/// The world at core speed. Made from a scenario and a seed; then a [`Stage`].
#[derive(Debug)]
pub struct CoreSpeed {
    layout: Arc<Layout>,
    spawn: Spawn,
    settings: roles::Settings,
    seed: u64,
    now: Duration,
    queue: Queue<Event>,
    fabric: Fabric<Payload>,
    clocks: Vec<Clock>,
    /// How often each host was powered on.
    power_ups: Vec<u64>,
    processes: Vec<Process>,
    /// The daemon that a host's network belongs to, by number of the host.
    network_daemons: Vec<Option<ProcessId>>,
    /// Desired networks that wait to be applied, by number of the daemon.
    desired: Vec<Option<Arc<tombolo_core::network::Wanted>>>,
    apis: Vec<ApiServer>,
    flows: Flows,
    lifecycles: Lifecycles,
    outsiders: Outsiders,
    facts: Vec<Fact>,
    chance: Rng,
    overlay: LinkName,
    /// The cable devices, by rank.
    cables: [LinkName; 4],
    steps: u64,
    broken: Option<String>,
}

impl CoreSpeed {
    /// The world of `scenario` before anything has happened, with the daemons of the product.
    ///
    /// # Errors
    /// A [`LayoutError`] where the scenario does not fit into the world's address plan.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, LayoutError> {
        Self::with_daemons(scenario, seed, real)
    }

    /// The same with a bug that a test plants: kernels clamp no segments.
    #[must_use]
    pub fn without_clamps(mut self) -> Self {
        self.fabric.break_clamps();
        self
    }

    /// The same with daemons that `spawn` makes.
    ///
    /// # Errors
    /// A [`LayoutError`] where the scenario does not fit into the world's address plan.
    pub fn with_daemons(scenario: &Scenario, seed: u64, spawn: Spawn) -> Result<Self, LayoutError> {
        let layout = Arc::new(Layout::of(scenario)?);
        let hosts = layout.hosts().len();
        let mut chance = Rng::stream(seed, "core speed");
        let mut world = Self {
            settings: roles::Settings::of(scenario),
            fabric: Fabric::new(Arc::clone(&layout), &scenario.links, seed),
            flows: Flows::new(&layout, seed),
            clocks: (0..hosts).map(|_| Clock::new(Duration::ZERO, &mut chance)).collect(),
            power_ups: vec![1; hosts],
            lifecycles: Lifecycles::new(&layout),
            outsiders: Outsiders::of(scenario),
            network_daemons: vec![None; hosts],
            layout,
            spawn,
            seed,
            now: Duration::ZERO,
            queue: Queue::new(),
            processes: Vec::new(),
            desired: Vec::new(),
            apis: Vec::new(),
            facts: Vec::new(),
            chance,
            overlay: LinkName(tombolo_core::network::constants::OVERLAY_LINK.into()),
            cables: tombolo_core::base::Slot::all().map(daemons::cable),
            steps: 0,
            broken: None,
        };
        world.build_apis(&scenario.broker);
        world.place_daemons();
        Ok(world)
    }

    /// How many inputs and wake-ups machines have taken.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    fn build_apis(&mut self, broker: &Broker) {
        let layout = Arc::clone(&self.layout);
        let names = layout.clusters().cloned().map(ApiRef::Cluster);
        let own = (*broker == Broker::Own).then_some(ApiRef::Broker);
        for name in names.chain(own) {
            let Some(host) = layout.find(&Host::Api(name.clone())) else { continue };
            self.apis.push(ApiServer::new(name.clone(), host));
            let ApiRef::Cluster(cluster) = &name else { continue };
            for object in layout.objects(cluster) {
                self.write_as_world(self.apis.len() - 1, Write::Create(object));
            }
        }
        for (host, _) in layout.nodes() {
            self.sync_proxy(host);
        }
    }

    fn place_daemons(&mut self) {
        let layout = Arc::clone(&self.layout);
        for (host, node) in layout.nodes() {
            let network = if node.gateway { Daemon::Gateway } else { Daemon::RouteAgent };
            if let Some(slot) = self.network_daemons.get_mut(host.0) {
                *slot = Some(ProcessId(self.processes.len()));
            }
            let singletons = layout.home_of_singletons(&node.cluster) == Some(host);
            let once = if singletons { [Daemon::Discovery, Daemon::Dns].as_slice() } else { &[] };
            for daemon in core::iter::once(network).chain(once.iter().copied()) {
                self.processes.push(Process { host, daemon, boot: 0, running: None });
                self.desired.push(None);
                let at = self.chance.duration(Duration::ZERO, START_SPREAD);
                self.later(at, Event::Start(ProcessId(self.processes.len() - 1), 1));
            }
        }
    }

    /// Puts an event at `delay` from now.
    fn later(&mut self, delay: Duration, event: Event) {
        self.queue.push(self.now + delay, Class::Other, event);
    }

    fn tell(&mut self, place: Place, what: What) {
        self.facts.push(Fact { at: self.now, place, what });
    }

    fn node_place(&self, host: HostId) -> Place {
        world::place(&self.layout, host)
    }

    fn daemon_place(&self, id: ProcessId) -> Place {
        let Some(process) = self.processes.get(id.0) else { return Place::World };
        match self.node_place(process.host) {
            Place::Node(cluster, node) => Place::Daemon(cluster, node, process.daemon),
            place @ (Place::World | Place::Api(_) | Place::Daemon(..)) => place,
        }
    }

    /// Where a write into `space` of an API is told to have happened: the broker's space of a member is the broker.
    fn api_place(&self, api: usize, space: Api) -> Place {
        match (space, self.apis.get(api)) {
            (Api::Local, Some(api)) => Place::Api(api.name.clone()),
            (Api::Broker, _) | (_, None) => Place::Api(ApiRef::Broker),
        }
    }

    /// The number of an API.
    fn find_api(&self, name: &ApiRef) -> Option<usize> {
        self.apis.iter().position(|api| api.name == *name)
    }

    /// A write by the world's own hands, which nothing can refuse but the object's state.
    fn write_as_world(&mut self, api: usize, write: Write) -> bool {
        let Some(Ok((_, accepted))) = self.apis.get_mut(api).map(|api| api.write(Api::Local, write)) else {
            return false;
        };
        self.accepted(api, Api::Local, Place::World, accepted);
        true
    }

    /// A write was accepted: tell it, and let it out to those who watch.
    fn accepted(&mut self, api: usize, space: Api, by: Place, accepted: Option<Accepted>) {
        let Some(Accepted { change, key, object }) = accepted else { return };
        self.tell(self.api_place(api, space), What::Wrote { by, change, key, object });
        self.send_batches(api);
    }

    /// Carries out the next event. False if there is none until `until`.
    fn step(&mut self, until: Duration) -> bool {
        let (event, packet) = (self.queue.next_at(), self.fabric.next_at());
        let queue_first = match (event, packet) {
            (Some(event), Some(packet)) => event <= packet,
            (event, _) => event.is_some(),
        };
        match if queue_first { event } else { packet } {
            Some(at) if at <= until => self.now = self.now.max(at),
            Some(_) | None => return false,
        }
        if queue_first {
            if let Some(event) = self.queue.pop() {
                self.happen(event);
            }
        } else if let Some(outcome) = self.fabric.step() {
            self.packet_ended(outcome);
        }
        true
    }

    /// Remembers what broke.
    fn heed(&mut self, result: Result<(), StageError>) {
        if let Err(error) = result {
            self.broken = Some(error.to_string());
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start(id, power_up) => self.start_due(id, power_up),
            Event::Wake(client) => self.wake(client),
            Event::Wall(client) => self.wall(client),
            Event::Apply(client) => self.apply(client),
            Event::LookedUp(client) => self.looked_up(client),
            Event::Leave(envelope) => self.leave(envelope),
            Event::Arrive(envelope) => self.arrive(*envelope),
            Event::RequestDue(client, id) => self.request_due(client, id),
            Event::WatchDue(client, watch) => self.watch_due(client, watch),
            Event::ProxySync(host) => self.proxy_due(host),
            Event::NodeDue(judgement) => {
                let judged = world::judge(self, judgement);
                self.heed(judged);
            }
            Event::Resliced(cluster, key) => {
                let resliced = world::resliced(self, &cluster, &key);
                self.heed(resliced);
            }
            Event::ProbeDue(id) => self.probe_due(id),
            Event::Repeat(id, tries) => self.repeat(id, tries),
        }
    }

    fn packet_ended(&mut self, outcome: Outcome<Payload>) {
        match outcome {
            Outcome::Host { host, link, packet, payload } => match payload {
                Payload::Hello(bytes) => self.hello(host, link.as_ref(), &packet, bytes),
                Payload::Nat(bytes) => self.discovery_datagram(host, link.as_ref(), &packet, bytes),
                Payload::Dns { by, bytes } => self.question(host, &packet, by, &bytes),
                Payload::Segment { .. } => {}
            },
            Outcome::Pod { node, packet, payload } => self.at_pod(node, &packet, payload),
            Outcome::Lost { host, loss, payload, .. } => match payload {
                Payload::Hello(_) | Payload::Nat(_) => {}
                Payload::Dns { by, .. } | Payload::Segment { by, .. } => {
                    let told = format!("{}: {loss}", self.node_place(host));
                    self.flows.lost(by, told);
                }
            },
        }
    }
}

impl Stage for CoreSpeed {
    fn name(&self) -> &'static str {
        "core speed"
    }

    fn lacks(&self, ability: Ability) -> Option<String> {
        match ability {
            Ability::Loss
            | Ability::Delay
            | Ability::Jitter
            | Ability::HeldFlows
            | Ability::Clocks
            | Ability::Deterministic
            | Ability::Hours => None,
        }
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn advance(&mut self, until: Duration) -> Result<(), StageError> {
        while self.broken.is_none() && self.step(until) {}
        self.now = self.now.max(until);
        self.broken.clone().map_or(Ok(()), |because| Err(StageError::Broken(because)))
    }

    fn act(&mut self, fault: &Fault) -> Result<String, StageError> {
        world::act(self, fault)
    }

    fn probe(&mut self, id: ProbeId, probe: &Probe) -> Result<(), StageError> {
        let host = world::find_node(&self.layout, &probe.from.0, &probe.from.1)?;
        self.begin_probe(id, host, probe);
        Ok(())
    }

    fn facts(&mut self) -> Vec<Fact> {
        core::mem::take(&mut self.facts)
    }
}

#[cfg(test)]
mod tests;
