//! Which things have been so for long enough to be believed.

use super::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

/// Things that are so, and whether they have been for as long as patience asks. For weak evidence, such as an object that
/// a listing did not show or a path that is dead just now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lasting<K: Ord> {
    patience: Duration,
    /// When each will have lasted; `None` once it has.
    until: BTreeMap<K, Option<Instant>>,
}

impl<K: Ord + Clone> Lasting<K> {
    /// Nothing is so yet; what will be has lasted after `patience`.
    #[must_use]
    pub const fn new(patience: Duration) -> Self {
        Self { patience, until: BTreeMap::new() }
    }

    /// It is so now. Costs nothing if that is known; true if it is news.
    pub fn note(&mut self, key: &K, now: Instant) -> bool {
        let news = !self.until.contains_key(key);
        if news {
            self.renew(key, now);
        }
        news
    }

    /// It is so, counted from now.
    pub fn renew(&mut self, key: &K, now: Instant) {
        self.until.insert(key.clone(), Some(now + self.patience));
    }

    /// It is not so (any more).
    pub fn clear(&mut self, key: &K) {
        self.until.remove(key);
    }

    /// All that is so.
    pub fn all(&self) -> impl Iterator<Item = &K> {
        self.until.keys()
    }

    /// All that has lasted.
    pub fn all_lasted(&self) -> impl Iterator<Item = &K> {
        self.until.iter().filter(|(_, until)| until.is_none()).map(|(key, _)| key)
    }

    /// Whether it has lasted.
    #[must_use]
    pub fn lasted(&self, key: &K) -> bool {
        self.until.get(key) == Some(&None)
    }

    /// When the next one will have lasted.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.until.values().flatten().min().copied()
    }

    /// Those that have lasted just now.
    pub fn due(&mut self, now: Instant) -> Vec<K> {
        let mut due = Vec::new();
        for (key, until) in &mut self.until {
            if until.is_some_and(|at| at <= now) {
                *until = None;
                due.push(key.clone());
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_so_is_believed_once_and_only_after_it_has_lasted() {
        let at = |secs| Instant::from_origin(Duration::from_secs(secs));
        let mut lasting = Lasting::new(Duration::from_secs(5));
        assert!(lasting.note(&"a", at(0)));
        assert!(!lasting.note(&"a", at(3)));
        assert_eq!(lasting.poll_timeout(), Some(at(5)));
        assert!(lasting.due(at(4)).is_empty() && !lasting.lasted(&"a"));
        assert_eq!(lasting.due(at(5)), ["a"]);
        assert!(lasting.due(at(5)).is_empty() && lasting.lasted(&"a"));
        assert_eq!(lasting.poll_timeout(), None);
        lasting.renew(&"a", at(6));
        assert!(!lasting.lasted(&"a"));
        lasting.clear(&"a");
        assert_eq!(lasting.poll_timeout(), None);
    }
}
