//! Cables: what carries packets from one cluster to another, behind one trait.
//!
//! ```text
//!                       ┌─ Kernel ───── generic netlink ──> WireGuard of the kernel, where it has it
//! tombolo_linux ──> Drivers
//! (the kernel hand)     ├─ Userspace ── words of `wg` ───> a process a cable: tunnel + wireguard
//!                       └─ Vxlan ────── rtnetlink ───────> VXLAN of the kernel, not encrypted
//! ```
//!
//! A gateway has one WireGuard device for each rank of remote candidates, and each peer has the full ranges of its
//! cluster: the kernel's route picks the device, so that a standby is warm and a switch moves a route
//! (`tombolo_core::network`).
//!
//! **A cable in user space is a process of its own** ([`process`]). It holds the TUN link and outlives the daemon: a daemon
//! that starts finds it by its socket, takes it over as it is, and its packets never stopped. If it dies, its link goes with
//! it: the kernel hand sees that, has it made anew, and its peers are greeted at once. Its private key lies in a file of the
//! host ([`keys`]).
//!
//! **What a tunnel learned stays.** Where a peer is heard is told as where it is dialled, so that a plan which leaves that
//! open changes nothing (`Wanted::stays`).

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it stands on the machine's own clock and threads"
)]

pub mod client;
pub mod command;
mod driver;
mod kernel;
pub mod keys;
pub mod process;
pub mod tunnel;
pub mod uapi;
mod userspace;
mod vxlan;
pub mod wireguard;

pub use driver::{Driver, Drivers, PeerStatus, Status};
pub use kernel::Kernel;
pub use userspace::Userspace;
pub use vxlan::Vxlan;
