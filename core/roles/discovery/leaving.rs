//! The cluster leaves the clusterset: its exports leave the broker, and its imports the own API. What its users wrote stays,
//! without what we said about it.

use super::Discovery;
use crate::model::{Api, Digest, ExportSummary, Key, Kind, Object, ServiceExport, ServiceKey};
use crate::roles::Event;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Whether it was told that leaving is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    NotYet,
    Told,
}

impl Discovery {
    /// The cluster leaves from now on.
    pub(super) fn leave(&mut self) {
        if self.leaving.is_none() {
            self.leaving = Some(Left::NotYet);
            let all = self.services();
            self.judge_all(all);
        }
    }

    /// Takes away what there is of `service`, each API's as soon as that has shown all it has.
    pub(super) fn take_away(&mut self, service: &ServiceKey) {
        let complete = self.complete();
        if complete.broker && !self.is_namesake() {
            self.refusals.remove(service);
            self.make(Api::Broker, service, Vec::new(), self.own_record_key(service));
        }
        if complete.imports {
            self.make(Api::Local, service, Vec::new(), Key::of_service(Kind::Import, service));
        }
        let export_key = Key::of_service(Kind::ServiceExport, service);
        let bare = self
            .export(service)
            .map(|export| Object::from(ServiceExport { conditions: BTreeMap::new(), ..export.clone() }));
        self.writer.want(Api::Local, &export_key, bare.as_ref(), &self.index);
    }

    /// Takes the summaries away, and tells when nothing is left.
    pub(super) fn end_if_left(&mut self) {
        let complete = self.complete();
        let summary = ExportSummary { cluster: self.cluster.clone(), generation: 0, digest: Digest::default() };
        let key = Object::from(summary).key();
        let may_remove = complete.broker && !self.is_namesake();
        for (api, complete) in [(Api::Broker, may_remove), (Api::Local, complete.imports)] {
            if complete {
                self.writer.want(api, &key, None, &self.index);
            }
        }
        if self.leaving == Some(Left::NotYet)
            && complete.own
            && complete.broker
            && complete.imports
            && !self.is_left_over()
        {
            self.leaving = Some(Left::Told);
            self.events.push_back(Event::Left);
        }
    }

    /// Whether an API shows anything of this daemon's, or may yet.
    fn is_left_over(&self) -> bool {
        let kinds = [Kind::ExportRecord, Kind::SourceSlice, Kind::ExportSummary];
        let namesake = self.is_namesake();
        let is_own = |object: &Object| !namesake && object.cluster() == Some(&self.cluster);
        let says_something = |object: &Object| matches!(object, Object::ServiceExport(e) if !e.conditions.is_empty());
        self.writer.all_busy().any(|(api, _)| api == Api::Local || !namesake)
            || kinds.into_iter().any(|kind| self.index.shows_any(Api::Broker, kind, is_own))
            || [Kind::Import, Kind::SourceSlice, Kind::ExportSummary]
                .into_iter()
                .any(|kind| self.index.shows_any(Api::Local, kind, |_| true))
            || self.index.shows_any(Api::Local, Kind::ServiceExport, says_something)
    }
}
