//! The API objects behind our words, as they were last seen.
//!
//! A write of ours is laid over what is there, so that labels, annotations and fields of others stay. Most writes follow
//! something that a watch has just shown; then this saves the read before the write.

use crate::convert::{object_name, version_of};
use crate::resource::Places;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tombolo_core::model::{Api, Key, Kind, Version};

/// Namespace and name.
pub type Name = (String, String);

type Objects = BTreeMap<(Api, Kind, Name), Value>;

/// Shared by all watches and requests of a daemon.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Objects>>);

/// Namespace and name of an API object.
pub fn name_of(value: &Value) -> Name {
    let text = |key: &str| value["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

impl Seen {
    fn map(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kinds that we never write need not be kept.
    const fn is_kept(kind: Kind) -> bool {
        match kind {
            Kind::Namespace | Kind::Node | Kind::Service | Kind::EndpointSlice => false,
            Kind::ServiceExport
            | Kind::Lease
            | Kind::Gateway
            | Kind::Cluster
            | Kind::Endpoint
            | Kind::Candidates
            | Kind::Claims
            | Kind::ExportRecord
            | Kind::ExportSummary
            | Kind::Import
            | Kind::SourceSlice => true,
        }
    }

    pub fn put(&self, api: Api, kind: Kind, value: &Value) {
        if Self::is_kept(kind) {
            self.map().insert((api, kind, name_of(value)), value.clone());
        }
    }

    pub fn remove(&self, api: Api, kind: Kind, name: Name) {
        self.map().remove(&(api, kind, name));
    }

    /// Forgets all objects of a kind but these.
    pub fn retain(&self, api: Api, kind: Kind, names: &BTreeSet<Name>) {
        self.map().retain(|(one_api, one_kind, name), _| (*one_api, *one_kind) != (api, kind) || names.contains(name));
    }

    /// The object behind `key`, if it was last seen in `version`.
    pub fn get(&self, api: Api, key: &Key, version: &Version, places: &Places) -> Option<Value> {
        let namespace = places.namespace_of(api, key).unwrap_or_default().to_owned();
        let value = self.map().get(&(api, key.kind, (namespace, object_name(key)))).cloned()?;
        (version_of(&value) == *version).then_some(value)
    }
}
