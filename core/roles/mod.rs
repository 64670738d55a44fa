//! The composed machine of each daemon, and the one vocabulary that all daemons speak with their hands.
//!
//! ```text
//!  Kubernetes watch ─┐                      ┌─> Write / Read       → compare-and-swap at an API
//!  datagrams         ├─> Input ─> role ─> Output ─> Network        → plan → kernel
//!  wall clock        │                      ├─> Send               → a hello
//!  timers            ┘                      ├─> Probe, LookUp       → NAT discovery
//!                                           ├─> Dns                → a new table, swapped whole
//!                                           └─> Event              → log, metrics, trace, verdicts
//! ```

pub mod addresses;
mod announce;
mod backends;
mod by_service;
mod dialling;
mod discovery;
mod dns;
mod gateway;
mod node_network;
mod node_side;
mod route_agent;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use discovery::{Discovery, DiscoveryWake};
pub use dns::{Dns, DnsWake};
pub use gateway::{Gateway, GatewayConfig, GatewayWake, LEASE};
pub use node_network::{cable_link, overlay_link};
pub use node_side::NodeConfig;
pub use route_agent::{RouteAgent, RouteAgentWake};
pub use vocabulary::{Event, Input, Note, Output, RequestId, Role, Via};
