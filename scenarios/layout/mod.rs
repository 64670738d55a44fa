//! Who is where. A scenario names clusters, nodes and services; this page gives each an address, always the same one,
//! in the simulator and in the lab.
//!
//! ```text
//! site s           1, 2, … in order of cluster id; 0 is the broker's, where it has an API of its own
//! site router      172.16.s.1           knows where every host of every site is, and nothing else
//! NAT box          198.18.s.1           outside, where a site has one; after changes 198.19.s.1, 198.18.s.2, …
//! API server       172.16.s.2
//! node n           172.16.s.(10+n)/24   n counts from 0
//!   pod range      the (n+1)-th /24 of the cluster's pods; its first address is the node's own, on the pods' link
//!   probe pod      the second address   where probes come from
//!   workload pods  from the tenth on
//! service i        the (10+i)-th address of its cluster's service range; i counts all services of the scenario
//! ```
//! UIDs and keys are hashes of names: not secret, and equal in every run.

use crate::{ApiRef, Broker, Cluster, Host, NodeSpec, Rebuilt, Scenario, Workload};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use tombolo_core::base::hash::{fnv1a, fnv1a_more, mix};
use tombolo_core::base::{Cidr, ClusterId, NodeName};
use tombolo_core::model::{CableKey, Protocol, ServiceKey};
use tombolo_core::nat::boxes::Behaviour;

mod base;
mod objects;
#[cfg(test)]
mod tests;

pub use base::{PODS, UPLINK, outside, router};
pub use objects::{START, export};

/// How many cable devices a gateway can have: one for each remote rank.
const CABLE_KEYS: usize = 4;
/// Place of a node's first workload pod in its range.
const FIRST_POD: u128 = 10;
/// Place of the first service in its range.
const FIRST_SERVICE: u128 = 10;
/// Place of a site's first node in its subnet.
const FIRST_NODE: usize = 10;
/// Length of a node's pod range.
const POD_RANGE_LEN: u8 = 24;

/// Number of a host, from 0 in order of cluster id and, within a cluster, as the scenario lists them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub usize);

/// A host and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostLayout {
    /// Its name.
    pub host: Host,
    /// Its site.
    pub site: u8,
    /// Its address in the site's subnet.
    pub address: IpAddr,
    /// What it has if it is a node.
    pub node: Option<NodeLayout>,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeLayout {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its name.
    pub name: NodeName,
    /// May be a gateway.
    pub gateway: bool,
    /// UID of its Node object.
    pub uid: String,
    /// Range of its pods.
    pub pod_range: Cidr,
    /// Its own address on the pods' link.
    pub bridge: IpAddr,
    /// The pod where probes come from.
    pub probe_pod: IpAddr,
    /// Public keys of its cable devices, by remote rank.
    pub cable_keys: [CableKey; CABLE_KEYS],
}

/// A pod of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pod {
    /// Its address.
    pub address: IpAddr,
    /// The node it runs on.
    pub node: HostId,
}

/// A service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceLayout {
    /// Namespace and name.
    pub key: ServiceKey,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its cluster IP.
    pub cluster_ip: IpAddr,
    /// Ports; the pods listen on the same.
    pub ports: Vec<(u16, Protocol)>,
    /// Its pods.
    pub pods: Vec<Pod>,
    /// Exported from the start.
    pub exported: bool,
    /// Its cluster IP is nobody's.
    pub headless: bool,
}

/// Why a scenario does not fit into the world's address plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// The sites are 172.16.1 to 172.16.255.
    #[error("{clusters} clusters: there is room for 255")]
    TooManyClusters {
        /// How many there are.
        clusters: usize,
    },
    /// The nodes of a site are .10 to .254.
    #[error("cluster {cluster} has {nodes} nodes: a site has room for 245")]
    TooManyNodes {
        /// Where.
        cluster: ClusterId,
        /// How many there are.
        nodes: usize,
    },
    /// Only IPv4 is played.
    #[error("range {range} of cluster {cluster} is not IPv4: there are no IPv6 pods or services yet")]
    NotIpv4 {
        /// Whose.
        cluster: ClusterId,
        /// The range.
        range: Cidr,
    },
    /// Each node gets a /24 and the first is left free.
    #[error("pods {range} of cluster {cluster} have no /24 for node {node}: take a shorter prefix")]
    NoPodRange {
        /// Whose.
        cluster: ClusterId,
        /// Its pod range.
        range: Cidr,
        /// The node that gets none.
        node: NodeName,
    },
    /// A node's range is full.
    #[error("service {service} of cluster {cluster}: pod {pod} finds no free address on its node")]
    NoPodAddress {
        /// Whose.
        cluster: ClusterId,
        /// Its service.
        service: ServiceKey,
        /// Number of the pod, from 1.
        pod: u32,
    },
    /// The service range is full.
    #[error("services {range} of cluster {cluster} have no address for service {service}")]
    NoClusterIp {
        /// Whose.
        cluster: ClusterId,
        /// Its service range.
        range: Cidr,
        /// The service that gets none.
        service: ServiceKey,
    },
    /// A service in a cluster that is not there, or that has no node.
    #[error("service {service} is to run in cluster {cluster}, which has no node")]
    NoNode {
        /// Where.
        cluster: ClusterId,
        /// Its service.
        service: ServiceKey,
    },
}

/// Everything's place. See the module docs.
#[derive(Clone, PartialEq, Debug)]
pub struct Layout {
    hosts: Vec<HostLayout>,
    workloads: Vec<Workload>,
    services: Vec<ServiceLayout>,
    by_host: BTreeMap<Host, HostId>,
    by_address: BTreeMap<IpAddr, HostId>,
    ranges: BTreeMap<ClusterId, (Cidr, Cidr)>,
    /// How often each cluster was built anew.
    rebuilds: BTreeMap<ClusterId, u32>,
    /// The NAT box of each site; the broker's own site has none.
    nats: Vec<Option<Behaviour>>,
}

impl Layout {
    /// Gives everything in `scenario` its place.
    ///
    /// # Errors
    /// A [`LayoutError`] where the address plan has no room.
    pub fn of(scenario: &Scenario) -> Result<Self, LayoutError> {
        let mut layout = Self {
            hosts: Vec::new(),
            workloads: Vec::new(),
            services: Vec::new(),
            by_host: BTreeMap::new(),
            by_address: BTreeMap::new(),
            rebuilds: BTreeMap::new(),
            ranges: scenario.clusters.iter().map(|(id, c)| (id.clone(), (c.pods, c.services))).collect(),
            nats: core::iter::once(None).chain(scenario.clusters.values().map(|cluster| cluster.nat)).collect(),
        };
        if scenario.broker == Broker::Own {
            layout.add(Host::Api(ApiRef::Broker), 0, 2, None);
        }
        for (index, (id, cluster)) in scenario.clusters.iter().enumerate() {
            let site = u8::try_from(index + 1)
                .map_err(|_| LayoutError::TooManyClusters { clusters: scenario.clusters.len() })?;
            layout.add_site(site, id, cluster)?;
        }
        layout.workloads.clone_from(&scenario.workloads);
        layout.place_all()?;
        Ok(layout)
    }

    /// The same, but for one cluster that is built anew: its ranges are others, and so is all that has its address or its
    /// identity from there.
    ///
    /// # Errors
    /// A [`LayoutError`] where the new ranges have no room.
    pub fn rebuilt(&self, rebuilt: &Rebuilt) -> Result<Self, LayoutError> {
        let Rebuilt { cluster: id, pods, services } = rebuilt;
        let mut layout = self.clone();
        layout.ranges.insert(id.clone(), (*pods, *services));
        let rebuilds = layout.rebuilds.entry(id.clone()).or_default();
        *rebuilds += 1;
        let rebuilds = *rebuilds;
        refuse_ipv6(id, [*pods, *services])?;
        let nodes = layout.hosts.iter_mut().filter_map(|host| host.node.as_mut()).filter(|node| node.cluster == *id);
        for (n, node) in nodes.enumerate() {
            let (name, gateway) = (node.name.clone(), node.gateway);
            *node = NodeLayout::of(id, &NodeSpec { name, gateway }, n, *pods, rebuilds)?;
        }
        layout.place_all()?;
        Ok(layout)
    }

    /// Places all workloads.
    fn place_all(&mut self) -> Result<(), LayoutError> {
        let mut taken = BTreeMap::new();
        let workloads = self.workloads.iter().enumerate();
        self.services =
            workloads.map(|(index, workload)| self.place(index, workload, &mut taken)).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn add(&mut self, host: Host, site: u8, last: u8, node: Option<NodeLayout>) {
        let id = HostId(self.hosts.len());
        let address = IpAddr::V4(Ipv4Addr::new(172, 16, site, last));
        self.by_host.insert(host.clone(), id);
        self.by_address.insert(address, id);
        self.hosts.push(HostLayout { host, site, address, node });
    }

    fn add_site(&mut self, site: u8, id: &ClusterId, cluster: &Cluster) -> Result<(), LayoutError> {
        refuse_ipv6(id, [cluster.pods, cluster.services])?;
        self.add(Host::Api(ApiRef::Cluster(id.clone())), site, 2, None);
        for (n, spec) in cluster.nodes.iter().enumerate() {
            let last = u8::try_from(FIRST_NODE + n)
                .ok()
                .filter(|last| *last < 255)
                .ok_or_else(|| LayoutError::TooManyNodes { cluster: id.clone(), nodes: cluster.nodes.len() })?;
            let node = NodeLayout::of(id, spec, n, cluster.pods, 0)?;
            self.add(Host::Node(id.clone(), spec.name.clone()), site, last, Some(node));
        }
        Ok(())
    }

    /// Places the pods of `workload` on the nodes of its cluster in turn, workers first. `taken` counts the pods that a
    /// node has already.
    fn place(
        &self,
        index: usize,
        workload: &Workload,
        taken: &mut BTreeMap<HostId, u128>,
    ) -> Result<ServiceLayout, LayoutError> {
        let (cluster, service) = (workload.cluster.clone(), workload.service.clone());
        let mut nodes: Vec<(HostId, &NodeLayout)> = self.nodes_of(&cluster).collect();
        nodes.sort_by_key(|(_, node)| node.gateway);
        let Some((_, range)) = self.ranges.get(&cluster).filter(|_| !nodes.is_empty()) else {
            return Err(LayoutError::NoNode { cluster, service });
        };
        let mut pods = Vec::new();
        for (number, (id, node)) in (1..=workload.pods).zip(nodes.iter().cycle()) {
            let count = taken.entry(*id).or_default();
            // The last address of the range is its broadcast address.
            let address = node.pod_range.nth(FIRST_POD + *count).filter(|a| node.pod_range.nth(255) != Some(*a));
            let Some(address) = address else {
                return Err(LayoutError::NoPodAddress { cluster, service, pod: number });
            };
            *count += 1;
            pods.push(Pod { address, node: *id });
        }
        let place = u128::try_from(index).unwrap_or(u128::MAX).saturating_add(FIRST_SERVICE);
        let Some(cluster_ip) = range.nth(place) else {
            return Err(LayoutError::NoClusterIp { cluster, range: *range, service });
        };
        let ports = workload.ports.clone();
        let Workload { exported, headless, .. } = *workload;
        Ok(ServiceLayout { key: service, cluster, cluster_ip, ports, pods, exported, headless })
    }

    /// All hosts, by number.
    #[must_use]
    pub fn hosts(&self) -> &[HostLayout] {
        &self.hosts
    }

    /// The host of that number.
    #[must_use]
    pub fn host(&self, id: HostId) -> Option<&HostLayout> {
        self.hosts.get(id.0)
    }

    /// The number of a host.
    #[must_use]
    pub fn find(&self, host: &Host) -> Option<HostId> {
        self.by_host.get(host).copied()
    }

    /// The number of a node.
    #[must_use]
    pub fn find_node(&self, cluster: &ClusterId, node: &NodeName) -> Option<HostId> {
        self.find(&Host::Node(cluster.clone(), node.clone()))
    }

    /// The host that has this address in a site's subnet.
    #[must_use]
    pub fn owner(&self, address: IpAddr) -> Option<HostId> {
        self.by_address.get(&address).copied()
    }

    /// The nodes of a cluster, in the order written.
    pub fn nodes_of<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = (HostId, &'a NodeLayout)> {
        self.nodes().filter(move |(_, node)| node.cluster == *cluster)
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (HostId, &NodeLayout)> {
        self.hosts.iter().enumerate().filter_map(|(i, host)| host.node.as_ref().map(|node| (HostId(i), node)))
    }

    /// All services, in the order written.
    #[must_use]
    pub fn services(&self) -> &[ServiceLayout] {
        &self.services
    }

    /// The NAT box in front of each site, by number of the site.
    #[must_use]
    pub fn nats(&self) -> &[Option<Behaviour>] {
        &self.nats
    }

    /// The number of a cluster's site.
    #[must_use]
    pub fn site_of(&self, cluster: &ClusterId) -> Option<u8> {
        self.find(&Host::Api(ApiRef::Cluster(cluster.clone()))).and_then(|host| self.host(host)).map(|host| host.site)
    }

    /// Pod and service range of a cluster.
    #[must_use]
    pub fn ranges(&self, cluster: &ClusterId) -> Option<(Cidr, Cidr)> {
        self.ranges.get(cluster).copied()
    }

    /// UID of a cluster's namespace `kube-system`.
    #[must_use]
    pub fn cluster_uid(&self, cluster: &ClusterId) -> String {
        let hash = fnv1a_more(fnv1a(b"cluster\0"), cluster.as_str().as_bytes());
        uuid(renewed(hash, self.rebuilds.get(cluster).copied().unwrap_or_default()))
    }

    /// The clusters, in order.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        self.ranges.keys()
    }

    /// Where daemons that run once a cluster are: the first node that is no gateway, else the first.
    #[must_use]
    pub fn home_of_singletons(&self, cluster: &ClusterId) -> Option<HostId> {
        let first_worker = self.nodes_of(cluster).find(|(_, node)| !node.gateway);
        first_worker.or_else(|| self.nodes_of(cluster).next()).map(|(id, _)| id)
    }
}

impl NodeLayout {
    /// The `n`-th node of a cluster that was built anew so often.
    fn of(id: &ClusterId, spec: &NodeSpec, n: usize, pods: Cidr, rebuilds: u32) -> Result<Self, LayoutError> {
        let no_range = || LayoutError::NoPodRange { cluster: id.clone(), range: pods, node: spec.name.clone() };
        let index = u32::try_from(n + 1).map_err(|_| no_range())?;
        let pod_range = pods.subrange(POD_RANGE_LEN, index).ok_or_else(no_range)?;
        Ok(Self {
            cluster: id.clone(),
            name: spec.name.clone(),
            gateway: spec.gateway,
            uid: uuid(node_hash("uid", id, &spec.name, rebuilds)),
            pod_range,
            bridge: pod_range.nth(1).ok_or_else(no_range)?,
            probe_pod: pod_range.nth(2).ok_or_else(no_range)?,
            cable_keys: std::array::from_fn(|rank| cable_key(id, &spec.name, rank + 1, rebuilds)),
        })
    }
}

fn refuse_ipv6(id: &ClusterId, ranges: [Cidr; 2]) -> Result<(), LayoutError> {
    match ranges.into_iter().find(|range| !range.is_ipv4()) {
        Some(range) => Err(LayoutError::NotIpv4 { cluster: id.clone(), range }),
        None => Ok(()),
    }
}

fn name_hash(salt: &str, cluster: &ClusterId, node: &NodeName) -> u64 {
    // The zero bytes keep (a, bc) and (ab, c) apart.
    let hash = fnv1a_more(fnv1a(salt.as_bytes()), b"\0");
    let hash = fnv1a_more(fnv1a_more(hash, cluster.as_str().as_bytes()), b"\0");
    fnv1a_more(hash, node.as_str().as_bytes())
}

/// Another one each time the cluster is built anew.
fn node_hash(salt: &str, cluster: &ClusterId, node: &NodeName, rebuilds: u32) -> u64 {
    renewed(name_hash(salt, cluster, node), rebuilds)
}

fn renewed(hash: u64, rebuilds: u32) -> u64 {
    (0..rebuilds).fold(hash, |hash, _| mix(hash))
}

/// In the form that Kubernetes gives (version and variant bits of a random UUID).
fn uuid(hash: u64) -> String {
    let (a, b) = (mix(hash), mix(hash.wrapping_add(1)));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        0x8000 | ((b >> 48) & 0x3fff),
        b & 0xffff_ffff_ffff
    )
}

fn cable_key(cluster: &ClusterId, node: &NodeName, rank: usize, rebuilds: u32) -> CableKey {
    let hash = node_hash(&format!("cable-{rank}"), cluster, node, rebuilds);
    let mut key = [0; 32];
    for (chunk, part) in key.chunks_exact_mut(8).zip(0_u64..) {
        chunk.copy_from_slice(&mix(hash.wrapping_add(part)).to_be_bytes());
    }
    CableKey(key)
}
