//! The node's kernel: what of its network is ours, and the steps that make it what it should be.
//!
//! ```text
//!            ┌─ links, addresses, neighbours, routes, rules ── rtnetlink ─┐
//!  Wanted ─> │  translations, filters ── one table of nft ────────────────┤ ─> Network ─┐
//!     │      │  parameters ── /proc/sys ──────────────────────────────────┤             │
//!     │      └─ cables and their peers ── whoever makes them ([`Cables`]) ┘             │
//!     └───────────────────────────────> core's plan <───────────────────────────────────┘
//!                                           │ steps, one by one; then it looks again
//! ```
//!
//! **Only what is ours.** A link is ours by its alias, with the addresses and permanent neighbours on it; a route by its
//! protocol number; a rule by the same number, or because it leads into a table of ours at a priority of ours; a
//! translation or a filter because it is in our nft table. A kernel parameter is ours while our table has a note of what
//! it was before. All marks are in the kernel, so a daemon that starts knows what its former self left, and takes it over
//! as it is: nothing is flushed, and the plan from there to nothing (uninstall) gives the node back as it was.
//!
//! **One thread for a namespace.** A [`Node`] speaks with the namespace in which it was opened and must stay on that
//! thread. [`Hand`] has such a thread; it also listens to what the kernel tells of others' edits, and puts back what is
//! ours.
//!
//! Requests are asked one after the other over a socket of our own and not through the `rtnetlink` crate, whose messages
//! they are: the order of steps is the point, a step's failure is told with the kernel's own words, and what others wrote
//! and nobody can parse is passed over, message by message.

#![allow(clippy::disallowed_types, reason = "it stands on the clock of the machine, outside of any simulation")]

mod addresses;
mod alias;
mod apply;
mod cables;
mod error;
mod events;
mod flows;
mod hand;
mod links;
mod neighbours;
mod nft;
mod node;
mod normal;
mod notes;
mod place;
mod routes;
mod rules;
mod socket;
mod sysctls;

pub use cables::{Cables, NoCables};
pub use error::{Error, Fault, Refusal};
pub use hand::{Deed, Hand, Namespace};
pub use node::Node;
pub use normal::network as normal;
pub use place::Place;
pub use socket::Channel;

/// Requests to the kernel that others need, too.
pub mod requests {
    pub use crate::addresses::add as add_address;
    pub use crate::flows::forget as forget_flows;
    pub use crate::links::raise as raise_link;
}

use netlink_packet_route::AddressFamily;
use std::net::IpAddr;

/// The family of an address, in netlink's words.
const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
