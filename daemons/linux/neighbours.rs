//! Permanent neighbours on links of ours, each with the FDB entry that says behind which outer address its MAC is.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kernel's vocabulary is open, and much larger than ours")]

use crate::links::Links;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::RouteType;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tombolo_core::network::{LinkName, Mac, Neighbour};

/// By link and address.
type Neighbours = BTreeMap<(LinkName, IpAddr), Neighbour>;

/// Asks for all neighbours, and for all FDB entries.
pub(crate) fn lists() -> [RouteNetlinkMessage; 2] {
    [AddressFamily::Unspec, AddressFamily::Bridge].map(|family| {
        let mut message = NeighbourMessage::default();
        message.header.family = family;
        RouteNetlinkMessage::GetNeighbour(message)
    })
}

/// Neighbours on links of ours that have both; and what removes FDB entries that belong to no neighbour.
pub(crate) fn read(listing: &[RouteNetlinkMessage], links: &Links) -> (Neighbours, Vec<RouteNetlinkMessage>) {
    let mut fdb = BTreeMap::<(LinkName, Mac), (IpAddr, u32)>::new();
    let mut known = BTreeMap::<(LinkName, IpAddr), Mac>::new();
    for message in listing {
        let RouteNetlinkMessage::NewNeighbour(message) = message else { continue };
        let Some(link) = links.with_neighbours(message.header.ifindex) else { continue };
        let permanent = u16::from(NeighbourState::Permanent);
        if u16::from(message.header.state) & permanent == 0 {
            continue;
        }
        let (address, mac) = parse(message);
        let Some((address, mac)) = address.zip(mac) else { continue };
        if message.header.family == AddressFamily::Bridge {
            fdb.insert((link.clone(), mac), (address, message.header.ifindex));
        } else {
            known.insert((link.clone(), address), mac);
        }
    }
    let outer = |((link, address), mac): (&(LinkName, IpAddr), &Mac)| {
        let (outer, _) = fdb.get(&(link.clone(), *mac))?;
        Some(((link.clone(), *address), Neighbour { mac: *mac, outer: *outer }))
    };
    let neighbours: Neighbours = known.iter().filter_map(outer).collect();
    let used = |link: &LinkName, mac: Mac| known.iter().any(|((on, _), one)| on == link && *one == mac);
    let unused = fdb.iter().filter(|((link, mac), _)| !used(link, *mac));
    let surplus = unused.map(|((_, mac), (outer, index))| forget_mac(*index, *mac, *outer)).collect();
    (neighbours, surplus)
}

fn parse(message: &NeighbourMessage) -> (Option<IpAddr>, Option<Mac>) {
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => address = Some(IpAddr::V4(*v4)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => address = Some(IpAddr::V6(*v6)),
            // In FDB entries the family of the message is not that of the address.
            NeighbourAttribute::Destination(NeighbourAddress::Other(bytes)) => address = address_in(bytes),
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok().map(Mac),
            _ => {}
        }
    }
    (address, mac)
}

fn address_in(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    v4.or_else(|| <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok())
}

fn about(family: AddressFamily, index: u32, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    (message.header.family, message.header.ifindex) = (family, index);
    (message.header.state, message.header.kind) = (NeighbourState::Permanent, RouteType::Unicast);
    if family == AddressFamily::Bridge {
        message.header.flags = NeighbourFlags::Own;
    }
    let address = match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    };
    message.attributes.push(NeighbourAttribute::Destination(address));
    message
}

/// Says behind which outer address a MAC is, in the place of what was said before.
pub(crate) fn place_mac(index: u32, mac: Mac, outer: IpAddr) -> RouteNetlinkMessage {
    let mut message = about(AddressFamily::Bridge, index, outer);
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
    RouteNetlinkMessage::NewNeighbour(message)
}

/// Takes that back.
pub(crate) fn forget_mac(index: u32, mac: Mac, outer: IpAddr) -> RouteNetlinkMessage {
    let mut message = about(AddressFamily::Bridge, index, outer);
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
    RouteNetlinkMessage::DelNeighbour(message)
}

/// Says which MAC an address has, in the place of what was said before.
pub(crate) fn put(index: u32, address: IpAddr, mac: Mac) -> RouteNetlinkMessage {
    let mut message = about(crate::family(address), index, address);
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
    RouteNetlinkMessage::NewNeighbour(message)
}

/// Removes a neighbour.
pub(crate) fn remove(index: u32, address: IpAddr) -> RouteNetlinkMessage {
    RouteNetlinkMessage::DelNeighbour(about(crate::family(address), index, address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::There;

    fn links() -> Links {
        let mut links = Links::default();
        for (name, index, ours) in [("vx-tombolo", 5, true), ("eth0", 2, false)] {
            let there = There { index, ours, bare_vxlan: false, up: true, link: None };
            links.note(LinkName(name.into()), Some(there));
        }
        links
    }

    #[test]
    fn a_neighbour_is_read_as_it_is_put_once_both_halves_are_there() {
        let (address, outer) = ("fd74::2".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mac = Mac([2, 0, 0, 0, 0, 2]);
        let both = [put(5, address, mac), place_mac(5, mac, outer)];
        let id = (LinkName("vx-tombolo".into()), address);
        assert_eq!(read(&both, &links()), ([(id, Neighbour { mac, outer })].into(), vec![]));
        assert_eq!(read(&both[..1], &links()), ([].into(), vec![]));
        assert_eq!(read(&both[1..], &links()), ([].into(), vec![forget_mac(5, mac, outer)]));
    }

    #[test]
    fn neighbours_elsewhere_and_learned_ones_are_not_read() {
        let (address, mac) = ("10.0.0.2".parse().unwrap(), Mac([2, 0, 0, 0, 0, 2]));
        let RouteNetlinkMessage::NewNeighbour(mut learned) = put(5, address, mac) else { panic!() };
        learned.header.state = NeighbourState::Reachable;
        let listing = [put(2, address, mac), place_mac(2, mac, address), RouteNetlinkMessage::NewNeighbour(learned)];
        assert_eq!(read(&listing, &links()), ([].into(), vec![]));
    }
}
