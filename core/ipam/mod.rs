//! Who has which range, and who has which address in it.
//!
//! | file | holds |
//! |---|---|
//! | `overlap` | what ranges of one cluster and of two may not meet |
//! | `admission` | whether a cluster may join with its ranges, and which global range it gets: a pure function of the claims |
//! | `claiming` | [`Claiming`]: the conversation with the broker that records the claim |
//! | `pool` | [`Pool`]: addresses inside a range, and their owners |
//!
//! ```text
//!  Application ─> Claiming ── read ──> broker's Claims ── admit ──> write on top of the version read ── done
//!                    └──────── somebody was faster: read again <───────────────┘
//! ```
//! A claim is one object for all members, written by compare-and-swap: of two that join at the same moment one is refused by
//! the store, reads what the other has taken, and takes something else (B34). An id is bound to the identity of the
//! cluster that claimed it first (B36).

mod admission;
mod claiming;
mod overlap;
mod pool;
mod runs;
#[cfg(test)]
mod tests;

pub use admission::{Admitted, Application, GlobalWish, Refusal, admit};
pub use claiming::{Claiming, ClaimingWake, Grounds, Input, Outcome, Output, lost_claims};
pub use overlap::{Conflict, Side, conflicts, own_conflicts};
pub use pool::{AllocateError, Pool, RangeError, RecordError, Recovery};
