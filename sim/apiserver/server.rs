//! The server's state, and what a world does to it from within the process.

use crate::apply::Owners;
use crate::{Call, Failure, Faults, KindSpec, Query, Reason, Registry, Target, Verb, meta};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tombolo_core::base::{Revision, Store, Versioned, Wall};

/// How many changes a server remembers before its oldest revisions expire.
const HISTORY_MAX: usize = 10_000;

/// Full identity of an object in the store. Ordered by kind, then namespace, then name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ObjectKey {
    /// `KindSpec::resource`.
    pub resource: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ObjectKey {
    pub fn new(spec: &KindSpec, namespace: &str, name: &str) -> Self {
        Self { resource: spec.resource().into(), namespace: namespace.into(), name: name.into() }
    }

    /// The keys of a kind, in one namespace or (`""`) in all.
    pub fn range_of(spec: &KindSpec, namespace: &str) -> (Bound<Self>, Bound<Self>) {
        let low = Self::new(spec, namespace, "");
        let mut high = low.clone();
        // NUL is in no name: the first text after all that begin with `resource` or `namespace` alone.
        if namespace.is_empty() {
            high.resource = format!("{}\0", high.resource).into();
        } else {
            high.namespace = format!("{namespace}\0").into();
        }
        (Bound::Included(low), Bound::Excluded(high))
    }
}

/// How an accepted write changed an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is new.
    Created,
    /// It has another content.
    Replaced,
    /// It is gone.
    Deleted,
}

/// Objects of a server, as they were when it was backed up.
#[derive(Clone, Debug, Default)]
pub struct Backup(Vec<(ObjectKey, Arc<Value>)>);

/// An accepted write, as the observer is told.
#[derive(Clone, Debug)]
pub struct Accepted<'a> {
    /// Who wrote: the request's `User-Agent`, or the name that a write in process gave.
    pub who: &'a str,
    /// How it changed.
    pub change: Change,
    /// Its kind.
    pub spec: &'a KindSpec,
    /// Its namespace, or empty.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// As it is now; as it was last, if deleted. Without `resourceVersion`.
    pub object: &'a Value,
    /// The revision of this write.
    pub revision: u64,
}

type Observer = Box<dyn FnMut(&Accepted<'_>) + Send>;

/// Everything behind the lock.
pub(crate) struct State {
    pub store: Store<ObjectKey, Arc<Value>>,
    pub registry: Arc<Registry>,
    pub faults: Faults,
    pub owners: BTreeMap<ObjectKey, Owners>,
    /// Grows when every open watch must end at once.
    pub disruptions: u64,
    seed: u64,
    uids: u64,
    wall: Box<dyn FnMut() -> Wall + Send>,
    observer: Option<Observer>,
}

impl State {
    pub fn next_uid(&mut self) -> String {
        self.uids += 1;
        meta::uid(self.seed, self.uids)
    }

    pub fn now(&mut self) -> String {
        meta::timestamp((self.wall)())
    }

    pub fn tell(&mut self, who: &str, change: Change, spec: &KindSpec, key: &ObjectKey, object: &Value) {
        let revision = self.store.latest().0;
        if let Some(observer) = &mut self.observer {
            let (namespace, name) = (&*key.namespace, &*key.name);
            observer(&Accepted { who, change, spec, namespace, name, object, revision });
        }
    }
}

/// `there` as a client of `version` gets it.
pub(crate) fn render(there: &Versioned<Arc<Value>>, spec: &KindSpec, version: &str) -> Value {
    render_at(&there.value, there.modified, spec, version)
}

pub(crate) fn render_at(value: &Value, revision: Revision, spec: &KindSpec, version: &str) -> Value {
    let mut object = value.clone();
    object["apiVersion"] = json!(spec.api_version(version));
    object["kind"] = json!(spec.kind);
    object["metadata"]["resourceVersion"] = json!(revision.to_string());
    object
}

pub(crate) struct Inner {
    state: Mutex<State>,
    /// Wakes all open watches.
    pub changed: Notify,
}

/// An API server. Clones are handles of the same one.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        write!(f, "ApiServer {{ objects: {}, revision: {} }}", state.store.len(), state.store.latest())
    }
}

impl ApiServer {
    /// A server with nothing stored but the namespaces `default` and `kube-system`.
    ///
    /// `seed` decides its uids, `wall` is the clock of its timestamps.
    #[must_use]
    pub fn new(registry: Registry, seed: u64, wall: impl FnMut() -> Wall + Send + 'static) -> Self {
        Self::on(Store::new(HISTORY_MAX), registry, seed, wall)
    }

    /// The same, but its versions are those of a server that has been in use for long: if it [restarts
    /// empty](Self::restart_empty), they lie in its future.
    #[must_use]
    pub fn with_a_past(registry: Registry, seed: u64, wall: impl FnMut() -> Wall + Send + 'static) -> Self {
        Self::on(Store::with_a_past(HISTORY_MAX), registry, seed, wall)
    }

    fn on(
        store: Store<ObjectKey, Arc<Value>>,
        registry: Registry,
        seed: u64,
        wall: impl FnMut() -> Wall + Send + 'static,
    ) -> Self {
        let state = State {
            store,
            registry: Arc::new(registry),
            faults: Faults::default(),
            owners: BTreeMap::new(),
            disruptions: 0,
            seed,
            uids: 0,
            wall: Box::new(wall),
            observer: None,
        };
        let server = Self { inner: Arc::new(Inner { state: Mutex::new(state), changed: Notify::new() }) };
        for namespace in ["default", "kube-system"] {
            // Cannot fail: the registry may only lack the kind.
            let _ = server.create_namespace(namespace);
        }
        server
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells `observer` of each accepted write, in order. It must not call the server.
    pub fn observe(&self, observer: impl FnMut(&Accepted<'_>) + Send + 'static) {
        self.state().observer = Some(Box::new(observer));
    }

    /// The revision of the last change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state().store.latest().0
    }

    /// The faults in force.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.state().faults.clone()
    }

    /// Puts `faults` in force, in place of those before.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.state();
        if faults.erroring && !state.faults.erroring {
            state.disruptions += 1;
        }
        state.faults = faults;
        drop(state);
        self.inner.changed.notify_waiters();
    }

    /// Ends every open watch, as a restart of the server does. What is stored stays.
    pub fn end_watches(&self) {
        self.state().disruptions += 1;
        self.inner.changed.notify_waiters();
    }

    /// Forgets all history: each open watch, and each one that resumes from a revision before now, ends with 410.
    pub fn expire_history(&self) {
        let mut state = self.state();
        // A change that no kind shows, so that also those who have seen everything are too old.
        let nothing: Arc<str> = "".into();
        let marker = ObjectKey { resource: nothing.clone(), namespace: nothing.clone(), name: nothing };
        let _ = state.store.create(marker.clone(), Arc::new(Value::Null));
        let _ = state.store.delete(&marker, None);
        let latest = state.store.latest();
        state.store.compact(latest);
        drop(state);
        self.inner.changed.notify_waiters();
    }

    /// A copy of the objects that `which` chooses.
    pub fn back_up(&self, mut which: impl FnMut(&KindSpec, &Value) -> bool) -> Backup {
        let state = self.state();
        let chosen = state.store.iter().filter(|(key, there)| {
            let spec = state.registry.iter().find(|spec| spec.resource() == *key.resource);
            spec.is_some_and(|spec| which(spec, &there.value))
        });
        Backup(chosen.map(|(key, there)| (key.clone(), there.value.clone())).collect())
    }

    /// Restarts with an empty store whose revisions begin anew, but for the objects that `keep` chooses: they are there
    /// again with their old uid and content.
    pub fn restart_empty(&self, keep: impl FnMut(&KindSpec, &Value) -> bool) {
        self.restore(&Backup::default(), keep);
    }

    /// Restarts with the objects that `keep` chooses, and with those of a backup; revisions begin anew.
    pub fn restore(&self, backup: &Backup, mut keep: impl FnMut(&KindSpec, &Value) -> bool) {
        let mut state = self.state();
        let mut fresh = Store::new(HISTORY_MAX);
        for (key, there) in state.store.iter() {
            let spec = state.registry.iter().find(|spec| spec.resource() == *key.resource);
            if spec.is_some_and(|spec| keep(spec, &there.value)) {
                let _ = fresh.create(key.clone(), there.value.clone());
            }
        }
        for (key, object) in &backup.0 {
            let _ = fresh.create(key.clone(), object.clone());
        }
        state.owners.retain(|key, _| fresh.get(key).is_some());
        state.store = fresh;
        state.disruptions += 1;
        drop(state);
        self.inner.changed.notify_waiters();
    }

    /// Makes a namespace; one that exists is left alone.
    ///
    /// # Errors
    /// If the name is none, or the registry has no namespaces.
    pub fn create_namespace(&self, name: &str) -> Result<(), Failure> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        match self.put("cluster", namespace) {
            Ok(_) => Ok(()),
            Err(failure) if failure.reason == Reason::AlreadyExists => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Creates `object` (with the uid and creation that it has, if it has them), or replaces the one of the same name
    /// whatever its version, status included: the hand of the cluster itself. Gives what is stored.
    ///
    /// # Errors
    /// As a create or replace through HTTP, but never `Conflict`.
    pub fn put(&self, who: &str, object: Value) -> Result<Value, Failure> {
        let target = self.target_of(&object)?;
        let mut state = self.state();
        let result = state.put(who, &target, object);
        drop(state);
        self.inner.changed.notify_waiters();
        result
    }

    /// One object, as a client gets it.
    #[must_use]
    pub fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.state();
        let spec = state.registry.by_plural(group, plural)?;
        let there = state.store.get(&ObjectKey::new(spec, namespace, name))?;
        Some(render(there, spec, spec.first_version()))
    }

    /// All objects of a kind, in one namespace or (`""`) in all.
    #[must_use]
    pub fn list(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let state = self.state();
        let Some(spec) = state.registry.by_plural(group, plural) else { return Vec::new() };
        let range = ObjectKey::range_of(spec, namespace);
        state.store.range(range).map(|(_, there)| render(there, spec, spec.first_version())).collect()
    }

    /// Deletes one object.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn delete(&self, who: &str, group: &str, plural: &str, namespace: &str, name: &str) -> Result<(), Failure> {
        let spec = self.state().registry.by_plural(group, plural).cloned().ok_or_else(unknown_kind)?;
        let version = spec.first_version().to_owned();
        let target = Target { spec, version, namespace: namespace.into(), name: Some(name.into()), status: false };
        self.carry_out(who, &Call { verb: Verb::Delete, target, query: Query::default() }, Value::Null).map(|_| ())
    }

    fn target_of(&self, object: &Value) -> Result<Target, Failure> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let kind = object["kind"].as_str().unwrap_or_default();
        let spec = self.state().registry.by_kind(group, kind).cloned().ok_or_else(unknown_kind)?;
        Ok(Target {
            version: version.into(),
            namespace: if spec.namespaced { meta::text(object, "namespace").into() } else { String::new() },
            name: Some(meta::text(object, "name").into()),
            status: false,
            spec,
        })
    }

    /// Does what `call` asks for, at once, and gives the HTTP code and body. Watches are not calls.
    pub(crate) fn carry_out(&self, who: &str, call: &Call, body: Value) -> Result<(u16, Value), Failure> {
        let mut state = self.state();
        let before = state.store.latest();
        let result = match call.verb {
            Verb::Get => state.read(&call.target, &call.query).map(|object| (200, object)),
            Verb::List | Verb::Watch => state.list(&call.target, &call.query).map(|list| (200, list)),
            Verb::Create => state.create(who, &call.target, body).map(|object| (201, object)),
            Verb::Replace => state.replace(who, &call.target, body).map(|object| (200, object)),
            Verb::Patch(kind) => state.patch(who, &call.target, kind, &call.query, &body),
            Verb::Delete => state.delete(who, &call.target, &body).map(|object| (200, object)),
            Verb::DeleteAll => state.delete_all(who, &call.target, &call.query).map(|status| (200, status)),
        };
        let changed = state.store.latest() != before;
        drop(state);
        if changed {
            self.inner.changed.notify_waiters();
        }
        result
    }
}

fn unknown_kind() -> Failure {
    Failure::new(Reason::NotFound, "the server does not serve this kind")
}
