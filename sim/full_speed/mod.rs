//! Full speed: the real shell and the real kube client, embedded API servers and pods, on simulated sockets.
//!
//! ```text
//!  processes of a stack ──sockets──> stack ──packets──> fabric: each node forwards by its applied plans ──> stack ──> …
//!       ^                                                                                               │
//!       └──────────────────── the next tick ────────────────────────────────────────────────────────────┘
//! ```
//! Time goes in ticks of a millisecond. In each, every process (but those that nap, see `process`) lives for one millisecond
//! of its own paused clock, then
//! what its stack wants to send goes into the fabric, then all packets that are due by the end of the tick make their
//! next steps. Nothing else passes between hosts: API traffic, DNS, hellos and what probes fetch are all packets that
//! [`tombolo_core::network::forward`] decides on, hop by hop.
//!
//! | page | tells |
//! |---|---|
//! | `sockets` | stacks, and the rewriting between them and the fabric |
//! | `acks` | what the stacks' TCP leaves unsaid |
//! | `process` | a runtime with a clock of its own; killing it |
//! | `daemons`, `hands` | the shell and its hands |
//! | `nat` | the hand of NAT discovery |
//! | `apis` | the embedded API servers |
//! | `pods`, `probes` | who serves, who asks |
//! | `ground` | the verbs of a timeline |
//!
//! The same scenario and seed give the same facts: each process has a runtime whose choices are seeded, they live in a
//! fixed order, and nothing reads a clock or a chance from outside.

#[cfg(not(tokio_unstable))]
compile_error!("full speed needs tokio's seeded scheduler: build with --cfg tokio_unstable (see .cargo/config.toml)");

mod acks;
mod apis;
mod chronicle;
mod daemons;
mod ground;
mod hands;
mod nat;
mod pods;
mod probes;
mod process;
mod segments;
mod sockets;

use crate::core_speed::Settings;
use crate::world::{
    Clock, Fabric, HostId, Judgement, Layout, LayoutError, Lifecycles, Outsiders, act, find_node, judge, resliced,
};
use chronicle::{Chronicle, HostClock};
use core::time::Duration;
use daemons::{DaemonId, Post};
use probes::Probes;
use process::{POD_NAP, Process};
use sockets::{Cargo, Sockets, StackId};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tombolo_core::base::{ClusterId, Rng};
use tombolo_core::model::ServiceKey;
use tombolo_scenarios::{Ability, Broker, Daemon, Fact, Fault, Links, Probe, ProbeId, Scenario, Stage, StageError};

pub use sockets::Occupied;

/// One step of time.
const TICK: Duration = Duration::from_millis(1);
/// How often silent connections are looked for.
const DOUBT_EVERY_MS: u128 = 500;

/// Why a world at full speed cannot be made, or cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FullSpeedError {
    /// The scenario does not fit into the world's address plan.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// See [`Occupied`].
    #[error(transparent)]
    Occupied(#[from] Occupied),
    /// tokio gave no runtime.
    #[error("no runtime for a process: {0}")]
    Runtime(String),
    /// An API server did not take what belongs to its cluster.
    #[error("an API server is not as it should be: {0}")]
    Api(String),
    /// A host without a clock.
    #[error("a host has no clock")]
    NoClock,
}

impl From<std::io::Error> for FullSpeedError {
    fn from(error: std::io::Error) -> Self {
        Self::Runtime(error.to_string())
    }
}

/// What the world itself is to do.
#[derive(Clone, Debug)]
enum Due {
    /// A daemon comes up, if the host still has the power it had then.
    Start(DaemonId, u64),
    /// What this run of a daemon wants is applied.
    Apply(DaemonId, u64),
    /// This run of a daemon is told under which address its host is seen from outside.
    LookedUp(DaemonId, u64),
    /// A node's kube-proxy takes a look at its services.
    ProxySync(HostId),
    /// The cluster judges a node.
    Judge(Judgement),
    /// Pods that moved to another slice are back.
    Resliced(ClusterId, ServiceKey),
    /// The pods of a node come up, if it still has the power it had then.
    Pods(HostId, u64),
}

/// The world at full speed. Made from a scenario and a seed; then a [`Stage`].
#[derive(Debug)]
pub struct FullSpeed {
    layout: Arc<Layout>,
    settings: Settings,
    seed: u64,
    /// The beginning of the next tick.
    time: Duration,
    /// Until when the world was asked to run.
    reached: Duration,
    chronicle: Chronicle,
    due: BTreeMap<(Duration, u64), Due>,
    sequence: u64,
    fabric: Fabric<Cargo>,
    daemons: Vec<Post>,
    apis: Vec<apis::Served>,
    pods: BTreeMap<StackId, Process>,
    probes: Probes,
    clocks: Vec<HostClock>,
    /// How often each host was powered on.
    power_ups: Vec<u64>,
    lifecycles: Lifecycles,
    outsiders: Outsiders,
    chance: Rng,
    /// The last to go: processes close their sockets when they end.
    sockets: Sockets,
}

impl FullSpeed {
    /// The world of `scenario` before anything has happened, with the daemons of the product.
    ///
    /// # Errors
    /// A [`FullSpeedError`].
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, FullSpeedError> {
        let mut world = Self::without_daemons(scenario, seed)?;
        world.place_daemons();
        Ok(world)
    }

    /// The same with a bug that a test plants: kernels clamp no segments.
    #[must_use]
    pub fn without_clamps(mut self) -> Self {
        self.fabric.break_clamps();
        self
    }

    fn without_daemons(scenario: &Scenario, seed: u64) -> Result<Self, FullSpeedError> {
        let layout = Arc::new(Layout::of(scenario)?);
        let hosts = layout.hosts().len();
        let mut chance = Rng::stream(seed, "full speed");
        let mut world = Self {
            settings: Settings::of(scenario),
            seed,
            time: Duration::ZERO,
            reached: Duration::ZERO,
            chronicle: Chronicle::default(),
            due: BTreeMap::new(),
            sequence: 0,
            fabric: Fabric::new(Arc::clone(&layout), &scenario.links, seed),
            daemons: Vec::new(),
            apis: Vec::new(),
            pods: BTreeMap::new(),
            probes: Probes::new(seed),
            clocks: (0..hosts).map(|_| HostClock::new(Clock::new(Duration::ZERO, &mut chance))).collect(),
            power_ups: vec![1; hosts],
            lifecycles: Lifecycles::new(&layout),
            outsiders: Outsiders::of(scenario),
            chance,
            sockets: Sockets::new(&layout, round_trip_ms(&scenario.links))?,
            layout,
        };
        let layout = Arc::clone(&world.layout);
        world.build_apis(scenario.broker == Broker::Own)?;
        for (host, _) in layout.nodes() {
            world.sync_proxy(host);
            world.start_pods(host)?;
        }
        Ok(world)
    }

    /// Starts the pods of a node that serve.
    fn start_pods(&mut self, node: HostId) -> Result<(), FullSpeedError> {
        let layout = Arc::clone(&self.layout);
        let name: Rc<str> =
            layout.host(node).and_then(|host| host.node.as_ref()).map_or("", |n| n.name.as_str()).into();
        for service in layout.services() {
            for pod in service.pods.iter().filter(|pod| pod.node == node) {
                let Some(stack) = self.sockets.pod(node, pod.address) else { continue };
                let own = self.sockets.v4(stack);
                let chronicle = self.chronicle.clone();
                let process = self.pod_process(stack)?;
                for (port, protocol) in &service.ports {
                    process.spawn(pods::serve(own, *port, *protocol, Rc::clone(&name), chronicle.clone()));
                }
            }
        }
        Ok(())
    }

    /// The process of a pod, begun if there is none.
    fn pod_process(&mut self, stack: StackId) -> Result<&Process, FullSpeedError> {
        match self.pods.entry(stack) {
            std::collections::btree_map::Entry::Occupied(there) => Ok(there.into_mut()),
            std::collections::btree_map::Entry::Vacant(room) => {
                let seed = Rng::stream(self.seed, &format!("pod {} {}", stack.0, self.time.as_millis())).bits();
                Ok(room.insert(Process::new(self.time, seed, POD_NAP)?))
            }
        }
    }

    /// Ends the pods of a node.
    fn stop_pods(&mut self, node: HostId) {
        for stack in self.sockets.pods_of(node) {
            self.sockets.enter(stack);
            self.pods.remove(&stack);
        }
    }

    /// Puts something at `delay` from now.
    fn later(&mut self, delay: Duration, due: Due) {
        self.sequence += 1;
        self.due.insert((self.time + delay, self.sequence), due);
    }

    /// Remembers what broke.
    fn heed<E: ToString>(&self, result: Result<(), E>) {
        if let Err(error) = result {
            self.chronicle.broke(error.to_string());
        }
    }

    fn tick(&mut self) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= self.time) {
            let due = entry.remove();
            self.happen(due);
        }
        let end = self.time + TICK;
        self.chronicle.set_now(end);
        self.live(end);
        if self.time.as_millis().is_multiple_of(DOUBT_EVERY_MS) {
            self.sockets.doubt(self.time);
        }
        self.sockets.send_all(self.time, &mut self.fabric);
        self.time = end;
        self.see_wishes();
        while self.fabric.next_at().is_some_and(|at| at <= end) {
            let outcome = self.fabric.step();
            match outcome.and_then(|outcome| self.sockets.aim(outcome, &self.fabric)) {
                Some(Ok(delivery)) => {
                    if delivery.for_network_daemon {
                        self.stir_network_daemon(HostId(delivery.stack.0));
                    } else {
                        self.stir(delivery.stack);
                    }
                    self.sockets.deliver(end, delivery.packet, delivery.mss);
                }
                Some(Err(lost)) => self.packet_lost(lost),
                None => {}
            }
        }
        self.tell_probes();
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Start(id, power_up) => {
                let started = self.start_due(id, power_up);
                self.heed(started);
            }
            Due::Apply(id, boot) => self.apply(id, boot),
            Due::LookedUp(id, boot) => self.looked_up(id, boot),
            Due::ProxySync(host) => self.proxy_due(host),
            Due::Judge(judgement) => {
                let judged = judge(self, judgement);
                self.heed(judged);
            }
            Due::Resliced(cluster, key) => {
                let resliced = resliced(self, &cluster, &key);
                self.heed(resliced);
            }
            Due::Pods(host, power_up) => {
                if self.power_ups.get(host.0) == Some(&power_up) && self.fabric.has_power(host) {
                    let started = self.start_pods(host);
                    self.heed(started);
                }
            }
        }
    }

    /// Something is about to be done to a stack: all its processes wake up.
    fn stir(&self, stack: StackId) {
        self.sockets.enter(stack);
        if let Some(process) = self.pods.get(&stack) {
            process.stir(self.time);
        }
        let host = HostId(stack.0);
        for api in self.apis.iter().filter(|api| api.host == host) {
            api.process.iter().for_each(|process| process.stir(self.time));
        }
        for post in self.daemons.iter().filter(|post| post.host == host) {
            post.running.iter().for_each(|running| running.process.stir(self.time));
        }
    }

    /// A hello or a datagram of NAT discovery is about to be delivered to a node: nobody else reads those.
    fn stir_network_daemon(&self, node: HostId) {
        self.sockets.enter(StackId(node.0));
        let reads_hellos = |post: &&Post| match post.daemon {
            Daemon::Gateway | Daemon::RouteAgent => post.host == node,
            Daemon::Discovery | Daemon::Dns => false,
        };
        let reader = self.daemons.iter().find(reads_hellos).and_then(|post| post.running.as_ref());
        reader.iter().for_each(|running| running.process.stir(self.time));
    }

    /// All processes live until `end`, but those that nap.
    fn live(&mut self, end: Duration) {
        for api in &self.apis {
            if let Some(process) = &api.process {
                self.sockets.enter(StackId(api.host.0));
                process.live(end);
            }
        }
        for post in &self.daemons {
            if let Some(running) = &post.running {
                self.sockets.enter(StackId(post.host.0));
                running.process.live(end);
            }
        }
        for (stack, process) in &self.pods {
            self.sockets.enter(*stack);
            process.live(end);
        }
    }
}

impl Drop for FullSpeed {
    /// Ends each process on its own stack.
    fn drop(&mut self) {
        for api in &mut self.apis {
            self.sockets.enter(StackId(api.host.0));
            api.process = None;
        }
        for post in &mut self.daemons {
            self.sockets.enter(StackId(post.host.0));
            post.running = None;
        }
        while let Some((stack, process)) = self.pods.pop_first() {
            self.sockets.enter(stack);
            drop(process);
        }
    }
}

/// The longest time from one site to another and back.
fn round_trip_ms(links: &Links) -> u32 {
    let one_way = links.pairs.values().chain([&links.default]).map(|link| link.latency + link.jitter).max();
    u32::try_from(one_way.unwrap_or_default().as_millis() * 2).unwrap_or(u32::MAX)
}

impl Stage for FullSpeed {
    fn name(&self) -> &'static str {
        "full speed"
    }

    fn lacks(&self, ability: Ability) -> Option<String> {
        match ability {
            Ability::Loss
            | Ability::Delay
            | Ability::Jitter
            | Ability::HeldFlows
            | Ability::Clocks
            | Ability::Deterministic => None,
            Ability::Hours => Some("an hour takes half a minute here: play it at core speed".into()),
        }
    }

    fn now(&self) -> Duration {
        self.reached
    }

    fn advance(&mut self, until: Duration) -> Result<(), StageError> {
        while self.chronicle.broken().is_none() && self.time + TICK <= until {
            self.tick();
        }
        self.reached = self.reached.max(until);
        self.chronicle.broken().map_or(Ok(()), |because| Err(StageError::Broken(because)))
    }

    fn act(&mut self, fault: &Fault) -> Result<String, StageError> {
        act(self, fault)
    }

    fn probe(&mut self, id: ProbeId, probe: &Probe) -> Result<(), StageError> {
        let node = find_node(&self.layout, &probe.from.0, &probe.from.1)?;
        self.begin_probe(id, node, probe);
        Ok(())
    }

    fn facts(&mut self) -> Vec<Fact> {
        self.chronicle.take()
    }
}

#[cfg(test)]
mod tests;
