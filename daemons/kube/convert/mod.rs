//! Our words from and to the JSON of the Kubernetes APIs.
//!
//! Reading is strict about what we use and blind to the rest: an object with a field that does not parse is refused as a
//! whole, with the field and the reason. Writing gives what we say about an object and nothing else; a field that we say
//! is not there is `null`. What is laid over an object that others wrote to ([`overlay`]) keeps what they said.
//!
//! What the objects of Submariner and of the MCS API cannot say stands in annotations `tombolo.dev/…`.

mod cluster;
mod field;
mod mcs;
mod offer;
mod slices;
mod submariner;
mod tombolo;

use crate::resource::{Places, Scope, resource, scope};
pub use field::ConvertError;
pub(crate) use mcs::{lay_conditions, lay_import_status};
use serde_json::{Map, Value, json};
pub(crate) use slices::SOURCE_CLUSTER;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Api, Key, Kind, Object, Version};

/// Annotation: the epoch of the announcer.
pub const EPOCH: &str = "tombolo.dev/epoch";
/// Annotation of a Gateway: public keys of its cable devices, by remote rank.
pub const KEYS: &str = "tombolo.dev/keys";
/// Annotation of a ServiceImport: since when each exporting cluster exports.
pub const SOURCES: &str = "tombolo.dev/sources";
/// Annotation of a ServiceImport: which of its labels and annotations are the exports'.
pub const EXPORTED: &str = "tombolo.dev/exported";
/// Annotation of an EndpointSlice of the clusterset: its number among those of its cluster, service and family.
pub const NUMBER: &str = "tombolo.dev/number";
/// Label of an EndpointSlice of the clusterset: the namespace of its service (Lighthouse).
pub const SOURCE_NAMESPACE: &str = "lighthouse.submariner.io/sourceNamespace";
/// Annotation of a Gateway: Unix seconds of its last sign of life, as Submariner wants it.
pub const UPDATE_TIMESTAMP: &str = "update-timestamp";
/// Label: the cluster that a synchronised object comes from (`admiral`).
pub const ORIGIN: &str = "submariner-io/clusterID";
/// Label: the namespace that a synchronised object comes from (`admiral`).
pub const ORIGIN_NAMESPACE: &str = "submariner-io/originatingNamespace";

/// What writing needs to know of the writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    /// The own cluster.
    pub cluster: ClusterId,
    /// Our namespaces.
    pub places: Places,
}

/// Reads an object of `kind`. `None`: one of that kind, but not for us (a slice of no service, say).
///
/// # Errors
/// [`ConvertError`] with the field and the reason.
pub fn read(kind: Kind, value: &Value) -> Result<Option<Object>, ConvertError> {
    let object = match kind {
        Kind::Namespace => Some(cluster::read_namespace(value)?.into()),
        Kind::Node => Some(cluster::read_node(value)?.into()),
        Kind::Service => Some(cluster::read_service(value)?.into()),
        Kind::EndpointSlice => slices::read_slice(value)?.map(Object::from),
        Kind::SourceSlice => slices::read_source_slice(value)?.map(Object::from),
        Kind::ServiceExport => Some(mcs::read_export(value)?.into()),
        Kind::Lease => Some(cluster::read_lease(value)?.into()),
        Kind::Gateway => Some(submariner::read_gateway(value)?.into()),
        Kind::Cluster => Some(submariner::read_cluster(value)?.into()),
        Kind::Endpoint => Some(submariner::read_endpoint(value)?.into()),
        Kind::Candidates => Some(tombolo::read_candidates(value)?.into()),
        Kind::Claims => Some(tombolo::read_claims(value)?.into()),
        Kind::ExportRecord => Some(tombolo::read_export(value)?.into()),
        Kind::ExportSummary => Some(tombolo::read_summary(value)?.into()),
        Kind::Import => Some(mcs::read_import(value)?.into()),
    };
    // An object that says it is about another cluster or service than its name says is somebody's mistake, or worse.
    if let Some(object) = &object {
        let (said, name) = (object_name(&object.key()), field::text(value, "metadata.name")?);
        if said != name {
            return Err(ConvertError::wrong_name(name, &said));
        }
    }
    Ok(object)
}

/// Writes `object` for `api`: what we say of it, with `apiVersion`, `kind`, name and namespace.
///
/// # Errors
/// [`ConvertError`] for what the API's object cannot say.
pub fn write(object: &Object, api: Api, writer: &Writer) -> Result<Value, ConvertError> {
    let mut value = match object {
        Object::Namespace(object) => cluster::write_namespace(object),
        Object::Node(object) => cluster::write_node(object),
        Object::Service(object) => cluster::write_service(object),
        Object::EndpointSlice(object) => slices::write_slice(object),
        Object::SourceSlice(object) => slices::write_source_slice(object),
        Object::ServiceExport(object) => mcs::write_export(object),
        Object::Lease(object) => cluster::write_lease(object)?,
        Object::Gateway(object) => submariner::write_gateway(object, &writer.cluster),
        Object::Cluster(object) => submariner::write_cluster(object),
        Object::Endpoint(object) => submariner::write_endpoint(object),
        Object::Candidates(object) => tombolo::write_candidates(object),
        Object::Claims(object) => tombolo::write_claims(object),
        Object::ExportRecord(object) => tombolo::write_export(object)?,
        Object::ExportSummary(object) => tombolo::write_summary(object),
        Object::Import(object) => mcs::write_import(object)?,
    };
    let key = object.key();
    let called = resource(key.kind);
    value["apiVersion"] = json!(called.api_version);
    value["kind"] = json!(called.kind);
    value["metadata"]["name"] = json!(object_name(&key));
    if let Some(namespace) = writer.places.namespace_of(api, &key) {
        value["metadata"]["namespace"] = json!(namespace);
    }
    if let Some(origin) = object.cluster() {
        // As Submariner's syncer marks copies; an object without the mark is the cluster's own, to be sent out.
        let is_copy = api == Api::Broker || *origin != writer.cluster;
        value["metadata"]["labels"][ORIGIN] = if is_copy { json!(origin) } else { Value::Null };
        value["metadata"]["labels"][ORIGIN_NAMESPACE] = if is_copy { json!(writer.places.local) } else { Value::Null };
    }
    Ok(value)
}

/// The name of the API object behind `key`: Submariner cleans names of Endpoints like this.
#[must_use]
pub fn object_name(key: &Key) -> String {
    let name = key.api_name().to_string();
    if key.kind != Kind::Endpoint {
        return name;
    }
    let fine = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '.');
    let clean = |c: char| if fine(c) { c } else { '-' };
    let cleaned: String = name.chars().map(|c| clean(c.to_ascii_lowercase())).collect();
    cleaned.trim_matches(|c| matches!(c, '-' | '.')).to_owned()
}

/// The key of an API object that could not be read, as far as its name tells.
pub(crate) fn key_of(kind: Kind, value: &Value) -> Key {
    let text = |key: &str| value["metadata"][key].as_str().unwrap_or_default();
    let namespace = match scope(kind) {
        Scope::Anywhere => text("namespace"),
        Scope::Cluster | Scope::Own => "",
    };
    Key::new(kind, namespace, text("name"))
}

/// The version of an API object: `resourceVersion@uid`.
pub(crate) fn version_of(value: &Value) -> Version {
    let text = |key: &str| value["metadata"][key].as_str().unwrap_or_default();
    Version(format!("{}@{}", text("resourceVersion"), text("uid")).into())
}

/// `resourceVersion` and uid of a version.
pub(crate) fn parts_of(version: &Version) -> (&str, &str) {
    version.0.split_once('@').unwrap_or((&version.0, ""))
}

/// Lays `ours` over `there`: what others said in fields, labels and annotations that we do not use stays. A field that is
/// a map (`spec`, `metadata.labels`) is merged key by key, each of which is replaced as a whole; `null` removes.
pub fn overlay(there: &mut Value, ours: &Value) {
    let Some(ours) = ours.as_object() else { return };
    mcs::forget_exported(there);
    for (key, value) in ours {
        match (key.as_str(), value.as_object()) {
            ("metadata", Some(metadata)) => {
                let Some(there) = as_map(there) else { return };
                let there = there.entry("metadata").or_insert(Value::Null);
                for (key, value) in metadata {
                    lay(there, key, value);
                }
            }
            _ => lay(there, key, value),
        }
    }
}

/// One field: a map is merged, anything else replaced.
pub(crate) fn lay(there: &mut Value, key: &str, ours: &Value) {
    let Some(there) = as_map(there) else { return };
    let Some(ours) = ours.as_object() else { return put(there, key, ours) };
    let Some(inner) = as_map(there.entry(key).or_insert(Value::Null)) else { return };
    for (key, value) in ours {
        put(inner, key, value);
    }
}

fn put(map: &mut Map<String, Value>, key: &str, value: &Value) {
    if value.is_null() {
        map.remove(key);
    } else {
        map.insert(key.into(), without_nulls(value));
    }
}

/// `value`, made an empty map if it is none.
fn as_map(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests;
