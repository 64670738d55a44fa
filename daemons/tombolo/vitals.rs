//! What can be seen of a daemon from outside: whether it lives and is ready, and its metrics.
//!
//! It is told of each step that the loop takes, so nothing here can be forgotten by a hand. Where Submariner has a metric of
//! the same meaning, ours has its name (`spec/submariner.md` 14).

use core::time::Duration;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::time::Instant;
use tombolo_core::base::{ClusterId, Slot};
use tombolo_core::model::{Api, Candidates, Kind, Object, WatchEvent};
use tombolo_core::paths::Carried;
use tombolo_core::roles::{Event, Input, Output, Via};
use tombolo_shell::{Record, Step};

/// The loop tells the wall clock once a second: one that has not turned for so long hangs.
const HANGS_AFTER: Duration = Duration::from_secs(10);

/// What makes a daemon ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadyWhen {
    /// The node's network was applied once.
    Applied,
    /// DNS can answer.
    Answers,
    /// All it watches was listed once.
    Listed,
}

/// Who this is, for metrics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// The own cluster.
    pub cluster: ClusterId,
    /// The node, if it matters.
    pub node: String,
    /// Its address, if it has one for others.
    pub address: String,
    /// How cables carry packets.
    pub driver: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Of {
    kind: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Came {
    outcome: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "Submariner's words")]
enum ConnectionStatus {
    connected,
    error,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Connection {
    cable_driver: String,
    local_cluster: String,
    local_hostname: String,
    local_endpoint_ip: String,
    remote_cluster: String,
    remote_hostname: String,
    remote_endpoint_ip: String,
    status: ConnectionStatus,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Cable {
    remote_cluster: String,
    remote_candidate: u8,
}

#[derive(Default)]
struct Metrics {
    inputs: Family<Of, Counter>,
    outputs: Family<Of, Counter>,
    events: Family<Of, Counter>,
    answers: Family<Came, Counter>,
    applied: Gauge,
    failed: Counter,
    announces: Gauge,
    connections: Family<Connection, Gauge>,
    carries: Family<Cable, Gauge>,
    names: Gauge,
}

/// See the module docs. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Vitals(Rc<Inner>);

struct Inner {
    who: Who,
    ready_when: ReadyWhen,
    watches: usize,
    registry: Registry,
    metrics: Metrics,
    turned: Cell<Instant>,
    /// When the machine last gave an output.
    worked: Cell<Instant>,
    ready: Cell<bool>,
    left: Cell<bool>,
    listed: RefCell<BTreeSet<(Api, Kind)>>,
    candidates: RefCell<BTreeMap<ClusterId, Candidates>>,
    paths: RefCell<BTreeMap<ClusterId, (Slot, bool)>>,
}

impl std::fmt::Debug for Vitals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vitals")
    }
}

impl Vitals {
    /// Of a daemon that starts now, and watches so many kinds.
    #[must_use]
    pub fn new(who: Who, ready_when: ReadyWhen, watches: usize) -> Self {
        let metrics = Metrics::default();
        let mut registry = Registry::default();
        registry.register("tombolo_inputs", "What reached the daemon's machine", metrics.inputs.clone());
        registry.register("tombolo_outputs", "What the machine asked for", metrics.outputs.clone());
        registry.register("tombolo_events", "What the machine told", metrics.events.clone());
        registry.register("tombolo_api_requests", "Answers of the APIs to reads and writes", metrics.answers.clone());
        registry.register(
            "tombolo_announces",
            "1 while this gateway announces for its cluster",
            metrics.announces.clone(),
        );
        registry.register("tombolo_dns_names", "Names that DNS answers for", metrics.names.clone());
        registry.register(
            "tombolo_apply_failures",
            "How often the node's network could not be made what it should be",
            metrics.failed.clone(),
        );
        registry.register(
            "submariner_gateway_sync_iterations",
            "How often the node's network was made what it should be",
            metrics.applied.clone(),
        );
        registry.register(
            "submariner_connections",
            "The gateway of each other cluster that traffic goes to",
            metrics.connections.clone(),
        );
        registry.register(
            "tombolo_cable_carries_bytes",
            "The longest packet that a cable carries, and to which TCP is clamped; 0: the clamp is not effective",
            metrics.carries.clone(),
        );
        let now = Instant::now();
        Self(Rc::new(Inner {
            who,
            ready_when,
            watches,
            registry,
            metrics,
            turned: Cell::new(now),
            worked: Cell::new(now),
            ready: Cell::new(false),
            left: Cell::new(false),
            listed: RefCell::default(),
            candidates: RefCell::default(),
            paths: RefCell::default(),
        }))
    }

    /// Whether the loop turns.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.turned.get().elapsed() < HANGS_AFTER
    }

    /// Whether it does what it is for.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.ready.get()
    }

    /// Whether nothing of this daemon is left in the clusterset.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.0.left.get()
    }

    /// For how long the machine has asked for nothing.
    #[must_use]
    pub fn idle_for(&self) -> Duration {
        self.0.worked.get().elapsed()
    }

    /// All metrics, as Prometheus reads them.
    ///
    /// # Errors
    /// If they cannot be written, which only a fault in the library can cause.
    pub fn metrics(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0.registry).map(|()| text)
    }

    /// Takes note of an input.
    fn input(&self, input: &Input) {
        let metrics = &self.0.metrics;
        metrics.inputs.get_or_create(&Of { kind: kind_of_input(input) }).inc();
        match input {
            Input::Watched(api, event) => self.watched(*api, event),
            Input::Read(_, result) => self.answered(result.is_ok()),
            Input::Written(_, result) => self.answered(result.is_ok()),
            Input::Applied(Ok(())) => {
                metrics.applied.inc();
                self.ready(ReadyWhen::Applied);
            }
            Input::Applied(Err(_)) => drop(metrics.failed.inc()),
            Input::Wall(_)
            | Input::Hello { .. }
            | Input::Probe { .. }
            | Input::LookedUp(_)
            | Input::Stop
            | Input::Leave => {}
        }
    }

    fn answered(&self, fine: bool) {
        let came = Came { outcome: if fine { "ok" } else { "failed" } };
        self.0.metrics.answers.get_or_create(&came).inc();
    }

    fn ready(&self, by: ReadyWhen) {
        if self.0.ready_when == by {
            self.0.ready.set(true);
        }
    }

    fn watched(&self, api: Api, event: &WatchEvent) {
        match event {
            WatchEvent::Synced(kind) => {
                let mut listed = self.0.listed.borrow_mut();
                listed.insert((api, *kind));
                if listed.len() >= self.0.watches {
                    self.ready(ReadyWhen::Listed);
                }
            }
            WatchEvent::Applied(Object::Candidates(candidates), _) if api == Api::Local => {
                self.0.candidates.borrow_mut().insert(candidates.cluster.clone(), Candidates::clone(candidates));
                self.connections();
            }
            WatchEvent::Began(_) | WatchEvent::Applied(..) | WatchEvent::Deleted(_) | WatchEvent::Lost(_) => {}
        }
    }

    fn output(&self, output: &Output) {
        let metrics = &self.0.metrics;
        metrics.outputs.get_or_create(&Of { kind: kind_of_output(output) }).inc();
        match output {
            Output::Event(event) => self.event(event),
            Output::Dns(table) => {
                metrics.names.set(i64::try_from(table.names()).unwrap_or(i64::MAX));
                if table.synced() {
                    self.ready(ReadyWhen::Answers);
                }
            }
            Output::Read(..)
            | Output::Write(..)
            | Output::Send { .. }
            | Output::Probe { .. }
            | Output::LookUp
            | Output::Network(_) => {}
        }
    }

    fn event(&self, event: &Event) {
        let metrics = &self.0.metrics;
        metrics.events.get_or_create(&Of { kind: kind_of_event(event) }).inc();
        match event {
            Event::Elected(_) => drop(metrics.announces.set(1)),
            Event::StoodDown { .. } => drop(metrics.announces.set(0)),
            Event::Left => self.0.left.set(true),
            Event::PathChosen { cluster, pair: (_, remote), .. } => self.path(cluster, Some(*remote)),
            Event::PathDead { cluster, .. } => self.path(cluster, None),
            Event::Carries { cluster, slot, carried } => {
                let cable = Cable { remote_cluster: cluster.to_string(), remote_candidate: slot.get() };
                let longest = if *carried == Carried::Nothing { None } else { carried.longest() };
                metrics.carries.get_or_create(&cable).set(longest.unwrap_or_default().into());
            }
            Event::Refused { .. }
            | Event::Contested { .. }
            | Event::Dials { .. }
            | Event::Unanswered { .. }
            | Event::Public(_)
            | Event::Ignored { .. } => {}
        }
    }

    fn path(&self, cluster: &ClusterId, to: Option<Slot>) {
        let mut paths = self.0.paths.borrow_mut();
        let alive = to.is_some();
        let known = paths.get(cluster).map(|(slot, _)| *slot);
        if let Some(slot) = to.or(known) {
            paths.insert(cluster.clone(), (slot, alive));
        }
        drop(paths);
        self.connections();
    }

    /// Tells the connections anew.
    fn connections(&self) {
        let Inner { who, metrics, candidates, paths, .. } = &*self.0;
        metrics.connections.clear();
        for (cluster, (slot, alive)) in paths.borrow().iter() {
            let known = candidates.borrow();
            let to = known.get(cluster).and_then(|candidates| candidates.by_slot.get(slot));
            let connection = Connection {
                cable_driver: who.driver.clone(),
                local_cluster: who.cluster.to_string(),
                local_hostname: who.node.clone(),
                local_endpoint_ip: who.address.clone(),
                remote_cluster: cluster.to_string(),
                remote_hostname: to.map(|to| to.node.to_string()).unwrap_or_default(),
                remote_endpoint_ip: to.map(|to| to.address.to_string()).unwrap_or_default(),
                status: if *alive { ConnectionStatus::connected } else { ConnectionStatus::error },
            };
            metrics.connections.get_or_create(&connection).set(1);
        }
    }

    /// Takes note of a step.
    pub fn note(&self, step: &Step, outputs: &[Output]) {
        let now = Instant::now();
        self.0.turned.set(now);
        match step {
            Step::Input(input) => self.input(input),
            Step::Wake => {}
        }
        // Hellos go on for as long as it runs.
        if outputs.iter().any(|output| !matches!(output, Output::Send { .. } | Output::Probe { .. })) {
            self.0.worked.set(now);
        }
        outputs.iter().for_each(|output| self.output(output));
    }
}

/// The record of a daemon: its vitals, and what is written down.
pub struct Both {
    /// Always.
    pub vitals: Vitals,
    /// If it was wished for.
    pub record: Option<Box<dyn Record>>,
}

impl Record for Both {
    fn step(&mut self, at: tombolo_core::base::Instant, step: &Step, outputs: &[Output]) {
        self.vitals.note(step, outputs);
        if let Some(record) = &mut self.record {
            record.step(at, step, outputs);
        }
    }
}

const fn kind_of_input(input: &Input) -> &'static str {
    match input {
        Input::Wall(_) => "wall",
        Input::Watched(..) => "watched",
        Input::Read(..) => "read",
        Input::Written(..) => "written",
        Input::Hello { via: Via::Overlay, .. } => "hello_overlay",
        Input::Hello { via: Via::Cable(_), .. } => "hello_cable",
        Input::Probe { .. } => "probe",
        Input::LookedUp(_) => "looked_up",
        Input::Applied(_) => "applied",
        Input::Stop => "stop",
        Input::Leave => "leave",
    }
}

const fn kind_of_output(output: &Output) -> &'static str {
    match output {
        Output::Read(..) => "read",
        Output::Write(..) => "write",
        Output::Send { .. } => "hello",
        Output::Probe { .. } => "probe",
        Output::LookUp => "look_up",
        Output::Network(_) => "network",
        Output::Dns(_) => "dns",
        Output::Event(_) => "event",
    }
}

const fn kind_of_event(event: &Event) -> &'static str {
    match event {
        Event::Elected(_) => "elected",
        Event::StoodDown { .. } => "stood_down",
        Event::Refused { .. } => "refused",
        Event::Left => "left",
        Event::Contested { .. } => "contested",
        Event::PathChosen { .. } => "path_chosen",
        Event::PathDead { .. } => "path_dead",
        Event::Carries { .. } => "carries",
        Event::Dials { .. } => "dials",
        Event::Unanswered { .. } => "unanswered",
        Event::Public(_) => "public",
        Event::Ignored { .. } => "ignored",
    }
}
