//! One node's network, as data: what should be, what is, the difference, and what it does to a packet.

pub mod constants;
mod packet;
mod state;

pub use packet::{Arrival, Encapsulation, Flags, Packet, Transport, Verdict};
pub use state::{
    Allowance, AllowanceId, Item, Link, LinkKind, LinkName, Mac, Neighbour, Network, Peer, PeerId, Route, RouteId,
    RouteKind, Rule, Table, Translation, TranslationId, Wanted,
};
