//! What can go wrong, as facts.

use std::fmt;
use std::io;
use tombolo_core::network::LinkName;

/// Why the network of a node could not be observed or applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No way to speak with the kernel.
    #[error("cannot open {what}: {source}")]
    Open {
        /// The socket, the namespace or the thread.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The kernel, or nft, did not tell what there is.
    #[error("cannot read {what}: {fault}")]
    Unseen {
        /// What was asked for.
        what: &'static str,
        /// Why.
        fault: Fault,
    },
    /// A step of a plan failed; those before it are done.
    #[error("{step}: {fault}")]
    Step {
        /// The step, in the words of the plan.
        step: String,
        /// Why.
        fault: Fault,
    },
    /// All steps were carried out, and the kernel still is not as it should be.
    #[error("applied, but this is still to do: {left}")]
    Unsettled {
        /// The first step of what is left.
        left: String,
    },
}

/// Why one request failed.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The kernel said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A socket, a file or a process failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// nft said no.
    #[error("nft: {0}")]
    Nft(String),
    /// There is no such link.
    #[error("there is no link {0}")]
    NoLink(LinkName),
    /// A link of this name is there and is not ours.
    #[error("a link {0} is there and is not ours")]
    NameTaken(LinkName),
    /// The driver of a cable failed.
    #[error("cable: {0}")]
    Cable(String),
    /// Linux has nothing like it.
    #[error("{0}")]
    Unfit(&'static str),
}

/// The kernel's no: its error, and its own words if it had any.
#[derive(Debug)]
pub struct Refusal {
    /// As an error of the operating system.
    pub error: io::Error,
    /// What the kernel said of it (extended acknowledgement).
    pub words: Option<String>,
}

impl Refusal {
    /// Whether it is this error number.
    #[must_use]
    pub fn is(&self, number: nix::errno::Errno) -> bool {
        self.error.raw_os_error() == Some(number as i32)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.words {
            Some(words) => write!(f, "{} ({words})", self.error),
            None => write!(f, "{}", self.error),
        }
    }
}

impl std::error::Error for Refusal {}

/// Takes an answer that says "it was so already" for a yes.
pub(crate) fn unless(result: Result<(), Fault>, numbers: &[nix::errno::Errno]) -> Result<(), Fault> {
    match result {
        Err(Fault::Refused(refusal)) if numbers.iter().any(|number| refusal.is(*number)) => Ok(()),
        other => other,
    }
}
