//! The objects' fields.

use crate::base::{Cidr, ClusterId, Epoch, Label, NodeName, Slot, Wall};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// A service by its full name within one cluster (or, by namespace sameness, within the clusterset).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ServiceKey {
    /// Namespace.
    pub namespace: Label,
    /// Name.
    pub name: Label,
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Transport protocol of a service port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP, IP protocol 6.
    Tcp,
    /// UDP, IP protocol 17.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// One port of a service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Port {
    /// Its name; may be absent only where the service has one port.
    pub name: Option<Label>,
    /// Its protocol.
    pub protocol: Protocol,
    /// The port clients use.
    pub port: u16,
    /// The port the pods listen on.
    pub target: u16,
}

/// What the routes of a clusterset are made of, and how a service is reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum ServiceType {
    /// Has a cluster IP.
    ClusterIp,
    /// `clusterIP: None`: names give the pods' addresses.
    Headless,
    /// An alias of an outside name; cannot be exported.
    ExternalName,
}

/// A node of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Name.
    pub name: NodeName,
    /// UID of the Node object: overlay addresses are derived from it.
    pub uid: String,
    /// `status.addresses` of type InternalIP.
    pub addresses: Vec<IpAddr>,
    /// `spec.podCIDRs`.
    pub pod_ranges: Vec<Cidr>,
    /// Label `submariner.io/gateway=true`: may be a gateway (R27).
    pub gateway: bool,
}

/// A service as its cluster has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Namespace and name.
    pub key: ServiceKey,
    /// Type.
    pub service_type: ServiceType,
    /// `spec.clusterIPs`; empty if headless.
    pub cluster_ips: Vec<IpAddr>,
    /// Ports.
    pub ports: Vec<Port>,
    /// `sessionAffinity: ClientIP`.
    pub client_ip_affinity: bool,
}

/// One backend of a service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Backend {
    /// Pod address.
    pub address: IpAddr,
    /// Node it runs on, if known.
    pub node: Option<NodeName>,
    /// `conditions.ready`, true if absent.
    pub ready: bool,
}

/// Backends of one service, one address family.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EndpointSlice {
    /// Namespace of the slice and its service.
    pub namespace: Label,
    /// Name of the slice.
    pub name: String,
    /// Label `kubernetes.io/service-name`.
    pub service: Label,
    /// The backends.
    pub backends: Vec<Backend>,
}

/// The wish to export the service of the same name (MCS API).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServiceExport {
    /// Namespace and name of the export and of its service.
    pub key: ServiceKey,
    /// `metadata.creationTimestamp`: the oldest export wins conflicts.
    pub created: Wall,
}

/// The lock that elects who announces for a cluster (`coordination.k8s.io/v1` Lease).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// Name of the Lease object.
    pub name: String,
    /// `holderIdentity`: unique for each process; none after a clean release.
    pub holder: Option<String>,
    /// `leaseDurationSeconds`.
    pub duration: Duration,
    /// `acquireTime`.
    pub acquired: Wall,
    /// `renewTime`. Never compared with a local clock.
    pub renewed: Wall,
    /// `leaseTransitions`: grows when the holder changes.
    pub transitions: u32,
    /// Annotation `tombolo.dev/epoch`: the fencing number of this term.
    pub epoch: Epoch,
}

/// How packets are carried between clusters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum CableDriver {
    /// WireGuard (R40). The default.
    Wireguard,
    /// VXLAN, unencrypted (R41).
    Vxlan,
    /// IPsec (R39).
    Ipsec,
}

impl fmt::Display for CableDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Wireguard => "wireguard",
            Self::Vxlan => "vxlan",
            Self::Ipsec => "ipsec",
        })
    }
}

/// The public key of one cable device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CableKey(pub [u8; 32]);

impl fmt::Display for CableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take(4) {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("…")
    }
}

impl fmt::Debug for CableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether a remote cluster is reached. Three-valued: unknown is not no (F9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Reach {
    /// A live choice of path exists.
    Connected,
    /// Not known yet, e.g. after a start.
    Unknown,
    /// A choice existed and is dead: data-path evidence.
    Lost,
}

/// One candidate's own card (`submariner.io/v1` Gateway, name = node). The compatibility heartbeat of its annotation is
/// the kube hand's business.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gateway {
    /// The node.
    pub node: NodeName,
    /// The address other clusters dial.
    pub address: IpAddr,
    /// Public key of its cable device for each remote rank.
    pub keys: Vec<CableKey>,
    /// `haStatus: active`: it holds the lease, in this epoch.
    pub active: Option<Epoch>,
    /// What it reaches.
    pub reach: BTreeMap<ClusterId, Reach>,
}

/// What a cluster is (`submariner.io/v1` Cluster).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Id, also the object's name.
    pub cluster: ClusterId,
    /// `cluster_cidr`: pod ranges.
    pub pods: Vec<Cidr>,
    /// `service_cidr`.
    pub services: Vec<Cidr>,
    /// Epoch of the announcer, in our annotation.
    pub epoch: Epoch,
}

/// The one announced gateway of a cluster (`submariner.io/v1` Endpoint): what plain peers dial.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// Whose.
    pub cluster: ClusterId,
    /// `submariner-cable-<cluster>-<private ip with dashes>`.
    pub cable_name: String,
    /// `hostname`: the gateway node.
    pub node: NodeName,
    /// `private_ip`.
    pub private_ip: IpAddr,
    /// `public_ip`.
    pub public_ip: Option<IpAddr>,
    /// `subnets`: all ranges reached through it.
    pub subnets: Vec<Cidr>,
    /// `backend`.
    pub driver: CableDriver,
    /// Epoch of the announcer, in our annotation.
    pub epoch: Epoch,
}

/// One gateway candidate as other clusters need it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Candidate {
    /// Its node.
    pub node: NodeName,
    /// The address to dial.
    pub address: IpAddr,
    /// Public key of its cable device for each remote rank.
    pub keys: Vec<CableKey>,
    /// Its address inside the cables: hellos go there. Unique in the clusterset.
    pub probe: IpAddr,
}

/// All gateway candidates of a cluster (`tombolo.dev`, name = cluster id): standbys are advertised here and never as
/// a second Endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Candidates {
    /// Whose.
    pub cluster: ClusterId,
    /// Epoch of the announcer.
    pub epoch: Epoch,
    /// By rank. A slot given to another node gets another key.
    pub by_slot: BTreeMap<Slot, Candidate>,
}

/// One cluster's export of one service (`tombolo.dev`, name `<cluster>.<service>.<namespace>`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExportRecord {
    /// The exporting cluster.
    pub cluster: ClusterId,
    /// What it exports.
    pub key: ServiceKey,
    /// Type.
    pub service_type: ServiceType,
    /// Ports.
    pub ports: Vec<Port>,
    /// Cluster IPs (global ones with GlobalNet).
    pub addresses: Vec<IpAddr>,
    /// Whether a backend is ready.
    pub ready: bool,
    /// Creation of the ServiceExport.
    pub created: Wall,
}

/// One exporting cluster, as an import shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Source {
    /// Addresses to answer with.
    pub addresses: Vec<IpAddr>,
    /// Whether a backend is ready there.
    pub ready: bool,
}

/// A service of the clusterset in an importing cluster (MCS ServiceImport).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Import {
    /// Namespace and name.
    pub key: ServiceKey,
    /// Type after the merge.
    pub service_type: ServiceType,
    /// Ports after the merge.
    pub ports: BTreeSet<Port>,
    /// Exporting clusters.
    pub sources: BTreeMap<ClusterId, Source>,
}
