//! `apart: true`, `join`, `leave` and `rebuild`: who is a member when, and with which ranges.

use super::clusters::own_range;
use super::fields::Fields;
use super::grammar::{Form, Mapping, need};
use super::names::Names;
use super::report::Report;
use super::tree::Node;
use super::values::Kind;
use super::wrong::Wrong;
use crate::{Broker, Rebuilt};
use core::fmt;
use std::collections::BTreeMap;
use tombolo_core::base::ClusterId;

/// What a cluster is that is built anew.
pub(super) const REBUILD: Mapping = Mapping {
    place: "rebuild",
    keys: &[
        need("cluster", Form::One(Kind::Cluster)),
        need("pods", Form::One(Kind::Range)),
        need("services", Form::One(Kind::Range)),
    ],
};

/// What goes wrong with membership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MembershipWrong {
    /// It joins, and has joined already.
    Member(ClusterId),
    /// It leaves, and has not joined.
    NoMember(ClusterId),
    /// It is built anew while our daemons are at work there.
    RebuiltMember(ClusterId),
    /// It is built anew, and the broker is there.
    RebuiltBroker(ClusterId),
}

impl fmt::Display for MembershipWrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(cluster) => write!(f, "cluster {cluster} is in the clusterset already"),
            Self::NoMember(cluster) => write!(f, "cluster {cluster} cannot leave: it is not in the clusterset then"),
            Self::RebuiltMember(cluster) => write!(f, "cluster {cluster} is built anew while it is in the clusterset"),
            Self::RebuiltBroker(cluster) => write!(f, "cluster {cluster} is built anew, and its API is the broker's"),
        }
    }
}

impl MembershipWrong {
    /// What to do.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::Member(cluster) => {
                format!("say {cluster}: {{ …, apart: true }}, or let it leave before it joins again")
            }
            Self::NoMember(cluster) => format!("let {cluster} join before it leaves, or leave this out"),
            Self::RebuiltMember(cluster) => format!("let {cluster} leave some seconds before"),
            Self::RebuiltBroker(_) => "put the broker elsewhere: broker: own".into(),
        }
    }
}

/// Who has joined or left so far.
pub(super) type Joined = BTreeMap<ClusterId, bool>;

/// Whether daemons of ours are at work in the cluster, as far as the timeline has come.
fn is_in(cluster: &ClusterId, names: &Names, joined: &Joined) -> bool {
    let from_the_start = || names.clusters.get(cluster).is_some_and(|members| !members.apart);
    joined.get(cluster).copied().unwrap_or_else(from_the_start)
}

/// A cluster that stands apart, or has left.
pub(super) fn joins(node: &Node, names: &Names, joined: &Joined, report: &mut Report) -> Option<ClusterId> {
    let cluster = names.cluster_at(node, report)?;
    if is_in(&cluster, names, joined) {
        report.add(node.span.clone(), Wrong::Membership(MembershipWrong::Member(cluster)));
        return None;
    }
    Some(cluster)
}

/// A cluster that has joined, or was a member from the start.
pub(super) fn leaves(node: &Node, names: &Names, joined: &Joined, report: &mut Report) -> Option<ClusterId> {
    let cluster = names.cluster_at(node, report)?;
    // Of a cluster that could not be read whole nobody knows whether it stands apart.
    let unsure = names.clusters.get(&cluster).is_none_or(|members| !members.whole);
    if !unsure && !is_in(&cluster, names, joined) {
        report.add(node.span.clone(), Wrong::Membership(MembershipWrong::NoMember(cluster)));
        return None;
    }
    Some(cluster)
}

/// `{ cluster: north, pods: 10.7.0.0/16, services: 10.107.0.0/16 }`, of a cluster that is no member then.
pub(super) fn rebuilds(object: &Node, names: &Names, joined: &Joined, report: &mut Report) -> Option<Rebuilt> {
    let fields = Fields::open(object, &REBUILD, report)?;
    let node = fields.get("cluster")?;
    let cluster = names.cluster_at(node, report)?;
    let mut taken = Vec::new();
    let mut range = |kind: &'static str| own_range(&cluster, kind, true, fields.get(kind)?, &mut taken, report);
    let (pods, services) = (range("pods"), range("services"));
    let wrong = if is_in(&cluster, names, joined) {
        Some(MembershipWrong::RebuiltMember(cluster.clone()))
    } else if names.broker == Some(Broker::Member(cluster.clone())) {
        Some(MembershipWrong::RebuiltBroker(cluster.clone()))
    } else {
        None
    };
    if let Some(wrong) = wrong {
        report.add(node.span.clone(), Wrong::Membership(wrong));
        return None;
    }
    Some(Rebuilt { cluster, pods: pods?, services: services? })
}
