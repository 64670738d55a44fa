//! What both speeds stand on: who is where, what a cluster has without us, and how packets travel.
//!
//! | part | is |
//! |---|---|
//! | [`Layout`] | from a scenario to hosts, addresses, ranges and objects; of `tombolo_scenarios`, the lab has the same |
//! | [`Kernel`] | one node's network: what was there, what our daemon applied, and the connections it tracks |
//! | [`Proxy`] | the cluster's own service translation at the client's node |
//! | `ground` | the verbs of a timeline, and what clusters do by themselves; of `tombolo_scenarios`, the lab has the same |
//! | `Clock` | the clocks of a host, each with an error of its own |
//! | `nat` | what the hands of NAT discovery do |
//! | [`Fabric`] | carries packets hop by hop, with delay, loss, cuts and power |

mod clock;
mod fabric;
#[cfg(test)]
pub(crate) mod fixtures;
mod internet;
mod kernel;
mod nat;
mod proxy;

pub(crate) use clock::Clock;
pub use fabric::{Fabric, Loss, Outcome};
pub use kernel::Kernel;
pub(crate) use nat::{LOOKUP_TIME, opened, sealed};
pub use proxy::{NoBackend, Proxy, ports};
pub(crate) use tombolo_scenarios::ground::{
    Ground, Judgement, Lifecycles, Outsiders, PROXY_LAG, PROXY_RETRY, RESLICE_TIME, act, find_node, judge, place,
    resliced, second_slice,
};
pub use tombolo_scenarios::layout::{
    HostId, HostLayout, Layout, LayoutError, NodeLayout, Pod, START, ServiceLayout, export,
};
