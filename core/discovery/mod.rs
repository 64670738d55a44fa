//! Exports → one record a cluster, with its endpoints → one merged import.
//!
//! ```text
//!  ServiceExport ┐              ┌─ ExportRecord ─┐           ┌─ merge ─────> Import
//!  Service       ├─ exported ──>┤                ├─ broker ──┼─ believed ──> SourceSlices of its sources
//!  EndpointSlice ┘              └─ pack: slices ─┘           └─ conflicts ─> conditions of the ServiceExports
//!                    (one a cluster)                (of one service, of all clusters)
//! ```
//! All steps are pure functions of what exists. Every cluster merges the same records by the same rules, so all of them
//! arrive at the same import and see the same conflicts without talking about it, whatever the order in which the records
//! came.

mod condition;
mod conflict;
mod export;
#[cfg(test)]
mod fixtures;
mod import;
mod labels;
mod pack;

pub use condition::{Published, conditions};
pub use conflict::{Conflict, Property, conflicts};
pub use export::{Endpoints, Exported, LeftOut, NotExportable, exported};
pub use import::{believed, merge};
pub use labels::{Misfit, Unlabelled};
pub use pack::pack;
