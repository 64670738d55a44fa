//! What the members of a clusterset have claimed for themselves.

use crate::base::{Cidr, ClusterId, Epoch};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// What one member has claimed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// Which cluster it is, whatever its id says: the UID of its namespace `kube-system`.
    pub identity: String,
    /// What it uses.
    pub ranges: Ranges,
    /// In which epoch of its gateways it was made: what is of before a cluster left is void.
    pub epoch: Epoch,
}

/// What all members have claimed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Claims {
    /// By cluster.
    pub members: BTreeMap<ClusterId, Claim>,
    /// The highest epoch that a cluster knew of when it left: what it announced up to there is gone, and what it announces
    /// when it joins again is of a higher one.
    pub left: BTreeMap<ClusterId, Epoch>,
}

impl Claims {
    /// Whether the cluster has left, and this is of before.
    #[must_use]
    pub fn is_of_before_it_left(&self, cluster: &ClusterId, epoch: Epoch) -> bool {
        self.left.get(cluster).is_some_and(|last| epoch <= *last)
    }

    /// Those who have a claim, though they left after they had made it: it comes out of a backup, and is void.
    #[must_use]
    pub fn void(&self) -> Vec<ClusterId> {
        let is_void = |(id, claim): &(&ClusterId, &Claim)| self.is_of_before_it_left(id, claim.epoch);
        self.members.iter().filter(is_void).map(|(id, _)| id.clone()).collect()
    }

    /// Whether another cluster has joined under this id than the one of that identity.
    #[must_use]
    pub fn give_to_another(&self, id: &ClusterId, identity: &str) -> bool {
        self.members.get(id).is_some_and(|claim| claim.identity != identity)
    }

    /// Adds notes of clusters that left: of two of one cluster the later one stands.
    pub fn note_left(&mut self, notes: &BTreeMap<ClusterId, Epoch>) {
        for (cluster, epoch) in notes {
            let last = self.left.entry(cluster.clone()).or_default();
            *last = (*epoch).max(*last);
        }
    }
}

/// What a range is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// Pods of the cluster.
    Pods,
    /// Its services.
    Services,
    /// The addresses that stand for its pods and services in the clusterset (GlobalNet).
    Global,
    /// The links between its nodes and gateways.
    Overlay,
    /// A node's own address.
    Node,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pods => "pods",
            Self::Services => "services",
            Self::Global => "global addresses",
            Self::Overlay => "the overlay",
            Self::Node => "a node",
        })
    }
}

/// All addresses that a cluster uses.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ranges {
    /// For pods.
    pub pods: Vec<Cidr>,
    /// For services.
    pub services: Vec<Cidr>,
    /// For global addresses. A cluster that has some announces them, and nothing else.
    pub global: Vec<Cidr>,
    /// For the overlay.
    pub overlay: Vec<Cidr>,
    /// Addresses of its nodes.
    pub nodes: Vec<IpAddr>,
}

impl Ranges {
    /// Everything, with what it is for.
    pub fn all(&self) -> impl Iterator<Item = (Purpose, Cidr)> {
        let of = |purpose, ranges: &[Cidr]| ranges.iter().map(move |range| (purpose, *range)).collect::<Vec<_>>();
        of(Purpose::Pods, &self.pods)
            .into_iter()
            .chain(of(Purpose::Services, &self.services))
            .chain(of(Purpose::Global, &self.global))
            .chain(of(Purpose::Overlay, &self.overlay))
            .chain(self.nodes.iter().map(|node| (Purpose::Node, Cidr::host(*node))))
    }

    /// What other clusters route to it.
    pub fn announced(&self) -> impl Iterator<Item = (Purpose, Cidr)> {
        let global = !self.global.is_empty();
        self.all().filter(move |(purpose, _)| match purpose {
            Purpose::Pods | Purpose::Services => !global,
            Purpose::Global => true,
            Purpose::Overlay | Purpose::Node => false,
        })
    }
}
