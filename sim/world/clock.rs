//! A host's clocks. No two hosts agree: each has an origin, a rate and a wall-clock error of its own, so that a machine
//! which compares moments of two hosts, or trusts a wall clock to the millisecond, fails here first.

use super::START;
use core::time::Duration;
use tombolo_core::base::{Instant, Rng, Wall};

/// Largest error of a clock's rate, in millionths: what NTP tolerates of a crystal is 500, what is sold is 100.
const DRIFT_PPM_MAX: i64 = 100;
/// Largest error of a wall clock.
const SKEW_MAX: Duration = Duration::from_millis(200);

/// The clocks of one host, from one boot on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    booted: Duration,
    origin_ns: i128,
    drift_ppm: i128,
    skew: Duration,
}

impl Clock {
    /// The clocks of a host that booted at `booted`.
    pub(crate) fn new(booted: Duration, chance: &mut Rng) -> Self {
        let drift = i64::try_from(chance.below(DRIFT_PPM_MAX.unsigned_abs() * 2 + 1)).unwrap_or_default();
        Self {
            booted,
            // Up to an hour: as if it had been up for a while.
            origin_ns: i128::from(chance.below(3_600_000_000_000)),
            drift_ppm: i128::from(drift - DRIFT_PPM_MAX),
            skew: chance.duration(Duration::ZERO, 2 * SKEW_MAX),
        }
    }

    /// What its monotonic clock reads at `now`.
    pub(crate) fn read(&self, now: Duration) -> Instant {
        self.at(nanos(now.saturating_sub(self.booted)))
    }

    fn at(&self, elapsed_ns: i128) -> Instant {
        let local = self.origin_ns + elapsed_ns + elapsed_ns * self.drift_ppm / 1_000_000;
        Instant::from_origin(Duration::from_nanos(u64::try_from(local).unwrap_or_default()))
    }

    /// The first moment at which its monotonic clock reads `instant` or more.
    pub(crate) fn when(&self, instant: Instant) -> Duration {
        let local = nanos(instant.since_origin()) - self.origin_ns;
        let mut elapsed = (local * 1_000_000 / (1_000_000 + self.drift_ppm)).max(0);
        // The division is a few nanoseconds off at most.
        while elapsed > 0 && self.at(elapsed - 1) >= instant {
            elapsed -= 1;
        }
        while self.at(elapsed) < instant {
            elapsed += 1;
        }
        self.booted + Duration::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// What its wall clock reads at `now`.
    pub(crate) fn wall(&self, now: Duration) -> Wall {
        let micros = (START + now + self.skew).unix_micros();
        Wall::from_unix_micros(micros.saturating_sub(u64::try_from(SKEW_MAX.as_micros()).unwrap_or_default()))
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_met_at_the_first_moment_and_not_before() {
        let mut chance = Rng::new(7);
        for _ in 0..200 {
            let booted = chance.duration(Duration::ZERO, Duration::from_secs(100));
            let clock = Clock::new(booted, &mut chance);
            let start = clock.read(booted);
            let deadline = start + chance.duration(Duration::from_nanos(1), Duration::from_secs(4000));
            let when = clock.when(deadline);
            assert!(clock.read(when) >= deadline);
            assert!(clock.read(when - Duration::from_nanos(1)) < deadline);
        }
    }

    #[test]
    fn a_deadline_in_the_past_is_met_at_boot() {
        let booted = Duration::from_secs(5);
        let clock = Clock::new(booted, &mut Rng::new(1));
        assert_eq!(clock.when(Instant::ZERO), booted);
    }

    #[test]
    fn hosts_differ_in_origin_and_rate_within_bounds() {
        let minute = Duration::from_secs(60);
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let clock = Clock::new(Duration::ZERO, &mut Rng::new(seed));
            let ran = clock.read(minute).since(clock.read(Duration::ZERO));
            assert!(ran.abs_diff(minute) <= Duration::from_millis(6), "{ran:?}");
            let off = clock.wall(minute).unix_micros().abs_diff((START + minute).unix_micros());
            assert!(off <= 200_000, "{off}");
            seen.insert((clock.origin_ns, clock.drift_ppm));
        }
        assert_eq!(seen.len(), 50);
    }
}
