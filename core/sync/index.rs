//! What the watches have shown.

use crate::model::{Api, Key, Kind, Object, Version, WatchEvent};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The objects of one kind in one API, as far as they are known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct View {
    objects: BTreeMap<Key, (Object, Version)>,
    /// Keys that the running listing has shown; `None` between listings.
    marked: Option<BTreeSet<Key>>,
    synced: bool,
    /// What a listing did not show any more, without a deletion seen.
    missing: BTreeMap<Key, Object>,
}

/// The view of all watched kinds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Index {
    views: BTreeMap<(Api, Kind), View>,
}

impl Index {
    /// Takes one step of a watch and gives the keys whose objects changed, came or went.
    pub fn watched(&mut self, api: Api, event: WatchEvent) -> Vec<Key> {
        match event {
            WatchEvent::Began(kind) => {
                self.view_mut(api, kind).marked = Some(BTreeSet::new());
                Vec::new()
            }
            WatchEvent::Applied(object, version) => {
                let key = object.key();
                let view = self.view_mut(api, key.kind);
                if let Some(marked) = &mut view.marked {
                    marked.insert(key.clone());
                }
                view.missing.remove(&key);
                let old = view.objects.insert(key.clone(), (object, version));
                let new = view.objects.get(&key);
                if old.as_ref() == new { Vec::new() } else { alloc::vec![key] }
            }
            WatchEvent::Deleted(key) => {
                let view = self.view_mut(api, key.kind);
                if let Some(marked) = &mut view.marked {
                    marked.remove(&key);
                }
                let known = view.objects.remove(&key).is_some() | view.missing.remove(&key).is_some();
                if known { Vec::from([key]) } else { Vec::new() }
            }
            WatchEvent::Synced(kind) => self.view_mut(api, kind).sweep(),
        }
    }

    /// Whether at least one listing of `kind` was complete.
    #[must_use]
    pub fn synced(&self, api: Api, kind: Kind) -> bool {
        self.views.get(&(api, kind)).is_some_and(|view| view.synced)
    }

    /// All known objects of a kind, in order of their keys.
    pub fn objects(&self, api: Api, kind: Kind) -> impl Iterator<Item = (&Key, &Object)> {
        self.views.get(&(api, kind)).into_iter().flat_map(|view| view.objects.iter()).map(|(key, (o, _))| (key, o))
    }

    /// One object.
    #[must_use]
    pub fn get(&self, api: Api, key: &Key) -> Option<&Object> {
        self.entry(api, key).map(|(object, _)| object)
    }

    /// An object that a complete listing did not show any more, as it was last. Not one whose deletion was seen.
    #[must_use]
    pub fn missing(&self, api: Api, key: &Key) -> Option<&Object> {
        self.views.get(&(api, key.kind))?.missing.get(key)
    }

    /// All missing objects of a kind.
    pub fn all_missing(&self, api: Api, kind: Kind) -> impl Iterator<Item = (&Key, &Object)> {
        self.views.get(&(api, kind)).into_iter().flat_map(|view| view.missing.iter())
    }

    /// Believes that a missing object is gone.
    pub fn forget(&mut self, api: Api, key: &Key) {
        self.view_mut(api, key.kind).missing.remove(key);
    }

    /// The version in which an object was seen last.
    #[must_use]
    pub fn version(&self, api: Api, key: &Key) -> Option<&Version> {
        self.entry(api, key).map(|(_, version)| version)
    }

    fn entry(&self, api: Api, key: &Key) -> Option<&(Object, Version)> {
        self.views.get(&(api, key.kind))?.objects.get(key)
    }

    fn view_mut(&mut self, api: Api, kind: Kind) -> &mut View {
        self.views.entry((api, kind)).or_default()
    }
}

impl View {
    fn sweep(&mut self) -> Vec<Key> {
        self.synced = true;
        let Some(marked) = self.marked.take() else { return Vec::new() };
        let gone: Vec<Key> = self.objects.keys().filter(|key| !marked.contains(key)).cloned().collect();
        for key in &gone {
            if let Some((object, _)) = self.objects.remove(key) {
                self.missing.insert(key.clone(), object);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{ClusterId, Epoch};
    use crate::model::ClusterRecord;
    use alloc::vec;

    fn record(cluster: &str, epoch: u64) -> Object {
        Object::Cluster(ClusterRecord {
            cluster: ClusterId::new(cluster).unwrap(),
            pods: vec![],
            services: vec![],
            epoch: Epoch(epoch),
        })
    }

    fn applied(cluster: &str, epoch: u64) -> WatchEvent {
        WatchEvent::Applied(record(cluster, epoch), Version(alloc::format!("{epoch}").as_str().into()))
    }

    fn listed(clusters: &[&str]) -> Index {
        let mut index = Index::default();
        index.watched(Api::Broker, WatchEvent::Began(Kind::Cluster));
        for cluster in clusters {
            index.watched(Api::Broker, applied(cluster, 1));
        }
        index.watched(Api::Broker, WatchEvent::Synced(Kind::Cluster));
        index
    }

    #[test]
    fn what_vanished_during_an_outage_is_swept_by_the_next_complete_listing_b48() {
        let mut index = listed(&["a", "b"]);
        index.watched(Api::Broker, WatchEvent::Began(Kind::Cluster));
        index.watched(Api::Broker, applied("a", 1));
        assert!(index.get(Api::Broker, &record("b", 1).key()).is_some(), "a view stays readable while listed anew");
        let gone = index.watched(Api::Broker, WatchEvent::Synced(Kind::Cluster));
        assert_eq!(gone, vec![record("b", 1).key()]);
        assert!(index.get(Api::Broker, &record("a", 1).key()).is_some());
    }

    #[test]
    fn a_listing_that_breaks_off_sweeps_nothing() {
        let mut index = listed(&["a", "b"]);
        index.watched(Api::Broker, WatchEvent::Began(Kind::Cluster));
        index.watched(Api::Broker, applied("a", 1));
        index.watched(Api::Broker, WatchEvent::Began(Kind::Cluster));
        index.watched(Api::Broker, applied("b", 1));
        index.watched(Api::Broker, applied("a", 1));
        assert_eq!(index.watched(Api::Broker, WatchEvent::Synced(Kind::Cluster)), vec![]);
        assert_eq!(index.objects(Api::Broker, Kind::Cluster).count(), 2);
    }

    #[test]
    fn what_a_listing_did_not_show_is_missing_until_it_is_shown_deleted_or_forgotten() {
        let (a, b) = (record("a", 1).key(), record("b", 1).key());
        let mut index = listed(&["a", "b", "c"]);
        index.watched(Api::Broker, WatchEvent::Began(Kind::Cluster));
        index.watched(Api::Broker, WatchEvent::Synced(Kind::Cluster));
        assert_eq!(index.all_missing(Api::Broker, Kind::Cluster).count(), 3);
        index.watched(Api::Broker, applied("a", 2));
        assert_eq!(index.missing(Api::Broker, &a), None);
        assert_eq!(index.watched(Api::Broker, WatchEvent::Deleted(b.clone())), vec![b]);
        index.forget(Api::Broker, &record("c", 1).key());
        assert_eq!(index.all_missing(Api::Broker, Kind::Cluster).count(), 0);
        index.watched(Api::Broker, WatchEvent::Deleted(a.clone()));
        assert_eq!(index.missing(Api::Broker, &a), None, "a deletion that was seen leaves nothing missing");
    }

    #[test]
    fn nothing_is_synced_before_the_first_complete_listing() {
        let mut index = Index::default();
        assert!(!index.synced(Api::Broker, Kind::Cluster));
        index.watched(Api::Broker, WatchEvent::Began(Kind::Cluster));
        index.watched(Api::Broker, applied("a", 1));
        assert!(!index.synced(Api::Broker, Kind::Cluster));
        assert!(listed(&[]).synced(Api::Broker, Kind::Cluster));
    }

    #[test]
    fn only_real_changes_are_reported() {
        let mut index = listed(&["a"]);
        assert_eq!(index.watched(Api::Broker, applied("a", 1)), vec![]);
        assert_eq!(index.watched(Api::Broker, applied("a", 2)), vec![record("a", 1).key()]);
        assert_eq!(index.watched(Api::Broker, WatchEvent::Deleted(record("a", 1).key())).len(), 1);
        assert_eq!(index.watched(Api::Broker, WatchEvent::Deleted(record("a", 1).key())), vec![]);
    }
}
