//! Which messages of a session have come already.

/// How far a message may be behind the newest one. Offloads reorder in lumps of 64.
pub const BEHIND_MAX: u64 = 8192 - 64;
const WORDS: usize = 128;

/// A ring of bits, one a counter (RFC 6479).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// One more than the greatest counter that came.
    next: u64,
    bits: Box<[u64; WORDS]>,
}

impl Default for Window {
    fn default() -> Self {
        Self { next: 0, bits: Box::new([0; WORDS]) }
    }
}

fn place(counter: u64) -> (usize, u64) {
    let word = usize::try_from(counter / 64 % 128).unwrap_or(0);
    (word, 1 << (counter % 64))
}

impl Window {
    /// Takes note of a counter. Whether it is new.
    pub fn take(&mut self, counter: u64) -> bool {
        if counter.saturating_add(BEHIND_MAX) < self.next {
            return false;
        }
        if counter >= self.next {
            let (old, new) = (self.next.wrapping_sub(1) / 64, counter / 64);
            // Words that the window has not reached before, at most all of them.
            let first = if self.next == 0 { 0 } else { old + 1 };
            let count = (new + 1).saturating_sub(first).min(128);
            for word in (new + 1 - count)..=new {
                let (word, _) = place(word * 64);
                if let Some(word) = self.bits.get_mut(word) {
                    *word = 0;
                }
            }
            self.next = counter.saturating_add(1);
        }
        let (word, bit) = place(counter);
        let Some(word) = self.bits.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_counter_is_taken_once_unless_it_is_far_behind(
            jumps in proptest::collection::vec((0_u64..3, 0_u64..20_000), 1..300),
        ) {
            let (mut window, mut seen, mut newest) = (Window::default(), BTreeSet::new(), 0_u64);
            for (kind, by) in jumps {
                let counter = match kind {
                    0 => newest + by,
                    1 => newest.saturating_sub(by),
                    _ => newest.saturating_sub(by % 200),
                };
                let expected = counter + BEHIND_MAX > newest && !seen.contains(&counter);
                let edge = counter + BEHIND_MAX == newest || counter + BEHIND_MAX == newest + 1;
                let taken = window.take(counter);
                prop_assert!(taken == expected || edge, "{counter} after {newest}: {taken}");
                if taken {
                    seen.insert(counter);
                }
                newest = newest.max(counter);
            }
        }
    }

    #[test]
    fn the_last_counters_there_are_do_no_harm() {
        let mut window = Window::default();
        assert!(window.take(u64::MAX - 1));
        assert!(!window.take(u64::MAX - 1));
        assert!(window.take(u64::MAX - 2));
        assert!(!window.take(0));
    }
}
