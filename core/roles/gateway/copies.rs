//! The cluster's copies of what other clusters have at the broker.

use super::joining::ranges_of;
use super::{COPIED, Gateway};
use crate::base::{ClusterId, Epoch};
use crate::ipam::conflicts;
use crate::model::{Api, ClusterRecord, Key, Kind, Object, Ranges};
use crate::roles::node_side::{claims, remote_clusters, says_all};
use crate::roles::{Event, Output};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Gateway {
    /// An own API without the holder's word has lost its data. There may be no holder for a while, or one that is new and
    /// knows less: whoever may be a gateway gives back what it knows, or what the broker has, of slots and other clusters.
    pub(super) fn give_back(&mut self) {
        let own = self.node.config().cluster.clone();
        let lacks = self.index.all_synced(Api::Local, &COPIED) && !says_all(&self.index, Api::Local, &own);
        if !lacks || !self.is_member() {
            return;
        }
        let slots = self.candidates_before().filter(|_| self.term.is_none()).map(|own| Object::from(own.clone()));
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

    /// Judges anew whose announcements are not believed: of those who announce other ranges than are copied here, or of
    /// whom nothing is, each that meets this cluster, or one that is copied, or one that comes before it: first those with a
    /// claim, then in order of ids (submariner.md 17, `overlapping_remote_endpoint_not_synced`). What was believed before
    /// stays so.
    pub(super) fn see_strangers(&mut self) {
        let config = self.node.config();
        let own = Ranges { pods: config.pods.clone(), services: config.services.clone(), ..Ranges::default() };
        let copied: BTreeMap<ClusterId, &ClusterRecord> = remote_clusters(&self.index, &config.cluster).collect();
        let at_broker = self.foreign(Api::Broker, Kind::Cluster);
        let (mut standing, mut others) = (alloc::vec![(config.cluster.clone(), own)], Vec::new());
        for record in
            at_broker.values().filter_map(|object| if let Object::Cluster(r) = object { Some(r) } else { None })
        {
            let copy = copied.get(&record.cluster);
            let known = copy.is_some_and(|copy| (&copy.pods, &copy.services) == (&record.pods, &record.services));
            let side = (record.cluster.clone(), ranges_of(record));
            if known { standing.push(side) } else { others.push(side) }
        }
        let claims = claims(&self.index);
        others.sort_by_key(|(cluster, _)| !claims.is_some_and(|claims| claims.members.contains_key(cluster)));
        let mut strangers = BTreeMap::new();
        for (cluster, ranges) in others {
            let mut met = standing.iter().flat_map(|(id, known)| conflicts((&cluster, &ranges), (id, known)));
            if let Some(conflict) = met.next() {
                strangers.insert(cluster, format!("{conflict}"));
            } else {
                drop(met);
                standing.push((cluster, ranges));
            }
        }
        self.tell_strangers(&strangers);
        self.strangers = strangers;
    }

    fn tell_strangers(&mut self, strangers: &BTreeMap<ClusterId, String>) {
        for (cluster, why) in strangers.iter().filter(|(cluster, why)| self.strangers.get(*cluster) != Some(why)) {
            let because = format!("what {cluster} announces: {why}");
            self.outbox.push_back(Output::Event(Event::Ignored { because }));
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
        let strange = |object: &Object| {
            object.cluster().is_some_and(|of| self.strangers.contains_key(of)) || self.is_of_before_it_left(object)
        };
        let newest = |(key, object): (Key, Object)| {
            let copy = here.get(&key).filter(|copy| epoch(copy) > epoch(&object)).cloned();
            (key, copy.unwrap_or(object))
        };
        at_broker.into_iter().filter(|(_, object)| !outdated(object) && !strange(object)).map(newest).collect()
    }

    /// What other clusters announced.
    pub(super) fn foreign(&self, api: Api, kind: Kind) -> BTreeMap<Key, Object> {
        let own = &self.node.config().cluster;
        let foreign = |object: &Object| object.announced().is_some_and(|(cluster, _)| cluster != own);
        let objects = self.index.objects(api, kind).filter(|(_, object)| foreign(object));
        objects.map(|(key, object)| (key.into(), object.clone())).collect()
    }
}
