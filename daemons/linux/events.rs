//! Which of the kernel's tellings may be about something of ours.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kernel's vocabulary is open, and much larger than ours")]

use crate::alias::Alias;
use crate::error::Fault;
use crate::routes;
use crate::socket::{Channel, attributes_of};
use netlink_packet_core::{NetlinkDeserializable, NetlinkHeader, Nla};
use netlink_packet_netfilter::nftables::{GenAttribute, GenMessage, NfTablesMessage};
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol};
use std::collections::BTreeSet;
use tombolo_core::network::Table;
use tombolo_core::network::constants::{NFT_TABLE, ROUTE_PROTOCOL};

/// `RTNLGRP_*` (`linux/rtnetlink.h`): LINK, NEIGH, addresses and routes of both families, rules of both families,
/// parameters of both families.
pub(crate) const ROUTE_GROUPS: [u32; 10] = [1, 3, 5, 7, 9, 11, 8, 19, 24, 25];
/// `NFNLGRP_NFTABLES`.
pub(crate) const NFT_GROUPS: [u32; 1] = [7];
/// `RTM_NEWNETCONF`, `RTM_DELNETCONF`: a parameter of a link, or of all, has changed.
const NETCONF: [u16; 2] = [80, 81];
/// Number of nftables among the subsystems of nfnetlink.
const NFTABLES: u16 = 10;
/// In each message of nftables but those about generations, this attribute is the name of the table.
const NAME_OF_TABLE: u16 = 1;
/// `NFT_MSG_NEWGEN`.
const NEW_GENERATION: u16 = 15;

/// Whether it may be about a link of ours (`own_links` has their numbers), what is on one, a route or a rule of ours, or a
/// parameter.
pub(crate) fn concerns_route(header: &NetlinkHeader, payload: &[u8], own_links: &BTreeSet<u32>) -> bool {
    if NETCONF.contains(&header.message_type) {
        return true;
    }
    let Ok(message) = RouteNetlinkMessage::deserialize(header, payload) else { return false };
    match &message {
        RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) => {
            own_links.contains(&link.header.index) || is_ours(link)
        }
        RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address) => {
            own_links.contains(&address.header.index)
        }
        RouteNetlinkMessage::NewNeighbour(neighbour) | RouteNetlinkMessage::DelNeighbour(neighbour) => {
            own_links.contains(&neighbour.header.ifindex)
        }
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => is_near(route),
        RouteNetlinkMessage::NewRule(_) | RouteNetlinkMessage::DelRule(_) => true,
        _ => false,
    }
}

fn is_ours(link: &LinkMessage) -> bool {
    link.attributes
        .iter()
        .any(|attribute| matches!(attribute, LinkAttribute::IfAlias(text) if Alias::parse(text).is_some()))
}

/// Of ours, or in a table of ours: it may have taken the place of one.
fn is_near(route: &RouteMessage) -> bool {
    let owned = |attribute: &RouteAttribute| match attribute {
        RouteAttribute::Table(number) => routes::owned(Table(*number)),
        _ => false,
    };
    route.header.protocol == RouteProtocol::Other(ROUTE_PROTOCOL) || route.attributes.iter().any(owned)
}

/// Counts the transactions that touch our table: each is told as its parts, and a new generation at its end.
#[derive(Default)]
pub(crate) struct Transactions {
    begun: bool,
    count: u32,
}

impl Transactions {
    /// Takes one message.
    pub(crate) fn hear(&mut self, header: &NetlinkHeader, payload: &[u8]) {
        if header.message_type == NFTABLES << 8 | NEW_GENERATION {
            self.count += u32::from(self.begun);
            self.begun = false;
        } else {
            self.begun |= concerns_nft(header, payload);
        }
    }

    /// How many there were since this was asked last.
    pub(crate) fn take(&mut self) -> u32 {
        std::mem::take(&mut self.count)
    }
}

/// The number of nft's transactions in this namespace.
pub(crate) fn generation(netfilter: &mut Channel) -> Result<u32, Fault> {
    let header = NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, 0);
    let question = NfTablesMessage::GetGen(GenMessage { attributes: Vec::new() });
    let answers = netfilter.get(NetfilterMessage::new(header, question))?;
    let attributes = answers.iter().find_map(|answer| match &answer.inner {
        NetfilterMessageInner::NfTables(NfTablesMessage::NewGen(generation)) => Some(&generation.attributes),
        _ => None,
    });
    let number = attributes.into_iter().flatten().find_map(|attribute| match attribute {
        GenAttribute::Id(number) => Some(*number),
        _ => None,
    });
    number.ok_or(Fault::Unfit("nftables tells no generation"))
}

/// Whether it is about our table or something in it.
fn concerns_nft(header: &NetlinkHeader, payload: &[u8]) -> bool {
    if header.message_type >> 8 != NFTABLES {
        return false;
    }
    let named = |attribute: &netlink_packet_core::DefaultNla| {
        let mut name = vec![0; attribute.value_len()];
        attribute.emit_value(&mut name);
        attribute.kind() == NAME_OF_TABLE && name.strip_suffix(b"\0") == Some(NFT_TABLE.as_bytes())
    };
    // Behind the four bytes of nfnetlink's header.
    attributes_of(payload.get(4..).unwrap_or_default()).any(|attribute| named(&attribute))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(message_type: u16) -> NetlinkHeader {
        let mut header = NetlinkHeader::default();
        header.message_type = message_type;
        header
    }

    #[test]
    fn transactions_that_touch_our_table_are_counted() {
        let named = |name: &[u8]| {
            let length = u16::try_from(4 + name.len()).unwrap();
            let mut payload = vec![1, 0, 0, 0];
            payload.extend(length.to_ne_bytes());
            payload.extend([1, 0]);
            payload.extend(name);
            payload.resize(payload.len().next_multiple_of(4), 0);
            payload
        };
        let (chain, end) = (header(NFTABLES << 8 | 3), header(NFTABLES << 8 | NEW_GENERATION));
        let mut heard = Transactions::default();
        for name in [&b"filter\0"[..], b"tombolo\0", b"tombolo\0", b"tombolo2\0"] {
            heard.hear(&chain, &named(name));
        }
        assert_eq!(heard.take(), 0, "it has not ended");
        heard.hear(&end, &[]);
        heard.hear(&chain, &named(b"filter\0"));
        heard.hear(&end, &[]);
        heard.hear(&header(1 << 8), &named(b"tombolo\0"));
        heard.hear(&chain, &[1]);
        heard.hear(&end, &[]);
        assert_eq!((heard.take(), heard.take()), (1, 0));
    }

    #[test]
    fn a_parameter_may_always_be_ours_and_rubbish_never_is() {
        assert!(concerns_route(&header(80), &[], &BTreeSet::new()));
        assert!(!concerns_route(&header(16), &[1, 2], &BTreeSet::new()));
    }
}
