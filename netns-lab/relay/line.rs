//! What becomes of each frame on one way of a link: decided without clock or device.

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tombolo_core::base::Rng;
use tombolo_scenarios::LinkSpec;

/// Bytes of a header of Ethernet.
pub(super) const ETHERNET: usize = 14;
/// A frame that is out of order comes at most so much later than it would have.
const HELD_BACK_MAX: Duration = Duration::from_millis(10);
/// Frames on their way; what is more is lost, as where a queue is full.
const QUEUE_MAX: usize = 20_000;

/// How one way of a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Quality {
    /// What each frame takes.
    pub latency: Duration,
    /// Added to it by chance, between 0 and this. Frames keep their order.
    pub jitter: Duration,
    /// Frames lost, in a million.
    pub loss_millionths: u32,
    /// Frames held back so that later ones overtake them, in a million.
    pub reorder_millionths: u32,
    /// The longest packet that passes. Nobody is told of one that does not.
    pub mtu: u16,
    /// Nothing passes.
    pub cut: bool,
}

impl Quality {
    /// What a scenario says of a link.
    #[must_use]
    pub const fn of(spec: LinkSpec) -> Self {
        let LinkSpec { latency, jitter, loss_millionths, mtu } = spec;
        Self { latency, jitter, loss_millionths, reorder_millionths: 0, mtu, cut: false }
    }
}

/// The frames that are on their way.
#[derive(Debug)]
pub(crate) struct Line {
    flying: BTreeMap<(Duration, u64), Vec<u8>>,
    sequence: u64,
    /// When the last frame in order arrives.
    last: Duration,
    chance: Rng,
}

impl Line {
    pub(crate) const fn new(chance: Rng) -> Self {
        Self { flying: BTreeMap::new(), sequence: 0, last: Duration::ZERO, chance }
    }

    /// A frame goes in.
    pub(crate) fn take(&mut self, now: Duration, frame: &[u8], quality: &Quality) {
        let too_long = frame.len().saturating_sub(ETHERNET) > usize::from(quality.mtu);
        if quality.cut || too_long || self.flying.len() >= QUEUE_MAX || self.chance.chance(quality.loss_millionths) {
            return;
        }
        let jitter = self.chance.duration(Duration::ZERO, quality.jitter);
        let mut at = (now + quality.latency + jitter).max(self.last);
        if self.chance.chance(quality.reorder_millionths) {
            at += self.chance.duration(Duration::ZERO, HELD_BACK_MAX);
        } else {
            self.last = at;
        }
        self.sequence += 1;
        self.flying.insert((at, self.sequence), frame.to_vec());
    }

    /// When the next frame comes out.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.flying.first_key_value().map(|((at, _), _)| *at)
    }

    /// A frame that comes out now.
    pub(crate) fn due(&mut self, now: Duration) -> Option<Vec<u8>> {
        let entry = self.flying.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn quality() -> Quality {
        Quality::of(LinkSpec { latency: 5 * MS, ..LinkSpec::default() })
    }

    /// Sends a thousand frames a millisecond apart; gives which come out, in order, and when.
    fn through(quality: &Quality) -> Vec<(u16, Duration)> {
        let mut line = Line::new(Rng::new(1));
        for number in 0..1000u16 {
            line.take(u32::from(number) * MS, &number.to_be_bytes(), quality);
        }
        let mut out = Vec::new();
        while let Some(at) = line.next_at() {
            let frame = line.due(at).unwrap();
            out.push((u16::from_be_bytes([frame[0], frame[1]]), at));
        }
        out
    }

    #[test]
    fn each_frame_takes_the_latency_and_nothing_comes_early() {
        let out = through(&quality());
        assert_eq!(out.len(), 1000);
        assert!(out.iter().all(|(number, at)| *at == u32::from(*number) * MS + 5 * MS));
        let mut line = Line::new(Rng::new(1));
        line.take(Duration::ZERO, &[0; 60], &quality());
        assert_eq!(line.due(4 * MS), None);
        assert!(line.due(5 * MS).is_some());
    }

    #[test]
    fn jitter_keeps_the_order_and_reordering_does_not() {
        let jittery = Quality { jitter: 10 * MS, ..quality() };
        let out = through(&jittery);
        assert!(out.is_sorted_by_key(|(number, _)| *number) && out.len() == 1000);
        assert!(out.iter().any(|(number, at)| *at > u32::from(*number) * MS + 10 * MS));
        let out = through(&Quality { reorder_millionths: 100_000, ..quality() });
        let overtaken = out.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
        assert!((50..150).contains(&overtaken) && out.len() == 1000, "{overtaken}");
    }

    #[test]
    fn so_many_are_lost_as_it_says_and_all_where_it_is_cut_or_they_are_too_long() {
        let out = through(&Quality { loss_millionths: 100_000, ..quality() }).len();
        assert!((860..940).contains(&out), "{out}");
        assert!(through(&Quality { cut: true, ..quality() }).is_empty());
        let mut line = Line::new(Rng::new(1));
        line.take(Duration::ZERO, &[0; 1515], &quality());
        assert_eq!(line.next_at(), None);
        line.take(Duration::ZERO, &[0; 1514], &quality());
        assert!(line.next_at().is_some());
    }
}
