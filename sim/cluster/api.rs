//! An API server of a scenario: the embedded one, with what its cluster has without us. What it accepts is told as facts,
//! in our own words.

use crate::authors::Authors;
use serde_json::Value;
use tombolo_apiserver::{Accepted, ApiServer, Backup, Change as Changed, Faults, KindSpec, Registry};
use tombolo_core::base::{ClusterId, Wall};
use tombolo_core::model::{Api, Kind, Object, ServiceKey};
use tombolo_kube::convert::{self, Writer};
use tombolo_kube::{Places, resource};
use tombolo_scenarios::ground::{Lifecycles, second_slice};
use tombolo_scenarios::layout::{Layout, ServiceLayout, export};
use tombolo_scenarios::{ApiFault, ApiRef, Change, Place, StageError, What};

/// Port of API servers.
pub const API_PORT: u16 = 6443;
/// The name under which the cluster itself writes.
const CLUSTER: &str = "the cluster itself";
/// Our kinds.
const KINDS: [Kind; 15] = [
    Kind::Namespace,
    Kind::Node,
    Kind::Service,
    Kind::EndpointSlice,
    Kind::ServiceExport,
    Kind::Lease,
    Kind::Gateway,
    Kind::Cluster,
    Kind::Endpoint,
    Kind::Candidates,
    Kind::Claims,
    Kind::ExportRecord,
    Kind::ExportSummary,
    Kind::Import,
    Kind::SourceSlice,
];

/// What a fault does to the process that serves an API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Process {
    /// Nothing.
    Stays,
    /// It runs from then on, if it did not.
    Runs,
    /// It ends, before what is stored changes.
    Ends,
    /// It ends, and another one serves what is stored then.
    Restarts,
}

/// What becomes of the process that serves an API with such a fault.
#[must_use]
pub const fn process_after(fault: &ApiFault) -> Process {
    match fault {
        ApiFault::BackedUp => Process::Stays,
        ApiFault::Down => Process::Ends,
        ApiFault::RestartedEmpty | ApiFault::Restored => Process::Restarts,
        ApiFault::Healthy
        | ApiFault::Slow(_)
        | ApiFault::SlowDeletes(_)
        | ApiFault::Erroring
        | ApiFault::HistoryExpired => Process::Runs,
    }
}

/// What an API stores and how it behaves. A world serves its [`ApiServer`].
#[derive(Debug)]
pub struct ClusterApi {
    name: ApiRef,
    server: ApiServer,
    /// Of our objects, when it was backed up last.
    backup: Backup,
}

impl ClusterApi {
    /// One that has been in use for long, with what its cluster has without us. `tell` hears of each accepted write; it
    /// must not call the server.
    ///
    /// # Errors
    /// [`StageError::Broken`].
    pub fn new(
        layout: &Layout,
        name: ApiRef,
        seed: u64,
        wall: impl FnMut() -> Wall + Send + 'static,
        tell: impl Fn(Place, What) + Send + 'static,
    ) -> Result<Self, StageError> {
        let server = ApiServer::with_a_past(Registry::clusterset(), seed, wall);
        let (places, authors, own) = (Places::default(), Authors::of(layout), Place::Api(name.clone()));
        server.observe(move |accepted| {
            // The broker's space of a member is the broker.
            let at_broker = accepted.namespace == places.broker;
            let place = if at_broker { Place::Api(ApiRef::Broker) } else { own.clone() };
            if let Some(what) = fact(accepted, &authors) {
                tell(place, what);
            }
        });
        let api = Self { name, server, backup: Backup::default() };
        api.fill(layout, |_| true)?;
        Ok(api)
    }

    /// Whose it is.
    #[must_use]
    pub const fn name(&self) -> &ApiRef {
        &self.name
    }

    /// What is to be served.
    #[must_use]
    pub const fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Puts there what a cluster has without us, as far as it `has` it.
    fn fill(&self, layout: &Layout, has: impl Fn(&Object) -> bool) -> Result<(), StageError> {
        let places = Places::default();
        for namespace in ["default", "kube-system", places.local.as_str(), places.broker.as_str()] {
            self.server.create_namespace(namespace).map_err(|failure| broken(&failure))?;
        }
        let ApiRef::Cluster(cluster) = &self.name else { return Ok(()) };
        layout.objects(cluster).into_iter().filter(has).try_for_each(|object| self.put(cluster, &object))
    }

    /// It is another cluster's now, of the same name, and holds what that has without us. Exports stay, as if somebody
    /// had brought them over: created `at` this time.
    ///
    /// # Errors
    /// [`StageError::Broken`].
    pub fn rebuild(&mut self, layout: &Layout, at: Wall) -> Result<(), StageError> {
        let ApiRef::Cluster(cluster) = self.name.clone() else { return Ok(()) };
        let services = layout.services().iter().filter(|service| service.cluster == cluster);
        let exported: Vec<&ServiceKey> =
            services.map(|service| &service.key).filter(|key| self.is_exported(key)).collect();
        self.backup = Backup::default();
        self.server.restart_empty(|_, _| false);
        self.fill(layout, |object| object.kind() != Kind::ServiceExport)?;
        exported.into_iter().try_for_each(|key| self.export(&cluster, key, at).map(drop))
    }

    /// The cluster itself writes, which nothing can refuse.
    fn put(&self, cluster: &ClusterId, object: &Object) -> Result<(), StageError> {
        let writer = Writer { cluster: cluster.clone(), places: Places::default() };
        let ours = convert::write(object, Api::Local, &writer).map_err(|error| broken(&error))?;
        let mut value = Value::Null;
        convert::overlay(&mut value, &ours);
        self.server.put(CLUSTER, value).map_err(|failure| broken(&failure))?;
        Ok(())
    }

    fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        let called = resource(kind);
        self.server.get(&called.group, &called.plural, namespace, name).is_some()
    }

    /// The cluster itself deletes; false if it is not there.
    fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Result<bool, StageError> {
        if !self.has(kind, namespace, name) {
            return Ok(false);
        }
        let called = resource(kind);
        let deleted = self.server.delete(CLUSTER, &called.group, &called.plural, namespace, name);
        deleted.map(|()| true).map_err(|failure| broken(&failure))
    }

    fn is_exported(&self, key: &ServiceKey) -> bool {
        self.has(Kind::ServiceExport, key.namespace.as_str(), key.name.as_str())
    }

    /// Creates an export; false if it is there already.
    ///
    /// # Errors
    /// [`StageError::Broken`].
    pub fn export(&self, cluster: &ClusterId, key: &ServiceKey, at: Wall) -> Result<bool, StageError> {
        let is_new = !self.is_exported(key);
        if is_new {
            self.put(cluster, &Object::from(export(key, at)))?;
        }
        Ok(is_new)
    }

    /// Deletes an export; false if it is not there.
    ///
    /// # Errors
    /// [`StageError::Broken`].
    pub fn unexport(&self, key: &ServiceKey) -> Result<bool, StageError> {
        self.delete(Kind::ServiceExport, key.namespace.as_str(), key.name.as_str())
    }

    /// The slices of a service follow what its cluster thinks of its pods.
    ///
    /// # Errors
    /// [`StageError::Broken`].
    pub fn write_slices(
        &self,
        layout: &Layout,
        lifecycles: &Lifecycles,
        service: &ServiceLayout,
    ) -> Result<(), StageError> {
        let [first, second] = lifecycles.slices(layout, service);
        let is_back = second.is_none();
        for slice in [first, second].into_iter().flatten() {
            self.put(&service.cluster, &Object::from(slice))?;
        }
        if is_back {
            self.delete(Kind::EndpointSlice, service.key.namespace.as_str(), &second_slice(service))?;
        }
        Ok(())
    }

    /// It behaves like this from now on. The world sees to its process: see [`process_after`].
    pub fn suffer(&mut self, fault: &ApiFault) {
        let server = &self.server;
        match fault {
            ApiFault::Healthy => server.set_faults(Faults::default()),
            ApiFault::Slow(by) => server.set_faults(Faults { slow: *by, ..Faults::default() }),
            ApiFault::SlowDeletes(by) => server.set_faults(Faults { slow_deletes: *by, ..Faults::default() }),
            ApiFault::Erroring => server.set_faults(Faults { erroring: true, ..Faults::default() }),
            ApiFault::Down => {}
            ApiFault::RestartedEmpty => {
                server.set_faults(Faults::default());
                server.restart_empty(is_the_clusters_own);
            }
            ApiFault::BackedUp => {
                self.backup = server.back_up(|spec, object| !is_the_clusters_own(spec, object));
            }
            ApiFault::Restored => {
                server.set_faults(Faults::default());
                server.restore(&self.backup, is_the_clusters_own);
            }
            ApiFault::HistoryExpired => server.expire_history(),
        }
    }
}

fn broken(error: &impl ToString) -> StageError {
    StageError::Broken(error.to_string())
}

/// The object in our words; `None` for one of another kind, and for one that cannot be read: its readers tell of it. Two of
/// our kinds are one of Kubernetes'.
fn read(spec: &KindSpec, object: &Value) -> Option<Object> {
    let kinds = KINDS.into_iter().filter(|kind| {
        let called = resource(*kind);
        (called.group.as_str(), called.kind.as_str()) == (spec.group.as_str(), spec.kind.as_str())
    });
    kinds.filter_map(|kind| convert::read(kind, object).ok().flatten()).next()
}

/// Whether an object is there without us.
fn is_the_clusters_own(spec: &KindSpec, object: &Value) -> bool {
    read(spec, object).is_none_or(|object| object.kind().is_the_clusters_own())
}

/// An accepted write as a fact.
fn fact(accepted: &Accepted<'_>, authors: &Authors) -> Option<What> {
    let object = read(accepted.spec, accepted.object)?;
    let change = match accepted.change {
        Changed::Created => Change::Created,
        Changed::Replaced => Change::Replaced,
        Changed::Deleted => Change::Deleted,
    };
    let by = authors.find(accepted.who).cloned().unwrap_or(Place::World);
    Some(What::Wrote { by, change, key: object.key(), object })
}
