//! The same names from knot and from here, one after the other on the same core, asked from another:
//! `cargo bench -p tombolo-dns`. With knot (Debian: `knot`) it prints ratios, else our own numbers alone.
//!
//! ```text
//!   core 0: knotd, or this program as `serve`        core 1: questions, many in flight (most), or on time (half load)
//! ```
//! A round asks one of them as fast as it answers, then both at the same rate, half of what knot can do, on time whatever
//! becomes of the replies, and takes the time to each reply: percentiles are of tenths of a second. Rounds alternate, and medians are compared: the numbers of two
//! hours on a busy machine do not. The targets: 0.75 of knot's rate, twice its 99th percentile.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its numbers")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail loudly")]

mod asking;
mod servers;

use asking::{Outcome, flood, on_time};
use servers::{Served, knot, ours};
use std::time::Duration;

/// Names that both serve.
const NAMES: u32 = 10_000;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
/// Questions that are under way at once, as fast as they are answered.
const IN_FLIGHT: usize = 256;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == "serve") {
        return servers::serve(arguments.get(2).unwrap());
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return println!("SKIPPED: it takes two cores, one to answer and one to ask");
    }
    asking::stay_on(1);
    let ours = ours();
    let Some(knot) = knot() else {
        println!("SKIPPED: the comparison, for want of knot (apt-get install knot); ours alone:");
        return alone(&ours);
    };
    compare(&[("knot", knot), ("tombolo", ours)]);
}

fn alone(ours: &Served) {
    let most = flood(ours.at, NAMES, IN_FLIGHT, ROUND);
    println!("{:>10.0} replies/s", most.rate());
}

/// What one server did in all rounds.
#[derive(Default)]
struct Column {
    most_qps: Vec<f64>,
    busy_us: Vec<f64>,
    median_us: Vec<f64>,
    p99_us: Vec<f64>,
    half_busy_us: Vec<f64>,
    lost: u64,
}

fn compare(servers: &[(&str, Served); 2]) {
    let mut columns = [Column::default(), Column::default()];
    let mut rate = 0.0;
    for round in 0..=ROUNDS {
        for ((_, server), column) in servers.iter().zip(&mut columns) {
            let before = server.busy();
            let most = flood(server.at, NAMES, IN_FLIGHT, ROUND);
            column.most_qps.push(most.rate());
            column.busy_us.push(each(server.busy() - before, &most));
        }
        rate = columns[0].most_qps.iter().copied().fold(f64::MAX, f64::min) / 2.0;
        for ((_, server), column) in servers.iter().zip(&mut columns) {
            let before = server.busy();
            let half = on_time(server.at, NAMES, rate, ROUND);
            column.median_us.push(half.percentile(0.5).as_secs_f64() * 1e6);
            column.p99_us.push(half.percentile(0.99).as_secs_f64() * 1e6);
            column.half_busy_us.push(each(server.busy() - before, &half));
            column.lost += half.lost;
        }
        if round == 0 {
            // To warm up.
            columns = [Column::default(), Column::default()];
        }
    }
    let [knot, ours] = &columns;
    println!(
        "{NAMES} names, A over UDP, one socket on one core; medians of {ROUNDS} rounds of {ROUND:?}; half load: {rate:.0}/s"
    );
    println!("{:<34} {:>10} {:>10} {:>7}", "", "knot", "tombolo", "ratio");
    row("replies/s, at most", &knot.most_qps, &ours.most_qps);
    row("us of the core a reply, at most", &knot.busy_us, &ours.busy_us);
    row("us of the core a reply, half load", &knot.half_busy_us, &ours.half_busy_us);
    row("median us, half load", &knot.median_us, &ours.median_us);
    row("p99 us, half load", &knot.p99_us, &ours.p99_us);
    println!("{:<34} {:>10} {:>10}", "lost, half load", knot.lost, ours.lost);
}

fn each(busy: Duration, outcome: &Outcome) -> f64 {
    busy.as_secs_f64() * 1e6 / outcome.replies.max(1) as f64
}

fn row(what: &str, knot: &[f64], ours: &[f64]) {
    let (knot, ours) = (median(knot), median(ours));
    println!("{what:<34} {knot:>10.2} {ours:>10.2} {:>7.2}", ours / knot);
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
