//! The clusterset zone: an immutable table, and the answer to a query.
//!
//! ```text
//!  Imports ┐                              ┌─ answer(table, query, picks) ─> Answer        what it says
//!  reach   ├─ Table::build ─> Table ──────┤
//!  zone    ┘   (swapped whole)            └─ respond(table, bytes, picks) ─> bytes        how it is said
//! ```
//! The table is built by the DNS role whenever what it follows from has changed, and shared by all sockets. A query
//! passes through no machine: [`answer`] is a pure function of the table, the query, and the socket's own [`Picks`]
//! (whose turn it is), and [`respond`] wraps it into messages. [`question`] and [`reading`] are the other side, for
//! probes.
//!
//! **What a name gives** (`Z` = the zone). A source is *offered* if it has a ready backend and its cluster is not known
//! to be lost; the own cluster never is. Not knowing whether a cluster is reached is no reason to hide it (F9).
//!
//! | name | gives |
//! |---|---|
//! | `<svc>.<ns>.svc.Z` | the own cluster's address if it is offered, else one cluster's, in turn among the offered; headless: all addresses offered, each once, a different one first each time |
//! | `<cluster>.<svc>.<ns>.svc.Z` | that cluster's addresses if it is offered |
//! | `dns-version.Z` | TXT `1.0.0` (the MCS DNS specification) |
//! | `Z` | SOA; NS, and the name server's addresses beside it |
//! | `ns.dns.Z` | the addresses of the name server, as far as it was told them |
//!
//! | otherwise | says |
//! |---|---|
//! | known, but nothing is offered | NOERROR, empty; headless: NXDOMAIN, as the specification wants |
//! | known, but not of this type or family | NOERROR, empty: NXDOMAIN would deny the other family as well (B61) |
//! | nothing of its own, but names below | NOERROR, empty (RFC 8020) |
//! | unknown | NXDOMAIN; SERVFAIL while it is not sure that all names are here ([`Knows::Some`]) |
//! | before all views were complete once | SERVFAIL: a denial would be cached and outlive the start (B54) |
//! | not in the zone, not of class IN, a transfer | REFUSED |
//!
//! Each empty or negative answer carries the SOA, and may be cached for the TTL, 5 s at most.

mod answer;
mod client;
mod name;
mod reply;
mod table;
#[cfg(test)]
mod tests;
mod wire;

pub use answer::{Answer, Data, Picks, Query, RecordKind, Srv, Target, answer};
pub use client::{BadReply, Reading, question, reading};
pub use name::{NameError, Zone};
pub use table::{Contents, Knows, Table};
pub use wire::{respond, respond_on_stream};
