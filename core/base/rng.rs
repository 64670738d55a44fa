//! Chance, from a seed.

use core::time::Duration;
use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// A seeded source of chance (xoshiro256++). Not for secrets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "[u8; 32]", into = "[u8; 32]")]
pub struct Rng(Xoshiro256PlusPlus);

impl From<[u8; 32]> for Rng {
    fn from(state: [u8; 32]) -> Self {
        Self(Xoshiro256PlusPlus::from_seed(state))
    }
}

impl From<Rng> for [u8; 32] {
    fn from(rng: Rng) -> Self {
        rng.0.state()
    }
}

impl Rng {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A stream of its own for `label`, so that more draws in one place do not move the draws of another.
    #[must_use]
    pub fn stream(seed: u64, label: &str) -> Self {
        Self::new(seed ^ super::hash::fnv1a(label.as_bytes()))
    }

    /// 64 even bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Even in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The multiply-shift of Lemire; its bias is below bound/2^64.
        u64::try_from((u128::from(self.bits()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// True `millionths` times in a million.
    pub fn chance(&mut self, millionths: u32) -> bool {
        self.below(1_000_000) < u64::from(millionths)
    }

    /// Even in `low..=high`.
    pub fn duration(&mut self, low: Duration, high: Duration) -> Duration {
        let span = u64::try_from(high.saturating_sub(low).as_nanos()).unwrap_or(u64::MAX);
        low + Duration::from_nanos(self.below(span.saturating_add(1)))
    }

    /// `mean` ± `percent`, even.
    pub fn jitter(&mut self, mean: Duration, percent: u32) -> Duration {
        let off = mean * percent / 100;
        self.duration(mean.saturating_sub(off), mean + off)
    }

    /// The pause after so many failures before this one: from the first of `pauses`, doubled each time, to the second; ±20 %.
    pub fn pause(&mut self, (least, most): (Duration, Duration), failures: u32) -> Duration {
        self.jitter(least.saturating_mul(2_u32.saturating_pow(failures)).min(most), 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_on_from_its_written_state() {
        let mut rng = Rng::stream(7, "here");
        rng.bits();
        let mut again = Rng::from(<[u8; 32]>::from(rng.clone()));
        assert_eq!([rng.bits(), rng.bits()], [again.bits(), again.bits()]);
    }
}
