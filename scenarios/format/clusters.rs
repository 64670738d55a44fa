//! `clusters:`, `broker:`, `cable:`, `links:` and `workloads:`: the world before anything happens.

use super::fields::Fields;
use super::grammar::{Form, Key, Mapping, may, need};
use super::names::{Members, Names, reserved_for_clusters, reserved_for_nodes};
use super::nat::{self, NatWrong};
use super::report::{Report, Span};
use super::tree::{Node, Word};
use super::values::{Kind, duration, flag, name, one_of, parse_mtu, parse_port, parse_share, range, value};
use super::words::CABLES;
use super::wrong::{Same, Wrong};
use crate::{Broker, Cluster, LinkSpec, Links, NodeSpec, Workload};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::BTreeMap;
use tombolo_core::base::{Cidr, ClusterId, NodeName, Slot};
use tombolo_core::model::{CableDriver, Protocol, ServiceKey};

/// More pods of one service than a story needs.
const PODS_MAX: u32 = 1_000;
/// A link slower than this is a broken one.
const LATENCY_MAX: Duration = Duration::from_secs(10);

/// Ranges whose addresses mean something else already, and what.
const SPECIAL: [(Ipv4Addr, u8, &str); 7] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "which stands for no host in particular"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "which each host keeps for itself"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "which no router forwards"),
    (Ipv4Addr::new(172, 16, 0, 0), 16, "where the simulator has its nodes and APIs"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "where the simulator has its NAT boxes"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "which is for multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "which is reserved"),
];

/// A cluster.
pub(super) const CLUSTER: Mapping = Mapping {
    place: "a cluster",
    keys: &[
        need("pods", Form::One(Kind::Range)),
        need("services", Form::One(Kind::Range)),
        need("nodes", Form::Some(&Form::One(Kind::NodeSpec))),
        may("nat", Form::Map(&nat::NAT)),
        may("apart", Form::One(Kind::Flag)),
    ],
};

/// How links behave.
pub(super) const LINKS: Mapping =
    Mapping { place: "links", keys: &[may("default", Form::Map(&LINK)), may("pairs", Form::List(&Form::Map(&PAIR)))] };
const LATENCY: Key = may("latency", Form::One(Kind::Duration));
const JITTER: Key = may("jitter", Form::One(Kind::Duration));
const LOSS: Key = may("loss", Form::One(Kind::Share));
const MTU: Key = may("mtu", Form::One(Kind::Mtu));
const BETWEEN: Key = need("between", Form::Pair(&Form::One(Kind::Cluster)));
const LINK: Mapping = Mapping { place: "a link", keys: &[LATENCY, JITTER, LOSS, MTU] };
const PAIR: Mapping = Mapping { place: "a link", keys: &[BETWEEN, LATENCY, JITTER, LOSS, MTU] };

/// A service with its pods.
pub(super) const WORKLOAD: Mapping = Mapping {
    place: "a workload",
    keys: &[
        need("service", Form::One(Kind::Name)),
        need("namespace", Form::One(Kind::Name)),
        need("cluster", Form::One(Kind::Cluster)),
        may("pods", Form::One(Kind::Count)),
        need("ports", Form::Some(&Form::One(Kind::Port))),
        may("exported", Form::One(Kind::Flag)),
        may("headless", Form::One(Kind::Flag)),
    ],
};

/// A range that is taken.
pub(super) struct Taken {
    range: Cidr,
    kind: &'static str,
    cluster: ClusterId,
    apart: bool,
}

/// The clusters. Their names and nodes go into `names`, also where the rest of a cluster could not be read.
pub(super) fn clusters(node: &Node, names: &mut Names, report: &mut Report) -> Option<BTreeMap<ClusterId, Cluster>> {
    let entries = node.map("clusters by name: west: { pods: …, services: …, nodes: […] }", report)?;
    if entries.is_empty() {
        report.add(node.span.clone(), Wrong::MissingKey { key: "clusters", place: "a scenario" });
    }
    names.clusters_whole = true;
    let mut taken = Vec::new();
    let mut clusters = BTreeMap::new();
    for (key, node) in entries {
        let Some(id) = cluster_id(key, report) else {
            names.clusters_whole = false;
            continue;
        };
        names.clusters.insert(id.clone(), Members::default());
        if let Some(cluster) = cluster(&id, node, names, &mut taken, report) {
            clusters.insert(id, cluster);
        }
    }
    Some(clusters)
}

fn cluster_id(key: &Word, report: &mut Report) -> Option<ClusterId> {
    if reserved_for_clusters(&key.text) {
        report.add(key.span.clone(), Wrong::Reserved { name: key.text.clone(), kind: "cluster" });
        return None;
    }
    name(key, (0, key.text.len()), "cluster id", report)
}

fn cluster(
    id: &ClusterId,
    node: &Node,
    names: &mut Names,
    taken: &mut Vec<Taken>,
    report: &mut Report,
) -> Option<Cluster> {
    let fields = Fields::open(node, &CLUSTER, report)?;
    let apart = fields.get("apart").map_or(Some(false), |node| flag(node, report));
    let mut own_range = |kind: &'static str, report: &mut Report| {
        own_range(id, kind, apart.unwrap_or(true), fields.get(kind)?, taken, report)
    };
    let (pods, services) = (own_range("pods", report), own_range("services", report));
    let members = fields.get("nodes").and_then(|node| nodes(id, node, report));
    let nodes = members.as_ref().map(|members| members.nodes.clone());
    let members = Members { apart: apart.unwrap_or(true), ..members.unwrap_or_default() };
    names.clusters.insert(id.clone(), members);
    let nat = match fields.get("nat") {
        None => None,
        Some(node) => {
            let behaviour = nat::behaviour(node, report);
            if let Some(members) = names.clusters.get_mut(id) {
                (members.nat, members.behaviour) = (true, behaviour);
            }
            nat::check_pairs(id, node, names, report);
            Some(behaviour?)
        }
    };
    Some(Cluster { pods: pods?, services: services?, nodes: nodes?, nat, apart: apart? })
}

/// A range that overlaps none before it, and none that means something else. The ranges of a cluster that stands apart may
/// meet those of others: then it is refused when it joins.
pub(super) fn own_range(
    cluster: &ClusterId,
    kind: &'static str,
    apart: bool,
    node: &Node,
    taken: &mut Vec<Taken>,
    report: &mut Report,
) -> Option<Cidr> {
    let range = range(node, report)?;
    if let Some((special, why)) = special(range) {
        let cluster = cluster.clone();
        report.add(node.span.clone(), Wrong::RangeSpecial { range_kind: kind, range, cluster, special, why });
    }
    let matters = |other: &&Taken| other.cluster == *cluster || !(apart || other.apart);
    if let Some(other) = taken.iter().filter(matters).find(|other| other.range.overlaps(&range)) {
        let wrong = Wrong::RangesOverlap {
            range_kind: kind,
            range,
            cluster: cluster.clone(),
            other_kind: other.kind,
            other: other.range,
            other_cluster: other.cluster.clone(),
        };
        report.add(node.span.clone(), wrong);
    }
    taken.push(Taken { range, kind, cluster: cluster.clone(), apart });
    Some(range)
}

/// The first of [`SPECIAL`] that it overlaps.
fn special(range: Cidr) -> Option<(Cidr, &'static str)> {
    let all = SPECIAL.iter().filter_map(|(first, len, why)| Some((Cidr::holding(IpAddr::V4(*first), *len)?, *why)));
    all.into_iter().find(|(special, _)| special.overlaps(&range))
}

fn nodes(cluster: &ClusterId, node: &Node, report: &mut Report) -> Option<Members> {
    let list = node.list("a list of nodes: [gw-a*, gw-b*, worker]", report)?;
    let mut members = Members { whole: true, ..Members::default() };
    for node in list {
        match node_spec(node, &members.nodes, report) {
            Some(spec) => members.nodes.push(spec),
            None => members.whole = false,
        }
    }
    let count = members.nodes.iter().filter(|node| node.gateway).count();
    let limit = Slot::all().len();
    if count > limit {
        report.add(node.span.clone(), Wrong::TooManyGateways { cluster: cluster.to_string(), count, limit });
    }
    if count == 0 && members.whole {
        let first = members.nodes.first().map_or_else(|| "gw-a".to_owned(), |node| node.name.to_string());
        report.add(node.span.clone(), Wrong::NoGateway { cluster: cluster.to_string(), node: first });
    }
    Some(members)
}

fn node_spec(node: &Node, before: &[NodeSpec], report: &mut Report) -> Option<NodeSpec> {
    let word = node.word(Kind::NodeSpec.form(), report)?;
    let (end, gateway) = match word.text.strip_suffix('*') {
        Some(bare) => (bare.len(), true),
        None => (word.text.len(), false),
    };
    let name: NodeName = name(word, (0, end), "node name", report)?;
    if reserved_for_nodes(name.as_str()) {
        report.add(word.part(0, end), Wrong::Reserved { name: name.to_string(), kind: "node" });
        return None;
    }
    if before.iter().any(|other| other.name == name) {
        report.add(word.part(0, end), Wrong::Twice { what: format!("node {name}") });
        return None;
    }
    Some(NodeSpec { name, gateway })
}

/// `broker: east` or `broker: own`.
pub(super) fn broker(node: &Node, names: &Names, report: &mut Report) -> Option<Broker> {
    let word = node.word(Kind::Broker.form(), report)?;
    if word.text == "own" {
        return Some(Broker::Own);
    }
    let member = names.cluster(word, (0, word.text.len()), report)?;
    if names.clusters.get(&member).is_some_and(|members| members.nat) {
        report.add(word.span.clone(), Wrong::Nat(NatWrong::Broker(member.clone())));
    }
    Some(Broker::Member(member))
}

/// `cable: wireguard`.
pub(super) fn cable(node: &Node, report: &mut Report) -> Option<CableDriver> {
    one_of(node, Kind::Cable, CABLES, report).copied()
}

/// `links: { default: …, pairs: […] }`.
pub(super) fn links(node: &Node, names: &Names, report: &mut Report) -> Option<Links> {
    let fields = Fields::open(node, &LINKS, report)?;
    let mut links = Links::default();
    if let Some(node) = fields.get("default")
        && let Some(fields) = Fields::open(node, &LINK, report)
    {
        links.default = link(&fields, LinkSpec::default(), report);
    }
    let pairs = fields.get("pairs").and_then(|node| node.list("a list of links", report));
    for node in pairs.unwrap_or_default() {
        let Some(fields) = Fields::open(node, &PAIR, report) else { continue };
        let spec = link(&fields, links.default, report);
        let Some((ends, span)) = fields.get("between").and_then(|node| ends(node, names, report)) else {
            continue;
        };
        let what = format!("the link between {} and {}", ends.0, ends.1);
        if links.pairs.insert(ends, spec).is_some() {
            report.add(span, Wrong::Twice { what });
        }
    }
    Some(links)
}

/// Two clusters, the smaller id first.
fn ends(node: &Node, names: &Names, report: &mut Report) -> Option<((ClusterId, ClusterId), Span)> {
    let list = node.list("two clusters: [west, east]", report)?;
    let [one, other] = list else {
        let found = node.shape();
        report.add(node.span.clone(), Wrong::Shape { expected: "exactly two clusters: [west, east]".into(), found });
        return None;
    };
    let (one, other) = (names.cluster_at(one, report), names.cluster_at(other, report));
    let (one, other) = (one?, other?);
    if one == other {
        report.add(node.span.clone(), Wrong::Same(Same::Ends));
        return None;
    }
    let ends = if one < other { (one, other) } else { (other, one) };
    Some((ends, node.span.clone()))
}

/// What is not said stays as in `base`.
fn link(fields: &Fields<'_>, base: LinkSpec, report: &mut Report) -> LinkSpec {
    LinkSpec {
        latency: delay(fields, "latency", report).unwrap_or(base.latency),
        jitter: delay(fields, "jitter", report).unwrap_or(base.jitter),
        loss_millionths: fields
            .get("loss")
            .and_then(|node| value(node, Kind::Share, parse_share, report))
            .unwrap_or(base.loss_millionths),
        mtu: fields.get("mtu").and_then(|node| value(node, Kind::Mtu, parse_mtu, report)).unwrap_or(base.mtu),
    }
}

fn delay(fields: &Fields<'_>, key: &'static str, report: &mut Report) -> Option<Duration> {
    let node = fields.get(key)?;
    let delay = duration(node, report)?;
    if delay > LATENCY_MAX {
        let (text, limit) = (format!("{delay:?}"), format!("{LATENCY_MAX:?}"));
        report.add(node.span.clone(), Wrong::TooMuch { what: key, text, limit });
    }
    Some(delay)
}

/// `workloads:`. Services and their ports go into `names`.
pub(super) fn workloads(node: &Node, names: &mut Names, report: &mut Report) -> Vec<Workload> {
    let mut workloads: Vec<Workload> = Vec::new();
    names.services_whole = true;
    let Some(list) = node.list("a list of services", report) else {
        names.services_whole = false;
        return workloads;
    };
    for node in list {
        let Some(workload) = workload(node, names, report) else {
            names.services_whole = false;
            continue;
        };
        let full = (workload.cluster.clone(), workload.service.clone());
        if names.services.insert(full, workload.ports.clone()).is_some() {
            let what = format!("service {} in {}", workload.service, workload.cluster);
            report.add(node.span.clone(), Wrong::Twice { what });
        }
        workloads.push(workload);
    }
    workloads
}

fn workload(node: &Node, names: &Names, report: &mut Report) -> Option<Workload> {
    let fields = Fields::open(node, &WORKLOAD, report)?;
    let mut label = |key: &'static str, kind: &'static str| {
        let word = fields.get(key)?.word(Kind::Name.form(), report)?;
        name(word, (0, word.text.len()), kind, report)
    };
    let service = label("service", "service name");
    let namespace = label("namespace", "namespace");
    let cluster = fields.get("cluster").and_then(|node| names.cluster_at(node, report));
    let ports = fields.get("ports").and_then(|node| ports(node, report));
    let pods = fields.get("pods").map_or(Some(1), |node| pod_count(node, report));
    let exported = fields.get("exported").map_or(Some(false), |node| flag(node, report));
    let headless = fields.get("headless").map_or(Some(false), |node| flag(node, report));
    let service = ServiceKey { namespace: namespace?, name: service? };
    let (exported, headless) = (exported?, headless?);
    Some(Workload { service, cluster: cluster?, pods: pods?, ports: ports?, exported, headless })
}

fn pod_count(node: &Node, report: &mut Report) -> Option<u32> {
    let count: u32 = value(node, Kind::Count, |text| text.parse().ok(), report)?;
    if count > PODS_MAX {
        let (text, limit) = (count.to_string(), PODS_MAX.to_string());
        report.add(node.span.clone(), Wrong::TooMuch { what: "pods", text, limit });
        return None;
    }
    Some(count)
}

fn ports(node: &Node, report: &mut Report) -> Option<Vec<(u16, Protocol)>> {
    let list = node.list("a list of ports: [80/tcp]", report)?;
    if list.is_empty() {
        report.add(node.span.clone(), Wrong::MissingKey { key: "ports", place: "a workload" });
        return None;
    }
    let mut ports = Vec::new();
    for node in list {
        let (port, protocol) = value(node, Kind::Port, parse_port, report)?;
        if ports.contains(&(port, protocol)) {
            report.add(node.span.clone(), Wrong::Twice { what: format!("port {port}/{protocol}") });
        }
        ports.push((port, protocol));
    }
    Some(ports)
}
