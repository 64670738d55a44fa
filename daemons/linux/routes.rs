//! Routes that bear our protocol number, in any table.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kernel's vocabulary is open, and much larger than ours")]

use crate::error::Fault;
use crate::links::Links;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
    RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tombolo_core::base::Cidr;
use tombolo_core::network::constants::{ROUTE_PROTOCOL, TABLE_FROM_CABLE, TABLE_FROM_OVERLAY, TABLE_OUT};
use tombolo_core::network::{Route, RouteId, RouteKind, Table};

/// That the MTU is what it is, whatever ICMP says.
const LOCK_MTU: u32 = 1 << 2;

const OURS: RouteProtocol = RouteProtocol::Other(ROUTE_PROTOCOL);

/// Asks for all routes of ours in one family; a kernel that cannot filter gives all.
pub(crate) fn list(family: AddressFamily) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    (message.header.address_family, message.header.protocol) = (family, OURS);
    RouteNetlinkMessage::GetRoute(message)
}

/// Our routes; and what removes those that are ours and hide behind another of the same destination, or are of no kind
/// that we would make.
pub(crate) fn read(
    listing: &[RouteNetlinkMessage],
    links: &Links,
) -> (BTreeMap<RouteId, Route>, Vec<RouteNetlinkMessage>) {
    let mut found = BTreeMap::<RouteId, Vec<(u32, Option<Route>, &RouteMessage)>>::new();
    for message in listing {
        let RouteNetlinkMessage::NewRoute(message) = message else { continue };
        let cloned = message.header.flags.contains(RouteFlags::Cloned);
        if message.header.protocol != OURS || cloned {
            continue;
        }
        let Some((id, metric, route)) = parse(message, links) else { continue };
        found.entry(id).or_default().push((metric, route, message));
    }
    let (mut routes, mut surplus) = (BTreeMap::new(), Vec::new());
    for (id, mut same) in found {
        // Stable: of equal metrics the first is the one that the kernel uses.
        same.sort_by_key(|(metric, ..)| *metric);
        for (at, (_, route, message)) in same.into_iter().enumerate() {
            match (at, route) {
                (0, Some(route)) => drop(routes.insert(id, route)),
                (_, _) => surplus.push(RouteNetlinkMessage::DelRoute(bare(message))),
            }
        }
    }
    (routes, surplus)
}

/// Identity, metric, and the route if it is of a kind that we make.
fn parse(message: &RouteMessage, links: &Links) -> Option<(RouteId, u32, Option<Route>)> {
    let (mut table, mut metric) = (message.header.table.into(), 0);
    let (mut to, mut link, mut via) = (unspecified(message.header.address_family)?, None, None);
    let (mut source, mut mtu) = (None, None);
    let mut plain = message.header.tos == 0 && message.header.source_prefix_length == 0;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Destination(address) => to = plain_address(address)?,
            RouteAttribute::Oif(index) => link = links.name(*index).cloned(),
            RouteAttribute::Gateway(address) => via = plain_address(address),
            RouteAttribute::Via(RouteVia::Inet(address)) => via = Some(IpAddr::V4(*address)),
            RouteAttribute::Via(RouteVia::Inet6(address)) => via = Some(IpAddr::V6(*address)),
            RouteAttribute::PrefSource(address) => source = plain_address(address),
            RouteAttribute::Metrics(metrics) => match metrics[..] {
                [RouteMetric::Lock(LOCK_MTU), RouteMetric::Mtu(bytes)] => mtu = u16::try_from(bytes).ok(),
                _ => plain = false,
            },
            RouteAttribute::CacheInfo(_) | RouteAttribute::Preference(_) => {}
            _ => plain = false,
        }
    }
    let id = RouteId { table: Table(table), to: Cidr::holding(to, message.header.destination_prefix_length)? };
    let kind = match message.header.kind {
        RouteType::Unicast => link.map(|link| RouteKind::Out { link, via }),
        RouteType::BlackHole => Some(RouteKind::Blackhole),
        _ => None,
    };
    Some((id, metric, kind.filter(|_| plain).map(|kind| Route { kind, source, mtu })))
}

fn unspecified(family: AddressFamily) -> Option<IpAddr> {
    match family {
        AddressFamily::Inet => Some(Ipv4Addr::UNSPECIFIED.into()),
        AddressFamily::Inet6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}

const fn plain_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

/// What a listing says of a route and a request may not.
fn bare(message: &RouteMessage) -> RouteMessage {
    let mut message = message.clone();
    message.header.flags = RouteFlags::empty();
    let told =
        |attribute: &RouteAttribute| matches!(attribute, RouteAttribute::CacheInfo(_) | RouteAttribute::Preference(_));
    message.attributes.retain(|attribute| !told(attribute));
    message
}

/// Whether all that is in a table is ours.
pub(crate) fn owned(table: Table) -> bool {
    [TABLE_FROM_CABLE, TABLE_FROM_OVERLAY, TABLE_OUT].contains(&table)
}

/// Adds or replaces a route.
pub(crate) fn put(id: RouteId, route: &Route, links: &Links) -> Result<RouteNetlinkMessage, Fault> {
    let mut message = about(id);
    message.header.protocol = OURS;
    match &route.kind {
        RouteKind::Blackhole => message.header.kind = RouteType::BlackHole,
        RouteKind::Out { link, via } => {
            message.header.kind = RouteType::Unicast;
            message.attributes.push(RouteAttribute::Oif(links.index(link)?));
            match via {
                None if id.to.is_ipv4() => message.header.scope = RouteScope::Link,
                None => {}
                Some(via) => {
                    message.attributes.push(towards(id.to, *via)?);
                    // The next hop is a neighbour on that link whatever the main table says.
                    message.header.flags = RouteFlags::Onlink;
                }
            }
        }
    }
    message.attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
    // Without the lock, forwarded packets of IPv6 go by the link's MTU alone.
    let metrics = route.mtu.map(|mtu| vec![RouteMetric::Lock(LOCK_MTU), RouteMetric::Mtu(mtu.into())]);
    message.attributes.extend(metrics.map(RouteAttribute::Metrics));
    Ok(RouteNetlinkMessage::NewRoute(message))
}

fn towards(to: Cidr, via: IpAddr) -> Result<RouteAttribute, Fault> {
    match via {
        IpAddr::V6(via) if to.is_ipv4() => Ok(RouteAttribute::Via(RouteVia::Inet6(via))),
        IpAddr::V4(_) if !to.is_ipv4() => Err(Fault::Unfit("Linux routes no IPv6 over an IPv4 next hop")),
        via => Ok(RouteAttribute::Gateway(via.into())),
    }
}

/// Removes a route of ours.
pub(crate) fn remove(id: RouteId) -> RouteNetlinkMessage {
    let mut message = about(id);
    (message.header.protocol, message.header.scope) = (OURS, RouteScope::NoWhere);
    RouteNetlinkMessage::DelRoute(message)
}

fn about(id: RouteId) -> RouteMessage {
    let to = id.to.network();
    let mut message = RouteMessage::default();
    message.header.address_family = crate::family(to);
    message.header.destination_prefix_length = id.to.prefix_len();
    message.header.table = u8::try_from(id.table.0).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
    message.attributes = vec![RouteAttribute::Destination(to.into()), RouteAttribute::Table(id.table.0)];
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::There;
    use tombolo_core::network::LinkName;

    fn links() -> Links {
        let mut links = Links::default();
        let there = There { index: 5, ours: true, bare_vxlan: false, up: true, link: None };
        links.note(LinkName("vx-tombolo".into()), Some(there));
        links
    }

    fn out(via: Option<&str>) -> RouteKind {
        RouteKind::Out { link: LinkName("vx-tombolo".into()), via: via.map(|via| via.parse().unwrap()) }
    }

    fn id(to: &str) -> RouteId {
        RouteId { table: TABLE_OUT, to: to.parse().unwrap() }
    }

    #[test]
    fn a_route_is_read_as_it_is_put() {
        let source = Some("10.1.0.1".parse().unwrap());
        for (to, kind, source, mtu) in [
            ("10.2.0.0/16", out(Some("fd74::2")), None, None),
            ("10.2.0.0/16", out(Some("10.1.0.2")), source, Some(1_300)),
            ("10.2.0.0/16", out(None), source, Some(576)),
            ("0.0.0.0/0", RouteKind::Blackhole, None, None),
            ("fd00::/8", out(Some("fd74::2")), None, Some(1_220)),
            ("fd00::/8", out(None), None, None),
            ("fd00::/8", RouteKind::Blackhole, None, None),
        ] {
            let route = Route { kind, source, mtu };
            let message = put(id(to), &route, &links()).unwrap();
            assert_eq!(read(&[message], &links()), ([(id(to), route)].into(), vec![]), "{to}");
        }
    }

    #[test]
    fn no_ipv6_goes_over_an_ipv4_next_hop() {
        let route = Route { kind: out(Some("10.1.0.2")), source: None, mtu: None };
        assert!(matches!(put(id("fd00::/8"), &route, &links()), Err(Fault::Unfit(_))));
    }

    #[test]
    fn of_two_routes_of_ours_the_one_with_the_lower_metric_counts_and_the_other_is_surplus() {
        let messages = [(200, "fd74::3"), (100, "fd74::2")].map(|(metric, via)| {
            let route = Route { kind: out(Some(via)), source: None, mtu: None };
            let Ok(RouteNetlinkMessage::NewRoute(mut message)) = put(id("10.2.0.0/16"), &route, &links()) else {
                panic!()
            };
            message.attributes.push(RouteAttribute::Priority(metric));
            RouteNetlinkMessage::NewRoute(message)
        });
        let (routes, surplus) = read(&messages, &links());
        assert_eq!(routes[&id("10.2.0.0/16")].kind, out(Some("fd74::2")));
        assert_eq!(surplus.len(), 1);
    }

    #[test]
    fn routes_of_others_and_routes_that_we_would_not_make_are_not_read() {
        let route = Route { kind: RouteKind::Blackhole, source: None, mtu: None };
        let Ok(RouteNetlinkMessage::NewRoute(message)) = put(id("10.2.0.0/16"), &route, &links()) else { panic!() };
        let mut foreign = message.clone();
        foreign.header.protocol = RouteProtocol::Static;
        assert_eq!(read(&[RouteNetlinkMessage::NewRoute(foreign)], &links()), ([].into(), vec![]));
        let mut odd = message;
        odd.header.kind = RouteType::Throw;
        let (routes, surplus) = read(&[RouteNetlinkMessage::NewRoute(odd)], &links());
        assert_eq!((routes.len(), surplus.len()), (0, 1));
    }
}
