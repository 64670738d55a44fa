//! Which probes a scenario asks for.
//!
//! Expectations that look at the same thing share a *stream*: one source, one target, one kind of flow, a probe every
//! [`PROBE_EVERY`]. Streams follow from the scenario alone, and a probe's number tells its stream, so that whoever reads
//! a [`crate::Fact`] knows what was probed without asking the runner.

use crate::bounds::{CONVERGED_WITHIN, OUTCOME_GRACE, PROBE_EVERY, PROBE_TIMEOUT, TAIL};
use crate::{Expectation, Flow, NodeRef, ProbeId, ProbeTarget, Scenario, Target, When};
use core::time::Duration;
use tombolo_core::model::Protocol;

/// One source, one target, one kind of flow, probed again and again.
#[derive(Clone, PartialEq, Debug)]
pub struct Stream {
    /// From a pod on this node, looked up anew for each probe.
    pub from: NodeRef,
    /// To.
    pub to: ProbeTarget,
    /// One long flow rather than a fresh one for each probe.
    pub held: bool,
    /// When it is probed, as long as the run lasts.
    windows: Vec<(Duration, Duration)>,
}

impl Stream {
    /// Whether a probe begins at this moment.
    #[must_use]
    pub fn probes_at(&self, at: Duration) -> bool {
        at.as_nanos().is_multiple_of(PROBE_EVERY.as_nanos())
            && self.windows.iter().any(|(from, to)| (*from..=*to).contains(&at))
    }

    /// The port that it aims at by a name.
    #[must_use]
    pub fn port(&self) -> Option<(u16, Protocol)> {
        if let ProbeTarget::Fetch(Target::Name(_, port, protocol)) = &self.to { Some((*port, *protocol)) } else { None }
    }

    /// The name it resolves, if it resolves one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.to {
            ProbeTarget::Resolve(name) | ProbeTarget::Fetch(Target::Name(name, ..)) => Some(name),
            ProbeTarget::Fetch(Target::Address(..)) => None,
        }
    }
}

/// The streams of a scenario, in the order in which its expectations first need them.
#[must_use]
pub fn streams(scenario: &Scenario) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    for expectation in &scenario.expect {
        let Some((from, to, held)) = aim(expectation) else { continue };
        let window = window(expectation);
        match streams.iter_mut().find(|s| s.from == from && s.to == to && s.held == held) {
            Some(stream) => stream.windows.push(window),
            None => streams.push(Stream { from, to, held, windows: vec![window] }),
        }
    }
    streams
}

/// The stream that an expectation reads, as its place in `streams`.
#[must_use]
pub fn stream_of(streams: &[Stream], expectation: &Expectation) -> Option<usize> {
    let (from, to, held) = aim(expectation)?;
    streams.iter().position(|s| s.from == from && s.to == to && s.held == held)
}

/// Number of the `nth` probe of a stream.
#[must_use]
pub fn probe_id(stream: usize, nth: u32) -> ProbeId {
    ProbeId(((stream as u64) << 32) | u64::from(nth))
}

/// The stream of a probe, as its place in [`streams`].
#[must_use]
pub fn stream_of_probe(id: ProbeId) -> usize {
    usize::try_from(id.0 >> 32).unwrap_or(usize::MAX)
}

/// When a run of this scenario ends: late enough to see it converge after the last act, to judge every expectation, and
/// to watch that it stays so.
#[must_use]
pub fn end_of(scenario: &Scenario) -> Duration {
    let acted = scenario.timeline.iter().map(|act| act.at + CONVERGED_WITHIN).max();
    let expected = scenario.expect.iter().map(|expectation| match when(expectation) {
        When::By(at) | When::During(_, at) => at,
        When::Always => Duration::ZERO,
    });
    acted.into_iter().chain(expected).max().unwrap_or_default() + TAIL
}

/// When the last probe of a run that ends at `end` may begin, for its outcome to be known.
#[must_use]
pub fn last_probe(end: Duration) -> Duration {
    end.saturating_sub(PROBE_TIMEOUT + OUTCOME_GRACE)
}

fn aim(expectation: &Expectation) -> Option<(NodeRef, ProbeTarget, bool)> {
    match expectation {
        Expectation::Connect { from, to, .. } | Expectation::Refuse { from, to, .. } => {
            Some((from.clone(), ProbeTarget::Fetch(to.clone()), false))
        }
        Expectation::Outage { from, to, flow, .. } => {
            Some((from.clone(), ProbeTarget::Fetch(to.clone()), *flow == Flow::Held))
        }
        Expectation::Dns { from, name, .. } => Some((from.clone(), ProbeTarget::Resolve(name.clone()), false)),
        Expectation::Unchanged { .. } | Expectation::Refused { .. } | Expectation::Settled { .. } => None,
    }
}

/// `by` is watched from the start, since the moment at which it came true is told, and to the end.
fn window(expectation: &Expectation) -> (Duration, Duration) {
    match when(expectation) {
        When::By(_) | When::Always => (Duration::ZERO, Duration::MAX),
        When::During(from, to) => (from, to),
    }
}

/// When an expectation is judged.
#[must_use]
pub fn when(expectation: &Expectation) -> When {
    match expectation {
        Expectation::Connect { when, .. }
        | Expectation::Refuse { when, .. }
        | Expectation::Dns { when, .. }
        | Expectation::Outage { during: when, .. }
        | Expectation::Unchanged { during: when, .. }
        | Expectation::Refused { when, .. }
        | Expectation::Settled { when } => *when,
    }
}
