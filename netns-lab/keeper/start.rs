//! Starting a keeper.

use super::Error;
use nix::sched::{CloneFlags, unshare};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How long a lab stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stay {
    /// As long as whoever started it.
    WithStarter,
    /// Until somebody ends it.
    UntilEnded,
}

/// A keeper that was started.
pub struct Keeping {
    child: Child,
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
}

/// Starts a lab of a scenario, and returns when it is up. The caller must have no other thread, and starts none later: its
/// next children are in the lab's namespace of processes.
///
/// # Errors
/// Why it did not come up.
pub fn start(file: &Path, name: &str, seed: u64, stay: Stay) -> Result<Keeping, Error> {
    let program = std::env::current_exe()?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(io::Error::from)?;
    let mut command = Command::new(program);
    command.arg("keep").arg(file).args(["--name", name, "--seed", &seed.to_string()]);
    match stay {
        Stay::WithStarter => command.stdin(Stdio::piped()),
        Stay::UntilEnded => command.arg("--stay").stdin(Stdio::null()),
    };
    // A group of its own: what a terminal tells the starter is not for it.
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut said)?;
    }
    if let Some(said) = said.strip_prefix("up ") {
        return Ok(Keeping { child, said: said.trim().to_owned() });
    }
    let mut why = String::new();
    if let Some(mut output) = child.stderr.take() {
        output.read_to_string(&mut why)?;
    }
    child.wait()?;
    Err(Error::Refused(why.trim().trim_start_matches("error: ").to_owned()))
}
