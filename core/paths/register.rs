//! The register of a pair of clusters: who claimed which pair of candidates in which version, and what was revoked.
//!
//! A higher version replaces a lower one; equal versions are united. That is a join, so neither order nor repetition
//! nor loss of hellos matters: whoever heard the same claims holds the same register. Claims and revocations are
//! *sets*: with one pair and a dead flag, a mute gateway's dead claim would beat everybody's live one of the same
//! version for ever.

use crate::base::Slot;
use serde::{Deserialize, Serialize};

/// A pair of candidates, the `left` one of the cluster with the smaller id. Ordered by (left, right); lower is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// Slot in the cluster with the smaller id.
    pub left: Slot,
    /// Slot in the other.
    pub right: Slot,
}

impl Pair {
    const fn bit(self) -> u16 {
        1 << (Slot::COUNT * (self.left.get() - 1) + (self.right.get() - 1))
    }

    /// All 16, best first.
    pub fn all() -> impl Iterator<Item = Self> {
        Slot::all().into_iter().flat_map(|left| Slot::all().into_iter().map(move |right| Self { left, right }))
    }

    /// Ranks below (1, 1), added up: 0 to 6.
    #[must_use]
    pub fn ranks_below_best(self) -> u32 {
        u32::from(self.left.get()) + u32::from(self.right.get()) - 2
    }
}

/// A set of pairs: bit `4(l-1) + (r-1)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PairSet(u16);

impl PairSet {
    /// From its bits.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether `pair` is in it.
    #[must_use]
    pub const fn contains(self, pair: Pair) -> bool {
        self.0 & pair.bit() != 0
    }

    fn insert(&mut self, pair: Pair) {
        self.0 |= pair.bit();
    }
}

/// What all nodes of both clusters agree on. Version 0: nothing was claimed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Register {
    /// Grows with each change of mind.
    pub version: u32,
    /// Pairs claimed in this version.
    pub claims: PairSet,
    /// Claims that an end took back.
    pub revoked: PairSet,
}

impl Register {
    /// A claim of `pair` that beats this register.
    #[must_use]
    pub fn outbid(&self, pair: Pair) -> Self {
        let mut claims = PairSet::default();
        claims.insert(pair);
        Self { version: self.version.saturating_add(1), claims, revoked: PairSet::default() }
    }

    /// Takes back the claim of `pair`.
    pub fn revoke(&mut self, pair: Pair) {
        self.revoked.insert(pair);
    }

    /// Claims not taken back, best first.
    pub fn live(&self) -> impl Iterator<Item = Pair> + use<> {
        let mut bits = self.live_bits();
        core::iter::from_fn(move || {
            let pair = lowest(bits)?;
            bits &= !pair.bit();
            Some(pair)
        })
    }

    /// The pair to use: the best live claim.
    #[must_use]
    pub fn choice(&self) -> Option<Pair> {
        lowest(self.live_bits())
    }

    /// The best claim, taken back or not: in a dead register, the best guess at what was used last.
    #[must_use]
    pub fn best_claim(&self) -> Option<Pair> {
        lowest(self.claims.0)
    }

    const fn live_bits(&self) -> u16 {
        self.claims.0 & !self.revoked.0
    }

    /// Something was claimed and all of it was taken back.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        self.version > 0 && self.live_bits() == 0
    }

    /// The join of both. True if this changed.
    pub fn merge(&mut self, other: Self) -> bool {
        let before = *self;
        if other.version > self.version {
            *self = other;
        } else if other.version == self.version {
            self.claims.0 |= other.claims.0;
            self.revoked.0 |= other.revoked.0;
        }
        *self != before
    }
}

fn lowest(bits: u16) -> Option<Pair> {
    if bits == 0 {
        return None;
    }
    let bit = bits.trailing_zeros();
    let slot = |n: u32| Slot::all()[n as usize];
    Some(Pair { left: slot(bit / 4), right: slot(bit % 4) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn pair(left: u8, right: u8) -> Pair {
        Pair { left: Slot::try_from(left).unwrap(), right: Slot::try_from(right).unwrap() }
    }

    fn register() -> impl Strategy<Value = Register> {
        (0u32..4, any::<u16>(), any::<u16>()).prop_map(|(version, claims, revoked)| Register {
            version,
            claims: PairSet(claims),
            revoked: PairSet(revoked),
        })
    }

    fn joined(mut a: Register, b: Register) -> Register {
        a.merge(b);
        a
    }

    proptest! {
        #[test]
        fn merging_is_a_join(a in register(), b in register(), c in register()) {
            prop_assert_eq!(joined(a, b), joined(b, a));
            prop_assert_eq!(joined(joined(a, b), c), joined(a, joined(b, c)));
            prop_assert_eq!(joined(a, a), a);
        }

        #[test]
        fn merging_says_whether_something_changed(a in register(), b in register()) {
            let mut merged = a;
            prop_assert_eq!(merged.merge(b), merged != a);
        }

        #[test]
        fn the_choice_is_the_first_live_claim_and_none_if_dead(a in register()) {
            prop_assert_eq!(a.choice(), a.live().next());
            let expected = Pair::all().find(|p| a.claims.contains(*p) && !a.revoked.contains(*p));
            prop_assert_eq!(a.choice(), expected);
            prop_assert_eq!(a.is_dead(), a.version > 0 && expected.is_none());
        }

        #[test]
        fn a_claim_beats_what_it_was_made_against(a in register(), l in 1u8..=4, r in 1u8..=4) {
            let claim = a.outbid(pair(l, r));
            prop_assert_eq!(joined(a, claim), claim);
            prop_assert_eq!(claim.choice(), Some(pair(l, r)));
        }
    }

    #[test]
    fn a_revoked_claim_gives_way_to_the_next_one_of_the_same_version() {
        let mut register = Register::default().outbid(pair(1, 1));
        register.merge(Register::default().outbid(pair(1, 2)));
        assert_eq!(register.choice(), Some(pair(1, 1)));
        register.revoke(pair(1, 1));
        assert_eq!(register.choice(), Some(pair(1, 2)));
        register.revoke(pair(1, 2));
        assert!(register.is_dead());
        assert_eq!(register.best_claim(), Some(pair(1, 1)));
    }

    #[test]
    fn pairs_have_the_bits_of_the_specification() {
        assert_eq!(pair(1, 1).bit(), 1);
        assert_eq!(pair(2, 1).bit(), 1 << 4);
        assert_eq!(pair(4, 4).bit(), 1 << 15);
    }
}
