//! Scripts for nft, in the namespace of the calling thread.

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

/// Runs a script: one transaction.
///
/// # Errors
/// nft's own words, or why it cannot be run.
pub(crate) fn run(script: &str) -> io::Result<()> {
    let _ours = CHILD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    // If it does not listen, it says why below.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("nft: {}", String::from_utf8_lossy(&output.stderr).trim())))
}
