//! Verdicts: whether each expectation held, when, and within which bound.
//!
//! | form | holds if |
//! |---|---|
//! | `by T` | at some moment until T it is so, and it stays so until the next act after T, or to the end if there is none. The time shown is the start of that last unbroken run |
//! | `during A..B` | every probe that begins from A to B shows it |
//! | `always` | the same, from the start to the end |
//! | `outage` | within the window, the longest time in which no answer arrived is at most the bound. The window's edges count as answers, so an outage that begins before or ends after it is measured only as far as it lies in it; but with no answer at all it fails |
//! | `unchanged` | it is known at the start of the window, and at no moment of the window anything else: not another one, not none, not dead, not for an instant |
//! | `refused` | a gateway of the cluster told so no later than T (or before A), and until the end of that time no daemon of it wrote anything at the broker. The detail says who and what is in its way |
//! | `settled` | the last plan step, or write other than a renewal or a heartbeat, comes no later than T (or before A) |
//!
//! A probe counts for `by` only if it ended before the next act, since an act may break what is under way. What nobody
//! looked at never holds: no probe, no verdict other than failed.

use crate::addresses::AddressBook;
use crate::probing::{Stream, last_probe, stream_of, stream_of_probe, when};
use crate::report::as_millis_if_any;
use crate::stillness::Stillness;
use crate::whereabouts::Whereabouts;
use crate::wording::{self, seconds};
use crate::{ApiRef, Expectation, Fact, Outcome, Place, Scenario, Watched, What, When, trace};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tombolo_core::base::ClusterId;
use tombolo_core::roles::Event;

/// How something was judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It held.
    Met,
    /// It did not.
    Failed,
    /// This world cannot tell.
    Skipped,
}

impl Judgement {
    /// For tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Met => "ok",
            Self::Failed => "FAILED",
            Self::Skipped => "SKIPPED",
        }
    }
}

/// How one expectation was judged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// What was expected, in words.
    pub expectation: String,
    /// Whether it held.
    pub judgement: Judgement,
    /// When it came true; if it failed, when it was first seen not to hold; for an outage, when the longest began.
    #[serde(rename = "at_ms", serialize_with = "as_millis_if_any")]
    pub at: Option<Duration>,
    /// The longest outage.
    #[serde(rename = "measured_ms", serialize_with = "as_millis_if_any")]
    pub measured: Option<Duration>,
    /// The bound: of `at` for `by`, of `measured` for an outage.
    #[serde(rename = "bound_ms", serialize_with = "as_millis_if_any")]
    pub bound: Option<Duration>,
    /// Why not, or what else is worth knowing.
    pub detail: String,
    /// How many probes it was read from.
    pub probes: usize,
}

/// Begins the reason of a probe that the runner could not even begin: no evidence that something is refused.
pub const NOT_PROBED: &str = "not probed: ";

/// One probe, as one expectation reads it.
struct Try {
    began: Duration,
    ended: Duration,
    /// What is wrong with it, if anything.
    wrong: Option<String>,
}

/// All that verdicts are read from.
pub(crate) struct Evidence<'a> {
    pub scenario: &'a Scenario,
    pub streams: &'a [Stream],
    pub facts: &'a [Fact],
    /// Time of the last moment that was watched.
    pub ended: Duration,
}

impl Evidence<'_> {
    /// The verdict on one expectation.
    pub(crate) fn judge(&self, expectation: &Expectation, addresses: &AddressBook) -> Verdict {
        match expectation {
            Expectation::Connect { .. } => self.each_probe(expectation, |outcome, _| fetched(outcome)),
            Expectation::Refuse { .. } => self.each_probe(expectation, |outcome, _| refused(outcome)),
            Expectation::Dns { rcode, any_of, .. } => {
                self.each_probe(expectation, |outcome, at| addresses.check(rcode, any_of, outcome, at))
            }
            Expectation::Outage { at_most, .. } => self.outage(expectation, *at_most),
            Expectation::Unchanged { what, .. } => self.unchanged(expectation, what),
            Expectation::Refused { cluster, .. } => self.refused_cluster(expectation, cluster),
            Expectation::Settled { .. } => self.settled(expectation),
        }
    }

    fn tries(&self, expectation: &Expectation, wrong: impl Fn(&Outcome, Duration) -> Option<String>) -> Vec<Try> {
        let Some(stream) = stream_of(self.streams, expectation) else { return Vec::new() };
        let mut tries = BTreeMap::new();
        for fact in self.facts {
            if let What::Probed { id, began, outcome } = &fact.what
                && stream_of_probe(*id) == stream
            {
                tries.insert(*id, Try { began: *began, ended: fact.at, wrong: wrong(outcome, *began) });
            }
        }
        tries.into_values().collect()
    }

    fn each_probe(&self, expectation: &Expectation, wrong: impl Fn(&Outcome, Duration) -> Option<String>) -> Verdict {
        let tries = self.tries(expectation, wrong);
        match when(expectation) {
            When::By(bound) => self.by(expectation, tries, bound),
            When::During(from, to) => throughout(expectation, tries, from, to),
            When::Always => throughout(expectation, tries, Duration::ZERO, Duration::MAX),
        }
    }

    /// See the table above.
    fn by(&self, expectation: &Expectation, mut tries: Vec<Try>, bound: Duration) -> Verdict {
        if let Some(next) = self.next_act(bound) {
            // At equal times acts go first: what begins at that moment is after it.
            tries.retain(|t| t.began < next && t.ended <= next);
        }
        let verdict = Verdict::of(expectation, tries.len(), Some(bound));
        let Some(last) = tries.last() else { return verdict.failed(None, "nothing was probed".into()) };
        if let Some(wrong) = &last.wrong {
            let right = tries.iter().rposition(|t| t.wrong.is_none());
            let since = tries.get(right.map_or(0, |index| index + 1)).map_or(last.began, |t| t.began);
            return verdict.failed(Some(since), wrong.clone());
        }
        let before = tries.iter().rposition(|t| t.wrong.is_some());
        let first = before.map_or(0, |index| index + 1);
        let since = tries.get(first).map_or(last.began, |t| t.began);
        if since <= bound {
            return verdict.met(Some(since), String::new());
        }
        let wrong = before.and_then(|index| tries.get(index)).and_then(|t| t.wrong.clone()).unwrap_or_default();
        verdict.failed(Some(since), format!("too late; before: {wrong}"))
    }

    fn next_act(&self, after: Duration) -> Option<Duration> {
        self.scenario.timeline.iter().map(|act| act.at).filter(|at| *at > after).min()
    }

    fn outage(&self, expectation: &Expectation, at_most: Duration) -> Verdict {
        let (from, to) = self.window(when(expectation));
        let tries = self.tries(expectation, |outcome, _| fetched(outcome));
        let probes = tries.iter().filter(|t| (from..=to).contains(&t.began)).count();
        let verdict = Verdict::of(expectation, probes, Some(at_most));
        let mut answers = tries.iter().filter(|t| t.wrong.is_none()).map(|t| t.ended).collect::<Vec<_>>();
        answers.retain(|at| (from..=to).contains(at));
        answers.sort_unstable();
        if answers.is_empty() {
            let wrong = tries.iter().filter(|t| t.began >= from).find_map(|t| t.wrong.clone());
            return verdict
                .failed(Some(from), wrong.map_or("nothing was probed".into(), |w| format!("no answer at all: {w}")));
        }
        answers.insert(0, from);
        answers.push(to);
        let mut longest = (Duration::ZERO, from);
        for pair in answers.windows(2) {
            if let [left, right] = pair
                && right.saturating_sub(*left) > longest.0
            {
                longest = (right.saturating_sub(*left), *left);
            }
        }
        let verdict = Verdict { measured: Some(longest.0), ..verdict };
        if longest.0 <= at_most {
            return verdict.met(Some(longest.1), String::new());
        }
        let wrong = tries.iter().filter(|t| t.began >= longest.1).find_map(|t| t.wrong.clone()).unwrap_or_default();
        verdict.failed(Some(longest.1), wrong)
    }

    fn window(&self, when: When) -> (Duration, Duration) {
        match when {
            When::By(to) => (Duration::ZERO, to.min(last_probe(self.ended))),
            When::During(from, to) => (from, to.min(last_probe(self.ended))),
            When::Always => (Duration::ZERO, last_probe(self.ended)),
        }
    }

    fn unchanged(&self, expectation: &Expectation, what: &Watched) -> Verdict {
        let (from, to) = self.window(when(expectation));
        let verdict = Verdict::of(expectation, 0, None);
        let mut whereabouts = Whereabouts::default();
        let mut facts = self.facts.iter().peekable();
        while let Some(fact) = facts.next_if(|fact| fact.at <= from) {
            whereabouts.watch(fact);
        }
        let Some(before) = watched(&whereabouts, what) else {
            let text = format!("nothing to watch: {} is {}", wording::watched(what), missing(&whereabouts, what));
            return verdict.failed(Some(from), text);
        };
        for fact in facts.take_while(|fact| fact.at <= to) {
            whereabouts.watch(fact);
            let now = watched(&whereabouts, what);
            if now.as_ref() != Some(&before) {
                let now = now.unwrap_or_else(|| missing(&whereabouts, what).into());
                return verdict.failed(Some(fact.at), format!("{before} before, then {now}"));
            }
        }
        verdict.met(None, before)
    }

    fn refused_cluster(&self, expectation: &Expectation, cluster: &ClusterId) -> Verdict {
        let (bound, until) = match when(expectation) {
            When::By(bound) => (bound, self.next_act(bound).unwrap_or(self.ended)),
            When::During(from, to) => (from, to.min(self.ended)),
            When::Always => (Duration::ZERO, self.ended),
        };
        let verdict = Verdict::of(expectation, 0, Some(bound));
        let mut told = None;
        for fact in self.facts.iter().take_while(|fact| fact.at < until) {
            match (&fact.what, &fact.place) {
                (What::Told(Event::Refused { because }), Place::Daemon(of, ..)) if of == cluster => {
                    told = told.or(Some((fact.at, because)));
                }
                (What::Wrote { by: Place::Daemon(of, ..), key, .. }, Place::Api(ApiRef::Broker)) if of == cluster => {
                    return verdict.failed(Some(fact.at), format!("{cluster} wrote {key} at the broker"));
                }
                _ => {}
            }
        }
        match told {
            None => verdict.failed(None, format!("{cluster} was never told so")),
            Some((at, because)) if at <= bound => verdict.met(Some(at), because.clone()),
            Some((at, because)) => verdict.failed(Some(at), format!("too late: {because}")),
        }
    }

    fn settled(&self, expectation: &Expectation) -> Verdict {
        let (bound, until) = match when(expectation) {
            When::By(bound) => (bound, self.next_act(bound).unwrap_or(self.ended)),
            When::During(from, to) => (from, to.min(self.ended)),
            When::Always => (Duration::ZERO, self.ended),
        };
        let verdict = Verdict::of(expectation, 0, Some(bound));
        let mut stillness = Stillness::default();
        let mut last = None;
        for fact in self.facts.iter().take_while(|fact| fact.at < until) {
            if let Some(stir) = stillness.stir(fact) {
                last = Some((fact, stir));
            }
        }
        match last {
            None => verdict.failed(None, "nothing was ever applied or written".into()),
            Some((fact, _)) if fact.at <= bound => verdict.met(Some(fact.at), String::new()),
            Some((fact, stir)) => {
                let text = format!("still at {}: {}: {stir}", seconds(fact.at), fact.place);
                verdict.failed(Some(fact.at), text)
            }
        }
    }
}

/// As text, what `unchanged` compares. None: there is none at this moment, see [`missing`].
fn watched(whereabouts: &Whereabouts, what: &Watched) -> Option<String> {
    match what {
        Watched::ActiveGateway(cluster) => whereabouts.leader(cluster).map(ToString::to_string),
        Watched::PathTo(from, to) => {
            let (_, (local, remote)) = whereabouts.path(from, to).filter(|_| !whereabouts.path_is_dead(from, to))?;
            let name = |cluster, slot| {
                whereabouts.node_of_slot(cluster, slot).map_or(format!("slot {slot}"), ToString::to_string)
            };
            Some(format!("{} - {}", name(from, local), name(to, remote)))
        }
    }
}

/// Why there is nothing to compare.
fn missing(whereabouts: &Whereabouts, what: &Watched) -> &'static str {
    match what {
        Watched::ActiveGateway(_) => "nobody",
        Watched::PathTo(from, to) if whereabouts.path_is_dead(from, to) => "dead",
        Watched::PathTo(..) => "not known",
    }
}

fn throughout(expectation: &Expectation, mut tries: Vec<Try>, from: Duration, to: Duration) -> Verdict {
    tries.retain(|t| (from..=to).contains(&t.began));
    let verdict = Verdict::of(expectation, tries.len(), None);
    if tries.is_empty() {
        return verdict.failed(None, "nothing was probed".into());
    }
    match tries.into_iter().find_map(|t| t.wrong.map(|wrong| (t.began, wrong))) {
        Some((at, wrong)) => verdict.failed(Some(at), wrong),
        None => verdict.met(None, String::new()),
    }
}

fn fetched(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Fetched { .. } => None,
        Outcome::Failed { because } => Some(because.clone()),
        Outcome::Resolved { .. } => Some(format!("no flow: {}", trace::outcome(outcome))),
    }
}

fn refused(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed { because } if because.starts_with(NOT_PROBED) => Some(because.clone()),
        Outcome::Failed { .. } => None,
        Outcome::Fetched { .. } | Outcome::Resolved { .. } => Some(trace::outcome(outcome)),
    }
}

impl Verdict {
    fn of(expectation: &Expectation, probes: usize, bound: Option<Duration>) -> Self {
        Self {
            expectation: wording::expectation(expectation),
            judgement: Judgement::Failed,
            at: None,
            measured: None,
            bound,
            detail: String::new(),
            probes,
        }
    }

    fn met(self, at: Option<Duration>, detail: String) -> Self {
        Self { judgement: Judgement::Met, at, detail, ..self }
    }

    fn failed(self, at: Option<Duration>, detail: String) -> Self {
        Self { judgement: Judgement::Failed, at, detail, ..self }
    }

    /// The world lacks what the expectation needs.
    pub(crate) fn skipped(expectation: &Expectation, why: &str) -> Self {
        Self { judgement: Judgement::Skipped, detail: why.into(), ..Self::of(expectation, 0, None) }
    }
}
