//! Starting a keeper.

use super::Error;
use crate::bench::Bench;
use crate::run::Play;
use nix::sched::{CloneFlags, setns, unshare};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// How long a lab stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stay {
    /// As long as whoever started it.
    WithStarter,
    /// Until somebody ends it.
    UntilEnded,
    /// Until its scenario was played like this, or whoever started it ends.
    Playing(Play),
    /// Until this was measured, or whoever started it ends.
    Measuring(Bench),
}

/// A keeper that was started.
pub struct Keeping {
    child: Child,
    output: BufReader<ChildStdout>,
    /// What it said of how it came up.
    pub said: String,
}

impl Keeping {
    /// Waits until it ends.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn wait(mut self) -> io::Result<()> {
        // Not `Child::wait`, which would close the pipe whose end tells the keeper that nobody waits any more.
        let pipe = self.child.stdin.take();
        self.child.wait()?;
        drop(pipe);
        Ok(())
    }

    /// Waits until it has done what it was started for, and gives what came of it.
    ///
    /// # Errors
    /// Why the lab ended early.
    pub fn done<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            return Err(refused(&mut self.child)?);
        }
        self.wait()?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// What a keeper says that has ended early.
fn refused(child: &mut Child) -> io::Result<Error> {
    let mut why = String::new();
    if let Some(mut output) = child.stderr.take() {
        output.read_to_string(&mut why)?;
    }
    let status = child.wait()?;
    let why = why.trim().trim_start_matches("error: ");
    Ok(Error::Refused(if why.is_empty() { format!("the lab ended: {status}") } else { why.to_owned() }))
}

/// Starts a lab of a scenario, and returns when it is up. The caller must have no other thread meanwhile.
///
/// # Errors
/// Why it did not come up.
pub fn start(file: &Path, name: &str, seed: u64, stay: &Stay) -> Result<Keeping, Error> {
    let program = std::env::current_exe()?;
    let own = File::open("/proc/self/ns/pid")?;
    let mut command = Command::new(program);
    command.arg("keep").arg(file).args(["--name", name, "--seed", &seed.to_string()]);
    match stay {
        Stay::WithStarter => command.stdin(Stdio::piped()),
        Stay::UntilEnded => command.arg("--stay").stdin(Stdio::null()),
        Stay::Playing(play) => {
            command.arg("--play").arg(&play.program);
            play.record.as_ref().map(|folder| command.arg("--record").arg(folder));
            command.stdin(Stdio::piped())
        }
        Stay::Measuring(bench) => command.arg("--bench").arg(serde_json::to_string(bench)?).stdin(Stdio::piped()),
    };
    // A group of its own: what a terminal tells the starter is not for it.
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    // The next child is the first process of a namespace, and those after it are not in it.
    unshare(CloneFlags::CLONE_NEWPID).map_err(io::Error::from)?;
    let spawned = command.spawn();
    setns(own, CloneFlags::CLONE_NEWPID).map_err(io::Error::from)?;
    let mut child = spawned?;
    let output = child.stdout.take().ok_or_else(|| io::Error::other("the keeper has no output"))?;
    let (mut output, mut said) = (BufReader::new(output), String::new());
    output.read_line(&mut said)?;
    match said.strip_prefix("up ") {
        Some(said) => Ok(Keeping { child, output, said: said.trim().to_owned() }),
        None => Err(refused(&mut child)?),
    }
}
