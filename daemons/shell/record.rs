//! Writing a run down, and living it again: how an incident in production becomes a test.
//!
//! One JSON object a line: the time in nanoseconds since the start, the input (none for a wake-up), and a hash of the
//! outputs that followed.

use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use tombolo_core::base::{Instant, drain, hash};
use tombolo_core::roles::{Input, Output, Role};

/// One change of a machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Something happened.
    Input(Input),
    /// A timer was due.
    Wake,
}

/// Takes down each step.
pub trait Record {
    /// One step and what came of it.
    fn step(&mut self, at: Instant, step: &Step, outputs: &[Output]);
}

#[derive(Serialize, Deserialize)]
struct Line {
    at: Instant,
    input: Option<Input>,
    outputs: u64,
}

/// Writes steps as lines. After the first failure to write it falls silent: a full disk must not stop a gateway.
#[derive(Debug)]
pub struct Recorder<W> {
    to: Option<W>,
}

impl<W: Write> Recorder<W> {
    /// Records to `to`.
    pub const fn new(to: W) -> Self {
        Self { to: Some(to) }
    }

    /// Whether everything so far was written.
    pub const fn is_whole(&self) -> bool {
        self.to.is_some()
    }
}

impl<W: Write> Record for Recorder<W> {
    fn step(&mut self, at: Instant, step: &Step, outputs: &[Output]) {
        let input = match step {
            Step::Input(input) => Some(input.clone()),
            Step::Wake => None,
        };
        let line = Line { at, input, outputs: hash_of(outputs) };
        let Some(to) = &mut self.to else { return };
        let written = serde_json::to_writer(&mut *to, &line).map_err(std::io::Error::from);
        if written.and_then(|()| to.write_all(b"\n")).is_err() {
            self.to = None;
        }
    }
}

fn hash_of(outputs: &[Output]) -> u64 {
    outputs.iter().fold(hash::fnv1a(b""), |hash, output| hash::fnv1a_more(hash, format!("{output:?}").as_bytes()))
}

/// Why a record could not be lived again.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It could not be read.
    #[error("line {line}: {source}")]
    Read {
        /// Counted from 1.
        line: usize,
        /// What went wrong.
        source: std::io::Error,
    },
    /// It is no record, or one of another version.
    #[error("line {line} is no step of a record: {source}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What went wrong.
        source: serde_json::Error,
    },
    /// The machine did something else this time.
    #[error("line {line}, at {at}: the machine gave other outputs than were recorded: {outputs:?}")]
    Differs {
        /// Counted from 1.
        line: usize,
        /// When.
        at: Instant,
        /// What it gave now.
        outputs: Vec<Output>,
    },
}

/// Feeds a record to `machine`, to the end or to `stop` lines. Gives the number of lines.
///
/// # Errors
/// The first line that cannot be read, or after which the machine does something else than was recorded.
pub fn replay<R: Role>(machine: &mut R, record: impl BufRead, stop: Option<usize>) -> Result<usize, RecordError> {
    let mut lines = 0;
    for text in record.lines().take(stop.unwrap_or(usize::MAX)) {
        lines += 1;
        let line = lines;
        let text = text.map_err(|source| RecordError::Read { line, source })?;
        let recorded: Line = serde_json::from_str(&text).map_err(|source| RecordError::Syntax { line, source })?;
        match recorded.input {
            Some(input) => machine.handle(input, recorded.at),
            None => machine.handle_timeout(recorded.at),
        }
        let outputs = drain(machine);
        if hash_of(&outputs) != recorded.outputs {
            return Err(RecordError::Differs { line, at: recorded.at, outputs });
        }
    }
    Ok(lines)
}
