//! How the server is set up.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;
use tombolo_core::base::Cidr;

/// Where and whom it serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Addresses, each for UDP and TCP on one port. A wildcard is of its own family alone. With port 0 the system chooses.
    pub listen: Vec<SocketAddr>,
    /// Sockets for UDP on each address, with a thread each.
    pub sockets: NonZeroUsize,
    /// From where questions are answered; empty: from everywhere.
    pub clients: Vec<Cidr>,
    /// How much of it TCP clients may take.
    pub limits: Limits,
}

impl Settings {
    /// The usual ones, at these addresses: a UDP socket for each core, two at least, so that one large answer holds up nobody
    /// else, and everybody may ask.
    #[must_use]
    pub fn at(listen: Vec<SocketAddr>) -> Self {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let sockets = cores.clamp(NonZeroUsize::MIN.saturating_add(1), NonZeroUsize::MIN.saturating_add(7));
        Self { listen, sockets, clients: Vec::new(), limits: Limits::default() }
    }
}

/// How much TCP clients may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections in all. Each is a file and some KiB; a process may usually have 1024 files.
    pub connections: usize,
    /// Connections of one address. The cluster's DNS servers, which ask for all pods, come from a few.
    pub connections_per_client: usize,
    /// How long a connection may be without a whole question, and how long a client may take to read its replies (RFC 7766
    /// 6.2.3 wants seconds).
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 512, connections_per_client: 128, idle: Duration::from_secs(10) }
    }
}
