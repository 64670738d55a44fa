//! From what is known to the network that this node should have: one pure function.
//!
//! ```text
//!  what arrives            is looked up in        which leads
//!  from a cable            TABLE_FROM_CABLE       to a pod here or to the pod's node, never to another gateway   F3
//!  from the overlay        TABLE_FROM_OVERLAY     on a candidate into a cable, else nowhere; to pods here         F2
//!  from pods and the host  TABLE_OUT              over the overlay to the local end of the path, there into
//!                                                 the cable to the remote end                                     F1
//! ```

use super::addresses::{overlay_address, overlay_mac, overlay_range, probe_address};
use super::dialling::{Choices, places};
use crate::base::{Cidr, ClusterId, NodeName, Slot};
use crate::model::{CableDriver, CableKey, Candidates, ClusterRecord, Node, Protocol};
use crate::nat::Choice;
use crate::network::constants::{
    CABLE_LINK_PREFIX, CABLE_PORT_BASE, OVERLAY_LINK, OVERLAY_PORT, OVERLAY_VNI, RULE_FROM_CABLE, RULE_FROM_OVERLAY,
    RULE_OUT, TABLE_FROM_CABLE, TABLE_FROM_OVERLAY, TABLE_OUT,
};
use crate::network::{
    Allowance, AllowanceId, Item, Link, LinkKind, LinkName, Neighbour, Peer, PeerId, Route, RouteId, RouteKind, Rule,
    Stay, Table, Translation, TranslationId, Wanted, slots,
};
use crate::paths::carried::LONGEST;
use crate::paths::{Carried, Exit, Way};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

/// Bytes that a VXLAN header over IPv4 takes from an MTU of 1500.
const OVERLAY_MTU: u16 = 1450;
/// A candidate's own side of its cables.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OwnCandidate<'a> {
    /// Its rank.
    pub slot: Slot,
    /// The address that others dial.
    pub address: IpAddr,
    /// Public key of its device for each remote rank.
    pub keys: &'a [CableKey],
    /// Where NAT discovery says that remote candidates are.
    pub choices: &'a Choices,
}

/// Ready backends of one exported service port.
pub type Backends = BTreeMap<(IpAddr, Protocol, u16), ServicePort>;

/// See [`Backends`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServicePort {
    /// `namespace/name`, for reasons.
    pub name: String,
    /// Ready backends.
    pub backends: BTreeSet<(IpAddr, u16)>,
    /// ClientIP affinity.
    pub by_source: bool,
}

/// All that the network of a node follows from.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The own cluster.
    pub cluster: &'a ClusterId,
    /// Its pod ranges.
    pub pods: &'a [Cidr],
    /// Its service ranges.
    pub services: &'a [Cidr],
    /// This node.
    pub node: &'a Node,
    /// All nodes of the cluster, this one too.
    pub nodes: &'a BTreeMap<NodeName, &'a Node>,
    /// The cluster's candidates.
    pub own: &'a Candidates,
    /// This node's side of the cables, if it is a candidate.
    pub candidate: Option<OwnCandidate<'a>>,
    /// How cables carry packets.
    pub driver: CableDriver,
    /// The other clusters' candidates.
    pub remote: &'a BTreeMap<ClusterId, &'a Candidates>,
    /// The other clusters' ranges.
    pub remote_clusters: &'a BTreeMap<ClusterId, &'a ClusterRecord>,
    /// The paths in use.
    pub ways: &'a BTreeMap<ClusterId, Way>,
    /// Exported services, on a candidate.
    pub exported: &'a Backends,
    /// The daemon has just started: it takes nothing away yet.
    pub adopting: bool,
}

/// The cable device for remote candidates of this rank.
#[must_use]
pub fn cable_link(rank: Slot) -> LinkName {
    LinkName(format!("{CABLE_LINK_PREFIX}{rank}").into())
}

/// The overlay device.
#[must_use]
pub fn overlay_link() -> LinkName {
    LinkName(OVERLAY_LINK.into())
}

/// The network that this node should have.
#[must_use]
pub fn node_network(known: &Known<'_>) -> Wanted {
    let mut build = Build { known, wanted: Wanted { adopting: known.adopting, ..Wanted::default() } };
    build.overlay();
    if let Some(candidate) = &known.candidate {
        build.cables(candidate);
        build.inside();
        build.exported();
    }
    build.out();
    build.rules();
    build.sysctls();
    build.wanted
}

struct Build<'a> {
    known: &'a Known<'a>,
    wanted: Wanted,
}

impl Build<'_> {
    fn why(&mut self, item: Item, because: impl Into<String>) {
        self.wanted.because.insert(item, because.into());
    }

    fn link(&mut self, name: LinkName, kind: LinkKind, mtu: u16, because: &str) {
        self.why(Item::Link(name.clone()), because);
        self.wanted.network.links.insert(name, Link { kind, mtu });
    }

    fn address(&mut self, link: &LinkName, address: IpAddr, len: u8, because: &str) {
        self.why(Item::Address(link.clone(), address), because);
        self.wanted.network.addresses.insert((link.clone(), address), len);
    }

    fn route(&mut self, table: Table, to: Cidr, kind: RouteKind, source: Option<IpAddr>, because: &str) {
        let id = RouteId { table, to };
        self.why(Item::Route(id), because);
        self.wanted.network.routes.insert(id, Route { kind, source, mtu: None });
    }

    /// A route into a cable, for packets as long as it carries.
    fn route_into_cable(&mut self, table: Table, to: Cidr, (cluster, rank): (&ClusterId, Slot), because: &str) {
        let known = self.known;
        let kind = RouteKind::Out { link: cable_link(rank), via: self.beyond(cluster, rank) };
        let carried = known.ways.get(cluster).map_or(Carried::Unknown, |way| way.carried.get(rank));
        let mtu = carried.longest().filter(|mtu| *mtu < LONGEST);
        let because =
            mtu.map_or_else(|| because.to_string(), |mtu| format!("{because}; its cable carries {mtu} bytes"));
        self.route(table, to, kind, known.candidate.as_ref().map(|own| own.address), &because);
        let id = RouteId { table, to };
        if let Some(route) = self.wanted.network.routes.get_mut(&id) {
            route.mtu = mtu;
        }
        if carried == Carried::Unknown {
            self.wanted.unmeasured.insert(id);
        }
    }

    fn translation(&mut self, id: TranslationId, translation: Translation, because: &str) {
        self.why(Item::Translation(id.clone()), because);
        self.wanted.network.translations.insert(id, translation);
    }

    fn filter(&mut self, id: AllowanceId, allowance: Allowance, because: &str) {
        self.why(Item::Filter(id.clone()), because);
        self.wanted.network.filters.insert(id, allowance);
    }

    /// Ranges of a remote cluster that may be routed: those that meet none of ours (no leak between strangers).
    fn ranges(&self, cluster: &ClusterId) -> Vec<Cidr> {
        let Some(record) = self.known.remote_clusters.get(cluster) else { return Vec::new() };
        let own = || self.known.pods.iter().chain(self.known.services);
        record.pods.iter().chain(&record.services).filter(|range| !own().any(|o| o.overlaps(range))).copied().collect()
    }

    fn all_remote_ranges(&self) -> BTreeSet<Cidr> {
        self.known.remote_clusters.keys().flat_map(|cluster| self.ranges(cluster)).collect()
    }

    fn node_address(node: &Node) -> Option<IpAddr> {
        node.addresses.first().copied()
    }

    fn overlay(&mut self) {
        let known = self.known;
        let Some(local) = Self::node_address(known.node) else { return };
        let link = overlay_link();
        let kind = LinkKind::Overlay { vni: OVERLAY_VNI, port: OVERLAY_PORT, local, mac: overlay_mac(&known.node.uid) };
        self.link(link.clone(), kind, OVERLAY_MTU, "nodes and gateways exchange cross-cluster traffic over it");
        let own = overlay_address(known.cluster, &known.node.uid);
        self.address(&link, own, 64, "it is derived from this node's UID");
        for node in known.nodes.values().filter(|node| node.name != known.node.name) {
            let Some(outer) = Self::node_address(node) else { continue };
            let address = overlay_address(known.cluster, &node.uid);
            self.why(Item::Neighbour(link.clone(), address), format!("{} is a node of this cluster", node.name));
            let neighbour = Neighbour { mac: overlay_mac(&node.uid), outer };
            self.wanted.network.neighbours.insert((link.clone(), address), neighbour);
        }
        self.overlay_filters(&link);
    }

    fn overlay_filters(&mut self, link: &LinkName) {
        let known = self.known;
        let nodes: BTreeSet<Cidr> =
            known.nodes.values().filter_map(|node| Self::node_address(node)).map(Cidr::host).collect();
        let mut inner: BTreeSet<Cidr> = known.pods.iter().copied().collect();
        inner.extend(self.all_remote_ranges());
        inner.extend(overlay_range(known.cluster));
        inner.extend(&nodes);
        let allowance = Allowance { from: inner.clone(), to: inner };
        self.filter(AllowanceId::Inner(link.clone()), allowance, "only this cluster's nodes and joined ranges use it");
        let outer = Allowance { from: nodes, to: BTreeSet::new() };
        self.filter(AllowanceId::Outer { port: OVERLAY_PORT }, outer, "only this cluster's nodes may send to it");
    }

    fn cables(&mut self, own: &OwnCandidate<'_>) {
        let known = self.known;
        let ranks: BTreeSet<Slot> = known.remote.values().flat_map(|c| c.by_slot.keys().copied()).collect();
        let probe = probe_address(known.cluster, own.slot);
        for rank in ranks {
            let Some(key) = own.keys.get(usize::from(rank.get() - 1)) else { continue };
            let link = cable_link(rank);
            let port = CABLE_PORT_BASE + u16::from(rank.get());
            let kind = LinkKind::Cable { driver: known.driver, rank, port, key: *key };
            self.link(link.clone(), kind, LONGEST, &format!("other clusters have candidates of rank {rank}"));
            self.address(&link, probe, 128, "hellos of other clusters come to it");
            let mut from = self.all_remote_ranges();
            for candidate in known.remote.values().filter_map(|c| c.by_slot.get(&rank)) {
                from.extend([Cidr::host(candidate.probe), Cidr::host(candidate.address)]);
            }
            let mut to: BTreeSet<Cidr> = known.pods.iter().chain(known.services).copied().collect();
            to.extend([Cidr::host(probe), Cidr::host(own.address)]);
            self.filter(AllowanceId::Inner(link), Allowance { from, to }, "only joined ranges use cables");
        }
        for (cluster, candidates) in known.remote {
            for (rank, candidate) in &candidates.by_slot {
                let link = cable_link(*rank);
                let Some(key) = candidate.keys.get(usize::from(own.slot.get() - 1)) else { continue };
                if !self.wanted.network.links.contains_key(&link) {
                    continue;
                }
                let id = PeerId { link: link.clone(), key: *key };
                let mut allowed: BTreeSet<Cidr> = self.ranges(cluster).into_iter().collect();
                allowed.extend([Cidr::host(candidate.probe), Cidr::host(candidate.address)]);
                let choice = own.choices.get(&(cluster.clone(), *rank));
                let (endpoint, other) = places(choice, candidate, own.slot);
                let carries = known.ways.get(cluster).is_some_and(|way| way.carries.contains(*rank));
                let is_near = |choice: &Choice| choice.answered && choice.address == candidate.address;
                let stay = if known.adopting || carries && !choice.is_some_and(is_near) {
                    Some(Stay::Anywhere)
                } else {
                    other.map(Stay::At)
                };
                self.wanted.stays.extend(stay.map(|stay| (id.clone(), stay)));
                let peer = Peer { endpoint, allowed };
                let because = format!("{cluster}/{} is candidate {rank} of {cluster}", candidate.node);
                self.why(Item::Peer(id.clone()), because.clone());
                self.wanted.network.peers.insert(id, peer);
                let out = RouteKind::Out { link, via: None };
                self.route(TABLE_OUT, Cidr::host(candidate.probe), out, Some(probe), &because);
            }
        }
    }

    /// What comes from a cable: to pods here or to their node (F3).
    fn inside(&mut self) {
        let known = self.known;
        for node in known.nodes.values().filter(|node| node.name != known.node.name) {
            for range in &node.pod_ranges {
                let kind =
                    RouteKind::Out { link: overlay_link(), via: Some(overlay_address(known.cluster, &node.uid)) };
                self.route(TABLE_FROM_CABLE, *range, kind, None, &format!("pods of {} are there", node.name));
            }
        }
        for range in known.services {
            let because = "what is for a service and was not translated is for nobody";
            self.route(TABLE_FROM_CABLE, *range, RouteKind::Blackhole, None, because);
        }
        for range in self.all_remote_ranges() {
            let because = "no packet goes from one cable into another";
            self.route(TABLE_FROM_CABLE, range, RouteKind::Blackhole, None, because);
        }
    }

    fn exported(&mut self) {
        for ((address, protocol, port), service) in self.known.exported {
            let id = TranslationId::Service { address: *address, protocol: *protocol, port: *port };
            let translation = Translation::Service { backends: slots(&service.backends), by_source: service.by_source };
            self.translation(id, translation, &format!("{} is exported", service.name));
        }
    }

    /// From this node to the other clusters (F1, F2), and the source kept on the way.
    fn out(&mut self) {
        let known = self.known;
        for cluster in known.remote_clusters.keys() {
            for range in self.ranges(cluster) {
                self.keep_source(range);
                let way = known.ways.get(cluster);
                if way.is_none_or(|way| way.choice.is_none()) {
                    self.leave_as_they_are(range);
                }
                if let Some(way) = way {
                    self.route_out(cluster, range, way);
                }
                self.route_from_overlay(cluster, range);
            }
        }
        self.through_cables();
    }

    fn keep_source(&mut self, range: Cidr) {
        for pods in self.known.pods {
            let because = "the other cluster sees who calls";
            let (ours, theirs) = (*pods, range);
            for (from, to) in [(ours, theirs), (theirs, ours)] {
                self.translation(TranslationId::KeepSource { from, to }, Translation::KeepSource, because);
            }
        }
    }

    fn route_out(&mut self, cluster: &ClusterId, range: Cidr, way: &Way) {
        let known = self.known;
        match way.out {
            Exit::Nowhere => {}
            Exit::Cable(rank) => {
                let link = cable_link(rank);
                if self.wanted.network.links.contains_key(&link) {
                    let because = format!("{cluster} is reached through its candidate {rank}");
                    self.route_into_cable(TABLE_OUT, range, (cluster, rank), &because);
                }
            }
            Exit::Overlay(slot) => {
                let Some(gateway) = known.own.by_slot.get(&slot) else { return };
                let Some(node) = known.nodes.get(&gateway.node) else { return };
                let via = Some(overlay_address(known.cluster, &node.uid));
                let because = format!("{cluster} is reached through {}/{}", known.cluster, gateway.node);
                self.route(TABLE_OUT, range, RouteKind::Out { link: overlay_link(), via }, None, &because);
            }
        }
    }

    /// The next hop behind a cable. A device of WireGuard finds its peer by the destination; one of VXLAN is a network of
    /// cards, of which the one with that address is asked for.
    fn beyond(&self, cluster: &ClusterId, rank: Slot) -> Option<IpAddr> {
        let candidate = self.known.remote.get(cluster)?.by_slot.get(&rank)?;
        (self.known.driver == CableDriver::Vxlan).then_some(candidate.probe)
    }

    /// No path is known, but the daemon's former self may have left one (W2).
    fn leave_as_they_are(&mut self, range: Cidr) {
        for table in [TABLE_OUT, TABLE_FROM_OVERLAY] {
            self.wanted.undecided.insert(Item::Route(RouteId { table, to: range }));
        }
    }

    fn route_from_overlay(&mut self, cluster: &ClusterId, range: Cidr) {
        let rank = self.known.ways.get(cluster).and_then(|way| way.from_overlay);
        if let Some(rank) = rank.filter(|rank| self.wanted.network.links.contains_key(&cable_link(*rank))) {
            let because = format!("what nodes send here for {cluster} goes to its candidate {rank}");
            self.route_into_cable(TABLE_FROM_OVERLAY, range, (cluster, rank), &because);
        } else {
            let because = format!("what comes from the overlay for {cluster} may leave by a cable only");
            self.route(TABLE_FROM_OVERLAY, range, RouteKind::Blackhole, None, &because);
        }
    }

    fn through_cables(&mut self) {
        let cables: Vec<LinkName> = self
            .wanted
            .network
            .links
            .iter()
            .filter(|(_, link)| matches!(link.kind, LinkKind::Cable { .. }))
            .map(|(name, _)| name.clone())
            .collect();
        for cable in cables {
            let because = "segments must fit the cables of both directions";
            self.translation(TranslationId::ClampMss { link: cable.clone() }, Translation::ClampMss, because);
            for (from, to) in [(cable.clone(), overlay_link()), (overlay_link(), cable)] {
                let because = "a gateway may see only one direction of a flow in transit";
                self.translation(TranslationId::Untracked { from, to }, Translation::Untracked, because);
            }
        }
    }

    fn rules(&mut self) {
        let links: Vec<(LinkName, LinkKind)> =
            self.wanted.network.links.iter().map(|(name, link)| (name.clone(), link.kind.clone())).collect();
        for (name, kind) in links {
            let (priority, table) = match kind {
                LinkKind::Cable { rank, .. } => (RULE_FROM_CABLE + u32::from(rank.get()), TABLE_FROM_CABLE),
                LinkKind::Overlay { .. } => (RULE_FROM_OVERLAY, TABLE_FROM_OVERLAY),
                LinkKind::Uplink | LinkKind::Pods => continue,
            };
            self.why(Item::Rule(priority), format!("what comes from {name} has routes of its own"));
            self.wanted.network.rules.insert(priority, Rule { from_link: Some(name), table });
        }
        self.why(Item::Rule(RULE_OUT), "all else finds the way to other clusters here");
        self.wanted.network.rules.insert(RULE_OUT, Rule { from_link: None, table: TABLE_OUT });
    }

    fn sysctls(&mut self) {
        let mut set = |key: &str, value: &str, because: &str| {
            self.wanted.because.insert(Item::Sysctl(key.to_string()), because.to_string());
            self.wanted.network.sysctls.insert(key.to_string(), value.to_string());
        };
        set("net.ipv4.ip_forward", "1", "this node forwards");
        if self.known.candidate.is_some() {
            let because = "a flow that arrives in the middle at a standby goes on";
            set("net.netfilter.nf_conntrack_tcp_loose", "1", because);
        }
    }
}
