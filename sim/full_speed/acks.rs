//! What a TCP says to what it has had already.
//!
//! RFC 9293 (3.10.7.4) has a receiver answer a segment that lies before its window with an ACK, and take what is new of
//! one that lies partly before it. turmoil's TCP drops both in silence, so that one lost ACK stalls a connection for
//! good. This page stands between fabric and stack and does what the standard asks: it remembers what each connection
//! said last. As it remembers closed ones too for a while, a FIN that was said again is answered, as from TIME-WAIT.

use bytes::Bytes;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use turmoil_net::{Packet, TcpFlags, TcpSegment, Transport};

/// A silent connection is forgotten after this (Linux' TIME-WAIT), when room is wanted.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The table is swept when it has grown to this, or to twice what the last sweep left.
const SWEEP_MIN: usize = 1024;

/// A connection: the stack's side, then the other.
type Connection = (SocketAddr, SocketAddr);

/// What one side said last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Said {
    ack: u32,
    next: u32,
    window: u16,
    at: Duration,
}

/// What becomes of a packet.
#[derive(Debug)]
pub(super) enum Mended {
    /// The stack gets it.
    Deliver(Packet),
    /// The stack has had it: this is its answer.
    Answer(Packet),
}

/// See the module docs.
#[derive(Debug)]
pub(super) struct Acks {
    said: BTreeMap<Connection, Said>,
    sweep_at: usize,
}

impl Default for Acks {
    fn default() -> Self {
        Self { said: BTreeMap::new(), sweep_at: SWEEP_MIN }
    }
}

impl Acks {
    /// A stack says this.
    pub(super) fn said(&mut self, now: Duration, packet: &Packet) {
        let Transport::Tcp(segment) = &packet.payload else { return };
        let connection = (SocketAddr::new(packet.src, segment.src_port), SocketAddr::new(packet.dst, segment.dst_port));
        if segment.flags.rst || !segment.flags.ack {
            self.said.remove(&connection);
            return;
        }
        let next = segment.seq.wrapping_add(length(segment));
        if let Some(said) = self.said.get_mut(&connection) {
            // What is said again does not take back what was said later.
            let next = if is_before(said.next, next) { next } else { said.next };
            *said = Said { ack: segment.ack, next, window: segment.window, at: now };
            return;
        }
        self.sweep(now);
        self.said.insert(connection, Said { ack: segment.ack, next, window: segment.window, at: now });
    }

    /// A stack is about to hear this.
    pub(super) fn heard(&mut self, now: Duration, mut packet: Packet) -> Mended {
        let Transport::Tcp(segment) = &mut packet.payload else { return Mended::Deliver(packet) };
        let connection = (SocketAddr::new(packet.dst, segment.dst_port), SocketAddr::new(packet.src, segment.src_port));
        if segment.flags.rst || (segment.flags.syn && !segment.flags.ack) {
            self.said.remove(&connection);
            return Mended::Deliver(packet);
        }
        let Some(said) = self.said.get_mut(&connection) else { return Mended::Deliver(packet) };
        said.at = now;
        let known = said.ack.wrapping_sub(segment.seq);
        let whole = length(segment);
        if whole == 0 || !is_before(segment.seq, said.ack) {
            return Mended::Deliver(packet);
        }
        if known >= whole {
            return Mended::Answer(answer(connection, *said));
        }
        // `known` is below `whole`: only bytes can be known of what has a SYN or FIN that is not.
        let bytes = usize::try_from(known).unwrap_or(usize::MAX).min(segment.payload.len());
        segment.payload = segment.payload.slice(bytes..);
        segment.seq = said.ack;
        Mended::Deliver(packet)
    }

    /// Forgets what was said from this address.
    pub(super) fn forget(&mut self, own: IpAddr) {
        self.said.retain(|(ours, _), _| ours.ip() != own);
    }

    fn sweep(&mut self, now: Duration) {
        if self.said.len() < self.sweep_at {
            return;
        }
        self.said.retain(|_, said| now.saturating_sub(said.at) <= IDLE_MAX);
        self.sweep_at = SWEEP_MIN.max(2 * self.said.len());
    }
}

/// How many sequence numbers a segment takes.
fn length(segment: &TcpSegment) -> u32 {
    let bytes = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
    bytes.saturating_add(u32::from(segment.flags.syn)).saturating_add(u32::from(segment.flags.fin))
}

/// Order of sequence numbers (RFC 9293, 3.4).
const fn is_before(a: u32, b: u32) -> bool {
    let ahead = b.wrapping_sub(a);
    ahead != 0 && ahead < 1 << 31
}

fn answer((own, other): Connection, said: Said) -> Packet {
    let segment = TcpSegment {
        src_port: own.port(),
        dst_port: other.port(),
        seq: said.next,
        ack: said.ack,
        flags: TcpFlags { ack: true, ..TcpFlags::default() },
        window: said.window,
        payload: Bytes::new(),
    };
    Packet { src: own.ip(), dst: other.ip(), ttl: 64, payload: Transport::Tcp(segment) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(seq: u32, ack: u32, payload: &'static [u8]) -> TcpSegment {
        TcpSegment {
            src_port: 1,
            dst_port: 2,
            seq,
            ack,
            flags: TcpFlags { ack: true, ..TcpFlags::default() },
            window: 100,
            payload: Bytes::from_static(payload),
        }
    }

    fn packet(from: &str, to: &str, segment: TcpSegment) -> Packet {
        Packet { src: from.parse().unwrap(), dst: to.parse().unwrap(), ttl: 64, payload: Transport::Tcp(segment) }
    }

    fn ours(seq: u32, ack: u32) -> Packet {
        let TcpSegment { src_port, dst_port, .. } = segment(0, 0, b"");
        packet(
            "198.18.0.1",
            "10.0.0.1",
            TcpSegment { src_port: dst_port, dst_port: src_port, ..segment(seq, ack, b"") },
        )
    }

    fn theirs(seq: u32, payload: &'static [u8]) -> Packet {
        packet("10.0.0.1", "198.18.0.1", segment(seq, 500, payload))
    }

    #[test]
    fn what_is_new_passes_as_it_is() {
        let mut acks = Acks::default();
        acks.said(Duration::ZERO, &ours(500, 1000));
        let new = theirs(1000, b"abc");
        assert!(matches!(acks.heard(Duration::ZERO, new.clone()), Mended::Deliver(passed) if passed == new));
        let unknown = packet("10.0.0.9", "198.18.0.1", segment(7, 7, b"abc"));
        assert!(matches!(acks.heard(Duration::ZERO, unknown.clone()), Mended::Deliver(passed) if passed == unknown));
    }

    #[test]
    fn what_was_had_already_is_acknowledged_again() {
        let mut acks = Acks::default();
        acks.said(Duration::ZERO, &ours(500, 1003));
        let Mended::Answer(answer) = acks.heard(Duration::ZERO, theirs(1000, b"abc")) else { panic!("no answer") };
        assert_eq!(answer, ours(500, 1003));
    }

    #[test]
    fn of_what_is_partly_new_the_new_part_passes() {
        let mut acks = Acks::default();
        acks.said(Duration::ZERO, &ours(500, u32::MAX));
        let Mended::Deliver(passed) = acks.heard(Duration::ZERO, theirs(u32::MAX - 2, b"abcde")) else {
            panic!("not delivered")
        };
        assert_eq!(passed, theirs(u32::MAX, b"cde"));
    }

    #[test]
    fn a_new_connection_of_the_same_ports_is_not_taken_for_the_old_one() {
        let mut acks = Acks::default();
        acks.said(Duration::ZERO, &ours(500, 1003));
        let mut syn = theirs(7, b"");
        if let Transport::Tcp(segment) = &mut syn.payload {
            segment.flags = TcpFlags { syn: true, ..TcpFlags::default() };
        }
        assert!(matches!(acks.heard(Duration::ZERO, syn), Mended::Deliver(_)));
        assert!(matches!(acks.heard(Duration::ZERO, theirs(8, b"abc")), Mended::Deliver(_)));
    }
}
