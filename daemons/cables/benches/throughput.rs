//! How much a cable carries: TCP through it, between two namespaces on one wire, beside the wire alone and Debian's
//! wireguard-go. Medians of interleaved rounds.
//!
//! `cargo bench -p tombolo-cables` as root.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures on threads of their own")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "it is a measurement that a person looks at"
)]
#![allow(dead_code, reason = "the tests use the rest")]

#[path = "../../linux/tests/bed.rs"]
mod bed;
#[path = "../tests/contender.rs"]
mod contender;
#[path = "../tests/site.rs"]
mod site;

use contender::{OTHER, Running, is_there};
use site::inner;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const OURS: &str = env!("CARGO_BIN_EXE_tombolo-cable");
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1500);
/// How many streams, and whether they go from the second to the first.
const CELLS: [(usize, bool); 4] = [(1, false), (1, true), (4, false), (4, true)];

/// One that is measured.
struct Contender {
    name: &'static str,
    command: Option<&'static str>,
    running: Running,
    /// Mbit/s of each cell, by round.
    rates: [Vec<f64>; 4],
    /// Round trips in µs.
    trips: Vec<f64>,
}

impl Contender {
    fn new(name: &'static str, command: Option<&'static str>) -> Self {
        let running = match command {
            Some(command) => Running::joined([command, command], false),
            None => Running::apart(),
        };
        let mut one = Self { name, command, running, rates: Default::default(), trips: Vec::new() };
        assert!(one.running.0.reaches(0, one.address(1)), "{name} carries nothing");
        one.round();
        (one.rates, one.trips) = Default::default();
        one
    }

    fn address(&self, side: usize) -> IpAddr {
        if self.command.is_some() { inner(side)[0] } else { IpAddr::from([192, 0, 2, u8::try_from(side + 1).unwrap()]) }
    }

    fn round(&mut self) {
        for (cell, (streams, is_back)) in CELLS.into_iter().enumerate() {
            let rate = self.measure(streams, is_back);
            self.rates[cell].push(rate);
        }
        let told = self.running.0.ping(0, "-i 0.002 -c 300", self.address(1));
        let average = told.rsplit_once("= ").and_then(|(_, numbers)| numbers.split('/').nth(1));
        self.trips.push(average.and_then(|number| number.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1e3);
    }

    fn measure(&self, streams: usize, is_back: bool) -> f64 {
        let (from, to) = if is_back { (1, 0) } else { (0, 1) };
        let address = self.address(to);
        let stop = Arc::new(AtomicBool::new(false));
        let listener = self.running.0.places[to].run(move || TcpListener::bind(SocketAddr::new(address, 0)).unwrap());
        let place = listener.local_addr().unwrap();
        let sending: Vec<_> = (0..streams)
            .map(|_| {
                let stop = stop.clone();
                self.running.0.places[from].beside(move || {
                    let mut stream = TcpStream::connect(place).unwrap();
                    let bytes = vec![7; 256 << 10];
                    while !stop.load(Ordering::Relaxed) && stream.write_all(&bytes).is_ok() {}
                })
            })
            .collect();
        let receiving: Vec<_> = (0..streams)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                self.running.0.places[to].beside(move || {
                    let (mut room, mut count) = (vec![0; 256 << 10], 0_u64);
                    loop {
                        match stream.read(&mut room) {
                            Ok(0) | Err(_) => return count,
                            Ok(length) => count += length as u64,
                        }
                    }
                })
            })
            .collect();
        let began = Instant::now();
        std::thread::sleep(TIME);
        stop.store(true, Ordering::Relaxed);
        sending.into_iter().for_each(|thread| thread.join().unwrap());
        let bytes: u64 = receiving.into_iter().map(|thread| thread.join().unwrap()).sum();
        #[allow(clippy::cast_precision_loss, reason = "a measurement has fewer digits")]
        let bits = bytes as f64 * 8.0;
        bits / began.elapsed().as_secs_f64() / 1e6
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: throughput (not root)");
        return;
    }
    let mut all = vec![Contender::new("the wire alone", None), Contender::new("tombolo-cable", Some(OURS))];
    if is_there(OTHER) {
        all.push(Contender::new(OTHER, Some(OTHER)));
    } else {
        println!("SKIPPED: {OTHER} (not installed)");
    }
    for _ in 0..ROUNDS {
        all.iter_mut().for_each(Contender::round);
    }
    println!("{:16} {:>9} {:>9} {:>9} {:>9} {:>9}", "Mbit/s", "1 ->", "1 <-", "4 ->", "4 <-", "rtt µs");
    for one in &all {
        let cells: Vec<_> = one.rates.iter().map(|rates| format!("{:9.0}", median(rates))).collect();
        println!("{:16} {} {:9.0}", one.name, cells.join(" "), median(&one.trips));
    }
    if let Some((ours, other)) = all.get(1).zip(all.get(2)) {
        // Each round's ratio: what else the machine does meets both alike.
        let ratio = |a: &[f64], b: &[f64]| median(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>());
        let cells: Vec<_> =
            (0..4).map(|cell| format!("{:9.2}", ratio(&ours.rates[cell], &other.rates[cell]))).collect();
        println!("{:16} {} {:9.2}", format!("to {OTHER}"), cells.join(" "), ratio(&ours.trips, &other.trips));
    }
}
