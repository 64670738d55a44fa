//! The sockets of the DNS server: core's answers over UDP and TCP.
//!
//! ```text
//!   machine ── Output::Dns ──> Zone ── swaps one pointer ──┐
//!                                                          v
//!   UDP: a thread a socket, several sockets a port  ──> Table ──> core::dns::respond ──> reply
//!   TCP: one thread, a task a connection            ──> Table ──> core::dns::respond_on_stream
//! ```
//! What is said, and how, is core's: from the bytes of a query to the bytes of the reply. Here is what core cannot know:
//! who asked and at which address, how many may be connected, for how long, and that nobody waits for a lock. Nothing is
//! forwarded, so no query waits for another server.
//!
//! **Why not hickory-server**, whose library reads and writes messages in core: see the decision in ARCHITECTURE.md. Where
//! the rules of such a server are tested: `tests/`, by the list in `core/RULES.md`.
//!
//! **UDP.** Each listening address has several sockets, among which the kernel spreads the clients, and each socket a
//! thread with a [`Picks`](tombolo_core::dns::Picks) of its own. It takes what has come in one call, answers all of it from
//! one table, and sends the replies in one call. On a wildcard address a reply leaves from the address that was asked.
//!
//! **TCP.** Connections cost little and may stay; when there are too many, of all or of one client, the one yields that has
//! been quiet longest ([`Limits`]). A client that is slow to ask, or to read, is let go after a while.
//!
//! **A swap** changes a pointer. Queries that are being answered keep the table that they began with, and it is never a
//! query that has to free an old one.

#![allow(clippy::disallowed_types, reason = "it stands on the clock of the machine, outside of any simulation")]

mod batch;
mod counts;
mod datagrams;
mod desk;
mod error;
mod guests;
mod server;
mod settings;
mod sockets;
mod streams;
#[cfg(test)]
mod tests;
mod zone;

pub use counts::{Cause, Tally, Transport};
pub use error::Error;
pub use server::Server;
pub use settings::{Limits, Settings};
pub use zone::Zone;
