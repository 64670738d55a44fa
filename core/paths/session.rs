//! One session: two neighbours that exchange hellos.

use super::carried::{Carried, Lengths, Line, Mark, Measurement};
use super::timing::{
    AGED, ANSWER, ASK, BACK_OFF, BACK_OFF_AFTER, BURST, BURST_AT_ONCE, BURST_HELLOS, DOWN, FRESH, HELLO,
    JITTER_PERCENT, SLOW, STAND_IN, SUSPECT,
};
use super::wake::{Reason, Wake};
use crate::base::{Instant, Rng};
use alloc::vec::Vec;
use core::time::Duration;

/// How often a session speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// Every HELLO, since then.
    Fast(Instant),
    /// Every SLOW, as an ask.
    Slow,
}

/// Hellos that tell a change: at once and twice more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Burst {
    left: u8,
    at: Instant,
    at_once: u8,
}

/// What a session wants to say in this step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// A hello.
    Hello,
    /// A hello that wants an answer.
    Ask,
}

/// State of a session at one end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Session {
    made: Instant,
    heard: Option<Instant>,
    hears_me: bool,
    up_at: Option<Instant>,
    pace: Pace,
    /// Whether it is the choice's and alive or an overlay's, or has been silent too long for its noise to be worth it.
    backs_off: bool,
    due: Instant,
    asked: Option<Instant>,
    answered: Option<Instant>,
    answer_at: Option<Instant>,
    burst: Option<Burst>,
    word: Option<Word>,
    /// Digest of the other end's table, as last heard.
    pub(super) digest: Option<u32>,
    /// How often the other end speaks (a worker of many: less than every HELLO).
    period: Duration,
    /// Of a session in a cable: how long its packets may be.
    measurement: Measurement,
}

impl Session {
    /// A new session, fast, whose first hello is due within HELLO.
    pub(super) fn new(now: Instant, rng: &mut Rng) -> Self {
        let wait = rng.duration(Duration::from_nanos(1), HELLO);
        let [.., high, low] = wait.subsec_nanos().to_be_bytes();
        Self {
            made: now,
            heard: None,
            hears_me: false,
            up_at: None,
            pace: Pace::Fast(now),
            backs_off: false,
            due: now + wait,
            asked: None,
            answered: None,
            answer_at: None,
            burst: None,
            word: None,
            digest: None,
            period: HELLO,
            measurement: Measurement::new(u16::from_be_bytes([high, low]), now),
        }
    }

    /// Sets how often the other end speaks; never less than HELLO.
    pub(super) fn expect(&mut self, period: Duration) {
        self.period = period.max(HELLO);
    }

    const fn slack(&self) -> Duration {
        self.period.saturating_sub(HELLO)
    }

    fn suspect_at(&self) -> Option<Instant> {
        self.heard.map(|heard| heard + SUSPECT + self.slack())
    }

    fn down_at(&self) -> Option<Instant> {
        self.heard.map(|heard| heard + DOWN + self.slack() * 4)
    }

    /// H1. `hears` is what the other end says of us.
    pub(super) fn hear(&mut self, hears: bool, ask: bool, now: Instant) {
        if self.heard.is_none() {
            self.due = now;
        }
        let back = now >= self.heard.unwrap_or(self.made) + BACK_OFF_AFTER;
        self.heard = Some(now);
        self.hears_me = hears;
        if hears {
            self.up_at = Some(now);
        }
        if back && self.is_fast() {
            self.due = self.due.min(now + HELLO);
        }
        if ask {
            self.answer(now);
        }
    }

    fn answer(&mut self, now: Instant) {
        let at = self.answered.map_or(now, |last| now.max(last + ANSWER));
        self.answer_at = Some(self.answer_at.map_or(at, |before| before.min(at)));
    }

    /// What a hello says of lengths. A question is answered at once.
    pub(super) fn hear_lengths(&mut self, lengths: Lengths, now: Instant) {
        if self.measurement.hear(lengths) {
            self.answer(now);
        }
    }

    /// What to say of the other end's questions.
    pub(super) const fn heard_lengths(&self) -> Lengths {
        Lengths { question: Mark::NONE, heard: self.measurement.heard() }
    }

    /// What it carries.
    pub(super) const fn carried(&self) -> Carried {
        self.measurement.carried()
    }

    fn line(&self, now: Instant) -> Line {
        let (is_up, is_fast) = (self.is_up(now), self.is_fast());
        Line { is_up, is_sure: is_up && !(is_fast && self.is_suspect(now)), is_fast }
    }

    /// Asks for lengths, if that is due. A slow session is kept awake for as long as there is something to ask.
    pub(super) fn measure(&mut self, now: Instant) {
        if self.measurement.tick(self.line(now), now) && !self.is_fast() {
            self.say(Word::Ask);
        }
    }

    /// Questions to be sent in this step.
    pub(super) fn take_questions(&mut self) -> Vec<Mark> {
        self.measurement.take_asks()
    }

    /// "I hear you."
    pub(super) fn hears(&self, now: Instant) -> bool {
        self.down_at().is_some_and(|down| now < down)
    }

    /// Heard, but not within DOWN.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        self.down_at().is_some_and(|down| now >= down)
    }

    /// Heard within DOWN, and so were we.
    pub(super) fn is_up(&self, now: Instant) -> bool {
        self.hears_me && self.hears(now)
    }

    /// Heard lately enough for a claim.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.heard.is_some_and(|heard| now < heard + FRESH)
    }

    /// Silent between SUSPECT and DOWN.
    pub(super) fn is_suspect(&self, now: Instant) -> bool {
        self.suspect_at().is_some_and(|at| now >= at) && self.hears(now)
    }

    /// Whether its cable may stand in for the chosen one as if it were up (rule F2): it is up; or it is slow and was up
    /// when last tried, or it was woken and has not had the time to answer. Going by `is_up` alone, a slow session would
    /// be up for 400 ms in each 10 s, and the routes would follow.
    pub(super) fn stands_in(&self, now: Instant) -> bool {
        if self.is_up(now) {
            return true;
        }
        let lately = self.up_at.is_some_and(|up| now < up + STAND_IN);
        lately
            && match self.pace {
                Pace::Slow => true,
                Pace::Fast(since) => now < since + DOWN,
            }
    }

    /// Whether it has missed the time at which a slow session is up again.
    pub(super) fn is_aged(&self, now: Instant) -> bool {
        self.up_at.is_none_or(|up| now >= up + AGED)
    }

    pub(super) const fn is_fast(&self) -> bool {
        matches!(self.pace, Pace::Fast(_))
    }

    /// T4. A session that turns fast asks at once. One that is suspect stays fast until it is known to be up or down:
    /// as a slow one it could stand in for the path on the strength of what was true before.
    pub(super) fn set_fast(&mut self, fast: bool, now: Instant) {
        match (self.pace, fast) {
            (Pace::Slow, true) => {
                self.pace = Pace::Fast(now);
                self.due = now + HELLO;
                self.say(Word::Ask);
            }
            (Pace::Fast(since), false) if !self.is_suspect(now) => {
                if !self.is_up(now) && now >= since + DOWN {
                    self.up_at = None;
                }
                self.pace = Pace::Slow;
            }
            (Pace::Fast(_), _) | (Pace::Slow, false) => {}
        }
    }

    /// T6. Whether its hellos may become rare when nobody answers for long.
    pub(super) fn set_backs_off(&mut self, backs_off: bool, now: Instant) {
        if self.backs_off && !backs_off && self.is_fast() {
            self.due = self.due.min(now + HELLO);
        }
        self.backs_off = backs_off;
    }

    pub(super) fn say(&mut self, word: Word) {
        if self.word != Some(Word::Ask) {
            self.word = Some(word);
        }
    }

    /// Tells a change: at once and twice more.
    pub(super) fn tell(&mut self, now: Instant) {
        let (at, at_once) = match self.burst {
            Some(running) if running.at_once >= BURST_AT_ONCE => (running.at, running.at_once),
            Some(running) => (now, running.at_once + 1),
            None => (now, 1),
        };
        self.burst = Some(Burst { left: BURST_HELLOS, at, at_once });
    }

    /// Whether a hello of a burst is due.
    pub(super) fn tells(&self, now: Instant) -> bool {
        self.burst.is_some_and(|burst| burst.at <= now)
    }

    /// T3 and T5, and what was put off: all that is due now. `every` is how often we speak on it if fast. T6: before
    /// `quiet_until` nothing is said to whom we never heard; the first word waits.
    pub(super) fn tick(&mut self, every: Duration, asks: bool, quiet_until: Instant, rng: &mut Rng, now: Instant) {
        if self.heard.is_none() && now < quiet_until {
            self.due = self.due.max(quiet_until);
            self.word = None;
            self.burst = None;
            return;
        }
        if asks && self.ask_at().is_some_and(|at| at <= now) && self.hears(now) {
            self.asked = Some(now);
            self.say(Word::Ask);
        }
        if self.due <= now {
            self.say(if self.is_fast() { Word::Hello } else { Word::Ask });
            let interval = match self.pace {
                Pace::Slow => SLOW,
                Pace::Fast(_) if self.backs_off && now >= self.heard.unwrap_or(self.made) + BACK_OFF_AFTER => BACK_OFF,
                Pace::Fast(_) => every,
            };
            self.due = now + rng.jitter(interval, JITTER_PERCENT);
        }
        if self.answer_at.is_some_and(|at| at <= now) {
            self.answer_at = None;
            self.answered = Some(now);
            self.say(Word::Hello);
        }
        if self.tells(now) {
            self.say(Word::Hello);
        }
    }

    /// What to say in this step, if anything; then the burst has one hello less.
    pub(super) fn take_word(&mut self, now: Instant) -> Option<Word> {
        if let Some(burst) = self.burst.as_mut().filter(|burst| burst.at <= now) {
            burst.left -= 1;
            burst.at = now + BURST;
            if burst.left == 0 {
                self.burst = None;
            }
        }
        self.word.take()
    }

    fn ask_at(&self) -> Option<Instant> {
        let suspect = self.suspect_at().filter(|_| self.is_fast())?;
        Some(self.asked.map_or(suspect, |asked| suspect.max(asked + ASK)))
    }

    /// Its deadlines.
    pub(super) fn wake(&self, wake: &mut Wake) {
        wake.at(self.due, Reason::Hello);
        if let Some(burst) = self.burst {
            wake.at(burst.at, Reason::Hello);
        }
        if let Some(at) = self.answer_at {
            wake.at(at, Reason::Answer);
        }
        if let (Some(at), Some(down)) = (self.ask_at(), self.down_at()) {
            if at < down {
                wake.at(at, Reason::Ask);
            }
            wake.at(down, Reason::Silent);
        }
    }

    /// The deadlines of a session in a cable.
    pub(super) fn wake_cable(&self, now: Instant, wake: &mut Wake) {
        self.wake(wake);
        if let Some(heard) = self.heard {
            wake.at(heard + FRESH, Reason::Silent);
        }
        if let Some(up) = self.up_at {
            wake.at(up + STAND_IN, Reason::Silent);
            wake.at(up + AGED, Reason::Silent);
        }
        if let Pace::Fast(since) = self.pace {
            wake.at(since + DOWN, Reason::Silent);
        }
        self.measurement.wake(self.line(now), wake);
    }
}
