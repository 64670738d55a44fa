//! Clusters where no daemon of ours is to be at work.

use crate::Scenario;
use crate::layout::{HostId, Layout};
use std::collections::BTreeSet;
use tombolo_core::base::ClusterId;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outsiders {
    /// They have not joined: daemons do not even start.
    apart: BTreeSet<ClusterId>,
    /// They leave: a daemon that starts is told so, and ends when nothing of its own is left.
    leaving: BTreeSet<ClusterId>,
}

impl Outsiders {
    /// As a scenario begins.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let apart = scenario.clusters.iter().filter(|(_, cluster)| cluster.apart).map(|(id, _)| id.clone());
        Self { apart: apart.collect(), leaving: BTreeSet::new() }
    }

    /// It is a member from now on. False if it was one.
    pub(super) fn join(&mut self, cluster: &ClusterId) -> bool {
        self.apart.remove(cluster) | self.leaving.remove(cluster)
    }

    /// It leaves. False if it was no member.
    pub(super) fn leave(&mut self, cluster: &ClusterId) -> bool {
        !self.apart.contains(cluster) && self.leaving.insert(cluster.clone())
    }

    /// It is built anew, with nothing of ours. False if it is a member.
    pub(super) fn rebuild(&mut self, cluster: &ClusterId) -> bool {
        let outside = self.leaving.remove(cluster) || self.apart.contains(cluster);
        if outside {
            self.apart.insert(cluster.clone());
        }
        outside
    }

    /// Whether a host is a node of a cluster where no daemon starts.
    #[must_use]
    pub fn stands_apart(&self, layout: &Layout, host: HostId) -> bool {
        let node = layout.host(host).and_then(|host| host.node.as_ref());
        node.is_some_and(|node| self.apart.contains(&node.cluster))
    }

    /// Whether a cluster leaves.
    #[must_use]
    pub fn leaves(&self, cluster: &ClusterId) -> bool {
        self.leaving.contains(cluster)
    }
}
