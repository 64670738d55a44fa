//! How long the packets are that a cable carries in one direction, measured with hellos that are padded (the manner of
//! RFC 8899).
//!
//! A *round* asks about one or more lengths at once. For each it sends hellos of just that length, a few times, and says in
//! them which round it is; the other end says in all its hellos which round it heard last, and the longest of it. So it
//! matters little what is lost by chance: only what never comes through, in a session that is up all the while, is too long.
//!
//! ```text
//!            ┌────────── comes through ──────────┐
//!            ▼                                   │
//!   all the link takes ── never comes ──> search: lengths between what carries and what does not, until they meet
//!            ▲                                   │
//!            │   carries more again              ▼
//!            └──────── raise, every RAISE ──── rest: confirm, every CONFIRM
//! ```
//! What carries is lowered as soon as something less is known to, and raised only at the end of a search. Nothing is known
//! of a peer that does not answer such questions: it gets what the link takes, as before.

use super::timing::{AGAIN, CONFIRM, CONFIRM_SLOW, RAISE};
use super::wake::{Reason, Wake};
use crate::base::{Instant, Slot};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// What a cable's link takes: an IPv6 packet with what WireGuard puts around it is 1500 bytes long.
pub const LONGEST: u16 = 1420;
/// The shortest length that is asked about; every IPv4 host takes as much.
pub const LEAST: u16 = 576;
/// Bytes of IPv6 and UDP around a hello in a cable.
pub const HEADERS: u16 = 48;

/// What every link of IPv6 takes (RFC 8200 5).
const IPV6_LEAST: u16 = 1280;

/// Lengths that one round asks about at most.
const FAN: u16 = 8;
/// What is known to carry and what is not may stay so far apart.
const FINE: u16 = 4;
/// How often a length is sent before it is believed not to carry any more: by chance that happens once in a thousand years
/// at 20% loss, and once in five hours at 50%.
const TRIES: u8 = 12;
/// The same where other lengths of the round are answered, or nothing is known yet.
const SEARCH_TRIES: u8 = 5;
/// The same where nothing is expected.
const RAISE_TRIES: u8 = 3;
/// For how many times [`AGAIN`] the last answer of a round is waited for. A round, with this, is longer than a session that
/// was cut stays up.
const WAITS: u8 = 6;

/// Which round, and which length of it; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// Number of the round.
    pub round: u16,
    /// Bytes of the packet.
    pub length: u16,
}

impl Mark {
    /// No length of no round.
    pub const NONE: Self = Self { round: 0, length: 0 };
}

/// What a hello says of lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lengths {
    /// It is as long as this says, and asks whether it was heard.
    pub question: Mark,
    /// The last round of the other end's, and the longest that was heard of it.
    pub heard: Mark,
}

/// What a cable carries in the direction away from this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Carried {
    /// Not measured yet, or the other end takes no part.
    #[default]
    Unknown,
    /// Packets of up to so many bytes; at most [`LONGEST`].
    UpTo(u16),
    /// Hellos, but not even packets of [`LEAST`] bytes.
    Nothing,
}

impl Carried {
    /// The longest packet to send, where that is known.
    #[must_use]
    pub const fn longest(self) -> Option<u16> {
        match self {
            Self::Unknown => None,
            Self::UpTo(length) => Some(length),
            Self::Nothing => Some(LEAST),
        }
    }
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("packets of a length that is not known"),
            Self::UpTo(length) if *length < IPV6_LEAST => {
                write!(
                    f,
                    "packets of {length} bytes, less than IPv6 asks of a link: only its TCP is sure to get through"
                )
            }
            Self::UpTo(length) => write!(f, "packets of {length} bytes"),
            Self::Nothing => write!(f, "hellos, but not packets of {LEAST} bytes: the clamp is not effective"),
        }
    }
}

/// What the cables to the candidates of one cluster carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CarriedBySlot([Carried; Slot::COUNT as usize]);

impl CarriedBySlot {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self([Carried::Unknown; Slot::COUNT as usize]);

    /// To this candidate.
    #[must_use]
    pub const fn get(&self, slot: Slot) -> Carried {
        self.0[slot.get() as usize - 1]
    }

    pub(crate) const fn set(&mut self, slot: Slot, carried: Carried) {
        self.0[slot.get() as usize - 1] = carried;
    }
}

/// What a round is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// Does what carried still carry? At first: does all that the link takes?
    Confirm,
    /// How much does?
    Search,
    /// Does more than carried before?
    Raise,
}

/// A round under way.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Round {
    purpose: Purpose,
    /// Ascending.
    lengths: Vec<u16>,
    /// Known to carry; 0 if nothing is.
    low: u16,
    /// Known not to carry, or one more than is ever tried.
    high: u16,
    /// The longest that was answered; 0 if none was.
    answered: u16,
    tries: u8,
    /// When to try again, or to give up.
    at: Instant,
}

impl Round {
    const fn tries_max(&self) -> u8 {
        match self.purpose {
            Purpose::Confirm => TRIES,
            Purpose::Search => SEARCH_TRIES,
            Purpose::Raise => RAISE_TRIES,
        }
    }

    fn is_answered(&self) -> bool {
        self.lengths.last() == Some(&self.answered)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.is_answered() || self.at <= now && self.tries >= self.tries_max() + WAITS
    }
}

/// How a session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Line {
    /// Both ends hear each other.
    pub(super) is_up: bool,
    /// And it was heard so lately, for its pace, that what does not come through now is not lost to a cut.
    pub(super) is_sure: bool,
    /// It speaks often.
    pub(super) is_fast: bool,
}

/// The measurement of one session, and the answers to the other end's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Measurement {
    carried: Carried,
    /// The other end takes part.
    answers: bool,
    number: u16,
    round: Option<Round>,
    /// When the last search or confirmation ended.
    rested: Option<Instant>,
    raised: Instant,
    /// The longest of the other end's last round.
    heard: Mark,
    /// To be asked in this step.
    asks: Vec<Mark>,
}

impl Measurement {
    /// `number` is that of the first round, and best another one each time: the other end may hold an answer to a former
    /// self of this node.
    pub(super) const fn new(number: u16, now: Instant) -> Self {
        Self {
            carried: Carried::Unknown,
            answers: false,
            number,
            round: None,
            rested: None,
            raised: now,
            heard: Mark::NONE,
            asks: Vec::new(),
        }
    }

    pub(super) const fn carried(&self) -> Carried {
        self.carried
    }

    /// What to tell the other end.
    pub(super) const fn heard(&self) -> Mark {
        self.heard
    }

    /// Takes what a hello says of the other end's questions and of ours. True if it was a question.
    pub(super) fn hear(&mut self, Lengths { question, heard }: Lengths) -> bool {
        self.answers = true;
        if let Some(round) = self.round.as_mut().filter(|_| heard.round == self.number)
            && round.lengths.contains(&heard.length)
        {
            round.answered = round.answered.max(heard.length);
        }
        if question.length == 0 {
            return false;
        }
        let longest = if question.round == self.heard.round { self.heard.length } else { 0 };
        self.heard = Mark { length: longest.max(question.length), ..question };
        true
    }

    /// Asks what is due. True if an answer is waited for. A session that is not sure says nothing about lengths, and a
    /// round that is cut off begins again.
    pub(super) fn tick(&mut self, line: Line, now: Instant) -> bool {
        if let Some(round) = self.round.as_mut().filter(|_| !line.is_up) {
            round.tries = 0;
        }
        if !line.is_sure || !self.answers {
            return false;
        }
        if self.round.is_none() {
            self.begin(line, now);
        }
        while let Some(round) = self.round.take_if(|round| round.is_over(now)) {
            self.conclude(round, now);
        }
        let Some(round) = self.round.as_mut().filter(|round| round.at <= now) else { return false };
        round.tries += 1;
        round.at = now + AGAIN;
        if round.tries <= round.tries_max() {
            // Most cables carry all that their link takes: nothing else is asked at first.
            let at_first = if round.tries == 1 && round.high > LONGEST { LONGEST } else { 0 };
            let open = round.lengths.iter().filter(|length| **length > round.answered && **length >= at_first);
            self.asks.extend(open.map(|length| Mark { round: self.number, length: *length }));
        }
        true
    }

    /// What is to be asked in this step.
    pub(super) fn take_asks(&mut self) -> Vec<Mark> {
        core::mem::take(&mut self.asks)
    }

    pub(super) fn wake(&self, line: Line, wake: &mut Wake) {
        if !line.is_sure || !self.answers {
            return;
        }
        match &self.round {
            Some(round) => wake.at(round.at, Reason::Length),
            None => wake.also([self.confirm_at(line), self.raise_at()].into_iter().flatten().min().map(because)),
        }
    }

    fn confirm_at(&self, line: Line) -> Option<Instant> {
        self.rested.map(|rested| rested + if line.is_fast { CONFIRM } else { CONFIRM_SLOW })
    }

    fn raise_at(&self) -> Option<Instant> {
        let longest = self.carried.longest()?;
        (longest < LONGEST).then(|| self.raised + RAISE)
    }

    /// Begins the round that is due, if one is.
    fn begin(&mut self, line: Line, now: Instant) {
        if self.raise_at().is_some_and(|at| at <= now) {
            self.raised = now;
            let low = self.carried.longest().unwrap_or_default();
            self.ask(Purpose::Raise, between(low, LONGEST + 1), (low, LONGEST + 1), now);
        } else if self.confirm_at(line).is_none_or(|at| at <= now) {
            match self.carried {
                Carried::Unknown | Carried::Nothing => self.search((0, LONGEST + 1), now),
                Carried::UpTo(length) => self.ask(Purpose::Confirm, vec![length], (0, length + 1), now),
            }
        }
    }

    fn ask(&mut self, purpose: Purpose, lengths: Vec<u16>, (low, high): (u16, u16), now: Instant) {
        self.number = self.number.wrapping_add(1);
        self.round = Some(Round { purpose, lengths, low, high, answered: 0, tries: 0, at: now });
    }

    fn search(&mut self, (low, high): (u16, u16), now: Instant) {
        self.ask(Purpose::Search, between(low, high), (low, high), now);
    }

    fn conclude(&mut self, round: Round, now: Instant) {
        let Round { purpose, lengths, low, high, answered, .. } = round;
        let low = low.max(answered);
        let high = lengths.into_iter().find(|length| *length > answered).unwrap_or(high);
        match (purpose, answered) {
            (Purpose::Confirm, 0) => self.search((0, high), now),
            (Purpose::Confirm, _) => self.rest(Carried::UpTo(low), now),
            (Purpose::Raise, 0) => {}
            (Purpose::Search, 0) if low == 0 => self.rest(Carried::Nothing, now),
            (Purpose::Search | Purpose::Raise, _) if high - low <= FINE || low == LONGEST => {
                self.rest(Carried::UpTo(low), now);
            }
            (Purpose::Search | Purpose::Raise, _) => {
                if self.carried.longest().is_some_and(|before| before > low) {
                    self.carried = Carried::UpTo(low);
                }
                self.search((low, high), now);
            }
        }
    }

    fn rest(&mut self, carried: Carried, now: Instant) {
        if self.carried != carried {
            self.raised = now;
        }
        self.carried = carried;
        self.rested = Some(now);
    }
}

const fn because(at: Instant) -> (Instant, Reason) {
    (at, Reason::Length)
}

/// Some lengths between what carries and what does not: the least of all, if nothing is known to carry, and the longest, if
/// that may.
fn between(low: u16, high: u16) -> Vec<u16> {
    let ends = [(low == 0).then_some(LEAST), (high > LONGEST).then_some(LONGEST)];
    let (from, to) = (low.max(LEAST), high.min(LONGEST));
    let steps = (1..=FAN).map(|step| from + (to - from) * step / (FAN + 1));
    let lengths: BTreeSet<u16> = steps.filter(|length| *length > from).chain(ends.into_iter().flatten()).collect();
    lengths.into_iter().collect()
}
