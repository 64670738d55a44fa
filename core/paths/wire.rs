//! The hello on the wire (`spec/failover.md` 4). Big endian.
//!
//! | field | bytes |
//! |---|---|
//! | magic, major, minor, kind, flags | 2, 1, 1, 1, 1 |
//! | cluster of the sender (hash), its slot or its node (hash) | 4, 4 |
//! | epoch, holder's slot or 0 | 8, 1 |
//! | count, then origins: side and slot, lacked and had, flags, 0, beat | 1, then 1, 1, 1, 1, 4 |
//! | count, then registers: other cluster (hash), version, claims, revoked | 1, then 4, 4, 2, 2 |
//! | both | 1 |
//! | digest of the sender's whole table | 4 |
//! | count, then clusters whose sessions are in a hurry (overlay only; in a cable the flag says it) | 1, then 4 |
//! | milliseconds between the receiver's reports (candidate to worker) | 2 |
//! | since minor 1: round and length of a question, round and longest length heard (in a cable) | 2, 2, 2, 2 |
//!
//! What follows is skipped: a later minor version may add fields, and a question is padded with zeros. A field's meaning never changes within a major one.

use super::carried::{HEADERS, Lengths, Mark};
use super::register::{PairSet, Register};
use super::slots::SlotSet;
use crate::base::hash::fnv1a;
use crate::base::{ClusterId, Epoch, NodeName, Slot};
use alloc::vec::Vec;

const MAGIC: u16 = 0x7462;
/// Sessions exist only between nodes of one major version.
pub const MAJOR: u8 = 1;
const MINOR: u8 = 1;
/// Since when hellos say something of lengths.
const MINOR_OF_LENGTHS: u8 = 1;
/// Registers in one hello: with all else it stays below the 1,280 bytes every IPv6 link carries.
pub const REGISTERS_MAX: usize = 90;

const KIND_CANDIDATE: u8 = 1;
const KIND_WORKER: u8 = 2;

const HEARS: u8 = 1;
const ASK: u8 = 2;
const SETTLED: u8 = 4;
const DRAIN: u8 = 8;
const HURRY: u8 = 16;

const ORIGIN_WORKERS: u8 = 1;
const ORIGIN_DRAIN: u8 = 2;

/// A cluster on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClusterHash(pub u32);

impl ClusterHash {
    /// Of this cluster.
    #[must_use]
    pub fn of(cluster: &ClusterId) -> Self {
        Self(fold(fnv1a(cluster.as_str().as_bytes())))
    }
}

/// A worker on the wire.
#[must_use]
pub fn worker_hash(node: &NodeName) -> u32 {
    fold(fnv1a(node.as_str().as_bytes()))
}

const fn fold(hash: u64) -> u32 {
    let [a, b, c, d, e, f, g, h] = hash.to_be_bytes();
    u32::from_be_bytes([a ^ e, b ^ f, c ^ g, d ^ h])
}

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// A gateway candidate.
    Candidate(Slot),
    /// A worker, by [`worker_hash`].
    Worker(u32),
}

/// Of which cluster an origin is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The sender's.
    Sender,
    /// The receiver's (in a cable).
    Receiver,
}

/// A candidate's beat and what its workers told it. Only the candidate itself raises the beat; others relay it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// A counter that wraps.
    pub beat: u32,
    /// Candidates that some settled worker lacks.
    pub lacked: SlotSet,
    /// Candidates that some worker has.
    pub had: SlotSet,
    /// Whether its cluster has workers.
    pub workers: bool,
    /// It wants to be replaced.
    pub drain: bool,
}

/// A hello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The sender's cluster.
    pub cluster: ClusterHash,
    /// The sender.
    pub sender: Sender,
    /// "I heard you within DOWN."
    pub hears: bool,
    /// "Answer at once."
    pub ask: bool,
    /// A worker's report counts as complaint.
    pub settled: bool,
    /// The sender wants to be replaced.
    pub drain: bool,
    /// In a cable: wake the sessions between our clusters.
    pub hurry: bool,
    /// Highest lease epoch known for the sender's cluster.
    pub epoch: Epoch,
    /// Who holds it.
    pub holder: Option<Slot>,
    /// Own and relayed origins.
    pub origins: Vec<(Side, Slot, Origin)>,
    /// Registers by the other cluster, seen from the sender.
    pub registers: Vec<(ClusterHash, Register)>,
    /// Worker: candidates with which its session is up.
    pub both: SlotSet,
    /// Of the sender's whole table.
    pub digest: u32,
    /// On the overlay: clusters whose sessions to wake.
    pub hurried: Vec<ClusterHash>,
    /// Candidate to worker: milliseconds between reports.
    pub report_ms: u16,
    /// In a cable: how long packets may be. None: the sender knows nothing of that.
    pub lengths: Option<Lengths>,
}

/// Why bytes are no hello for us.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// It ends too early.
    #[error("a hello cut short after {length} bytes")]
    Short {
        /// Its length.
        length: usize,
    },
    /// Something else speaks on our port.
    #[error("not a hello: it begins with {found:#06x}")]
    Magic {
        /// The first two bytes.
        found: u16,
    },
    /// Another protocol version.
    #[error("major version {found}, ours is {MAJOR}")]
    Major {
        /// The sender's.
        found: u8,
    },
    /// Neither candidate nor worker.
    #[error("a sender of unknown kind {found}")]
    Kind {
        /// The kind.
        found: u8,
    },
    /// A slot outside 1 to 4.
    #[error("slot {found} is not one of 1 to 4")]
    Slot {
        /// The number.
        found: u32,
    },
}

impl Hello {
    /// One that says nothing but who sends it, and who announces there.
    #[must_use]
    pub const fn new(cluster: ClusterHash, sender: Sender, epoch: Epoch, holder: Option<Slot>) -> Self {
        Self {
            cluster,
            sender,
            hears: false,
            ask: false,
            settled: false,
            drain: false,
            hurry: false,
            epoch,
            holder,
            origins: Vec::new(),
            registers: Vec::new(),
            both: SlotSet::EMPTY,
            digest: 0,
            hurried: Vec::new(),
            report_ms: 0,
            lengths: None,
        }
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let length = 42 + 8 * self.origins.len() + 12 * self.registers.len() + 4 * self.hurried.len();
        let mut out = Vec::with_capacity(length);
        let (kind, id) = match self.sender {
            Sender::Candidate(slot) => (KIND_CANDIDATE, u32::from(slot.get())),
            Sender::Worker(id) => (KIND_WORKER, id),
        };
        out.extend(MAGIC.to_be_bytes());
        out.extend([MAJOR, if self.lengths.is_some() { MINOR } else { 0 }, kind, self.flags()]);
        out.extend(self.cluster.0.to_be_bytes());
        out.extend(id.to_be_bytes());
        out.extend(self.epoch.0.to_be_bytes());
        out.push(self.holder.map_or(0, Slot::get));
        counted(&mut out, &self.origins, |out, (side, slot, origin)| {
            let side = match side {
                Side::Sender => 0,
                Side::Receiver => 0x10,
            };
            let flags = flag(origin.workers, ORIGIN_WORKERS) | flag(origin.drain, ORIGIN_DRAIN);
            out.extend([side | slot.get(), origin.lacked.bits() << 4 | origin.had.bits(), flags, 0]);
            out.extend(origin.beat.to_be_bytes());
        });
        counted(&mut out, &self.registers, |out, (cluster, register)| {
            out.extend(cluster.0.to_be_bytes());
            out.extend(register.version.to_be_bytes());
            out.extend(register.claims.bits().to_be_bytes());
            out.extend(register.revoked.bits().to_be_bytes());
        });
        out.push(self.both.bits());
        out.extend(self.digest.to_be_bytes());
        counted(&mut out, &self.hurried, |out, cluster| out.extend(cluster.0.to_be_bytes()));
        out.extend(self.report_ms.to_be_bytes());
        for mark in self.lengths.iter().flat_map(|lengths| [lengths.question, lengths.heard]) {
            out.extend(mark.round.to_be_bytes());
            out.extend(mark.length.to_be_bytes());
        }
        out
    }

    /// The same, as long as its question says: what it asks is whether such a packet is heard.
    #[must_use]
    pub fn encode_padded(&self) -> Vec<u8> {
        let mut bytes = self.encode();
        let length = self.lengths.map_or(0, |lengths| lengths.question.length);
        let length = usize::from(length.saturating_sub(HEADERS)).max(bytes.len());
        bytes.resize(length, 0);
        bytes
    }

    fn flags(&self) -> u8 {
        flag(self.hears, HEARS)
            | flag(self.ask, ASK)
            | flag(self.settled, SETTLED)
            | flag(self.drain, DRAIN)
            | flag(self.hurry, HURRY)
    }

    /// Reads a hello.
    ///
    /// # Errors
    /// A [`WireError`] that says what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut input = Reader { rest: bytes, length: bytes.len() };
        let magic = u16::from_be_bytes(input.take()?);
        if magic != MAGIC {
            return Err(WireError::Magic { found: magic });
        }
        let [major, minor, kind, flags] = input.take()?;
        if major != MAJOR {
            return Err(WireError::Major { found: major });
        }
        let cluster = ClusterHash(input.u32()?);
        let id = input.u32()?;
        let sender = match kind {
            KIND_CANDIDATE => Sender::Candidate(slot(id)?),
            KIND_WORKER => Sender::Worker(id),
            found => return Err(WireError::Kind { found }),
        };
        let epoch = Epoch(u64::from_be_bytes(input.take()?));
        let [holder] = input.take()?;
        Ok(Self {
            cluster,
            sender,
            hears: flags & HEARS != 0,
            ask: flags & ASK != 0,
            settled: flags & SETTLED != 0,
            drain: flags & DRAIN != 0,
            hurry: flags & HURRY != 0,
            epoch,
            holder: if holder == 0 { None } else { Some(slot(u32::from(holder))?) },
            origins: input.counted(Reader::origin)?,
            registers: input.counted(Reader::register)?,
            both: SlotSet::from_bits(input.take::<1>()?[0]),
            digest: input.u32()?,
            hurried: input.counted(|input| Ok(ClusterHash(input.u32()?)))?,
            report_ms: u16::from_be_bytes(input.take()?),
            lengths: if minor >= MINOR_OF_LENGTHS { Some(input.lengths()?) } else { None },
        })
    }
}

const fn flag(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

fn slot(found: u32) -> Result<Slot, WireError> {
    u8::try_from(found).ok().and_then(|n| Slot::try_from(n).ok()).ok_or(WireError::Slot { found })
}

/// At most 255 of `items`, with their count first. More are never built (see [`REGISTERS_MAX`]).
fn counted<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    let count = u8::try_from(items.len()).unwrap_or(u8::MAX);
    out.push(count);
    for item in items.iter().take(usize::from(count)) {
        write(out, item);
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Short { length: self.length })?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    fn counted<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, WireError>) -> Result<Vec<T>, WireError> {
        let [count] = self.take()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn mark(&mut self) -> Result<Mark, WireError> {
        Ok(Mark { round: u16::from_be_bytes(self.take()?), length: u16::from_be_bytes(self.take()?) })
    }

    /// A question that is not as long as it says was cut on the way, and proves nothing.
    fn lengths(&mut self) -> Result<Lengths, WireError> {
        let (question, heard) = (self.mark()?, self.mark()?);
        let is_whole = usize::from(question.length) == self.length + usize::from(HEADERS);
        Ok(Lengths { question: if is_whole { question } else { Mark::default() }, heard })
    }

    fn origin(&mut self) -> Result<(Side, Slot, Origin), WireError> {
        let [place, reports, flags, _] = self.take()?;
        let side = if place & 0x10 == 0 { Side::Sender } else { Side::Receiver };
        let origin = Origin {
            beat: self.u32()?,
            lacked: SlotSet::from_bits(reports >> 4),
            had: SlotSet::from_bits(reports),
            workers: flags & ORIGIN_WORKERS != 0,
            drain: flags & ORIGIN_DRAIN != 0,
        };
        Ok((side, slot(u32::from(place & 0x0f))?, origin))
    }

    fn register(&mut self) -> Result<(ClusterHash, Register), WireError> {
        let cluster = ClusterHash(self.u32()?);
        let version = self.u32()?;
        let claims = PairSet::from_bits(u16::from_be_bytes(self.take()?));
        let revoked = PairSet::from_bits(u16::from_be_bytes(self.take()?));
        // Version 0 is "nothing claimed": sets that came with it would be a claim that nothing beats and nobody made.
        let register = if version == 0 { Register::default() } else { Register { version, claims, revoked } };
        Ok((cluster, register))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::collection::vec as many;
    use proptest::prelude::*;

    fn slots() -> impl Strategy<Value = Slot> {
        (1u8..=4).prop_map(|n| Slot::try_from(n).unwrap())
    }

    fn origins() -> impl Strategy<Value = (Side, Slot, Origin)> {
        (any::<bool>(), slots(), any::<u32>(), 0u8..16, 0u8..16, any::<bool>(), any::<bool>()).prop_map(
            |(sender, slot, beat, lacked, had, workers, drain)| {
                let (lacked, had) = (SlotSet::from_bits(lacked), SlotSet::from_bits(had));
                let side = if sender { Side::Sender } else { Side::Receiver };
                (side, slot, Origin { beat, lacked, had, workers, drain })
            },
        )
    }

    fn registers() -> impl Strategy<Value = (ClusterHash, Register)> {
        (any::<u32>(), 1u32.., any::<u16>(), any::<u16>()).prop_map(|(cluster, version, claims, revoked)| {
            let (claims, revoked) = (PairSet::from_bits(claims), PairSet::from_bits(revoked));
            (ClusterHash(cluster), Register { version, claims, revoked })
        })
    }

    fn hellos() -> impl Strategy<Value = Hello> {
        let sender = prop_oneof![slots().prop_map(Sender::Candidate), any::<u32>().prop_map(Sender::Worker)];
        let head = (any::<u32>(), sender, any::<[bool; 5]>(), any::<u64>(), proptest::option::of(slots()));
        let lists = (many(origins(), 0..9), many(registers(), 0..5), many(any::<u32>(), 0..4));
        let tail = (any::<u16>(), proptest::option::of(any::<(u16, u16)>()));
        (head, lists, 0u8..16, any::<u32>(), tail).prop_map(
            |((cluster, sender, flags, epoch, holder), (origins, registers, hurried), both, digest, tail)| {
                let (report_ms, lengths) = tail;
                let [hears, ask, settled, drain, hurry] = flags;
                Hello {
                    cluster: ClusterHash(cluster),
                    sender,
                    hears,
                    ask,
                    settled,
                    drain,
                    hurry,
                    epoch: Epoch(epoch),
                    holder,
                    origins,
                    registers,
                    both: SlotSet::from_bits(both),
                    digest,
                    hurried: hurried.into_iter().map(ClusterHash).collect(),
                    report_ms,
                    lengths: lengths
                        .map(|(round, length)| Lengths { heard: Mark { round, length }, ..Lengths::default() }),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(hello in hellos()) {
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }

        #[test]
        fn trailing_fields_are_skipped(hello in hellos(), tail in many(any::<u8>(), 0..20)) {
            let mut bytes = hello.encode();
            bytes.extend(tail);
            prop_assert_eq!(Hello::decode(&bytes), Ok(hello));
        }

        #[test]
        fn a_question_is_as_long_as_it_says_and_one_that_was_cut_asks_nothing(
            hello in hellos(), round: u16, length in 576u16..1421, cut in 1usize..200
        ) {
            let question = Mark { round, length };
            let heard = hello.lengths.unwrap_or_default().heard;
            let asks = Hello { lengths: Some(Lengths { question, heard }), ..hello };
            let bytes = asks.encode_padded();
            prop_assert_eq!(bytes.len(), usize::from(length - HEADERS));
            prop_assert_eq!(Hello::decode(&bytes), Ok(asks.clone()));
            let cut = (bytes.len() - cut).max(asks.encode().len());
            let silent = Hello { lengths: Some(Lengths { question: Mark::default(), heard }), ..asks };
            prop_assume!(cut < bytes.len());
            prop_assert_eq!(Hello::decode(&bytes[..cut]), Ok(silent));
        }

        #[test]
        fn another_major_version_is_refused(hello in hellos(), found in any::<u8>()) {
            prop_assume!(found != MAJOR);
            let mut bytes = hello.encode();
            bytes[2] = found;
            prop_assert_eq!(Hello::decode(&bytes), Err(WireError::Major { found }));
        }

        #[test]
        fn a_hello_cut_short_is_refused(hello in hellos(), keep in any::<prop::sample::Index>()) {
            let bytes = hello.encode();
            let length = keep.index(bytes.len());
            prop_assert_eq!(Hello::decode(&bytes[..length]), Err(WireError::Short { length }));
        }

        #[test]
        fn garbage_behind_a_good_head_never_panics(
            tail in many(any::<u8>(), 0..200), hello in hellos(), flips in many((any::<prop::sample::Index>(), any::<u8>()), 0..5)
        ) {
            let mut bytes = vec![0x74, 0x62, MAJOR, 0, KIND_WORKER];
            bytes.extend(&tail);
            let _ = Hello::decode(&bytes);
            let _ = Hello::decode(&tail);
            let mut bytes = hello.encode();
            for (at, value) in flips {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            let _ = Hello::decode(&bytes);
        }
    }

    #[test]
    fn errors_say_what_was_found() {
        assert_eq!(Hello::decode(b"GET / HTTP/1.1").unwrap_err().to_string(), "not a hello: it begins with 0x4745");
        assert_eq!(Hello::decode(b"tb").unwrap_err().to_string(), "a hello cut short after 2 bytes");
    }

    #[test]
    fn a_full_hello_fits_the_smallest_ipv6_link() {
        let slot = Slot::all()[0];
        let hello = Hello {
            origins: vec![(Side::Sender, slot, Origin::default()); 4],
            registers: vec![(ClusterHash(2), Register::default()); REGISTERS_MAX],
            lengths: Some(Lengths::default()),
            ..Hello::new(ClusterHash(1), Sender::Candidate(slot), Epoch(1), None)
        };
        assert!(hello.encode().len() + 48 <= 1280, "{} bytes", hello.encode().len());
    }

    #[test]
    fn hashes_on_the_wire_never_change() {
        assert_eq!(ClusterHash::of(&ClusterId::new("east").unwrap()), ClusterHash(0x3f2a_545c));
    }
}
