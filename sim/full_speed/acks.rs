//! What a TCP says to what it has had already.
//!
//! RFC 9293 (3.10.7.4) has a receiver answer a segment that lies before its window with an ACK, and take what is new of
//! one that lies partly before it. turmoil's TCP drops both in silence, so that one lost ACK stalls a connection for
//! good. This page stands between fabric and stack and does what the standard asks: it remembers what each connection
//! said last. As it remembers closed ones too for a while, a FIN that was said again is answered, as from TIME-WAIT.
//!
//! Nor does turmoil's TCP ask a silent peer whether it lives (RFC 9293, 3.8.4), as the client of an API does. So it is done
//! here, too: a segment before the peer's window, which a living one must answer, and which brings a reset from a host that
//! does not know the connection, such as one that sees it come from another port of a NAT box.
//!
//! And a connection that turmoil's TCP had half opened when it was reset, or when its time was over, is never let go: its
//! port is taken for ever. So it is opened first, for whoever accepts it to see the reset.

use bytes::Bytes;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use turmoil_net::{Packet, TcpFlags, TcpSegment, Transport};

/// A silent connection is forgotten after this (Linux' TIME-WAIT), when room is wanted.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The table is swept when it has grown to this, or to twice what the last sweep left.
const SWEEP_MIN: usize = 1024;

/// Who has heard nothing for so long asks, and asks again after as long.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);
/// After so many questions without an answer, and another wait, the connection is dead.
const QUESTIONS: u32 = 2;

/// A connection that is half open for so long is given up; before turmoil's TCP does.
const HALF_OPEN_MAX: Duration = Duration::from_secs(20);

/// A connection: the stack's side, then the other.
type Connection = (SocketAddr, SocketAddr);

/// What one side said last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Said {
    ack: u32,
    next: u32,
    window: u16,
    at: Duration,
    /// When something of the other side was heard, or asked for.
    heard: Duration,
    /// Questions since then that were not answered.
    asked: u32,
    /// One of the sides has said all.
    ends: bool,
    /// When the other side was asked to open it, if it has not answered yet.
    half_open: Option<Duration>,
}

/// What becomes of a packet.
#[derive(Debug)]
pub(super) enum Mended {
    /// The stack gets it.
    Deliver(Packet),
    /// The stack gets both, one after the other.
    Both([Packet; 2]),
    /// The stack has had it: this is its answer.
    Answer(Packet),
}

/// What comes of connections on which nothing is heard.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Doubts {
    /// Leave for the other sides.
    pub(super) questions: Vec<Packet>,
    /// Are heard by the stacks themselves, in this order.
    pub(super) resets: Vec<Packet>,
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
            let ends = said.ends || segment.flags.fin;
            *said = Said { ack: segment.ack, next, window: segment.window, at: now, ends, ..*said };
            return;
        }
        self.sweep(now);
        let half_open = segment.flags.syn.then_some(now);
        let (ack, window) = (segment.ack, segment.window);
        let said = Said { ack, next, window, at: now, heard: now, asked: 0, ends: false, half_open };
        self.said.insert(connection, said);
    }

    /// A stack is about to hear this.
    pub(super) fn heard(&mut self, now: Duration, mut packet: Packet) -> Mended {
        let Transport::Tcp(segment) = &mut packet.payload else { return Mended::Deliver(packet) };
        let connection = (SocketAddr::new(packet.dst, segment.dst_port), SocketAddr::new(packet.src, segment.src_port));
        if segment.flags.rst {
            let half_open = self.said.remove(&connection).filter(|said| said.half_open.is_some());
            return match half_open {
                Some(said) => Mended::Both([opening(connection, said), packet]),
                None => Mended::Deliver(packet),
            };
        }
        if segment.flags.syn && !segment.flags.ack {
            // One that asks again is half open for as long as it was.
            if self.said.get(&connection).is_some_and(|said| said.half_open.is_none()) {
                self.said.remove(&connection);
            }
            return Mended::Deliver(packet);
        }
        let Some(said) = self.said.get_mut(&connection) else { return Mended::Deliver(packet) };
        (said.at, said.heard, said.asked) = (now, now, 0);
        said.ends |= segment.flags.fin;
        said.half_open = None;
        let known = said.ack.wrapping_sub(segment.seq);
        let whole = length(segment);
        if !is_before(segment.seq, said.ack) {
            return Mended::Deliver(packet);
        }
        let is_question = whole == 0 && known == 1;
        if whole == 0 && !is_question {
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

    /// Asks the other sides of silent connections whether they live, and gives up on those that did not answer. Only for
    /// connections from an address of which `asks` is true.
    pub(super) fn doubt(&mut self, now: Duration, asks: impl Fn(IpAddr) -> bool) -> Doubts {
        let mut doubts = Doubts::default();
        self.said.retain(|connection, said| {
            if said.half_open.is_some_and(|since| now.saturating_sub(since) >= HALF_OPEN_MAX) {
                doubts.resets.extend([opening(*connection, *said), reset(*connection)]);
                return false;
            }
            if said.half_open.is_some()
                || said.ends
                || now.saturating_sub(said.heard) < SIGN_OF_LIFE
                || !asks(connection.0.ip())
            {
                return true;
            }
            if said.asked == QUESTIONS {
                doubts.resets.push(reset(*connection));
                return false;
            }
            (said.heard, said.asked) = (now, said.asked + 1);
            doubts.questions.push(answer(*connection, Said { next: said.next.wrapping_sub(1), ..*said }));
            true
        });
        doubts
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

/// What a stack hears when the other side of a half open connection opens it.
fn opening((own, other): Connection, said: Said) -> Packet {
    answer((other, own), Said { next: said.ack, ack: said.next, ..said })
}

/// What a stack hears of a connection that the other side, or nobody, has any more.
pub(super) fn reset((own, other): Connection) -> Packet {
    let segment = TcpSegment {
        src_port: other.port(),
        dst_port: own.port(),
        seq: 0,
        ack: 0,
        flags: TcpFlags { rst: true, ..TcpFlags::default() },
        window: 0,
        payload: Bytes::new(),
    };
    Packet { src: other.ip(), dst: own.ip(), ttl: 64, payload: Transport::Tcp(segment) }
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
        let syn = flagged(theirs(7, b""), TcpFlags { syn: true, ..TcpFlags::default() });
        assert!(matches!(acks.heard(Duration::ZERO, syn), Mended::Deliver(_)));
        assert!(matches!(acks.heard(Duration::ZERO, theirs(8, b"abc")), Mended::Deliver(_)));
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_other_side_of_a_silent_connection_is_asked_and_answers() {
        let (mut asking, mut asked) = (Acks::default(), Acks::default());
        asking.said(seconds(0), &ours(500, 1000));
        asked.said(seconds(0), &packet("10.0.0.1", "198.18.0.1", segment(1000, 500, b"")));
        assert_eq!(asking.doubt(seconds(2), |_| true), Doubts::default());
        assert_eq!(asking.doubt(seconds(3), |own| own.is_loopback()), Doubts::default());
        let doubts = asking.doubt(seconds(3), |_| true);
        let [question] = doubts.questions.as_slice() else { panic!("{doubts:?}") };
        let Mended::Answer(answer) = asked.heard(seconds(3), question.clone()) else { panic!("no answer") };
        assert_eq!(answer, packet("10.0.0.1", "198.18.0.1", segment(1000, 500, b"")));
        assert!(matches!(asking.heard(seconds(4), answer), Mended::Deliver(_)));
        assert_eq!(asking.doubt(seconds(6), |_| true), Doubts::default());
    }

    #[test]
    fn a_connection_whose_other_side_answers_nothing_is_given_up() {
        let mut acks = Acks::default();
        acks.said(seconds(0), &ours(500, 1000));
        for at in [3, 6] {
            assert_eq!(acks.doubt(seconds(at), |_| true).questions.len(), 1);
        }
        let Doubts { questions, resets } = acks.doubt(seconds(9), |_| true);
        assert_eq!((questions.len(), resets.len()), (0, 1));
        assert_eq!(acks.doubt(seconds(20), |_| true), Doubts::default());
    }

    #[test]
    fn nobody_asks_about_a_connection_that_ends() {
        let mut acks = Acks::default();
        acks.said(seconds(0), &ours(500, 1000));
        let fin = flagged(theirs(1000, b""), TcpFlags { fin: true, ack: true, ..TcpFlags::default() });
        assert!(matches!(acks.heard(seconds(0), fin), Mended::Deliver(_)));
        assert_eq!(acks.doubt(seconds(9), |_| true), Doubts::default());
    }

    fn flagged(mut packet: Packet, flags: TcpFlags) -> Packet {
        if let Transport::Tcp(segment) = &mut packet.payload {
            segment.flags = flags;
        }
        packet
    }

    #[test]
    fn what_is_half_open_is_opened_before_it_is_reset() {
        let syn_ack = flagged(ours(499, 1000), TcpFlags { syn: true, ack: true, ..TcpFlags::default() });
        let reset = flagged(theirs(0, b""), TcpFlags { rst: true, ..TcpFlags::default() });
        let mut acks = Acks::default();
        acks.said(seconds(0), &syn_ack);
        let Mended::Both([opening, last]) = acks.heard(seconds(1), reset.clone()) else { panic!("not opened") };
        assert_eq!((opening, last), (theirs(1000, b""), reset.clone()));

        acks.said(seconds(0), &syn_ack);
        assert_eq!(acks.doubt(seconds(19), |_| true), Doubts::default());
        assert_eq!(acks.doubt(seconds(20), |_| true).resets.len(), 2);

        acks.said(seconds(0), &syn_ack);
        assert!(matches!(acks.heard(seconds(1), theirs(1000, b"")), Mended::Deliver(_)));
        assert!(matches!(acks.heard(seconds(1), reset), Mended::Deliver(_)));
    }
}
