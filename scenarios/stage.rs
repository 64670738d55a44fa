//! What a world must offer to play a scenario.

use crate::{ApiRef, Daemons, Fact, ProbeId, Rate, Rebuilt, Skew, Target};
use core::fmt;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use tombolo_core::base::{ClusterId, NodeName};
use tombolo_core::model::ServiceKey;

/// Something that not every world can do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ability {
    /// Losing packets by chance.
    Loss,
    /// Delaying packets.
    Delay,
    /// Delaying them by chance.
    Jitter,
    /// Flows that outlive a probe.
    HeldFlows,
    /// Clocks of a node that are wrong.
    Clocks,
    /// Stopping time between steps: results are bit-exact.
    Deterministic,
    /// Playing an hour within a few seconds.
    Hours,
}

/// A host of the world.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Host {
    /// A node of a cluster.
    Node(ClusterId, NodeName),
    /// The host of an API server.
    Api(ApiRef),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(cluster, node) => write!(f, "{cluster}/{node}"),
            Self::Api(api) => write!(f, "api of {api}"),
        }
    }
}

/// A fault or an act with every name resolved, ready to be carried out.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// The node and everything on it is gone at once.
    PowerOff(ClusterId, NodeName),
    /// It boots.
    PowerOn(ClusterId, NodeName),
    /// Daemon processes are killed.
    Crash(ClusterId, NodeName, Daemons),
    /// Daemon processes are started; a running one is left alone.
    Start(ClusterId, NodeName, Daemons),
    /// No packet passes from a host of the first list to one of the second (nor back, unless `one_way`).
    Cut {
        /// Senders.
        from: Vec<Host>,
        /// Receivers.
        to: Vec<Host>,
        /// Only from `from` to `to`.
        one_way: bool,
    },
    /// Ends cuts between these, both ways.
    Heal {
        /// One side.
        from: Vec<Host>,
        /// The other.
        to: Vec<Host>,
    },
    /// An API behaves like this from now on.
    Api(ApiRef, ApiFault),
    /// A ServiceExport is created.
    Export(ClusterId, ServiceKey),
    /// A ServiceExport is deleted.
    Unexport(ClusterId, ServiceKey),
    /// The node's wall clock is off by this from now on.
    ClockSkew(ClusterId, NodeName, Skew),
    /// All its clocks run at another rate from now on.
    ClockRate(ClusterId, NodeName, Rate),
    /// The NAT box of the cluster forgets its mappings.
    NatRemap(ClusterId),
    /// The NAT box of the cluster gets another outside address.
    ChangeAddress(ClusterId),
    /// The daemons of a cluster that stood apart start.
    Join(ClusterId),
    /// The daemons of a cluster are told that it leaves, and end when they have told that nothing of theirs is left.
    Leave(ClusterId),
    /// A cluster where no daemon of ours is at work is built anew, with other ranges.
    Rebuild(Rebuilt),
    /// No pod of the service is ready any more.
    Unready(ClusterId, ServiceKey),
    /// They are ready again, as far as their nodes are.
    Ready(ClusterId, ServiceKey),
    /// Half of its pods are in a second EndpointSlice for some seconds, and are called not ready in the first.
    Reslice(ClusterId, ServiceKey),
}

/// How an API server behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApiFault {
    /// As it should. Ends all of the below.
    Healthy,
    /// Each answer comes this much later.
    Slow(Duration),
    /// Each deletion is carried out this much later.
    SlowDeletes(Duration),
    /// Each request gets a 500.
    Erroring,
    /// The server is down; nobody answers. What it stores stays.
    Down,
    /// It restarts with nothing stored but what the cluster has without us.
    RestartedEmpty,
    /// Nothing changes, but what it stores is kept as a backup.
    BackedUp,
    /// It restarts with what it stored when it was backed up last, and with what the cluster has without us as it is now.
    Restored,
    /// All history is compacted: each open watch, and each one that resumes, ends with 410.
    HistoryExpired,
}

/// One attempt to reach something from a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// From a pod on this node.
    pub from: (ClusterId, NodeName),
    /// To.
    pub to: ProbeTarget,
    /// It has failed if it takes longer.
    pub timeout: Duration,
    /// Belongs to one long flow: the first opens it, the others use it.
    pub held: bool,
}

/// What a probe does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProbeTarget {
    /// Resolve (if it is a name), open a flow, send a request, get the answer.
    Fetch(Target),
    /// Ask for the A records of this name.
    Resolve(String),
}

/// Why a stage could not do what was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StageError {
    /// The thing is not there.
    #[error("there is no {0}")]
    Unknown(String),
    /// This world cannot do it.
    #[error("this world cannot do it: {0}")]
    Lacking(String),
    /// The world broke.
    #[error("the world broke: {0}")]
    Broken(String),
}

/// A world that plays scenarios.
pub trait Stage {
    /// For tables: `core speed`, `full speed`, `lab`.
    fn name(&self) -> &'static str;
    /// Why it lacks an ability, if it does.
    fn lacks(&self, ability: Ability) -> Option<String>;
    /// Time since the start of the scenario.
    fn now(&self) -> Duration;
    /// Lets the world run until then.
    ///
    /// # Errors
    /// [`StageError::Broken`].
    fn advance(&mut self, until: Duration) -> Result<(), StageError>;
    /// Carries out a fault now, and says in a few words what was done. The runner tells it as [`crate::What::Act`], the
    /// stage does not tell it again; what follows from it (power, processes, writes) comes as the stage's own facts.
    ///
    /// # Errors
    /// See [`StageError`].
    fn act(&mut self, fault: &Fault) -> Result<String, StageError>;
    /// Begins one probe now. Its outcome comes as a fact with `id`.
    ///
    /// # Errors
    /// See [`StageError`].
    fn probe(&mut self, id: ProbeId, probe: &Probe) -> Result<(), StageError>;
    /// What happened since the last call, in order of time. In a world with time of its own, what happened a moment ago may
    /// come with the next.
    fn facts(&mut self) -> Vec<Fact>;
}
