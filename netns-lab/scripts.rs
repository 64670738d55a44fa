//! Scripts for programs, in the namespace of the calling thread.

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Held while a child of ours runs, so that nobody else waits for it.
static CHILD: Mutex<()> = Mutex::new(());

/// Waits for those children that have ended and are not ours: to the first process of a namespace come all that are left
/// without a parent.
pub(crate) fn reap() {
    let _ours = CHILD.lock().unwrap_or_else(PoisonError::into_inner);
    while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive) {}
}

/// Runs a script of nft's: one transaction.
///
/// # Errors
/// nft's own words, or why it cannot be run.
pub(crate) fn nft(script: &str) -> io::Result<()> {
    run("nft", &["-f", "-"], script).map(drop)
}

/// Runs a script of the shell, that ends where something fails. Gives what it says.
///
/// # Errors
/// The words of what failed, or why it cannot be run.
pub(crate) fn sh(script: &str) -> io::Result<String> {
    run("sh", &["-ec", script], "")
}

fn run(program: &str, arguments: &[&str], script: &str) -> io::Result<String> {
    let _ours = CHILD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // If it does not listen, it says why below.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output()?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(said(&output.stdout));
    }
    let why = said(&output.stderr);
    let why = if why.is_empty() { output.status.to_string() } else { why };
    Err(io::Error::other(format!("{program}: {why}")))
}
