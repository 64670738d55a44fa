//! The protocol's own tests: scripts over a small discrete-event model of a few clusters ([`world`]).
//!
//! | file | holds |
//! |---|---|
//! | `world` | nodes with drifting clocks, directed links with latency, loss and cuts, daemons that die and forget |
//! | `judge` | what the guarantees promise in a given world |
//! | `laws` | the six laws of machines |
//! | `alone` | one machine: what it refuses, what its hellos say |
//! | `examples` | the worked examples of `spec/failover.md` 7, and what follows for routes |
//! | `counterexamples` | those of section 12, each with its rule switched off too |
//! | `bounds` | how long it takes until all agree again |
//! | `lengths` | how long packets may be is found out, and followed |
//! | `links` | small worlds in any state of their links |
//! | `schedules` | random faults against the guarantees |
//!
//! `TOMBOLO_LONG=50 cargo test --release -p tombolo-core paths::` lives fifty times as many random worlds.

mod alone;
mod bounds;
mod counterexamples;
mod examples;
mod judge;
mod laws;
mod lengths;
mod links;
mod schedules;
mod world;

/// How many times as many random worlds to live as in a quick run.
fn long() -> u64 {
    std::env::var("TOMBOLO_LONG").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}
