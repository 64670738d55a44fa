//! Others that serve the same names from a plain zone.

use super::NAMES;
use super::asking::name;
use super::servers::{Served, address, free};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// CoreDNS with the plugin that serves zone files, and nothing else.
const COREDNS: &str = r#"package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/file"
)

func init() { dnsserver.Directives = []string{"bind", "file"} }

func main() { coremain.Run() }
"#;

/// A folder with the zone in a file, which goes with the server.
fn folder(of: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tombolo-bench-{of}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut zone =
        String::from("$ORIGIN clusterset.local.\n$TTL 5\n@ SOA ns.dns hostmaster 1 7200 1800 86400 5\n@ NS ns.dns\n");
    zone += "ns.dns A 127.0.0.1\n";
    for number in 0..NAMES {
        writeln!(zone, "{}. A {}", name(number), address(number)).unwrap();
    }
    std::fs::write(folder.join("clusterset.local.zone"), zone).unwrap();
    folder
}

/// With one worker. `None` if it is not installed.
pub fn knot() -> Option<Served> {
    let program = ["/usr/sbin/knotd", "/usr/local/sbin/knotd"].into_iter().find(|path| Path::new(path).exists())?;
    let (at, folder) = (free(), folder("knot"));
    let path = folder.display();
    let settings = format!(
        "server:\n    rundir: {path}\n    listen: {}@{}\n    udp-workers: 1\n    tcp-workers: 1\n    background-workers: 1\n\
         database:\n    storage: {path}\n\
         template:\n  - id: default\n    storage: {path}\n    zonefile-sync: -1\n    journal-content: none\n\
         zone:\n  - domain: clusterset.local\n",
        at.ip(),
        at.port()
    );
    let file = folder.join("knot.conf");
    std::fs::write(&file, settings).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    Some(Served::start(at, &mut command, Some(folder)))
}

/// `None` if it is not there and cannot be built.
pub fn coredns() -> Option<Served> {
    let program = built_coredns()?;
    let (at, folder) = (free(), folder("coredns"));
    let file = folder.join("Corefile");
    let zone = folder.join("clusterset.local.zone");
    let settings =
        format!("clusterset.local:{} {{\n    bind {}\n    file {}\n}}\n", at.port(), at.ip(), zone.display());
    std::fs::write(&file, settings).unwrap();
    let mut command = Command::new(program);
    command.arg("-conf").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    Some(Served::start(at, &mut command, Some(folder)))
}

/// The program that an earlier run has built, or one built now, which takes minutes.
fn built_coredns() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("coredns");
    let program = place.join("coredns");
    if program.exists() {
        return Some(program);
    }
    let go = ["go", "/usr/local/go/bin/go"].into_iter().find(|go| Command::new(go).arg("version").output().is_ok())?;
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("main.go"), COREDNS).unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(go);
        // The module's own requirements are not in the file until they are needed.
        command.env("GOFLAGS", "-mod=mod");
        let quiet = command.args(words).current_dir(&place).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    let there = place.join("go.mod").exists() || run(&["mod", "init", "bench"]);
    let is_built = there && run(&["get", "github.com/coredns/coredns@latest"]) && run(&["build", "-o", "coredns", "."]);
    is_built.then_some(program)
}
