//! The hand against the embedded API server, over pipes and over TCP.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod stand;
mod watching;
mod writing;
