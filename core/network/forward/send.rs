//! Out of a link: to a pod, to the wire, or wrapped for the overlay or a cable and routed once more.

use super::refusal::Refusal;
use super::route::{Out, Way};
use super::{Node, Origin};
use crate::model::CableKey;
use crate::network::{Encapsulation, LinkKind, LinkName, Packet, Peer, PeerId, Tuple, Verdict, lpm};
use core::net::IpAddr;

/// Which peer of a cable device an address belongs to.
pub(super) enum Choice<'a> {
    /// None.
    None,
    /// This one.
    One(&'a PeerId, &'a Peer),
    /// Several have a range of this length that holds it.
    Several { length: u8 },
}

impl<'a> Node<'a> {
    /// Tells each verdict that is possible for `packet` on its way out.
    pub(super) fn send(self, out: &Out<'a>, packet: &Packet, mut tell: impl FnMut(Verdict)) -> Result<(), Refusal> {
        match &out.link.kind {
            LinkKind::Pods => {
                tell(Verdict::DeliverPod { packet: *packet });
                Ok(())
            }
            LinkKind::Uplink => {
                let next_hop = out.via.unwrap_or(packet.destination);
                tell(Verdict::Send { link: out.name.clone(), next_hop, packet: *packet });
                Ok(())
            }
            LinkKind::Overlay { port, local, .. } => {
                let hop = out.via.unwrap_or(packet.destination);
                let neighbour = self.network.neighbours.get(&(out.name.clone(), hop));
                let neighbour = neighbour.ok_or_else(|| Refusal::NoNeighbour { link: out.name.clone(), hop })?;
                let outer = Encapsulation {
                    source: *local,
                    source_port: spread(packet),
                    destination: neighbour.outer,
                    destination_port: *port,
                    key: None,
                };
                tell(self.wrap(out, packet, outer)?);
                Ok(())
            }
            LinkKind::Cable { port, key, .. } => self.send_in_cable(out, packet, (*port, *key), tell),
        }
    }

    fn send_in_cable(
        self,
        out: &Out<'a>,
        packet: &Packet,
        (port, key): (u16, CableKey),
        mut tell: impl FnMut(Verdict),
    ) -> Result<(), Refusal> {
        let mut wrapped = |peer: &Peer| {
            let outer = Encapsulation {
                // Known once the outer packet is routed.
                source: peer.endpoint.ip(),
                source_port: port,
                destination: peer.endpoint.ip(),
                destination_port: peer.endpoint.port(),
                key: Some(key),
            };
            self.wrap(out, packet, outer).map(&mut tell)
        };
        match self.peer_for(out.name, packet.destination) {
            Choice::None => Err(Refusal::NoPeerFor { link: out.name.clone(), to: packet.destination }),
            Choice::One(_, peer) => wrapped(peer),
            Choice::Several { length } => self
                .peers(out.name)
                .filter(|(id, _)| self.claims(id, packet.destination, length))
                .try_for_each(|p| wrapped(p.1)),
        }
    }

    /// Routes the outer packet. It must leave by the uplink: a tunnel in a tunnel of ours is a loop.
    fn wrap(self, tunnel: &Out<'a>, packet: &Packet, mut outer: Encapsulation) -> Result<Verdict, Refusal> {
        let to = outer.destination;
        let nested = |name: &LinkName| Refusal::Nested { link: name.clone(), to };
        let out = match self.route(Origin::Host { bound: None }, to)? {
            Way::Here => return Err(nested(tunnel.name)),
            Way::Out(out) => out,
        };
        match (&out.link.kind, &tunnel.link.kind) {
            (LinkKind::Uplink, LinkKind::Cable { .. }) => outer.source = self.outer_source(&out, to)?,
            (LinkKind::Uplink, LinkKind::Uplink | LinkKind::Pods | LinkKind::Overlay { .. }) => {}
            (LinkKind::Pods | LinkKind::Overlay { .. } | LinkKind::Cable { .. }, _) => return Err(nested(out.name)),
        }
        let packet = Packet { outer: Some(outer), ..*packet };
        Ok(Verdict::Send { link: out.name.clone(), next_hop: out.via.unwrap_or(to), packet })
    }

    fn outer_source(self, out: &Out<'_>, to: IpAddr) -> Result<IpAddr, Refusal> {
        if let Some(source) = out.source.filter(|source| source.is_ipv4() == to.is_ipv4()) {
            return Ok(source);
        }
        self.address_on(out.name, to).ok_or_else(|| Refusal::NoOuterSource { link: out.name.clone(), to })
    }

    /// The first address of the link that is of the family of `like`.
    pub(super) fn address_on(self, name: &LinkName, like: IpAddr) -> Option<IpAddr> {
        let mut own =
            self.network.addresses.keys().filter(|(link, address)| link == name && address.is_ipv4() == like.is_ipv4());
        own.next().map(|(_, address)| *address)
    }

    fn peers(self, name: &LinkName) -> impl Iterator<Item = (&'a PeerId, &'a Peer)> {
        let first = PeerId { link: name.clone(), key: CableKey([0; 32]) };
        let name = first.link.clone();
        self.network.peers.range(first..).take_while(move |(id, _)| id.link == name)
    }

    /// The peer of the device whose allowed ranges hold `address` most closely.
    pub(super) fn peer_for(self, name: &LinkName, address: IpAddr) -> Choice<'a> {
        let mut best = Choice::None;
        let mut longest = None;
        for (id, peer) in self.peers(name) {
            let Some(range) = lpm::longest_in(&peer.allowed, address) else { continue };
            let length = range.prefix_len();
            if longest.is_none_or(|longest| length > longest) {
                longest = Some(length);
                best = Choice::One(id, peer);
            } else if longest == Some(length) {
                best = Choice::Several { length };
            }
        }
        best
    }

    /// Whether the peer's longest range for `address` has this length.
    pub(super) fn claims(self, id: &PeerId, address: IpAddr, length: u8) -> bool {
        let peer = self.network.peers.get(id);
        peer.and_then(|peer| lpm::longest_in(&peer.allowed, address)).is_some_and(|range| range.prefix_len() == length)
    }
}

/// An outer source port from the flow, so that a flow keeps its way through the fabric (the kernel's own hash has a
/// seed of its own; nothing depends on the port).
fn spread(packet: &Packet) -> u16 {
    let Tuple { source_port, destination_port, .. } = Tuple::of(packet);
    0xc000 | (source_port.rotate_left(5) ^ destination_port) & 0x3fff
}
