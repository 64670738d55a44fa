//! The two speeds of the simulator, under one name each.

use crate::core_speed::CoreSpeed;
use crate::full_speed::{FullSpeed, FullSpeedError};
use crate::world::LayoutError;
use core::fmt;
use core::str::FromStr;
use tombolo_scenarios::{Scenario, Stage};

/// How a scenario is simulated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Speed {
    /// The machines alone, by a discrete-event loop without sockets.
    #[default]
    Core,
    /// The real shell and kube client on simulated sockets.
    Full,
}

/// Why a scenario cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorldError {
    /// It does not fit into the world's address plan.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// It cannot be had at full speed.
    #[error(transparent)]
    Full(#[from] FullSpeedError),
}

impl Speed {
    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Full => "full",
        }
    }

    /// The world of a scenario before anything has happened.
    ///
    /// # Errors
    /// A [`WorldError`].
    pub fn stage(self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Stage>, WorldError> {
        match self {
            Self::Core => Ok(Box::new(CoreSpeed::new(scenario, seed)?)),
            Self::Full => Ok(Box::new(FullSpeed::new(scenario, seed)?)),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no speed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no speed: core or full")]
pub struct UnknownSpeed(pub String);

impl FromStr for Speed {
    type Err = UnknownSpeed;
    fn from_str(text: &str) -> Result<Self, UnknownSpeed> {
        match text {
            "core" => Ok(Self::Core),
            "full" => Ok(Self::Full),
            other => Err(UnknownSpeed(other.to_owned())),
        }
    }
}
