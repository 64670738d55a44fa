//! The cluster's copies of what other clusters have at the broker.

use super::{COPIED, Gateway};
use crate::base::{ClusterId, Epoch};
use crate::model::{Api, Key, Kind, Object};
use crate::roles::node_side::says_all;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

impl Gateway {
    /// An own API without the holder's word has lost its data. There may be no holder for a while, or one that is new and
    /// knows less: whoever may be a gateway gives back what it knows, or what the broker has, of slots and other clusters.
    pub(super) fn give_back(&mut self) {
        let own = self.node.config().cluster.clone();
        if !self.index.all_synced(Api::Local, &COPIED) || says_all(&self.index, Api::Local, &own) {
            return;
        }
        let slots = self.candidates_before().filter(|_| self.term.is_none()).map(|own| Object::Candidates(own.clone()));
        let known = |kind| {
            if self.index.synced(Api::Broker, kind) { self.copies(kind) } else { self.foreign(Api::Local, kind) }
        };
        let copies = COPIED.into_iter().flat_map(|kind| known(kind).into_values());
        let missing = copies.chain(slots).filter(|object| self.index.shown(Api::Local, &object.key()).is_none());
        for object in missing.collect::<Vec<_>>() {
            self.writer.want(Api::Local, &object.key(), Some(&object), &self.index);
        }
    }

    /// Makes the cluster's copies of the other clusters' records equal to the broker's (R32): never to an older epoch's
    /// (F1), and nothing goes that is believed to be at the broker (F3). An own API that lost its data gets back what is
    /// known here.
    pub(super) fn copy_from_broker(&mut self) {
        for kind in COPIED {
            if !self.index.synced(Api::Broker, kind) || !self.index.synced(Api::Local, kind) {
                continue;
            }
            let copies = self.copies(kind);
            for (key, copy) in &copies {
                self.writer.want(Api::Local, key, Some(copy), &self.index);
            }
            for key in self.foreign(Api::Local, kind).keys().filter(|key| !copies.contains_key(*key)) {
                self.writer.want(Api::Local, key, None, &self.index);
            }
        }
    }

    /// What belongs in the own API of what others have at the broker.
    pub(super) fn copies(&self, kind: Kind) -> BTreeMap<Key, Object> {
        let (at_broker, here) = (self.foreign(Api::Broker, kind), self.foreign(Api::Local, kind));
        let epoch = |object: &Object| object.announced().map(|(_, epoch)| epoch);
        let mut latest: BTreeMap<ClusterId, Epoch> = BTreeMap::new();
        for (of, epoch) in at_broker.values().filter_map(Object::announced) {
            let known = latest.entry(of.clone()).or_insert(epoch);
            *known = epoch.max(*known);
        }
        // A cluster has one Endpoint, but a late clean-up may leave the former one beside it for a while.
        let outdated = |object: &Object| {
            object.announced().is_some_and(|(of, epoch)| kind == Kind::Endpoint && Some(&epoch) < latest.get(of))
        };
        let newest = |(key, object): (Key, Object)| {
            let copy = here.get(&key).filter(|copy| epoch(copy) > epoch(&object)).cloned();
            (key, copy.unwrap_or(object))
        };
        at_broker.into_iter().filter(|(_, object)| !outdated(object)).map(newest).collect()
    }

    /// What other clusters announced.
    pub(super) fn foreign(&self, api: Api, kind: Kind) -> BTreeMap<Key, Object> {
        let own = &self.node.config().cluster;
        let foreign = |object: &Object| object.announced().is_some_and(|(cluster, _)| cluster != own);
        let objects = self.index.objects(api, kind).filter(|(_, object)| foreign(object));
        objects.map(|(key, object)| (key.clone(), object.clone())).collect()
    }
}
