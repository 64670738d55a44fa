//! `nat:` of a cluster: the box in front of it, in the words of RFC 4787; and what such a box makes impossible.

use super::fields::Fields;
use super::names::Names;
use super::report::Report;
use super::tree::Node;
use super::values::{Kind, value};
use super::wrong::Wrong;
use core::fmt;
use tombolo_core::base::ClusterId;
use tombolo_core::nat::boxes::{Behaviour, Dependence};

/// What goes wrong with NAT boxes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NatWrong {
    /// The cluster has no box.
    NoBox(ClusterId),
    /// The broker is behind one.
    Broker(ClusterId),
    /// Two clusters are.
    Both(ClusterId, ClusterId),
}

impl fmt::Display for NatWrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBox(cluster) => write!(f, "cluster {cluster} has no NAT box"),
            Self::Broker(cluster) => write!(f, "the broker is behind the NAT box of {cluster}: nobody else reaches it"),
            Self::Both(one, other) => {
                write!(f, "{one} and {other} are both behind NAT boxes: neither reaches the other first")
            }
        }
    }
}

const KINDS: [Dependence; 3] = [Dependence::Nothing, Dependence::Address, Dependence::AddressAndPort];

/// `{ mapping: endpoint-independent, filtering: address-dependent, ports: kept }`.
pub(super) fn behaviour(node: &Node, report: &mut Report) -> Option<Behaviour> {
    let fields = Fields::open(node, "nat", &["mapping", "filtering", "ports"], report)?;
    let kind = |text: &str| KINDS.into_iter().find(|kind| kind.to_string() == text);
    let mapping = fields.need("mapping", report).and_then(|node| value(node, Kind::NatKind, kind, report));
    let filtering = fields.need("filtering", report).and_then(|node| value(node, Kind::NatKind, kind, report));
    let kept = |text: &str| match text {
        "kept" => Some(true),
        "changed" => Some(false),
        _ => None,
    };
    let ports = fields.get("ports").map_or(Some(false), |node| value(node, Kind::NatPorts, kept, report));
    Some(Behaviour { mapping: mapping?, filtering: filtering?, keeps_ports: ports? })
}

/// A cluster that has a box.
pub(super) fn boxed(node: &Node, names: &Names, report: &mut Report) -> Option<ClusterId> {
    let cluster = names.cluster_at(node, report)?;
    if names.clusters.get(&cluster).is_some_and(|members| members.whole && !members.nat) {
        report.add(node.span.clone(), Wrong::Nat(NatWrong::NoBox(cluster)));
        return None;
    }
    Some(cluster)
}

/// Reports a second cluster behind a box.
pub(super) fn check_alone(cluster: &ClusterId, node: &Node, names: &Names, report: &mut Report) {
    if let Some((other, _)) = names.clusters.iter().find(|(id, members)| members.nat && *id != cluster) {
        report.add(node.span.clone(), Wrong::Nat(NatWrong::Both(other.clone(), cluster.clone())));
    }
}
