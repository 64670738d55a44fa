//! Any object, and its identity.

use super::{
    Candidates, Claims, ClusterRecord, Endpoint, EndpointSlice, ExportRecord, ExportSummary, Gateway, Import, Key,
    Kind, Lease, Namespace, Node, Service, ServiceExport, SourceSlice,
};
use crate::base::hash::{fnv1a, mix};
use crate::base::{ClusterId, Epoch};
use alloc::format;
use alloc::sync::Arc;
use serde::{Deserialize, Serialize};

/// An object of any kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each variant is documented by its type")]
pub enum Object {
    Namespace(Namespace),
    Node(Node),
    Service(Service),
    EndpointSlice(EndpointSlice),
    ServiceExport(ServiceExport),
    Lease(Lease),
    Gateway(Gateway),
    Cluster(ClusterRecord),
    Endpoint(Endpoint),
    Candidates(Candidates),
    Claims(Claims),
    ExportRecord(ExportRecord),
    ExportSummary(ExportSummary),
    Import(Import),
    SourceSlice(SourceSlice),
}

impl Object {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Namespace(_) => Kind::Namespace,
            Self::Node(_) => Kind::Node,
            Self::Service(_) => Kind::Service,
            Self::EndpointSlice(_) => Kind::EndpointSlice,
            Self::ServiceExport(_) => Kind::ServiceExport,
            Self::Lease(_) => Kind::Lease,
            Self::Gateway(_) => Kind::Gateway,
            Self::Cluster(_) => Kind::Cluster,
            Self::Endpoint(_) => Kind::Endpoint,
            Self::Candidates(_) => Kind::Candidates,
            Self::Claims(_) => Kind::Claims,
            Self::ExportRecord(_) => Kind::ExportRecord,
            Self::ExportSummary(_) => Kind::ExportSummary,
            Self::Import(_) => Kind::Import,
            Self::SourceSlice(_) => Kind::SourceSlice,
        }
    }

    /// The cluster that has it at the broker: whose announcement it is, or whose export. `None` if it is neither.
    #[must_use]
    pub fn cluster(&self) -> Option<&ClusterId> {
        match self {
            Self::ExportRecord(record) => Some(&record.cluster),
            Self::ExportSummary(summary) => Some(&summary.cluster),
            Self::SourceSlice(slice) => Some(&slice.cluster),
            Self::Cluster(_)
            | Self::Endpoint(_)
            | Self::Candidates(_)
            | Self::Namespace(_)
            | Self::Node(_)
            | Self::Service(_)
            | Self::EndpointSlice(_)
            | Self::ServiceExport(_)
            | Self::Lease(_)
            | Self::Gateway(_)
            | Self::Claims(_)
            | Self::Import(_) => Some(self.announced()?.0),
        }
    }

    /// Whose announcement it is, and of which term. `None` if it is none.
    #[must_use]
    pub fn announced(&self) -> Option<(&ClusterId, Epoch)> {
        match self {
            Self::Cluster(o) => Some((&o.cluster, o.epoch)),
            Self::Endpoint(o) => Some((&o.cluster, o.epoch)),
            Self::Candidates(o) => Some((&o.cluster, o.epoch)),
            Self::Namespace(_)
            | Self::Node(_)
            | Self::Service(_)
            | Self::EndpointSlice(_)
            | Self::ServiceExport(_)
            | Self::Lease(_)
            | Self::Gateway(_)
            | Self::Claims(_)
            | Self::ExportRecord(_)
            | Self::ExportSummary(_)
            | Self::Import(_)
            | Self::SourceSlice(_) => None,
        }
    }

    /// Its identity within an API.
    #[must_use]
    pub fn key(&self) -> Key {
        let none: Arc<str> = "".into();
        let (namespace, name): (Arc<str>, Arc<str>) = match self {
            Self::Namespace(o) => (none, o.name.as_str().into()),
            Self::Node(o) => (none, o.name.as_str().into()),
            Self::Service(o) => (o.key.namespace.as_str().into(), o.key.name.as_str().into()),
            Self::EndpointSlice(o) => (o.namespace.as_str().into(), o.name.as_str().into()),
            Self::ServiceExport(o) => (o.key.namespace.as_str().into(), o.key.name.as_str().into()),
            Self::Lease(o) => (none, o.name.as_str().into()),
            Self::Gateway(o) => (none, o.node.as_str().into()),
            Self::Cluster(o) => (none, o.cluster.as_str().into()),
            Self::Endpoint(o) => (none, format!("{}-{}", o.cluster, o.cable_name).into()),
            Self::Candidates(o) => (none, o.cluster.as_str().into()),
            // One for all members, so that two that claim at once meet (B34).
            Self::Claims(_) => (none, "clusterset".into()),
            Self::ExportSummary(o) => (none, o.cluster.as_str().into()),
            Self::ExportRecord(o) => (none, format!("{}.{}.{}", o.cluster, o.key.name, o.key.namespace).into()),
            Self::Import(o) => (o.key.namespace.as_str().into(), o.key.name.as_str().into()),
            Self::SourceSlice(o) => (o.key.namespace.as_str().into(), name_of_slice(o).into()),
        };
        Key { kind: self.kind(), namespace, name }
    }
}

/// Unique in the clusterset, since the broker has the slices of all namespaces and clusters in one place; no more is to be
/// read from it (B66).
fn name_of_slice(slice: &SourceSlice) -> alloc::string::String {
    let SourceSlice { cluster, key, family, number, endpoints: _, ports: _ } = slice;
    let full = format!("{cluster}/{}/{}/{family}/{number}", key.namespace, key.name);
    format!("{}-{:016x}", key.name, mix(fnv1a(full.as_bytes())))
}
