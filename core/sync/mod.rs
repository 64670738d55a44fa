//! Keeping what one API shows equal to what was decided from another.
//!
//! ```text
//!  watch events ──> Index ──(the role decides)──> wanted objects ──> Writer ──> compare-and-swap writes
//!                     ^                                                │
//!                     └────────────── the watch shows them <───────────┘
//! ```
//! * [`Index`] is the view: every (re)connection is a listing with mark and sweep for its source, so a lost delete shows
//!   as absence (F2, B48); a view stays readable while it is listed anew (B68); before the first complete listing it is
//!   not [`Index::synced`], and nothing may be concluded from an absence (F3).
//! * What Tombolo's daemons write and a listing did not show any more is only *missing*: it may come back, when an API that
//!   lost its data is filled again. It is believed to be there until those who would bring it back have said there that
//!   all they have is there ([`Index::word_of`]), and have had [`ABSENCE`] for it ([`Index::believe`]). A deletion that was
//!   seen needs no such patience, nor does what the cluster itself owns.
//! * Whoever speaks has an age, an epoch or a generation, which never goes back: a word older than one before is of a backup,
//!   and none. What a listing of the broker shows of such a cluster is not believed; what it had before is.
//! * [`Writer`] is level-triggered: told again and again what a key should be, it writes only when the view differs, one
//!   write a key at a time, always compare-and-swap on the version seen (F1, F4): news that came in between makes the
//!   write fail instead of being undone by it.

mod former;
mod index;
mod shelf;
mod writer;

pub use index::Index;
pub use writer::{BACKOFF_MAX, BACKOFF_MIN, SETTLE, Writer};

use core::time::Duration;

/// A request of a daemon without an answer is given up after this.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(5);

/// Pauses of a daemon that cannot watch an API: the first, and the longest that doubling leads to (±20 %). Shorter than
/// those of client-go (0.8 and 30 s): whoever lost something is waited for no longer than [`ABSENCE`].
pub const WATCH_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// How long an object must be missing before that is believed. An API that lost its data is filled again by those who
/// wrote there, as soon as they see it: once it answers, they list within a request that hangs and the longest pause.
pub const ABSENCE: Duration = Duration::from_secs(10);

const _: () = assert!(
    ABSENCE.as_millis() >= REQUEST_DEADLINE.as_millis() + WATCH_PAUSES.1.as_millis() * 6 / 5 + 1_000,
    "an absence must last until those who would end it had the time to"
);
