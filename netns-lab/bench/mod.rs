//! What cables carry from pod to pod, beside others in the same place, at the same time: each has two clusters of its own in
//! one lab, whose sites are joined by plain wires, and all are measured in turns.
//!
//! | page | tells |
//! |---|---|
//! | `others` | how the others are set up |
//! | `streams` | one measurement |
//! | `figures` | what came of it |

mod figures;
mod others;
mod streams;

pub use figures::{Carried, Figures, Measured};

use crate::keeper::Desk;
use crate::pods::call::{Manner, Number, call};
use crate::run::{LabStage, Play};
use crate::topology::PlaceName;
use anyhow::{Context as _, Result, bail};
use core::fmt::Write as _;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use streams::End;
use tombolo_core::base::{ClusterId, NodeName};
use tombolo_scenarios::layout::Layout;
use tombolo_scenarios::{Scenario, Stage as _};

const GATEWAY: &str = "gw-a";
const WORKER: &str = "worker";
/// The port where a pod of a service answers.
const DOOR: u16 = 80;
/// Until then all have to carry something.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_millis(500);

/// From whose pods to whose.
const WAYS: [(&str, &str); 2] = [("gateway to gateway", GATEWAY), ("worker to worker", WORKER)];

/// What to measure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bench {
    /// The program `tombolo`.
    pub program: PathBuf,
    /// Others' userspace WireGuard: programs that take the name of a link and return when it is there, as wireguard-go.
    pub beside: Vec<PathBuf>,
    /// How often each is measured.
    pub rounds: usize,
    /// How long each number of streams runs.
    pub lasts: Duration,
}

/// Somebody who carries.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// Routes, and no cable.
    Nothing,
    /// The daemons.
    Tombolo,
    /// A program.
    Cable(PathBuf),
}

impl Kind {
    fn name(&self) -> String {
        match self {
            Self::Nothing => "no cable".into(),
            Self::Tombolo => "tombolo".into(),
            Self::Cable(program) => program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned(),
        }
    }
}

impl Bench {
    fn kinds(&self) -> impl Iterator<Item = Kind> {
        [Kind::Nothing, Kind::Tombolo].into_iter().chain(self.beside.iter().cloned().map(Kind::Cable))
    }

    /// The lab for it, as a scenario. Only the first two clusters have daemons; of the others, nobody lets them join.
    #[must_use]
    pub fn scenario(&self) -> String {
        let mut clusters = String::new();
        for (number, kind) in self.kinds().enumerate() {
            let apart = if kind == Kind::Tombolo { "" } else { ", apart: true" };
            for (side, second) in names(number).iter().zip([10 + 2 * number, 11 + 2 * number]) {
                let ranges = format!("pods: 10.{second}.0.0/16, services: 10.{}.0.0/16", second + 100);
                let _ = writeln!(clusters, "  {side}: {{ {ranges}, nodes: [{GATEWAY}*, {WORKER}]{apart} }}");
            }
        }
        format!(
            "scenario: bench\nabout: Two clusters for each of those that are measured.\nclusters:\n{clusters}broker: own\n\
             links: {{ default: {{ latency: 0ms }} }}\nexpect:\n  - {{ by: 1s, settled: true }}\n"
        )
    }
}

/// The clusters of the one with that number.
fn names(number: usize) -> [String; 2] {
    [format!("west-{number}"), format!("east-{number}")]
}

/// Measures in the lab of a desk.
///
/// # Errors
/// Why one of them carries nothing.
pub(crate) fn bench(scenario: &Scenario, desk: &Arc<Mutex<Desk>>, asked: &Bench) -> Result<Figures> {
    let play = Play { seed: 1, program: asked.program.clone(), record: None };
    let mut stage = LabStage::new(scenario, Arc::clone(desk), &play)?;
    let mut all = Vec::new();
    for (number, kind) in asked.kinds().enumerate() {
        let mut clusters = Vec::new();
        for name in names(number) {
            clusters.push(ClusterId::new(&name)?);
        }
        let clusters: [ClusterId; 2] = clusters.try_into().ok().context("two clusters")?;
        if kind != Kind::Tombolo {
            let desk = desk.lock().unwrap_or_else(PoisonError::into_inner);
            others::join(&desk, &clusters, &kind).with_context(|| kind.name())?;
        }
        all.push((kind, clusters));
    }
    let began = Instant::now();
    for (kind, clusters) in &all {
        while let Err(error) = reach(desk, clusters) {
            if began.elapsed() > PATIENCE {
                return Err(error.context(format!("{} carries nothing", kind.name())));
            }
            let until = stage.now() + ATTEMPT;
            stage.advance(until)?;
        }
    }
    let mut figures = Figures::default();
    for round in 0..=asked.rounds {
        for (kind, clusters) in &all {
            for (way, node) in WAYS {
                let carried = measure(desk, clusters, node, asked.lasts);
                let carried = carried.with_context(|| format!("{}, {way}", kind.name()))?;
                // The first warms up.
                if round > 0 {
                    figures.add(&kind.name(), way, carried);
                }
            }
        }
        // What the daemons say is taken, and that one of them has ended.
        let now = stage.now();
        stage.advance(now)?;
    }
    Ok(figures)
}

/// The probe pod of a node.
fn pod(layout: &Layout, cluster: &ClusterId, node: &str) -> Result<(PlaceName, IpAddr)> {
    let node = NodeName::new(node)?;
    let found = layout.find_node(cluster, &node).and_then(|host| layout.host(host)).and_then(|host| host.node.as_ref());
    let address = found.with_context(|| format!("there is no {cluster}/{node}"))?.probe_pod;
    Ok((PlaceName::Pod(cluster.clone(), node, "probe".into()), address))
}

/// Whether a worker's pod reaches one of the other's: that nobody listens there is an answer, too.
fn reach(desk: &Arc<Mutex<Desk>>, clusters: &[ClusterId; 2]) -> Result<()> {
    let desk = desk.lock().unwrap_or_else(PoisonError::into_inner);
    let layout = desk.layout();
    let ([(from, _), (_, to)], door) =
        ([pod(&layout, &clusters[0], WORKER)?, pod(&layout, &clusters[1], WORKER)?], DOOR);
    let number = Number { manner: Manner::Tcp, to: SocketAddr::new(to, door) };
    match desk.lab().place(&from)?.run(move || call(number, ATTEMPT, None))? {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionRefused => Err(error.into()),
        Ok(answer) => bail!("{} answered where nobody listens", answer.name),
        Err(_) => Ok(()),
    }
}

fn measure(desk: &Arc<Mutex<Desk>>, clusters: &[ClusterId; 2], node: &str, lasts: Duration) -> Result<Carried> {
    let desk = desk.lock().unwrap_or_else(PoisonError::into_inner);
    let layout = desk.layout();
    let [(near, a), (far, b)] = [pod(&layout, &clusters[0], node)?, pod(&layout, &clusters[1], node)?];
    let end = |name, address| Ok::<_, anyhow::Error>(End { place: desk.lab().place(name)?, address });
    streams::carried([end(&near, a)?, end(&far, b)?], lasts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_of_a_bench_is_a_scenario_in_which_only_tombolo_s_clusters_join() {
        let asked = Bench {
            program: "tombolo".into(),
            beside: vec!["wireguard-go".into(), "/opt/wireguard-go".into()],
            rounds: 1,
            lasts: Duration::from_secs(1),
        };
        let scenario = tombolo_scenarios::parse("bench.yaml", &asked.scenario()).unwrap();
        let apart: Vec<bool> = scenario.clusters.values().map(|cluster| cluster.apart).collect();
        assert_eq!(apart.len(), 8);
        let joined = scenario.clusters.iter().filter(|(_, cluster)| !cluster.apart).map(|(id, _)| id.as_str());
        assert_eq!(joined.collect::<Vec<_>>(), ["east-1", "west-1"]);
        assert!(Layout::of(&scenario).is_ok());
    }
}
