//! The own cluster's side: what it exports, how that is published, and what is said about it.

use super::Discovery;
use crate::base::{ClusterId, Epoch, Wall};
use crate::discovery::{Exported, NotExportable, Published, conditions, conflicts, exported, pack};
use crate::model::{
    Api, EndpointSlice, ExportRecord, ExportSummary, Key, Kind, Object, ServiceExport, ServiceKey, SourceSlice,
};
use crate::roles::Event;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What an own service is to the clusterset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Own {
    /// The own views are not complete yet: nobody knows.
    Unknown,
    /// Exported, like this.
    Exported(Exported),
    /// Nobody wants it exported, or it cannot be.
    Not(Option<NotExportable>),
}

/// How far an own [`ExportSummary`] is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Summary {
    /// What it says, or is to say.
    generation: Option<u64>,
    /// Objects have come or gone since.
    pub(super) outdated: bool,
}

impl Discovery {
    pub(super) fn own(&self, service: &ServiceKey) -> Own {
        if !self.complete().own {
            return Own::Unknown;
        }
        let Some(export) = self.export(service) else { return Own::Not(None) };
        let slices: Vec<&EndpointSlice> = self.backends.of(service).filter_map(|key| self.backends_in(key)).collect();
        match exported(&self.cluster, export, self.service(service), &slices) {
            Ok(exported) => Own::Exported(exported),
            Err(why) => Own::Not(Some(why)),
        }
    }

    /// Says once why an export is not carried out.
    pub(super) fn tell(&mut self, service: &ServiceKey, own: &Own) {
        let why = match own {
            Own::Not(why) => why.clone(),
            Own::Unknown | Own::Exported(_) => None,
        };
        if self.not_exportable.get(service) == why.as_ref() {
            return;
        }
        match why {
            Some(why) => {
                self.events.push_back(Event::Ignored { because: why.to_string() });
                self.not_exportable.insert(service.clone(), why);
            }
            None => {
                self.not_exportable.remove(service);
            }
        }
    }

    /// Makes the broker show the own record and slices. What other clusters have there is not ours to touch.
    pub(super) fn publish(&mut self, service: &ServiceKey, own: &Own) {
        if !self.complete().broker || self.is_namesake() {
            return;
        }
        let wanted = match own {
            Own::Unknown => return,
            Own::Exported(Exported { record, endpoints, .. }) => {
                let known: Vec<&SourceSlice> =
                    self.slices_of(Api::Broker, service, &self.cluster).map(Arc::as_ref).collect();
                let slices = pack(&self.cluster, service, endpoints, &known);
                let slices = slices.into_iter().map(Object::from);
                slices.chain([Object::from(record.clone())]).collect()
            }
            Own::Not(_) => Vec::new(),
        };
        if wanted.is_empty() {
            self.refusals.remove(service);
        }
        self.make(Api::Broker, service, wanted, self.own_record_key(service));
    }

    /// The identity of the own record of `service`.
    pub(super) fn own_record_key(&self, service: &ServiceKey) -> Key {
        Key::of_service(Kind::ExportRecord, service).of(&self.cluster)
    }

    /// Makes the ServiceExport say what became of it.
    pub(super) fn report(&mut self, service: &ServiceKey, own: &Own) {
        let key = Key::of_service(Kind::ServiceExport, service);
        let wanted = match self.index.shown(Api::Local, &key) {
            Some((Object::ServiceExport(export), _)) => {
                let (exported, published) = match own {
                    Own::Unknown | Own::Not(None) => return,
                    Own::Not(Some(why)) => (Err(why), Published::Pending),
                    Own::Exported(own) => (Ok(own.left_out.as_slice()), self.published(service, &own.record)),
                };
                let conditions = conditions(exported, &published, &export.conditions, self.wall);
                Some(Object::from(ServiceExport { conditions, ..ServiceExport::clone(export) }))
            }
            // Its user has taken it back.
            Some(_) | None => None,
        };
        self.writer.want(Api::Local, &key, wanted.as_ref(), &self.index);
    }

    fn published(&self, service: &ServiceKey, own: &ExportRecord) -> Published {
        if self.is_namesake() {
            return Published::Refused(format!("another cluster has joined as {}", self.cluster));
        }
        if !self.complete().broker || !self.member {
            return Published::Unknown;
        }
        if let Some(why) = self.refusals.get(service) {
            return Published::Refused(why.to_string());
        }
        let others: Vec<&ExportRecord> =
            self.records_of(service).filter(|record| record.cluster != self.cluster).collect();
        if self.index.get(Api::Broker, &self.own_record_key(service)).is_none() {
            return Published::Pending;
        }
        Published::There(conflicts(others.into_iter().chain([own])))
    }

    /// Says that all is there, once it is: at the broker what is exported, in the own API what is imported. Not for each
    /// object while many come or go.
    pub(super) fn summarise(&mut self, api: Api) {
        let complete = self.complete();
        let (knows_all, kinds) = match api {
            Api::Broker => {
                // What is shown of before would be confirmed, if the broker got that back.
                let follows = self.index.follows(api, &[Kind::ExportRecord, Kind::SourceSlice, Kind::ExportSummary]);
                let knows_all = complete.own && complete.broker && follows && !self.is_namesake();
                (knows_all, [Kind::ExportRecord, Kind::SourceSlice])
            }
            Api::Local => {
                (complete.imports && complete.broker && self.may_say_all(), [Kind::Import, Kind::SourceSlice])
            }
        };
        if !self.member || !knows_all || self.writer.is_busy(api, &kinds) {
            return;
        }
        let seen = self.index.newest_word_of(api, Kind::ExportSummary, &self.cluster);
        let summary = self.summaries.entry(api).or_default();
        let outdated = core::mem::take(&mut summary.outdated);
        let last = summary.generation.max(seen);
        let generation = last.filter(|_| !outdated).unwrap_or_else(|| next(last, self.wall));
        summary.generation = Some(generation);
        let digest = self.index.summarised(api, &self.cluster);
        let summary = Object::from(ExportSummary { cluster: self.cluster.clone(), generation, digest });
        self.writer.want(api, &summary.key(), Some(&summary), &self.index);
    }
}

impl Discovery {
    /// Whether the own API has the word that all imports are there, or each of our members says that all it exports is at the
    /// broker, or had its time to say so.
    fn may_say_all(&self) -> bool {
        let Some(members) = &self.members else { return false };
        let said = self.summaries.get(&Api::Local).is_some_and(|summary| summary.generation.is_some())
            || self.index.word_of(Api::Local, Kind::ExportSummary, &self.cluster).is_some();
        // Plain Submariner has no epochs, and gives no word.
        let is_ours = |of: &ClusterId| {
            let word = self.index.word_of(Api::Local, Kind::Cluster, of);
            matches!(word, Some(Object::Cluster(record)) if record.epoch > Epoch(0))
        };
        let speak = || {
            members
                .iter()
                .filter(|of| **of != self.cluster && is_ours(of))
                .all(|of| self.index.summary_holds(Api::Broker, of))
        };
        said || self.patient_until.is_none() || speak()
    }
}

/// Higher than the last one; and by the clock, higher than those before it that nobody remembers.
fn next(last: Option<u64>, now: Wall) -> u64 {
    last.map_or(0, |last| last + 1).max(now.unix_secs())
}
