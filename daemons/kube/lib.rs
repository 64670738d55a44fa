//! Kubernetes at the edge.
//!
//! ```text
//!  API ──list, watch──> kube's watcher ──JSON──> convert ──> WatchEvent ──┐
//!                                                                          ├─> Input (the shell's Inbox)
//!  API <──create, replace, delete── request <──convert── Object, Key ─────┘
//! ```
//! - [`convert`]: our words from and to the JSON of the APIs. What cannot be read is an error that says why; the object is
//!   skipped and told, and never a panic.
//! - [`client`]: the one seam to the network: the simulator hands in a connector over simulated streams. `remote` (a
//!   feature) makes a client over TCP and TLS, from a kubeconfig or a service account.
//! - [`Kubernetes`]: the hand of the shell. Each watch is a task that never ends; each request is a task with a deadline.
//!
//! Versions that machines see are the object's uid and `resourceVersion` together: an API that was emptied may count its
//! versions anew, and a write on top of an object of its former life must not succeed.

mod backoff;
mod client;
pub mod convert;
#[cfg(feature = "remote")]
mod dial;
mod hand;
mod heartbeat;
#[cfg(feature = "remote")]
mod remote;
mod request;
mod resource;
mod seen;
mod term;
mod watch;

pub use backoff::Backoff;
pub use client::{ClientError, client};
pub use hand::{Config, Connections, Kubernetes};
#[cfg(feature = "remote")]
pub use remote::{RemoteError, remote};
pub use resource::{Places, Scope, resource, scope};
