//! The hand of NAT discovery at core speed: datagrams from a socket that is bound to the uplink, and lookups.

use super::flows::Payload;
use super::process::Client;
use super::{CoreSpeed, Event};
use crate::world::{HostId, Kernel, LOOKUP_TIME, opened, sealed};
use std::net::SocketAddr;
use tombolo_core::base::ClusterId;
use tombolo_core::nat::{self, NAT_PORT};
use tombolo_core::network::{Arrival, LinkName, Packet, Transport};
use tombolo_core::roles::Input;

/// Bytes of an IPv4 and a UDP header.
const HEADERS: usize = 28;

impl CoreSpeed {
    fn cluster_of(&self, host: HostId) -> Option<&ClusterId> {
        self.layout.host(host)?.node.as_ref().map(|node| &node.cluster)
    }

    /// A datagram of discovery leaves by the uplink.
    pub(super) fn send_probe(&mut self, client: Client, to: SocketAddr, receiver: Option<&ClusterId>, bytes: Vec<u8>) {
        let Some(host) = self.processes.get(client.process.0).map(|process| process.host) else { return };
        let Some(own) = self.cluster_of(host) else { return };
        let bytes = sealed(own, receiver, bytes);
        let uplink = Kernel::uplink();
        let source = self.fabric.kernel(host).and_then(|kernel| kernel.source_on(&uplink, to.ip()));
        let Some(source) = source else { return };
        let packet = Packet {
            source,
            destination: to.ip(),
            transport: Transport::Udp { source: NAT_PORT, destination: to.port() },
            ttl: 64,
            length: u16::try_from(bytes.len() + HEADERS).unwrap_or(u16::MAX),
            mss: None,
            outer: None,
        };
        self.fabric.send(self.now, host, Arrival::Local { link: Some(uplink) }, packet, Payload::Nat(bytes));
    }

    /// A datagram of discovery has come to a host.
    pub(super) fn discovery_datagram(
        &mut self,
        host: HostId,
        link: Option<&LinkName>,
        packet: &Packet,
        bytes: Vec<u8>,
    ) {
        let Some(id) = self.network_daemons.get(host.0).copied().flatten() else { return };
        let Transport::Udp { source, destination: NAT_PORT } = packet.transport else { return };
        let Some(own) = self.cluster_of(host) else { return };
        let seal = opened(&self.layout, own, &bytes);
        let by_uplink = link.is_some_and(|link| *link == Kernel::uplink());
        let arrival = if by_uplink { nat::Arrival::Uplink } else { nat::Arrival::Tunnel };
        let from = SocketAddr::new(packet.source, source);
        if let Some(client) = self.processes.get(id.0).map(|process| process.client(id)) {
            self.feed(client, Input::Probe { arrival, from, seal, bytes });
        }
    }

    /// Asks somebody outside.
    pub(super) fn look_up(&mut self, client: Client) {
        let delay = self.chance.duration(LOOKUP_TIME.0, LOOKUP_TIME.1);
        self.later(delay, Event::LookedUp(client));
    }

    /// Somebody outside has answered.
    pub(super) fn looked_up(&mut self, client: Client) {
        let Some(host) = self.processes.get(client.process.0).map(|process| process.host) else { return };
        let seen = self.fabric.seen_from_outside(host);
        self.feed(client, Input::LookedUp(Ok(seen)));
    }
}
