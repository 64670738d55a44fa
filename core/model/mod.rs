//! Our own words for what the APIs hold. No Kubernetes types: conversions live in `daemons/kube`.
//!
//! | object | stands for | where |
//! |---|---|---|
//! | [`Node`], [`Service`], [`EndpointSlice`], [`ServiceExport`] | what a cluster has without us | its own API |
//! | [`Lease`] | who announces for a cluster | its own API |
//! | [`Gateway`] | one candidate's own card: key, address, what it reaches | its own API |
//! | [`ClusterRecord`], [`Endpoint`], [`Candidates`] | what a cluster tells the others | its API, the broker, copies in all others |
//! | [`ExportRecord`] | one cluster's export of one service | the broker |
//! | [`Import`] | one service of the clusterset, merged | the API of each importing cluster |

mod api;
mod object;
mod records;

pub use api::{Api, ApiError, Key, Kind, Version, WatchEvent, Write};
pub use object::Object;
pub use records::{
    Backend, CableDriver, CableKey, Candidate, Candidates, ClusterRecord, Endpoint, EndpointSlice, ExportRecord,
    Gateway, Import, Lease, Node, Port, Protocol, Reach, Service, ServiceExport, ServiceKey, ServiceType, Source,
};
