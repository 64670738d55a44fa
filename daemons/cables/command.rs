//! The command that starts a cable's process, and returns when it can be spoken to: a program of its own, or a part of
//! another.

use crate::process::{DIRECTORY, run};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What it is told.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Name of the link to be made
    pub link: String,
    /// Where its socket is
    #[arg(long, default_value = DIRECTORY)]
    pub directory: PathBuf,
    /// Be the cable, instead of starting it
    #[arg(long)]
    pub foreground: bool,
}

/// Carries it out. `first` are the words by which this program comes to this command.
///
/// # Errors
/// Why there is no cable.
pub fn carry_out(arguments: &Arguments, first: &[&str]) -> Result<()> {
    if arguments.foreground {
        // It fails where a shell has started it, which has seen to that.
        let _ = nix::unistd::setsid();
        return run(&arguments.directory, &arguments.link, tell_ready).with_context(|| arguments.link.clone());
    }
    start(arguments, first)
}

/// Says so to whoever started it.
fn tell_ready() {
    // Nobody may listen.
    let _ = std::io::stdout().write_all(b"ready\n");
}

/// Starts it in a session of its own: it is no child of whoever called, and no signal meant for that one meets it.
fn start(arguments: &Arguments, first: &[&str]) -> Result<()> {
    let program = std::env::current_exe().context("this program is gone")?;
    let directory = std::path::absolute(&arguments.directory)?;
    let mut command = Command::new(program);
    command.args(first).arg("--foreground").arg(&arguments.link).arg("--directory").arg(directory).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("it cannot be started")?;
    let mut told = String::new();
    let output = child.stdout.take().context("no pipe")?;
    BufReader::new(output).read_line(&mut told)?;
    if told == "ready\n" {
        return Ok(());
    }
    let mut said = String::new();
    child.stderr.take().context("no pipe")?.read_to_string(&mut said)?;
    bail!("{}", said.trim().trim_start_matches("Error: "))
}
