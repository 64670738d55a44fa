//! `multicluster.x-k8s.io`: ServiceExport and ServiceImport.

use super::cluster::{list, service_key};
use super::field::{ConvertError, WithSpec, at, created, noted, parse, shaped, text, wall};
use super::offer::{self, Notes, OfferSpec};
use super::{EXPORTED, SOURCES};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tombolo_core::base::{ClusterId, FewBy, Wall};
use tombolo_core::model::{Condition, ConditionType, Import, ServiceExport};

/// Type of the condition of an import.
const READY: &str = "Ready";

pub fn read_export(value: &Value) -> Result<ServiceExport, ConvertError> {
    // What cannot be read of the status we say anew; that others spoilt it is no reason not to export.
    let conditions = at(value, "status.conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let conditions =
        conditions.iter().filter_map(|condition| Some((condition_type(condition)?, read_condition(condition)?)));
    Ok(ServiceExport {
        key: service_key(value)?,
        created: created(value)?,
        labels: texts(value, "spec.exportedLabels")?,
        annotations: texts(value, "spec.exportedAnnotations")?,
        conditions: conditions.collect(),
    })
}

fn read_condition(condition: &Value) -> Option<Condition> {
    let of = |name: &str| text(condition, name).unwrap_or_default();
    Some(Condition {
        status: match of("status") {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        },
        reason: of("reason").into(),
        message: of("message").into(),
        since: wall("lastTransitionTime", of("lastTransitionTime").parse().ok()?).ok()?,
    })
}

fn texts(value: &Value, path: &str) -> Result<BTreeMap<String, String>, ConvertError> {
    let Some(map) = at(value, path) else { return Ok(BTreeMap::new()) };
    serde_json::from_value(map.clone()).map_err(|error| ConvertError::bad(path, map, error))
}

/// Which of ours a condition is.
fn condition_type(condition: &Value) -> Option<ConditionType> {
    let name = condition["type"].as_str()?;
    ConditionType::ALL.into_iter().find(|about| about.to_string() == name)
}

/// With the creation and the spec, for those who stand in for users: the hand writes only the status.
pub fn write_export(export: &ServiceExport) -> Value {
    let status = |status: Option<bool>| status.map_or("Unknown", |yes| if yes { "True" } else { "False" });
    let condition = |(about, condition): (&ConditionType, &Condition)| {
        json!({
            "type": about.to_string(),
            "status": status(condition.status),
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": timestamp(condition.since),
        })
    };
    json!({
        "metadata": { "creationTimestamp": timestamp(export.created) },
        "spec": { "exportedLabels": export.labels, "exportedAnnotations": export.annotations },
        "status": { "conditions": export.conditions.iter().map(condition).collect::<Vec<_>>() },
    })
}

/// RFC 3339, whole seconds. A time that cannot be written is the last that can: a condition has to have one, and an API would
/// refuse the object for want of it.
fn timestamp(wall: Wall) -> String {
    let last = Timestamp::MAX.as_second();
    let secs = i64::try_from(wall.unix_secs()).map_or(last, |secs| secs.min(last));
    Timestamp::from_second(secs).unwrap_or_default().to_string()
}

/// Makes the conditions of `there` ours; conditions that others keep there stay.
pub fn lay_conditions(there: &mut Value, ours: &Value) {
    let conditions = |value: &Value| value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let theirs = conditions(there).into_iter().filter(|condition| condition_type(condition).is_none());
    let all: Vec<Value> = theirs.chain(conditions(ours)).collect();
    super::lay(there, "status", &json!({ "conditions": all }));
}

pub fn read_import(value: &Value) -> Result<Import, ConvertError> {
    let WithSpec::<OfferSpec> { spec } = shaped(value)?;
    let notes = noted(value, "annotations", EXPORTED).map(|text| offer::note::<Notes>(EXPORTED, text)).transpose()?;
    Ok(Import {
        key: service_key(value)?,
        offer: Arc::new(offer::read(spec, notes.unwrap_or_default())?),
        sources: read_sources(value)?,
    })
}

/// The clusters of the status, with the times of our annotation (in µs after 1970). The two are written one after the
/// other: what only one of them names is not written yet. An import that others wrote has no annotation.
fn read_sources(value: &Value) -> Result<FewBy<ClusterId, Wall>, ConvertError> {
    let notes: Option<BTreeMap<String, u64>> =
        noted(value, "annotations", SOURCES).map(|text| offer::note(SOURCES, text)).transpose()?;
    let mut sources = BTreeMap::new();
    for cluster in list(value, "status.clusters")? {
        let name = cluster["cluster"].as_str().unwrap_or_default();
        let since = match &notes {
            None => Wall::default(),
            Some(notes) => match notes.get(name) {
                Some(micros) => Wall::from_unix_micros(*micros),
                None => continue,
            },
        };
        sources.insert(parse("status.clusters[].cluster", name)?, since);
    }
    Ok(sources.into_iter().collect())
}

pub fn write_import(import: &Import) -> Result<Value, ConvertError> {
    let notes: BTreeMap<&str, u64> =
        import.sources.iter().map(|(cluster, since)| (cluster.as_str(), since.unix_micros())).collect();
    // It is of use to clients from its first export on.
    let since = import.sources.values().min().copied();
    let (status, reason) = if since.is_some() { ("True", "Ready") } else { ("False", "Pending") };
    let ready = json!({
        "type": READY,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": timestamp(since.unwrap_or_default()),
    });
    let clusters: Vec<_> = import.sources.keys().map(|cluster| json!({ "cluster": cluster })).collect();
    let (labels, annotations) = (&import.offer.labels, &import.offer.annotations);
    let exported = json!({ "labels": labels, "annotations": annotations }).to_string();
    let mut metadata = json!({ "labels": labels, "annotations": annotations });
    metadata["annotations"][SOURCES] = json!(json!(notes).to_string());
    metadata["annotations"][EXPORTED] = json!(exported);
    let mut spec = offer::write(&import.offer)?;
    spec["ips"] = json!([]);
    Ok(json!({ "metadata": metadata, "spec": spec, "status": { "clusters": clusters, "conditions": [ready] } }))
}

/// Makes the clusters and the condition of `there` ours. The time of a condition that goes on stays, also when the oldest
/// export leaves; conditions that others keep there stay.
pub fn lay_import_status(there: &mut Value, ours: &Value) {
    let conditions = |value: &Value| value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let (before, after): (Vec<Value>, Vec<Value>) =
        conditions(there).into_iter().partition(|condition| condition["type"] == READY);
    let goes_on = |ours: &Value| before.iter().find(|before| before["status"] == ours["status"]).cloned();
    let ready = conditions(ours).into_iter().map(|ours| goes_on(&ours).unwrap_or(ours));
    let all: Vec<Value> = after.into_iter().chain(ready).collect();
    super::lay(there, "status", &ours["status"]);
    super::lay(there, "status", &json!({ "conditions": all }));
}

/// Takes from an import what it was given from exports; what is laid over it next brings it back, where it still holds.
pub fn forget_exported(there: &mut Value) {
    let Some(text) = noted(there, "annotations", EXPORTED) else { return };
    let Ok(notes) = offer::note::<Notes>(EXPORTED, text) else { return };
    for (map, keys) in [("labels", notes.labels), ("annotations", notes.annotations)] {
        if let Some(map) = there["metadata"][map].as_object_mut() {
            keys.keys().for_each(|key| drop(map.remove(key)));
        }
    }
}
