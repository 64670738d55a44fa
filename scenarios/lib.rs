//! Scenarios: the format, what a world must offer to play one ([`Stage`]), facts, verdicts and invariants.
//!
//! ```text
//! *.yaml ─parse─> Scenario ─┬─> runner ──Fault, Probe──> Stage (simulator at two speeds, lab)
//!                           │      ^                        │
//!                           └──────┴── verdicts <──Fact─────┘──> invariants
//! ```
//! A scenario may also be drawn by chance ([`fuzz`]) and written as a file ([`format::write`]).
//!
//! Verdicts and invariants read nothing but the scenario and the stream of [`Fact`]s, so all worlds are judged by one
//! code. All worlds give everything the same place ([`layout`]).

mod addresses;
pub mod bounds;
mod casting;
mod continuity;
mod exports;
mod fact;
pub mod format;
pub mod fuzz;
pub mod ground;
mod hopeless;
pub mod invariants;
pub mod layout;
mod membership;
mod mirror;
pub mod probing;
#[cfg(test)]
mod rehearsal;
mod report;
mod runner;
mod scenario;
mod stage;
mod steps;
mod stillness;
mod timeline;
pub mod trace;
mod trouble;
mod verdict;
mod whereabouts;
pub mod wording;

pub use fact::{ApiRef, Change, Daemon, Fact, Outcome, Place, ProbeId, What};
pub use format::{Errors, parse};
pub use report::{Failure, Report, Watch};
pub use runner::{Options, judge, run};
pub use scenario::{
    Act, Broker, Cluster, Daemons, Expectation, Flow, LinkSpec, Links, NodeRef, NodeSpec, Rate, Rebuilt, Scenario,
    Side, Skew, Target, Verb, Watched, When, Which, Workload,
};
pub use stage::{Ability, ApiFault, Fault, Host, Probe, ProbeTarget, Stage, StageError};
pub use timeline::timeline;
pub use trace::TraceHash;
pub use verdict::{Judgement, NOT_PROBED, Verdict};
