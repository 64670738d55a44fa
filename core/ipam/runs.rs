//! Free places of a range, as runs of neighbours.

use alloc::collections::BTreeMap;

/// Disjoint runs of places that do not touch, by their first place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Runs(BTreeMap<u128, u128>);

impl Runs {
    /// One run.
    pub(super) fn of(first: u128, length: u128) -> Self {
        let mut runs = Self::default();
        runs.put(first, length);
        runs
    }

    /// How many places.
    pub(super) fn count(&self) -> u128 {
        self.0.values().sum()
    }

    /// Length of the longest run.
    pub(super) fn longest(&self) -> u128 {
        self.0.values().copied().max().unwrap_or(0)
    }

    /// The highest place.
    pub(super) fn highest(&self) -> Option<u128> {
        self.0.last_key_value().map(|(first, length)| first + (length - 1))
    }

    /// First place of the lowest run of at least `length` neighbours.
    pub(super) fn lowest(&self, length: u128) -> Option<u128> {
        self.0.iter().find(|(_, has)| **has >= length).map(|(first, _)| *first)
    }

    /// Whether all these places are in it.
    pub(super) fn has(&self, first: u128, length: u128) -> bool {
        self.holding(first).is_some_and(|(start, has)| first + length <= start + has)
    }

    /// Puts in places that are not in it.
    pub(super) fn put(&mut self, first: u128, length: u128) {
        if length == 0 {
            return;
        }
        let (mut start, mut end) = (first, first + length);
        if let Some((before, has)) = self.0.range(..first).next_back().map(|(f, l)| (*f, *l))
            && before + has == first
        {
            self.0.remove(&before);
            start = before;
        }
        if let Some(has) = self.0.remove(&end) {
            end += has;
        }
        self.0.insert(start, end - start);
    }

    /// Takes out places that are all in it; false, and nothing happens, if they are not.
    pub(super) fn take(&mut self, first: u128, length: u128) -> bool {
        let Some((start, has)) = self.holding(first).filter(|(start, has)| first + length <= start + has) else {
            return false;
        };
        self.0.remove(&start);
        let (end, rest) = (first + length, start + has);
        if start < first {
            self.0.insert(start, first - start);
        }
        if end < rest {
            self.0.insert(end, rest - end);
        }
        true
    }

    /// The run in which a place lies.
    fn holding(&self, place: u128) -> Option<(u128, u128)> {
        let (first, length) = self.0.range(..=place).next_back()?;
        (place < first + length).then_some((*first, *length))
    }
}
