//! What both speeds stand on: who is where, what a cluster has without us, and how packets travel.
//!
//! | part | is |
//! |---|---|
//! | [`Layout`] | from a scenario to hosts, addresses, ranges and objects |
//! | [`Kernel`] | one node's network: what was there, what our daemon applied, and the connections it tracks |
//! | [`Proxy`] | the cluster's own service translation at the client's node |
//! | [`Fabric`] | carries packets hop by hop, with delay, loss, cuts and power |

mod fabric;
#[cfg(test)]
pub(crate) mod fixtures;
mod kernel;
mod layout;
mod objects;
mod proxy;

pub use fabric::{Fabric, Loss, Outcome};
pub use kernel::Kernel;
pub use layout::{HostId, HostLayout, Layout, LayoutError, NodeLayout, Pod, ServiceLayout};
pub use objects::{START, export};
pub use proxy::{Door, NoBackend, Proxy, ports};
