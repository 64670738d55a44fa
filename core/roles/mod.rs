//! The composed machine of each daemon, and the one vocabulary that all daemons speak with their hands.
//!
//! ```text
//!  Kubernetes watch ─┐                      ┌─> Write / Read       → compare-and-swap at an API
//!  hello datagrams   ├─> Input ─> role ─> Output ─> Network        → plan → kernel
//!  wall clock        │                      ├─> Send               → a hello
//!  timers            ┘                      ├─> Dns                → a new table, swapped whole
//!                                           └─> Event              → log, metrics, trace, verdicts
//! ```

mod vocabulary;

pub use vocabulary::{Event, Input, Output, RequestId, Role, Via};
