//! How long the segments are that a TCP sends.
//!
//! turmoil's TCP fills each segment up to the MTU of its link, and knows nothing of what the other side wants to get. So
//! this page puts the option into SYN and SYN-ACK as they leave, notes what is left of it where they arrive, and cuts what
//! follows to that, as a network card would. Nobody hears that a packet was too long (B28).

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use turmoil_net::{Packet, TcpSegment, Transport};

/// Headers of a segment over IPv4.
const HEADERS: u16 = 40;
/// What a pod's link takes.
pub(super) const PODS: u16 = 1500 - HEADERS;
/// What hosts send to each other, and to APIs: as much as any link takes, since what they say goes through no cable.
pub(super) const HOSTS: u16 = 1280 - HEADERS;

/// What was asked for long ago is forgotten, when room is wanted.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// The table is swept when it has grown to this, or to twice what the last sweep left.
const SWEEP_MIN: usize = 1024;

/// A connection: the stack's side, then the other.
type Connection = (SocketAddr, SocketAddr);

/// See the module docs.
#[derive(Debug)]
pub(super) struct Segments {
    /// What the other side asked for, and when something was last sent there.
    asked: BTreeMap<Connection, (u16, Duration)>,
    sweep_at: usize,
}

impl Default for Segments {
    fn default() -> Self {
        Self { asked: BTreeMap::new(), sweep_at: SWEEP_MIN }
    }
}

impl Segments {
    /// A SYN or SYN-ACK came to its stack, and asks for this.
    pub(super) fn heard(&mut self, now: Duration, packet: &Packet, mss: u16) {
        let Transport::Tcp(segment) = &packet.payload else { return };
        let own = SocketAddr::new(packet.dst, segment.dst_port);
        let other = SocketAddr::new(packet.src, segment.src_port);
        if self.asked.len() >= self.sweep_at {
            self.asked.retain(|_, (_, at)| now.saturating_sub(*at) <= IDLE_MAX);
            self.sweep_at = SWEEP_MIN.max(2 * self.asked.len());
        }
        self.asked.insert((own, other), (mss, now));
    }

    /// What a stack says, in segments of at most `most` bytes and of what the other side asked for.
    pub(super) fn cut(&mut self, now: Duration, packet: Packet, most: u16) -> Vec<Packet> {
        let Transport::Tcp(segment) = &packet.payload else { return vec![packet] };
        let own = SocketAddr::new(packet.src, segment.src_port);
        let other = SocketAddr::new(packet.dst, segment.dst_port);
        let asked = self.asked.get_mut(&(own, other)).map_or(most, |(asked, at)| {
            *at = now;
            (*asked).min(most)
        });
        let size = usize::from(asked.max(1));
        if segment.payload.len() <= size {
            return vec![packet];
        }
        let count = segment.payload.len().div_ceil(size);
        let piece = |n: usize| {
            let (from, is_last) = (n * size, n + 1 == count);
            let payload = segment.payload.slice(from..segment.payload.len().min(from + size));
            let seq = segment.seq.wrapping_add(u32::try_from(from).unwrap_or_default());
            let mut flags = segment.flags;
            (flags.fin, flags.psh) = (flags.fin && is_last, flags.psh && is_last);
            Packet { payload: Transport::Tcp(TcpSegment { seq, flags, payload, ..segment.clone() }), ..packet.clone() }
        };
        (0..count).map(piece).collect()
    }

    /// Forgets what was asked of this address.
    pub(super) fn forget(&mut self, own: IpAddr) {
        self.asked.retain(|(ours, _), _| ours.ip() != own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use turmoil_net::TcpFlags;

    fn packet(from: &str, to: &str, payload: &'static [u8]) -> Packet {
        let flags = TcpFlags { ack: true, psh: true, fin: true, ..TcpFlags::default() };
        let payload = Bytes::from_static(payload);
        let segment = TcpSegment { src_port: 1, dst_port: 2, seq: u32::MAX, ack: 7, flags, window: 9, payload };
        Packet { src: from.parse().unwrap(), dst: to.parse().unwrap(), ttl: 64, payload: Transport::Tcp(segment) }
    }

    fn told(packets: &[Packet]) -> Vec<(u32, &[u8], bool)> {
        let segments = packets.iter().map(|packet| match &packet.payload {
            Transport::Tcp(segment) => (segment.seq, &segment.payload[..], segment.flags.fin),
            Transport::Udp(_) => panic!("a datagram"),
        });
        segments.collect()
    }

    #[test]
    fn what_is_said_is_cut_to_what_the_other_side_asked_for_and_the_last_piece_alone_ends_it() {
        let mut segments = Segments::default();
        let whole = segments.cut(Duration::ZERO, packet("10.0.0.1", "10.0.0.2", b"abcdefg"), 9);
        assert_eq!(told(&whole), [(u32::MAX, b"abcdefg".as_slice(), true)]);
        let mut syn_ack = packet("10.0.0.2", "10.0.0.1", b"");
        if let Transport::Tcp(segment) = &mut syn_ack.payload {
            (segment.src_port, segment.dst_port) = (2, 1);
        }
        segments.heard(Duration::ZERO, &syn_ack, 3);
        let cut = segments.cut(Duration::ZERO, packet("10.0.0.1", "10.0.0.2", b"abcdefg"), 9);
        let pieces: [(u32, &[u8], bool); 3] = [(u32::MAX, b"abc", false), (2, b"def", false), (5, b"g", true)];
        assert_eq!(told(&cut), pieces);
        segments.forget("10.0.0.1".parse().unwrap());
        assert_eq!(segments.cut(Duration::ZERO, packet("10.0.0.1", "10.0.0.2", b"abcdefg"), 9).len(), 1);
    }
}
