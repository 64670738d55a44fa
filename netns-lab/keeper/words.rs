//! What is said between a lab and who uses it.

use super::Quality;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A request to a lab. Places and hosts are called as in tables: `west/gw-a`, `api:west`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Which places there are.
    Places,
    /// How the links between sites are.
    Links,
    /// From now on a link is like this from one router to the other.
    SetLink {
        /// From here.
        from: String,
        /// To there.
        to: String,
        /// Like this.
        quality: Quality,
    },
    /// No packet passes from a host to another any more; or does again.
    Cut {
        /// From this host.
        from: String,
        /// To that one.
        to: String,
        /// Whether nothing passes.
        closed: bool,
    },
    /// The NAT box of a site forgets its mappings.
    Remap {
        /// Its router.
        router: String,
    },
    /// It gets another outside address.
    Move {
        /// Its router.
        router: String,
    },
    /// A pod is ready, or is not: services of its cluster send new flows to it, or do not.
    Ready {
        /// The pod.
        pod: String,
        /// Whether it is.
        ready: bool,
    },
}

/// Its answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Done.
    Done,
    /// The places.
    Places(Vec<Whereabouts>),
    /// The outside address that a NAT box has now.
    Outside(IpAddr),
    /// The links, each way.
    Links(Vec<Site>),
    /// No, and why.
    No(String),
}

/// How a place is entered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Whereabouts {
    /// Its name.
    pub name: String,
    /// The thread that lives in it, as whoever started the lab counts.
    pub thread: i32,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// One way of a link between sites.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Site {
    /// From this router.
    pub from: String,
    /// To that one.
    pub to: String,
    /// How it is.
    pub quality: Quality,
}
