//! Which machine a daemon's process is.

use super::process::Driven;
use crate::world::{HostId, Layout, NodeLayout};
use tombolo_core::base::Instant;
use tombolo_core::model::CableDriver;
use tombolo_scenarios::{ApiRef, Broker, Daemon, Scenario};

/// What all daemons of a scenario are set up with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How cables carry packets.
    pub cable: CableDriver,
    /// Which API is the broker's.
    pub broker: ApiRef,
}

impl Settings {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let broker = match &scenario.broker {
            Broker::Member(cluster) => ApiRef::Cluster(cluster.clone()),
            Broker::Own => ApiRef::Broker,
        };
        Self { cable: scenario.cable, broker }
    }
}

/// A process that starts: all that its configuration follows from.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Who is where.
    pub layout: &'a Layout,
    /// The scenario's settings.
    pub settings: &'a Settings,
    /// Its host.
    pub host: HostId,
    /// Its node.
    pub node: &'a NodeLayout,
    /// Which daemon it is.
    pub daemon: Daemon,
    /// How often it was started, this time too.
    pub boot: u64,
    /// A seed of its own, for this run.
    pub seed: u64,
    /// What its host's clock reads.
    pub now: Instant,
}

/// Makes the machine of a process.
pub type Spawn = fn(&Start<'_>) -> Box<dyn Driven>;
