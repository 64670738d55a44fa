//! What is between sites, as far as addresses go: the NAT box of a site, if it has one.
//!
//! ```text
//!   172.16.2.10:4511 ─> box of site 2 ─> 198.18.2.1:20000 ── internet ──> 172.16.1.10:4511
//! ```
//! Behind a box the addresses of a site are private: nobody elsewhere reaches them, and what leaves for another site
//! leaves under the box's own address. What a box does is `tombolo_core::nat::boxes`, in the words of RFC 4787.

use super::{HostId, Layout};
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use tombolo_core::base::Instant;
use tombolo_core::nat::boxes::NatBox;
use tombolo_core::network::{Packet, Transport};
use tombolo_scenarios::layout::outside;

/// Why a packet finds no way through the internet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unroutable {
    /// Nobody has that address, or it is private elsewhere.
    NoOwner(IpAddr),
    /// The box that has that address lets the packet not in.
    NotLetIn(SocketAddr),
}

/// The boxes, by number of the site.
#[derive(Clone, Debug)]
pub(super) struct Internet(Vec<Option<NatBox>>);

impl Internet {
    pub(super) fn of(layout: &Layout) -> Self {
        let sites = layout.nats().iter().zip(0..=u8::MAX);
        Self(sites.map(|(nat, site)| nat.map(|behaviour| NatBox::new(behaviour, outside(site, 0)))).collect())
    }

    fn at(&mut self, site: u8) -> Option<&mut NatBox> {
        self.0.get_mut(usize::from(site))?.as_mut()
    }

    /// The box of a site forgets its mappings. False if there is none.
    pub(super) fn forget(&mut self, site: u8) -> bool {
        self.at(site).map(NatBox::forget).is_some()
    }

    /// The box of a site gets another outside address. `None` if there is no box.
    pub(super) fn change_address(&mut self, site: u8) -> Option<IpAddr> {
        let nat = self.at(site)?;
        let mut all = (0..=u8::MAX).map(|change| outside(site, change));
        all.find(|before| *before == nat.outside());
        let next = all.next().unwrap_or_else(|| outside(site, 0));
        nat.change_address(next);
        Some(next)
    }

    /// Under which address a host is seen elsewhere.
    pub(super) fn seen(&self, layout: &Layout, host: HostId) -> Option<IpAddr> {
        let host = layout.host(host)?;
        let nat = self.0.get(usize::from(host.site)).and_then(Option::as_ref);
        Some(nat.map_or(host.address, NatBox::outside))
    }

    /// Carries a packet from a host to the one that has address `to`: gives that host, and the packet as it sees it.
    pub(super) fn carry(
        &mut self,
        layout: &Layout,
        (now, from): (Duration, HostId),
        to: IpAddr,
        packet: &Packet,
    ) -> Result<(HostId, Packet), Unroutable> {
        let site = |host: HostId| layout.host(host).map(|host| host.site);
        let (here, owner) = (site(from), layout.owner(to));
        if let Some(owner) = owner.filter(|owner| site(*owner) == here) {
            return Ok((owner, *packet));
        }
        let now = Instant::from_origin(now);
        let mut packet = *packet;
        if let Some(nat) = here.and_then(|here| self.at(here)) {
            let (source, destination) = ends(&packet);
            set_source(&mut packet, nat.outbound(source, destination, now));
        }
        if let Some(nat) = self.0.iter().flatten().find(|nat| nat.outside() == to) {
            let (source, destination) = ends(&packet);
            let inside = nat.inbound(destination.port(), source, now).ok_or(Unroutable::NotLetIn(destination))?;
            set_destination(&mut packet, inside);
            let owner = layout.owner(inside.ip()).ok_or(Unroutable::NoOwner(inside.ip()))?;
            return Ok((owner, packet));
        }
        let owner = owner.filter(|owner| site(*owner).is_some_and(|site| self.at(site).is_none()));
        owner.map(|owner| (owner, packet)).ok_or(Unroutable::NoOwner(to))
    }
}

/// Source and destination of the outermost header.
fn ends(packet: &Packet) -> (SocketAddr, SocketAddr) {
    if let Some(outer) = packet.outer {
        let source = SocketAddr::new(outer.source, outer.source_port);
        return (source, SocketAddr::new(outer.destination, outer.destination_port));
    }
    let (_, source, destination) = super::ports(packet);
    (SocketAddr::new(packet.source, source), SocketAddr::new(packet.destination, destination))
}

fn set_source(packet: &mut Packet, socket: SocketAddr) {
    if let Some(outer) = &mut packet.outer {
        (outer.source, outer.source_port) = (socket.ip(), socket.port());
        return;
    }
    packet.source = socket.ip();
    match &mut packet.transport {
        Transport::Tcp { source, .. } | Transport::Udp { source, .. } => *source = socket.port(),
    }
}

fn set_destination(packet: &mut Packet, socket: SocketAddr) {
    if let Some(outer) = &mut packet.outer {
        (outer.destination, outer.destination_port) = (socket.ip(), socket.port());
        return;
    }
    packet.destination = socket.ip();
    match &mut packet.transport {
        Transport::Tcp { destination, .. } | Transport::Udp { destination, .. } => *destination = socket.port(),
    }
}
