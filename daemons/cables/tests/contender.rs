//! Others' userspace WireGuard, in places of its own.

use crate::site::{LINK, PORT, Site, peer, secret};
use nix::sched::{CloneFlags, unshare};
use std::path::Path;
use std::process::Command;
use tombolo_cables::client::Client;
use tombolo_cables::process::DIRECTORY;
use tombolo_cables::uapi::{Setup, State};
use tombolo_cables::wireguard::Change;

/// The one that is measured against: Debian's package of this name.
pub const OTHER: &str = "wireguard-go";

/// Whether a program is installed.
pub fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Gives a place a `/run` of its own: sockets of one link's name in two places do not meet there.
fn seclude(site: &Site, side: usize) {
    site.places[side].run(|| {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        crate::bed::sh("mount --make-rprivate /; mount -t tmpfs run /run; mkdir -p /run/wireguard");
    });
}

/// A site whose cables end with it, also where a test fails.
pub struct Running(pub Site);

impl Drop for Running {
    fn drop(&mut self) {
        for place in &self.0.places {
            let ended = place.run(|| Client::of(Path::new(DIRECTORY), LINK).end());
            assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
        }
    }
}

impl Running {
    /// A site whose places keep their sockets to themselves.
    pub fn apart() -> Self {
        let site = Site::new();
        (0..2).for_each(|side| seclude(&site, side));
        Self(site)
    }

    /// A site with a cable on each side, made by these commands.
    pub fn joined(commands: [&str; 2], is_v6: bool) -> Self {
        let running = Self::apart();
        (0..2).for_each(|side| start(&running.0, side, commands[side], is_v6));
        running
    }
}

/// Starts a cable by a command that returns when it can be spoken to, and joins it to the other side.
pub fn start(site: &Site, side: usize, command: &str, is_v6: bool) {
    site.places[side].sh(&format!("{command} {LINK} >/dev/null 2>&1"));
    let setup = Setup {
        port: Some(PORT),
        mark: None,
        changes: vec![Change::Secret(Some(secret(side))), Change::Peer(peer(1 - side, is_v6))],
    };
    site.places[side].run(move || Client::of(Path::new(DIRECTORY), LINK).set(setup).unwrap());
    site.raise(side);
}

/// What a side's cable says.
pub fn state(site: &Site, side: usize) -> State {
    site.places[side].run(|| Client::of(Path::new(DIRECTORY), LINK).state().unwrap().unwrap())
}

/// Ends a side's cable.
pub fn end(site: &Site, side: usize) {
    site.places[side].run(|| Client::of(Path::new(DIRECTORY), LINK).end().unwrap());
}
