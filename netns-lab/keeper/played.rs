//! What came of a scenario, as a lab tells whoever started it.

use crate::relay::Passed;
use crate::run::{Look, Run, Stall};
use serde::{Deserialize, Serialize};
use tombolo_scenarios::{Judgement, Scenario, timeline, trace};

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
    /// What passed between sites, unless the cables do not encrypt.
    pub passed: Option<Passed>,
    /// What the processes took in quiet times.
    pub looks: Vec<Look>,
}

impl Played {
    /// Of a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn of(scenario: &Scenario, Run { report, stall, passed, looks }: Run) -> serde_json::Result<Self> {
        Ok(Self {
            judgement: report.judgement(),
            report: serde_json::to_value(&report)?,
            table: report.table(),
            trace: trace::text(scenario, &report.facts),
            timeline: timeline(scenario, &report.facts),
            stall,
            passed,
            looks,
        })
    }
}
