//! Rules about `metadata` and what counts as a change.

use crate::{Failure, Reason};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tombolo_core::base::{Wall, hash};

/// `metadata` of `object`, made if it is not there.
pub fn metadata(object: &mut Value) -> Result<&mut Map<String, Value>, Failure> {
    let bad = || Failure::new(Reason::BadRequest, "the object is not a JSON object with an object as metadata");
    object
        .as_object_mut()
        .ok_or_else(bad)?
        .entry("metadata")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        .ok_or_else(bad)
}

/// A text of `metadata`.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Checks what a server checks of every object: names, and that labels and annotations are maps of texts.
pub fn check(object: &Value, described: &str) -> Result<(), Failure> {
    let invalid = |what: String| Failure::new(Reason::Invalid, format!("{described} is invalid: {what}"));
    for field in ["labels", "annotations"] {
        let map = &object["metadata"][field];
        let fine = map.is_null() || map.as_object().is_some_and(|map| map.values().all(Value::is_string));
        if !fine {
            return Err(invalid(format!("metadata.{field}: must be a map of texts")));
        }
    }
    if let Some(labels) = object["metadata"]["labels"].as_object() {
        for (key, value) in labels {
            if value.as_str().is_some_and(|value| value.len() > 63) {
                return Err(invalid(format!("metadata.labels.{key}: must be no more than 63 characters")));
            }
        }
    }
    let name = text(object, "name");
    let fine = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '.');
    if name.is_empty() || name.len() > 253 || !name.chars().all(fine) {
        return Err(invalid(format!("metadata.name: {name:?} is no lowercase RFC 1123 subdomain")));
    }
    Ok(())
}

/// RFC 3339, seconds, as `creationTimestamp` is.
pub fn timestamp(wall: Wall) -> String {
    let secs = i64::try_from(wall.unix_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(secs).unwrap_or(Timestamp::MAX).to_string()
}

/// The `count`th uid of `seed`, in the form of a version 4 UUID.
pub fn uid(seed: u64, count: u64) -> String {
    let high = hash::mix(seed ^ hash::mix(count));
    let low = hash::mix(high ^ count);
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

/// Whether a change from `before` to `after` is one of what is wanted (and so of `generation`), not only of metadata or
/// of a status that is a subresource.
pub fn wants_differ(before: &Value, after: &Value, status_is_apart: bool) -> bool {
    let counts = |key: &str| key != "metadata" && !(status_is_apart && key == "status");
    let wanted = |object: &Value| -> Map<String, Value> {
        let map = object.as_object();
        map.into_iter().flatten().filter(|(key, _)| counts(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    wanted(before) != wanted(after)
}
