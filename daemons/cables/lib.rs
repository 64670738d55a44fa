//! Cables: what carries packets from one cluster to another.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it stands on the machine's own clock and threads"
)]

pub mod tunnel;
pub mod wireguard;
