//! What a run has shown: verdicts, violations, and the trace they were read from. One form in every world.

use crate::invariants::{Excuse, Violation};
use crate::verdict::{Judgement, Verdict};
use crate::wording::seconds;
use crate::{Fact, TraceHash};
use core::fmt::Write as _;
use core::time::Duration;
use serde::{Serialize, Serializer};

/// What the columns of the verdict table mean; `scenarios/README.md` has it at length.
const LEGEND: &str =
    "          at: since when it holds; of an outage, its start; if FAILED, when first seen   measured: longest outage";

/// Something that the run itself could not do. A run with one of these has failed, whatever the verdicts say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failure {
    /// When.
    #[serde(rename = "at_ms", serialize_with = "as_millis")]
    pub at: Duration,
    /// What was to be done, and why it was not.
    pub text: String,
}

/// An invariant that was on watch, and how often it was broken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Watch {
    /// Its name.
    pub invariant: &'static str,
    /// Public reports and kinds of faults that it stands for.
    pub stands_for: &'static str,
    /// How often it was broken; only the first few are told in [`Report::violations`].
    pub broken: u64,
    /// When it did not watch, and why.
    pub excuses: Vec<Excuse>,
}

/// See the module.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the world.
    pub stage: String,
    /// Pins chance.
    pub seed: u64,
    /// Why the whole scenario was skipped, if it was.
    pub skipped: Option<String>,
    /// What the run could not do.
    pub failures: Vec<Failure>,
    /// One for each expectation.
    pub verdicts: Vec<Verdict>,
    /// The invariants.
    pub watches: Vec<Watch>,
    /// Where they were broken.
    pub violations: Vec<Violation>,
    /// How long the run lasted.
    #[serde(rename = "ended_ms", serialize_with = "as_millis")]
    pub ended: Duration,
    /// Hash over the trace.
    pub hash: TraceHash,
    /// All that happened.
    #[serde(skip)]
    pub facts: Vec<Fact>,
}

impl Report {
    /// The run as a whole. Of a scenario that expects something it is met only if at least one expectation was, so that a
    /// run in which nothing was looked at proves nothing. One that expects nothing is about the invariants.
    #[must_use]
    pub fn judgement(&self) -> Judgement {
        if self.skipped.is_some() {
            return Judgement::Skipped;
        }
        let any = |wanted| self.verdicts.iter().any(|verdict| verdict.judgement == wanted);
        if !self.failures.is_empty() || self.watches.iter().any(|w| w.broken > 0) || any(Judgement::Failed) {
            Judgement::Failed
        } else if any(Judgement::Met) || (self.verdicts.is_empty() && !self.watches.is_empty()) {
            Judgement::Met
        } else if any(Judgement::Skipped) {
            Judgement::Skipped
        } else {
            Judgement::Failed
        }
    }

    /// The verdict table: fixed columns, no colour.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!("{} | {} | seed {}\n", self.scenario, self.stage, self.seed);
        if let Some(why) = &self.skipped {
            let _ = writeln!(text, "  {:<8}{why}", Judgement::Skipped.word());
            return text;
        }
        for failure in &self.failures {
            let word = Judgement::Failed.word();
            let _ = writeln!(text, "  {word:<8}the run itself, at {}: {}", seconds(failure.at), failure.text);
        }
        self.write_verdicts(&mut text);
        for watch in &self.watches {
            let judgement = if watch.broken == 0 { Judgement::Met } else { Judgement::Failed };
            let times = if watch.broken == 0 { String::new() } else { format!("  broken {} times", watch.broken) };
            let _ = writeln!(text, "  {:<8}always: {}{times}", judgement.word(), watch.invariant);
            for excuse in &watch.excuses {
                let _ = writeln!(text, "  {:<8}  excused {excuse}", "");
            }
        }
        for violation in &self.violations {
            let _ =
                writeln!(text, "  broken  {} at {}: {}", violation.invariant, seconds(violation.at), violation.text);
        }
        let _ = writeln!(text, "  {:<8}{} played, trace {}", self.judgement().word(), seconds(self.ended), self.hash);
        text
    }

    fn write_verdicts(&self, text: &mut String) {
        let _ = writeln!(text, "{LEGEND}");
        let width = self.verdicts.iter().map(|v| v.expectation.chars().count()).max().unwrap_or(0).max(11);
        let _ = writeln!(
            text,
            "  {:<8}{:<width$}  {:>9}  {:>9}  {:>9}  detail",
            "", "expectation", "at", "measured", "bound"
        );
        for verdict in &self.verdicts {
            let time = |time: Option<Duration>| time.map_or("-".into(), seconds);
            let line = format!(
                "  {:<8}{:<width$}  {:>9}  {:>9}  {:>9}  {}",
                verdict.judgement.word(),
                verdict.expectation,
                time(verdict.at),
                time(verdict.measured),
                time(verdict.bound),
                verdict.detail
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}

/// Milliseconds with three digits behind the point, exact to the microsecond.
pub(crate) fn as_millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    #[allow(clippy::cast_precision_loss, reason = "runs are shorter than the 285 years that fit")]
    serializer.serialize_f64(time.as_micros() as f64 / 1000.0)
}

/// As [`as_millis`], null if there is none.
#[allow(clippy::ref_option, reason = "serde hands over a reference to the field")]
pub(crate) fn as_millis_if_any<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_millis(time, serializer),
        None => serializer.serialize_none(),
    }
}
