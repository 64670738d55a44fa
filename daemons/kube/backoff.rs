//! Pauses after failures, from a seed.

use std::time::Duration;
use tombolo_core::base::Rng;

/// Doubles from `min` to `max`, each time ±20 % by a seeded chance: the same seed waits the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
    rng: Rng,
}

impl Backoff {
    /// The pauses of `seed`.
    #[must_use]
    pub fn new(min: Duration, max: Duration, seed: u64) -> Self {
        Self { min, max, failures: 0, rng: Rng::new(seed) }
    }

    /// The pause after one more failure.
    pub fn pause(&mut self) -> Duration {
        let pause = self.rng.pause((self.min, self.max), self.failures);
        self.failures = self.failures.saturating_add(1);
        pause.min(self.max)
    }

    /// Something worked: the next pause is a short one.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(800);
    const MOST: Duration = Duration::from_secs(30);

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::new(LEAST, MOST, 1);
        let pauses: Vec<_> = (0..40).map(|_| backoff.pause()).collect();
        for (pause, ideal) in pauses.iter().zip([800, 1_600, 3_200, 6_400, 12_800]) {
            let ideal = Duration::from_millis(ideal);
            assert!(*pause >= ideal * 8 / 10 && *pause <= ideal * 12 / 10, "{pause:?} for {ideal:?}");
        }
        assert!(pauses.iter().skip(6).all(|pause| *pause <= MOST && *pause >= MOST * 8 / 10));
        backoff.reset();
        assert!(backoff.pause() < Duration::from_secs(1));
    }

    #[test]
    fn one_seed_waits_the_same_and_another_does_not() {
        let pauses = |seed| {
            let mut backoff = Backoff::new(LEAST, MOST, seed);
            (0..9).map(|_| backoff.pause()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
    }
}
