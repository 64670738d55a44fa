//! One node's network, as data: what should be, what is, the difference, and what it does to a packet.

mod conntrack;
pub mod constants;
mod entry;
mod forward;
mod jhash;
mod leans;
mod lpm;
pub mod nft;
mod order;
mod packet;
mod plan;
mod slots;
mod state;
#[cfg(test)]
mod tests;

pub use conntrack::{Class, Conntrack, Direction, Flow, Learned, Stage, Tuple};
pub use entry::Entry;
pub use forward::{Outcome, forward};
pub use leans::leans_on;
pub use lpm::longest_match;
pub use packet::{Arrival, Encapsulation, Flags, Packet, Transport, Verdict};
pub use plan::{Action, Plan, Step, plan};
pub use slots::{SLOTS, slots};
pub use state::{
    Allowance, AllowanceId, Item, Link, LinkKind, LinkName, Mac, Neighbour, Network, Peer, PeerId, Route, RouteId,
    RouteKind, Rule, Stay, Table, Translation, TranslationId, Wanted,
};
