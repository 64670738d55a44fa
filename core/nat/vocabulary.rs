//! What the machine is told, and what it wants.

use super::wire::{Verdict, WireError};
use crate::base::{Cidr, ClusterId, Instant};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Serialize};

/// What a machine is told once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Who it is.
    pub me: Me,
    /// Whether there is a way to look up the own public address.
    pub looks_up: bool,
    /// Source of request numbers and jitter.
    pub seed: u64,
    /// The own start.
    pub boot: Instant,
}

/// This gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Me {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its cable name.
    pub endpoint: String,
    /// Its private address.
    pub private: IpAddr,
    /// Its discovery port, which is also the source of its probes; 0 turns discovery off.
    pub port: u16,
}

/// A remote gateway by its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RemoteId {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its cable name.
    pub endpoint: String,
}

impl fmt::Display for RemoteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.endpoint, self.cluster)
    }
}

/// What the records say of a remote gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Remote {
    /// Its private address.
    pub private: Option<IpAddr>,
    /// Its public address.
    pub public: Option<IpAddr>,
    /// Its discovery port; without one it cannot be asked.
    pub discovery_port: Option<u16>,
    /// Port of its cable.
    pub cable_port: u16,
    /// It says of itself that it is behind NAT.
    pub nat_enabled: bool,
    /// Its public address is a load balancer's.
    pub load_balancer: bool,
    /// How it speaks.
    pub dialect: Dialect,
}

/// How a remote gateway speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Dialect {
    /// Submariner's: nothing proves who speaks.
    Plain,
    /// Ours: each message bears the seal of its cluster.
    Sealed,
}

/// Out of what a datagram came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Arrival {
    /// The uplink.
    Uplink,
    /// A cable or the overlay.
    Tunnel,
}

/// What the hand found about the seal of a datagram.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Seal {
    /// It bears none.
    None,
    /// It was sealed with the key shared with this cluster, which it also names as its sender.
    By(ClusterId),
    /// It bears one that is wrong, or of whom there is no key.
    Broken,
}

/// One of two ways to a remote gateway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Route {
    /// To its private address.
    Private,
    /// To its public address.
    Public,
}

/// Where to dial a remote gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Choice {
    /// Address.
    pub address: IpAddr,
    /// Port of the cable.
    pub port: u16,
    /// Whether NAT is in between.
    pub nat: bool,
    /// Whether it answered there; otherwise the records are believed.
    pub answered: bool,
}

impl Choice {
    /// Address and port.
    #[must_use]
    pub const fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let through = if self.nat { ", through NAT" } else { "" };
        write!(f, "{}{through}", self.socket())
    }
}

/// What can happen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// This gateway has other addresses now.
    Me(Me),
    /// All remote gateways there are.
    Remotes(BTreeMap<RemoteId, Remote>),
    /// All ranges that are reached through the tunnel.
    Tunnelled(BTreeSet<Cidr>),
    /// The cable to this one does not carry: is its address still right, and the own public one?
    Doubt(RemoteId),
    /// A datagram arrived on the discovery port.
    Datagram {
        /// Out of what.
        arrival: Arrival,
        /// Its source.
        from: SocketAddr,
        /// Whose seal it bears.
        seal: Seal,
        /// Payload.
        bytes: Vec<u8>,
    },
    /// What came of [`Output::LookUp`]: the own public address, if there is one, or why it is not known.
    LookedUp(Result<Option<IpAddr>, String>),
}

/// What is wanted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// Send a datagram from the discovery port, out of the uplink and never into a tunnel.
    Send {
        /// To.
        to: SocketAddr,
        /// With the seal for this cluster.
        sealed: Option<ClusterId>,
        /// Payload without the seal.
        bytes: Vec<u8>,
    },
    /// Dial this remote gateway here from now on.
    Chosen {
        /// Which.
        remote: RemoteId,
        /// Where.
        choice: Choice,
    },
    /// A remote gateway whose address had worked has not answered for a minute. The choice stays.
    Unanswered {
        /// Which.
        remote: RemoteId,
    },
    /// Find out the own public address.
    LookUp,
    /// The own public address is this: told after the first lookup that worked, and when it is another.
    Public(Option<IpAddr>),
    /// A datagram was no use. Told at most once a second.
    Ignored {
        /// Who sent it.
        from: SocketAddr,
        /// Why.
        why: Ignored,
        /// How many others were not told since the last time.
        more: u64,
    },
}

/// Why a datagram was no use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum Ignored {
    /// It is no message of this protocol.
    #[error("{0}")]
    Unreadable(WireError),
    /// A request of another version.
    #[error("a request of another version than 1")]
    Version,
    /// It came out of a tunnel.
    #[error("it came out of a tunnel")]
    Tunnel,
    /// Its source is reached through the tunnel.
    #[error("its source is reached through the tunnel")]
    Tunnelled,
    /// It bears no valid seal of its sender.
    #[error("its seal is wrong")]
    BadSeal,
    /// Its sender seals what it says, and this bears no seal.
    #[error("it bears no seal, but its sender's messages do")]
    Unsealed,
    /// Its sender is in no record.
    #[error("its sender is in no record")]
    Stranger,
    /// Part of the message is missing.
    #[error("part of it is missing")]
    Incomplete,
    /// An answer to somebody else.
    #[error("it answers somebody else")]
    NotForUs,
    /// The other side refuses.
    #[error("the answer says: {0}")]
    Refused(Verdict),
    /// An answer to no request, or to one that another has replaced.
    #[error("it answers no request that is waiting")]
    OldNumber,
    /// The answer to a private request came from elsewhere.
    #[error("the answer for a private address came from another one")]
    OtherSource,
    /// An answer that changes nothing any more.
    #[error("it came after the decision")]
    Late,
}

/// Why the machine wants to wake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// A probe is due.
    Probe,
    /// Nobody has answered, or not the chosen address.
    Timeout,
    /// The private address had its chance.
    Prefer,
    /// A choice is tested again.
    Retest,
    /// The own public address is looked up, or the lookup given up.
    LookUp,
}
