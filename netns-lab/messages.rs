//! Requests to rtnetlink that make a place's links and routes.
//!
//! Links have numbers of our choice, so that nobody needs to ask for them. The two ends of a wire must differ in theirs:
//! only then does the kernel tell at once that the wire is plugged in, and not up to a second later.

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use tombolo_core::base::Cidr;

/// Number of the `eth0` of a place.
pub(crate) const UPLINK_NUMBER: u32 = 2;
/// Number of its bridge.
pub(crate) const BRIDGE_NUMBER: u32 = 3;
/// Number of its first port.
pub(crate) const FIRST_PORT_NUMBER: u32 = 100;
/// Number of the first end of a wire between sites.
pub(crate) const FIRST_END_NUMBER: u32 = 1000;

/// Flags of a request that makes something new: `NLM_F_CREATE | NLM_F_EXCL`.
pub(crate) const CREATE: u16 = 0x400 | 0x200;

fn link(number: u32, name: &str) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = number;
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    message
}

/// The end of a link, and of what it leads to.
pub(crate) fn unplug(number: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = number;
    RouteNetlinkMessage::DelLink(message)
}

/// A bridge, down.
pub(crate) fn bridge(name: &str) -> RouteNetlinkMessage {
    let mut message = link(BRIDGE_NUMBER, name);
    message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]));
    RouteNetlinkMessage::NewLink(message)
}

/// A port of the bridge here, and the `eth0` that it leads to in that namespace, both down.
pub(crate) fn port(number: u32, name: &str, there: &impl AsFd, uplink: &str) -> RouteNetlinkMessage {
    let mut near = link(number, name);
    near.attributes.push(LinkAttribute::Controller(BRIDGE_NUMBER));
    pair(near, link(UPLINK_NUMBER, uplink), there)
}

/// A link here, and one in that namespace, each the other's end, both down.
pub(crate) fn wire([here, far]: [(u32, &str); 2], there: &impl AsFd) -> RouteNetlinkMessage {
    pair(link(here.0, here.1), link(far.0, far.1), there)
}

fn pair(mut near: LinkMessage, mut far: LinkMessage, there: &impl AsFd) -> RouteNetlinkMessage {
    far.attributes.push(LinkAttribute::NetNsFd(there.as_fd().as_raw_fd()));
    let data = LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(far)));
    near.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), data]));
    RouteNetlinkMessage::NewLink(near)
}

/// A route; `via` is a neighbour on that link, whatever its address.
pub(crate) fn route(to: Cidr, number: u32, via: Option<IpAddr>) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = netlink_packet_route::AddressFamily::Inet;
    message.header.destination_prefix_length = to.prefix_len();
    message.header.table = 254;
    message.header.protocol = RouteProtocol::Boot;
    message.header.kind = RouteType::Unicast;
    message.header.scope = if via.is_some() { RouteScope::Universe } else { RouteScope::Link };
    message.attributes = vec![RouteAttribute::Oif(number)];
    if to.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(to.network().into()));
    }
    if let Some(via) = via {
        message.header.flags = RouteFlags::Onlink;
        message.attributes.push(RouteAttribute::Gateway(via.into()));
    }
    RouteNetlinkMessage::NewRoute(message)
}

/// Makes a bridge with a port in the namespace of the calling thread, to see whether the kernel can.
///
/// # Errors
/// The kernel's no.
pub(crate) fn try_out() -> Result<(), tombolo_linux::Fault> {
    let here = std::fs::File::open("/proc/thread-self/ns/net")?;
    let mut channel = tombolo_linux::Channel::open(netlink_sys::protocols::NETLINK_ROUTE)?;
    channel.request(bridge("b"), CREATE)?;
    channel.request(port(FIRST_PORT_NUMBER, "p", &here, "q"), CREATE)
}
