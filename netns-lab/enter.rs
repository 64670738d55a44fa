//! Going into a place.

use crate::keeper::Whereabouts;
use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::process::{Command, ExitStatus};

/// This process's only thread goes into the network of a place.
///
/// # Errors
/// The place is gone, or this is not root.
pub fn enter(place: &Whereabouts) -> Result<()> {
    setns(open(place.thread, "net")?, CloneFlags::CLONE_NEWNET).with_context(|| place.name.clone())
}

/// Runs a program in a place: with its network, its files, and as a process of the lab, which ends with it. This process
/// must have one thread, and is of no other use afterwards.
///
/// # Errors
/// The place is gone, this is not root, or there is no such program.
pub fn run(place: &Whereabouts, keeper: i32, program: &str, arguments: &[String]) -> Result<ExitStatus> {
    let files = [
        (open(keeper, "pid")?, CloneFlags::CLONE_NEWPID),
        (open(place.thread, "mnt")?, CloneFlags::CLONE_NEWNS),
        (open(place.thread, "net")?, CloneFlags::CLONE_NEWNET),
    ];
    for (file, kind) in files {
        setns(file, kind).with_context(|| place.name.clone())?;
    }
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/").env("PS1", format!("[{}] \\w \\$ ", place.name));
    command.status().with_context(|| program.to_owned())
}

fn open(task: i32, kind: &str) -> Result<File> {
    let path = format!("/proc/{task}/ns/{kind}");
    File::open(&path).with_context(|| format!("the lab is gone ({path})"))
}
