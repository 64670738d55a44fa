//! Connection tracking and translation: `spec/data-plane.md` sections 1 and 2.
//!
//! A gateway that meets a flow from behind knows its backend but not how it was called. The mirror rule takes it for
//! the service's. So a flow that went straight to a backend's exported port is tracked and not counted as transit, or
//! its answers would be taken for the service's as well; what is left is the case that the gateway changes and the
//! server speaks next, which breaks such a flow.
//!
//! A translated flow is no transit either, also when its service or its backend is no longer in the network: TCP flows
//! go on until they end, and UDP flows until the hand has deleted them.

use super::refusal::Refusal;
use super::route::{Out, Way};
use super::{Node, Origin, destination_port, source_port, with_ports};
use crate::model::Protocol;
use crate::network::conntrack::{Class, Direction, Flow, Learned};
use crate::network::jhash::{jhash, scale};
use crate::network::{
    Flags, Link, LinkKind, LinkName, Packet, Translation, TranslationId, Transport, Tuple, constants::HASH_SEED,
};
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;

/// How connection tracking sees the packet in hand.
pub(super) enum Tracking<'a> {
    /// Not looked at, or invalid: no translation acts on it.
    Passed,
    /// Of a known flow.
    Known { flow: &'a Flow, direction: Direction, flags: Option<Flags> },
    /// The first of a flow.
    New { original: Tuple, picked_up: bool },
}

impl Tracking<'_> {
    /// What is learned when the packet leaves again. Untranslated flows of the host itself are not entered.
    pub(super) fn learned_out(&self, origin: Origin<'_>, packet: &Packet) -> Option<Learned> {
        match origin {
            Origin::Host { .. } => self.learned_here(packet),
            Origin::Link { .. } => self.learned(packet),
        }
    }

    /// What is learned when the packet ends here: a new flow only if it was translated.
    pub(super) fn learned_here(&self, packet: &Packet) -> Option<Learned> {
        match self {
            Self::New { original, .. } if *original == Tuple::of(packet) => None,
            Self::New { .. } | Self::Known { .. } | Self::Passed => self.learned(packet),
        }
    }

    fn learned(&self, packet: &Packet) -> Option<Learned> {
        match self {
            Self::Passed => None,
            Self::Known { flow, direction, flags } => {
                Some(Learned::Seen { original: flow.original, direction: *direction, flags: *flags })
            }
            Self::New { original, picked_up } => {
                Some(Learned::Opened { original: *original, reply: Tuple::of(packet).inverse(), picked_up: *picked_up })
            }
        }
    }
}

impl<'a> Node<'a> {
    /// Decides whether the packet is tracked, and finds its flow. The way out is told where it had to be looked up.
    pub(super) fn track(self, origin: Origin<'a>, packet: &Packet) -> Result<(Tracking<'a>, Option<Way<'a>>), Refusal> {
        let tuple = Tuple::of(packet);
        if let Origin::Link { name, link } = origin
            && self.may_be_untracked(name)
            && !self.concerns_service(link, &tuple)
            && !self.conntrack.lookup(&tuple).is_some_and(|(flow, _)| flow.is_translated())
        {
            let way = self.route(origin, packet.destination)?;
            let way_out = match &way {
                Way::Out(out) => Some(out.name),
                Way::Here => None,
            };
            let untracked = way_out.is_some_and(|to| {
                let id = TranslationId::Untracked { from: name.clone(), to: to.clone() };
                self.network.translations.contains_key(&id)
            });
            if untracked {
                return Ok((Tracking::Passed, Some(way)));
            }
        }
        let loose = self.sysctl("net.netfilter.nf_conntrack_tcp_loose") != Some("0");
        let tracking = match self.conntrack.classify(&tuple, &packet.transport, loose) {
            Class::Known(flow, direction) => Tracking::Known { flow, direction, flags: flags_of(packet) },
            Class::New { picked_up } => Tracking::New { original: tuple, picked_up },
            Class::Invalid => Tracking::Passed,
        };
        Ok((tracking, None))
    }

    fn may_be_untracked(self, name: &LinkName) -> bool {
        let last = self.network.translations.keys().rev();
        last.skip_while(|id| matches!(id, TranslationId::Masquerade { .. }))
            .map_while(|id| if let TranslationId::Untracked { from, .. } = id { Some(from) } else { None })
            .any(|from| from == name)
    }

    /// Whether a translated service has a say in this packet: from a cable, one to the service or straight to one of
    /// its backends (so that the answer belongs to a known flow and is not taken for the service's); from elsewhere, one
    /// from a backend.
    fn concerns_service(self, link: &Link, tuple: &Tuple) -> bool {
        match link.kind {
            LinkKind::Cable { .. } => {
                self.service(tuple.protocol, tuple.destination, tuple.destination_port).is_some()
                    || self.service_of(tuple.protocol, tuple.destination, tuple.destination_port).is_some()
            }
            LinkKind::Uplink | LinkKind::Pods | LinkKind::Overlay { .. } => {
                self.service_of(tuple.protocol, tuple.source, tuple.source_port).is_some()
            }
        }
    }

    fn service(self, protocol: Protocol, address: IpAddr, port: u16) -> Option<(&'a [(IpAddr, u16)], bool)> {
        match self.network.translations.get(&TranslationId::Service { address, protocol, port })? {
            Translation::Service { backends, by_source } => Some((backends, *by_source)),
            Translation::KeepSource | Translation::ClampMss | Translation::Untracked | Translation::Masquerade => None,
        }
    }

    /// The first service, by address and port, that has this backend.
    fn service_of(self, of: Protocol, address: IpAddr, port: u16) -> Option<(IpAddr, u16)> {
        let mut services = self.network.translations.iter().map_while(|(id, what)| match (id, what) {
            (TranslationId::Service { address, protocol, port }, Translation::Service { backends, .. }) => {
                Some((*protocol, (*address, *port), backends))
            }
            _ => None,
        });
        let is_backend = |backends: &[(IpAddr, u16)]| backends.iter().any(|b| b.1 == port && b.0 == address);
        services.find(|(protocol, _, backends)| *protocol == of && is_backend(backends)).map(|(_, service, _)| service)
    }

    /// Prerouting: a known flow's destination; for a new flow from a cable, the backend that its hash chooses.
    pub(super) fn translate_destination(
        self,
        origin: Origin<'a>,
        tracking: &Tracking<'a>,
        packet: &mut Packet,
    ) -> Result<(), Refusal> {
        match tracking {
            Tracking::Passed => {}
            Tracking::Known { flow, direction, .. } => {
                let to = flow.leaves_as(*direction);
                set_destination(packet, to.destination, to.destination_port);
            }
            Tracking::New { original, .. } => {
                let Origin::Link { link: Link { kind: LinkKind::Cable { .. }, .. }, .. } = origin else {
                    return Ok(());
                };
                let (address, port) = (original.destination, original.destination_port);
                let Some((backends, by_source)) = self.service(original.protocol, address, port) else { return Ok(()) };
                let slot = scale(hash_of(original, by_source), backends.len());
                let chosen = backends.get(slot).filter(|backend| backend.0.is_ipv4() == address.is_ipv4());
                let chosen = chosen.ok_or_else(|| Refusal::NoBackend(SocketAddr::new(address, port)))?;
                set_destination(packet, chosen.0, chosen.1);
            }
        }
        Ok(())
    }

    /// Postrouting: a known flow's source; for a new flow of a backend into a cable, its service's address (the mirror
    /// rule); nothing else is changed, and a range pair that keeps its source is safe from the host's masquerade. The mirror
    /// rule names the port, so that the kernel draws no other one where it is taken: it drops the packet.
    pub(super) fn translate_source(
        self,
        out: &Out<'a>,
        tracking: &Tracking<'a>,
        packet: &mut Packet,
    ) -> Result<(), Refusal> {
        match tracking {
            Tracking::Passed => {}
            Tracking::Known { flow, direction, .. } => {
                let from = flow.leaves_as(*direction);
                set_source(packet, from.source, from.source_port);
            }
            Tracking::New { original, .. } => {
                let (source, port) = (packet.source, source_port(packet.transport));
                if let LinkKind::Cable { .. } = out.link.kind
                    && let Some((address, port)) = self.service_of(original.protocol, source, port)
                {
                    set_source(packet, address, port);
                    if self.conntrack.taken(original, &Tuple::of(packet).inverse()) {
                        return Err(Refusal::NoPort(SocketAddr::new(
                            packet.destination,
                            destination_port(packet.transport),
                        )));
                    }
                } else if let Some(address) = self.masquerade(out, packet) {
                    set_source(packet, address, port);
                }
            }
        }
        Ok(())
    }

    /// The address that the host's own masquerade gives the packet, if it does and the source is not kept.
    fn masquerade(self, out: &Out<'a>, packet: &Packet) -> Option<IpAddr> {
        let (source, destination) = (packet.source, packet.destination);
        let beside_services = || self.network.translations.keys().rev();
        let hides = |id: &TranslationId| match id {
            TranslationId::Masquerade { from, except } => from.contains(source) && !except.contains(destination),
            TranslationId::Service { .. }
            | TranslationId::KeepSource { .. }
            | TranslationId::ClampMss { .. }
            | TranslationId::Untracked { .. } => false,
        };
        let keeps = |id: &TranslationId| match id {
            TranslationId::KeepSource { from, to } => from.contains(source) && to.contains(destination),
            TranslationId::Service { .. }
            | TranslationId::ClampMss { .. }
            | TranslationId::Untracked { .. }
            | TranslationId::Masquerade { .. } => false,
        };
        let hosts = |id: &&TranslationId| matches!(id, TranslationId::Masquerade { .. });
        let ours = |id: &&TranslationId| !matches!(id, TranslationId::Service { .. });
        if !beside_services().take_while(hosts).any(hides) || beside_services().take_while(ours).any(keeps) {
            return None;
        }
        let own = self.address_on(out.name, source);
        own.or_else(|| self.network.addresses.keys().map(|(_, a)| *a).find(|a| a.is_ipv4() == source.is_ipv4()))
    }

    /// Forwarding: a SYN or SYN-ACK through a link that is clamped asks for no longer segments than the ways there and back
    /// take.
    pub(super) fn clamp(self, origin: Origin<'a>, out: &Out<'a>, packet: &mut Packet) {
        let (Some(mss), Some(from)) = (packet.mss, origin.link_name()) else { return };
        let opens = flags_of(packet).is_some_and(|flags| flags.syn && !flags.rst);
        let is_clamped =
            |link: &LinkName| self.network.translations.contains_key(&TranslationId::ClampMss { link: link.clone() });
        if !opens || !(is_clamped(from) || is_clamped(out.name)) {
            return;
        }
        let back = match self.route(Origin::Host { bound: None }, packet.source) {
            Ok(Way::Out(back)) => back.mtu,
            Ok(Way::Here) | Err(_) => u16::MAX,
        };
        let headers = if packet.source.is_ipv4() { 40 } else { 60 };
        packet.mss = Some(mss.min(out.mtu.min(back).saturating_sub(headers)));
    }

    /// If another flow has the same answers already, the kernel draws another source port for this one.
    pub(super) fn settle_clash(
        self,
        tracking: &Tracking<'a>,
        packet: &mut Packet,
    ) -> Result<Option<RangeInclusive<u16>>, Refusal> {
        let Tracking::New { original, .. } = tracking else { return Ok(None) };
        let mut reply = Tuple::of(packet).inverse();
        if !self.conntrack.taken(original, &reply) {
            return Ok(None);
        }
        let range = drawn_from(reply.destination_port);
        let free = range.clone().find(|port| {
            reply.destination_port = *port;
            !self.conntrack.taken(original, &reply)
        });
        let free = free.ok_or(Refusal::NoPort(SocketAddr::new(reply.source, reply.source_port)))?;
        set_source(packet, packet.source, free);
        Ok(Some(range))
    }
}

/// The range that Linux draws a source port from (`nf_nat_l4proto_unique_tuple`).
const fn drawn_from(port: u16) -> RangeInclusive<u16> {
    match port {
        0..=511 => 1..=511,
        512..=1023 => 600..=1023,
        1024.. => 1024..=u16::MAX,
    }
}

/// The hash that picks a slot, over the fields as nft lays them out in its registers: the source alone for ClientIP
/// affinity, else source, source port, destination, destination port, each padded to four bytes.
fn hash_of(flow: &Tuple, by_source: bool) -> u32 {
    let mut bytes = [0u8; 40];
    let mut length = 0;
    let mut push = |field: &[u8]| {
        for (to, from) in bytes.iter_mut().skip(length).zip(field) {
            *to = *from;
        }
        length += field.len().next_multiple_of(4);
    };
    let mut push_address = |address: IpAddr| match address {
        IpAddr::V4(v4) => push(&v4.octets()),
        IpAddr::V6(v6) => push(&v6.octets()),
    };
    push_address(flow.source);
    if !by_source {
        push(&flow.source_port.to_be_bytes());
        match flow.destination {
            IpAddr::V4(v4) => push(&v4.octets()),
            IpAddr::V6(v6) => push(&v6.octets()),
        }
        push(&flow.destination_port.to_be_bytes());
    }
    jhash(bytes.get(..length).unwrap_or_default(), HASH_SEED)
}

const fn flags_of(packet: &Packet) -> Option<Flags> {
    match packet.transport {
        Transport::Tcp { flags, .. } => Some(flags),
        Transport::Udp { .. } => None,
    }
}

const fn set_destination(packet: &mut Packet, address: IpAddr, port: u16) {
    packet.destination = address;
    packet.transport = with_ports(packet.transport, source_port(packet.transport), port);
}

const fn set_source(packet: &mut Packet, address: IpAddr, port: u16) {
    packet.source = address;
    packet.transport = with_ports(packet.transport, port, destination_port(packet.transport));
}
