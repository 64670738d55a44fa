//! One peer: its sessions and its timers. The rules are those of chapter 6 of the paper, as Linux keeps them.

use super::crypto::{Chance, KEY};
use super::guard::Seals;
use super::handshake::Asked;
use super::message::STAMP;
use super::session::Session;
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tombolo_core::base::{Instant, Timers};
use tombolo_core::model::CableKey;

/// Who asked for a session asks for the next when it is as old.
pub const RENEW_AFTER: Duration = Duration::from_secs(120);
/// Or when it has sealed as much.
pub const RENEW_AFTER_MESSAGES: u64 = 1 << 60;
/// Or when something comes in a session that is as old: there may be nothing to send meanwhile.
pub const RENEW_AFTER_HEARD: Duration = Duration::from_secs(165);
/// Between two questions, at most.
const AGAIN: Duration = Duration::from_secs(5);
/// After the first question; then twice as long each time. The paper always waits for [`AGAIN`], and Linux does; but a
/// peer that boots hears nothing of the first question, and traffic must not wait for 5 s then. No implementation
/// minds: each takes questions of one peer 20 ms apart.
const AGAIN_FIRST: Duration = Duration::from_millis(500);
/// How long somebody is asked who does not answer.
const GIVE_UP: Duration = Duration::from_secs(90);
/// Silence after which a peer that was sent something is asked for a new session, and before which one that sent
/// something is told that it was heard.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Keys are forgotten this long after the last session began.
const FORGET: Duration = Duration::from_secs(540);
/// Packets kept while there is no session.
const WAITING_MAX: usize = 128;

/// Why a device wants to wake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// A question was not answered.
    AskAgain,
    /// What was sent may not arrive.
    Unanswered,
    /// A peer is to be told that it was heard.
    Acknowledge,
    /// The way to a peer is to be kept open.
    KeepOpen,
    /// Old keys are to be forgotten.
    Forget,
}

/// A key that both know besides; zero where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Shared(pub [u8; KEY]);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// A question that is not answered yet.
#[derive(Clone, PartialEq, Debug)]
pub struct Asking {
    /// Our number of the session asked for.
    pub number: u32,
    /// What was said.
    pub asked: Asked,
    /// When.
    pub at: Instant,
}

/// What passed between us and a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Bytes of messages that came and were right.
    pub received: u64,
    /// Bytes of messages sent.
    pub sent: u64,
    /// When the last session began.
    pub handshake: Option<Instant>,
    /// From our last question to its answer.
    pub round_trip: Option<Duration>,
}

/// A peer.
#[derive(Clone, PartialEq, Debug)]
pub struct Peer {
    /// Known besides.
    pub shared: Shared,
    /// Where it was heard last, or is dialled.
    pub endpoint: Option<SocketAddr>,
    /// How often it hears something from us at least.
    pub keep_open: Option<Duration>,
    /// What passed.
    pub tally: Tally,
    pub(super) seals: Seals,
    pub(super) asking: Option<Asking>,
    /// When the first of a series of questions was asked.
    pub(super) asking_since: Option<Instant>,
    /// The time stamp of its newest question: an older one is somebody's copy.
    pub(super) stamp: [u8; STAMP],
    /// When its last question was answered.
    pub(super) answered: Option<Instant>,
    pub(super) sessions: Sessions,
    pub(super) waiting: VecDeque<Vec<u8>>,
    /// Something came since the timer for [`Reason::Acknowledge`] was set.
    again: bool,
    pub(super) timers: Timers<Reason>,
}

/// The sessions with a peer. What both have shown to know is used; what only we know is not.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sessions {
    /// For what comes late.
    pub previous: Option<Session>,
    /// For what is sent.
    pub current: Option<Session>,
    /// Granted by us, and not heard of yet.
    pub next: Option<Session>,
}

impl Sessions {
    fn each(&mut self) -> [&mut Option<Session>; 3] {
        [&mut self.previous, &mut self.current, &mut self.next]
    }

    /// The one that we know by this number.
    pub fn get(&mut self, number: u32) -> Option<&mut Session> {
        self.each().into_iter().flatten().find(|session| session.number == number)
    }

    /// Takes in one that was granted to us. Gives the numbers that are free now.
    pub fn granted(&mut self, session: Session) -> Vec<u32> {
        let old = self.current.replace(session);
        let (kept, gone) = match self.next.take() {
            Some(next) => (Some(next), old),
            None => (old, None),
        };
        let oldest = std::mem::replace(&mut self.previous, kept);
        [gone, oldest].into_iter().flatten().map(|session| session.number).collect()
    }

    /// Takes in one that we granted. Gives the numbers that are free now.
    pub fn grant(&mut self, session: Session) -> Vec<u32> {
        let gone = [self.next.replace(session), self.previous.take()];
        gone.into_iter().flatten().map(|session| session.number).collect()
    }

    /// Something came in the one of this number. Gives the numbers that are free now, if that is news.
    pub fn confirm(&mut self, number: u32) -> Option<Vec<u32>> {
        let confirmed = self.next.take_if(|next| next.number == number)?;
        let old = self.current.replace(confirmed);
        let oldest = std::mem::replace(&mut self.previous, old);
        Some(oldest.into_iter().map(|session| session.number).collect())
    }

    /// Forgets all. Gives their numbers.
    pub fn clear(&mut self) -> Vec<u32> {
        self.each().into_iter().filter_map(Option::take).map(|session| session.number).collect()
    }
}

impl Peer {
    /// One of which only its key is known.
    pub(super) fn new(key: &CableKey) -> Self {
        Self {
            shared: Shared::default(),
            endpoint: None,
            keep_open: None,
            tally: Tally::default(),
            seals: Seals::new(key),
            asking: None,
            asking_since: None,
            stamp: [0; STAMP],
            answered: None,
            sessions: Sessions::default(),
            waiting: VecDeque::new(),
            again: false,
            timers: Timers::default(),
        }
    }

    /// The session in which something is sent now.
    pub(super) fn session(&mut self, now: Instant) -> Option<&mut Session> {
        self.sessions.current.as_mut().filter(|session| session.lives(now))
    }

    /// Whether it is time to ask for a session, as something is sent.
    pub(super) fn needs_session(&self, now: Instant) -> bool {
        self.sessions.current.as_ref().is_none_or(|session| {
            !session.lives(now)
                || session.asked && session.age(now) >= RENEW_AFTER
                || session.counter >= RENEW_AFTER_MESSAGES
        })
    }

    /// Whether a session began since it was first asked for one.
    pub(super) fn is_served(&self) -> bool {
        self.tally.handshake.zip(self.asking_since).is_some_and(|(began, since)| began > since)
    }

    /// Something was sent. What is empty wants no answer.
    pub(super) fn sent(&mut self, bytes: u64, is_empty: bool, now: Instant) {
        self.tally.sent = self.tally.sent.saturating_add(bytes);
        self.timers.clear(Reason::Acknowledge);
        self.again = false;
        if !is_empty && self.timers.get(Reason::Unanswered).is_none() {
            self.timers.set(Reason::Unanswered, now + KEEPALIVE + AGAIN + some(now.since_origin().subsec_micros()));
        }
        self.passed(now);
    }

    /// Something came, and is right.
    pub(super) fn heard(&mut self, bytes: u64, is_empty: bool, now: Instant) {
        self.tally.received = self.tally.received.saturating_add(bytes);
        self.timers.clear(Reason::Unanswered);
        if !is_empty {
            if self.timers.get(Reason::Acknowledge).is_none() {
                self.timers.set(Reason::Acknowledge, now + KEEPALIVE);
            } else {
                self.again = true;
            }
        }
        self.passed(now);
    }

    /// Something was sent or came.
    fn passed(&mut self, now: Instant) {
        if let Some(interval) = self.keep_open {
            self.timers.set(Reason::KeepOpen, now + interval);
        }
    }

    /// The peer is to be told that it was heard: again after a while, if it said more meanwhile.
    pub(super) fn acknowledged(&mut self, again: bool, now: Instant) {
        if again {
            self.timers.set(Reason::Acknowledge, now + KEEPALIVE);
        }
    }

    /// Takes note that more came than the first thing since the last acknowledgement.
    pub(super) fn take_again(&mut self) -> bool {
        std::mem::take(&mut self.again)
    }

    /// A question was sent.
    pub(super) fn asked(&mut self, asking: Asking, chance: &mut Chance, now: Instant) {
        let since = *self.asking_since.get_or_insert(now);
        let pause = (now.since(since) * 2).clamp(AGAIN_FIRST, AGAIN);
        self.asking = Some(asking);
        self.timers.set(Reason::AskAgain, now + pause + some(chance.number()));
        self.passed(now);
    }

    /// Whether it was asked for long enough.
    pub(super) fn is_mute(&self, now: Instant) -> bool {
        self.asking_since.is_some_and(|since| now.since(since) >= GIVE_UP)
    }

    /// Asks no more. Gives the number that is free now.
    pub(super) fn stop_asking(&mut self) -> Option<u32> {
        self.timers.clear(Reason::AskAgain);
        self.asking_since = None;
        self.asking.take().map(|asking| asking.number)
    }

    /// There are keys for a session.
    pub(super) fn has_keys(&mut self, now: Instant) {
        self.timers.set(Reason::Forget, now + FORGET);
    }

    /// Both have shown that they have them.
    pub(super) fn began(&mut self, now: Instant) {
        self.tally.handshake = Some(now);
    }

    /// Keeps a packet until there is a session; of too many, the newest.
    pub(super) fn wait(&mut self, packet: Vec<u8>) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(packet);
    }
}

/// A third of a second at most, so that two that ask each other at the same time do not go on doing so.
fn some(chance: u32) -> Duration {
    Duration::from_millis(u64::from(chance % 334))
}
