//! Clusters: their nodes, their gateways, and what they tell each other about these.

use crate::base::{Cidr, ClusterId, Epoch, NodeName, Slot, Wall};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use serde::{Deserialize, Serialize};

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
    /// Its private address, which other clusters dial if they can.
    pub address: IpAddr,
    /// Its public address, if it is another one: then it is behind NAT.
    pub public: Option<IpAddr>,
    /// Where it takes part in NAT discovery, if it does.
    pub discovery_port: Option<u16>,
    /// Public key of its cable device for each remote rank.
    pub keys: Vec<CableKey>,
    /// `haStatus: active`: it holds the lease, in this epoch.
    pub active: Option<Epoch>,
    /// What it reaches.
    pub reach: BTreeMap<ClusterId, Reach>,
    /// What people should know of its connections to them.
    pub remarks: BTreeMap<ClusterId, String>,
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
    /// `nat_enabled`: it says of itself that it is behind NAT.
    pub nat_enabled: bool,
    /// `natt-discovery-port` of its `backend_config`: where it takes part in NAT discovery, if it does.
    pub discovery_port: Option<u16>,
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
    /// Its private address: the one to dial, if it answers there.
    pub address: IpAddr,
    /// Its public address, if it is another one: then it is behind NAT.
    pub public: Option<IpAddr>,
    /// Where it takes part in NAT discovery, if it does.
    pub discovery_port: Option<u16>,
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
