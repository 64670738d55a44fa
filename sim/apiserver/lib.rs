//! An embedded Kubernetes API server.
//!
//! It keeps objects as JSON in the versioned store of the core and speaks enough of the Kubernetes API for controllers
//! to live on: lists in pages of one snapshot, watches that resume, bookmarks, `410 Gone` both ways, compare-and-swap,
//! merge patch, a plain server-side apply, status subresources, namespaces and finalizers. Kinds are data ([`Registry`]).
//!
//! ```text
//!   stream ─> serve_connection ─> call (path, query, body) ─> verbs: one change of the store at a time
//!                  ^                                             │ accepted write ─> observer (who, what)
//!                  └── Faults: slow, erroring, silent …          └ Notify ─> every open watch reads on
//! ```
//! It reads no clock but tokio's (which a test may pause) and the wall clock it is given, and it draws uids from a seed:
//! the same requests get the same answers.

mod apply;
mod call;
mod collection;
mod documents;
mod failure;
mod fault;
mod http;
mod kinds;
mod meta;
mod selector;
mod server;
mod watching;
mod write;

pub use call::{Call, PatchKind, Query, Target, Verb};
pub use failure::{Failure, Reason};
pub use fault::{Faults, Gone};
pub use kinds::{KindSpec, Registry};
pub use server::{Accepted, ApiServer, Backup, Change};
