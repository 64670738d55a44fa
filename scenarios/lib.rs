//! Scenarios: the format, what a world must offer to play one ([`Stage`]), facts, verdicts and invariants.
//!
//! ```text
//! *.yaml ─parse─> Scenario ─┬─> runner ──Fault, Probe──> Stage (simulator at two speeds, lab)
//!                           │      ^                        │
//!                           └──────┴── verdicts <──Fact─────┘──> invariants
//! ```
//! Verdicts and invariants read nothing but the scenario and the stream of [`Fact`]s, so all worlds are judged by one
//! code.

mod fact;
mod scenario;
mod stage;

pub use fact::{ApiRef, Change, Daemon, Fact, Outcome, Place, ProbeId, What};
pub use scenario::{
    Act, Broker, Cluster, Daemons, Expectation, Flow, LinkSpec, Links, NodeRef, NodeSpec, Scenario, Side, Target, Verb,
    Watched, When, Which, Workload,
};
pub use stage::{Ability, ApiFault, Fault, Host, Probe, ProbeTarget, Stage, StageError};
