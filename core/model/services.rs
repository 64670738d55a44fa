//! Services: as their cluster has them, as it exports them, and as the clusterset offers them.

use super::{Digest, Families, Family};
use crate::base::{ClusterId, Few, FewBy, Label, NodeName, Wall};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
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

/// One port, as clients know it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Port {
    /// Its name; may be absent only where the service has one port.
    pub name: Option<Label>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number. In a slice: where its endpoints listen.
    pub port: u16,
    /// `appProtocol`: what is spoken there.
    pub app_protocol: Option<String>,
}

/// Where the pods of a service listen, for one of its ports.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum TargetPort {
    /// On this port.
    Number(u16),
    /// On a port of this name, which each pod may give another number: its slice tells.
    Named(String),
}

/// One port of a service of a cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ServicePort {
    /// As clients know it.
    pub port: Port,
    /// `targetPort`.
    pub target: TargetPort,
}

/// `sessionAffinity`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum SessionAffinity {
    /// None.
    #[default]
    None,
    /// `ClientIP`: a client stays with its backend.
    ClientIp {
        /// `sessionAffinityConfig.clientIP.timeoutSeconds`: for so long after it was heard last.
        timeout_s: u32,
    },
}

/// `internalTrafficPolicy`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum InternalTrafficPolicy {
    /// To backends anywhere.
    #[default]
    Cluster,
    /// To those on the client's node.
    Local,
}

/// How a service is reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum ServiceType {
    /// Has a cluster IP.
    ClusterIp,
    /// `clusterIP: None`: names give the pods' addresses.
    Headless,
    /// An alias of an outside name; cannot be exported.
    ExternalName,
}

/// A namespace of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Namespace {
    /// Name.
    pub name: Label,
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
    /// `spec.ipFamilies`.
    pub families: Vec<Family>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// `spec.sessionAffinity`, with its time.
    pub affinity: SessionAffinity,
    /// `spec.internalTrafficPolicy`.
    pub internal_traffic: InternalTrafficPolicy,
    /// `spec.trafficDistribution`.
    pub traffic_distribution: Option<String>,
}

/// One backend of a service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Backend {
    /// Pod address.
    pub address: IpAddr,
    /// Node it runs on, if known.
    pub node: Option<NodeName>,
    /// `hostname`, as pods of a StatefulSet have one.
    pub hostname: Option<Label>,
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
    /// On which ports all of them listen, by the names of the service's ports.
    pub ports: Vec<Port>,
}

/// The wish to export the service of the same name (MCS API), and what became of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServiceExport {
    /// Namespace and name of the export and of its service.
    pub key: ServiceKey,
    /// `metadata.creationTimestamp`: the oldest export wins conflicts.
    pub created: Wall,
    /// `spec.exportedLabels`: the import gets them.
    pub labels: BTreeMap<String, String>,
    /// `spec.exportedAnnotations`: the import gets them.
    pub annotations: BTreeMap<String, String>,
    /// `status.conditions`, those that are ours.
    pub conditions: BTreeMap<ConditionType, Condition>,
}

impl ServiceExport {
    /// One that asks for nothing special, and of which nothing has come yet.
    #[must_use]
    pub const fn new(key: ServiceKey, created: Wall) -> Self {
        Self { key, created, labels: BTreeMap::new(), annotations: BTreeMap::new(), conditions: BTreeMap::new() }
    }
}

/// The conditions of a ServiceExport (MCS API).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ConditionType {
    /// The export and its service can be exported.
    Valid,
    /// It is published to the clusterset.
    Ready,
    /// Exports of that name disagree.
    Conflict,
}

impl ConditionType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Valid, Self::Ready, Self::Conflict];
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One condition (`metav1.Condition`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Condition {
    /// True, false, or `None`: unknown.
    pub status: Option<bool>,
    /// Why, in one word, or several with commas between.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// `lastTransitionTime`: since when the status has been this.
    pub since: Wall,
}

/// What a service offers its clients, on which exports of one name can disagree (KEP-1645, "Constraints and Conflict
/// Resolution").
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Offer {
    /// Type; never an alias.
    pub service_type: ServiceType,
    /// Ports.
    pub ports: Few<Port>,
    /// Address families.
    pub families: Families,
    /// Session affinity.
    pub affinity: SessionAffinity,
    /// Internal traffic policy.
    pub internal_traffic: InternalTrafficPolicy,
    /// Traffic distribution.
    pub traffic_distribution: Option<String>,
    /// Exported labels.
    pub labels: BTreeMap<String, String>,
    /// Exported annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Offer {
    /// One with these ports and families, and for the rest what a service has that says nothing about it.
    #[must_use]
    pub const fn new(service_type: ServiceType, ports: Few<Port>, families: Families) -> Self {
        Self {
            service_type,
            ports,
            families,
            affinity: SessionAffinity::None,
            internal_traffic: InternalTrafficPolicy::Cluster,
            traffic_distribution: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }
}

/// One cluster's export of one service (`tombolo.dev`, name `<cluster>.<service>.<namespace>`). Its endpoints are in
/// [`SourceSlice`]s beside it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExportRecord {
    /// The exporting cluster.
    pub cluster: ClusterId,
    /// What it exports.
    pub key: ServiceKey,
    /// Creation of the ServiceExport.
    pub created: Wall,
    /// What it offers.
    pub offer: Arc<Offer>,
}

/// A service of the clusterset in an importing cluster (MCS ServiceImport). Its endpoints are in [`SourceSlice`]s beside
/// it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Import {
    /// Namespace and name.
    pub key: ServiceKey,
    /// What it offers, after the merge.
    pub offer: Arc<Offer>,
    /// Exporting clusters, and when each began.
    pub sources: FewBy<ClusterId, Wall>,
}

/// One endpoint of a [`SourceSlice`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct SourceEndpoint {
    /// Cluster IP of the service (a global one with GlobalNet); of a headless service, the address of a pod.
    pub address: IpAddr,
    /// The pod's host name, if it has one.
    pub hostname: Option<Label>,
    /// Whether it, or some backend behind a cluster IP, is ready.
    pub ready: bool,
}

/// Endpoints of one service in one exporting cluster, of one address family: an EndpointSlice with the labels of the MCS
/// API, at the broker and in each importing cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceSlice {
    /// Label `multicluster.kubernetes.io/source-cluster`.
    pub cluster: ClusterId,
    /// Label `multicluster.kubernetes.io/service-name`, and the service's namespace.
    pub key: ServiceKey,
    /// Address family.
    pub family: Family,
    /// Tells the slices of one cluster, service and family apart.
    pub number: u16,
    /// At most [`SourceSlice::ENDPOINTS_MAX`].
    pub endpoints: Few<SourceEndpoint>,
    /// Where they listen. Of a cluster IP, the service's ports.
    pub ports: Few<Port>,
}

impl SourceSlice {
    /// As many as Kubernetes' own controllers put into one.
    pub const ENDPOINTS_MAX: usize = 100;
}

/// Says that what a cluster has at the broker is all that it exports (`tombolo.dev`, name = cluster id): what is not among
/// its records and slices any more has ended. In its own API it says that of what it imports. Its discovery writes it when
/// all of them are there. It speaks for an API only that shows just the objects it names: it may have been written into one
/// that had lost them a moment ago.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExportSummary {
    /// Whose.
    pub cluster: ClusterId,
    /// Grows whenever an object comes or goes. An API that was restored from a backup shows a lower one than before.
    pub generation: u64,
    /// Of the keys of all these objects.
    pub digest: Digest,
}
