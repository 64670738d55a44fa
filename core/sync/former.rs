//! What later listings of the broker replaced.
//!
//! A broker that got old data back shows what clusters had once. That it is of the past shows in a cluster's word alone, and
//! that is listed apart, or comes over a connection to what was there before. So what a listing replaces is kept, and stands in
//! for what is shown, until that cluster's word was read afterwards and is none of before. What is written while we watch
//! is of now.

use crate::base::ClusterId;
use crate::model::{Key, Kind, Object, ServiceKey};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// See the module docs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Former {
    all: BTreeMap<Key, Replaced>,
    /// How often something was replaced.
    count: u64,
    /// Whose word is to be read.
    open: BTreeSet<ClusterId>,
    /// Whose word is being read, and what it will speak for: what was replaced up to then.
    asked: BTreeMap<ClusterId, u64>,
    /// Whose word is an old one: nothing more is to be heard before there is another.
    denied: BTreeSet<ClusterId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Replaced {
    of: ClusterId,
    /// How it was; `None`: it was not there.
    object: Option<Object>,
    /// Which replacement the last one was.
    number: u64,
}

impl Former {
    /// A listing shows `now`, and `before` was there. What was kept before is from before that, and stays.
    pub(super) fn keep(&mut self, key: &Key, of: &ClusterId, before: Option<&Object>, now: &Object) {
        self.count += 1;
        let number = self.count;
        let fresh = || Replaced { of: of.clone(), object: before.cloned(), number };
        let replaced = self.all.entry(key.clone()).or_insert_with(fresh);
        replaced.number = number;
        if replaced.object.as_ref() == Some(now) {
            self.all.remove(key);
        } else {
            self.open.insert(of.clone());
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.all.remove(key);
    }

    /// Whether something else was there before.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.all.contains_key(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What there was that goes by the name of `service`.
    pub(super) fn of_service(&self, kind: Kind, service: &ServiceKey) -> impl Iterator<Item = &Object> {
        let all = self.all.range(Key::of_service(kind, service)..);
        let theirs = all.take_while(move |(key, _)| key.kind == kind && key.as_key_ref().is_named(service));
        theirs.filter_map(|(_, replaced)| replaced.object.as_ref())
    }

    /// Whose word is to be read now.
    pub(super) fn take_open(&mut self) -> Vec<ClusterId> {
        let due = |of: &&ClusterId| !self.asked.contains_key(*of) && !self.denied.contains(*of);
        let due: Vec<ClusterId> = self.open.iter().filter(due).cloned().collect();
        for of in &due {
            self.open.remove(of);
            self.asked.insert(of.clone(), self.count);
        }
        due
    }

    /// Its word was read, and is of now: what was replaced before is of the past. Gives the keys.
    pub(super) fn confirm(&mut self, cluster: &ClusterId) -> Vec<Key> {
        let Some(until) = self.asked.remove(cluster) else { return Vec::new() };
        let is_over = |replaced: &Replaced| replaced.of == *cluster && replaced.number <= until;
        let over: Vec<Key> = self.all.iter().filter(|(_, of)| is_over(of)).map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| self.remove(key));
        over
    }

    /// Its word was read, and is an old one.
    pub(super) fn deny(&mut self, cluster: &ClusterId) {
        if self.asked.remove(cluster).is_some() {
            self.denied.insert(cluster.clone());
            self.open.insert(cluster.clone());
        }
    }

    /// Its word could not be read.
    pub(super) fn unanswered(&mut self, cluster: &ClusterId) {
        if self.asked.remove(cluster).is_some() {
            self.open.insert(cluster.clone());
        }
    }

    /// There is another word of it; of all, if none is named.
    pub(super) fn hear(&mut self, cluster: Option<&ClusterId>) {
        self.denied.retain(|of| cluster.is_some_and(|cluster| of != cluster));
    }
}
