//! An API server without HTTP: a versioned store, requests, watches and the ways in which it can misbehave.
//!
//! A member's API that is also the broker keeps both in one store with one revision, in two spaces: its own and the
//! broker's, as two namespaces would. A watch keeps a cursor into the history; what came after it is sent in one batch
//! when the batch before has left.

use super::process::Client;
use crate::world::HostId;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use tombolo_core::base::{Revision, Store, StoreError};
use tombolo_core::model::{Api, ApiError, Key, Kind, Object, ServiceKey, Version, WatchEvent, Write};
use tombolo_core::roles::RequestId;
use tombolo_scenarios::{ApiFault, ApiRef, Change};

/// How many events it remembers. kube-apiserver keeps five minutes; this is more than any scenario writes in that.
const HISTORY_MAX: usize = 10_000;

/// Which objects: the space, and the object within it.
type Address = (Api, Key);

/// What a client asks.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Read(RequestId, Key),
    Write(RequestId, Write),
    Watch { watch: usize, session: u64, kind: Kind, from: Option<Revision> },
}

/// What it gets.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Read(RequestId, Result<Option<(Object, Version)>, ApiError>),
    Written(RequestId, Result<Version, ApiError>),
    /// The watch goes on: all up to `revision`. The first one of a session says that it is open.
    Watched {
        watch: usize,
        session: u64,
        events: Vec<WatchEvent>,
        revision: Revision,
    },
    /// The watch is over.
    Ended {
        watch: usize,
        session: u64,
    },
}

/// A change that was accepted.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Accepted {
    pub(super) change: Change,
    pub(super) key: Key,
    /// As it is now; as it was last, if deleted.
    pub(super) object: Object,
}

/// The server's side of one watch.
#[derive(Clone, Debug)]
struct Watcher {
    session: u64,
    space: Api,
    kind: Kind,
    cursor: Revision,
    /// A batch has not left yet.
    busy: bool,
    /// When the last batch arrives: TCP keeps the order.
    arrived: Duration,
}

/// One connection of a watch: whose, which of its watches, and which session of it.
pub(super) type Connection = (Client, usize, u64);

/// See the module docs.
#[derive(Debug)]
pub(super) struct ApiServer {
    pub(super) name: ApiRef,
    pub(super) host: HostId,
    pub(super) fault: ApiFault,
    store: Store<Address, Arc<Object>>,
    backup: Vec<(Address, Arc<Object>)>,
    watchers: BTreeMap<(Client, usize), Watcher>,
}

impl ApiServer {
    pub(super) const fn new(name: ApiRef, host: HostId) -> Self {
        let store = Store::with_a_past(HISTORY_MAX);
        Self { name, host, fault: ApiFault::Healthy, store, backup: Vec::new(), watchers: BTreeMap::new() }
    }

    /// Answers a request; tells what it changed.
    pub(super) fn serve(&mut self, from: Client, space: Api, ask: Ask) -> (Answer, Option<Accepted>) {
        let erroring = self.fault == ApiFault::Erroring;
        match ask {
            Ask::Read(id, _) if erroring => (Answer::Read(id, Err(ApiError::Unreachable)), None),
            Ask::Write(id, _) if erroring => (Answer::Written(id, Err(ApiError::Unreachable)), None),
            Ask::Watch { watch, session, .. } if erroring => (Answer::Ended { watch, session }, None),
            Ask::Read(id, key) => {
                let there = self.store.get(&(space, key));
                let found = there.map(|there| (Object::clone(&there.value), version(there.modified)));
                (Answer::Read(id, Ok(found)), None)
            }
            Ask::Write(id, write) => match self.write(space, write) {
                Ok((revision, accepted)) => (Answer::Written(id, Ok(version(revision))), accepted),
                Err(error) => (Answer::Written(id, Err(error)), None),
            },
            Ask::Watch { watch, session, kind, from: revision } => {
                let watcher =
                    Watcher { session, space, kind, cursor: self.store.latest(), busy: true, arrived: Duration::ZERO };
                (self.watch((from, watch), watcher, revision), None)
            }
        }
    }

    /// Carries out a write, whatever the fault: for requests that got through, and for the world's own hands.
    pub(super) fn write(&mut self, space: Api, write: Write) -> Result<(Revision, Option<Accepted>), ApiError> {
        let key = write.key();
        let address = (space, key.clone());
        let before = self.store.latest();
        let (revision, change, object) = match write {
            Write::Create(object) => {
                let revision = self.store.create(address, Arc::new(object.clone())).map_err(refusal)?;
                (revision, Change::Created, object)
            }
            Write::Replace(object, expected) => {
                let expected = Some(parse(&expected)?);
                let revision = self.store.replace(address, Arc::new(object.clone()), expected).map_err(refusal)?;
                (revision, Change::Replaced, object)
            }
            Write::Delete(_, expected) => {
                let last = self.store.get(&address).map(|there| Arc::clone(&there.value)).ok_or(ApiError::Conflict)?;
                let revision = self.store.delete(&address, Some(parse(&expected)?)).map_err(refusal)?;
                (revision, Change::Deleted, Object::clone(&last))
            }
        };
        // A replace by the same content is no change.
        let accepted = (self.store.latest() != before).then_some(Accepted { change, key, object });
        Ok((revision, accepted))
    }

    /// The object, and the version that a write must name.
    pub(super) fn get(&self, space: Api, key: &Key) -> Option<(&Object, Version)> {
        let there = self.store.get(&(space, key.clone()))?;
        Some((&*there.value, version(there.modified)))
    }

    fn watch(&mut self, id: (Client, usize), mut watcher: Watcher, from: Option<Revision>) -> Answer {
        let (watch, session) = (id.1, watcher.session);
        let (space, kind) = (watcher.space, watcher.kind);
        let events = match from {
            None => self.listing(space, kind),
            Some(revision) => {
                let Some(events) = self.since(space, kind, revision) else {
                    self.watchers.remove(&id);
                    return Answer::Ended { watch, session };
                };
                events
            }
        };
        watcher.cursor = self.store.latest();
        let revision = watcher.cursor;
        self.watchers.insert(id, watcher);
        Answer::Watched { watch, session, events, revision }
    }

    fn listing(&self, space: Api, kind: Kind) -> Vec<WatchEvent> {
        let first = (space, Key::new(kind, "", ""));
        let mut events = vec![WatchEvent::Began(kind)];
        let found = self.store.range(first..).take_while(|((s, key), _)| *s == space && key.kind == kind);
        events
            .extend(found.map(|(_, there)| WatchEvent::Applied(Object::clone(&there.value), version(there.modified))));
        events.push(WatchEvent::Synced(kind));
        events
    }

    fn since(&self, space: Api, kind: Kind, revision: Revision) -> Option<Vec<WatchEvent>> {
        let events = self.store.events_since(revision).ok()?;
        let ours = events.filter(|event| event.key.0 == space && event.key.1.kind == kind);
        Some(
            ours.map(|event| match event.change.after() {
                Some(after) => WatchEvent::Applied(Object::clone(&after.value), version(after.modified)),
                None => WatchEvent::Deleted(event.key.1.clone()),
            })
            .collect(),
        )
    }

    /// The next batch of each watch that can take one.
    pub(super) fn batches(&mut self) -> Vec<(Client, Answer)> {
        let ids: Vec<(Client, usize)> = self.watchers.keys().copied().collect();
        ids.into_iter().filter_map(|id| Some((id.0, self.batch(id)?))).collect()
    }

    fn batch(&mut self, id: (Client, usize)) -> Option<Answer> {
        let watcher = self.watchers.get(&id).filter(|watcher| !watcher.busy)?;
        let (session, latest) = (watcher.session, self.store.latest());
        let Some(events) = self.since(watcher.space, watcher.kind, watcher.cursor) else {
            self.watchers.remove(&id);
            return Some(Answer::Ended { watch: id.1, session });
        };
        let watcher = self.watchers.get_mut(&id)?;
        watcher.cursor = latest;
        watcher.busy = !events.is_empty();
        watcher.busy.then_some(Answer::Watched { watch: id.1, session, events, revision: latest })
    }

    fn connection(&mut self, (client, watch, session): Connection) -> Option<&mut Watcher> {
        self.watchers.get_mut(&(client, watch)).filter(|watcher| watcher.session == session)
    }

    /// When a batch that could arrive at `at` does arrive: not before those sent earlier.
    pub(super) fn in_order(&mut self, connection: Connection, at: Duration) -> Duration {
        let Some(watcher) = self.connection(connection) else { return at };
        watcher.arrived = watcher.arrived.max(at);
        watcher.arrived
    }

    /// The batch has left: gives the next, if there is one.
    pub(super) fn batch_left(&mut self, connection: Connection) -> Option<Answer> {
        self.connection(connection)?.busy = false;
        self.batch((connection.0, connection.1))
    }

    /// Whether it serves this connection of a watch.
    pub(super) fn holds(&self, (client, watch, session): Connection) -> bool {
        self.watchers.get(&(client, watch)).is_some_and(|watcher| watcher.session == session)
    }

    /// The connection of a watch is gone.
    pub(super) fn hang_up(&mut self, connection: Connection) {
        if self.connection(connection).is_some() {
            self.watchers.remove(&(connection.0, connection.1));
        }
    }

    /// How much later it carries this out, if not at once.
    pub(super) fn puts_off(&self, ask: &Ask) -> Option<Duration> {
        match (&self.fault, ask) {
            (ApiFault::SlowDeletes(by), Ask::Write(_, Write::Delete(..))) => Some(*by),
            (_, Ask::Read(..) | Ask::Write(..) | Ask::Watch { .. }) => None,
        }
    }

    /// Ends all watches of a daemon that is gone.
    pub(super) fn forget(&mut self, client: Client) {
        self.watchers.retain(|(whose, _), _| *whose != client);
    }

    /// Ends all watches; their ends are to be told.
    fn end_all(&mut self) -> Vec<(Client, Answer)> {
        core::mem::take(&mut self.watchers)
            .into_iter()
            .map(|((client, watch), watcher)| (client, Answer::Ended { watch, session: watcher.session }))
            .collect()
    }

    /// It holds what the cluster has without us, and this.
    fn restart_with(&mut self, ours: &[(Address, Arc<Object>)]) -> Vec<(Client, Answer)> {
        self.fault = ApiFault::Healthy;
        let before = core::mem::replace(&mut self.store, Store::new(HISTORY_MAX));
        let kept = before.iter().filter(|((_, key), _)| key.kind.is_the_clusters_own());
        let kept = kept.map(|(address, there)| (address, &there.value));
        for (address, object) in kept.chain(ours.iter().map(|(address, object)| (address, object))) {
            // The store is empty, so nothing can be there already.
            let _ = self.store.create(address.clone(), Arc::clone(object));
        }
        self.end_all()
    }

    /// It is another cluster's now, and holds nothing.
    pub(super) fn rebuild(&mut self) -> Vec<(Client, Answer)> {
        self.store = Store::new(HISTORY_MAX);
        self.backup = Vec::new();
        self.end_all()
    }

    /// The services that the cluster exports.
    pub(super) fn exported(&self) -> Vec<ServiceKey> {
        let objects = self.store.iter().map(|(_, there)| &*there.value);
        objects.filter_map(|o| if let Object::ServiceExport(e) = o { Some(e.key.clone()) } else { None }).collect()
    }

    /// Begins to behave like this; gives what clients are told of it at once.
    pub(super) fn set_fault(&mut self, fault: ApiFault) -> Vec<(Client, Answer)> {
        match fault {
            ApiFault::Healthy | ApiFault::Slow(_) | ApiFault::SlowDeletes(_) | ApiFault::Erroring => {
                self.fault = fault;
                Vec::new()
            }
            ApiFault::Down => {
                self.fault = fault;
                self.end_all()
            }
            ApiFault::RestartedEmpty => self.restart_with(&[]),
            ApiFault::BackedUp => {
                let ours = self.store.iter().filter(|((_, key), _)| !key.kind.is_the_clusters_own());
                self.backup = ours.map(|(address, there)| (address.clone(), Arc::clone(&there.value))).collect();
                Vec::new()
            }
            ApiFault::Restored => {
                let backup = self.backup.clone();
                self.restart_with(&backup)
            }
            ApiFault::HistoryExpired => {
                self.store.compact(self.store.latest());
                self.end_all()
            }
        }
    }
}

fn version(revision: Revision) -> Version {
    Version(revision.to_string().into())
}

fn parse(version: &Version) -> Result<Revision, ApiError> {
    let refused = |_| ApiError::Refused(format!("'{}' is no resourceVersion", version.0).into());
    version.0.parse().map(Revision).map_err(refused)
}

const fn refusal(error: StoreError) -> ApiError {
    match error {
        StoreError::Exists { .. } | StoreError::NotFound | StoreError::Conflict { .. } => ApiError::Conflict,
    }
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
