//! Any object, and its identity.

use super::{
    Candidates, Claims, ClusterRecord, Endpoint, EndpointSlice, ExportRecord, ExportSummary, Gateway, Import, Key,
    KeyRef, Kind, Lease, Namespace, Node, Service, ServiceExport, SourceSlice,
};
use crate::base::{ClusterId, Epoch};
use alloc::sync::Arc;
use serde::{Deserialize, Serialize};

/// An object of any kind. It does not change, and copies share it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each variant is documented by its type")]
pub enum Object {
    Namespace(Arc<Namespace>),
    Node(Arc<Node>),
    Service(Arc<Service>),
    EndpointSlice(Arc<EndpointSlice>),
    ServiceExport(Arc<ServiceExport>),
    Lease(Arc<Lease>),
    Gateway(Arc<Gateway>),
    Cluster(Arc<ClusterRecord>),
    Endpoint(Arc<Endpoint>),
    Candidates(Arc<Candidates>),
    Claims(Arc<Claims>),
    ExportRecord(Arc<ExportRecord>),
    ExportSummary(Arc<ExportSummary>),
    Import(Arc<Import>),
    SourceSlice(Arc<SourceSlice>),
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
        self.key_ref().into()
    }

    /// The same, as it has it in itself.
    #[must_use]
    pub fn key_ref(&self) -> KeyRef<'_> {
        let kind = self.kind();
        let own = |name| KeyRef { kind, namespace: "", name, source: None };
        let of = |service| KeyRef::of_service(kind, service);
        match self {
            Self::Namespace(o) => own(o.name.as_str()),
            Self::Node(o) => own(o.name.as_str()),
            Self::Service(o) => of(&o.key),
            Self::EndpointSlice(o) => KeyRef { namespace: o.namespace.as_str(), ..own(&o.name) },
            Self::ServiceExport(o) => of(&o.key),
            Self::Lease(o) => own(&o.name),
            Self::Gateway(o) => own(o.node.as_str()),
            Self::Cluster(o) => own(o.cluster.as_str()),
            Self::Endpoint(o) => KeyRef { source: Some((&o.cluster, None)), ..own(&o.cable_name) },
            Self::Candidates(o) => own(o.cluster.as_str()),
            // One for all members, so that two that claim at once meet (B34).
            Self::Claims(_) => own("clusterset"),
            Self::ExportSummary(o) => own(o.cluster.as_str()),
            Self::ExportRecord(o) => KeyRef { source: Some((&o.cluster, None)), ..of(&o.key) },
            Self::Import(o) => of(&o.key),
            Self::SourceSlice(o) => KeyRef { source: Some((&o.cluster, Some((o.family, o.number)))), ..of(&o.key) },
        }
    }
}

macro_rules! objects {
    ($($variant:ident($object:ty)),*) => {
        $(impl From<$object> for Object {
            fn from(object: $object) -> Self {
                Self::$variant(Arc::new(object))
            }
        })*
    };
}

objects! {
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
    SourceSlice(SourceSlice)
}
