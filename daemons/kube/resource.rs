//! Where objects of each kind live.

use crate::convert::SOURCE_CLUSTER;
use kube::core::ApiResource;
use tombolo_core::model::{Api, Key, Kind};

/// Tombolo's own namespaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// In each member.
    pub local: String,
    /// At the broker.
    pub broker: String,
}

impl Default for Places {
    fn default() -> Self {
        Self { local: "submariner-operator".into(), broker: "submariner-k8s-broker".into() }
    }
}

impl Places {
    /// Our namespace at `api`.
    #[must_use]
    pub fn own(&self, api: Api) -> &str {
        match api {
            Api::Local => &self.local,
            Api::Broker => &self.broker,
        }
    }

    /// The namespace of `key` at `api`; none for what is cluster-scoped. At the broker everything is in ours: members
    /// have no rights elsewhere.
    #[must_use]
    pub fn namespace_of<'a>(&'a self, api: Api, key: &'a Key) -> Option<&'a str> {
        match (api, scope(key.kind)) {
            (_, Scope::Cluster) => None,
            (Api::Broker, Scope::Own | Scope::Anywhere) => Some(&self.broker),
            (Api::Local, Scope::Own) => Some(&self.local),
            (Api::Local, Scope::Anywhere) => Some(&key.namespace),
        }
    }
}

/// In which namespaces a kind lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// In none.
    Cluster,
    /// In ours alone: keys have no namespace.
    Own,
    /// In users' namespaces.
    Anywhere,
}

/// Where a kind lives.
#[must_use]
pub const fn scope(kind: Kind) -> Scope {
    match kind {
        Kind::Namespace | Kind::Node => Scope::Cluster,
        Kind::Service | Kind::EndpointSlice | Kind::ServiceExport | Kind::Import | Kind::SourceSlice => Scope::Anywhere,
        Kind::Lease
        | Kind::Gateway
        | Kind::Cluster
        | Kind::Endpoint
        | Kind::Candidates
        | Kind::Claims
        | Kind::ExportRecord
        | Kind::ExportSummary => Scope::Own,
    }
}

/// What a kind is called on the wire. The MCS kinds are asked for as `v1alpha1`: Submariner installs no other version,
/// and where both are served they are the same.
#[must_use]
pub fn resource(kind: Kind) -> ApiResource {
    let (group, version, kind, plural) = match kind {
        Kind::Namespace => ("", "v1", "Namespace", "namespaces"),
        Kind::Node => ("", "v1", "Node", "nodes"),
        Kind::Service => ("", "v1", "Service", "services"),
        Kind::EndpointSlice | Kind::SourceSlice => ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
        Kind::ServiceExport => ("multicluster.x-k8s.io", "v1alpha1", "ServiceExport", "serviceexports"),
        Kind::Lease => ("coordination.k8s.io", "v1", "Lease", "leases"),
        Kind::Gateway => ("submariner.io", "v1", "Gateway", "gateways"),
        Kind::Cluster => ("submariner.io", "v1", "Cluster", "clusters"),
        Kind::Endpoint => ("submariner.io", "v1", "Endpoint", "endpoints"),
        Kind::Candidates => ("tombolo.dev", "v1alpha1", "Candidates", "candidates"),
        Kind::Claims => ("tombolo.dev", "v1alpha1", "Claims", "claims"),
        Kind::ExportRecord => ("tombolo.dev", "v1alpha1", "Export", "exports"),
        Kind::ExportSummary => ("tombolo.dev", "v1alpha1", "ExportSummary", "exportsummaries"),
        Kind::Import => ("multicluster.x-k8s.io", "v1alpha1", "ServiceImport", "serviceimports"),
    };
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource { group: group.into(), version: version.into(), api_version, kind: kind.into(), plural: plural.into() }
}

/// Which objects of its resource are of a kind: a selector of labels, and one of fields. Two kinds of slices are one
/// resource; and where a member's API is the broker's as well, the slices in the broker's namespace are not the member's.
#[must_use]
pub fn selectors(api: Api, kind: Kind, places: &Places) -> (Option<String>, Option<String>) {
    match kind {
        Kind::EndpointSlice => (Some(format!("!{SOURCE_CLUSTER}")), None),
        Kind::SourceSlice => {
            let elsewhere = format!("metadata.namespace!={}", places.broker);
            (Some(SOURCE_CLUSTER.into()), Some(elsewhere).filter(|_| api == Api::Local))
        }
        Kind::Namespace
        | Kind::Node
        | Kind::Service
        | Kind::ServiceExport
        | Kind::Lease
        | Kind::Gateway
        | Kind::Cluster
        | Kind::Endpoint
        | Kind::Candidates
        | Kind::Claims
        | Kind::ExportRecord
        | Kind::ExportSummary
        | Kind::Import => (None, None),
    }
}
