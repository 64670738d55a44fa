//! Gateway failover: hellos, the versioned choice for each pair of clusters, and the path in use (`spec/failover.md`).
//!
//! Every cluster has up to four gateway *candidates*, each named by its slot. All candidates keep cables to all
//! candidates of all other clusters, and say hello in them and to all nodes of their own cluster. For each **pair of
//! clusters** there is one [`Register`](register::Register): a version, a set of claimed pairs of candidates, a set of
//! revoked ones. Hellos carry it, everybody merges what is heard, so all nodes come to hold the same one, and the best
//! live claim of the highest version is *the choice*, for every node the same.
//!
//! ```text
//!   hello ──> session (up? suspect?) ─┐
//!         ──> origins (beats, reports) ─> grades ─┤─> revoke, claim, adopt ──> register ──> Way
//!         ──> register ── merge ───────┘                    │                  (routes)
//!                                                           └─> burst of hellos to both clusters
//! ```
//! The two ends of a pair speak for it: an end takes its claim back when its session with the other end is gone;
//! whoever finds the choice dead, or reached by fewer workers than a pair of its own, claims that pair with the next
//! version. Workers only follow, and report which candidates they hear and are heard by. Nothing reverts by itself,
//! nothing reads a wall clock or an API, and nothing must survive a restart.
//!
//! One rule differs from the specification: F2 drops what comes from the overlay when no session with the other cluster
//! is up. Here it goes on into the cable that carried last, or F4 would not hold for clusters with one gateway each.
//!
//! Hellos in a cable also measure how long its packets may be (`carried`); the choice does not depend on it.
//!
//! Of the specification, section 8's *lease mode* for plain peers is not here: what such a peer announces is decided
//! where announcements are read, and a register always wins over it.
//!
//! | file | holds |
//! |---|---|
//! | `vocabulary` | inputs, outputs, neighbours |
//! | `machine` | [`Paths`]: hellos in and out, the own beat, reports |
//! | `peer` | one peer cluster: rules E, T4 and F |
//! | `session` | one session: up, suspect, what is due (rules T3, T5, T6) |
//! | `carried` | how long the packets are that a cable carries |
//! | `grades` | origins of one cluster and the grades that follow |
//! | `register`, `wire`, `timing` | the join, the bytes, the times |
//! | `rules` | switches for tests |

pub mod carried;
mod grades;
mod machine;
mod membership;
mod peer;
pub mod register;
mod rules;
mod session;
mod slots;
#[cfg(test)]
mod tests;
pub mod timing;
mod vocabulary;
mod wake;
mod way;
pub mod wire;

pub use carried::{Carried, CarriedBySlot};
pub use machine::Paths;
pub use slots::SlotSet;
pub use vocabulary::{Config, Input, Me, Neighbour, Output};
pub use wake::Reason;
pub use way::{Choice, Exit, Way};

/// UDP port of hellos, on the overlay and inside cables.
pub const HELLO_PORT: u16 = 4491;
