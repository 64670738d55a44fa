//! Things by slot: at most four candidates a cluster.

use crate::base::Slot;
use serde::{Deserialize, Serialize};

/// One `T` for each slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Slots<T>([T; Slot::COUNT as usize]);

impl<T> Slots<T> {
    pub(super) const fn get(&self, slot: Slot) -> &T {
        &self.0[slot.get() as usize - 1]
    }

    pub(super) const fn get_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.0[slot.get() as usize - 1]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        Slot::all().into_iter().zip(&self.0)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut T)> {
        Slot::all().into_iter().zip(&mut self.0)
    }
}

/// A set of slots: bit `slot - 1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SlotSet(u8);

impl SlotSet {
    /// No slot.
    pub const EMPTY: Self = Self(0);

    /// From its lower four bits; the others are cut.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x0f)
    }

    /// Its four bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether `slot` is in it.
    #[must_use]
    pub const fn contains(self, slot: Slot) -> bool {
        self.0 & Self::of(slot).0 != 0
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// `slot` alone.
    #[must_use]
    pub const fn of(slot: Slot) -> Self {
        Self(1 << (slot.get() - 1))
    }

    /// What is in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is not in it.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(!self.0 & 0x0f)
    }
}
