//! The only loop: inputs → machine → outputs.
//!
//! ```text
//!   kube, net, kernel hands ──Input──> Inbox ─┐
//!                                             ├─> machine ──Output──> hands
//!   timers, wall clock ───────────────────────┘
//! ```
//! It runs unchanged in the simulator, in the lab and on a cluster; only the [`Hands`] differ. A hand never blocks the
//! loop: it begins what it is asked for, and what comes of it is an input in the [`Inbox`]. The loop keeps the law of
//! machines: one change, then drain, then ask for the timeout; due timers before inputs.

mod hands;
mod record;
mod run;
#[cfg(test)]
mod tests;

pub use hands::{Hands, Inbox, Journal, KernelHand, KubeHand, NatHand, NetHand, WallClock, ZoneHand, inbox};
pub use record::{Record, RecordError, Recorder, Step, replay};
pub use run::{WALL_EVERY, run};
