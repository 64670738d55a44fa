//! Few things in one block of memory, sorted. For what is made once and then read: a BTreeSet has room for eleven things
//! as soon as it has one.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;
use serde::{Deserialize, Serialize};

/// A set. It does not change; copies share what is in it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<T>", bound(deserialize = "T: Ord + Deserialize<'de>"))]
pub struct Few<T>(Arc<[T]>);

impl<T: Ord> Few<T> {
    /// Whether the two are not only equal, but one in memory.
    #[must_use]
    pub fn is_the_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether `one` is in it.
    #[must_use]
    pub fn contains(&self, one: &T) -> bool {
        self.0.binary_search(one).is_ok()
    }
}

impl<T: Ord> From<Vec<T>> for Few<T> {
    fn from(mut all: Vec<T>) -> Self {
        all.sort_unstable();
        all.dedup();
        if all.is_empty() { Self::default() } else { Self(all.into()) }
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for Few<T> {
    fn from(all: [T; N]) -> Self {
        Vec::from(all).into()
    }
}

impl<T: Ord> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Vec::from_iter(all).into()
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Few<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

/// A map. It does not change; copies share what is in it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<(K, V)>", bound(deserialize = "K: Ord + Deserialize<'de>, V: Deserialize<'de>"))]
pub struct FewBy<K, V>(Arc<[(K, V)]>);

impl<K, V> FewBy<K, V> {
    /// What is under `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.0.binary_search_by(|(one, _)| one.borrow().cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Whether something is under `key`.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// All of it, in the order of keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// What is under them.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of two values under one key the first stays.
impl<K: Ord, V> From<Vec<(K, V)>> for FewBy<K, V> {
    fn from(mut all: Vec<(K, V)>) -> Self {
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all.dedup_by(|(a, _), (b, _)| a == b);
        if all.is_empty() { Self::default() } else { Self(all.into()) }
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for FewBy<K, V> {
    fn from(all: [(K, V); N]) -> Self {
        Vec::from(all).into()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for FewBy<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(all: I) -> Self {
        Vec::from_iter(all).into()
    }
}

impl<K, V> Default for FewBy<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, V> Clone for FewBy<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for FewBy<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn few_things_are_as_in_a_btree_set(all in proptest::collection::vec(0..20u8, 0..30), asked in 0..20u8) {
            let (few, set): (Few<u8>, BTreeSet<u8>) = (all.iter().copied().collect(), all.iter().copied().collect());
            prop_assert!(few.iter().eq(&set));
            prop_assert_eq!(few.contains(&asked), set.contains(&asked));
        }

        #[test]
        fn things_by_key_are_as_in_a_btree_map(all in proptest::collection::btree_map(0..20u8, any::<u8>(), 0..30), asked in 0..20u8) {
            let few: FewBy<u8, u8> = all.iter().rev().map(|(key, value)| (*key, *value)).collect();
            let map: &BTreeMap<u8, u8> = &all;
            prop_assert!(few.iter().eq(map));
            prop_assert_eq!(few.get(&asked), map.get(&asked));
        }
    }
}
