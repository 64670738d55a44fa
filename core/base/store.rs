//! A versioned store: what a Kubernetes API server keeps, and nothing of HTTP.
//!
//! One revision counts every change of every key, as in etcd. Writes are compare-and-swap on the revision in which a
//! key last changed. The latest changes are kept as a history, bounded in length, and from it two things are answered:
//! a watch ("what came after revision r?") and a snapshot of the past ("what was there at revision r?"), which is what
//! the later pages of a listing need. Both say so when the history no longer reaches back far enough.
//!
//! ```text
//!   revision   oldest ········· r ············ latest
//!   snapshot     ok            ok                ok        before oldest: Compacted, after latest: Ahead
//!   events       all later     those after r     none
//! ```

use alloc::collections::{BTreeMap, VecDeque, btree_map, vec_deque};
use alloc::vec::Vec;
use core::fmt;
use core::iter::Peekable;
use core::ops::{Bound, RangeBounds};
use serde::{Deserialize, Serialize};

/// The number of a change. Starts at 1 for an empty store, as in etcd: 0 has a meaning of its own in the Kubernetes API.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of an empty store.
    pub const FIRST: Self = Self(1);
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A value with the revisions that made it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned<V> {
    /// The value.
    pub value: V,
    /// When the key was created.
    pub created: Revision,
    /// When the value last changed; what a compare-and-swap compares.
    pub modified: Revision,
}

/// What happened to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change<V> {
    /// It was not there before.
    Created {
        /// The value now.
        after: Versioned<V>,
    },
    /// It was there with another value.
    Replaced {
        /// The value until now.
        before: Versioned<V>,
        /// The value now.
        after: Versioned<V>,
    },
    /// It is there no more.
    Deleted {
        /// The last value.
        before: Versioned<V>,
    },
}

impl<V> Change<V> {
    /// The value until this change.
    pub const fn before(&self) -> Option<&Versioned<V>> {
        match self {
            Self::Created { .. } => None,
            Self::Replaced { before, .. } | Self::Deleted { before } => Some(before),
        }
    }

    /// The value from this change on.
    pub const fn after(&self) -> Option<&Versioned<V>> {
        match self {
            Self::Created { after } | Self::Replaced { after, .. } => Some(after),
            Self::Deleted { .. } => None,
        }
    }
}

/// One change of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event<K, V> {
    /// Its number; each event has the number after that of its predecessor.
    pub revision: Revision,
    /// The key.
    pub key: K,
    /// What happened.
    pub change: Change<V>,
}

/// Why a write was not done. The store is then as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// A create found the key.
    #[error("exists already, in revision {actual}")]
    Exists {
        /// When it last changed.
        actual: Revision,
    },
    /// A replace or delete did not find the key.
    #[error("not found")]
    NotFound,
    /// The key changed since the writer read it.
    #[error("expected in revision {expected} but is in revision {actual}")]
    Conflict {
        /// What the writer had read.
        expected: Revision,
        /// When it last changed.
        actual: Revision,
    },
}

/// Why a revision cannot be answered for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HistoryError {
    /// The history no longer reaches back so far (`410 Expired` of the Kubernetes API).
    #[error("revision {asked} is compacted, the oldest is {oldest}")]
    Compacted {
        /// The revision asked for.
        asked: Revision,
        /// The oldest one that can be answered.
        oldest: Revision,
    },
    /// The revision does not exist yet (`504 ResourceVersionTooLarge` of the Kubernetes API).
    #[error("revision {asked} lies in the future, the latest is {latest}")]
    Ahead {
        /// The revision asked for.
        asked: Revision,
        /// The newest one.
        latest: Revision,
    },
}

/// The store. `V` is cloned into the history twice per change: make it cheap to clone (an `Arc`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Store<K: Ord, V> {
    latest: Revision,
    oldest: Revision,
    history_max: usize,
    current: BTreeMap<K, Versioned<V>>,
    history: VecDeque<Event<K, V>>,
}

/// The revision that a store with a past has come to.
const LONG_PAST: u64 = 1_000_000;

impl<K: Ord + Clone, V: Clone + PartialEq> Store<K, V> {
    /// An empty store that keeps the last `history_max` events.
    #[must_use]
    pub const fn new(history_max: usize) -> Self {
        Self {
            latest: Revision::FIRST,
            oldest: Revision::FIRST,
            history_max,
            current: BTreeMap::new(),
            history: VecDeque::new(),
        }
    }

    /// The same, of an API that has been in use for long: its revisions are far from where those of a [new](Self::new) one
    /// begin. Who watched it and goes on at one that has lost its data asks for a revision that lies in the future.
    #[must_use]
    pub const fn with_a_past(history_max: usize) -> Self {
        let mut store = Self::new(history_max);
        store.latest = Revision(LONG_PAST);
        store.oldest = Revision(LONG_PAST);
        store
    }

    /// The revision of the last change.
    #[must_use]
    pub const fn latest(&self) -> Revision {
        self.latest
    }

    /// The oldest revision that [`Self::snapshot`] and [`Self::events_since`] still answer for.
    #[must_use]
    pub const fn oldest(&self) -> Revision {
        self.oldest
    }

    /// How many keys there are now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.len()
    }

    /// Whether there is no key now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// The value of `key` now.
    pub fn get(&self, key: &K) -> Option<&Versioned<V>> {
        self.current.get(key)
    }

    /// All keys now, in order.
    pub fn iter(&self) -> btree_map::Iter<'_, K, Versioned<V>> {
        self.current.iter()
    }

    /// The keys of `bounds` now, in order. Bounds that exclude each other hold nothing.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> btree_map::Range<'_, K, Versioned<V>> {
        range_of(&self.current, &bounds)
    }

    /// Adds `key` and gives its revision.
    ///
    /// # Errors
    /// [`StoreError::Exists`].
    pub fn create(&mut self, key: K, value: V) -> Result<Revision, StoreError> {
        if let Some(there) = self.current.get(&key) {
            return Err(StoreError::Exists { actual: there.modified });
        }
        let revision = self.next_revision();
        let after = Versioned { value, created: revision, modified: revision };
        self.current.insert(key.clone(), after.clone());
        self.record(Event { revision, key, change: Change::Created { after } });
        Ok(revision)
    }

    /// Gives `key` another value, if it is in revision `expected` (or in any, with `None`), and gives its revision. The
    /// same value again is no change: no event, and the revision stays.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`].
    pub fn replace(&mut self, key: K, value: V, expected: Option<Revision>) -> Result<Revision, StoreError> {
        let before = self.expect(&key, expected)?;
        if before.value == value {
            return Ok(before.modified);
        }
        let before = before.clone();
        let revision = self.next_revision();
        let after = Versioned { value, created: before.created, modified: revision };
        self.current.insert(key.clone(), after.clone());
        self.record(Event { revision, key, change: Change::Replaced { before, after } });
        Ok(revision)
    }

    /// Removes `key`, if it is in revision `expected` (or in any, with `None`), and gives the revision of the deletion.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`].
    pub fn delete(&mut self, key: &K, expected: Option<Revision>) -> Result<Revision, StoreError> {
        self.expect(key, expected)?;
        let (key, before) = self.current.remove_entry(key).ok_or(StoreError::NotFound)?;
        let revision = self.next_revision();
        self.record(Event { revision, key, change: Change::Deleted { before } });
        Ok(revision)
    }

    /// All events after `revision`, oldest first.
    ///
    /// # Errors
    /// A [`HistoryError`] if some of them are forgotten, or if `revision` was never reached.
    pub fn events_since(&self, revision: Revision) -> Result<vec_deque::Iter<'_, Event<K, V>>, HistoryError> {
        if revision < self.oldest {
            return Err(HistoryError::Compacted { asked: revision, oldest: self.oldest });
        }
        if revision > self.latest {
            return Err(HistoryError::Ahead { asked: revision, latest: self.latest });
        }
        let first = self.history.partition_point(|event| event.revision <= revision);
        Ok(self.history.range(first..))
    }

    /// Everything as it was at `revision`, or now, with `None`.
    ///
    /// # Errors
    /// A [`HistoryError`] if `revision` is forgotten, or was never reached.
    pub fn snapshot(&self, revision: Option<Revision>) -> Result<Snapshot<'_, K, V>, HistoryError> {
        let revision = revision.unwrap_or(self.latest);
        let mut since = BTreeMap::new();
        // Newest first, so that what stays is the value before the first change after `revision`.
        for event in self.events_since(revision)?.rev() {
            since.insert(&event.key, event.change.before());
        }
        Ok(Snapshot { revision, current: &self.current, since })
    }

    /// Forgets the events up to and with `up_to`: older revisions cannot be asked for any more.
    pub fn compact(&mut self, up_to: Revision) {
        let up_to = up_to.min(self.latest);
        if up_to > self.oldest {
            self.history.drain(..self.history.partition_point(|event| event.revision <= up_to));
            self.oldest = up_to;
        }
    }

    fn expect(&self, key: &K, expected: Option<Revision>) -> Result<&Versioned<V>, StoreError> {
        let there = self.current.get(key).ok_or(StoreError::NotFound)?;
        match expected {
            Some(expected) if expected != there.modified => {
                Err(StoreError::Conflict { expected, actual: there.modified })
            }
            Some(_) | None => Ok(there),
        }
    }

    const fn next_revision(&mut self) -> Revision {
        self.latest = Revision(self.latest.0 + 1);
        self.latest
    }

    fn record(&mut self, event: Event<K, V>) {
        self.history.push_back(event);
        while self.history.len() > self.history_max {
            if let Some(forgotten) = self.history.pop_front() {
                self.oldest = forgotten.revision;
            }
        }
    }
}

/// A [`Store`] as it was at one revision. Pages that are taken from snapshots of one revision fit together, whatever
/// was written between them.
#[derive(Clone, Debug)]
pub struct Snapshot<'a, K: Ord, V> {
    revision: Revision,
    current: &'a BTreeMap<K, Versioned<V>>,
    /// The keys that changed since, with what they were before.
    since: BTreeMap<&'a K, Option<&'a Versioned<V>>>,
}

/// A part of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<'a, K, V> {
    /// The revision it is of. The next page is to be asked for at this one, with `Bound::Excluded` the last key.
    pub revision: Revision,
    /// The items, in order of their keys.
    pub items: Vec<(&'a K, &'a Versioned<V>)>,
    /// How many more there are behind it.
    pub remaining: usize,
}

impl<'a, K: Ord, V> Snapshot<'a, K, V> {
    /// The revision it is of.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The value of `key` then.
    pub fn get(&self, key: &K) -> Option<&'a Versioned<V>> {
        self.since.get(key).copied().unwrap_or_else(|| self.current.get(key))
    }

    /// The keys of `bounds` then, in order. Bounds that exclude each other hold nothing.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> Range<'_, 'a, K, V> {
        Range { current: range_of(self.current, &bounds).peekable(), since: range_of(&self.since, &bounds).peekable() }
    }

    /// The first `limit` items of `bounds`.
    pub fn page(&self, bounds: impl RangeBounds<K>, limit: usize) -> Page<'a, K, V> {
        let mut rest = self.range(bounds);
        let items = rest.by_ref().take(limit).collect();
        Page { revision: self.revision, items, remaining: rest.count() }
    }
}

/// Items of a [`Snapshot`], in order of their keys.
#[derive(Clone, Debug)]
pub struct Range<'s, 'a, K: Ord, V> {
    current: Peekable<btree_map::Range<'a, K, Versioned<V>>>,
    since: Peekable<btree_map::Range<'s, &'a K, Option<&'a Versioned<V>>>>,
}

impl<'a, K: Ord, V> Iterator for Range<'_, 'a, K, V> {
    type Item = (&'a K, &'a Versioned<V>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let now = self.current.peek().map(|(key, _)| *key);
            let changed = self.since.peek().map(|(key, _)| **key);
            match (now, changed) {
                (Some(now), Some(changed)) if now < changed => return self.current.next(),
                (Some(_), None) => return self.current.next(),
                (None, None) => return None,
                (Some(_) | None, Some(changed)) => {
                    // What the key was then takes the place of what it is now.
                    self.current.next_if(|(key, _)| *key == changed);
                    if let Some((key, Some(then))) = self.since.next() {
                        return Some((key, then));
                    }
                }
            }
        }
    }
}

/// `BTreeMap::range`, but bounds that exclude each other are an empty range: a reader may send any two.
fn range_of<'m, Q, K, V>(map: &'m BTreeMap<Q, V>, bounds: &impl RangeBounds<K>) -> btree_map::Range<'m, Q, V>
where
    Q: Ord + core::borrow::Borrow<K>,
    K: Ord,
{
    let (start, end) = (bounds.start_bound(), bounds.end_bound());
    match (start, end) {
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high))
            if low > high || (low == high && matches!((start, end), (Bound::Excluded(_), Bound::Excluded(_)))) =>
        {
            // From a bound to itself, itself excluded: nothing, and the one empty range that needs no key.
            map.range((Bound::Included(low), Bound::Excluded(low)))
        }
        _ => map.range((start, end)),
    }
}

#[cfg(test)]
mod against_model;

#[cfg(test)]
mod tests {
    use super::*;

    type Texts = Store<u8, &'static str>;

    fn keys<'a>(items: impl IntoIterator<Item = (&'a u8, &'a Versioned<&'static str>)>) -> Vec<(u8, &'static str)> {
        items.into_iter().map(|(key, there)| (*key, there.value)).collect()
    }

    #[test]
    fn a_stale_writer_is_told_what_is_there() {
        let mut store = Texts::new(9);
        let first = store.create(1, "a").unwrap();
        let second = store.replace(1, "b", Some(first)).unwrap();
        let stale = Err(StoreError::Conflict { expected: first, actual: second });
        assert_eq!(store.replace(1, "c", Some(first)), stale);
        assert_eq!(store.delete(&1, Some(first)), stale);
        assert_eq!(store.create(1, "c"), Err(StoreError::Exists { actual: second }));
        assert_eq!(store.replace(2, "c", None), Err(StoreError::NotFound));
        assert_eq!(store.get(&1).unwrap(), &Versioned { value: "b", created: first, modified: second });
    }

    #[test]
    fn a_stale_writer_conflicts_even_if_it_changes_nothing() {
        let mut store = Texts::new(9);
        let first = store.create(1, "a").unwrap();
        let second = store.replace(1, "b", None).unwrap();
        assert!(matches!(store.replace(1, "b", Some(first)), Err(StoreError::Conflict { .. })));
        assert_eq!(store.replace(1, "b", Some(second)), Ok(second));
    }

    #[test]
    fn a_replace_that_changes_nothing_is_no_event() {
        let mut store = Texts::new(9);
        let first = store.create(1, "a").unwrap();
        store.create(2, "x").unwrap();
        assert_eq!(store.replace(1, "a", None), Ok(first));
        assert_eq!(store.events_since(first).unwrap().count(), 1);
    }

    #[test]
    fn an_event_of_a_deletion_carries_the_last_value() {
        let mut store = Texts::new(9);
        let created = store.create(1, "a").unwrap();
        let deleted = store.delete(&1, Some(created)).unwrap();
        assert!(deleted > created);
        let last: Vec<_> = store.events_since(created).unwrap().collect();
        let before = Versioned { value: "a", created, modified: created };
        assert_eq!(last, [&Event { revision: deleted, key: 1, change: Change::Deleted { before } }]);
    }

    #[test]
    fn pages_of_one_revision_fit_together_whatever_is_written_between() {
        let mut store = Texts::new(9);
        for key in [1, 3, 5, 7] {
            store.create(key, "old").unwrap();
        }
        let first = store.snapshot(None).unwrap().page(.., 2);
        assert_eq!((keys(first.items), first.remaining), ([(1, "old"), (3, "old")].into(), 2));
        let revision = first.revision;
        store.create(4, "new").unwrap();
        store.replace(5, "new", None).unwrap();
        store.delete(&7, None).unwrap();
        store.create(8, "new").unwrap();
        let rest = store.snapshot(Some(revision)).unwrap().page((Bound::Excluded(3), Bound::Unbounded), 2);
        assert_eq!((keys(rest.items), rest.remaining), ([(5, "old"), (7, "old")].into(), 0));
        assert_eq!(keys(store.range(4..)), [(4, "new"), (5, "new"), (8, "new")]);
    }

    #[test]
    fn a_bounded_history_forgets_the_oldest_events() {
        let mut store = Texts::new(2);
        for key in 1..=3 {
            store.create(key, "a").unwrap();
        }
        assert_eq!((store.oldest(), store.latest()), (Revision(2), Revision(4)));
        assert_eq!(store.events_since(Revision(2)).unwrap().count(), 2);
        let expired = HistoryError::Compacted { asked: Revision(1), oldest: Revision(2) };
        assert_eq!(store.events_since(Revision(1)).err(), Some(expired));
        assert_eq!(store.snapshot(Some(Revision(1))).err(), Some(expired));
    }

    #[test]
    fn a_revision_of_another_life_of_the_store_lies_in_the_future() {
        let mut before = Texts::new(9);
        let seen = before.create(1, "a").unwrap();
        let emptied = Texts::new(9);
        let ahead = HistoryError::Ahead { asked: seen, latest: Revision::FIRST };
        assert_eq!(emptied.events_since(seen).err(), Some(ahead));
    }

    #[test]
    fn compacting_never_goes_back_nor_beyond_the_latest() {
        let mut store = Texts::new(9);
        store.create(1, "a").unwrap();
        store.compact(Revision(99));
        assert_eq!(store.oldest(), store.latest());
        store.compact(Revision(1));
        assert_eq!(store.oldest(), store.latest());
        assert_eq!(keys(store.snapshot(None).unwrap().range(..)), [(1, "a")]);
    }

    #[test]
    fn bounds_that_exclude_each_other_hold_nothing() {
        let mut store = Texts::new(9);
        store.create(1, "a").unwrap();
        let snapshot = store.snapshot(None).unwrap();
        for bounds in [
            (Bound::Included(2), Bound::Included(1)),
            (Bound::Excluded(1), Bound::Excluded(1)),
            (Bound::Excluded(1), Bound::Included(0)),
        ] {
            assert_eq!(store.range(bounds).count() + snapshot.range(bounds).count(), 0);
        }
        assert_eq!(store.range(1..=1).count(), 1);
    }
}
