//! One life of a machine: the driver that keeps the laws, and the probes that see whether the machine does.

use super::{Broken, Proof, Script, Subject, When};
use crate::base::{Instant, Machine, Rng};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::time::Duration;

/// A machine that says more than this at once is taken to never be drained.
const OUTPUTS_MAX: usize = 10_000;
/// A life ends after so many moments, whatever is left: a world that answers at once could go on for ever.
const MOMENTS_MAX: usize = 2_000;
/// How often a restless driver wakes the machine.
const RESTLESS: Duration = Duration::from_millis(10);

/// How a life is lived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// As the laws say.
    Plain,
    /// After each change, clones are tried.
    Probed,
    /// With wake-ups that nobody asked for.
    Restless,
    /// Against law 6: at equal times inputs go first. Only to show that this is noticed.
    InputsFirst,
}

/// Why a machine was called.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Cause<M: Machine> {
    Start,
    Scripted(M::Input),
    Answer(M::Input),
    Deadline(M::Reason),
    /// A wake-up that nobody asked for; of note only if something came of it.
    Restless,
    /// The end of the life, a moment without a call.
    End,
}

/// One call and what came of it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Moment<M: Machine> {
    pub at: Instant,
    pub cause: Cause<M>,
    pub outputs: Vec<M::Output>,
    pub after: M,
    /// Whether a wake-up took place at the same time just before.
    pub coincides: bool,
}

impl<M: Machine> Moment<M> {
    pub fn seen(&self) -> Proof {
        let (input, answer) = (matches!(self.cause, Cause::Scripted(_)), matches!(self.cause, Cause::Answer(_)));
        Proof {
            inputs: u64::from(input),
            answers: u64::from(answer),
            coincidences: u64::from(self.coincides && (input || answer)),
            wakes: u64::from(matches!(self.cause, Cause::Deadline(_))),
            outputs: u64::try_from(self.outputs.len()).unwrap_or(u64::MAX),
        }
    }
}

impl<M: Machine> fmt::Display for Moment<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match &self.cause {
            Cause::Start => "start".into(),
            Cause::Scripted(input) => format!("input    {input:?}"),
            Cause::Answer(input) => format!("answer   {input:?}"),
            Cause::Deadline(reason) => format!("deadline {reason:?}"),
            Cause::Restless => "wake-up that nobody asked for".into(),
            Cause::End => "end".into(),
        };
        writeln!(f, "  {:>16}  {cause}", format!("{}", self.at))?;
        self.outputs.iter().try_for_each(|output| writeln!(f, "  {:>16}      -> {output:?}", ""))
    }
}

enum Coming<I> {
    /// The step of this number.
    Step(usize),
    Answer(I),
}

/// What is done to the machine next.
enum Call<R> {
    Wake(R),
    Tick,
    Input,
}

pub(super) struct Life<'s, S: Subject> {
    script: &'s Script,
    mode: Mode,
    world: S,
    machine: S::M,
    /// Chance of the answers, and of the probes: apart, so that probing changes no answer.
    answers: Rng,
    probes: Rng,
    now: Instant,
    coming: BTreeMap<(Instant, u64), Coming<<S::M as Machine>::Input>>,
    queued: u64,
    next_tick: Instant,
    last_wake: Option<Instant>,
    end: Option<Instant>,
    moments: Vec<Moment<S::M>>,
}

impl<'s, S: Subject> Life<'s, S> {
    fn begin(script: &'s Script, mode: Mode) -> Self {
        let (world, machine) = S::begin(&mut Rng::stream(script.seed, "begin"));
        Self {
            script,
            mode,
            world,
            machine,
            answers: Rng::stream(script.seed, "answers"),
            probes: Rng::stream(script.seed, "probes"),
            now: Instant::ZERO,
            coming: BTreeMap::new(),
            queued: 0,
            next_tick: Instant::ZERO + RESTLESS,
            last_wake: None,
            end: None,
            moments: Vec::new(),
        }
    }

    /// Lives the whole of it.
    pub fn live(script: &'s Script, mode: Mode) -> Result<Vec<Moment<S::M>>, Broken> {
        let mut life = Self::begin(script, mode);
        life.run()?;
        Ok(life.moments)
    }

    fn run(&mut self) -> Result<(), Broken> {
        self.settle(Cause::Start)?;
        self.schedule_step(0);
        while self.advance()? {
            if self.moments.len() >= MOMENTS_MAX {
                return Ok(());
            }
        }
        self.now = self.end.unwrap_or(self.now);
        self.settle(Cause::End)
    }

    /// Lives up to and with the next call; `false` at the end.
    fn advance(&mut self) -> Result<bool, Broken> {
        // At equal times the lower rank goes first: law 6.
        let input_rank = if self.mode == Mode::InputsFirst { 0 } else { 3 };
        let wake = self.machine.poll_timeout().map(|(at, reason)| (at.max(self.now), 1, Call::Wake(reason)));
        let tick = (self.mode == Mode::Restless).then_some((self.next_tick, 2, Call::Tick));
        let input_at = self.coming.first_key_value().map(|((at, _), _)| *at);
        let input = input_at.map(|at| (at, input_rank, Call::Input));
        let next = [wake, tick, input].into_iter().flatten().min_by_key(|(at, rank, _)| (*at, *rank));
        let Some((at, _, call)) = next.filter(|(at, ..)| self.end.is_none_or(|end| *at <= end)) else {
            return Ok(false);
        };
        self.now = at;
        match call {
            Call::Wake(reason) => self.wake(reason, input_at == Some(at))?,
            Call::Tick => self.tick()?,
            Call::Input => self.deliver()?,
        }
        Ok(true)
    }

    fn wake(&mut self, reason: <S::M as Machine>::Reason, input_waits: bool) -> Result<(), Broken> {
        self.machine.handle_timeout(self.now);
        self.last_wake = Some(self.now);
        self.settle(Cause::Deadline(reason))?;
        match self.machine.poll_timeout() {
            Some((next, reason)) if next <= self.now && input_waits => {
                self.broken(6, format!("{reason:?} is still due at {next}, and an input waits"))
            }
            Some((next, reason)) if next <= self.now => {
                self.broken(4, format!("woken, it wants to be woken at {next} for {reason:?}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A wake-up that nobody asked for. What it changes shows in the moments after, too.
    fn tick(&mut self) -> Result<(), Broken> {
        self.next_tick = self.now + RESTLESS;
        self.machine.handle_timeout(self.now);
        let mut said = self.machine.clone();
        if said.poll_output().is_some() { self.settle(Cause::Restless) } else { Ok(()) }
    }

    fn deliver(&mut self) -> Result<(), Broken> {
        if let Some((due, reason)) = self.machine.poll_timeout().filter(|(due, _)| *due <= self.now) {
            return self.broken(6, format!("an input goes before {reason:?}, due at {due}"));
        }
        let Some((_, coming)) = self.coming.pop_first() else { return Ok(()) };
        match coming {
            Coming::Answer(input) => {
                self.machine.handle(input.clone(), self.now);
                self.settle(Cause::Answer(input))
            }
            Coming::Step(number) => {
                let seed = self.script.steps.get(number).map_or(0, |step| step.seed);
                let input = self.world.input(&mut Rng::new(seed), self.now);
                self.machine.handle(input.clone(), self.now);
                self.settle(Cause::Scripted(input))?;
                self.schedule_step(number + 1);
                Ok(())
            }
        }
    }

    fn schedule_step(&mut self, number: usize) {
        let Some(step) = self.script.steps.get(number) else {
            self.end = Some(self.now + S::GAP_MAX);
            return;
        };
        let at = match step.when {
            When::After(gap) => self.now + gap,
            When::AtDeadline => self.machine.poll_timeout().map_or(self.now, |(at, _)| at.max(self.now)),
        };
        self.queue(at, Coming::Step(number));
    }

    fn queue(&mut self, at: Instant, coming: Coming<<S::M as Machine>::Input>) {
        self.coming.insert((at, self.queued), coming);
        self.queued += 1;
    }

    /// Drains, lets the world answer, and notes the moment.
    fn settle(&mut self, cause: Cause<S::M>) -> Result<(), Broken> {
        let outputs = drain(&mut self.machine).map_err(|what| Broken { law: 1, at: self.now, what })?;
        for output in &outputs {
            for (delay, answer) in self.world.react(output, &mut self.answers, self.now) {
                self.queue(self.now + delay, Coming::Answer(answer));
            }
        }
        let coincides = self.last_wake == Some(self.now);
        self.moments.push(Moment { at: self.now, cause, outputs, after: self.machine.clone(), coincides });
        if self.mode == Mode::Probed { self.probe() } else { Ok(()) }
    }

    fn broken<T>(&self, law: u8, what: String) -> Result<T, Broken> {
        Err(Broken { law, at: self.now, what })
    }

    /// Tries clones of the drained machine: laws 1, 2 and 4.
    fn probe(&mut self) -> Result<(), Broken> {
        let mut twin = self.machine.clone();
        if let Some(output) = twin.poll_output() {
            return self.broken(1, format!("it had said that there was no more, and then said {output:?}"));
        }
        if twin != self.machine {
            return self.broken(1, format!("polled once more it became {twin:#?}"));
        }
        let far = Duration::from_secs(3_600);
        let Some((due, _)) = self.machine.poll_timeout() else {
            let some = self.probes.duration(Duration::ZERO, S::GAP_MAX);
            return [Duration::ZERO, some, far].into_iter().try_for_each(|wait| self.wake_idle(self.now + wait));
        };
        if due > self.now {
            let wait = due.since(self.now).saturating_sub(Duration::from_nanos(1));
            let some = self.probes.duration(Duration::ZERO, wait);
            for wait in [Duration::ZERO, some, wait] {
                self.wake_idle(self.now + wait)?;
            }
        }
        let due = due.max(self.now);
        let some = self.probes.duration(Duration::ZERO, S::GAP_MAX);
        [Duration::ZERO, some, far].into_iter().try_for_each(|late| self.wake_due(due + late))
    }

    /// A wake-up at `at`, which is before the deadline.
    fn wake_idle(&self, at: Instant) -> Result<(), Broken> {
        let mut twin = self.machine.clone();
        twin.handle_timeout(at);
        unmoved(&self.machine, twin)
            .map_or(Ok(()), |what| self.broken(2, format!("woken at {at}, before its deadline, {what}")))
    }

    /// A wake-up at `at`, which is not before the deadline, and a second one.
    fn wake_due(&self, at: Instant) -> Result<(), Broken> {
        let mut twin = self.machine.clone();
        twin.handle_timeout(at);
        drain(&mut twin).map_err(|what| Broken { law: 1, at, what })?;
        if let Some((next, reason)) = twin.poll_timeout().filter(|(next, _)| *next <= at) {
            return self.broken(4, format!("woken at {at}, it wants to be woken at {next} for {reason:?}"));
        }
        let mut again = twin.clone();
        again.handle_timeout(at);
        unmoved(&twin, again).map_or(Ok(()), |what| self.broken(2, format!("woken a second time at {at}, {what}")))
    }
}

fn drain<M: Machine>(machine: &mut M) -> Result<Vec<M::Output>, String> {
    let outputs: Vec<_> = core::iter::from_fn(|| machine.poll_output()).take(OUTPUTS_MAX).collect();
    if outputs.len() < OUTPUTS_MAX { Ok(outputs) } else { Err(format!("not drained after {OUTPUTS_MAX} outputs")) }
}

/// How `twin` differs from the silent `before`, if it does.
fn unmoved<M: Machine>(before: &M, mut twin: M) -> Option<String> {
    if let Some(output) = twin.poll_output() {
        return Some(format!("it said {output:?}"));
    }
    (twin != *before).then(|| format!("it became {twin:#?}\ninstead of staying {before:#?}"))
}

/// The plain life of `script` as far as it goes, to be read.
pub(super) fn transcript<S: Subject>(script: &Script) -> String {
    let mut life = Life::<S>::begin(script, Mode::Plain);
    // A machine that panics has a life too, up to there.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life.run()));
    let mut text = format!("The life, with nothing added (script of seed {}):\n", script.seed);
    for moment in &life.moments {
        let _ = write!(text, "{moment}");
    }
    if outcome.is_err() {
        let _ = writeln!(text, "  {:>16}  PANIC at the next call", "");
    }
    if let Some(last) = life.moments.last() {
        let _ = writeln!(text, "The machine after that:\n{:#?}", last.after);
    }
    text
}
