//! The same names from others and from here, one after the other on the same core, asked from another:
//! `cargo bench -p tombolo-dns`. Others are knot (Debian: `knot`) and CoreDNS (built of its Go module, where there is go);
//! whichever cannot be had is SKIPPED.
//!
//! ```text
//!   core 0: knotd, coredns, or this program as `serve`        core 1: questions, many in flight, or on time
//! ```
//! A round asks each of them as fast as it answers; then knot and this one at the same rate, half of what knot can do, on
//! time whatever becomes of the replies, and takes the time to each reply: percentiles are of tenths of a second. Rounds
//! alternate, and medians are compared: the numbers of two hours on a busy machine do not. The targets: 0.75 of knot's rate,
//! three times CoreDNS's; twice knot's 99th percentile; and a table that is swapped loses nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its numbers")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail loudly")]

mod asking;
mod rivals;
mod servers;

use asking::{Outcome, flood, on_time};
use rivals::{coredns, knot};
use servers::{Served, ours, swapping};
use std::time::Duration;

/// Names that both serve.
const NAMES: u32 = 10_000;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
/// Questions that are under way at once, as fast as they are answered.
const IN_FLIGHT: usize = 256;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, how, at] = &arguments[..]
        && ["serve", "swap"].contains(&how.as_str())
    {
        return servers::serve(at, how == "swap");
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return println!("SKIPPED: it takes two cores, one to answer and one to ask");
    }
    asking::stay_on(1);
    let knot = or_skipped("knot", "apt-get install knot", knot());
    let coredns = or_skipped("CoreDNS", "install go", coredns());
    let rivals = [("knot", knot), ("CoreDNS", coredns)];
    let rivals = rivals.into_iter().filter_map(|(name, server)| server.map(|server| (name, server)));
    compare(&rivals.chain([("tombolo", ours())]).collect::<Vec<_>>());
}

fn or_skipped(name: &str, advice: &str, server: Option<Served>) -> Option<Served> {
    if server.is_none() {
        println!("SKIPPED: {name} ({advice})");
    }
    server
}

/// What one server did in all rounds.
#[derive(Default)]
struct Column {
    most_qps: Vec<f64>,
    busy_us: Vec<f64>,
    median_us: Vec<f64>,
    p99_us: Vec<f64>,
    half_busy_us: Vec<f64>,
    lost: Vec<f64>,
}

fn compare(servers: &[(&str, Served)]) {
    let mut columns: Vec<Column> = Vec::new();
    let mut rate = 0.0;
    for round in 0..=ROUNDS {
        // The first round is to warm up.
        if round <= 1 {
            columns = servers.iter().map(|_| Column::default()).collect();
        }
        for ((_, server), column) in servers.iter().zip(&mut columns) {
            let before = server.busy();
            let most = flood(server.at, NAMES, IN_FLIGHT, ROUND);
            column.most_qps.push(most.rate());
            column.busy_us.push(each(server.busy() - before, &most));
        }
        rate = columns[0].most_qps.iter().copied().fold(f64::MAX, f64::min) / 2.0;
        for ((name, server), column) in servers.iter().zip(&mut columns) {
            // It would be more than it can.
            if *name != "CoreDNS" {
                half_load(server, rate, column);
            }
        }
    }
    table(servers, &columns, rate);
    swaps(rate);
}

fn half_load(server: &Served, rate: f64, column: &mut Column) {
    let before = server.busy();
    let half = on_time(server.at, NAMES, rate, ROUND);
    column.median_us.push(half.percentile(0.5).as_secs_f64() * 1e6);
    column.p99_us.push(half.percentile(0.99).as_secs_f64() * 1e6);
    column.half_busy_us.push(each(server.busy() - before, &half));
    column.lost.push(half.lost as f64);
}

fn table(servers: &[(&str, Served)], columns: &[Column], rate: f64) {
    println!("{NAMES} names, A over UDP, one socket on one core; medians of {ROUNDS} rounds of {ROUND:?}");
    println!("half load: {rate:.0} questions/s");
    let names: String = servers.iter().map(|(name, _)| format!(" {name:>10}")).collect();
    let ratios: String =
        servers.iter().rev().skip(1).rev().map(|(name, _)| format!(" {:>12}", format!("to {name}"))).collect();
    println!("{:<36}{names}{ratios}", "");
    row("replies/s, at most", columns, |column| &column.most_qps);
    row("us of the core a reply, at most", columns, |column| &column.busy_us);
    row("us of the core a reply, half load", columns, |column| &column.half_busy_us);
    row("median us, half load", columns, |column| &column.median_us);
    row("p99 us, half load", columns, |column| &column.p99_us);
    row("lost, half load", columns, |column| &column.lost);
}

/// The medians, and the ratios of the last one to the others.
fn row(what: &str, columns: &[Column], of: impl Fn(&Column) -> &Vec<f64>) {
    let medians: Vec<Option<f64>> = columns.iter().map(|column| median(of(column))).collect();
    let ours = medians.last().copied().flatten();
    let told =
        |value: Option<f64>, width| value.map_or(format!(" {:>width$}", "-"), |value| format!(" {value:>width$.2}"));
    let values: String = medians.iter().map(|value| told(*value, 10)).collect();
    let ratio = |theirs: &Option<f64>| theirs.filter(|theirs| *theirs > 0.0).and_then(|theirs| Some(ours? / theirs));
    let ratios: String = medians[..medians.len() - 1].iter().map(|theirs| told(ratio(theirs), 12)).collect();
    println!("{what:<36}{values}{ratios}");
}

/// What is lost while the table is swapped.
fn swaps(rate: f64) {
    let server = swapping();
    let Outcome { replies, lost, .. } = on_time(server.at, NAMES, rate, ROUND * 2);
    println!("with 10 new tables a second, half load: {lost} of {} lost", replies + lost);
}

fn each(busy: Duration, outcome: &Outcome) -> f64 {
    busy.as_secs_f64() * 1e6 / outcome.replies.max(1) as f64
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
