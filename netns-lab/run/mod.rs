//! A scenario played in a lab: real daemons in the nodes, against real API servers, and pods that call each other.
//!
//! ```text
//!   runner ──Fault, Probe──> LabStage ──┬─ places, wires, cuts, NAT boxes: the desk's lab
//!      ^                                ├─ `tombolo` processes, one each as in a cluster ──notes──┐
//!      │                                ├─ API servers on threads in api:CLUSTER ──accepted───────┤
//!      │                                └─ askers on threads in the probe pods ──outcomes─────────┤
//!      └───────────────────────── facts, by the machine's monotonic clock <─── chronicle ─────────┘
//! ```
//! | page | tells |
//! |---|---|
//! | `canary` | whether the machine lets the lab work |
//! | `chronicle` | what time it is, and what has happened |
//! | `apis` | the API servers |
//! | `daemons` | the processes: how they are set up, started and killed |
//! | `probes` | pods that ask |
//! | `ground` | the verbs of a timeline |
//! | `taken` | memory and open files of all processes |
//!
//! Time is the machine's. What a cluster does by itself (it gives silent nodes up, kube-proxy follows) is
//! [`tombolo_scenarios::ground`]'s, as in the simulator.

mod apis;
mod canary;
mod chronicle;
mod daemons;
mod ground;
mod probes;
mod taken;

use crate::keeper::Desk;
use crate::relay::{Passed, Wire};
use crate::topology::{PlaceName, place as place_of};
use anyhow::{Context as _, Result};
use canary::Canary;
pub use canary::Stall;
use chronicle::Chronicle;
use core::time::Duration;
use daemons::{Post, PostId, Setup};
use probes::Probes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
pub use taken::{Look, growth};
use tombolo_core::base::{ClusterId, Rng};
use tombolo_core::model::{CableDriver, ServiceKey};
use tombolo_scenarios::ground::{self as verbs, Judgement, Lifecycles, Outsiders};
use tombolo_scenarios::layout::{HostId, Layout};
use tombolo_scenarios::{
    Ability, ApiRef, Broker, Fact, Fault, Options, Probe, ProbeId, Report, Scenario, Stage, StageError,
};

/// How often it is looked at what has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How a scenario is to be played.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Play {
    /// Pins chance, as far as it is the lab's.
    pub seed: u64,
    /// The program `tombolo`.
    pub program: PathBuf,
    /// A folder for what the daemons say and record.
    pub record: Option<PathBuf>,
}

/// Plays a scenario in the lab of a desk.
///
/// # Errors
/// Why it cannot begin.
pub(crate) fn play(scenario: &Scenario, desk: &Arc<Mutex<Desk>>, play: &Play) -> Result<Run> {
    // What a cable that does not encrypt carries is in the clear, and says so.
    let inner = scenario.clusters.keys().flat_map(|id| scenario.ranges_of(id)).flat_map(|(_, ranges)| ranges);
    let wire = (scenario.cable == CableDriver::Wireguard).then(|| Arc::new(Wire::new(inner.collect())));
    if let Some(wire) = &wire {
        desk.lock().unwrap_or_else(PoisonError::into_inner).lab().relays.iter().for_each(|relay| relay.watch(wire));
    }
    let mut stage = LabStage::new(scenario, Arc::clone(desk), play)?;
    let report = tombolo_scenarios::run(scenario, &mut stage, &Options { seed: play.seed });
    stage.look_at_processes();
    let LabStage { canary, looks, .. } = stage;
    Ok(Run { report, stall: canary.longest(), passed: wire.map(|wire| wire.passed()), looks })
}

/// What came of it.
pub(crate) struct Run {
    pub(crate) report: Report,
    pub(crate) stall: Stall,
    /// What passed between sites, unless the cables do not encrypt.
    pub(crate) passed: Option<Passed>,
    /// What the processes took in quiet times.
    pub(crate) looks: Vec<Look>,
}

/// What the lab itself is to do.
#[derive(Clone, Debug)]
enum Due {
    /// A daemon comes up, if the host still has the power it had then.
    Start(PostId, u64),
    /// A node's kube-proxy takes a look at its services.
    ProxySync(HostId),
    /// The cluster judges a node.
    Judge(Judgement),
    /// Pods that moved to another slice are back.
    Resliced(ClusterId, ServiceKey),
    /// The pods of a node come up, if it still has the power it had then.
    Pods(HostId, u64),
}

/// See the module docs.
pub(crate) struct LabStage {
    scenario: Scenario,
    desk: Arc<Mutex<Desk>>,
    layout: Arc<Layout>,
    setup: Setup,
    chronicle: Chronicle,
    /// Until when the lab was asked to run.
    reached: Duration,
    canary: Canary,
    /// When something was done last.
    stirred: Duration,
    looks: Vec<Look>,
    due: BTreeMap<(Duration, u64), Due>,
    sequence: u64,
    posts: Vec<Post>,
    apis: Vec<apis::Served>,
    probes: Probes,
    power_ups: BTreeMap<HostId, u64>,
    lifecycles: Lifecycles,
    outsiders: Outsiders,
    chance: Rng,
}

impl LabStage {
    pub(crate) fn new(scenario: &Scenario, desk: Arc<Mutex<Desk>>, play: &Play) -> Result<Self> {
        let layout = desk.lock().unwrap_or_else(PoisonError::into_inner).layout();
        let broker = match &scenario.broker {
            Broker::Member(cluster) => ApiRef::Cluster(cluster.clone()),
            Broker::Own => ApiRef::Broker,
        };
        let mut stage = Self {
            scenario: scenario.clone(),
            setup: Setup { program: play.program.clone(), record: play.record.clone(), cable: scenario.cable, broker },
            chronicle: Chronicle::default(),
            reached: Duration::ZERO,
            canary: Canary::start()?,
            stirred: Duration::ZERO,
            looks: Vec::new(),
            due: BTreeMap::new(),
            sequence: 0,
            posts: Vec::new(),
            apis: Vec::new(),
            probes: Probes::new(play.seed),
            power_ups: layout.nodes().map(|(host, _)| (host, 1)).collect(),
            lifecycles: Lifecycles::new(&layout),
            outsiders: Outsiders::of(scenario),
            chance: Rng::stream(play.seed, "lab"),
            desk,
            layout,
        };
        stage.build_apis(play.seed).context("API servers")?;
        for (host, _) in Arc::clone(&stage.layout).nodes() {
            stage.sync_proxy(host).context("services")?;
            stage.start_asker(host)?;
        }
        // Time begins when all is there.
        stage.canary = Canary::start()?;
        stage.chronicle.begin();
        stage.place_daemons()?;
        Ok(stage)
    }

    /// Looks at what all processes take, if it has been quiet.
    fn look_at_processes(&mut self) {
        let now = self.chronicle.now();
        if now.saturating_sub(self.stirred) >= taken::QUIET {
            self.looks.push(taken::look(now));
        }
        self.stirred = now;
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a host.
    fn place_name(&self, host: HostId) -> Result<PlaceName, StageError> {
        let found = self.layout.host(host).map(|host| place_of(&host.host));
        found.ok_or_else(|| StageError::Unknown(format!("host {}", host.0)))
    }

    /// Puts something at `delay` from now.
    fn later(&mut self, delay: Duration, due: Due) {
        self.sequence += 1;
        self.due.insert((self.chronicle.now() + delay, self.sequence), due);
    }

    fn happen(&mut self, due: Due) -> Result<(), StageError> {
        match due {
            Due::Start(post, power_up) => self.start_due(post, power_up),
            Due::ProxySync(host) => self.proxy_due(host),
            Due::Judge(judgement) => verbs::judge(self, judgement),
            Due::Resliced(cluster, key) => verbs::resliced(self, &cluster, &key),
            Due::Pods(host, power_up) => self.pods_due(host, power_up),
        }
    }
}

/// The lab broke.
fn broken(error: impl Into<anyhow::Error>) -> StageError {
    StageError::Broken(format!("{:#}", error.into()))
}

impl Stage for LabStage {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn lacks(&self, ability: Ability) -> Option<String> {
        match ability {
            Ability::Loss | Ability::Delay | Ability::Jitter | Ability::HeldFlows => None,
            Ability::Clocks => Some("all nodes have the machine's clock: play it in the simulator".into()),
            Ability::Deterministic => Some("the order of things is the machine's: play it in the simulator".into()),
            Ability::Hours => Some("an hour takes an hour here: play it in the simulator".into()),
        }
    }

    fn now(&self) -> Duration {
        self.chronicle.now()
    }

    fn advance(&mut self, until: Duration) -> Result<(), StageError> {
        self.reached = self.reached.max(until);
        loop {
            if let Some(because) = self.chronicle.broken() {
                return Err(StageError::Broken(because));
            }
            let now = self.chronicle.now();
            self.tell_overdue(now);
            self.start_leaving()?;
            if let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
                let due = entry.remove();
                self.happen(due)?;
                continue;
            }
            if now >= until {
                return Ok(());
            }
            let next = self.due.keys().next().map_or(until, |(at, _)| until.min(*at));
            std::thread::sleep(next.saturating_sub(now).min(LOOK));
        }
    }

    fn act(&mut self, fault: &Fault) -> Result<String, StageError> {
        self.look_at_processes();
        let began = Instant::now();
        let done = verbs::act(self, fault);
        self.canary.note(began, Duration::ZERO);
        done
    }

    fn probe(&mut self, id: ProbeId, probe: &Probe) -> Result<(), StageError> {
        let node = verbs::find_node(&self.layout, &probe.from.0, &probe.from.1)?;
        self.begin_probe(id, node, probe)
    }

    fn facts(&mut self) -> Vec<Fact> {
        self.chronicle.take()
    }
}
