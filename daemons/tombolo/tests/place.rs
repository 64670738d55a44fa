//! A network namespace with a thread that lives in it: what that thread starts lives there too.

use crate::lacking;
use std::process::Command;
use std::sync::Arc;

/// It ends with all clones of this, and with the processes in it.
#[derive(Clone)]
pub struct Place {
    place: Arc<tombolo_linux::Place>,
    /// The number of its thread: `ip` takes it as the name of the namespace.
    pub thread_number: i32,
}

/// What is missing here for such tests, if anything is.
pub fn lacking() -> Option<String> {
    let lacking = lacking::lacking(&["ip", "nft", "ping"]);
    lacking.or_else(|| (!std::path::Path::new("/dev/net/tun").exists()).then(|| "no /dev/net/tun".into()))
}

impl Place {
    /// A fresh one; its loopback is up.
    pub fn new() -> Self {
        let place = tombolo_linux::Place::new().unwrap();
        Self { thread_number: place.thread_number(), place: Arc::new(place) }
    }

    /// Does something inside.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.place.run(job).unwrap()
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
