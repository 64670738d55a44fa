//! `apart: true` and `join`: who is a member when.

use super::names::Names;
use super::report::Report;
use super::tree::Node;
use super::wrong::Wrong;
use core::fmt;
use std::collections::BTreeSet;
use tombolo_core::base::ClusterId;

/// What goes wrong with membership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MembershipWrong {
    /// It joins, and is a member already.
    Member(ClusterId),
}

impl fmt::Display for MembershipWrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(cluster) => write!(f, "cluster {cluster} is in the clusterset already"),
        }
    }
}

impl MembershipWrong {
    /// What to do.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::Member(cluster) => format!("say {cluster}: {{ …, apart: true }}, and let it join once"),
        }
    }
}

/// A cluster that stands apart, and has not joined.
pub(super) fn joins(
    node: &Node,
    names: &Names,
    joined: &BTreeSet<ClusterId>,
    report: &mut Report,
) -> Option<ClusterId> {
    let cluster = names.cluster_at(node, report)?;
    if joined.contains(&cluster) || names.clusters.get(&cluster).is_some_and(|members| !members.apart) {
        report.add(node.span.clone(), Wrong::Membership(MembershipWrong::Member(cluster)));
        return None;
    }
    Some(cluster)
}
