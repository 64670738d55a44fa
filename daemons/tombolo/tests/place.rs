//! A network namespace with a thread that lives in it: what that thread starts lives there too.

use nix::sched::{CloneFlags, unshare};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// It ends with all clones of this, and with the processes in it.
#[derive(Clone)]
pub struct Place {
    jobs: mpsc::Sender<Job>,
    /// The number of its thread: `ip` takes it as the name of the namespace.
    pub thread_number: i32,
}

/// What is missing here for such tests, if anything is.
pub fn lacking() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".into());
    }
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    if let Some(program) = ["ip", "nft", "ping"].into_iter().find(|program| !has(program)) {
        return Some(format!("no {program}"));
    }
    (!std::path::Path::new("/dev/net/tun").exists()).then(|| "no /dev/net/tun".into())
}

impl Place {
    /// A fresh one; its loopback is up.
    pub fn new() -> Self {
        let (jobs, given) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            sh("ip link set lo up");
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            given.iter().for_each(|job| job());
        });
        Self { thread_number: told.recv().unwrap(), jobs }
    }

    /// Does something inside.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        let job = Box::new(move || drop(tell.send(catch_unwind(AssertUnwindSafe(job)))));
        self.jobs.send(job).unwrap();
        told.recv().unwrap().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs commands inside; they must succeed.
    pub fn sh(&self, script: &str) -> String {
        let script = script.to_owned();
        self.run(move || sh(&script))
    }

    /// Whether a command succeeds inside.
    pub fn succeeds(&self, script: &str) -> bool {
        let script = script.to_owned();
        self.run(move || output(&script).status.success())
    }
}

fn output(script: &str) -> std::process::Output {
    Command::new("sh").args(["-ec", script]).output().unwrap()
}

fn sh(script: &str) -> String {
    let output = output(script);
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
