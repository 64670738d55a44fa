//! What daemons take that have nothing to do: two clusters, a gateway and a worker each, with discovery and DNS.

#![allow(clippy::unwrap_used, reason = "a measurement that fails may panic")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures the time of the machine")]
#![allow(clippy::print_stdout, reason = "it prints what it measured")]
#![allow(dead_code, reason = "the tests use the rest")]

#[path = "../tests/bed.rs"]
mod bed;
#[path = "../../linux/tests/lacking.rs"]
mod lacking;
#[path = "../tests/place.rs"]
mod place;
#[path = "../tests/site.rs"]
mod site;

use bed::{Daemon, until};
use site::Site;
use std::time::Duration;

const FOR: Duration = Duration::from_secs(30);
/// Clock ticks in a second, as Linux counts them for everybody.
const TICKS: f64 = 100.0;

/// Ticks that it has run, and KiB of memory that it holds.
fn taken(daemon: &Daemon) -> (u64, u64) {
    let of = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", daemon.pid())).unwrap();
    let stat = of("stat");
    let after_name = stat.rsplit_once(") ").unwrap().1;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    let status = of("status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    (ticks, line.split_whitespace().nth(1).unwrap().parse().unwrap())
}

fn main() {
    if let Some(what) = place::lacking() {
        println!("SKIPPED: idle daemons ({what})");
        return;
    }
    let nodes = [("east", "gw"), ("east", "worker"), ("west", "gw"), ("west", "worker")];
    let site = Site::new("idle", &nodes);
    let mut daemons: Vec<(String, Daemon)> =
        nodes.iter().map(|at| (format!("{}/{}", at.0, at.1), site.start(*at, &[]))).collect();
    for of in ["east", "west"] {
        daemons.push((format!("{of} discovery"), site.start_beside("discovery", of, &[])));
    }
    daemons.push(("west dns".into(), site.start_beside("dns", "west", &["--dns-listen=192.0.2.200:53"])));
    until("pods reach each other", || site.reaches(nodes[1], nodes[3]).then_some(()));
    std::thread::sleep(Duration::from_secs(5));
    let before: Vec<_> = daemons.iter().map(|(_, daemon)| taken(daemon)).collect();
    std::thread::sleep(FOR);
    println!("{:<16} {:>8} {:>8}   over {} s, nothing to do", "daemon", "core %", "MiB", FOR.as_secs());
    for ((name, daemon), (ticks, _)) in daemons.iter().zip(before) {
        let (now, kib) = taken(daemon);
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let (share, mib) = ((now - ticks) as f64 / TICKS / FOR.as_secs_f64() * 100.0, kib as f64 / 1024.0);
        println!("{name:<16} {share:>8.2} {mib:>8.1}");
    }
}
