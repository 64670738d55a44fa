//! Why a packet goes nowhere.

use crate::base::Cidr;
use crate::model::CableKey;
use crate::network::{LinkName, RouteId, Table};
use core::net::{IpAddr, SocketAddr};

/// Why a packet goes nowhere, as facts. Written out only when a packet is dropped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("there is no link {0}")]
    NoLink(LinkName),
    #[error("the outer destination {0} is not an address of this node")]
    NotForUs(IpAddr),
    #[error("no device of ours listens on UDP port {0}")]
    NoDevice(u16),
    #[error("UDP port {port} takes nothing from {from}")]
    OuterSource { port: u16, from: IpAddr },
    #[error("{link} has no peer with key {key}")]
    NoSuchPeer { link: LinkName, key: CableKey },
    #[error("the sender on {0} proved no key")]
    NoKey(LinkName),
    #[error("the peer with key {key} on {link} may not send from {from}")]
    NotAllowedFrom { link: LinkName, key: CableKey, from: IpAddr },
    #[error("{link} takes nothing from {from}")]
    InnerSource { link: LinkName, from: IpAddr },
    #[error("{link} takes nothing to {to}")]
    InnerDestination { link: LinkName, to: IpAddr },
    #[error("rp_filter: the way back to {from} is not {link}")]
    ReversePath { link: LinkName, from: IpAddr },
    #[error("no backend of {0} is ready")]
    NoBackend(SocketAddr),
    #[error("no route to {0}")]
    NoRoute(IpAddr),
    #[error("blackhole {to} in table {table}")]
    Blackhole { to: Cidr, table: Table },
    #[error("forwarding is off")]
    ForwardingOff,
    #[error("hop limit reached")]
    Expired,
    #[error("needs fragmentation: {length} bytes, {link} takes {mtu}")]
    TooLarge { length: u16, link: LinkName, mtu: u16 },
    #[error("{link} has no neighbour {hop}")]
    NoNeighbour { link: LinkName, hop: IpAddr },
    #[error("{link} has no peer for {to}")]
    NoPeerFor { link: LinkName, to: IpAddr },
    #[error("the outer packet to {to} would go into {link} again")]
    Nested { link: LinkName, to: IpAddr },
    #[error("{link} has no address to send an outer packet to {to} from")]
    NoOuterSource { link: LinkName, to: IpAddr },
    #[error("all source ports towards {0} are taken")]
    NoPort(SocketAddr),
}

impl Refusal {
    pub(super) const fn blackhole(id: RouteId) -> Self {
        Self::Blackhole { to: id.to, table: id.table }
    }
}
