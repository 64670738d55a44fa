//! Tracked connections: read into the model's own table, so that the model says which of them must go; deleted by tuple.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kernel's vocabulary is open, and much larger than ours")]

use crate::error::{Fault, unless};
use crate::socket::Channel;
use netlink_packet_core::DefaultNla;
use netlink_packet_netfilter::conntrack::{
    ConntrackAttribute, ConntrackMessage, IPTuple, ProtoTuple, Protocol as Number, Status, Tuple as Part,
};
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily};
use nix::errno::Errno;
use std::net::IpAddr;
use tombolo_core::base::Instant;
use tombolo_core::model::Protocol;
use tombolo_core::network::{Conntrack, Learned, Tuple};

/// `CTA_STATUS_MASK` (`linux/netfilter/nfnetlink_conntrack.h`): which bits of the status a listing is filtered by.
const STATUS_MASK: u16 = 26;

/// The flows of this namespace that are translated, TCP and UDP, and that are of interest by their original
/// and their reply tuple.
pub(crate) fn read(netfilter: &mut Channel, of_interest: impl Fn(&Tuple, &Tuple) -> bool) -> Result<Conntrack, Fault> {
    let mut table = Conntrack::new();
    for translated in [Status::DstNat, Status::SrcNat] {
        let mask = DefaultNla::new(STATUS_MASK, translated.bits().to_be_bytes().to_vec());
        let attributes = vec![ConntrackAttribute::CtaStatus(translated), ConntrackAttribute::Other(mask)];
        for message in netfilter.dump(&about(NetfilterProtoFamily::Unspec, ConntrackMessage::Get(attributes)))? {
            let NetfilterMessageInner::Conntrack(ConntrackMessage::New(attributes)) = message.inner else { continue };
            let (original, reply) = tuples(&attributes);
            let Some((original, reply)) = original.zip(reply) else { continue };
            if reply != original.inverse() && of_interest(&original, &reply) {
                table.commit(Learned::Opened { original, reply, picked_up: false }, Instant::ZERO);
            }
        }
    }
    Ok(table)
}

/// Deletes a flow by its original tuple. One that has ended meanwhile is no error.
pub(crate) fn delete(netfilter: &mut Channel, flow: &Tuple) -> Result<(), Fault> {
    let family = if flow.source.is_ipv4() { NetfilterProtoFamily::IPv4 } else { NetfilterProtoFamily::IPv6 };
    let original = ConntrackAttribute::CtaTupleOrig(parts(flow));
    let message = about(family, ConntrackMessage::Delete(vec![original]));
    unless(netfilter.request(message, 0), &[Errno::ENOENT])
}

/// Deletes all flows of the namespace.
///
/// # Errors
/// The kernel's no.
pub fn forget(netfilter: &mut Channel) -> Result<(), Fault> {
    netfilter.request(about(NetfilterProtoFamily::Unspec, ConntrackMessage::Delete(Vec::new())), 0)
}

fn about(family: NetfilterProtoFamily, message: ConntrackMessage) -> NetfilterMessage {
    NetfilterMessage::new(NetfilterHeader::new(family, 0, 0), message)
}

fn tuples(attributes: &[ConntrackAttribute]) -> (Option<Tuple>, Option<Tuple>) {
    let (mut original, mut reply) = (None, None);
    for attribute in attributes {
        match attribute {
            ConntrackAttribute::CtaTupleOrig(parts) => original = tuple(parts),
            ConntrackAttribute::CtaTupleReply(parts) => reply = tuple(parts),
            _ => {}
        }
    }
    (original, reply)
}

/// `None` if it is of another protocol than TCP and UDP.
fn tuple(parts: &[Part]) -> Option<Tuple> {
    let (mut source, mut destination) = (None::<IpAddr>, None::<IpAddr>);
    let (mut protocol, mut source_port, mut destination_port) = (None, None, None);
    for part in parts {
        match part {
            Part::Ip(addresses) => {
                for address in addresses {
                    match address {
                        IPTuple::SourceAddress(address) => source = Some(*address),
                        IPTuple::DestinationAddress(address) => destination = Some(*address),
                        _ => {}
                    }
                }
            }
            Part::Proto(ports) => {
                for port in ports {
                    match port {
                        ProtoTuple::Protocol(Number::Tcp) => protocol = Some(Protocol::Tcp),
                        ProtoTuple::Protocol(Number::Udp) => protocol = Some(Protocol::Udp),
                        ProtoTuple::SourcePort(port) => source_port = Some(*port),
                        ProtoTuple::DestinationPort(port) => destination_port = Some(*port),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(Tuple {
        protocol: protocol?,
        source: source?,
        source_port: source_port?,
        destination: destination?,
        destination_port: destination_port?,
    })
}

fn parts(tuple: &Tuple) -> Vec<Part> {
    let number = match tuple.protocol {
        Protocol::Tcp => Number::Tcp,
        Protocol::Udp => Number::Udp,
    };
    vec![
        Part::Ip(vec![IPTuple::SourceAddress(tuple.source), IPTuple::DestinationAddress(tuple.destination)]),
        Part::Proto(vec![
            ProtoTuple::Protocol(number),
            ProtoTuple::SourcePort(tuple.source_port),
            ProtoTuple::DestinationPort(tuple.destination_port),
        ]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Emitable;

    fn flow(source: &str, destination: &str) -> Tuple {
        Tuple {
            protocol: Protocol::Udp,
            source: source.parse().unwrap(),
            source_port: 4000,
            destination: destination.parse().unwrap(),
            destination_port: 53,
        }
    }

    #[test]
    fn a_tuple_is_read_as_it_is_written() {
        for flow in [flow("10.1.0.7", "10.102.0.10"), flow("fd00::7", "fd01::10")] {
            assert_eq!(tuple(&parts(&flow)), Some(flow));
        }
    }

    /// As `conntrack -D` sends it: nested attributes, ports in network order.
    #[test]
    fn a_tuple_travels_as_the_kernel_reads_it() {
        let parts = parts(&flow("10.1.0.7", "10.102.0.10"));
        let mut bytes = vec![0; parts.as_slice().buffer_len()];
        parts.as_slice().emit(&mut bytes);
        let (ip, proto) = bytes.split_at(20);
        assert_eq!(ip, [&[20, 0, 1, 0x80, 8, 0, 1, 0][..], &[10, 1, 0, 7, 8, 0, 2, 0, 10, 102, 0, 10]].concat());
        let ports = [&[5, 0, 1, 0, 17, 0, 0, 0][..], &[6, 0, 2, 0, 0x0f, 0xa0, 0, 0], &[6, 0, 3, 0, 0, 53, 0, 0]];
        assert_eq!(proto, [&[28, 0, 2, 0x80][..], &ports.concat()].concat());
    }

    #[test]
    fn other_protocols_are_passed_over() {
        let ping = vec![Part::Proto(vec![ProtoTuple::Protocol(Number::Icmp)])];
        assert_eq!(tuple(&ping), None);
    }
}
