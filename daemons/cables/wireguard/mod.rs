//! WireGuard as a machine: no socket, no clock, no chance of its own. The protocol is that of
//! <https://www.wireguard.com/papers/wireguard.pdf>; ciphers and points are of libraries.

mod crypto;
mod device;
mod guard;
mod handshake;
mod message;
mod peer;
mod ranges;
mod session;
#[cfg(test)]
mod tests;
mod window;

pub use crypto::{KEY, Secret};
pub use device::{Carry, Change, Device, Input, Opened, Output, PeerChange};
pub use message::{Data, HEADER, OVERHEAD};
pub use peer::{Peer, Reason, Shared, Tally};
pub use ranges::{addresses, length};
pub use session::{Way, padded, sealed};
