//! What each API holds at this moment, as the accepted writes tell it.

use crate::{Act, ApiFault, ApiRef, Broker, Change, Fact, Place, Scenario, Verb, What};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use tombolo_core::model::{Key, Kind, Object};

/// See the module. Must be shown every fact, in order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Mirror {
    stores: BTreeMap<ApiRef, BTreeMap<Key, Object>>,
    /// APIs that lose what they store, are backed up, or are restored; without a fault, those of clusters built anew.
    coming: VecDeque<(Duration, ApiRef, Option<ApiFault>)>,
    backups: BTreeMap<ApiRef, BTreeMap<Key, Object>>,
}

impl Mirror {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let mut coming = VecDeque::new();
        for Act { at, verb } in &scenario.timeline {
            if let Verb::Rebuild(rebuilt) = verb {
                coming.push_back((*at, ApiRef::Cluster(rebuilt.cluster.clone()), None));
            }
            if let Verb::Api(api, fault @ (ApiFault::RestartedEmpty | ApiFault::BackedUp | ApiFault::Restored)) = verb {
                coming.push_back((*at, api.clone(), Some(fault.clone())));
                // What a member holds as the broker may be told as the broker's.
                if matches!((api, &scenario.broker), (ApiRef::Cluster(cluster), Broker::Member(member)) if cluster == member)
                {
                    coming.push_back((*at, ApiRef::Broker, Some(fault.clone())));
                }
            }
        }
        Self { stores: BTreeMap::new(), coming, backups: BTreeMap::new() }
    }

    /// Takes note of a fact; gives what stood there before, if it is a write to something that was known.
    pub(crate) fn watch(&mut self, fact: &Fact) -> Option<Object> {
        while let Some((_, api, fault)) = self.coming.pop_front_if(|(at, ..)| *at <= fact.at) {
            let store = self.stores.entry(api.clone()).or_default();
            let Some(fault) = fault else {
                store.clear();
                continue;
            };
            if fault == ApiFault::BackedUp {
                let ours = store.iter().filter(|(key, _)| !key.kind.is_the_clusters_own());
                self.backups.insert(api, ours.map(|(key, object)| (key.clone(), object.clone())).collect());
                continue;
            }
            store.retain(|key, _| key.kind.is_the_clusters_own());
            if fault == ApiFault::Restored {
                store.extend(self.backups.get(&api).cloned().unwrap_or_default());
            }
        }
        let (What::Wrote { change, key, object, .. }, Place::Api(api)) = (&fact.what, &fact.place) else { return None };
        let store = self.stores.entry(api.clone()).or_default();
        match change {
            Change::Created | Change::Replaced => store.insert(key.clone(), object.clone()),
            Change::Deleted => store.remove(key),
        }
    }

    /// All objects, with the API that holds them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&ApiRef, &Object)> {
        self.stores.iter().flat_map(|(api, store)| store.values().map(move |object| (api, object)))
    }

    /// All objects of a kind, with the API that holds them.
    pub(crate) fn objects(&self, kind: Kind) -> impl Iterator<Item = (&ApiRef, &Object)> {
        let of_kind = move |(key, _): &(&Key, &Object)| key.kind == kind;
        self.stores.iter().flat_map(move |(api, store)| store.iter().filter(of_kind).map(move |(_, o)| (api, o)))
    }

    /// The objects of a kind at one API.
    pub(crate) fn objects_at<'a>(&'a self, api: &ApiRef, kind: Kind) -> impl Iterator<Item = &'a Object> {
        let store = self.stores.get(api).into_iter().flatten();
        store.filter(move |(key, _)| key.kind == kind).map(|(_, object)| object)
    }

    /// One object at one API.
    pub(crate) fn get(&self, api: &ApiRef, key: &Key) -> Option<&Object> {
        self.stores.get(api)?.get(key)
    }
}
