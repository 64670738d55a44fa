//! What both speeds stand on: who is where, what a cluster has without us, and how packets travel.
//!
//! | part | is |
//! |---|---|
//! | [`Layout`] | from a scenario to hosts, addresses, ranges and objects; of `tombolo_scenarios`, the lab has the same |
//! | [`Kernel`] | one node's network: what was there, what our daemon applied, and the connections it tracks |
//! | [`Proxy`] | the cluster's own service translation at the client's node |
//! | `act` | the verbs of a timeline |
//! | `Clock` | the clocks of a host, each with an error of its own |
//! | `nat` | what the hands of NAT discovery do |
//! | `Outsiders` | which clusters are no members |
//! | `Lifecycles` | what a cluster thinks of its nodes, and what follows from that |
//! | [`Fabric`] | carries packets hop by hop, with delay, loss, cuts and power |

mod acts;
mod clock;
mod fabric;
#[cfg(test)]
pub(crate) mod fixtures;
mod internet;
mod kernel;
mod lifecycle;
mod nat;
mod outsiders;
mod proxy;

pub(crate) use acts::{Ground, act, find_node, place};
pub(crate) use clock::Clock;
pub use fabric::{Fabric, Loss, Outcome};
pub use kernel::Kernel;
pub(crate) use lifecycle::{Judgement, Lifecycles, PROXY_LAG, PROXY_RETRY, RESLICE_TIME, second_slice};
pub(crate) use nat::{LOOKUP_TIME, opened, sealed};
pub(crate) use outsiders::Outsiders;
pub use proxy::{Door, NoBackend, Proxy, ports};
pub use tombolo_scenarios::layout::{
    HostId, HostLayout, Layout, LayoutError, NodeLayout, Pod, START, ServiceLayout, export,
};
