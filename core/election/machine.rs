//! The machine.

use super::{Config, Input, Output, Reason};
use crate::base::{Epoch, Instant, Machine, Rng, Timers, Wall};
use crate::model::{ApiError, Lease, Version};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

/// `leaseDurationSeconds` of a released lease: the API allows no zero (client-go).
const RELEASED: Duration = Duration::from_secs(1);

/// One candidate. See the module docs.
#[derive(Clone, PartialEq, Debug)]
pub struct Election {
    config: Config,
    /// Who it is on the Lease.
    identity: String,
    /// No other host may hold the lease.
    alone: bool,
    jitter: Rng,
    /// The wall clock, and when it read so.
    wall: Option<(Wall, Instant)>,
    /// The highest epoch seen anywhere.
    seen: Epoch,
    /// Up to here nobody announces any more: the cluster left, and began anew.
    left: Epoch,
    /// The highest epoch that was heard of from elsewhere when it was news, and when.
    rival: Option<(Epoch, Instant)>,
    view: Option<View>,
    /// The view may be out of date in a way that matters to us: a write of ours is in doubt, or met another's.
    stale: bool,
    /// The epoch it announces in.
    term: Option<Epoch>,
    will: Will,
    flight: Option<Flight>,
    next_request: u64,
    /// What the last failed request failed of.
    trouble: Option<ApiError>,
    timers: Timers<Reason>,
    outputs: VecDeque<Output>,
}

/// The Lease as last read, or as last written by us.
#[derive(Clone, PartialEq, Debug)]
struct View {
    found: Option<(Lease, Version)>,
    /// When this content was first seen.
    changed: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Will {
    Stand,
    PauseUntil(Instant),
    Stop,
    Stopped,
}

/// The request without an answer.
#[derive(Clone, PartialEq, Debug)]
struct Flight {
    request: u64,
    task: Task,
    sent: Instant,
}

#[derive(Clone, PartialEq, Debug)]
enum Task {
    Read,
    /// Begin a term.
    Take(Lease),
    Renew(Lease),
    Release(Lease),
}

impl Election {
    /// A candidate that begins with its first [`Input::Wall`].
    #[must_use]
    pub fn new(config: Config) -> Self {
        let identity = format!("{}/{}", config.host, config.process);
        Self {
            jitter: Rng::stream(config.seed, &identity),
            identity,
            alone: false,
            config,
            wall: None,
            seen: Epoch(0),
            left: Epoch(0),
            rival: None,
            view: None,
            stale: false,
            term: None,
            will: Will::Stand,
            flight: None,
            next_request: 0,
            trouble: None,
            timers: Timers::default(),
            outputs: VecDeque::new(),
        }
    }

    /// The epoch it announces in, if it does.
    #[must_use]
    pub const fn epoch(&self) -> Option<Epoch> {
        self.term
    }

    /// The highest epoch it has seen anywhere, its own included.
    #[must_use]
    pub const fn seen(&self) -> Epoch {
        self.seen
    }

    /// The Lease as it last knew it: who holds it, and in which epoch.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.view.as_ref()?.found.as_ref().map(|(lease, _)| lease)
    }

    /// Whether it was stopped and has given up what it held.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.will == Will::Stopped
    }

    fn is_mine(&self, lease: &Lease) -> bool {
        lease.holder.as_deref() == Some(self.identity.as_str())
    }

    /// Whether it names an earlier process on this host.
    fn is_a_dead_ones(&self, lease: &Lease) -> bool {
        let process = lease.holder.as_deref().and_then(|holder| holder.strip_prefix(self.config.host.as_str()));
        process.is_some_and(|process| process.starts_with('/')) && !self.is_mine(lease)
    }

    /// Whether the Lease names us, as far as we know.
    fn holds(&self) -> bool {
        self.lease().is_some_and(|lease| self.is_mine(lease))
    }

    fn is_leaving(&self, now: Instant) -> bool {
        match self.will {
            Will::Stand => false,
            Will::PauseUntil(until) => now < until,
            Will::Stop | Will::Stopped => true,
        }
    }

    /// The next step, with no request in flight.
    fn act(&mut self, now: Instant) {
        self.timers.clear(Reason::Poll);
        if self.will == Will::Stop && !self.stale && !self.holds() {
            self.finish();
        } else if !self.stale && self.holds() && (self.term.is_some() || self.is_leaving(now)) {
            // The view is our own last write: no need to read it first.
            self.decide(now, now);
        } else {
            self.send(Task::Read, now);
        }
    }

    /// What to do about the Lease as it is in the view, which was asked for at `asked`.
    fn decide(&mut self, asked: Instant, now: Instant) {
        if let Some(epoch) = self.term {
            match self.lease() {
                Some(lease) if !(self.is_mine(lease) && lease.epoch <= epoch) => {
                    let holder = lease.holder.as_deref().unwrap_or("nobody");
                    let because = format!("the lease names {holder} in epoch {}", lease.epoch);
                    self.stand_down(because);
                }
                // Nobody else can have held it since; if it is missing, it is put back.
                Some(_) | None => return self.send(Task::Renew(self.lease_for(epoch, now)), now),
            }
        }
        if self.is_leaving(now) {
            match self.lease().filter(|lease| self.is_mine(lease)) {
                Some(lease) => self.send(Task::Release(self.released(lease, now)), now),
                None if self.will == Will::Stop => self.finish(),
                None => self.poll_after(asked, now),
            }
        } else if self.free_at().is_none_or(|at| at <= now) {
            let epoch = Epoch(self.seen.0.max(self.wall(now).unix_secs()).saturating_add(1));
            self.send(Task::Take(self.lease_for(epoch, now)), now);
        } else {
            self.poll_after(asked, now);
        }
    }

    /// When the lease in the view may be taken; `None`: at any time.
    fn free_at(&self) -> Option<Instant> {
        let view = self.view.as_ref()?;
        let patience = self.config.durations.lease;
        let (free, recorded) = match &view.found {
            // Nobody can have held it yet, or nobody else could.
            None if self.seen <= self.left || self.alone => (None, Epoch(0)),
            None => (Some(view.changed + patience), Epoch(0)),
            Some((lease, _)) if lease.holder.is_none() || self.is_mine(lease) || self.is_a_dead_ones(lease) => {
                (None, lease.epoch)
            }
            Some((lease, _)) => (Some(view.changed + lease.duration), lease.epoch),
        };
        // Somebody announced of whom the Lease knows nothing: it was lost, or set back.
        let unrecorded = self.rival.filter(|(epoch, _)| *epoch > recorded && !self.alone);
        let unrecorded = unrecorded.map(|(_, at)| at + patience);
        free.max(unrecorded)
    }

    /// Polls a retry period after `asked`, or earlier if something ends before.
    fn poll_after(&mut self, asked: Instant, now: Instant) {
        let retry = asked + self.jitter.jitter(self.config.durations.retry, 10);
        let pause_end = match self.will {
            Will::PauseUntil(until) => Some(until),
            Will::Stand | Will::Stop | Will::Stopped => None,
        };
        let free_at = if self.term.is_none() { self.free_at() } else { None };
        let earlier = [pause_end, free_at].into_iter().flatten().filter(|at| *at > now);
        let at = earlier.fold(retry, Instant::min);
        if at > now {
            self.timers.set(Reason::Poll, at);
        } else {
            self.act(now);
        }
    }

    fn send(&mut self, task: Task, now: Instant) {
        let request = self.next_request;
        self.next_request += 1;
        self.outputs.push_back(match &task {
            Task::Read => Output::Read { request },
            Task::Take(lease) | Task::Renew(lease) | Task::Release(lease) => {
                let expected =
                    self.view.as_ref().and_then(|view| view.found.as_ref()).map(|(_, version)| version.clone());
                Output::Write { request, lease: lease.clone(), expected }
            }
        });
        self.flight = Some(Flight { request, task, sent: now });
        self.timers.clear(Reason::Poll);
        self.timers.set(Reason::NoAnswer, now + self.config.durations.request_timeout());
    }

    /// Takes the request in flight, if it is this one.
    fn land(&mut self, request: u64, is_write: bool) -> Option<Flight> {
        let is_it = |flight: &mut Flight| flight.request == request && (flight.task != Task::Read) == is_write;
        let flight = self.flight.take_if(is_it)?;
        self.timers.clear(Reason::NoAnswer);
        Some(flight)
    }

    fn answered(&mut self, asked: Instant, result: Result<Option<(Lease, Version)>, ApiError>, now: Instant) {
        match result {
            Ok(found) => {
                let same =
                    |view: &View| view.found.as_ref().map(|(lease, _)| lease) == found.as_ref().map(|(lease, _)| lease);
                let changed = self.view.as_ref().filter(|view| same(view)).map_or(now, |view| view.changed);
                let epoch = found.as_ref().map_or(Epoch(0), |(lease, _)| lease.epoch);
                self.seen = self.seen.max(epoch);
                self.view = Some(View { found, changed });
                self.stale = false;
                self.decide(asked, now);
            }
            Err(error) => {
                self.unseen(error);
                self.poll_after(asked, now);
            }
        }
    }

    /// A read failed. A missing Lease has no version to tell that it was there meanwhile: its absence counts only
    /// while each poll sees it.
    fn unseen(&mut self, error: ApiError) {
        self.trouble = Some(error);
        self.view.take_if(|view| view.found.is_none());
    }

    fn written(&mut self, flight: Flight, result: Result<Version, ApiError>, now: Instant) {
        let (sent, task) = (flight.sent, flight.task);
        match (result, task) {
            (_, Task::Read) => {}
            (Ok(version), Task::Take(lease)) => {
                let epoch = lease.epoch;
                self.wrote(lease, version, now);
                if self.is_leaving(now) || epoch < self.seen {
                    return self.decide(sent, now);
                }
                self.term = Some(epoch);
                self.outputs.push_back(Output::Elected(epoch));
                self.renewed(sent, now);
            }
            (Ok(version), Task::Renew(lease)) => {
                self.wrote(lease, version, now);
                if self.term.is_some() { self.renewed(sent, now) } else { self.decide(sent, now) }
            }
            (Ok(version), Task::Release(lease)) => {
                self.wrote(lease, version, now);
                self.decide(sent, now);
            }
            (Err(error), Task::Renew(_) | Task::Release(_)) if error == ApiError::Conflict => {
                self.failed(error);
                self.send(Task::Read, now);
            }
            (Err(error), Task::Take(_) | Task::Renew(_) | Task::Release(_)) => {
                self.failed(error);
                self.poll_after(sent, now);
            }
        }
    }

    fn wrote(&mut self, lease: Lease, version: Version, now: Instant) {
        self.seen = self.seen.max(lease.epoch);
        self.view = Some(View { found: Some((lease, version)), changed: now });
        self.stale = false;
    }

    /// A write sent at `sent` has renewed the term.
    fn renewed(&mut self, sent: Instant, now: Instant) {
        self.trouble = None;
        self.timers.set(Reason::TermEnds, sent + self.config.durations.renew_deadline);
        self.poll_after(sent, now);
    }

    fn failed(&mut self, error: ApiError) {
        self.trouble = Some(error);
        self.stale = true;
    }

    fn stand_down(&mut self, because: String) {
        if let Some(epoch) = self.term.take() {
            self.timers.clear(Reason::TermEnds);
            self.outputs.push_back(Output::StoodDown { epoch, because });
        }
    }

    fn leave(&mut self, will: Will, because: String, now: Instant) {
        self.will = will;
        self.stand_down(because);
        if self.flight.is_none() && self.wall.is_some() {
            self.act(now);
        }
    }

    fn finish(&mut self) {
        self.will = Will::Stopped;
        self.flight = None;
        self.timers = Timers::default();
    }

    fn wall(&self, now: Instant) -> Wall {
        self.wall.map_or(Wall::default(), |(wall, at)| wall + now.since(at))
    }

    /// The Lease held by us in `epoch`, as the successor of the one in the view.
    fn lease_for(&self, epoch: Epoch, now: Instant) -> Lease {
        let wall = self.wall(now);
        let before = self.lease();
        let mine = before.filter(|lease| self.is_mine(lease));
        Lease {
            name: self.config.lease.clone(),
            holder: Some(self.identity.clone()),
            duration: self.config.durations.lease,
            acquired: mine.filter(|lease| lease.epoch == epoch).map_or(wall, |lease| lease.acquired),
            renewed: after(wall, before),
            transitions: match (before, mine) {
                (Some(before), None) => before.transitions.saturating_add(1),
                (Some(before), Some(_)) => before.transitions,
                (None, _) => 0,
            },
            epoch,
        }
    }

    /// `lease`, held by nobody. It keeps its epoch: that is where the next holder reads it.
    fn released(&self, lease: &Lease, now: Instant) -> Lease {
        let renewed = after(self.wall(now), Some(lease));
        Lease { holder: None, duration: RELEASED, acquired: renewed, renewed, ..lease.clone() }
    }
}

/// `wall`, or a little more: others see a renewal by its change, also if the wall clock was set back to the same time.
fn after(wall: Wall, before: Option<&Lease>) -> Wall {
    let same = before.is_some_and(|lease| lease.renewed == wall);
    if same { wall + Duration::from_micros(1) } else { wall }
}

impl Machine for Election {
    type Input = Input;
    type Output = Output;
    type Reason = Reason;

    fn handle(&mut self, input: Input, now: Instant) {
        if self.will == Will::Stopped {
            return;
        }
        match input {
            Input::Wall(wall) => {
                if self.wall.replace((wall, now)).is_none() {
                    self.act(now);
                }
            }
            Input::Seen(epoch) => {
                if epoch <= self.seen {
                    return;
                }
                self.seen = epoch;
                self.rival = Some((epoch, now));
                if self.term.is_some() {
                    // What we announce would be taken for old.
                    self.stand_down(format!("epoch {epoch} was seen elsewhere"));
                    if self.flight.is_none() {
                        self.act(now);
                    }
                }
            }
            Input::Left(epoch) => {
                self.left = self.left.max(epoch);
                self.seen = self.seen.max(epoch);
                if self.term.is_some_and(|term| term <= epoch) {
                    self.stand_down(format!("the cluster left in epoch {epoch}"));
                    if self.flight.is_none() {
                        self.act(now);
                    }
                }
            }
            Input::Alone(alone) => {
                let free = alone && !self.alone && self.term.is_none();
                self.alone = alone;
                if free && self.flight.is_none() && self.wall.is_some() {
                    self.act(now);
                }
            }
            Input::Answered { request, result } => {
                if let Some(flight) = self.land(request, false) {
                    self.answered(flight.sent, result, now);
                }
            }
            Input::Written { request, result } => {
                if let Some(flight) = self.land(request, true) {
                    self.written(flight, result, now);
                }
            }
            Input::Yield { for_ } => {
                let until = match self.will {
                    Will::PauseUntil(until) => until.max(now + for_),
                    Will::Stand => now + for_,
                    Will::Stop | Will::Stopped => return,
                };
                self.leave(Will::PauseUntil(until), format!("yields for {for_:?}"), now);
            }
            Input::Stop if self.will == Will::Stop => {}
            Input::Stop => {
                self.timers.set(Reason::GiveUp, now + self.config.durations.renew_deadline);
                self.leave(Will::Stop, "stopped".into(), now);
                if self.wall.is_none() {
                    self.finish();
                }
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        self.timers.next()
    }

    fn handle_timeout(&mut self, now: Instant) {
        // In this order also when woken late: it must not act as a holder after its time.
        for reason in [Reason::TermEnds, Reason::GiveUp, Reason::NoAnswer, Reason::Poll] {
            if self.timers.get(reason).is_none_or(|at| at > now) {
                continue;
            }
            self.timers.clear(reason);
            match reason {
                Reason::TermEnds => {
                    let deadline = self.config.durations.renew_deadline;
                    let trouble = self.trouble.as_ref().map_or_else(String::new, |trouble| format!(": {trouble}"));
                    self.stand_down(format!("not renewed for {deadline:?}{trouble}"));
                }
                Reason::GiveUp => self.finish(),
                Reason::NoAnswer => {
                    if let Some(flight) = self.flight.take() {
                        if flight.task == Task::Read {
                            self.unseen(ApiError::Unreachable);
                        } else {
                            self.failed(ApiError::Unreachable);
                        }
                        self.poll_after(flight.sent, now);
                    }
                }
                Reason::Poll => self.act(now),
            }
        }
    }
}
