//! Packets, and what can become of them.

use super::LinkName;
use crate::model::CableKey;
use alloc::string::String;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// TCP flags that connection tracking looks at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Flags {
    /// SYN.
    pub syn: bool,
    /// ACK.
    pub ack: bool,
    /// FIN.
    pub fin: bool,
    /// RST.
    pub rst: bool,
}

/// The transport header, as far as it decides anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
        /// Flags.
        flags: Flags,
    },
    /// UDP.
    Udp {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
}

/// The outer header of a packet inside the overlay or a cable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Encapsulation {
    /// Outer source address.
    pub source: IpAddr,
    /// Outer source port.
    pub source_port: u16,
    /// Outer destination address.
    pub destination: IpAddr,
    /// Outer destination port.
    pub destination_port: u16,
    /// In a cable: the sender's public key; the receiver finds its peer by it, as a handshake would have proved.
    pub key: Option<CableKey>,
}

/// A packet, headers only: the payload stays with whoever carries it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Transport header.
    pub transport: Transport,
    /// Time to live / hop limit.
    pub ttl: u8,
    /// Bytes of the inner IP packet.
    pub length: u16,
    /// Of a SYN or SYN-ACK: the longest segment that its sender wants to get.
    pub mss: Option<u16>,
    /// The outer header, while it travels inside the overlay or a cable.
    pub outer: Option<Encapsulation>,
}

/// Where a packet comes from, seen by the node that handles it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Arrival {
    /// The host itself sends it; `link` if the socket is bound to one.
    Local {
        /// The link that the socket is bound to.
        link: Option<LinkName>,
    },
    /// It came in on this link (the uplink, or the pods' link).
    Link(LinkName),
}

/// What becomes of a packet on one node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// To a socket of the host itself; `link` is the one it came in by last (the overlay or a cable after unpacking).
    DeliverHost {
        /// Last link.
        link: Option<LinkName>,
        /// As the socket sees it.
        packet: Packet,
    },
    /// To the local pod that has its destination address.
    DeliverPod {
        /// As the pod sees it.
        packet: Packet,
    },
    /// Out of the uplink, to the host that has address `next_hop`.
    Send {
        /// The link.
        link: LinkName,
        /// Who takes it next.
        next_hop: IpAddr,
        /// As it leaves.
        packet: Packet,
    },
    /// Nowhere.
    Drop {
        /// Why, in a few words.
        because: String,
    },
}
