//! From the wire to an inner packet that may be looked at: which device unpacks it, and whether it may come from there.

use super::refusal::Refusal;
use super::route::Way;
use super::send::Choice;
use super::{Node, Origin};
use crate::base::Cidr;
use crate::network::{Allowance, AllowanceId, Arrival, Encapsulation, Link, LinkKind, LinkName, Packet, PeerId};
use core::net::IpAddr;

impl<'a> Node<'a> {
    /// Takes the packet in, unpacks it if it is for a device of ours, and checks where it comes from.
    pub(super) fn receive(self, arrival: &Arrival, mut packet: Packet) -> Result<(Origin<'a>, Packet), Refusal> {
        // A socket of the host has no say in outer headers: they are made on the way out.
        let outer = packet.outer.take();
        let name = match arrival {
            Arrival::Local { link: None } => return Ok((Origin::Host { bound: None }, packet)),
            Arrival::Local { link: Some(name) } => {
                let (name, _) = self.link(name)?;
                return Ok((Origin::Host { bound: Some(name) }, packet));
            }
            Arrival::Link(name) => name,
        };
        let (name, link) = match outer {
            None => self.link(name)?,
            Some(outer) => self.unpack(&outer, packet.source)?,
        };
        let origin = Origin::Link { name, link };
        self.check_inner(name, &packet)?;
        self.check_reverse_path(name, packet.source)?;
        Ok((origin, packet))
    }

    fn link(self, name: &LinkName) -> Result<(&'a LinkName, &'a Link), Refusal> {
        self.network.links.get_key_value(name).ok_or_else(|| Refusal::NoLink(name.clone()))
    }

    /// The device that unpacks `outer`, once the outer source is allowed and, in a cable, its key may speak for the
    /// inner source.
    fn unpack(self, outer: &Encapsulation, inner: IpAddr) -> Result<(&'a LinkName, &'a Link), Refusal> {
        if !self.is_here(outer.destination) {
            return Err(Refusal::NotForUs(outer.destination));
        }
        let port = outer.destination_port;
        if let Some(allowance) = self.network.filters.get(&AllowanceId::Outer { port })
            && !covered(&allowance.from, outer.source)
        {
            return Err(Refusal::OuterSource { port, from: outer.source });
        }
        let listens = |link: &Link| match link.kind {
            LinkKind::Overlay { port: own, .. } | LinkKind::Cable { port: own, .. } => own == port,
            LinkKind::Uplink | LinkKind::Pods => false,
        };
        let (name, link) = self.network.links.iter().find(|(_, l)| listens(l)).ok_or(Refusal::NoDevice(port))?;
        if let LinkKind::Cable { .. } = link.kind {
            self.check_peer(name, outer, inner)?;
        }
        Ok((name, link))
    }

    /// A cable takes from a peer only what it would send back to that very peer (WireGuard's cryptokey routing).
    fn check_peer(self, name: &'a LinkName, outer: &Encapsulation, inner: IpAddr) -> Result<(), Refusal> {
        let key = outer.key.ok_or_else(|| Refusal::NoKey(name.clone()))?;
        let id = PeerId { link: name.clone(), key };
        if !self.network.peers.contains_key(&id) {
            return Err(Refusal::NoSuchPeer { link: id.link, key });
        }
        let speaks = match self.peer_for(name, inner) {
            Choice::None => false,
            Choice::One(peer, _) => peer.key == key,
            // Several peers claim the source with equal right: which one holds it depends on the order of the past.
            Choice::Several { length } => self.claims(&id, inner, length),
        };
        if speaks { Ok(()) } else { Err(Refusal::NotAllowedFrom { link: id.link, key, from: inner }) }
    }

    fn check_inner(self, name: &LinkName, packet: &Packet) -> Result<(), Refusal> {
        if self.network.filters.is_empty() {
            return Ok(());
        }
        let Some(Allowance { from, to }) = self.network.filters.get(&AllowanceId::Inner(name.clone())) else {
            return Ok(());
        };
        if !covered(from, packet.source) {
            return Err(Refusal::InnerSource { link: name.clone(), from: packet.source });
        }
        if !to.is_empty() && !covered(to, packet.destination) {
            return Err(Refusal::InnerDestination { link: name.clone(), to: packet.destination });
        }
        Ok(())
    }

    /// `rp_filter=1`, the stricter of `all` and the link's own deciding as Linux does: the way back to the source must
    /// be the link it came in on. Rules for packets from a link are not asked for it.
    fn check_reverse_path(self, name: &LinkName, source: IpAddr) -> Result<(), Refusal> {
        if !source.is_ipv4() || self.rp_filter(name) != 1 {
            return Ok(());
        }
        match self.route(Origin::Host { bound: None }, source) {
            Ok(Way::Out(out)) if out.name == name => Ok(()),
            Ok(Way::Out(_) | Way::Here) | Err(_) => Err(Refusal::ReversePath { link: name.clone(), from: source }),
        }
    }

    fn rp_filter(self, name: &LinkName) -> u8 {
        if self.network.sysctls.is_empty() {
            return 0;
        }
        let prefix = "net.ipv4.conf.";
        let from = (core::ops::Bound::Included(prefix), core::ops::Bound::Unbounded);
        self.network
            .sysctls
            .range::<str, _>(from)
            .map_while(|(key, value)| Some((key.strip_prefix(prefix)?, value)))
            .filter_map(|(key, value)| Some((key.strip_suffix(".rp_filter")?, value)))
            .filter(|(scope, _)| *scope == "all" || *scope == &*name.0)
            .filter_map(|(_, value)| value.trim().parse().ok())
            .max()
            .unwrap_or(0)
    }
}

fn covered(ranges: &alloc::collections::BTreeSet<Cidr>, address: IpAddr) -> bool {
    crate::network::lpm::longest_in(ranges, address).is_some()
}
