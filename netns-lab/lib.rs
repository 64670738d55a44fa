//! The lab: any scenario's topology on a real kernel, out of network namespaces.
//!
//! ```text
//!   Scenario ──Layout──> Topology ──build──> places (a namespace with a thread each), wires, relays, pods
//!                        (data)                    │
//!   tombolo-lab up ──starts──> the keeper, process 1 of a namespace of processes
//!   tombolo-lab shell, call, cut, … ──words──> the keeper's socket
//! ```
//! **All hangs on one process.** Namespaces have no names and no files; threads of the keeper live in them, and whatever
//! runs in a lab runs in the keeper's namespace of processes. When the keeper ends, however it ends, the kernel kills the
//! rest and takes the namespaces away. The host's own network has not one link, route or rule of it. A lab is found by
//! the keeper's socket, whose name is abstract: there is no file that could be stale.

#![allow(clippy::disallowed_types, reason = "it stands on the clock of the machine, outside of any simulation")]

pub mod abilities;
pub mod bench;
pub mod capture;
pub mod cli;
pub mod enter;
pub mod keeper;
mod lab;
mod messages;
pub mod pods;
mod process;
mod relay;
pub mod run;
mod scripts;
pub mod topology;
