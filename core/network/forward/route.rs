//! Where a packet goes next: the host's own addresses, then policy rules by priority, then the main table.

use super::refusal::Refusal;
use super::{Node, Origin};
use crate::network::constants::RULE_MAIN;
use crate::network::{Link, LinkName, Packet, RouteKind, Table, lpm};
use core::net::IpAddr;

/// Where a packet goes next.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// To the host itself.
    Here,
    /// Out of a link.
    Out(Out<'a>),
}

/// See [`Way::Out`].
#[derive(Clone, Copy)]
pub(super) struct Out<'a> {
    pub(super) name: &'a LinkName,
    pub(super) link: &'a Link,
    /// Next hop; without it, the destination itself.
    pub(super) via: Option<IpAddr>,
    /// Source for what the host itself sends.
    pub(super) source: Option<IpAddr>,
    /// Bytes of the longest packet.
    pub(super) mtu: u16,
}

impl Out<'_> {
    pub(super) fn fits(&self, packet: &Packet) -> Result<(), Refusal> {
        let (length, mtu) = (packet.length, self.mtu);
        if length <= mtu { Ok(()) } else { Err(Refusal::TooLarge { length, link: self.name.clone(), mtu }) }
    }
}

/// What one table says.
enum Found<'a> {
    Way(Way<'a>),
    /// Ask the next rule.
    Nothing,
}

impl<'a> Node<'a> {
    /// Whether `address` is one of the node's own.
    pub(super) fn is_here(self, address: IpAddr) -> bool {
        self.network.addresses.keys().any(|(_, own)| *own == address)
    }

    /// Where a packet from `origin` to `destination` goes next.
    pub(super) fn route(self, origin: Origin<'a>, destination: IpAddr) -> Result<Way<'a>, Refusal> {
        let bound = match origin {
            Origin::Host { bound } => bound,
            Origin::Link { .. } => None,
        };
        if bound.is_none() && self.is_here(destination) {
            return Ok(Way::Here);
        }
        let mut main_asked = false;
        for (priority, rule) in &self.network.rules {
            if *priority > RULE_MAIN && !main_asked {
                main_asked = true;
                if let Found::Way(way) = self.look_up(Table::MAIN, destination, bound)? {
                    return Ok(way);
                }
            }
            if rule.from_link.as_ref().is_some_and(|from| origin.link_name() != Some(from)) {
                continue;
            }
            if let Found::Way(way) = self.look_up(rule.table, destination, bound)? {
                return Ok(way);
            }
        }
        if !main_asked && let Found::Way(way) = self.look_up(Table::MAIN, destination, bound)? {
            return Ok(way);
        }
        match bound {
            // A socket bound to a link takes what no route names for a neighbour on that link.
            Some(name) => self.out(name, None, None, None),
            None => Err(Refusal::NoRoute(destination)),
        }
    }

    fn look_up(self, table: Table, destination: IpAddr, bound: Option<&LinkName>) -> Result<Found<'a>, Refusal> {
        let connected = if table == Table::MAIN { self.connected(destination, bound) } else { None };
        for (id, route) in lpm::routes(&self.network.routes, table, destination) {
            if connected.is_some_and(|(length, _)| length > id.to.prefix_len()) {
                break;
            }
            match &route.kind {
                RouteKind::Out { link, .. } if bound.is_some_and(|bound| bound != link) => {}
                RouteKind::Out { link, via } => return self.out(link, *via, route.source, route.mtu).map(Found::Way),
                RouteKind::Blackhole if bound.is_some() => {}
                RouteKind::Blackhole => return Err(Refusal::blackhole(*id)),
            }
        }
        connected.map_or(Ok(Found::Nothing), |(_, name)| self.out(name, None, None, None).map(Found::Way))
    }

    /// The link whose own prefix holds `destination`: the route that Linux makes for each address.
    fn connected(self, destination: IpAddr, bound: Option<&LinkName>) -> Option<(u8, &'a LinkName)> {
        self.network
            .addresses
            .iter()
            .filter(|((name, own), length)| {
                bound.is_none_or(|bound| bound == name)
                    && own.is_ipv4() == destination.is_ipv4()
                    && shares_prefix(*own, destination, **length)
            })
            .map(|((name, _), length)| (*length, name))
            .max_by_key(|(length, _)| *length)
    }

    fn out(
        self,
        name: &LinkName,
        via: Option<IpAddr>,
        source: Option<IpAddr>,
        mtu: Option<u16>,
    ) -> Result<Way<'a>, Refusal> {
        let found = self.network.links.get_key_value(name);
        let (name, link) = found.ok_or_else(|| Refusal::NoLink(name.clone()))?;
        let mtu = mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu));
        Ok(Way::Out(Out { name, link, via, source, mtu }))
    }
}

fn shares_prefix(a: IpAddr, b: IpAddr, length: u8) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).leading_zeros() >= u32::from(length),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).leading_zeros() >= u32::from(length),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}
