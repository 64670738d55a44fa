//! API servers: the embedded one of each cluster, served on the stack of its host. What it accepts is told as facts, in
//! our own words.

use super::chronicle::Chronicle;
use super::process::{NAP, Process};
use super::sockets::{StackId, TcpListener};
use super::{FullSpeed, FullSpeedError};
use crate::world::{HostId, START, place};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::task::spawn_local;
use tombolo_apiserver::{Accepted, ApiServer, Backup, Change as Changed, Faults, KindSpec, Registry};
use tombolo_core::base::{ClusterId, Rng};
use tombolo_core::model::{Api, Kind, Object};
use tombolo_kube::convert::{self, Writer};
use tombolo_kube::{Places, resource};
use tombolo_scenarios::{ApiFault, ApiRef, Change, Daemon, Host, Place, StageError, What};

/// Port of API servers.
pub(super) const API_PORT: u16 = 6443;
/// The name under which the cluster itself writes.
pub(super) const CLUSTER: &str = "the cluster itself";
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

/// One API server.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) name: ApiRef,
    pub(super) host: HostId,
    pub(super) server: ApiServer,
    /// None while it is down.
    pub(super) process: Option<Process>,
    /// How often it was started.
    starts: u64,
    /// Of our objects, when it was backed up last.
    backup: Backup,
}

/// The `User-Agent` of a daemon.
pub(super) fn user_agent(cluster: &ClusterId, node: &tombolo_core::base::NodeName, daemon: Daemon) -> String {
    format!("tombolo-{daemon} ({cluster}/{node})")
}

impl FullSpeed {
    /// Makes the server of each API, with what its cluster has without us.
    pub(super) fn build_apis(&mut self, own_broker: bool) -> Result<(), FullSpeedError> {
        let layout = Arc::clone(&self.layout);
        let authors = self.authors();
        let names = layout.clusters().cloned().map(ApiRef::Cluster);
        for name in names.chain(own_broker.then_some(ApiRef::Broker)) {
            let Some(host) = layout.find(&Host::Api(name.clone())) else { continue };
            let seed = Rng::stream(self.seed, &format!("api {name}")).bits();
            let clock = self.chronicle.clone();
            let server = ApiServer::with_a_past(Registry::clusterset(), seed, move || START + clock.now());
            let listener = Listener {
                place: place(&layout, host),
                places: Places::default(),
                chronicle: self.chronicle.clone(),
                authors: Arc::clone(&authors),
            };
            server.observe(move |accepted| listener.accepted(accepted));
            self.apis.push(Served {
                name: name.clone(),
                host,
                server,
                process: None,
                starts: 0,
                backup: Backup::default(),
            });
            let number = self.apis.len() - 1;
            self.fill(number, |_| true)?;
            self.start_api(number)?;
        }
        Ok(())
    }

    /// Puts there what a cluster has without us, as far as it `has` it.
    fn fill(&self, number: usize, has: impl Fn(&Object) -> bool) -> Result<(), FullSpeedError> {
        let Some(api) = self.apis.get(number) else { return Ok(()) };
        let places = Places::default();
        for namespace in [places.local.as_str(), places.broker.as_str()] {
            api.server.create_namespace(namespace).map_err(|failure| FullSpeedError::Api(failure.to_string()))?;
        }
        let ApiRef::Cluster(cluster) = &api.name else { return Ok(()) };
        for object in self.layout.objects(cluster).into_iter().filter(has) {
            self.put(number, cluster, &object).map_err(|error| FullSpeedError::Api(error.to_string()))?;
        }
        Ok(())
    }

    /// The API is another cluster's now, and holds what that has without us, but for its exports.
    pub(super) fn rebuild_api(&mut self, number: usize) -> Result<(), FullSpeedError> {
        let Some(api) = self.apis.get_mut(number) else { return Ok(()) };
        api.backup = Backup::default();
        let (ran, server) = (api.process.is_some(), api.server.clone());
        self.stop_api(number);
        server.restart_empty(|_, _| false);
        self.fill(number, |object| object.kind() != Kind::ServiceExport)?;
        if ran { self.start_api(number) } else { Ok(()) }
    }

    /// The cluster itself writes, which nothing can refuse.
    pub(super) fn put(&self, number: usize, cluster: &ClusterId, object: &Object) -> Result<(), StageError> {
        let Some(api) = self.apis.get(number) else { return Ok(()) };
        self.stir(StackId(api.host.0));
        let writer = Writer { cluster: cluster.clone(), places: Places::default() };
        let ours = convert::write(object, Api::Local, &writer).map_err(|error| broken(&error))?;
        let mut value = Value::Null;
        convert::overlay(&mut value, &ours);
        api.server.put(CLUSTER, value).map_err(|failure| broken(&failure))?;
        Ok(())
    }

    /// Starts an API, unless it runs.
    pub(super) fn start_api(&mut self, number: usize) -> Result<(), FullSpeedError> {
        let (now, seed) = (self.time, self.seed);
        let Some(api) = self.apis.get(number).filter(|api| api.process.is_none()) else { return Ok(()) };
        if api.starts > 0 {
            self.free_port(StackId(api.host.0));
        }
        let Some(api) = self.apis.get_mut(number) else { return Ok(()) };
        api.starts += 1;
        let seed = Rng::stream(seed, &format!("api {} {}", api.name, api.starts)).bits();
        let process = Process::new(now, seed, NAP)?;
        let stack = StackId(api.host.0);
        process.spawn(serve(api.name.clone(), api.server.clone(), self.sockets.v4(stack), self.chronicle.clone()));
        api.process = Some(process);
        Ok(())
    }

    /// Kills the process of an API: its host closes all connections, and answers no new one.
    pub(super) fn stop_api(&mut self, number: usize) {
        let Some(api) = self.apis.get_mut(number) else { return };
        let stack = StackId(api.host.0);
        self.sockets.enter(stack);
        api.process = None;
        self.sockets.set_silent(stack, true);
    }

    /// Lets nothing of an API's former process stand in the way of the next: a connection that is still being closed holds
    /// the port (the simulated sockets have no `SO_REUSEADDR`).
    fn free_port(&mut self, stack: StackId) {
        // The ends of connections leave before these are forgotten; what is forgotten is gone once all has been sent.
        self.sockets.send_all(self.time, &mut self.fabric);
        self.sockets.forget(stack);
        self.sockets.send_all(self.time, &mut self.fabric);
        self.sockets.set_silent(stack, false);
    }

    /// The number of an API.
    pub(super) fn find_api(&self, name: &ApiRef) -> Option<usize> {
        self.apis.iter().position(|api| api.name == *name)
    }

    /// Whether an API's process runs.
    pub(super) fn is_serving(&self, name: &ApiRef) -> bool {
        self.find_api(name).and_then(|number| self.apis.get(number)).is_some_and(|api| api.process.is_some())
    }

    /// Lets an API behave like this.
    pub(super) fn set_fault(&mut self, number: usize, fault: &ApiFault) -> Result<(), FullSpeedError> {
        let Some(api) = self.apis.get(number) else { return Ok(()) };
        self.stir(StackId(api.host.0));
        let server = api.server.clone();
        match fault {
            ApiFault::Healthy => server.set_faults(Faults::default()),
            ApiFault::Slow(by) => server.set_faults(Faults { slow: *by, ..Faults::default() }),
            ApiFault::SlowDeletes(by) => server.set_faults(Faults { slow_deletes: *by, ..Faults::default() }),
            ApiFault::Erroring => server.set_faults(Faults { erroring: true, ..Faults::default() }),
            ApiFault::Down => {
                self.stop_api(number);
                return Ok(());
            }
            ApiFault::RestartedEmpty => {
                self.stop_api(number);
                server.set_faults(Faults::default());
                server.restart_empty(is_the_clusters_own);
            }
            ApiFault::BackedUp => {
                let backup = server.back_up(|spec, object| !is_the_clusters_own(spec, object));
                if let Some(api) = self.apis.get_mut(number) {
                    api.backup = backup;
                }
                return Ok(());
            }
            ApiFault::Restored => {
                let backup = api.backup.clone();
                self.stop_api(number);
                server.set_faults(Faults::default());
                server.restore(&backup, is_the_clusters_own);
            }
            ApiFault::HistoryExpired => server.expire_history(),
        }
        self.start_api(number)
    }

    /// Who is behind each `User-Agent`.
    fn authors(&self) -> Arc<BTreeMap<String, Place>> {
        let mut authors = BTreeMap::new();
        for (_, node) in self.layout.nodes() {
            for daemon in Daemon::ALL {
                let place = Place::Daemon(node.cluster.clone(), node.name.clone(), daemon);
                authors.insert(user_agent(&node.cluster, &node.name, daemon), place);
            }
        }
        Arc::new(authors)
    }
}

async fn serve(name: ApiRef, server: ApiServer, own: Ipv4Addr, chronicle: Chronicle) {
    let listener = match TcpListener::bind(SocketAddr::new(own.into(), API_PORT)).await {
        Ok(listener) => listener,
        Err(error) => return chronicle.broke(format!("the API of {name} cannot serve: {error}")),
    };
    while let Ok((stream, _)) = listener.accept().await {
        let server = server.clone();
        spawn_local(async move {
            // However the connection ends, it is the client's to notice.
            let _ = server.serve_connection(stream).await;
        });
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

/// Turns accepted writes into facts.
struct Listener {
    place: Place,
    places: Places,
    chronicle: Chronicle,
    authors: Arc<BTreeMap<String, Place>>,
}

impl Listener {
    fn accepted(&self, accepted: &Accepted<'_>) {
        let Some(object) = read(accepted.spec, accepted.object) else { return };
        let change = match accepted.change {
            Changed::Created => Change::Created,
            Changed::Replaced => Change::Replaced,
            Changed::Deleted => Change::Deleted,
        };
        // The broker's space of a member is the broker.
        let at_broker = accepted.namespace == self.places.broker;
        let place = if at_broker { Place::Api(ApiRef::Broker) } else { self.place.clone() };
        let by = self.authors.get(accepted.who).cloned().unwrap_or(Place::World);
        self.chronicle.tell(place, What::Wrote { by, change, key: object.key(), object });
    }
}
