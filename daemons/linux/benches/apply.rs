//! What it costs to look, and to apply a change, on this kernel: median of some rounds, in milliseconds.
//!
//! `cargo bench -p tombolo-linux` as root, on a machine with nft and ip.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures on threads of their own")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "it is a measurement that a person looks at"
)]
#![allow(dead_code, reason = "the tests use the rest")]

extern crate alloc;

#[path = "../tests/bed.rs"]
mod bed;
#[path = "../../../core/network/tests/clusters.rs"]
mod clusters;
#[path = "../tests/networks.rs"]
mod networks;

use bed::{Wires, inside, sh, wanted};
use networks::{node, service};
use std::time::{Duration, Instant};
use tombolo_core::model::Protocol;
use tombolo_core::network::{Network, Wanted};
use tombolo_core::{base, model, network};
use tombolo_linux::Node;

const ROUNDS: usize = 21;

fn main() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: apply (not root)");
        return;
    }
    println!("{:34} {:>9} {:>9} {:>9}", "ms, with this many services", 1, 30, 100);
    let columns: Vec<_> = [1, 30, 100].into_iter().map(|services| inside(move || column(services))).collect();
    for row in 0..columns[0].len() {
        let cells: Vec<_> = columns.iter().map(|column| format!("{:9.2}", millis(column[row].1))).collect();
        println!("{:34} {}", columns[0][row].0, cells.join(" "));
    }
}

fn column(services: u16) -> Vec<(&'static str, Duration)> {
    sh(
        "ip link add eth0 type veth peer wire; ip link set eth0 up; ip link set wire up; ip address add 172.16.1.1/24 dev eth0",
    );
    let mut kernel = Node::open(Box::new(Wires::default())).unwrap();
    let began = Instant::now();
    kernel.reconcile(&gateway((1, 1), services, 7)).unwrap();
    let first = began.elapsed();
    let mut apply = |wanted: &Wanted| drop(kernel.reconcile(wanted).unwrap());
    let (one, other) = (gateway((1, 1), services, 7), gateway((1, 1), services, 8));
    let (there, back) = (gateway((1, 2), services, 7), gateway((1, 1), services, 7));
    let nothing = median(|_| apply(&one));
    let service = median(|round| apply(if round % 2 == 0 { &other } else { &one }));
    let path = median(|round| apply(if round % 2 == 0 { &there } else { &back }));
    let look = median(|_| drop(kernel.observe().unwrap()));
    vec![
        ("set up from nothing, once", first),
        ("look", look),
        ("nothing to do", nothing),
        ("one service has another backend", service),
        ("the path moves to another cable", path),
    ]
}

fn gateway(choice: (u8, u8), services: u16, backend: u8) -> Wanted {
    let mut network: Network = node((1, 1), choice);
    for port in 0..services {
        let backend = if port == 0 { backend } else { 9 };
        network.put(service(1, Protocol::Tcp, 1000 + port, &[([10, 1, 3, backend].into(), 8080)]));
    }
    wanted(&network)
}

fn median(mut of: impl FnMut(usize)) -> Duration {
    let mut took: Vec<_> = (0..ROUNDS)
        .map(|round| {
            let began = Instant::now();
            of(round);
            began.elapsed()
        })
        .collect();
    took.sort();
    took[ROUNDS / 2]
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
