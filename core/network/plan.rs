//! The difference between two networks as ordered steps, each with its reason.
//!
//! A plan is a function of desired and observed state alone. Its steps are ordered so that **after each of them** the
//! node is safe: an item never stands without what it [leans on](super::leans_on). From that follows the order:
//!
//! - what is added comes after what it leans on, what is removed goes before it;
//! - a changed item is replaced in one step, after what its new value leans on has come and before what its old value
//!   leant on goes: make before break;
//! - what stays keeps something to lean on: the new peer comes before the old one goes;
//! - what cannot be changed in place (a link of another kind) is removed and added again, with all that leans on it. So
//!   are changes that wait for each other in a ring.
//!
//! Where nothing decides, additions and changes go before removals, in the order of [`rank`](super::leans::rank).

use super::order::Draft;
use super::{Entry, Network, Wanted};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// What a step does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Action {
    /// Adds what was not there.
    Add(Entry),
    /// Replaces the value of what is there, at once.
    Change {
        /// As it was.
        from: Entry,
        /// As it will be.
        to: Entry,
    },
    /// Removes it.
    Remove(Entry),
}

impl Action {
    /// The entry it is about: the new one, or what goes.
    #[must_use]
    pub const fn entry(&self) -> &Entry {
        match self {
            Self::Add(entry) | Self::Change { to: entry, .. } | Self::Remove(entry) => entry,
        }
    }
}

/// One step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// Why, in a few words that end a sentence begun with "because".
    pub because: String,
}

impl Step {
    /// Carries it out.
    pub fn apply(&self, network: &mut Network) {
        match &self.action {
            Action::Add(entry) | Action::Change { to: entry, .. } => network.put(entry.clone()),
            Action::Remove(entry) => network.take(&entry.item()),
        }
    }

    fn words(&self) -> String {
        let sign = match self.action {
            Action::Add(_) => '+',
            Action::Change { .. } => '~',
            Action::Remove(_) => '-',
        };
        alloc::format!("{sign} {}", self.action.entry())
    }
}

/// Ordered steps from what is to what should be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    /// Whether there is nothing to do.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Carries all steps out.
    pub fn apply(&self, network: &mut Network) {
        self.steps.iter().for_each(|step| step.apply(network));
    }

    /// One line a step, the reasons in one column as far as the lines are not too long for it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let words: Vec<_> = self.steps.iter().map(Step::words).collect();
        let lengths = words.iter().map(|text| text.chars().count());
        let column = lengths.filter(|length| *length <= COLUMN_MAX).max().unwrap_or(0);
        let line = |(text, step): (&String, &Step)| alloc::format!("{text:column$}      because {}", step.because);
        words.iter().zip(&self.steps).map(line).collect()
    }
}

/// A line longer than this does not push the column of reasons further.
const COLUMN_MAX: usize = 90;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The steps that lead from `observed` to what `desired` makes of it ([`Wanted::target`]).
#[must_use]
pub fn plan(desired: &Wanted, observed: &Network) -> Plan {
    let reason = |action: &Action| match action {
        Action::Add(entry) | Action::Change { to: entry, .. } => {
            desired.because.get(&entry.item()).map_or("it is wanted", String::as_str).to_string()
        }
        Action::Remove(entry) if desired.network.entry(&entry.item()).is_some() => "it is made anew".to_string(),
        Action::Remove(_) => "nothing wants it any more".to_string(),
    };
    let actions = Draft::new(&desired.target(observed), observed).ordered();
    Plan { steps: actions.into_iter().map(|action| Step { because: reason(&action), action }).collect() }
}
