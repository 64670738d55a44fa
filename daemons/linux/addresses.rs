//! Addresses on links of ours. Those that the kernel made itself (link-local ones) do not count.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kernel's vocabulary is open, and much larger than ours")]

use crate::links::Links;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tombolo_core::network::LinkName;

/// By link and address, the length of its prefix.
type Addresses = BTreeMap<(LinkName, IpAddr), u8>;

/// Asks for all addresses.
pub(crate) fn list() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetAddress(AddressMessage::default())
}

/// Those on links of ours; and what removes those that are there once more, with another prefix.
pub(crate) fn read(listing: &[RouteNetlinkMessage], links: &Links) -> (Addresses, Vec<RouteNetlinkMessage>) {
    let (mut addresses, mut surplus) = (Addresses::new(), Vec::new());
    for message in listing {
        let RouteNetlinkMessage::NewAddress(message) = message else { continue };
        let Some(link) = links.ours(message.header.index) else { continue };
        let Some(address) = address_of(message).filter(|address| !is_link_local(*address)) else { continue };
        let length = message.header.prefix_len;
        if *addresses.entry((link.clone(), address)).or_insert(length) != length {
            surplus.push(remove(message.header.index, address, length));
        }
    }
    (addresses, surplus)
}

/// All addresses of the node, whatever link they are on.
pub(crate) fn all(listing: &[RouteNetlinkMessage]) -> impl Iterator<Item = IpAddr> {
    listing.iter().filter_map(|message| match message {
        RouteNetlinkMessage::NewAddress(message) => address_of(message),
        _ => None,
    })
}

fn address_of(message: &AddressMessage) -> Option<IpAddr> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Adds an address, usable at once: nobody else can have it, so there is nothing to detect.
#[must_use]
pub fn add(index: u32, address: IpAddr, length: u8) -> RouteNetlinkMessage {
    let mut message = about(index, address, length);
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    RouteNetlinkMessage::NewAddress(message)
}

/// Removes one.
pub(crate) fn remove(index: u32, address: IpAddr, length: u8) -> RouteNetlinkMessage {
    RouteNetlinkMessage::DelAddress(about(index, address, length))
}

fn about(index: u32, address: IpAddr, length: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = crate::family(address);
    (message.header.prefix_len, message.header.scope, message.header.index) = (length, AddressScope::Universe, index);
    message.attributes = vec![AddressAttribute::Address(address)];
    if address.is_ipv4() {
        message.attributes.push(AddressAttribute::Local(address));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::There;

    #[test]
    fn an_address_is_read_as_it_is_added_and_only_on_links_of_ours() {
        let mut links = Links::default();
        let there = |index, ours| Some(There { index, ours, bare_vxlan: false, up: true, link: None });
        let (ours, theirs) = (LinkName("vx-tombolo".into()), LinkName("eth0".into()));
        links.note(ours.clone(), there(3, true));
        links.note(theirs, there(2, false));
        let v4: IpAddr = "10.1.0.1".parse().unwrap();
        let v6: IpAddr = "fd74::1".parse().unwrap();
        let link_local: IpAddr = "fe80::1".parse().unwrap();
        let listing =
            [add(3, v4, 24), add(3, v6, 64), add(2, v4, 24), add(3, link_local, 64), add(9, v4, 32), add(3, v4, 25)];
        let (addresses, surplus) = read(&listing, &links);
        assert_eq!(addresses, [((ours.clone(), v4), 24), ((ours, v6), 64)].into());
        assert_eq!(surplus, [remove(3, v4, 25)]);
    }
}
