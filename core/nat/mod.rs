//! Which of a remote gateway's addresses works, and whether NAT is in between (`spec/submariner.md` 6).
//!
//! A gateway asks each remote one at its private and at its public address, over UDP and never through a tunnel. An
//! answer says whether the datagram was changed on its way. The private address is preferred, since it costs no detour;
//! where nobody answers, the records' own words decide, as they did before there was any discovery.
//!
//! ```text
//!             ┌── send every 2 s ──┐                       private answers
//!   Remotes ─>│      Testing       ├────────────────────────────────────────> Resting ── 60 s, or a doubt ──> Testing
//!             └─────────┬──────────┘── public answers ──> Hearing ── 1 s ──────^
//!                       └─ 60 s (6 s behind a load balancer): presume, and go on asking once a minute
//! ```
//! **A choice is tested again** every minute, and at once when somebody doubts it ([`Input::Doubt`]). It is kept for as
//! long as its address answers, so that nothing flaps (F7): another address takes over only when the chosen one missed
//! three probes, or when the private one answered beside the public one for ten minutes without a gap. When nobody
//! answers, the last good choice stays: silence of everything is no reason to change anything.
//!
//! **Probes never travel in a tunnel** (B13). The hand sends them out of the uplink only, and says on which link a
//! datagram arrived; what came out of a cable or the overlay, or from an address inside a range that is reached through
//! the tunnel, is no evidence, and such an address is not asked at all.
//!
//! **Two dialects.** A plain Submariner peer speaks protobuf without any proof of who speaks. Between us the same
//! message carries a MAC in a field of its own ([`seal`]). Keys are the hand's: it seals what the machine wants sealed,
//! and says of what arrived whose seal it bore. Whoever is in no record is not answered.
//!
//! **The own public address** (`public`) is looked up once a minute, and at once when a peer sees us under another or a
//! cable carries nothing any more (B11). A failing lookup changes nothing (B63).
//!
//! | file | holds |
//! |---|---|
//! | `vocabulary` | inputs, outputs, who there is, why a datagram is ignored |
//! | `machine` | [`Discovery`]: datagrams in and out, the responder |
//! | `tested` | one remote: the states above |
//! | `public` | the own public address |
//! | `wire`, `seal`, `timing` | the bytes, the MAC, the times |
//! | `boxes` | what a NAT box does to a datagram: the model that simulators carry datagrams by |

pub mod boxes;
mod machine;
mod public;
pub mod seal;
mod tested;
#[cfg(test)]
mod tests;
pub mod timing;
mod vocabulary;
pub mod wire;

pub use machine::Discovery;
pub use vocabulary::{
    Arrival, Choice, Config, Dialect, Ignored, Input, Me, Output, Reason, Remote, RemoteId, Route, Seal,
};

/// UDP port of discovery where no record says another (Submariner's).
pub const NAT_PORT: u16 = 4490;
