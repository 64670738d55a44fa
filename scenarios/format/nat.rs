//! `nat:` of a cluster: the box in front of it, in the words of RFC 4787; and what such a box makes impossible.

use super::fields::Fields;
use super::grammar::{Form, Mapping, may, need};
use super::names::{Members, Names};
use super::report::Report;
use super::tree::Node;
use super::values::{Kind, one_of};
use super::words::{NAT_KINDS, NAT_PORTS};
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
    /// Two clusters are, and can therefore not meet.
    Both(ClusterId, ClusterId),
}

impl fmt::Display for NatWrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBox(cluster) => write!(f, "cluster {cluster} has no NAT box"),
            Self::Broker(cluster) => write!(f, "the broker is behind the NAT box of {cluster}: nobody else reaches it"),
            Self::Both(one, other) => {
                write!(
                    f,
                    "{one} and {other} are both behind NAT boxes, and neither reaches the other: one of them needs a \
                     single gateway, endpoint-independent mapping, kept ports, and a filter that does not look at \
                     ports unless the other has all this too"
                )
            }
        }
    }
}

/// The keys of a box.
pub(super) const NAT: Mapping = Mapping {
    place: "nat",
    keys: &[
        need("mapping", Form::One(Kind::NatKind)),
        need("filtering", Form::One(Kind::NatKind)),
        may("ports", Form::One(Kind::NatPorts)),
    ],
};

/// `{ mapping: endpoint-independent, filtering: address-dependent, ports: kept }`.
pub(super) fn behaviour(node: &Node, report: &mut Report) -> Option<Behaviour> {
    let fields = Fields::open(node, &NAT, report)?;
    let mut kind = |key| one_of(fields.get(key)?, Kind::NatKind, NAT_KINDS, report).copied();
    let (mapping, filtering) = (kind("mapping"), kind("filtering"));
    let ports = fields.get("ports").map_or(Some(&false), |node| one_of(node, Kind::NatPorts, NAT_PORTS, report));
    Some(Behaviour { mapping: mapping?, filtering: filtering?, keeps_ports: *ports? })
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

/// Reports another cluster behind a box of which the gateways cannot meet those of `cluster`.
pub(super) fn check_pairs(cluster: &ClusterId, node: &Node, names: &Names, report: &mut Report) {
    let Some(here) = names.clusters.get(cluster).and_then(Box::of) else { return };
    let boxes = names.clusters.iter().filter(|(id, _)| *id != cluster);
    let mut strangers = boxes.filter(|(_, members)| Box::of(members).is_some_and(|there| !here.meets(there)));
    if let Some((other, _)) = strangers.next() {
        report.add(node.span.clone(), Wrong::Nat(NatWrong::Both(other.clone(), cluster.clone())));
    }
}

/// A NAT box as the gateways of others see it.
#[derive(Clone, Copy)]
struct Box {
    /// Its one gateway is met at the ports that it sends from: they are the same for everybody, and nobody takes them
    /// from it.
    dialable: bool,
    /// It lets in who was written to, from whatever port.
    takes_any_port: bool,
}

impl Box {
    fn of(members: &Members) -> Option<Self> {
        let Behaviour { mapping, filtering, keeps_ports } = members.behaviour?;
        let gateways = members.nodes.iter().filter(|node| node.gateway).count();
        Some(Self {
            dialable: keeps_ports && mapping == Dependence::Nothing && gateways == 1,
            takes_any_port: filtering != Dependence::AddressAndPort,
        })
    }

    /// Both sides dial the other's public address, and one of the calls gets in: to a port that is known, from one that
    /// is known too or need not be.
    fn meets(self, other: Self) -> bool {
        let reached = |to: Self, from: Self| to.dialable && (to.takes_any_port || from.dialable);
        reached(self, other) || reached(other, self)
    }
}
