//! A scenario after parsing: typed, checked, every name resolved to something that exists.

use crate::{Ability, ApiFault, ApiRef, Daemon};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tombolo_core::base::{Cidr, ClusterId, NodeName};
use tombolo_core::model::{CableDriver, Protocol, ServiceKey};
use tombolo_core::nat::boxes::Behaviour;

/// A whole scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What happens in it, for a person.
    pub about: String,
    /// Public reports, faults (B…) or requirements (R…) it stands for.
    pub origin: Vec<String>,
    /// Abilities it needs beyond the base.
    pub needs: BTreeSet<Ability>,
    /// The clusters.
    pub clusters: BTreeMap<ClusterId, Cluster>,
    /// Where the broker is.
    pub broker: Broker,
    /// How cables carry packets.
    pub cable: CableDriver,
    /// Links between sites.
    pub links: Links,
    /// Services.
    pub workloads: Vec<Workload>,
    /// Faults and acts, in order of time.
    pub timeline: Vec<Act>,
    /// What must hold.
    pub expect: Vec<Expectation>,
}

/// A cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// Pod range.
    pub pods: Cidr,
    /// Service range.
    pub services: Cidr,
    /// Its nodes, in the order written.
    pub nodes: Vec<NodeSpec>,
    /// The NAT box in front of it, if there is one.
    pub nat: Option<Behaviour>,
    /// No daemon of ours runs there before it joins.
    pub apart: bool,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeSpec {
    /// Name.
    pub name: NodeName,
    /// May be a gateway (written with a `*`).
    pub gateway: bool,
}

/// Where the broker is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Broker {
    /// In a member's API.
    Member(ClusterId),
    /// An API of its own, at a site of its own.
    Own,
}

/// Links between sites. A site is a cluster, or the broker's own place.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Links {
    /// Where no pair says otherwise.
    pub default: LinkSpec,
    /// By pair, smaller id first.
    pub pairs: BTreeMap<(ClusterId, ClusterId), LinkSpec>,
}

impl Scenario {
    /// The pod and service ranges that a cluster ever has, and from when on, in order of time.
    pub fn ranges_of<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = (Duration, [Cidr; 2])> + 'a {
        let first = self.clusters.get(cluster).map(|first| (Duration::ZERO, [first.pods, first.services]));
        let rebuilt = self.timeline.iter().filter_map(move |act| {
            let Verb::Rebuild(rebuilt) = &act.verb else { return None };
            (rebuilt.cluster == *cluster).then_some((act.at, [rebuilt.pods, rebuilt.services]))
        });
        first.into_iter().chain(rebuilt)
    }

    /// All pod and service ranges that each cluster ever has.
    pub(crate) fn all_ranges(&self) -> BTreeMap<ClusterId, Vec<Cidr>> {
        let of = |id| self.ranges_of(id).flat_map(|(_, ranges)| ranges).collect();
        self.clusters.keys().map(|id| (id.clone(), of(id))).collect()
    }
}

impl Links {
    /// The link between two sites: of clusters, or the broker's own.
    #[must_use]
    pub fn spec(&self, a: Option<&ClusterId>, b: Option<&ClusterId>) -> LinkSpec {
        let pair = a.zip(b).map(|(a, b)| if a <= b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) });
        pair.and_then(|pair| self.pairs.get(&pair)).copied().unwrap_or(self.default)
    }

    /// Whether packets are lost anywhere by chance.
    #[must_use]
    pub fn lose_packets(&self) -> bool {
        self.pairs.values().chain([&self.default]).any(|link| link.loss_millionths > 0)
    }
}

/// How a link behaves, each way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkSpec {
    /// One-way delay.
    pub latency: Duration,
    /// Added to it, even between 0 and this.
    pub jitter: Duration,
    /// Lost packets in a million.
    pub loss_millionths: u32,
    /// The longest packet that passes, in bytes, headers of cables included.
    pub mtu: u16,
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self { latency: Duration::from_millis(5), jitter: Duration::ZERO, loss_millionths: 0, mtu: 1_500 }
    }
}

/// A service with its pods.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Namespace and name.
    pub service: ServiceKey,
    /// Where it runs.
    pub cluster: ClusterId,
    /// How many pods, placed on the nodes in turn, workers first.
    pub pods: u32,
    /// Ports; the pods listen on the same.
    pub ports: Vec<(u16, Protocol)>,
    /// Exported from the start.
    pub exported: bool,
    /// It has no cluster IP: its name gives the addresses of its pods.
    pub headless: bool,
}

/// A node, by name or by what it does at that moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRef {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Which one.
    pub which: Which,
}

/// See [`NodeRef`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// By name.
    Named(NodeName),
    /// `active-gateway`: holds the lease.
    ActiveGateway,
    /// `gateway-to-<cluster>`: carries the traffic to that cluster.
    GatewayTo(ClusterId),
    /// `last-powered-off`.
    LastPoweredOff,
    /// `last-crashed`: where a daemon was crashed last.
    LastCrashed,
}

/// Something that happens.
#[derive(Clone, PartialEq, Debug)]
pub struct Act {
    /// When, since the start.
    pub at: Duration,
    /// What.
    pub verb: Verb,
}

/// The verbs of the timeline.
#[derive(Clone, PartialEq, Debug)]
pub enum Verb {
    /// The node and everything on it is gone at once.
    PowerOff(NodeRef),
    /// It boots: empty kernel, daemons start anew.
    PowerOn(NodeRef),
    /// A daemon's process is killed; what it left in the kernel stays.
    Crash(NodeRef, Daemons),
    /// It is started again.
    Start(NodeRef, Daemons),
    /// No packet passes from `from` to `to` (nor back, unless `one_way`).
    Cut {
        /// One side.
        from: Side,
        /// The other.
        to: Side,
        /// Only from `from` to `to`.
        one_way: bool,
    },
    /// Ends cuts between these sides, both ways.
    Heal {
        /// One side.
        from: Side,
        /// The other.
        to: Side,
    },
    /// An API behaves like this from now on.
    Api(ApiRef, ApiFault),
    /// A ServiceExport is created.
    Export(ClusterId, ServiceKey),
    /// A ServiceExport is deleted.
    Unexport(ClusterId, ServiceKey),
    /// The node's wall clock is off by this from now on.
    ClockSkew(NodeRef, Skew),
    /// All its clocks run at another rate from now on.
    ClockRate(NodeRef, Rate),
    /// The NAT box of the cluster forgets its mappings.
    NatRemap(ClusterId),
    /// The NAT box of the cluster gets another outside address.
    ChangeAddress(ClusterId),
    /// Tombolo is installed in a cluster that stood apart: its daemons start.
    Join(ClusterId),
    /// It is uninstalled from one: its daemons take away what they have anywhere, and end.
    Leave(ClusterId),
    /// A cluster that is no member is built anew.
    Rebuild(Rebuilt),
    /// No pod of the service is ready any more.
    Unready(ClusterId, ServiceKey),
    /// They are ready again, as far as their nodes are.
    Ready(ClusterId, ServiceKey),
    /// Pods of the service move to another EndpointSlice, and back: for a while they are in two.
    Reslice(ClusterId, ServiceKey),
}

/// A cluster of which nothing but name, site and workloads is as before: another cluster under its name, with other ranges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rebuilt {
    /// Its name.
    pub cluster: ClusterId,
    /// Its pod range from now on.
    pub pods: Cidr,
    /// Its service range from now on.
    pub services: Cidr,
}

/// How far a wall clock is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skew {
    /// It reads more than the true time.
    Ahead(Duration),
    /// It reads less.
    Behind(Duration),
}

/// How much too fast a clock runs, in millionths; below zero: too slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate(pub i32);

/// Which daemons of a node a verb means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Daemons {
    /// This one.
    One(Daemon),
    /// All.
    All,
}

/// One side of a cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Side {
    /// A node.
    Node(NodeRef),
    /// All nodes of a cluster (its API server stands at the same site but is not meant).
    Cluster(ClusterId),
    /// An API server.
    Api(ApiRef),
}

/// What must hold.
#[derive(Clone, PartialEq, Debug)]
pub enum Expectation {
    /// A fresh flow gets through.
    Connect {
        /// When.
        when: When,
        /// From a pod on this node.
        from: NodeRef,
        /// To.
        to: Target,
    },
    /// No flow gets through.
    Refuse {
        /// When.
        when: When,
        /// From a pod on this node.
        from: NodeRef,
        /// To.
        to: Target,
    },
    /// A query of type A gets this answer.
    Dns {
        /// When.
        when: When,
        /// From a pod on this node.
        from: NodeRef,
        /// The name asked for.
        name: String,
        /// `NOERROR`, `NXDOMAIN`, `SERVFAIL`…
        rcode: String,
        /// The services whose cluster IPs the answer may hold, as `cluster/namespace/name`; each answer must hold
        /// addresses of exactly one. Empty: no address.
        any_of: Vec<(ClusterId, ServiceKey)>,
    },
    /// The longest time without a success is at most this.
    Outage {
        /// When.
        during: When,
        /// From a pod on this node.
        from: NodeRef,
        /// To.
        to: Target,
        /// The bound.
        at_most: Duration,
        /// Fresh flows, or one long one.
        flow: Flow,
    },
    /// Nothing moves.
    Unchanged {
        /// When.
        during: When,
        /// What.
        what: Watched,
    },
    /// The clusterset does not take this cluster in: it says so, and the broker shows nothing of it.
    Refused {
        /// When.
        when: When,
        /// Which.
        cluster: ClusterId,
    },
    /// Every plan empty, no write but lease renewals and heartbeats: then and from then on.
    Settled {
        /// When.
        when: When,
    },
}

/// When an expectation is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// At some moment until then, and from then on.
    By(Duration),
    /// All the time between.
    During(Duration, Duration),
    /// From the start to the end.
    Always,
}

/// What a probe aims at.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    /// A name, resolved by the cluster's DNS for each flow, and a port.
    Name(String, u16, Protocol),
    /// An address and a port.
    Address(IpAddr, u16, Protocol),
}

/// The kind of flow that `outage` watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// A new one for each probe.
    New,
    /// One, opened at the start and used all the time.
    Held,
}

/// What `unchanged` watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Watched {
    /// `west/active-gateway`: who holds the lease.
    ActiveGateway(ClusterId),
    /// `west/path-to-east`: the pair of gateways in use.
    PathTo(ClusterId, ClusterId),
}
