//! Who does what at this moment, learned from facts alone: the active gateway of each cluster, the path between each
//! two, and what was switched off or crashed last. This is what `west/active-gateway` is looked up in.

use crate::{Daemon, Fact, NodeRef, Place, What, Which};
use std::collections::{BTreeMap, BTreeSet};
use tombolo_core::base::{ClusterId, Epoch, NodeName, Slot};
use tombolo_core::model::Object;
use tombolo_core::roles::Event;

/// Why a node could not be looked up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LookupError {
    /// Nobody was elected, or whoever was has stood down or died.
    #[error("{0} has no active gateway at this moment")]
    NoActiveGateway(ClusterId),
    /// No daemon told a path.
    #[error("no daemon of {from} has told a path to {to}")]
    NoPath {
        /// Cluster of the node.
        from: ClusterId,
        /// The other one.
        to: ClusterId,
    },
    /// The slot of a path belongs to no announced candidate.
    #[error("slot {slot} of {cluster} belongs to no announced candidate")]
    UnknownSlot {
        /// Cluster of the slot.
        cluster: ClusterId,
        /// The slot.
        slot: Slot,
    },
    /// Nothing of the cluster was switched off so far.
    #[error("no node of {0} was powered off so far")]
    NonePoweredOff(ClusterId),
    /// Nothing of the cluster was crashed so far.
    #[error("no daemon of {0} was crashed so far")]
    NoneCrashed(ClusterId),
}

/// A path as one daemon told it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Telling {
    version: u32,
    /// Grows with each telling: of equal versions the latest counts.
    order: u64,
    pair: (Slot, Slot),
    /// It has not told since that this version is dead.
    lives: bool,
}

/// See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Whereabouts {
    leaders: BTreeMap<ClusterId, (Epoch, NodeName)>,
    slots: BTreeMap<ClusterId, (Epoch, BTreeMap<Slot, NodeName>)>,
    /// By (own cluster, other cluster), then by who told it. A daemon that dies takes its telling along.
    paths: BTreeMap<(ClusterId, ClusterId), BTreeMap<(NodeName, Daemon), Telling>>,
    tellings: u64,
    off: BTreeSet<(ClusterId, NodeName)>,
    last_off: BTreeMap<ClusterId, NodeName>,
    last_crashed: BTreeMap<ClusterId, NodeName>,
}

impl Whereabouts {
    /// Takes note of a fact.
    pub fn watch(&mut self, fact: &Fact) {
        match (&fact.what, &fact.place) {
            (What::Told(event), Place::Daemon(cluster, node, daemon)) => self.told(cluster, node, *daemon, event),
            (What::Process(false), Place::Daemon(cluster, node, daemon)) => self.died(cluster, node, *daemon),
            (What::Power(on), Place::Node(cluster, node)) => self.power(cluster, node, *on),
            (What::Wrote { object: Object::Candidates(candidates), .. }, _) => {
                let known = self.slots.entry(candidates.cluster.clone()).or_default();
                if candidates.epoch >= known.0 {
                    let slots = candidates.by_slot.iter().map(|(slot, c)| (*slot, c.node.clone()));
                    *known = (candidates.epoch, slots.collect());
                }
            }
            _ => {}
        }
    }

    /// The runner has killed a daemon there. (A fact alone does not tell a crash from a power loss.)
    pub fn crashed(&mut self, cluster: &ClusterId, node: &NodeName) {
        self.last_crashed.insert(cluster.clone(), node.clone());
    }

    /// The active gateway of a cluster.
    #[must_use]
    pub fn leader(&self, cluster: &ClusterId) -> Option<&NodeName> {
        self.leaders.get(cluster).map(|(_, node)| node)
    }

    /// The path from one cluster to another: the highest version that a daemon of `from` that still runs has told.
    #[must_use]
    pub fn path(&self, from: &ClusterId, to: &ClusterId) -> Option<(u32, (Slot, Slot))> {
        let telling = self.paths.get(&(from.clone(), to.clone()))?.values().max()?;
        Some((telling.version, telling.pair))
    }

    /// Whether the path from one cluster to another was told dead, by any daemon of `from` that still runs and has not
    /// told otherwise since.
    #[must_use]
    pub fn path_is_dead(&self, from: &ClusterId, to: &ClusterId) -> bool {
        let Some((version, _)) = self.path(from, to) else { return false };
        let told = self.paths.get(&(from.clone(), to.clone()));
        told.is_some_and(|told| told.values().any(|telling| telling.version == version && !telling.lives))
    }

    /// The node that has this slot.
    #[must_use]
    pub fn node_of_slot(&self, cluster: &ClusterId, slot: Slot) -> Option<&NodeName> {
        self.slots.get(cluster)?.1.get(&slot)
    }

    /// The candidates of a cluster as last announced.
    pub fn slots(&self, cluster: &ClusterId) -> impl Iterator<Item = (Slot, &NodeName)> {
        self.slots.get(cluster).into_iter().flat_map(|(_, by_slot)| by_slot).map(|(slot, node)| (*slot, node))
    }

    /// Whether a node is powered off.
    #[must_use]
    pub fn is_off(&self, cluster: &ClusterId, node: &NodeName) -> bool {
        self.off.contains(&(cluster.clone(), node.clone()))
    }

    /// The node that is meant at this moment.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub fn look_up(&self, reference: &NodeRef) -> Result<NodeName, LookupError> {
        let cluster = &reference.cluster;
        match &reference.which {
            Which::Named(node) => Ok(node.clone()),
            Which::ActiveGateway => {
                self.leader(cluster).cloned().ok_or_else(|| LookupError::NoActiveGateway(cluster.clone()))
            }
            Which::GatewayTo(to) => {
                let (_, (local, _)) = self
                    .path(cluster, to)
                    .ok_or_else(|| LookupError::NoPath { from: cluster.clone(), to: to.clone() })?;
                self.node_of_slot(cluster, local)
                    .cloned()
                    .ok_or_else(|| LookupError::UnknownSlot { cluster: cluster.clone(), slot: local })
            }
            Which::LastPoweredOff => {
                self.last_off.get(cluster).cloned().ok_or_else(|| LookupError::NonePoweredOff(cluster.clone()))
            }
            Which::LastCrashed => {
                self.last_crashed.get(cluster).cloned().ok_or_else(|| LookupError::NoneCrashed(cluster.clone()))
            }
        }
    }

    fn told(&mut self, cluster: &ClusterId, node: &NodeName, daemon: Daemon, event: &Event) {
        match event {
            Event::Elected(epoch) => {
                let known = self.leaders.get(cluster).map_or(Epoch::default(), |(epoch, _)| *epoch);
                if *epoch >= known {
                    self.leaders.insert(cluster.clone(), (*epoch, node.clone()));
                }
            }
            Event::StoodDown { .. } => self.no_longer_leads(cluster, node),
            Event::PathChosen { cluster: to, version, pair } => {
                self.tellings += 1;
                let telling = Telling { version: *version, order: self.tellings, pair: *pair, lives: true };
                let told = self.paths.entry((cluster.clone(), to.clone())).or_default();
                told.insert((node.clone(), daemon), telling);
            }
            Event::PathDead { cluster: to, version } => {
                let told = self.paths.get_mut(&(cluster.clone(), to.clone()));
                let telling = told.and_then(|told| told.get_mut(&(node.clone(), daemon)));
                if let Some(telling) = telling.filter(|telling| telling.version == *version) {
                    telling.lives = false;
                }
            }
            Event::Carries { .. }
            | Event::Dials { .. }
            | Event::Unanswered { .. }
            | Event::Public(_)
            | Event::Refused { .. }
            | Event::Left
            | Event::Contested { .. }
            | Event::Ignored { .. } => {}
        }
    }

    fn power(&mut self, cluster: &ClusterId, node: &NodeName, on: bool) {
        if on {
            self.off.remove(&(cluster.clone(), node.clone()));
            return;
        }
        self.off.insert((cluster.clone(), node.clone()));
        self.last_off.insert(cluster.clone(), node.clone());
        for daemon in Daemon::ALL {
            self.died(cluster, node, daemon);
        }
    }

    fn died(&mut self, cluster: &ClusterId, node: &NodeName, daemon: Daemon) {
        if daemon == Daemon::Gateway {
            self.no_longer_leads(cluster, node);
        }
        for ((from, _), told) in &mut self.paths {
            // The last one that knows stays: a killed daemon leaves its routes in place.
            if from == cluster && told.len() > 1 {
                told.remove(&(node.clone(), daemon));
            }
        }
    }

    fn no_longer_leads(&mut self, cluster: &ClusterId, node: &NodeName) {
        if self.leader(cluster) == Some(node) {
            self.leaders.remove(cluster);
        }
    }
}
