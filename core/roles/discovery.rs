//! The discovery daemon, one a cluster: publishes what the cluster exports, and imports what the clusterset offers.
//!
//! ```text
//!  own API                                   broker
//!  ServiceExport, Service, EndpointSlice ──> ExportRecord of this cluster
//!  Import <────────────────────────────────  ExportRecords of all clusters
//! ```
//! Both arrows are level-triggered: whatever happens, the services it touches are judged anew by what all views show
//! together, and the writer makes the APIs show the result. A judgement that takes something away needs views that are
//! complete: an own record goes only when all of the own cluster's listings were complete, and an import changes only
//! when the broker's was. An unreachable broker therefore withdraws nothing; its view stays as it was. A record that a
//! listing does not show any more, without a deletion seen, stays in the import until that has lasted, and for as long as
//! its cluster has not even a Cluster record there: a broker that lost its data takes nothing away ([`Index::believe`]).
//!
//! In the own cluster's import the own source is as the own API shows it, once it is published: the own cluster learns
//! that its pods are not ready, or that an export has ended, even while the broker cannot be reached.

mod by_service;
#[cfg(test)]
mod tests;

use super::{Event, Input, Output, RequestId, Role};
use crate::base::{ClusterId, Instant, Label, Machine, Wall};
use crate::discovery::{NotExportable, export_record, merge};
use crate::model::{
    Api, EndpointSlice, ExportRecord, Import, Key, Kind, Object, Service, ServiceExport, ServiceKey, ServiceType,
    Source, WatchEvent,
};
use crate::sync::{Index, Writer};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::ToString;
use alloc::vec::Vec;
use by_service::ByService;
use serde::{Deserialize, Serialize};

/// What an own service is to the clusterset.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Own {
    /// The own views are not complete yet: nobody knows.
    Unknown,
    /// Exported, like this.
    Exported(ExportRecord),
    /// Nobody wants it exported, or it cannot be.
    Not(Option<NotExportable>),
}

/// Which views are complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Complete {
    own: bool,
    imports: bool,
    broker: bool,
}

/// Why the discovery machine wants to wake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum DiscoveryWake {
    /// A write is to be tried again, or was not seen to have taken effect.
    Write,
    /// What the broker does not show any more may be gone for good.
    Absence,
}

/// The machine. See the module docs.
#[derive(Clone, PartialEq, Debug)]
pub struct Discovery {
    cluster: ClusterId,
    index: Index,
    /// Slices of the own cluster.
    slices: ByService,
    /// Records at the broker.
    records: ByService,
    /// The service of each own record that was ever to be written or deleted: news of the write may come when the
    /// broker shows the record no more.
    published: BTreeMap<Key, ServiceKey>,
    /// Why exports are not carried out, as it was told last.
    refused: BTreeMap<ServiceKey, NotExportable>,
    writer: Writer,
    events: VecDeque<Event>,
    stopped: bool,
}

impl Discovery {
    /// The discovery of `cluster`. `seed` spreads the pauses after failed writes.
    #[must_use]
    pub fn new(cluster: ClusterId, seed: u64) -> Self {
        Self {
            cluster,
            index: Index::default(),
            slices: ByService::default(),
            records: ByService::default(),
            published: BTreeMap::new(),
            refused: BTreeMap::new(),
            writer: Writer::new(seed),
            events: VecDeque::new(),
            stopped: false,
        }
    }

    fn watched(&mut self, api: Api, event: WatchEvent, now: Instant) {
        let before = self.complete();
        let changed = self.index.watched(api, event, now);
        if api == Api::Broker {
            self.index.hear_out(api, &changed, now);
        }
        let mut touched: BTreeSet<ServiceKey> = changed.iter().flat_map(|key| self.services_of(key)).collect();
        let complete = self.complete();
        let at_last = |now: &Complete| now.broker && now.imports;
        if at_last(&complete) && !at_last(&before) {
            self.presume_imported(now);
        }
        touched.extend(self.believe_absences(now));
        if complete != before {
            touched.extend(self.services());
        }
        for service in &touched {
            self.judge(service);
        }
    }

    /// What is imported was at the broker once. That it is not there when this process first looks may mean that the broker
    /// has lost it.
    fn presume_imported(&mut self, now: Instant) {
        let imports = self.index.objects(Api::Local, Kind::Import).filter_map(|(_, object)| as_import(object));
        let from_others = |import: &Import| {
            let sources = import.sources.iter().filter(|(cluster, _)| **cluster != self.cluster);
            let record = |(cluster, source): (&ClusterId, &Source)| ExportRecord {
                cluster: cluster.clone(),
                key: import.key.clone(),
                service_type: import.service_type,
                ports: import.ports.iter().cloned().collect(),
                addresses: source.addresses.clone(),
                ready: source.ready,
                created: Wall::default(),
            };
            sources.map(record).collect::<Vec<_>>()
        };
        let records: Vec<ExportRecord> = imports.flat_map(from_others).collect();
        for record in records {
            let object = Object::ExportRecord(record);
            if self.index.presume(Api::Broker, &object, now) {
                self.services_of(&object.key());
            }
        }
    }

    /// Believes absences that have lasted, where their cluster speaks at the broker; its own cluster knows best itself.
    /// Gives the services that are touched.
    fn believe_absences(&mut self, now: Instant) -> Vec<ServiceKey> {
        let own = &self.cluster;
        let gone = self.index.believe(now, |index, api, object| {
            let Object::ExportRecord(record) = object else { return true };
            record.cluster == *own || index.speaks(api, &record.cluster)
        });
        gone.iter().flat_map(|key| self.services_of(key)).collect()
    }

    fn complete(&self) -> Complete {
        let synced = |kind| self.index.synced(Api::Local, kind);
        Complete {
            own: synced(Kind::Service) && synced(Kind::EndpointSlice) && synced(Kind::ServiceExport),
            imports: synced(Kind::Import),
            broker: self.index.synced(Api::Broker, Kind::ExportRecord),
        }
    }

    /// The services that a changed object concerns: one, none, or two if it was moved from one to another.
    fn services_of(&mut self, key: &Key) -> Vec<ServiceKey> {
        if key.kind == Kind::EndpointSlice {
            let now = self
                .slice(key)
                .map(|slice| ServiceKey { namespace: slice.namespace.clone(), name: slice.service.clone() });
            self.slices.moved(key, now)
        } else if key.kind == Kind::ExportRecord {
            let now = self.record(key).map(|record| record.key.clone());
            self.records.moved(key, now)
        } else {
            // Services, exports and imports have the service's own name.
            named(key).into_iter().collect()
        }
    }

    /// All services that anything is known of.
    fn services(&self) -> BTreeSet<ServiceKey> {
        let named = |kind| self.index.objects(Api::Local, kind).filter_map(|(key, _)| named(key));
        named(Kind::ServiceExport).chain(named(Kind::Import)).chain(self.records.services().cloned()).collect()
    }

    /// Decides all that `service` decides.
    fn judge(&mut self, service: &ServiceKey) {
        let own = self.own(service);
        self.tell(service, &own);
        self.publish(service, &own);
        self.import(service, &own);
    }

    fn own(&self, service: &ServiceKey) -> Own {
        if !self.complete().own {
            return Own::Unknown;
        }
        let Some(export) = self.export(service) else { return Own::Not(None) };
        let slices: Vec<&EndpointSlice> = self.slices.of(service).filter_map(|key| self.slice(key)).collect();
        match export_record(&self.cluster, export, self.service(service), &slices) {
            Ok(record) => Own::Exported(record),
            Err(why) => Own::Not(Some(why)),
        }
    }

    /// Says once why an export is not carried out.
    fn tell(&mut self, service: &ServiceKey, own: &Own) {
        let why = match own {
            Own::Not(why) => why.clone(),
            Own::Unknown | Own::Exported(_) => None,
        };
        if self.refused.get(service) == why.as_ref() {
            return;
        }
        match why {
            Some(why) => {
                self.events.push_back(Event::Ignored { because: why.to_string() });
                self.refused.insert(service.clone(), why);
            }
            None => {
                self.refused.remove(service);
            }
        }
    }

    /// Makes the broker show the own record. What other clusters have there is not ours to touch.
    fn publish(&mut self, service: &ServiceKey, own: &Own) {
        if !self.complete().broker {
            return;
        }
        let wanted = match own {
            Own::Unknown => return,
            Own::Exported(record) => Some(Object::ExportRecord(record.clone())),
            Own::Not(_) => None,
        };
        let key = self.own_record_key(service);
        if wanted.is_some() || self.index.get(Api::Broker, &key).is_some() {
            self.published.insert(key.clone(), service.clone());
        }
        self.writer.want(Api::Broker, &key, wanted.as_ref(), &self.index);
    }

    /// Makes the own API show the import that all records make.
    fn import(&mut self, service: &ServiceKey, own: &Own) {
        let complete = self.complete();
        if !complete.broker || !complete.imports {
            return;
        }
        let key = key(Kind::Import, service);
        let others = self.records.of(service).filter_map(|key| self.record(key));
        let (ours, others): (Vec<_>, Vec<_>) = others.partition(|record| record.cluster == self.cluster);
        let ours = match own {
            // Published; or it was, and the broker has lost it.
            Own::Exported(own) if !ours.is_empty() || self.imports_from_here(&key) => Some(own),
            Own::Unknown => ours.first().copied(),
            Own::Exported(_) | Own::Not(_) => None,
        };
        let wanted = merge(others.into_iter().chain(ours)).map(Object::Import);
        self.writer.want(Api::Local, &key, wanted.as_ref(), &self.index);
    }

    /// Whether the own API holds an import with the own cluster among its sources.
    fn imports_from_here(&self, key: &Key) -> bool {
        self.index
            .get(Api::Local, key)
            .and_then(as_import)
            .is_some_and(|import| import.sources.contains_key(&self.cluster))
    }

    /// The identity of the own record of `service`: that of any record of this cluster and service.
    fn own_record_key(&self, service: &ServiceKey) -> Key {
        Object::ExportRecord(ExportRecord {
            cluster: self.cluster.clone(),
            key: service.clone(),
            service_type: ServiceType::ClusterIp,
            ports: Vec::new(),
            addresses: Vec::new(),
            ready: false,
            created: Wall::default(),
        })
        .key()
    }

    /// Decides anew about objects that writes were about.
    fn judge_again(&mut self, written: impl IntoIterator<Item = (Api, Key)>) {
        for (_, key) in written {
            if let Some(service) = self.published.get(&key).cloned().or_else(|| named(&key)) {
                self.judge(&service);
            }
        }
    }
}

/// Typed looks into the index.
impl Discovery {
    fn service(&self, service: &ServiceKey) -> Option<&Service> {
        let Object::Service(service) = self.index.get(Api::Local, &key(Kind::Service, service))? else { return None };
        Some(service)
    }

    fn export(&self, service: &ServiceKey) -> Option<&ServiceExport> {
        let Object::ServiceExport(export) = self.index.get(Api::Local, &key(Kind::ServiceExport, service))? else {
            return None;
        };
        Some(export)
    }

    fn slice(&self, key: &Key) -> Option<&EndpointSlice> {
        let Object::EndpointSlice(slice) = self.index.get(Api::Local, key)? else { return None };
        Some(slice)
    }

    fn record(&self, key: &Key) -> Option<&ExportRecord> {
        let Object::ExportRecord(record) = self.index.get(Api::Broker, key)? else { return None };
        Some(record)
    }
}

fn as_import(object: &Object) -> Option<&Import> {
    let Object::Import(import) = object else { return None };
    Some(import)
}

/// The identity of an object that has its service's own name.
fn key(kind: Kind, service: &ServiceKey) -> Key {
    Key { kind, namespace: service.namespace.as_str().into(), name: service.name.as_str().into() }
}

/// The service whose name an object has. `None` if that is no name of a service.
fn named(key: &Key) -> Option<ServiceKey> {
    Some(ServiceKey { namespace: Label::new(&key.namespace).ok()?, name: Label::new(&key.name).ok()? })
}

impl Machine for Discovery {
    type Input = Input;
    type Output = Output;
    type Reason = DiscoveryWake;

    fn handle(&mut self, input: Input, now: Instant) {
        if self.stopped {
            return;
        }
        match input {
            Input::Watched(api, event) => self.watched(api, event, now),
            Input::Written(request, result) => {
                let written = self.writer.written(request.0, &result, now);
                self.judge_again(written);
            }
            // What it holds at the APIs stays there: other clusters use it, and the next process goes on with it.
            Input::Stop => self.stopped = true,
            Input::Wall(_) | Input::Read(..) | Input::Hello { .. } | Input::Applied(_) => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        if self.stopped {
            return None;
        }
        if let Some(event) = self.events.pop_front() {
            return Some(Output::Event(event));
        }
        self.writer.poll_write().map(|(request, api, write)| Output::Write(RequestId(request), api, write))
    }

    fn poll_timeout(&self) -> Option<(Instant, DiscoveryWake)> {
        let write = self.writer.poll_timeout().map(|at| (at, DiscoveryWake::Write));
        let absence = self.index.poll_timeout().map(|at| (at, DiscoveryWake::Absence));
        [write, absence].into_iter().flatten().min().filter(|_| !self.stopped)
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.stopped {
            return;
        }
        let due = self.writer.due(now);
        self.judge_again(due);
        for service in self.believe_absences(now) {
            self.judge(&service);
        }
    }
}

impl Role for Discovery {
    fn watches(&self) -> &'static [(Api, Kind)] {
        &[
            (Api::Local, Kind::Service),
            (Api::Local, Kind::EndpointSlice),
            (Api::Local, Kind::ServiceExport),
            (Api::Local, Kind::Import),
            (Api::Broker, Kind::Cluster),
            (Api::Broker, Kind::ExportRecord),
        ]
    }
}
