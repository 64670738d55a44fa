//! How a machine speaks with a Kubernetes API: what it is shown, what it asks for, what came of it.

use super::{Key, Object};
use crate::base::SmolStr;
use alloc::sync::Arc;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Which API.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Api {
    /// The own cluster's.
    Local,
    /// The broker's.
    Broker,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Local => "local",
            Self::Broker => "broker",
        })
    }
}

/// The kinds of [`Object`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// [`super::Namespace`]
    Namespace,
    /// [`super::Node`]
    Node,
    /// [`super::Service`]
    Service,
    /// [`super::EndpointSlice`]
    EndpointSlice,
    /// [`super::ServiceExport`]
    ServiceExport,
    /// [`super::Lease`]
    Lease,
    /// [`super::Gateway`]
    Gateway,
    /// [`super::ClusterRecord`]
    Cluster,
    /// [`super::Endpoint`]
    Endpoint,
    /// [`super::Candidates`]
    Candidates,
    /// [`super::Claims`]
    Claims,
    /// [`super::ExportRecord`]
    ExportRecord,
    /// [`super::ExportSummary`]
    ExportSummary,
    /// [`super::Import`]
    Import,
    /// [`super::SourceSlice`]
    SourceSlice,
}

impl Kind {
    /// Whether objects of this kind are there without us: the cluster or its users make them.
    #[must_use]
    pub const fn is_the_clusters_own(self) -> bool {
        match self {
            Self::Namespace | Self::Node | Self::Service | Self::EndpointSlice | Self::ServiceExport => true,
            Self::Lease
            | Self::Gateway
            | Self::Cluster
            | Self::Endpoint
            | Self::Candidates
            | Self::Claims
            | Self::ExportRecord
            | Self::ExportSummary
            | Self::Import
            | Self::SourceSlice => false,
        }
    }

    /// Whether an [`super::ExportSummary`] speaks for objects of this kind.
    #[must_use]
    pub const fn is_summarised(self) -> bool {
        match self {
            Self::ExportRecord | Self::Import | Self::SourceSlice => true,
            Self::Namespace
            | Self::Node
            | Self::Service
            | Self::EndpointSlice
            | Self::ServiceExport
            | Self::Lease
            | Self::Gateway
            | Self::Cluster
            | Self::Endpoint
            | Self::Candidates
            | Self::Claims
            | Self::ExportSummary => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An opaque `resourceVersion`: good only for equality and for compare-and-swap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Version(pub SmolStr);

/// One step of a watch of one kind. A watch never ends: a lost one begins anew.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WatchEvent {
    /// A new full listing begins; what is not `Applied` until `Synced` is gone (mark and sweep, B48).
    Began(Kind),
    /// The object exists, like this.
    Applied(Object, Version),
    /// The object was deleted.
    Deleted(Key),
    /// The listing that `Began` is complete.
    Synced(Kind),
    /// The watch broke off, and a new listing will follow: what was shown may be of before by now.
    Lost(Kind),
}

impl WatchEvent {
    /// Which kind's watch it is a step of.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Began(kind) | Self::Synced(kind) | Self::Lost(kind) => *kind,
            Self::Applied(object, _) => object.kind(),
            Self::Deleted(key) => key.kind,
        }
    }
}

/// A wanted write. All are compare-and-swap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Write {
    /// Must not exist yet.
    Create(Object),
    /// Must exist in this version.
    Replace(Object, Version),
    /// Must exist in this version.
    Delete(Key, Version),
}

impl Write {
    /// What it writes to.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Create(object) | Self::Replace(object, _) => object.key(),
            Self::Delete(key, _) => key.clone(),
        }
    }
}

/// Why a read or write gave nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum ApiError {
    /// Another write came first, or the object exists already (409), or is gone (404).
    #[error("the object changed meanwhile")]
    Conflict,
    /// No answer in time. The write may have happened.
    #[error("no answer in time")]
    Unreachable,
    /// Refused for good: not allowed, or invalid.
    #[error("refused: {0}")]
    Refused(Arc<str>),
}
