//! The documents by which clients find out what is served.

use crate::{KindSpec, Registry};
use serde_json::{Value, json};

/// The document at `path`, if one is there.
pub(crate) fn find(registry: &Registry, path: &str) -> Option<Value> {
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    match segments.as_slice() {
        ["version"] => Some(json!({ "major": "1", "minor": "33", "gitVersion": "v1.33.0" })),
        ["healthz" | "livez" | "readyz"] => Some(json!("ok")),
        ["api"] => Some(json!({ "kind": "APIVersions", "versions": ["v1"] })),
        ["apis"] => Some(groups(registry)),
        ["api", version] => resources(registry, "", version),
        ["apis", group, version] => resources(registry, group, version),
        _ => None,
    }
}

fn groups(registry: &Registry) -> Value {
    let mut groups: Vec<Value> = Vec::new();
    for spec in registry.iter().filter(|spec| !spec.group.is_empty()) {
        // Kinds come ordered by group.
        if groups.last().is_some_and(|last| last["name"] == json!(spec.group)) {
            continue;
        }
        let version = |version: &String| json!({ "groupVersion": spec.api_version(version), "version": version });
        let versions: Vec<_> = spec.versions.iter().map(version).collect();
        let preferred = versions.first().cloned();
        groups.push(json!({ "name": spec.group, "versions": versions, "preferredVersion": preferred }));
    }
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let served = |spec: &&KindSpec| spec.group == group && spec.versions.iter().any(|served| served == version);
    let specs: Vec<_> = registry.iter().filter(served).collect();
    let api_version = specs.first()?.api_version(version);
    let resource = |name: String, spec: &KindSpec, verbs: &[&str]| json!({ "name": name, "singularName": "", "kind": spec.kind, "namespaced": spec.namespaced, "verbs": verbs });
    let mut resources = Vec::new();
    for spec in specs {
        let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        resources.push(resource(spec.plural.clone(), spec, &verbs));
        if spec.status {
            resources.push(resource(format!("{}/status", spec.plural), spec, &["get", "patch", "update"]));
        }
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": resources,
    }))
}
