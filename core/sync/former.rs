//! What later listings of the broker replaced.
//!
//! A broker that got old data back shows what clusters had once. That it is of the past shows in a cluster's word alone, which
//! is listed apart, maybe a moment later: so what a listing replaces is kept until that word was seen, and stands in for
//! what is shown for as long as the word is an old one. What is written while we watch is of now.

use crate::base::ClusterId;
use crate::model::{Key, Kind, Object, ServiceKey};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// See the module docs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Former {
    /// Whose, and how it was; `None`: it was not there.
    all: BTreeMap<Key, (ClusterId, Option<Object>)>,
}

impl Former {
    /// Keeps what was there before a listing. What was kept before is from before that, and stays.
    pub(super) fn keep(&mut self, key: &Key, of: &ClusterId, object: Option<&Object>) {
        self.all.entry(key.clone()).or_insert_with(|| (of.clone(), object.cloned()));
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.all.remove(key);
    }

    /// What one object was like, or that it was not there, if that is kept; and whose it is.
    pub(super) fn get(&self, key: &Key) -> Option<&(ClusterId, Option<Object>)> {
        self.all.get(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The keys of what is kept of `cluster`.
    pub(super) fn keys_of(&self, cluster: &ClusterId) -> Vec<Key> {
        self.all.iter().filter(|(_, (of, _))| of == cluster).map(|(key, _)| key.clone()).collect()
    }

    /// Keeps only what is of the clusters that `stay`.
    pub(super) fn retain(&mut self, stay: impl Fn(&ClusterId) -> bool) {
        self.all.retain(|_, (of, _)| stay(of));
    }

    /// What there was that goes by the name of `service`, and whose it is.
    pub(super) fn of_service(&self, kind: Kind, service: &ServiceKey) -> impl Iterator<Item = (&ClusterId, &Object)> {
        let all = self.all.range(Key::of_service(kind, service)..);
        let theirs = all.take_while(move |(key, _)| key.kind == kind && key.as_key_ref().is_named(service));
        theirs.filter_map(|(_, (of, object))| Some((of, object.as_ref()?)))
    }
}
