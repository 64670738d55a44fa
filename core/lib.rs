//! Everything in Tombolo that decides, as pure state machines.
//!
//! Observations come in, desired state and requests go out; there is no clock, no I/O and no randomness but a seed.
//! The same code runs in the simulator, in the lab of network namespaces and in the daemons.
//!
//! ```text
//! base ← model ← {ipam, election, sync, discovery, dns, paths, nat, network} ← roles
//! ```
//! Arrows point one way and siblings do not import each other (`ci/deps` checks it).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "laws"))]
extern crate std;

pub mod base;
pub mod discovery;
pub mod dns;
pub mod election;
pub mod ipam;
pub mod model;
pub mod nat;
pub mod network;
pub mod paths;
pub mod roles;
pub mod sync;
