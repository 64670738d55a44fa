//! What the machine is told, and what it wants.

use super::slots::SlotSet;
use super::way::Way;
use crate::base::{ClusterId, Epoch, Instant, NodeName, Slot};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// What this node is in its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Me {
    /// A gateway candidate with this slot.
    Candidate(Slot),
    /// Any other node.
    Worker,
}

/// What a machine is told once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The own cluster.
    pub cluster: ClusterId,
    /// The own node.
    pub node: NodeName,
    /// What it is.
    pub me: Me,
    /// Source of jitter.
    pub seed: u64,
    /// The own start.
    pub boot: Instant,
}

/// Somebody to exchange hellos with.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Neighbour {
    /// A candidate of another cluster, in the cable. To a worker it only says that there is that cluster.
    Remote {
        /// Its cluster.
        cluster: ClusterId,
        /// Its slot there.
        slot: Slot,
    },
    /// A candidate of the own cluster, over the overlay.
    Own {
        /// Its slot.
        slot: Slot,
    },
    /// Another node of the own cluster, over the overlay. No neighbour to a worker.
    Worker {
        /// Its name.
        node: NodeName,
    },
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote { cluster, slot } => write!(f, "candidate {slot} of {cluster}"),
            Self::Own { slot } => write!(f, "own candidate {slot}"),
            Self::Worker { node } => write!(f, "worker {node}"),
        }
    }
}

/// What can happen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// All neighbours there are. Sessions with others end.
    Neighbours(BTreeSet<Neighbour>),
    /// A datagram arrived.
    Hello {
        /// Who sent it: the other end of the cable or overlay address it came from.
        from: Neighbour,
        /// Payload.
        bytes: Vec<u8>,
    },
    /// What is known of the own cluster's lease.
    Lease {
        /// Highest epoch seen on lease or broker.
        epoch: Epoch,
        /// Slot of who holds it.
        holder: Option<Slot>,
    },
    /// Whether this candidate wants to be replaced.
    Drain(bool),
}

/// What is wanted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// Send a datagram.
    Send {
        /// To whom.
        to: Neighbour,
        /// Payload.
        bytes: Vec<u8>,
    },
    /// All ways, whenever one changed.
    Ways(Arc<BTreeMap<ClusterId, Way>>),
    /// Candidates of the own cluster that this candidate heard and hears no more, whenever that changed.
    Silent(SlotSet),
    /// Somebody knows this higher epoch of the own cluster's lease.
    Epoch(Epoch),
    /// A datagram was no use.
    Ignored(String),
}
