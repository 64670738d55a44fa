//! Packets as they travel, IPv4.

use std::net::{IpAddr, Ipv4Addr};
use tombolo_core::network::{Flags, Mac, Packet, Transport};

const TCP: u8 = 6;
const UDP: u8 = 17;
/// The option of TCP, which is the first where there is one.
const MSS: u8 = 2;
/// Bytes of a header of Ethernet.
pub const ETHERNET: usize = 14;

/// The inner packet, with right checksums; what is missing to its length is filled up.
pub fn bytes(packet: &Packet) -> Vec<u8> {
    let (protocol, transport) = match packet.transport {
        Transport::Tcp { source, destination, flags } => {
            let bits = [(flags.fin, 1), (flags.syn, 2), (flags.rst, 4), (flags.ack, 16)];
            let bits = bits.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum();
            let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
            let option = packet.mss.map_or(vec![], |mss| [&[MSS, 4], &mss.to_be_bytes()[..]].concat());
            let words = u8::try_from(5 + option.len() / 4).unwrap();
            (TCP, [&ports[..], &[0, 0, 0, 1, 0, 0, 0, 1, words << 4, bits, 0xff, 0xff, 0, 0, 0, 0], &option].concat())
        }
        Transport::Udp { source, destination } => {
            let length = packet.length - 20;
            (UDP, [source.to_be_bytes(), destination.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat())
        }
    };
    wrapped(packet.source, packet.destination, protocol, packet.ttl, transport, usize::from(packet.length))
}

/// A UDP datagram with this payload.
pub fn datagram(source: (IpAddr, u16), destination: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap();
    let head = [source.1.to_be_bytes(), destination.1.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat();
    let transport = [&head[..], payload].concat();
    let total = 20 + transport.len();
    wrapped(source.0, destination.0, UDP, 64, transport, total)
}

fn wrapped(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ttl: u8,
    mut transport: Vec<u8>,
    total: usize,
) -> Vec<u8> {
    transport.resize(total - 20, 0);
    let addresses = [octets(source), octets(destination)].concat();
    let length = u16::try_from(transport.len()).unwrap().to_be_bytes();
    let pseudo = [&addresses[..], &[0, protocol], &length, &transport].concat();
    let place = if protocol == TCP { 16 } else { 6 };
    transport[place..place + 2].copy_from_slice(&checksum(&pseudo).to_be_bytes());
    let total = u16::try_from(total).unwrap().to_be_bytes();
    let mut header = [&[0x45, 0, total[0], total[1], 0, 1, 0, 0, ttl, protocol, 0, 0][..], &addresses].concat();
    let sum = checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    [header, transport].concat()
}

fn octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => panic!("only IPv4 is drawn"),
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded).unwrap()
}

/// TCP and UDP over IPv4; nothing else is looked at.
pub fn parse(bytes: &[u8]) -> Option<Packet> {
    let header = bytes.get(..20).filter(|header| header[0] == 0x45)?;
    let transport = bytes.get(20..)?;
    let mss = || match transport.get(12..)? {
        [words, _, _, _, _, _, _, _, MSS, 4, high, low, ..] if words >> 4 > 5 => {
            Some(u16::from_be_bytes([*high, *low]))
        }
        _ => None,
    };
    let mss = if header[9] == TCP { mss() } else { None };
    let port = |at: usize| Some(u16::from_be_bytes(transport.get(at..at + 2)?.try_into().ok()?));
    let transport = match header[9] {
        TCP => {
            let bits = transport.get(13)?;
            let is_set = |bit| bits & bit != 0;
            let flags = Flags { fin: is_set(1), syn: is_set(2), rst: is_set(4), ack: is_set(16) };
            Transport::Tcp { source: port(0)?, destination: port(2)?, flags }
        }
        UDP => Transport::Udp { source: port(0)?, destination: port(2)? },
        _ => return None,
    };
    let address = |at: usize| Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(header.get(at..at + 4)?).ok()?)));
    let length = u16::from_be_bytes([header[2], header[3]]);
    let (source, destination) = (address(12)?, address(16)?);
    Some(Packet { source, destination, transport, ttl: header[8], length, mss, outer: None })
}

/// A frame with an IPv4 packet.
pub fn frame(to: Mac, from: Mac, packet: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &[8, 0], packet].concat()
}

/// The packet in a frame, if it is IPv4.
pub fn framed(frame: &[u8]) -> Option<&[u8]> {
    (frame.get(12..ETHERNET)? == [8, 0]).then(|| frame.get(ETHERNET..)).flatten()
}

/// A frame in VXLAN.
pub fn vxlan(vni: u32, frame: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = vni.to_be_bytes();
    [&[8, 0, 0, 0, a, b, c, 0][..], frame].concat()
}
