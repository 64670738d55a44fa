//! The times of discovery. The first four are Submariner's (`spec/submariner.md` 2), the rest is ours.

use core::time::Duration;

/// Between two probes while nobody has answered.
pub const RESEND: Duration = Duration::from_secs(2);
/// So long without any answer: the records decide.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// The same towards a load balancer (some swallow these datagrams, submariner#1410).
pub const TIMEOUT_LOAD_BALANCER: Duration = Duration::from_secs(6);
/// After the public address was chosen anew, a private answer within this still wins.
pub const PREFER_PRIVATE: Duration = Duration::from_secs(1);

/// Between two tests of a choice that works, ±10 %.
pub const RETEST: Duration = Duration::from_secs(60);
/// Jitter of [`RETEST`] in percent.
pub const JITTER_PERCENT: u32 = 10;
/// A chosen address that did not answer for so long, three probes, makes room for one that did.
pub const MISSED: Duration = Duration::from_secs(6);
/// So many tests in a row in which the private address answered too: it is chosen in place of the public one.
pub const STEADY: u8 = 10;

/// Between two lookups of the own public address, also after the longest row of failures.
pub const LOOKUP: Duration = Duration::from_secs(60);
/// A lookup without an answer counts as failed after this.
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after the first failed lookup, and the least one between two that evidence asks for.
pub const LOOKUP_AGAIN: Duration = Duration::from_secs(5);

/// Between two reports of datagrams that were no use.
pub const REPORT: Duration = Duration::from_secs(1);
