//! What a scenario's clusters are without us, in every world that has sockets: the simulator's full speed, and the lab.
//!
//! | page | tells |
//! |---|---|
//! | [`ClusterApi`] | an API server: what is in it, its faults, and its accepted writes as facts |
//! | [`Authors`] | which daemon is behind a `User-Agent` |
//! | [`asking`] | pods from which probes come: they resolve, connect, ask, and say how far they came |
//!
//! A world brings the sockets, the processes and the time.

mod api;
pub mod asking;
mod authors;

pub use api::{API_PORT, ClusterApi, Process, process_after};
pub use authors::{Authors, user_agent};
