//! What leaves a site, and whether any of it can be read on the way.
//!
//! Each frame between two sites passes a relay, so a run proves more than a capture would: no inner address and no payload
//! is in the clear. What may be is known by its shape: WireGuard's four messages, NAT discovery (sealed, not secret), and
//! TCP to and from an API server (TLS there, in clusters). All else is told, the first of it in words.

use super::ETHERNET;
use core::fmt;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use tombolo_cluster::API_PORT;
use tombolo_core::base::Cidr;
use tombolo_core::nat::wire::Message;

const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// Lengths of WireGuard's messages about a handshake, by their first byte; data is 4.
const HANDSHAKES: [(u8, usize); 3] = [(1, 148), (2, 92), (3, 64)];
/// Length of the shortest message with data: header and tag. (Data is padded, but not beyond the MTU.)
const DATA_MIN: usize = 32;

/// What passed between sites.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Passed {
    /// In a cable.
    pub sealed: u64,
    /// To and from API servers.
    pub apis: u64,
    /// Of NAT discovery.
    pub discovery: u64,
    /// What hosts say about the way itself: ARP, ICMP, later fragments.
    pub signals: u64,
    /// In the clear.
    pub clear: u64,
    /// The first of these.
    pub first: Option<String>,
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sealed, apis, discovery, signals, clear, first } = self;
        let all = sealed + apis + discovery + signals + clear;
        write!(f, "{clear} of {all} packets between sites in the clear")?;
        if let Some(first) = first {
            write!(f, ", the first: {first}")?;
        }
        write!(f, " ({sealed} sealed, {apis} of APIs, {discovery} of NAT discovery, {signals} ARP, ICMP or fragments)")
    }
}

/// Counts.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Ranges of pods and services: who reads an address of these has seen into a cable.
    inner: Vec<Cidr>,
    passed: Mutex<Passed>,
}

impl Wire {
    pub(crate) fn new(inner: Vec<Cidr>) -> Self {
        Self { inner, passed: Mutex::default() }
    }

    pub(crate) fn passed(&self) -> Passed {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A frame passes.
    pub(crate) fn see(&self, frame: &[u8]) {
        let what = self.read(frame);
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        match what {
            Seen::Sealed => passed.sealed += 1,
            Seen::Api => passed.apis += 1,
            Seen::Discovery => passed.discovery += 1,
            Seen::Signal => passed.signals += 1,
            Seen::Clear(why) => {
                passed.clear += 1;
                passed.first.get_or_insert(why);
            }
        }
    }

    fn read(&self, frame: &[u8]) -> Seen {
        let kind = frame.get(12..ETHERNET).map(|kind| u16::from_be_bytes([kind[0], kind[1]]));
        let packet = match (kind, frame.get(ETHERNET..)) {
            (Some(ARP), _) => return Seen::Signal,
            (Some(IPV4), Some(packet)) => Packet::v4(packet),
            (Some(IPV6), Some(packet)) => Packet::v6(packet),
            _ => None,
        };
        let Some(packet) = packet else {
            return Seen::Clear(format!("a frame of {} bytes of no known kind", frame.len()));
        };
        let Packet { from, to, protocol, first, content } = packet;
        let ends = format!("{from} to {to}");
        if self.inner.iter().any(|range| range.contains(from) || range.contains(to)) {
            return Seen::Clear(format!("{ends}, protocol {protocol}: an address that belongs into a cable"));
        }
        let ports = content.get(..4).map(|ports| [0, 2].map(|at| u16::from_be_bytes([ports[at], ports[at + 1]])));
        match (protocol, ports) {
            (ICMP | ICMPV6, _) => Seen::Signal,
            _ if !first => Seen::Signal,
            (TCP, Some(ports)) if ports.contains(&API_PORT) => Seen::Api,
            (UDP, Some(_)) if content.get(8..).is_some_and(is_sealed) => Seen::Sealed,
            (UDP, Some(_)) if content.get(8..).is_some_and(is_of_discovery) => Seen::Discovery,
            (_, Some([a, b])) => {
                Seen::Clear(format!("{ends}, protocol {protocol}, ports {a} and {b}, {} bytes", content.len()))
            }
            (_, None) => Seen::Clear(format!("{ends}, protocol {protocol}")),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Sealed,
    Api,
    Discovery,
    Signal,
    Clear(String),
}

/// Whether these bytes have the shape of a message of WireGuard.
fn is_sealed(message: &[u8]) -> bool {
    let Some([kind, 0, 0, 0]) = message.get(..4) else { return false };
    let length = message.len();
    HANDSHAKES.contains(&(*kind, length)) || *kind == 4 && length >= DATA_MIN
}

/// Whether these bytes are a question or an answer of NAT discovery, and name a cluster that sent them.
fn is_of_discovery(message: &[u8]) -> bool {
    let sender = match Message::decode(message) {
        Ok(Message::Request(_, request)) => request.sender,
        Ok(Message::Response(response)) => response.sender,
        Err(_) => None,
    };
    sender.is_some_and(|sender| !sender.cluster.is_empty())
}

struct Packet<'a> {
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    /// It is whole, or the first of its fragments.
    first: bool,
    content: &'a [u8],
}

impl<'a> Packet<'a> {
    fn v4(packet: &'a [u8]) -> Option<Self> {
        let header = usize::from(packet.first()? & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
        let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?).into());
        let offset = u16::from_be_bytes(packet.get(6..8)?.try_into().ok()?) & 0x1fff;
        Some(Self {
            from: address(12)?,
            to: address(16)?,
            protocol: *packet.get(9)?,
            first: offset == 0,
            content: packet.get(header..total.min(packet.len()))?,
        })
    }

    fn v6(packet: &'a [u8]) -> Option<Self> {
        let length = usize::from(u16::from_be_bytes(packet.get(4..6)?.try_into().ok()?));
        let address = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?).into());
        let (from, to, content) = (address(8)?, address(24)?, packet.get(40..(40 + length).min(packet.len()))?);
        // Hosts speak of multicast with options before ICMPv6, and nobody else here has any.
        let protocol =
            packet.get(6).map(|next| if *next == 0 { content.first().copied().unwrap_or_default() } else { *next })?;
        Some(Self { from, to, protocol, first: true, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_core::nat::wire::{Details, Request};

    fn frame(from: &str, to: &str, protocol: u8, content: &[u8]) -> Vec<u8> {
        let [from, to] = [from, to].map(|address| address.parse::<Ipv4Addr>().unwrap().octets());
        let mut frame = vec![0; ETHERNET - 2];
        frame.extend(IPV4.to_be_bytes());
        frame.extend([0x45, 0]);
        frame.extend(u16::try_from(20 + content.len()).unwrap().to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend(from.into_iter().chain(to));
        frame.extend(content);
        // The shortest frame of Ethernet has more.
        frame.resize(frame.len().max(60), 0xee);
        frame
    }

    fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(8 + payload.len()).unwrap();
        let header = [ports[0], ports[1], length, 0].map(u16::to_be_bytes).concat();
        [header, payload.to_vec()].concat()
    }

    fn seen(frame: &[u8]) -> Seen {
        Wire::new(vec!["10.1.0.0/16".parse().unwrap(), "10.2.0.0/16".parse().unwrap()]).read(frame)
    }

    const GATEWAYS: (&str, &str) = ("172.16.1.10", "172.16.2.10");

    fn between(protocol: u8, content: &[u8]) -> Seen {
        seen(&frame(GATEWAYS.0, GATEWAYS.1, protocol, content))
    }

    #[test]
    fn what_has_the_shape_of_wireguard_is_sealed_also_behind_nat() {
        for (kind, length) in HANDSHAKES.into_iter().chain([(4, 32), (4, 112), (4, 1_452)]) {
            let mut message = vec![7; length];
            message[..4].copy_from_slice(&[kind, 0, 0, 0]);
            assert_eq!(between(UDP, &udp([40_123, 4_511], &message)), Seen::Sealed, "{kind} of {length}");
        }
    }

    #[test]
    fn apis_discovery_and_what_hosts_say_may_be_read() {
        assert_eq!(between(TCP, &[40_000, API_PORT, 0, 0].map(u16::to_be_bytes).concat()), Seen::Api);
        let sender = Some(Details { cluster: "west", endpoint: "submariner-cable-west-172-16-1-10" });
        let asked = Message::Request(1, Request { number: 1, sender, ..Request::default() }).encode();
        assert_eq!(between(UDP, &udp([4_490, 4_490], &asked)), Seen::Discovery);
        assert_eq!(between(ICMP, &[3, 4, 0, 0]), Seen::Signal);
        assert_eq!(seen(&[vec![0; 12], ARP.to_be_bytes().to_vec(), vec![0; 46]].concat()), Seen::Signal);
    }

    #[test]
    fn a_packet_of_a_pod_on_a_wire_is_caught_whatever_it_carries_and_so_is_one_in_an_open_tunnel() {
        let clear =
            |seen: Seen, why: &str| assert!(matches!(&seen, Seen::Clear(text) if text.contains(why)), "{seen:?}");
        let mut sealed = vec![7; 64];
        sealed[..4].copy_from_slice(&[4, 0, 0, 0]);
        clear(seen(&frame("10.1.0.5", GATEWAYS.1, UDP, &udp([1, 2], &sealed))), "10.1.0.5 to 172.16.2.10");
        clear(seen(&frame(GATEWAYS.0, "10.2.0.5", ICMP, &[8, 0, 0, 0])), "an address that belongs into a cable");
        clear(between(UDP, &udp([50_000, 4_789], b"\x08\0\0\0\0\0\x64\0 and a frame in it")), "ports 50000 and 4789");
        clear(between(UDP, &udp([50_000, 4_511], b"GET / HTTP/1.1")), "ports 50000 and 4511");
        clear(between(TCP, &[40_000, 80, 0, 0].map(u16::to_be_bytes).concat()), "ports 40000 and 80");
        clear(between(47, &[0, 0, 8, 0]), "protocol 47");
        clear(seen(&[0; 60]), "no known kind");
    }

    #[test]
    fn it_counts_and_keeps_the_first_that_was_clear() {
        let wire = Wire::new(vec!["10.1.0.0/16".parse().unwrap()]);
        for last in [5, 6] {
            wire.see(&frame(&format!("10.1.0.{last}"), GATEWAYS.1, TCP, &[0; 20]));
        }
        wire.see(&frame(GATEWAYS.0, GATEWAYS.1, ICMP, &[3, 4, 0, 0]));
        let text = wire.passed().to_string();
        assert_eq!(
            text,
            "2 of 3 packets between sites in the clear, the first: 10.1.0.5 to 172.16.2.10, protocol 6: an address that \
             belongs into a cable (0 sealed, 0 of APIs, 0 of NAT discovery, 1 ARP, ICMP or fragments)"
        );
    }
}
