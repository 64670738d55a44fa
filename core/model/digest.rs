//! Which objects there are, in one number.

use super::Key;
use crate::base::hash::mix;
use core::fmt;
use core::num::ParseIntError;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// The sum of the hashes of a set's keys, as an API knows them: it does not depend on their order, and follows as objects come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Digest(pub u64);

impl Digest {
    /// That of no object.
    pub const EMPTY: Self = Self(0);

    /// With an object that was not in it.
    #[must_use]
    pub fn with(self, key: &Key) -> Self {
        Self(self.0.wrapping_add(hash(key)))
    }

    /// Without an object that was in it.
    #[must_use]
    pub fn without(self, key: &Key) -> Self {
        Self(self.0.wrapping_sub(hash(key)))
    }

    /// Of two sets that have nothing in common.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

fn hash(key: &Key) -> u64 {
    mix(super::key::hash(format_args!("{}\0{}\0{}", key.kind, key.api_namespace(), key.api_name())))
}

impl<'a> FromIterator<&'a Key> for Digest {
    fn from_iter<I: IntoIterator<Item = &'a Key>>(keys: I) -> Self {
        keys.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Digest {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;
    use alloc::format;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn key(kind: Kind, namespace: &str, name: &str) -> Key {
        Key::new(kind, namespace, name)
    }

    #[test]
    fn kind_namespace_and_name_all_count() {
        let of = |kind, namespace, name| Digest::EMPTY.with(&key(kind, namespace, name));
        let all = [
            Digest::EMPTY,
            of(Kind::Import, "a", "b"),
            of(Kind::SourceSlice, "a", "b"),
            of(Kind::Import, "b", "a"),
            of(Kind::Import, "", "ab"),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{one}");
        }
    }

    proptest! {
        #[test]
        fn it_depends_on_what_is_there_and_not_on_how_that_came_about(
            names in proptest::collection::btree_set("[a-c]{1,4}", 0..8), gone: u8
        ) {
            let keys: Vec<Key> = names.iter().map(|name| key(Kind::Import, "shop", name)).collect();
            let left = |i: &usize| gone >> (i % 8) & 1 == 0;
            let mut digest: Digest = keys.iter().rev().collect();
            for (_, key) in keys.iter().enumerate().filter(|(i, _)| !left(i)) {
                digest = digest.without(key);
            }
            let stays: Digest = keys.iter().enumerate().filter(|(i, _)| left(i)).map(|(_, key)| key).collect();
            prop_assert_eq!(digest, stays);
            prop_assert_eq!(format!("{digest}").parse::<Digest>(), Ok(digest));
        }
    }
}
