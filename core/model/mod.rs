//! Our own words for what the APIs hold. No Kubernetes types: conversions live in `daemons/kube`.
//!
//! | object | stands for | where |
//! |---|---|---|
//! | [`Namespace`], [`Node`], [`Service`], [`EndpointSlice`], [`ServiceExport`] | what a cluster has without us | its own API |
//! | [`Lease`] | who announces for a cluster | its own API |
//! | [`Gateway`] | one candidate's own card: key, address, what it reaches | its own API |
//! | [`ClusterRecord`], [`Endpoint`], [`Candidates`] | what a cluster tells the others | its API, the broker, copies in all others |
//! | [`Claims`] | which ranges are whose | the broker |
//! | [`ExportRecord`] | one cluster's export of one service | the broker |
//! | [`ExportSummary`] | that one cluster's exports are all there | the broker |
//! | [`SourceSlice`] | the endpoints of one cluster's export | the broker, and the API of each importing cluster |
//! | [`Import`] | one service of the clusterset, merged | the API of each importing cluster |

mod api;
mod claims;
mod digest;
mod family;
mod key;
mod object;
mod records;
mod services;

pub use api::{Api, ApiError, Kind, Version, WatchEvent, Write};
pub use claims::{Claim, Claims, Purpose, Ranges};
pub use digest::Digest;
pub use family::{Families, Family};
pub use key::{ApiName, Key, KeyRef, Source};
pub use object::Object;
pub use records::{CableDriver, CableKey, Candidate, Candidates, ClusterRecord, Endpoint, Gateway, Lease, Node, Reach};
pub use services::{
    Backend, Condition, ConditionType, EndpointSlice, ExportRecord, ExportSummary, Import, InternalTrafficPolicy,
    Namespace, Offer, Port, Protocol, Service, ServiceExport, ServiceKey, ServicePort, ServiceType, SessionAffinity,
    SourceEndpoint, SourceSlice, TargetPort,
};
