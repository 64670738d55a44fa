//! Gateway failover: hellos, the versioned choice for each pair of clusters, and the path in use (`spec/failover.md`).

/// UDP port of hellos, on the overlay and inside cables.
pub const HELLO_PORT: u16 = 4491;
