//! Runs that are written down, and lived again: the first line is the blueprint of the machine, all others are its steps.

use crate::errors::Error;
use crate::machines::{Blueprint, MachineUser};
use crate::settings::ReplaySettings;
use std::fs::File;
use std::io::{BufRead, BufReader, LineWriter, Write};
use std::path::Path;
use tombolo_core::roles::Role;
use tombolo_shell::{Record, RecordError, Recorder, replay};

/// Begins a record of a machine. Each line is in the file when it ends: a process may end at any time.
///
/// # Errors
/// If the file cannot be written.
pub fn begin(path: &Path, blueprint: &Blueprint) -> Result<Box<dyn Record>, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mut file = LineWriter::new(File::create(path).map_err(failed)?);
    serde_json::to_writer(&mut file, blueprint).map_err(|error| failed(error.into()))?;
    file.write_all(b"\n").map_err(failed)?;
    Ok(Box::new(Recorder::new(file)))
}

/// Lives a record again. Gives what there is to say about it.
///
/// # Errors
/// If it is none, or the machine does something else this time.
pub fn live_again(settings: &ReplaySettings) -> Result<String, Error> {
    let path = &settings.file;
    let wrong = |because: String| Error::Record { path: path.clone(), because };
    let file = File::open(path).map_err(|source| Error::File { path: path.clone(), source })?;
    let mut lines = BufReader::new(file);
    let mut first = String::new();
    lines.read_line(&mut first).map_err(|source| Error::File { path: path.clone(), source })?;
    let blueprint: Blueprint = serde_json::from_str(&first)
        .map_err(|error| wrong(format!("the first line is no blueprint of a daemon: {error}")))?;
    let steps = blueprint.build(Again { lines, stop: settings.stop }).map_err(wrong)?;
    let steps = steps.map_err(|error| wrong(format!("after the first line: {error}")))?;
    Ok(format!("{}: {steps} steps, each with the outputs of then", path.display()))
}

struct Again {
    lines: BufReader<File>,
    stop: Option<usize>,
}

impl MachineUser for Again {
    type Out = Result<usize, RecordError>;

    fn use_it<R: Role + 'static>(self, mut machine: R) -> Self::Out {
        replay(&mut machine, self.lines, self.stop)
    }
}
