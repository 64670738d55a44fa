//! What was asked and answered, in numbers.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a question came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// In a datagram.
    Udp,
    /// On a connection.
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        })
    }
}

/// Why something got no reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// Too short for a message, or a reply itself.
    NoQuestion,
    /// It came from an address or port that nobody asks from: a reply would hit somebody else.
    Unanswerable,
    /// It came from outside the networks that are served.
    Stranger,
    /// The system would not send the reply.
    Unsendable,
    /// The connection was given up: it was quiet or slow for too long.
    Slow,
    /// The connection had to make room for others.
    Crowded,
}

/// All causes, each at its own number.
const CAUSES: [Cause; 6] =
    [Cause::NoQuestion, Cause::Unanswerable, Cause::Stranger, Cause::Unsendable, Cause::Slow, Cause::Crowded];
/// Types of records by name and number (IANA); the last stands for all others.
const TYPES: [(&str, u16); 8] =
    [("A", 1), ("AAAA", 28), ("SRV", 33), ("TXT", 16), ("NS", 2), ("SOA", 6), ("ANY", 255), ("other", 0)];
/// Response codes by name; the last but one is told by other signs, the last stands for replies to no question.
const CODES: [&str; 8] = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "BADVERS", "other"];
const BAD_VERSION: usize = 6;
/// Bounds of the time that replies took.
const TIMES: [Duration; 8] = [
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(25),
    Duration::MAX,
];

/// The counters of one socket, or of all connections. Only their own thread writes them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    replies: [[[AtomicU64; CODES.len()]; TYPES.len()]; 2],
    truncated: AtomicU64,
    panics: AtomicU64,
    dropped: [AtomicU64; CAUSES.len()],
    took: [AtomicU64; TIMES.len()],
    connections: AtomicU64,
}

impl Counts {
    pub(crate) fn replied(&self, transport: Transport, reply: &[u8]) {
        let of_transport = self.replies.get(transport as usize);
        let cell = of_transport.and_then(|types| types.get(kind(reply))).and_then(|codes| codes.get(code(reply)));
        add(cell, 1);
        if reply.get(2).is_some_and(|flags| flags & 0x02 != 0) {
            add(Some(&self.truncated), 1);
        }
    }

    pub(crate) fn dropped(&self, cause: Cause) {
        add(CAUSES.iter().zip(&self.dropped).find(|(one, _)| **one == cause).map(|(_, cell)| cell), 1);
    }

    /// So many are connected now.
    pub(crate) fn connected(&self, count: usize) {
        self.connections.store(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn panicked(&self) {
        add(Some(&self.panics), 1);
    }

    /// `count` replies took as long as this.
    pub(crate) fn took(&self, time: Duration, count: usize) {
        let cell = TIMES.iter().zip(&self.took).find(|(bound, _)| time <= **bound);
        add(cell.map(|(_, cell)| cell), u64::try_from(count).unwrap_or(0));
    }
}

fn add(cell: Option<&AtomicU64>, count: u64) {
    if let Some(cell) = cell {
        cell.fetch_add(count, Ordering::Relaxed);
    }
}

/// Place of the type that is asked for in the question that `reply` repeats.
fn kind(reply: &[u8]) -> usize {
    let other = TYPES.len() - 1;
    let mut at = 12;
    while let Some(length) = reply.get(at).filter(|_| reply.get(5) == Some(&1)) {
        at += 1 + usize::from(*length);
        if *length == 0 {
            let [Some(high), Some(low)] = [reply.get(at), reply.get(at + 1)] else { break };
            let number = u16::from_be_bytes([*high, *low]);
            return TYPES.iter().position(|(_, one)| *one == number).unwrap_or(other);
        }
    }
    other
}

/// Place of the response code of `reply`. An extended one is not in the header; we know of one.
fn code(reply: &[u8]) -> usize {
    let [Some(high), Some(low), Some(answers)] = [reply.get(2), reply.get(3), reply.get(7)] else {
        return CODES.len() - 1;
    };
    let is_authoritative = high & 0x04 != 0;
    match usize::from(low & 0x0f) {
        0 if !is_authoritative && *answers == 0 => BAD_VERSION,
        code => code.min(CODES.len() - 1),
    }
}

/// What all sockets have counted since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Replies by transport, type asked for and response code; those that there were.
    pub replies: Vec<(Transport, &'static str, &'static str, u64)>,
    /// Replies that did not hold all.
    pub truncated: u64,
    /// Questions over which the answering code broke down; each got SERVFAIL.
    pub panics: u64,
    /// What got no reply, and connections that were given up.
    pub dropped: Vec<(Cause, u64)>,
    /// Replies by the time from when the question was read until its reply was sent, at most so long and longer than the one
    /// before.
    pub took: Vec<(Duration, u64)>,
    /// Connections that are open now.
    pub connections: u64,
}

impl Tally {
    pub(crate) fn of<'a>(all: impl IntoIterator<Item = &'a Counts> + Clone) -> Self {
        let sum = |cell: &dyn Fn(&Counts) -> u64| all.clone().into_iter().map(cell).sum::<u64>();
        let read = |cell: Option<&AtomicU64>| cell.map_or(0, |cell| cell.load(Ordering::Relaxed));
        let mut replies = Vec::new();
        for transport in [Transport::Udp, Transport::Tcp] {
            for (at, (kind, _)) in TYPES.iter().enumerate() {
                for (place, code) in CODES.iter().enumerate() {
                    let of = |counts: &Counts| {
                        let codes = counts.replies.get(transport as usize).and_then(|types| types.get(at));
                        read(codes.and_then(|codes| codes.get(place)))
                    };
                    replies.push((transport, *kind, *code, sum(&of)));
                }
            }
        }
        replies.retain(|(.., count)| *count > 0);
        let dropped =
            CAUSES.iter().enumerate().map(|(at, cause)| (*cause, sum(&|counts| read(counts.dropped.get(at)))));
        let took = TIMES.iter().enumerate().map(|(at, bound)| (*bound, sum(&|counts| read(counts.took.get(at)))));
        Self {
            replies,
            truncated: sum(&|counts| read(Some(&counts.truncated))),
            panics: sum(&|counts| read(Some(&counts.panics))),
            dropped: dropped.filter(|(_, count)| *count > 0).collect(),
            took: took.collect(),
            connections: sum(&|counts| read(Some(&counts.connections))),
        }
    }

    /// All replies.
    #[must_use]
    pub fn all_replies(&self) -> u64 {
        self.replies.iter().map(|(.., count)| count).sum()
    }

    /// How often something was dropped for this.
    #[must_use]
    pub fn dropped_for(&self, cause: Cause) -> u64 {
        self.dropped.iter().filter(|(one, _)| *one == cause).map(|(_, count)| count).sum()
    }
}
