//! A host's clocks. No two hosts agree: each has an origin, a rate and a wall-clock error of its own, so that a machine
//! which compares moments of two hosts, or trusts a wall clock to the millisecond, fails here first.

use super::START;
use core::time::Duration;
use tombolo_core::base::{Instant, Rng, Wall};
use tombolo_scenarios::{Rate, Skew};

/// Largest error of a clock's rate, in millionths: what NTP tolerates of a crystal is 500, what is sold is 100.
const DRIFT_PPM_MAX: i64 = 100;
/// Largest error of a wall clock.
const SKEW_MAX: Duration = Duration::from_millis(200);

/// The clocks of one host, from one boot on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    /// When it booted, or when its rate was last changed.
    since: Duration,
    /// What its monotonic clock read then.
    origin_ns: i128,
    /// How far its wall clock was off then, beside its small error.
    off_ns: i128,
    drift_ppm: i128,
    /// A scenario's own error of the rate. It is the wall clock's too.
    rate_ppm: i128,
    skew: Duration,
}

impl Clock {
    /// The clocks of a host that booted at `booted`.
    pub(crate) fn new(booted: Duration, chance: &mut Rng) -> Self {
        let drift = i64::try_from(chance.below(DRIFT_PPM_MAX.unsigned_abs() * 2 + 1)).unwrap_or_default();
        Self {
            since: booted,
            // Up to an hour: as if it had been up for a while.
            origin_ns: i128::from(chance.below(3_600_000_000_000)),
            off_ns: 0,
            drift_ppm: i128::from(drift - DRIFT_PPM_MAX),
            rate_ppm: 0,
            skew: chance.duration(Duration::ZERO, 2 * SKEW_MAX),
        }
    }

    /// The same host boots again: its crystal and its battery clock are as wrong as before.
    pub(crate) fn boot(&mut self, now: Duration, chance: &mut Rng) {
        let (off_ns, rate_ppm) = (self.off_at(now), self.rate_ppm);
        *self = Self { off_ns, rate_ppm, ..Self::new(now, chance) };
    }

    /// From now on its wall clock is off by this.
    pub(crate) fn set_skew(&mut self, now: Duration, skew: Skew) {
        self.restart(now);
        self.off_ns = match skew {
            Skew::Ahead(by) => nanos(by),
            Skew::Behind(by) => -nanos(by),
        };
    }

    /// From now on it runs at this rate.
    pub(crate) fn set_rate(&mut self, now: Duration, Rate(millionths): Rate) {
        self.restart(now);
        self.rate_ppm = i128::from(millionths);
    }

    /// The scenario's error of its rate, in millionths.
    pub(crate) fn rate(&self) -> Rate {
        Rate(i32::try_from(self.rate_ppm).unwrap_or_default())
    }

    /// Counts from `now` on; it goes on from what it reads.
    fn restart(&mut self, now: Duration) {
        let elapsed = nanos(now.saturating_sub(self.since));
        let (local, off) = (self.local(elapsed), self.off_at(now));
        (self.since, self.origin_ns, self.off_ns) = (now, local, off);
    }

    fn off_at(&self, now: Duration) -> i128 {
        self.off_ns + nanos(now.saturating_sub(self.since)) * self.rate_ppm / 1_000_000
    }

    /// What its monotonic clock reads at `now`.
    pub(crate) fn read(&self, now: Duration) -> Instant {
        self.at(nanos(now.saturating_sub(self.since)))
    }

    fn at(&self, elapsed_ns: i128) -> Instant {
        Instant::from_origin(Duration::from_nanos(u64::try_from(self.local(elapsed_ns)).unwrap_or_default()))
    }

    fn local(&self, elapsed_ns: i128) -> i128 {
        self.origin_ns + elapsed_ns + elapsed_ns * (self.drift_ppm + self.rate_ppm) / 1_000_000
    }

    /// The first moment at which its monotonic clock reads `instant` or more.
    pub(crate) fn when(&self, instant: Instant) -> Duration {
        let local = nanos(instant.since_origin()) - self.origin_ns;
        let mut elapsed = (local * 1_000_000 / (1_000_000 + self.drift_ppm + self.rate_ppm)).max(0);
        // The division is a few nanoseconds off at most.
        while elapsed > 0 && self.at(elapsed - 1) >= instant {
            elapsed -= 1;
        }
        while self.at(elapsed) < instant {
            elapsed += 1;
        }
        self.since + Duration::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// What its wall clock reads at `now`.
    pub(crate) fn wall(&self, now: Duration) -> Wall {
        let micros = i128::from((START + now + self.skew).unix_micros()) + self.off_at(now) / 1_000;
        let error_max = nanos(SKEW_MAX) / 1_000;
        Wall::from_unix_micros(u64::try_from(micros - error_max).unwrap_or_default())
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
    fn a_clock_that_is_set_or_changes_its_rate_never_steps_its_monotonic_time() {
        let mut chance = Rng::new(3);
        let mut clock = Clock::new(Duration::ZERO, &mut chance);
        let (hour, minute) = (Duration::from_secs(3_600), Duration::from_secs(60));
        let off = |clock: &Clock, now: Duration| {
            i128::from(clock.wall(now).unix_micros()) - i128::from((START + now).unix_micros())
        };
        let own = off(&clock, minute);
        let before = clock.read(minute);
        clock.set_skew(minute, Skew::Ahead(hour));
        assert_eq!((clock.read(minute), off(&clock, 2 * minute) - own), (before, 3_600_000_000));
        clock.set_rate(minute, Rate(-100_000));
        assert_eq!(clock.read(minute), before);
        let ran = clock.read(2 * minute).since(before);
        assert!(ran.abs_diff(Duration::from_secs(54)) <= Duration::from_millis(6), "{ran:?}");
        assert_eq!(off(&clock, 2 * minute) - own, 3_600_000_000 - 6_000_000, "the wall clock runs slow too");
        clock.boot(2 * minute, &mut chance);
        let ran = clock.read(3 * minute).since(clock.read(2 * minute));
        assert!(ran.abs_diff(Duration::from_secs(54)) <= Duration::from_millis(6), "a boot mends no crystal: {ran:?}");
        clock.set_rate(3 * minute, Rate(0));
        clock.set_skew(3 * minute, Skew::Behind(Duration::ZERO));
        assert!(off(&clock, 10 * minute).abs() <= 200_000);
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
