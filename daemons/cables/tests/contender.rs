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
pub fn seclude(site: &Site, side: usize) {
    site.places[side].run(|| {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        crate::bed::sh("mount --make-rprivate /; mount -t tmpfs run /run; mkdir -p /run/wireguard");
    });
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
