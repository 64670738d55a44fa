//! Exports → one record a cluster → one merged import.
//!
//! ```text
//!  ServiceExport ┐
//!  Service       ├─ export_record ─> ExportRecord ── broker ──> ExportRecords of all clusters ─ merge ─> Import
//!  EndpointSlice ┘                   (one a cluster)            (of one service)                        (one a cluster)
//! ```
//! Both steps are pure functions of what exists. Every cluster merges the same records by the same rules, so all of
//! them arrive at the same import without talking about it, whatever the order in which the records came.

mod export;
mod import;

pub use export::{NotExportable, export_record};
pub use import::merge;
