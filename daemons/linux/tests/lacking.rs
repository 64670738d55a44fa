//! What tests on a real kernel need, and may not find. Tests of other crates stand on it too.

use nix::sched::{CloneFlags, unshare};
use std::process::Command;

/// What is missing here, if anything is: root, network namespaces, or one of these programs.
pub fn lacking(programs: &[&str]) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".into());
    }
    match std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join() {
        Ok(Ok(())) => {}
        Ok(Err(errno)) => return Some(format!("no network namespaces: {errno}")),
        Err(_) => return Some("no network namespaces".into()),
    }
    programs.iter().find(|program| !runs(program)).map(|program| format!("no {program}"))
}

/// Whether a program is there and runs.
pub fn runs(program: &str) -> bool {
    Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success())
}
