//! What the protocol decides for one node: where its packets for each cluster go (rules F1 to F4).

use super::carried::CarriedBySlot;
use super::slots::SlotSet;
use crate::base::Slot;
use crate::model::Reach;
use serde::{Deserialize, Serialize};

/// The path to one cluster, as this node should use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Way {
    /// The last choice known, alive or not; of a register that was dead when first heard, its best claim. None: there
    /// has been none yet.
    pub choice: Option<Choice>,
    /// Where what this node sends itself goes (F1). A dead choice stays in the routes.
    pub out: Exit,
    /// Candidates: rank of the remote candidate into whose cable goes what comes from the overlay (F2), also when none
    /// over there is heard. None, on workers and where no remote candidate is known: drop.
    pub from_overlay: Option<Slot>,
    /// Whether the cluster is reached (F4).
    pub reach: Reach,
    /// Candidates: those over there whose cables are known to carry in both directions, as far as rule F2 asks.
    pub carries: SlotSet,
    /// Candidates: how long the packets are that those cables carry.
    pub carried: CarriedBySlot,
}

impl Way {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        choice: None,
        out: Exit::Nowhere,
        from_overlay: None,
        reach: Reach::Unknown,
        carries: SlotSet::EMPTY,
        carried: CarriedBySlot::UNKNOWN,
    };
}

/// A chosen pair of candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Choice {
    /// Version of the register.
    pub version: u32,
    /// Candidate of the own cluster.
    pub local: Slot,
    /// Candidate of the other cluster.
    pub remote: Slot,
    /// Whether the choice holds and one of its ends still lives.
    pub alive: bool,
}

/// Where a node sends packets for a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Exit {
    /// Over the overlay to this candidate of the own cluster.
    Overlay(Slot),
    /// Into the cable to this candidate of the other cluster.
    Cable(Slot),
    /// No path has ever been known.
    Nowhere,
}
