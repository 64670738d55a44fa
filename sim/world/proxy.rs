//! The cluster's own service translation (`cluster.local`), as kube-proxy or a socket balancer does it at the client's
//! node: what a client there sends to a cluster IP goes to a ready backend, and the answers come back under the cluster
//! IP. It sees only clients of its own node; what a cable brings is Tombolo's to translate.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tombolo_core::base::Rng;
use tombolo_core::model::Protocol;
use tombolo_core::network::{Packet, Transport};
use tombolo_scenarios::ground::Door;

/// A flow that was silent for so long is forgotten: no probe waits that long.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// The table is swept when it has grown to this, or to twice what the last sweep left.
const SWEEP_MIN: usize = 1024;

/// Source and destination of a flow, as its client sees them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Flow {
    client: (IpAddr, u16),
    server: Door,
}

/// The translation of one node. Gone with its power.
#[derive(Clone, Debug)]
pub struct Proxy {
    services: BTreeMap<Door, Vec<(IpAddr, u16)>>,
    /// By the flow as the client sees it: the backend that serves it.
    outward: BTreeMap<Flow, ((IpAddr, u16), Duration)>,
    /// By the flow as the backend sees it: the service that the client means.
    inward: BTreeMap<Flow, Door>,
    sweep_at: usize,
}

impl Default for Proxy {
    fn default() -> Self {
        Self { services: BTreeMap::new(), outward: BTreeMap::new(), inward: BTreeMap::new(), sweep_at: SWEEP_MIN }
    }
}

/// The service is known and has nobody to serve it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoBackend;

impl Proxy {
    /// Takes the services of the cluster, each with its ready backends.
    pub fn set_services(&mut self, services: BTreeMap<Door, Vec<(IpAddr, u16)>>) {
        self.services = services;
    }

    /// Translates what a client of this node sends. A flow keeps its backend.
    ///
    /// # Errors
    /// [`NoBackend`]: it is for a service, and none of its pods is ready.
    pub fn outbound(&mut self, packet: Packet, now: Duration, chance: &mut Rng) -> Result<Packet, NoBackend> {
        if self.services.is_empty() {
            return Ok(packet);
        }
        let (protocol, source, destination) = ports(&packet);
        let flow = Flow { client: (packet.source, source), server: (packet.destination, protocol, destination) };
        let backend = if let Some((backend, seen)) = self.outward.get_mut(&flow) {
            *seen = now;
            *backend
        } else {
            let Some(backends) = self.services.get(&flow.server) else { return Ok(packet) };
            let count = u64::try_from(backends.len()).unwrap_or(u64::MAX);
            let pick = usize::try_from(chance.below(count)).unwrap_or(0);
            let backend = *backends.get(pick).ok_or(NoBackend)?;
            self.sweep(now);
            self.outward.insert(flow, (backend, now));
            self.inward.insert(Flow { server: (backend.0, protocol, backend.1), ..flow }, flow.server);
            backend
        };
        Ok(with_destination(packet, backend))
    }

    /// Undoes the translation on what comes back to a client of this node.
    #[must_use]
    pub fn inbound(&self, packet: Packet) -> Packet {
        if self.inward.is_empty() {
            return packet;
        }
        let (protocol, source, destination) = ports(&packet);
        let flow = Flow { client: (packet.destination, destination), server: (packet.source, protocol, source) };
        self.inward.get(&flow).map_or(packet, |(address, _, port)| with_source(packet, (*address, *port)))
    }

    fn sweep(&mut self, now: Duration) {
        if self.outward.len() < self.sweep_at {
            return;
        }
        let inward = &mut self.inward;
        self.outward.retain(|flow, (backend, seen)| {
            let keep = now.saturating_sub(*seen) <= IDLE_MAX;
            if !keep {
                inward.remove(&Flow { server: (backend.0, flow.server.1, backend.1), ..*flow });
            }
            keep
        });
        self.sweep_at = SWEEP_MIN.max(2 * self.outward.len());
    }
}

/// Protocol, source port and destination port.
#[must_use]
pub const fn ports(packet: &Packet) -> (Protocol, u16, u16) {
    match packet.transport {
        Transport::Tcp { source, destination, .. } => (Protocol::Tcp, source, destination),
        Transport::Udp { source, destination } => (Protocol::Udp, source, destination),
    }
}

const fn with_destination(mut packet: Packet, to: (IpAddr, u16)) -> Packet {
    packet.destination = to.0;
    match &mut packet.transport {
        Transport::Tcp { destination, .. } | Transport::Udp { destination, .. } => *destination = to.1,
    }
    packet
}

const fn with_source(mut packet: Packet, from: (IpAddr, u16)) -> Packet {
    packet.source = from.0;
    match &mut packet.transport {
        Transport::Tcp { source, .. } | Transport::Udp { source, .. } => *source = from.1,
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_core::network::Flags;

    fn packet(from: (&str, u16), to: (&str, u16)) -> Packet {
        Packet {
            source: from.0.parse().unwrap(),
            destination: to.0.parse().unwrap(),
            transport: Transport::Tcp { source: from.1, destination: to.1, flags: Flags::default() },
            ttl: 64,
            length: 60,
            mss: None,
            outer: None,
        }
    }

    fn proxy(backends: &[&str]) -> Proxy {
        let door = ("10.102.0.10".parse().unwrap(), Protocol::Tcp, 80);
        let backends = backends.iter().map(|address| (address.parse().unwrap(), 8080)).collect();
        let mut proxy = Proxy::default();
        proxy.set_services(BTreeMap::from([(door, backends)]));
        proxy
    }

    #[test]
    fn a_flow_to_a_cluster_ip_keeps_its_backend_and_its_answers_come_from_the_cluster_ip() {
        let mut proxy = proxy(&["10.2.1.10", "10.2.2.10"]);
        let mut chance = Rng::new(1);
        let sent = packet(("10.2.1.2", 4000), ("10.102.0.10", 80));
        let out = proxy.outbound(sent, Duration::ZERO, &mut chance).unwrap();
        for _ in 0..20 {
            assert_eq!(proxy.outbound(sent, Duration::ZERO, &mut chance), Ok(out));
        }
        let answer = packet((&out.destination.to_string(), 8080), ("10.2.1.2", 4000));
        assert_eq!(proxy.inbound(answer), packet(("10.102.0.10", 80), ("10.2.1.2", 4000)));
    }

    #[test]
    fn what_is_for_no_service_passes_as_it_is() {
        let mut proxy = proxy(&["10.2.1.10"]);
        for other in [packet(("10.2.1.2", 4000), ("10.9.9.9", 80)), packet(("10.2.1.2", 4000), ("10.102.0.10", 81))] {
            assert_eq!(proxy.outbound(other, Duration::ZERO, &mut Rng::new(1)), Ok(other));
            assert_eq!(proxy.inbound(other), other);
        }
    }

    #[test]
    fn a_service_without_a_ready_pod_refuses() {
        let sent = packet(("10.2.1.2", 4000), ("10.102.0.10", 80));
        assert_eq!(proxy(&[]).outbound(sent, Duration::ZERO, &mut Rng::new(1)), Err(NoBackend));
    }

    #[test]
    fn silent_flows_are_forgotten_when_the_table_has_grown() {
        let mut proxy = proxy(&["10.2.1.10"]);
        let mut chance = Rng::new(1);
        for port in 1..=1100 {
            let late = if port <= 1024 { Duration::ZERO } else { Duration::from_secs(301) };
            let sent = packet(("10.2.1.2", port), ("10.102.0.10", 80));
            proxy.outbound(sent, late, &mut chance).unwrap();
        }
        assert_eq!((proxy.outward.len(), proxy.inward.len()), (76, 76));
    }
}
