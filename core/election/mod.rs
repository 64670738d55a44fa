//! Who announces for a cluster: one machine per candidate, over one Lease object.
//!
//! It polls, as client-go's leader election does. A **candidate** reads the Lease every retry period and takes it by
//! compare-and-swap when it is free, or when it has not changed for its duration *by the candidate's own monotonic
//! clock*. The times written in the Lease are for people: comparing them with a local clock would elect by clock
//! offset. The **holder** renews by compare-and-swap, and stands down on its own when it could not for the renew
//! deadline, counted from when it *sent* its last successful write:
//!
//! ```text
//!  holder     write sent ──────── renew deadline ───────> stands down
//!  API            └─ happens
//!  candidate               └─ first sees it ──────── lease duration ────────> takes over
//! ```
//! So the holder is silent before anybody takes over, for any clock offset, any latency, and clock rates that differ by
//! less than duration : deadline. A holder that stood down goes on trying, in the same process (submariner#2747).
//!
//! **Terms.** Each time it is elected, also right after itself, begins a new epoch: greater than all epochs ever seen
//! on the Lease, the broker and in hellos, and than the Unix time. It is written with the Lease before it is announced.
//!
//! **Requests.** One is in flight at a time and is given up after half the renew deadline: an API too slow to renew
//! against lets no write succeed at all, instead of letting leadership come and go. A late answer is ignored. A write
//! without an answer may have happened, so the Lease is read anew, and the own identity on it recognised.
//!
//! **A missing Lease** is not a free one to those who know of any epoch: its holder may live on for as long as it has
//! just renewed. They wait a lease duration; the holder itself puts it back at once. The same holds for a Lease that
//! knows nothing of an epoch heard of elsewhere: it was lost, or set back, and whoever announced in that epoch may
//! still do.
//!
//! **A restart** on the holder's host does not wait: the Lease names an earlier process there (`host/process`), and that one
//! is dead. Nor does anybody wait for a holder that nobody knows where no other host may be one.
//!
//! What it cannot do: stop a process that the host suspended. Its late writes are fenced by their epoch.

mod machine;
#[cfg(test)]
mod pair;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod tests;

use crate::base::{Epoch, Wall};
use crate::model::{ApiError, Lease, Version};
use alloc::string::String;
use core::time::Duration;
pub use machine::Election;
use serde::{Deserialize, Serialize};

/// What a candidate is and how patient it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Name of the Lease object.
    pub lease: String,
    /// Where it runs. Of several processes there only the last may live: whoever starts it sees to that.
    pub host: String,
    /// Which process it is: another each time it starts on this host.
    pub process: String,
    /// How patient it is.
    pub durations: Durations,
    /// Seed of the jitter between polls (±10 %).
    pub seed: u64,
}

/// How long a lease lasts, how long its holder goes without renewing it, how often it is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "(Duration, Duration, Duration)", into = "(Duration, Duration, Duration)")]
pub struct Durations {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// Why three durations make no safe election.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DurationsError {
    /// `leaseDurationSeconds` is a whole number.
    #[error("a lease of {lease:?}: it lasts a whole number of seconds")]
    NotWholeSeconds {
        /// The lease duration.
        lease: Duration,
    },
    /// The holder must be silent before others take over.
    #[error("renew deadline {renew_deadline:?}, lease {lease:?}: the deadline must be shorter")]
    DeadlineTooLong {
        /// The renew deadline.
        renew_deadline: Duration,
        /// The lease duration.
        lease: Duration,
    },
    /// There must be time to renew more than once (client-go: 1.2 times).
    #[error(
        "retry period {retry:?}, renew deadline {renew_deadline:?}: it must be above zero and 1.2 times it shorter"
    )]
    RetryTooLong {
        /// The retry period.
        retry: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
    },
}

impl Durations {
    /// Those of Submariner's gateways: 15 s, 10 s, 2 s (`submariner:pkg/gateway/gateway.go`).
    pub const GATEWAY: Self =
        Self { lease: Duration::from_secs(15), renew_deadline: Duration::from_secs(10), retry: Duration::from_secs(2) };

    /// Checks that they make a safe election.
    ///
    /// # Errors
    /// A [`DurationsError`] that says which does not fit.
    pub fn new(lease: Duration, renew_deadline: Duration, retry: Duration) -> Result<Self, DurationsError> {
        if lease.subsec_nanos() != 0 {
            return Err(DurationsError::NotWholeSeconds { lease });
        }
        if renew_deadline >= lease {
            return Err(DurationsError::DeadlineTooLong { renew_deadline, lease });
        }
        if retry.is_zero() || retry.saturating_mul(6) / 5 >= renew_deadline {
            return Err(DurationsError::RetryTooLong { retry, renew_deadline });
        }
        Ok(Self { lease, renew_deadline, retry })
    }

    /// How long others wait with a lease that does not change.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// How long the holder announces without a renewal.
    #[must_use]
    pub const fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// Time between two polls.
    #[must_use]
    pub const fn retry(&self) -> Duration {
        self.retry
    }

    /// When a request is given up.
    fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }
}

impl TryFrom<(Duration, Duration, Duration)> for Durations {
    type Error = DurationsError;
    fn try_from((lease, renew_deadline, retry): (Duration, Duration, Duration)) -> Result<Self, DurationsError> {
        Self::new(lease, renew_deadline, retry)
    }
}

impl From<Durations> for (Duration, Duration, Duration) {
    fn from(of: Durations) -> Self {
        (of.lease, of.renew_deadline, of.retry)
    }
}

/// What can happen to a candidate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The wall clock reads this now. The first one starts it: it writes nothing before it knows the time.
    Wall(Wall),
    /// An epoch of the own cluster was seen somewhere: on the broker, in a hello.
    Seen(Epoch),
    /// The own cluster announced up to this epoch before it left: nobody is at work in it, and the next one is above it.
    Left(Epoch),
    /// Whether no other host may hold the lease. Until that is said, others may.
    Alone(bool),
    /// What came of [`Output::Read`]: the Lease, or `None` if there is none.
    Answered {
        /// Of which request.
        request: u64,
        /// What was read.
        result: Result<Option<(Lease, Version)>, ApiError>,
    },
    /// What came of [`Output::Write`].
    Written {
        /// Of which request.
        request: u64,
        /// The version written.
        result: Result<Version, ApiError>,
    },
    /// Give the lease up, if held, and do not ask for it for so long.
    Yield {
        /// How long.
        for_: Duration,
    },
    /// Give the lease up, if held, and fall silent for good.
    Stop,
}

/// What a candidate wants done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// Read the Lease, fresh from the API.
    Read {
        /// Number of the request.
        request: u64,
    },
    /// Write the Lease.
    Write {
        /// Number of the request.
        request: u64,
        /// All of it.
        lease: Lease,
        /// It must be in this version; `None`: it must not exist.
        expected: Option<Version>,
    },
    /// It holds the lease: announce, in this epoch.
    Elected(Epoch),
    /// Announce no more.
    StoodDown {
        /// The epoch that ended.
        epoch: Epoch,
        /// Why.
        because: String,
    },
}

/// Why a candidate wants to wake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Reason {
    /// The lease was not renewed for the renew deadline.
    TermEnds,
    /// Stopping took too long: the lease runs out by itself.
    GiveUp,
    /// The request in flight has no answer.
    NoAnswer,
    /// Time to read or renew.
    Poll,
}
