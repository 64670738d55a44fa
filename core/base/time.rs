//! Two kinds of time that cannot be mixed up: monotonic and wall-clock.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// A moment on one machine's own monotonic clock, in nanoseconds since an origin that only that machine knows.
/// Moments of two hosts must not be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);

    /// The moment `since` after the origin. Saturates after 584 years.
    #[must_use]
    pub fn from_origin(since: Duration) -> Self {
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time since the origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Time since `earlier`, zero if that lies in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, rhs: Self) -> Duration {
        self.since(rhs)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0 / 1_000;
        write!(f, "{}.{:06}s", micros / 1_000_000, micros % 1_000_000)
    }
}

/// Wall-clock time in microseconds since the Unix epoch (the grain of Kubernetes' `MicroTime`). It enters a machine
/// only as an input and is never used to judge whether something is late.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Wall(u64);

impl Wall {
    /// From microseconds since the Unix epoch.
    #[must_use]
    pub const fn from_unix_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// From seconds since the Unix epoch.
    #[must_use]
    pub const fn from_unix_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch.
    #[must_use]
    pub const fn unix_secs(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Add<Duration> for Wall {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_micros()).unwrap_or(u64::MAX)))
    }
}
