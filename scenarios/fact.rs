//! What happened, in one vocabulary for all worlds. Verdicts, invariants, traces and reports read only this.

use core::fmt;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use tombolo_core::base::{ClusterId, NodeName};
use tombolo_core::model::{Key, Object};
use tombolo_core::roles::{Event, Note};

/// An API server: a cluster's, or the broker's where it has one of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ApiRef {
    /// A cluster's API.
    Cluster(ClusterId),
    /// The broker's API. Where a member is the broker, the parser gives that member's instead.
    Broker,
}

impl fmt::Display for ApiRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(cluster) => cluster.fmt(f),
            Self::Broker => f.pad("broker"),
        }
    }
}

/// A daemon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Daemon {
    /// On each gateway node: election, announcing, paths, the node's network.
    Gateway,
    /// On each other node: the node's network.
    RouteAgent,
    /// One a cluster: exports and imports.
    Discovery,
    /// One a cluster: the clusterset zone.
    Dns,
}

impl Daemon {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gateway, Self::RouteAgent, Self::Discovery, Self::Dns];

    /// Its name as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::RouteAgent => "route-agent",
            Self::Discovery => "discovery",
            Self::Dns => "dns",
        }
    }
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where something happened.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Place {
    /// The scenario's own doing.
    World,
    /// An API server.
    Api(ApiRef),
    /// A node.
    Node(ClusterId, NodeName),
    /// A daemon on a node.
    Daemon(ClusterId, NodeName, Daemon),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World => f.pad("world"),
            Self::Api(api) => f.pad(&format!("{api} api")),
            Self::Node(cluster, node) => f.pad(&format!("{cluster}/{node}")),
            Self::Daemon(cluster, node, daemon) => f.pad(&format!("{cluster}/{node} {daemon}")),
        }
    }
}

/// Number of a probe, given by the runner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ProbeId(pub u64);

/// What came of a probe.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// An answer came back.
    Fetched {
        /// The address that was used.
        address: IpAddr,
        /// The node of the pod that answered, as it says itself.
        server: String,
    },
    /// The DNS answered.
    Resolved {
        /// Response code, as `NOERROR`.
        rcode: String,
        /// Addresses, sorted.
        addresses: Vec<IpAddr>,
    },
    /// It failed.
    Failed {
        /// How far it came and why it ended there.
        because: String,
    },
}

/// How an object changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// It is new.
    Created,
    /// It has another content.
    Replaced,
    /// It is gone.
    Deleted,
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum What {
    /// A line of the timeline was carried out.
    Act(String),
    /// The node is up, or not.
    Power(bool),
    /// The daemon runs, or not.
    Process(bool),
    /// A daemon told something.
    Told(Event),
    /// An API accepted a write (place: the API).
    Wrote {
        /// Who wrote.
        by: Place,
        /// How.
        change: Change,
        /// What.
        key: Key,
        /// As it is now; as it was last, if deleted.
        object: Object,
    },
    /// A plan was applied to a node's kernel (place: the node). Empty plans are not told.
    Applied {
        /// One line a step.
        steps: Vec<String>,
        /// How many items of ours (links, routes, rules, …) the kernel has now.
        items: usize,
    },
    /// The DNS server has a new table.
    Table {
        /// Names it can answer.
        names: usize,
        /// Whether all views have synced.
        synced: bool,
    },
    /// A probe ended.
    Probed {
        /// Which.
        id: ProbeId,
        /// When it began, since the start.
        began: Duration,
        /// What came of it.
        outcome: Outcome,
    },
}

impl From<Note> for What {
    fn from(note: Note) -> Self {
        match note {
            Note::Told(event) => Self::Told(event),
            Note::Applied { steps, items } => Self::Applied { steps, items },
            Note::Table { names, synced } => Self::Table { names, synced },
        }
    }
}

/// One thing that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fact {
    /// When, since the start of the scenario.
    pub at: Duration,
    /// Where.
    pub place: Place,
    /// What.
    pub what: What,
}
