//! What came of a scenario, as a lab tells whoever started it.

use crate::run::Stall;
use serde::{Deserialize, Serialize};
use tombolo_scenarios::{Judgement, Report, Scenario, timeline, trace};

/// See the module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Played {
    /// The run as a whole.
    pub judgement: Judgement,
    /// The report: one object, as `--output json` prints it.
    pub report: serde_json::Value,
    /// The verdict table.
    pub table: String,
    /// What happened, as one line a fact.
    pub trace: String,
    /// What happened, on one screen.
    pub timeline: String,
    /// How long the machine stood still.
    pub stall: Stall,
}

impl Played {
    /// Of a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn of(scenario: &Scenario, report: &Report, stall: Stall) -> serde_json::Result<Self> {
        Ok(Self {
            judgement: report.judgement(),
            report: serde_json::to_value(report)?,
            table: report.table(),
            trace: trace::text(scenario, &report.facts),
            timeline: timeline(scenario, &report.facts),
            stall,
        })
    }
}
