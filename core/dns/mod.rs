//! The clusterset zone: an immutable table, and the answer to a query.

use serde::Serialize;

/// Everything the DNS server answers from.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Table {}
