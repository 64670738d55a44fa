//! Create, replace, patch, delete: one change of the store, or a refusal.

use crate::apply::{self, Owners};
use crate::selector::Selector;
use crate::server::{Change, ObjectKey, State, render, render_at};
use crate::{Failure, KindSpec, PatchKind, Query, Reason, Target, meta};
use serde_json::{Value, json};
use std::sync::Arc;
use tombolo_core::base::{Revision, Versioned};

type There = Versioned<Arc<Value>>;

impl State {
    pub fn create(&mut self, who: &str, target: &Target, mut object: Value) -> Result<Value, Failure> {
        if object["metadata"].get("resourceVersion").is_some_and(|version| version != "") {
            let told = "resourceVersion should not be set on objects to be created";
            return Err(Failure::new(Reason::InternalError, told));
        }
        if target.spec.status && !target.spec.is_builtin() {
            remove_key(&mut object, "status");
        }
        let metadata = meta::metadata(&mut object)?;
        for key in ["uid", "creationTimestamp"] {
            metadata.remove(key);
        }
        self.insert(who, target, object)
    }

    /// Creates with status, uid and creation as given.
    fn insert(&mut self, who: &str, target: &Target, mut object: Value) -> Result<Value, Failure> {
        let spec = &target.spec;
        self.take_place(target, &mut object)?;
        let name = self.name_for(&mut object, spec, &target.namespace)?;
        meta::check(&object, &format!("{} {name:?}", spec.resource()))?;
        let (uid, now) = (self.next_uid(), self.now());
        let metadata = meta::metadata(&mut object)?;
        for key in ["resourceVersion", "managedFields", "deletionTimestamp", "generateName", "selfLink"] {
            metadata.remove(key);
        }
        metadata.entry("uid").or_insert(json!(uid));
        metadata.entry("creationTimestamp").or_insert(json!(now));
        metadata.insert("generation".into(), json!(1));
        let key = ObjectKey::new(spec, &target.namespace, &name);
        let revision = self.store.create(key.clone(), Arc::new(object.clone())).map_err(|_| exists(spec, &name))?;
        self.tell(who, Change::Created, spec, &key, &object);
        Ok(render_at(&object, revision, spec, &target.version))
    }

    /// Puts the namespace of the path into the object, and checks that it is there.
    fn take_place(&self, target: &Target, object: &mut Value) -> Result<(), Failure> {
        if !target.spec.namespaced {
            meta::metadata(object)?.remove("namespace");
            return Ok(());
        }
        let said = meta::text(object, "namespace");
        if !said.is_empty() && said != target.namespace {
            let told = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Failure::new(Reason::BadRequest, told));
        }
        let namespaces = self.registry.by_plural("", "namespaces");
        let there = namespaces.and_then(|spec| self.store.get(&ObjectKey::new(spec, "", &target.namespace)));
        let Some(there) = there else {
            let told = format!("namespaces {:?} not found", target.namespace);
            return Err(Failure::new(Reason::NotFound, told));
        };
        if there.value["metadata"].get("deletionTimestamp").is_some() {
            let told = format!(
                "unable to create new content in namespace {} because it is being terminated",
                target.namespace
            );
            return Err(Failure::new(Reason::Forbidden, told));
        }
        meta::metadata(object)?.insert("namespace".into(), json!(target.namespace));
        Ok(())
    }

    /// The object's name; one made of `generateName` and five characters of a uid, if it has none.
    fn name_for(&mut self, object: &mut Value, spec: &KindSpec, namespace: &str) -> Result<String, Failure> {
        let prefix = meta::text(object, "generateName").to_owned();
        if meta::text(object, "name").is_empty() && !prefix.is_empty() {
            let prefix: String = prefix.chars().take(58).collect();
            let mut name = String::new();
            for _ in 0..8 {
                name = format!("{prefix}{}", self.next_uid().chars().take(5).collect::<String>());
                if self.store.get(&ObjectKey::new(spec, namespace, &name)).is_none() {
                    break;
                }
            }
            meta::metadata(object)?.insert("name".into(), json!(name));
        }
        Ok(meta::text(object, "name").to_owned())
    }

    pub fn replace(&mut self, who: &str, target: &Target, object: Value) -> Result<Value, Failure> {
        let (key, there) = self.find(target)?;
        let said = meta::text(&object, "name");
        if said != &*key.name {
            let told = format!("the name of the object ({said}) does not match the name on the URL ({})", key.name);
            return Err(Failure::new(Reason::BadRequest, told));
        }
        if meta::text(&object, "resourceVersion").is_empty() && !target.spec.allows_unconditional_update() {
            let told = "metadata.resourceVersion: Invalid value: must be specified for an update";
            return Err(Failure::new(Reason::Invalid, format!("{} is invalid: {told}", target.describe())));
        }
        check_expectations(target, &there, &object["metadata"])?;
        self.update(who, target, &key, &there, object)
    }

    pub fn put(&mut self, who: &str, target: &Target, object: Value) -> Result<Value, Failure> {
        let Ok((key, there)) = self.find(target) else { return self.insert(who, target, object) };
        let status = object.get("status").cloned();
        let mut after = self.update(who, target, &key, &there, object)?;
        if let (true, Some(status)) = (target.spec.status, status) {
            let (key, there) = self.find(target)?;
            after["status"] = status;
            let target = Target { status: true, ..target.clone() };
            after = self.update(who, &target, &key, &there, after)?;
        }
        Ok(after)
    }

    pub fn patch(
        &mut self,
        who: &str,
        target: &Target,
        kind: PatchKind,
        query: &Query,
        body: &Value,
    ) -> Result<(u16, Value), Failure> {
        match kind {
            PatchKind::Merge => {
                let (key, there) = self.find(target)?;
                check_expectations(target, &there, &body["metadata"])?;
                let mut object = Value::clone(&there.value);
                apply::merge_patch(&mut object, body);
                Ok((200, self.update(who, target, &key, &there, object)?))
            }
            PatchKind::Apply => self.apply(who, target, query, body),
        }
    }

    fn apply(&mut self, who: &str, target: &Target, query: &Query, body: &Value) -> Result<(u16, Value), Failure> {
        let Some(manager) = &query.field_manager else {
            let told = "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch";
            return Err(Failure::new(Reason::Invalid, told));
        };
        let name = target.name.as_deref().unwrap_or_default();
        let key = ObjectKey::new(&target.spec, &target.namespace, name);
        let mut owners = self.owners.get(&key).cloned().unwrap_or_default();
        let mut wanted = body.clone();
        let metadata = meta::metadata(&mut wanted)?;
        for identity in ["name", "namespace", "uid", "resourceVersion", "managedFields"] {
            metadata.remove(identity);
        }
        for key in ["apiVersion", "kind"] {
            remove_key(&mut wanted, key);
        }
        let (code, object) = if let Ok((key, there)) = self.find(target) {
            check_expectations(target, &there, &body["metadata"])?;
            let mut object = Value::clone(&there.value);
            owners.apply(&mut object, &wanted, manager, query.force)?;
            (200, self.update(who, target, &key, &there, object)?)
        } else {
            let mut object = json!({ "metadata": { "name": name } });
            owners = Owners::default();
            owners.apply(&mut object, &wanted, manager, query.force)?;
            (201, self.create(who, target, object)?)
        };
        self.owners.insert(key, owners);
        Ok((code, object))
    }

    /// Writes `object` in place of `there`: what may not change stays, and no change is no write.
    fn update(
        &mut self,
        who: &str,
        target: &Target,
        key: &ObjectKey,
        there: &There,
        object: Value,
    ) -> Result<Value, Failure> {
        let spec = &target.spec;
        let before = &*there.value;
        let mut after = if target.status {
            let mut after = before.clone();
            after["status"] = object["status"].clone();
            after
        } else {
            object
        };
        if !target.status && spec.status {
            match before.get("status") {
                Some(status) => after["status"] = status.clone(),
                None => remove_key(&mut after, "status"),
            }
        }
        keep_identity(&mut after, before)?;
        meta::check(&after, &target.describe())?;
        if meta::wants_differ(before, &after, spec.status) {
            let generation = before["metadata"]["generation"].as_u64().unwrap_or(1) + 1;
            meta::metadata(&mut after)?.insert("generation".into(), json!(generation));
        }
        if is_going(&after) && !has_finalizers(&after) {
            self.remove(who, spec, key)?;
            return Ok(render_at(&after, self.store.latest(), spec, &target.version));
        }
        let revision = self
            .store
            .replace(key.clone(), Arc::new(after.clone()), Some(there.modified))
            .map_err(|_| modified(target))?;
        if revision != there.modified {
            self.tell(who, Change::Replaced, spec, key, &after);
        }
        Ok(render_at(&after, revision, spec, &target.version))
    }

    pub fn delete(&mut self, who: &str, target: &Target, options: &Value) -> Result<Value, Failure> {
        let (key, there) = self.find(target)?;
        check_expectations(target, &there, &options["preconditions"])?;
        if has_finalizers(&there.value) {
            if is_going(&there.value) {
                return Ok(render(&there, &target.spec, &target.version));
            }
            let mut going = Value::clone(&there.value);
            let now = self.now();
            let generation = going["metadata"]["generation"].as_u64().unwrap_or(1) + 1;
            let metadata = meta::metadata(&mut going)?;
            metadata.insert("deletionTimestamp".into(), json!(now));
            metadata.insert("generation".into(), json!(generation));
            let revision = self
                .store
                .replace(key.clone(), Arc::new(going.clone()), Some(there.modified))
                .map_err(|_| modified(target))?;
            self.tell(who, Change::Replaced, &target.spec, &key, &going);
            return Ok(render_at(&going, revision, &target.spec, &target.version));
        }
        if target.spec.group.is_empty() && target.spec.kind == "Namespace" {
            self.empty_namespace(who, &key.name)?;
        }
        self.remove(who, &target.spec, &key)?;
        Ok(json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": { "name": &*key.name, "kind": target.spec.plural, "uid": meta::text(&there.value, "uid") },
        }))
    }

    pub fn delete_all(&mut self, who: &str, target: &Target, query: &Query) -> Result<Value, Failure> {
        let selector = Selector::parse(query.labels.as_deref(), query.fields.as_deref())?;
        let range = ObjectKey::range_of(&target.spec, &target.namespace);
        let chosen: Vec<_> = self
            .store
            .range(range)
            .filter(|(_, there)| selector.matches(&there.value))
            .map(|(key, _)| key.clone())
            .collect();
        for key in chosen {
            let namespace = key.namespace.to_string();
            let one = Target { name: Some(key.name.to_string()), namespace, ..target.clone() };
            self.delete(who, &one, &Value::Null)?;
        }
        Ok(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }))
    }

    /// Everything in a namespace goes with it.
    fn empty_namespace(&mut self, who: &str, namespace: &str) -> Result<(), Failure> {
        let kinds: Vec<_> = self.registry.iter().filter(|spec| spec.namespaced).cloned().collect();
        for spec in kinds {
            let range = ObjectKey::range_of(&spec, namespace);
            let inside: Vec<_> = self.store.range(range).map(|(key, _)| key.clone()).collect();
            for key in inside {
                self.remove(who, &spec, &key)?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, who: &str, spec: &KindSpec, key: &ObjectKey) -> Result<(), Failure> {
        let last = self.store.get(key).map(|there| there.value.clone()).unwrap_or_default();
        self.store.delete(key, None).map_err(|_| missing(spec, &key.name))?;
        self.owners.remove(key);
        self.tell(who, Change::Deleted, spec, key, &last);
        Ok(())
    }

    pub(crate) fn find(&self, target: &Target) -> Result<(ObjectKey, There), Failure> {
        let name = target.name.as_deref().unwrap_or_default();
        let key = ObjectKey::new(&target.spec, &target.namespace, name);
        let there = self.store.get(&key).cloned().ok_or_else(|| missing(&target.spec, name))?;
        Ok((key, there))
    }
}

/// `uid` and `resourceVersion` in `expected`, if they are there, must be those of the object.
fn check_expectations(target: &Target, there: &There, expected: &Value) -> Result<(), Failure> {
    let uid = expected["uid"].as_str().unwrap_or_default();
    let there_uid = meta::text(&there.value, "uid");
    if !uid.is_empty() && uid != there_uid {
        let told = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {there_uid}");
        return Err(Failure::new(
            Reason::Conflict,
            format!("Operation cannot be fulfilled on {}: {told}", target.describe()),
        ));
    }
    let version = expected["resourceVersion"].as_str().unwrap_or_default();
    if version.is_empty() || version.parse().map(Revision) == Ok(there.modified) {
        return Ok(());
    }
    Err(modified(target))
}

fn keep_identity(after: &mut Value, before: &Value) -> Result<(), Failure> {
    let metadata = meta::metadata(after)?;
    for key in ["resourceVersion", "managedFields", "selfLink"] {
        metadata.remove(key);
    }
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation"] {
        match before["metadata"].get(key) {
            Some(value) => metadata.insert(key.into(), value.clone()),
            None => metadata.remove(key),
        };
    }
    for key in ["apiVersion", "kind"] {
        match before.get(key) {
            Some(value) => after[key] = value.clone(),
            None => remove_key(after, key),
        }
    }
    Ok(())
}

fn remove_key(object: &mut Value, key: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(key);
    }
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

fn is_going(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

fn exists(spec: &KindSpec, name: &str) -> Failure {
    Failure::new(Reason::AlreadyExists, format!("{} {name:?} already exists", spec.resource()))
}

pub(crate) fn missing(spec: &KindSpec, name: &str) -> Failure {
    Failure::new(Reason::NotFound, format!("{} {name:?} not found", spec.resource()))
}

fn modified(target: &Target) -> Failure {
    let told = "the object has been modified; please apply your changes to the latest version and try again";
    Failure::new(Reason::Conflict, format!("Operation cannot be fulfilled on {}: {told}", target.describe()))
}
