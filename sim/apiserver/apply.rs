//! Merge patch, and a plain server-side apply.
//!
//! Ownership in an apply is by field: a manager owns the leaves it sent last. A list is one leaf. What a manager sends
//! no more and nobody else owns is removed; what another owns with another value is a conflict, unless forced.

use crate::{Failure, Reason};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// RFC 7386.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_patch(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

type Path = Vec<String>;

/// Who owns what of one object, by its applies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Owners(BTreeMap<String, BTreeSet<Path>>);

impl Owners {
    /// Applies `wanted` of `manager` to `object`.
    ///
    /// # Errors
    /// `Conflict`, with the fields and their owners.
    pub fn apply(&mut self, object: &mut Value, wanted: &Value, manager: &str, force: bool) -> Result<(), Failure> {
        let mut leaves = BTreeMap::new();
        collect_leaves(wanted, &mut Vec::new(), &mut leaves);
        let mut disputes = Vec::new();
        for (owner, paths) in self.0.iter().filter(|(owner, _)| *owner != manager) {
            for path in paths {
                if leaves.get(path).is_some_and(|wanted| at(object, path) != Some(wanted)) {
                    disputes.push((owner.clone(), path.clone()));
                }
            }
        }
        if !disputes.is_empty() && !force {
            let told: Vec<_> =
                disputes.iter().map(|(owner, path)| format!("{:?}: .{}", owner, path.join("."))).collect();
            return Err(Failure::new(Reason::Conflict, format!("Apply failed with conflicts: {}", told.join(", "))));
        }
        for (owner, path) in disputes {
            if let Some(paths) = self.0.get_mut(&owner) {
                paths.remove(&path);
            }
        }
        let old = self.0.insert(manager.to_owned(), leaves.keys().cloned().collect()).unwrap_or_default();
        for path in old.difference(&leaves.keys().cloned().collect()) {
            if !self.0.values().any(|paths| paths.contains(path)) {
                remove(object, path);
            }
        }
        for (path, value) in leaves {
            set(object, &path, value);
        }
        Ok(())
    }
}

fn collect_leaves<'a>(value: &'a Value, path: &mut Path, leaves: &mut BTreeMap<Path, &'a Value>) {
    match value.as_object() {
        Some(map) if !map.is_empty() => {
            for (key, value) in map {
                path.push(key.clone());
                collect_leaves(value, path, leaves);
                path.pop();
            }
        }
        Some(_) | None => {
            leaves.insert(path.clone(), value);
        }
    }
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

fn set(mut value: &mut Value, path: &[String], leaf: &Value) {
    for key in path {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        let Some(map) = value.as_object_mut() else { return };
        value = map.entry(key).or_insert(Value::Null);
    }
    // An empty map says only that there is a map.
    if !(leaf.is_object() && value.is_object()) {
        *value = leaf.clone();
    }
}

fn remove(value: &mut Value, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(value, |value, key| value.get_mut(key));
    let Some(map) = parent.and_then(Value::as_object_mut) else { return };
    let holds_of_others = map.get(last).and_then(Value::as_object).is_some_and(|inner| !inner.is_empty());
    if !holds_of_others {
        map.remove(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_deletes_by_null_and_replaces_lists() {
        let mut object = json!({ "a": { "b": 1, "c": [1, 2] }, "d": 1 });
        merge_patch(&mut object, &json!({ "a": { "b": null, "c": [3] }, "e": { "f": null, "g": 1 } }));
        assert_eq!(object, json!({ "a": { "c": [3] }, "d": 1, "e": { "g": 1 } }));
    }

    #[test]
    fn what_a_manager_applies_no_more_is_removed_unless_another_owns_it() {
        let (mut owners, mut object) = (Owners::default(), json!({}));
        owners.apply(&mut object, &json!({ "spec": { "a": 1, "b": 2 } }), "one", false).unwrap();
        owners.apply(&mut object, &json!({ "spec": { "b": 2 } }), "two", false).unwrap();
        owners.apply(&mut object, &json!({ "spec": { "c": 3 } }), "one", false).unwrap();
        assert_eq!(object, json!({ "spec": { "b": 2, "c": 3 } }));
    }

    #[test]
    fn another_value_for_what_another_owns_is_a_conflict_unless_forced() {
        let (mut owners, mut object) = (Owners::default(), json!({}));
        owners.apply(&mut object, &json!({ "spec": { "a": 1 } }), "one", false).unwrap();
        let conflict = owners.apply(&mut object, &json!({ "spec": { "a": 2 } }), "two", false).unwrap_err();
        assert_eq!(conflict.message, "Apply failed with conflicts: \"one\": .spec.a");
        assert_eq!(object, json!({ "spec": { "a": 1 } }));
        owners.apply(&mut object, &json!({ "spec": { "a": 2 } }), "two", true).unwrap();
        owners.apply(&mut object, &json!({ "spec": {} }), "one", false).unwrap();
        assert_eq!(object["spec"]["a"], 2);
    }
}
