//! Which ranges may not meet.

use crate::base::{Cidr, ClusterId};
use crate::model::{Purpose, Ranges};
use alloc::vec::Vec;
use core::fmt;

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
