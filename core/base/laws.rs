//! The one proof that a machine obeys the six laws of [`super::machine`].
//!
//! Whoever writes a machine writes a [`Subject`] beside it: the small world that the machine lives in, which draws
//! inputs and answers outputs (so that answers name live request ids). [`prove`] then lives many random lives of it.
//! Each life is a script of inputs, some of them at the very moment of a deadline, and is lived four times:
//!
//! | life | differs by | shows |
//! |---|---|---|
//! | plain | nothing | 4 at exact wake-ups, 6 |
//! | probed | after each change, clones are polled once more, woken early, twice and late | 1, 2, 4 |
//! | again | nothing | 3 |
//! | restless | a wake-up every 10 ms besides | 5 |
//!
//! Law 6 binds the driver, and the one here keeps it; a machine breaks it by leaving a due timer behind when an input
//! waits at the same time. A failing script is shrunk and printed as the life that it leads to.

mod life;
#[cfg(test)]
mod plants;

use super::{Instant, Machine, Rng};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::time::Duration;
use life::{Life, Mode, Moment};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

/// The small world that a machine lives in while it is proved.
pub trait Subject: Sized {
    /// The machine.
    type M: Machine;

    /// The longest time between two inputs of the script, and how long a life goes on after its last input. A few of
    /// the machine's own periods.
    const GAP_MAX: Duration;

    /// Draws a machine as it starts, and the world around it.
    fn begin(rng: &mut Rng) -> (Self, Self::M);

    /// Draws something that happens to the machine by itself.
    fn input(&mut self, rng: &mut Rng, now: Instant) -> <Self::M as Machine>::Input;

    /// What comes of an output, and after what time. Things asked for may also stay unanswered, or be answered twice.
    fn react(
        &mut self,
        output: &<Self::M as Machine>::Output,
        rng: &mut Rng,
        now: Instant,
    ) -> Vec<(Duration, <Self::M as Machine>::Input)>;
}

/// What was seen, so that a test can show that its proof was not an empty one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Proof {
    /// Inputs of the script.
    pub inputs: u64,
    /// Inputs that answered an output.
    pub answers: u64,
    /// Inputs that came at the very time of a wake-up.
    pub coincidences: u64,
    /// Wake-ups at a deadline.
    pub wakes: u64,
    /// Outputs.
    pub outputs: u64,
}

/// A law, by its number in [`super::machine`], that a machine broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Its number, 1 to 6.
    pub law: u8,
    /// When.
    pub at: Instant,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "law {} is broken at {}: {}", self.law, self.at, self.what)
    }
}

/// A life that broke a law (or panicked), as short as could be found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The law, or `None` for a panic.
    pub broken: Option<Broken>,
    /// What to show.
    pub text: String,
}

/// One line of a script.
#[derive(Clone, Copy, Debug)]
struct Step {
    when: When,
    /// What the input is drawn from.
    seed: u64,
}

/// When a step happens, after the one before.
#[derive(Clone, Copy, Debug)]
enum When {
    After(Duration),
    /// At the deadline that the machine has when the step before is done; at once, if it has none.
    AtDeadline,
}

#[derive(Clone, Debug)]
struct Script {
    seed: u64,
    steps: Vec<Step>,
}

const STEPS_MAX: usize = 24;

fn scripts(gap_max: Duration) -> impl Strategy<Value = Script> {
    let nanos = u64::try_from(gap_max.as_nanos()).unwrap_or(u64::MAX);
    let millis = u64::try_from(gap_max.as_millis()).unwrap_or(u64::MAX);
    let when = prop_oneof![
        1 => Just(When::After(Duration::ZERO)),
        2 => Just(When::AtDeadline),
        3 => (0..=millis).prop_map(|ms| When::After(Duration::from_millis(ms))),
        // Small gaps are as worth trying as large ones.
        3 => (0..=millis.max(1).ilog2(), any::<u64>())
            .prop_map(move |(log, bits)| When::After(Duration::from_millis((bits & ((2 << log) - 1)).min(millis)))),
        1 => (0..=nanos).prop_map(|ns| When::After(Duration::from_nanos(ns))),
    ];
    let step = (when, any::<u64>().no_shrink()).prop_map(|(when, seed)| Step { when, seed });
    (any::<u64>().no_shrink(), proptest::collection::vec(step, 0..STEPS_MAX))
        .prop_map(|(seed, steps)| Script { seed, steps })
}

/// Lives `cases` random lives of a machine and shows that it keeps the six laws in each. The lives are the same in
/// every run.
///
/// # Panics
/// If it breaks one, with the shortest such life that was found.
#[allow(clippy::panic, reason = "a failed proof is a failed test")]
pub fn prove<S: Subject>(cases: u32) -> Proof {
    check::<S>(cases).unwrap_or_else(|failure| panic!("{}", failure.text))
}

/// As [`prove`], but gives the failure.
///
/// # Errors
/// The shortest failing life that was found.
pub fn check<S: Subject>(cases: u32) -> Result<Proof, Failure> {
    let config = Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0),
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let proof = Cell::new(Proof::default());
    let broken = RefCell::new(None);
    let outcome = TestRunner::new(config).run(&scripts(S::GAP_MAX), |script| match check_script::<S>(&script) {
        Ok(seen) => {
            proof.set(proof.get() + seen);
            Ok(())
        }
        Err(found) => {
            let text = found.to_string();
            broken.replace(Some(found));
            Err(TestCaseError::fail(text))
        }
    });
    match outcome {
        Ok(()) => Ok(proof.get()),
        Err(proptest::test_runner::TestError::Abort(reason)) => {
            Err(Failure { broken: None, text: format!("no proof: {reason}") })
        }
        Err(proptest::test_runner::TestError::Fail(reason, script)) => {
            // The last failure that the runner saw is that of the shortest script, unless that one panicked.
            let broken = broken.take().filter(|broken: &Broken| broken.to_string() == reason.message());
            let title = broken.as_ref().map_or_else(|| format!("panicked: {reason}"), ToString::to_string);
            Err(Failure { broken, text: format!("{title}\n{}", life::transcript::<S>(&script)) })
        }
    }
}

fn check_script<S: Subject>(script: &Script) -> Result<Proof, Broken> {
    let plain = Life::<S>::live(script, Mode::Plain)?;
    let probed = Life::<S>::live(script, Mode::Probed)?;
    let again = Life::<S>::live(script, Mode::Plain)?;
    compare(3, "a second life with the same inputs", &plain, &again)?;
    compare(3, "a life in which only clones were woken", &plain, &probed)?;
    let restless = Life::<S>::live(script, Mode::Restless)?;
    compare(5, "a life with a wake-up every 10 ms besides", &plain, &restless)?;
    Ok(plain.iter().map(Moment::seen).fold(Proof::default(), core::ops::Add::add))
}

/// That two lives were the same.
fn compare<M: Machine>(law: u8, other: &str, plain: &[Moment<M>], lived: &[Moment<M>]) -> Result<(), Broken> {
    let pairs = plain.iter().map(Some).chain(core::iter::repeat(None));
    let pairs = pairs.zip(lived.iter().map(Some).chain(core::iter::repeat(None)));
    for (wanted, got) in pairs.take(plain.len().max(lived.len())) {
        let at = got.or(wanted).map_or(Instant::ZERO, |moment| moment.at);
        let differ = |what: String| Err(Broken { law, at, what: format!("{other} differs.\n{what}") });
        let (Some(wanted), Some(got)) = (wanted, got) else {
            let none = || String::from("  nothing\n");
            let (wanted, got) =
                (wanted.map_or_else(none, ToString::to_string), got.map_or_else(none, ToString::to_string));
            return differ(format!("wanted\n{wanted}got\n{got}"));
        };
        if (wanted.at, &wanted.cause, &wanted.outputs) != (got.at, &got.cause, &got.outputs) {
            return differ(format!("wanted\n{wanted}got\n{got}"));
        }
        if wanted.after != got.after {
            return differ(format!("wanted state {:#?}\ngot {:#?}", wanted.after, got.after));
        }
    }
    Ok(())
}

impl core::ops::Add for Proof {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            inputs: self.inputs + other.inputs,
            answers: self.answers + other.answers,
            coincidences: self.coincidences + other.coincidences,
            wakes: self.wakes + other.wakes,
            outputs: self.outputs + other.outputs,
        }
    }
}
