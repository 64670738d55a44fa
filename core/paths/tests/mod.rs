//! The protocol's own tests: scripts over a small discrete-event model of a few clusters ([`world`]).
//!
//! | file | holds |
//! |---|---|
//! | `world` | nodes with drifting clocks, directed links with latency, loss and cuts, daemons that die and forget |
//! | `examples` | the worked examples of `spec/failover.md` 7 |

mod examples;
#[allow(dead_code, reason = "scripts to come use the rest")]
mod world;
