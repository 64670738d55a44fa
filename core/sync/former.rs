//! What later listings of the broker replaced.
//!
//! A broker that got old data back shows what clusters had once. That it is of the past shows in a cluster's word alone, which
//! is listed apart, maybe later: so what a listing replaces is kept until that word was seen, and stands in for what is
//! shown until then, and for as long as the word is an old one. What is written while we watch is of now.

use crate::base::{ClusterId, Instant};
use crate::model::{Key, Kind, Object, ServiceKey};
use alloc::collections::BTreeMap;
use core::time::Duration;

/// Two watches that a broker broke off are known to be broken no further apart: the one that notices late waits for a sign of
/// life, and the other lists at once.
const APART: Duration = Duration::from_secs(15);

/// See the module docs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Former {
    all: BTreeMap<Key, Replaced>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Replaced {
    of: ClusterId,
    /// How it was; `None`: it was not there.
    object: Option<Object>,
    at: Instant,
}

impl Former {
    /// Keeps what was there before a listing. What was kept before is from before that, and stays.
    pub(super) fn keep(&mut self, key: &Key, of: &ClusterId, object: Option<&Object>, now: Instant) {
        let replaced = || Replaced { of: of.clone(), object: object.cloned(), at: now };
        self.all.entry(key.clone()).or_insert_with(replaced);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.all.remove(key);
    }

    /// Whether it was there.
    pub(super) fn was_there(&self, key: &Key) -> bool {
        self.all.get(key).is_some_and(|replaced| replaced.object.is_some())
    }

    /// Whose one object is, if something else was there before.
    pub(super) fn owner_of(&self, key: &Key) -> Option<&ClusterId> {
        self.all.get(key).map(|replaced| &replaced.of)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All keys, and whose they are.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&Key, &ClusterId)> {
        self.all.iter().map(|(key, replaced)| (key, &replaced.of))
    }

    /// Keeps only what is of the clusters that `stay`.
    pub(super) fn retain(&mut self, stay: impl Fn(&ClusterId) -> bool) {
        self.all.retain(|_, replaced| stay(&replaced.of));
    }

    /// Keeps of the others only what was listed just now.
    pub(super) fn forget_old(&mut self, now: Instant, stay: impl Fn(&ClusterId) -> bool) {
        self.all.retain(|_, replaced| replaced.at + APART > now || stay(&replaced.of));
    }

    /// What there was that goes by the name of `service`, and whose it is.
    pub(super) fn of_service(&self, kind: Kind, service: &ServiceKey) -> impl Iterator<Item = (&ClusterId, &Object)> {
        let all = self.all.range(Key::of_service(kind, service)..);
        let theirs = all.take_while(move |(key, _)| key.kind == kind && key.as_key_ref().is_named(service));
        theirs.filter_map(|(_, replaced)| Some((&replaced.of, replaced.object.as_ref()?)))
    }
}
