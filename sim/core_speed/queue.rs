//! What is to happen, in order: by time, at equal times timers before everything else (law 6 of machines), then in the
//! order in which it was put here.

use core::cmp::{Ordering, Reverse};
use core::time::Duration;
use std::collections::BinaryHeap;

/// What goes first at equal times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    /// A machine's own wake-up.
    Timer,
    /// All else.
    Other,
}

#[derive(Debug)]
struct Entry<E> {
    order: (Duration, Class, u64),
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

/// See the module docs.
#[derive(Debug)]
pub(super) struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    sequence: u64,
}

impl<E> Queue<E> {
    pub(super) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }

    pub(super) fn push(&mut self, at: Duration, class: Class, event: E) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { order: (at, class, self.sequence), event }));
    }

    pub(super) fn next_at(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse(entry)| entry.order.0)
    }

    pub(super) fn pop(&mut self) -> Option<E> {
        self.heap.pop().map(|Reverse(entry)| entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_timers_then_as_they_were_put() {
        let mut queue = Queue::new();
        let second = Duration::from_secs(1);
        queue.push(second, Class::Other, "input 1");
        queue.push(second, Class::Other, "input 2");
        queue.push(second, Class::Timer, "timer");
        queue.push(Duration::ZERO, Class::Other, "early");
        assert_eq!(queue.next_at(), Some(Duration::ZERO));
        let order: Vec<&str> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["early", "timer", "input 1", "input 2"]);
    }
}
