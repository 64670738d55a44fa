//! Which ranges may not meet.

use crate::base::{Cidr, ClusterId};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

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

/// A range of one cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Side {
    /// The cluster.
    pub cluster: ClusterId,
    /// What it is for.
    pub purpose: Purpose,
    /// The range.
    pub range: Cidr,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {} of {}", self.range, self.purpose, self.cluster)
    }
}

/// Two ranges that meet and may not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Conflict {
    /// The one.
    pub ours: Side,
    /// The other.
    pub theirs: Side,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} meets {}", self.ours, self.theirs)
    }
}

/// What of two clusters may not meet and does: what one announces, and anything that the other uses. A packet for the one
/// would not leave the other. What both only use inside (pods behind global addresses, nodes, overlays) may be equal.
/// Symmetric, but for the order of the sides.
#[must_use]
pub fn conflicts(ours: (&ClusterId, &Ranges), theirs: (&ClusterId, &Ranges)) -> Vec<Conflict> {
    let announced = |ranges: &Ranges| ranges.announced().collect::<Vec<_>>();
    let (our_announced, their_announced) = (announced(ours.1), announced(theirs.1));
    let mut found = Vec::new();
    for our in ours.1.all() {
        for their in theirs.1.all() {
            let matters = our_announced.contains(&our) || their_announced.contains(&their);
            if matters && our.1.overlaps(&their.1) {
                found.push(Conflict { ours: side(ours.0, our), theirs: side(theirs.0, their) });
            }
        }
    }
    found
}

/// What of one cluster may not meet and does: any two ranges for different things. But its nodes may have addresses of its
/// pods' range, as where pods have addresses of the cloud's own network.
#[must_use]
pub fn own_conflicts(cluster: &ClusterId, ranges: &Ranges) -> Vec<Conflict> {
    let all: Vec<_> = ranges.all().collect();
    let mut found = Vec::new();
    for (i, our) in all.iter().enumerate() {
        for their in all.iter().skip(i + 1) {
            let shared = matches!((our.0, their.0), (Purpose::Pods, Purpose::Node) | (Purpose::Node, Purpose::Pods));
            if our.0 != their.0 && !shared && our.1.overlaps(&their.1) {
                found.push(Conflict { ours: side(cluster, *our), theirs: side(cluster, *their) });
            }
        }
    }
    found
}

fn side(cluster: &ClusterId, (purpose, range): (Purpose, Cidr)) -> Side {
    Side { cluster: cluster.clone(), purpose, range }
}
