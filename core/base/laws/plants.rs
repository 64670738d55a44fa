//! Machines that each break one law, and the proof that it is noticed.

use super::*;
use crate::base::{Timers, drain};
use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicU64, Ordering};

/// Which bug is in the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    Honest,
    /// 1: says that it has no more, and then has.
    Hiccup,
    /// 1: never has no more.
    Chatter,
    /// 2: an early wake-up moves the deadline.
    Eager,
    /// 2: each wake-up at the deadline says it again.
    Stutter,
    /// 3: what it says comes from outside.
    Ghost,
    /// 4: goes on from the deadline and not from now: woken late, it is late for ever.
    CatchesUp,
    /// 4: takes a deadline for due only when it is over.
    Hesitates,
    /// 5: counts wake-ups where no comparison sees it.
    Counts,
    /// 6: at a wake-up, does one thing only, though two are due.
    OneAtATime,
    /// No law: panics on the third input.
    Panics,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Why {
    Beat,
    /// The other side was silent for too long.
    Silence,
}

#[derive(Clone, PartialEq, Debug)]
enum Say {
    Beat(u64),
    Silent,
    Heard(u64),
}

/// A small honest machine: beats every second, answers what it hears, and complains after a second of silence. With a
/// bug in it, on demand.
#[derive(Clone, Debug)]
struct Small {
    bug: Bug,
    timers: Timers<Why>,
    out: VecDeque<Say>,
    beats: u64,
    heard: u64,
    paused: bool,
    /// Not compared: the bug `Counts`.
    wakes: u64,
}

impl PartialEq for Small {
    fn eq(&self, other: &Self) -> bool {
        (&self.timers, &self.out, self.beats, self.heard, self.paused)
            == (&other.timers, &other.out, other.beats, other.heard, other.paused)
    }
}

const SECOND: Duration = Duration::from_secs(1);
static GHOST: AtomicU64 = AtomicU64::new(0);

impl Small {
    fn new(bug: Bug) -> Self {
        let timers = Timers::default();
        Self { bug, timers, out: VecDeque::new(), beats: 0, heard: 0, paused: false, wakes: 0 }
    }

    fn beat(&mut self, due: Instant, now: Instant) {
        self.beats += 1;
        self.out.push_back(Say::Beat(self.beats));
        let from = if self.bug == Bug::CatchesUp { due } else { now };
        self.timers.set(Why::Beat, from + SECOND);
    }
}

impl Machine for Small {
    type Input = u64;
    type Output = Say;
    type Reason = Why;

    fn handle(&mut self, input: u64, now: Instant) {
        self.heard += 1;
        assert!(self.bug != Bug::Panics || self.heard < 3, "three are too many");
        let ghost = if self.bug == Bug::Ghost { GHOST.fetch_add(1, Ordering::Relaxed) } else { 0 };
        self.out.push_back(Say::Heard(input + ghost));
        self.timers.set(Why::Silence, now + SECOND);
        if self.timers.get(Why::Beat).is_none() {
            self.timers.set(Why::Beat, now + SECOND);
        }
    }

    fn poll_output(&mut self) -> Option<Say> {
        if self.bug == Bug::Hiccup && self.out.len() == 1 && !self.paused {
            self.paused = true;
            return None;
        }
        self.paused = false;
        let next = self.out.pop_front();
        if self.bug == Bug::Chatter && self.heard > 0 { next.or(Some(Say::Silent)) } else { next }
    }

    fn poll_timeout(&self) -> Option<(Instant, Why)> {
        self.timers.next()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.wakes += 1;
        if self.bug == Bug::Counts && self.wakes.is_multiple_of(64) {
            self.out.push_back(Say::Beat(self.wakes));
        }
        if self.bug == Bug::Eager && self.timers.get(Why::Beat).is_some_and(|due| due > now) {
            self.timers.set(Why::Beat, now + SECOND);
        }
        if self.bug == Bug::Stutter && self.beats > 0 {
            self.out.push_back(Say::Beat(self.beats));
        }
        let all = [Why::Beat, Why::Silence].into_iter().filter_map(|why| Some((self.timers.get(why)?, why)));
        let mut due: Vec<_> = all.filter(|(at, _)| *at < now || (*at == now && self.bug != Bug::Hesitates)).collect();
        if self.bug == Bug::OneAtATime {
            due.truncate(1);
        }
        for (at, why) in due {
            self.timers.clear(why);
            match why {
                Why::Beat => self.beat(at, now),
                Why::Silence => self.out.push_back(Say::Silent),
            }
        }
    }
}

macro_rules! worlds {
    ($($name:ident),*) => {$(
        /// A world that says a number now and then and sometimes answers a beat.
        struct $name;

        impl Subject for $name {
            type M = Small;
            const GAP_MAX: Duration = Duration::from_secs(3);

            fn begin(_rng: &mut Rng) -> (Self, Small) {
                (Self, Small::new(Bug::$name))
            }

            fn input(&mut self, rng: &mut Rng, _now: Instant) -> u64 {
                rng.below(10)
            }

            fn react(&mut self, output: &Say, rng: &mut Rng, _now: Instant) -> Vec<(Duration, u64)> {
                match output {
                    Say::Beat(number) if rng.chance(300_000) => {
                        [(rng.duration(Duration::ZERO, SECOND), *number)].into()
                    }
                    Say::Beat(_) | Say::Silent | Say::Heard(_) => Vec::new(),
                }
            }
        }
    )*};
}

worlds!(Honest, Hiccup, Chatter, Eager, Stutter, Ghost, CatchesUp, Hesitates, Counts, OneAtATime, Panics);

fn broken_by<S: Subject>() -> u8 {
    check::<S>(64).unwrap_err().broken.unwrap().law
}

#[test]
fn an_honest_machine_is_proved_and_the_proof_is_not_empty() {
    let proof = prove::<Honest>(64);
    assert!(proof.inputs > 500 && proof.answers > 50 && proof.coincidences > 50, "{proof:?}");
    assert!(proof.wakes > 500 && proof.outputs > 500, "{proof:?}");
}

#[test]
fn law_1_catches_an_output_after_the_last_one() {
    assert_eq!(broken_by::<Hiccup>(), 1);
}

#[test]
fn law_1_catches_a_machine_that_is_never_drained() {
    assert_eq!(broken_by::<Chatter>(), 1);
}

#[test]
fn law_2_catches_an_early_wake_up_that_moves_the_deadline() {
    assert_eq!(broken_by::<Eager>(), 2);
}

#[test]
fn law_2_catches_a_second_wake_up_that_speaks_again() {
    assert_eq!(broken_by::<Stutter>(), 2);
}

#[test]
fn law_3_catches_what_comes_from_outside() {
    assert_eq!(broken_by::<Ghost>(), 3);
}

#[test]
fn law_4_catches_a_machine_that_catches_up_step_by_step() {
    assert_eq!(broken_by::<CatchesUp>(), 4);
}

#[test]
fn law_4_catches_a_deadline_that_is_due_only_when_over() {
    assert_eq!(broken_by::<Hesitates>(), 4);
}

#[test]
fn law_5_catches_hidden_counting_of_wake_ups() {
    assert_eq!(broken_by::<Counts>(), 5);
}

/// An input that makes both timers due a second later, and an input at that very moment.
fn coincidence() -> Script {
    let step = |when| Step { when, seed: 0 };
    Script { seed: 0, steps: [step(When::After(Duration::ZERO)), step(When::AtDeadline)].into() }
}

#[test]
fn law_6_catches_a_due_timer_that_an_input_overtakes() {
    let broken = Life::<OneAtATime>::live(&coincidence(), Mode::Plain).unwrap_err();
    assert_eq!((broken.law, broken.at), (6, Instant::ZERO + SECOND));
    // With no input at the same time it is law 4 that such a machine breaks, and either may show first.
    assert!(matches!(broken_by::<OneAtATime>(), 4 | 6));
}

#[test]
fn law_6_catches_a_driver_that_lets_inputs_go_first() {
    assert!(Life::<Honest>::live(&coincidence(), Mode::Plain).is_ok());
    let broken = Life::<Honest>::live(&coincidence(), Mode::InputsFirst).unwrap_err();
    assert_eq!((broken.law, broken.at), (6, Instant::ZERO + SECOND));
}

#[test]
fn a_failing_life_is_short_and_can_be_read() {
    let failure = check::<Panics>(64).unwrap_err();
    assert_eq!(failure.broken, None);
    assert_eq!(failure.text.matches(" input ").count(), 2, "{}", failure.text);
    assert!(failure.text.starts_with("panicked: three are too many"), "{}", failure.text);
    assert!(failure.text.contains("PANIC at the next call"), "{}", failure.text);
}

#[test]
fn an_honest_machine_says_what_it_should() {
    let mut machine = Small::new(Bug::Honest);
    machine.handle(7, Instant::ZERO);
    machine.handle_timeout(Instant::ZERO + SECOND);
    assert_eq!(drain(&mut machine), [Say::Heard(7), Say::Beat(1), Say::Silent]);
}
