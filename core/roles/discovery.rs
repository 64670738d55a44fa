//! The discovery daemon, one a cluster: publishes what the cluster exports, and imports what the clusterset offers.
//!
//! ```text
//!  own API                                          broker
//!  ServiceExport, Service, EndpointSlice ─────────> ExportRecord, SourceSlices of this cluster, its ExportSummary
//!  conditions of the ServiceExports, Imports and
//!  their SourceSlices, where the namespace exists,
//!  and an ExportSummary of these                  <─ those of all clusters
//! ```
//! Both arrows are level-triggered: whatever happens, the services it touches are judged anew by what all views show
//! together, and the writer makes the APIs show the result. A judgement that takes something away needs views that are
//! complete: an own record goes only when all of the own cluster's listings were complete, and an import changes only
//! when the broker's were. An unreachable broker therefore withdraws nothing; its view stays as it was.
//!
//! What a listing of the broker does not show any more, without a deletion seen, stays in the import until that has lasted,
//! and for as long as its cluster has no [`ExportSummary`] there, or an older one than before: a broker that lost its data,
//! or got old data back, takes nothing away ([`Index::believe`]). A cluster that the own gateways do not know, or believe to
//! have left, is no member: what it has at the broker, or had, is not imported. Until they have said whom they know nothing
//! new is.
//!
//! Nothing is published or imported before the cluster is a member: before its gateways have announced it, here or at the
//! broker. From then on it is one, whatever the APIs lose. While another cluster has the claim to its id, what is at the
//! broker under that id is not its own: it is neither changed nor taken away (B36).
//!
//! Of other clusters no endpoint is believed that lies outside the ranges which they announced.
//!
//! The own API has an [`ExportSummary`] too: it says to the cluster's DNS that all imports are there. Where no such word stands
//! yet, it waits for those of all members: the broker may have lost what they have.
//!
//! In the own cluster's import the own source is as the own API shows it, once it is published: the own cluster learns
//! that its pods are not ready, or that an export has ended, even while the broker cannot be reached.

mod leaving;
mod looks;
mod own;
#[cfg(test)]
mod tests;
mod words;

use super::by_service::{ByService, as_slice};
use super::{Event, Input, Output, RequestId, Role};
use crate::base::{Cidr, ClusterId, Instant, Machine, Wall};
use crate::discovery::{NotExportable, believed, merge, pack};
use crate::model::{Api, ApiError, ExportRecord, Key, Kind, Object, ServiceKey, SourceSlice, WatchEvent};
use crate::sync::{Index, Writer};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use leaving::Left;
use own::{Own, Summary};
use serde::{Deserialize, Serialize};
use words::Words;

/// How many writes may be under way before the other services wait. All of a clusterset are judged at the start, and an API
/// has no use for a hundred thousand requests at once, nor has the daemon for the memory that they take.
const WRITES_AT_ONCE: usize = 1_000;

/// How long discovery waits for the word of each member before it says in an API that has no such word that all imports are
/// there: a member may have no discovery at all.
const PATIENCE: Duration = Duration::from_secs(120);

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
    /// Members have had their time to say that all they have is at the broker.
    Silence,
    /// The word of a cluster could not be read, and is asked for again.
    Word,
}

/// The machine. See the module docs.
#[derive(Clone, PartialEq, Debug)]
pub struct Discovery {
    cluster: ClusterId,
    /// Which cluster that is, as the claims at the broker name it.
    identity: String,
    /// The cluster has been announced.
    member: bool,
    index: Index,
    /// Slices of the own cluster.
    backends: ByService,
    /// Why exports are not carried out, as it was told last.
    not_exportable: BTreeMap<ServiceKey, NotExportable>,
    /// Why the broker refuses own records.
    refusals: BTreeMap<ServiceKey, Arc<str>>,
    /// The members, as the gateways of the own cluster knew them when the own API last had their word that it has all.
    members: Option<BTreeSet<ClusterId>>,
    /// What each cluster announced last that it has; it stays when its record does not.
    ranges: BTreeMap<ClusterId, Vec<Cidr>>,
    /// The own ones, at the broker and in the own cluster.
    summaries: BTreeMap<Api, Summary>,
    /// Until when it waits for the words of members.
    patient_until: Option<Instant>,
    /// Words that are being read.
    words: Words,
    wall: Wall,
    writer: Writer,
    /// Services that are yet to be judged: there were too many to write about all of them at once.
    touched: BTreeSet<ServiceKey>,
    events: VecDeque<Event>,
    /// The cluster leaves; and whether that was told to be over.
    leaving: Option<Left>,
    stopped: bool,
}

impl Discovery {
    /// The discovery of `cluster`. `identity` is the UID of its namespace `kube-system`: which cluster it is, whatever it is
    /// called (B36). `seed` spreads the pauses after failed writes.
    #[must_use]
    pub fn new(cluster: ClusterId, identity: String, seed: u64) -> Self {
        Self {
            cluster,
            identity,
            member: false,
            index: Index::default(),
            backends: ByService::default(),
            not_exportable: BTreeMap::new(),
            refusals: BTreeMap::new(),
            members: None,
            ranges: BTreeMap::new(),
            summaries: BTreeMap::new(),
            patient_until: None,
            words: Words::default(),
            wall: Wall::default(),
            writer: Writer::new(seed),
            touched: BTreeSet::new(),
            events: VecDeque::new(),
            leaving: None,
            stopped: false,
        }
    }
}

/// What arrives.
impl Discovery {
    fn watched(&mut self, api: Api, event: WatchEvent, now: Instant) {
        let about_claims = event.kind() == Kind::Claims;
        let whose_id = |discovery: &Self| about_claims && discovery.is_namesake();
        let (before, stood) = (self.complete(), (self.member, whose_id(self)));
        let claims = if api == Api::Broker { self.claims(&event) } else { None };
        let about_clusters = event.kind() == Kind::Cluster;
        let may_ask =
            api == Api::Broker && (event.kind() == Kind::ExportSummary || matches!(event, WatchEvent::Synced(_)));
        let lost = if let WatchEvent::Synced(kind) = event { self.writer.relisted(api, kind) } else { Vec::new() };
        let changed = self.index.watched(api, event, now);
        self.member = self.member || self.is_announced();
        let word = if api == Api::Broker { Kind::ExportSummary } else { Kind::Cluster };
        self.index.hear_out(api, word, &self.cluster, &changed, now);
        let mut touched: BTreeSet<ServiceKey> =
            changed.iter().chain(&lost).flat_map(|key| self.services_of(key)).collect();
        if let Some(cluster) = claims {
            let theirs = self.index.objects(Api::Broker, Kind::SourceSlice);
            let theirs = theirs.filter(|(_, object)| object.cluster() == Some(&cluster));
            touched.extend(theirs.filter_map(|(_, object)| as_slice(object)).map(|slice| slice.key.clone()));
        }
        if about_clusters {
            touched.extend(self.see_members());
        }
        let complete = self.complete();
        let at_last = |now: &Complete| now.broker && now.imports;
        if at_last(&complete) && !at_last(&before) {
            self.presume_imported(now);
            self.patient_until = Some(now + PATIENCE);
        }
        touched.extend(self.believe_absences(now));
        if complete != before || (self.member, whose_id(self)) != stood {
            touched.extend(self.services());
        }
        if may_ask {
            self.ask_for_words();
        }
        self.judge_all(touched);
    }

    /// Takes note of the ranges that a cluster announces. Gives the cluster if they are others than before: its terms come
    /// and go with its gateways, and change nothing here. What one of before announced is of the past.
    fn claims(&mut self, event: &WatchEvent) -> Option<ClusterId> {
        let WatchEvent::Applied(Object::Cluster(record), _) = event else { return None };
        if self.index.newest_word_of(Api::Broker, Kind::Cluster, &record.cluster) > Some(record.epoch.0) {
            return None;
        }
        let ranges: Vec<Cidr> = record.pods.iter().chain(&record.services).copied().collect();
        if self.ranges.get(&record.cluster) == Some(&ranges) {
            return None;
        }
        self.ranges.insert(record.cluster.clone(), ranges);
        Some(record.cluster.clone())
    }

    /// What is imported was at the broker once. That it is not there when this process first looks may mean that the broker
    /// has lost it.
    fn presume_imported(&mut self, now: Instant) {
        let mut presumed: Vec<Object> = Vec::new();
        for (_, object) in self.index.objects(Api::Local, Kind::Import) {
            let Object::Import(import) = object else { continue };
            presumed.extend(import.sources.iter().map(|(cluster, created)| {
                Object::from(ExportRecord {
                    cluster: cluster.clone(),
                    key: import.key.clone(),
                    created: *created,
                    offer: import.offer.clone(),
                })
            }));
        }
        presumed.extend(self.index.objects(Api::Local, Kind::SourceSlice).map(|(_, object)| object.clone()));
        presumed.retain(|object| object.cluster() != Some(&self.cluster));
        for object in presumed {
            self.index.presume(Api::Broker, &object, now);
        }
    }

    /// Believes absences that have lasted, where their cluster says that all it has is there; its own cluster knows best
    /// itself. Gives the services that are touched.
    fn believe_absences(&mut self, now: Instant) -> BTreeSet<ServiceKey> {
        let (own, members) = (&self.cluster, &self.members);
        let gateways_say_all = self.says_all_members();
        let has_left = |of: &ClusterId| members.as_ref().is_some_and(|members| !members.contains(of));
        let gone = self.index.believe(now, |index, api, object| match (api, object.kind(), object.cluster()) {
            (Api::Broker, Kind::ExportRecord | Kind::SourceSlice, Some(of)) => {
                of == own || index.summary_holds(Api::Broker, of) || has_left(of)
            }
            (Api::Local, Kind::Cluster, _) => gateways_say_all,
            _ => true,
        });
        let mut touched: BTreeSet<ServiceKey> = gone.iter().flat_map(|(_, key)| self.services_of(key)).collect();
        if gone.iter().any(|(_, key)| key.kind == Kind::Cluster) {
            touched.extend(self.see_members());
        }
        touched
    }

    /// Takes note of who is a member, if the own API has the word that it has all of them. Gives the services that are touched
    /// by who came or went.
    fn see_members(&mut self) -> BTreeSet<ServiceKey> {
        let index = &self.index;
        if !self.says_all_members() {
            return BTreeSet::new();
        }
        let known = index.objects(Api::Local, Kind::Cluster).filter_map(|(_, object)| object.cluster().cloned());
        let members = known.collect();
        let before = self.members.replace(members);
        let moved = |of: &ClusterId| {
            let [was, is] = [&before, &self.members].map(|m| m.as_ref().is_some_and(|known| known.contains(of)));
            before.is_none() || was != is
        };
        let records = index.objects(Api::Broker, Kind::ExportRecord);
        let theirs = records.filter(|(_, object)| object.cluster().is_some_and(moved));
        theirs.filter_map(|(key, _)| key.service()).collect()
    }

    /// Whether the own API has the gateways' word that it has all members.
    fn says_all_members(&self) -> bool {
        self.index.synced(Api::Local, Kind::Cluster)
            && self.index.word_of(Api::Local, Kind::Cluster, &self.cluster).is_some()
    }

    /// Whether what the cluster has at the broker of this service may be believed: it is a member; while nobody knows who is,
    /// if it is imported already.
    fn may_be_member(&self, cluster: &ClusterId, service: &ServiceKey) -> bool {
        let imported = || {
            let import = self.index.get(Api::Local, &Key::of_service(Kind::Import, service));
            matches!(import, Some(Object::Import(import)) if import.sources.contains_key(cluster))
        };
        *cluster == self.cluster || self.members.as_ref().map_or_else(imported, |members| members.contains(cluster))
    }

    fn complete(&self) -> Complete {
        let all = |api, kinds: &[Kind]| self.index.all_synced(api, kinds);
        Complete {
            own: all(Api::Local, &[Kind::Service, Kind::EndpointSlice, Kind::ServiceExport]),
            imports: all(Api::Local, &[Kind::Namespace, Kind::Import, Kind::SourceSlice, Kind::ExportSummary]),
            broker: all(Api::Broker, &[Kind::ExportRecord, Kind::SourceSlice, Kind::ExportSummary, Kind::Claims]),
        }
    }

    /// The services that a changed object concerns.
    fn services_of(&mut self, key: &Key) -> Vec<ServiceKey> {
        match key.kind {
            Kind::Namespace => {
                self.services().into_iter().filter(|service| service.namespace.as_str() == key.name).collect()
            }
            Kind::EndpointSlice => {
                let now = self
                    .backends_in(key)
                    .map(|slice| ServiceKey { namespace: slice.namespace.clone(), name: slice.service.clone() });
                self.backends.moved(key, now)
            }
            Kind::Service | Kind::ServiceExport | Kind::ExportRecord | Kind::Import | Kind::SourceSlice => {
                key.service().into_iter().collect()
            }
            Kind::ExportSummary
            | Kind::Node
            | Kind::Lease
            | Kind::Gateway
            | Kind::Cluster
            | Kind::Endpoint
            | Kind::Candidates
            | Kind::Claims => Vec::new(),
        }
    }

    /// All services that anything is known of.
    fn services(&self) -> BTreeSet<ServiceKey> {
        let kinds = [
            (Api::Local, Kind::ServiceExport),
            (Api::Local, Kind::Import),
            (Api::Local, Kind::SourceSlice),
            (Api::Broker, Kind::ExportRecord),
            (Api::Broker, Kind::SourceSlice),
        ];
        let all = kinds.into_iter().flat_map(|(api, kind)| self.index.objects(api, kind));
        all.filter_map(|(key, _)| key.service()).collect()
    }

    fn written(&mut self, request: u64, result: &Result<crate::model::Version, ApiError>, now: Instant) {
        let Some((api, key)) = self.writer.written(request, result, now) else { return };
        if key.kind == Kind::ExportRecord
            && let Some(service) = key.service()
        {
            match result {
                Err(ApiError::Refused(why)) => drop(self.refusals.insert(service, why.clone())),
                Ok(_) => drop(self.refusals.remove(&service)),
                Err(ApiError::Conflict | ApiError::Unreachable) => {}
            }
        }
        self.judge_again([(api, key)]);
    }
}

/// What follows from it.
impl Discovery {
    fn judge_all(&mut self, services: impl IntoIterator<Item = ServiceKey>) {
        self.touched.extend(services);
        while self.writer.in_flight() < WRITES_AT_ONCE
            && let Some(service) = self.touched.pop_first()
        {
            self.judge(&service);
        }
        if !self.touched.is_empty() {
            return;
        }
        if self.leaving.is_some() {
            self.end_if_left();
            return;
        }
        self.summarise(Api::Broker);
        self.summarise(Api::Local);
    }

    /// Decides anew about objects that writes were about.
    fn judge_again(&mut self, written: impl IntoIterator<Item = (Api, Key)>) {
        let services: BTreeSet<ServiceKey> = written.into_iter().filter_map(|(_, key)| key.service()).collect();
        self.judge_all(services);
    }

    /// Decides all that `service` decides.
    fn judge(&mut self, service: &ServiceKey) {
        if self.leaving.is_some() {
            self.take_away(service);
            return;
        }
        let own = self.own(service);
        self.tell(service, &own);
        if self.member {
            self.publish(service, &own);
            self.import(service, &own);
        }
        self.report(service, &own);
    }

    /// Makes the own API show the import that all records make, and the endpoints of its sources.
    fn import(&mut self, service: &ServiceKey, own: &Own) {
        let complete = self.complete();
        if !complete.broker || !complete.imports {
            return;
        }
        let import_key = Key::of_service(Kind::Import, service);
        // Whether it still exports is seen soon; what the broker has of it may be lost.
        if matches!(own, Own::Unknown) && self.imports_from_here(&import_key) {
            return;
        }
        let of_members = self.records_of(service).filter(|record| self.may_be_member(&record.cluster, service));
        let (ours, others): (Vec<_>, Vec<_>) = of_members.partition(|record| record.cluster == self.cluster);
        let ours = match own {
            // Published; or it was, and the broker has lost it.
            Own::Exported(own) if !ours.is_empty() || self.imports_from_here(&import_key) => Some(&own.record),
            Own::Unknown => ours.first().copied(),
            Own::Exported(_) | Own::Not(_) => None,
        };
        let namespace = Key::new(Kind::Namespace, "", &service.namespace);
        let import = merge(others.into_iter().chain(ours)).filter(|_| self.index.get(Api::Local, &namespace).is_some());
        let sources = import.iter().flat_map(|import| import.sources.keys());
        let slices: Vec<Arc<SourceSlice>> =
            sources.flat_map(|source| self.imported_from(source, service, own)).collect();
        let wanted = slices.into_iter().map(Object::SourceSlice).chain(import.map(Object::from)).collect();
        self.make(Api::Local, service, wanted, import_key);
    }

    /// The endpoints that `source` has for the import: as its cluster tells them, and in the own cluster as they are.
    fn imported_from(&self, source: &ClusterId, service: &ServiceKey, own: &Own) -> Vec<Arc<SourceSlice>> {
        match own {
            Own::Exported(own) if *source == self.cluster => {
                let known: Vec<&SourceSlice> = self.slices_of(Api::Local, service, source).map(Arc::as_ref).collect();
                pack(source, service, &own.endpoints, &known).into_iter().map(Arc::new).collect()
            }
            Own::Exported(_) | Own::Unknown | Own::Not(_) => {
                let ranges = self.ranges.get(source).map(Vec::as_slice);
                self.slices_from(service, source).map(|slice| believed(slice, ranges)).collect()
            }
        }
    }

    /// Makes `api` show these objects of `service`, and no others: neither slices that are there, nor `one`, nor what is
    /// being written.
    fn make(&mut self, api: Api, service: &ServiceKey, wanted: Vec<Object>, one: Key) {
        let wanted: BTreeMap<Key, Object> = wanted.into_iter().map(|object| (object.key(), object)).collect();
        let is_ours = |object: &Object| api == Api::Local || object.cluster() == Some(&self.cluster);
        let there = self.index.of_service(api, Kind::SourceSlice, service).filter(|(_, object)| is_ours(object));
        let there = there.map(|(key, _)| Key::from(key));
        let busy = [Kind::SourceSlice, one.kind].into_iter().flat_map(|kind| self.writer.busy_with(api, kind, service));
        let keys: BTreeSet<Key> = wanted.keys().chain(busy).cloned().chain(there).chain([one]).collect();
        for key in keys {
            let wanted = wanted.get(&key);
            if let Some(wanted) = wanted {
                self.index.share(api, &key, wanted);
            }
            if self.index.shown(api, &key).is_some() != wanted.is_some() {
                self.summaries.entry(api).or_default().outdated = true;
            }
            self.writer.want(api, &key, wanted, &self.index);
        }
    }
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
            Input::Written(request, result) => self.written(request.0, &result, now),
            Input::Wall(wall) => self.wall = wall,
            // What it holds at the APIs stays there: other clusters use it, and the next process goes on with it.
            Input::Stop => self.stopped = true,
            Input::Leave => self.leave(),
            Input::Read(id, result) => self.word_read(id, result, now),
            Input::Hello { .. } | Input::Probe { .. } | Input::LookedUp(_) | Input::Applied(_) => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        if self.stopped {
            return None;
        }
        if let Some(event) = self.events.pop_front() {
            return Some(Output::Event(event));
        }
        if let Some((id, key)) = self.words.poll_read() {
            return Some(Output::Read(id, Api::Broker, key));
        }
        self.writer.poll_write().map(|(request, api, write)| Output::Write(RequestId(request), api, write))
    }

    fn poll_timeout(&self) -> Option<(Instant, DiscoveryWake)> {
        let write = self.writer.poll_timeout().map(|at| (at, DiscoveryWake::Write));
        let absence = self.index.poll_timeout().map(|at| (at, DiscoveryWake::Absence));
        let silence = self.patient_until.map(|at| (at, DiscoveryWake::Silence));
        let word = self.words.poll_timeout().map(|at| (at, DiscoveryWake::Word));
        [write, absence, silence, word].into_iter().flatten().min().filter(|_| !self.stopped)
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.stopped {
            return;
        }
        let due = self.writer.due(now);
        if !due.is_empty() {
            self.judge_again(due);
        }
        if self.words.is_due(now) {
            self.ask_for_words();
        }
        let gone = self.believe_absences(now);
        let waited = self.patient_until.take_if(|at| *at <= now).is_some();
        if waited || !gone.is_empty() {
            self.judge_all(gone);
        }
    }
}

impl Role for Discovery {
    fn watches(&self) -> &'static [(Api, Kind)] {
        &[
            (Api::Local, Kind::Cluster),
            (Api::Local, Kind::Namespace),
            (Api::Local, Kind::Service),
            (Api::Local, Kind::EndpointSlice),
            (Api::Local, Kind::ServiceExport),
            (Api::Local, Kind::Import),
            (Api::Local, Kind::SourceSlice),
            (Api::Local, Kind::ExportSummary),
            (Api::Broker, Kind::ExportRecord),
            (Api::Broker, Kind::SourceSlice),
            (Api::Broker, Kind::ExportSummary),
            (Api::Broker, Kind::Cluster),
            (Api::Broker, Kind::Claims),
        ]
    }
}
