//! The only place that prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the output layer")]

use crate::abilities::Finding;
use crate::keeper::{Site, Whereabouts};
use anyhow::{Context as _, Result};
use std::io::{self, ErrorKind, Write as _};

/// A line, or several, for whoever asked.
///
/// # Errors
/// If it cannot be written. Whoever reads may have stopped (`| head`): that is no failure of ours.
pub(super) fn say(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write the output"),
    }
}

/// What went wrong.
pub(super) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "error: {text}");
}

/// Beside the output.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The places of a lab.
pub(super) fn places(places: &[Whereabouts]) -> String {
    let row = |place: &Whereabouts| {
        let enter = format!("nsenter --net=/proc/{}/ns/net", place.thread);
        [place.name.clone(), enter, place.addresses.join(", ")]
    };
    let head = ["PLACE", "ENTER (or: tombolo-lab shell PLACE)", "ADDRESSES"].map(ToOwned::to_owned);
    table(std::iter::once(head).chain(places.iter().map(row)).collect())
}

/// The links between sites.
pub(super) fn links(links: &[Site]) -> String {
    let percent = |millionths: u32| format!("{}%", f64::from(millionths) / 10_000.0);
    let row = |link: &Site| {
        let quality = link.quality;
        [
            link.from.clone(),
            link.to.clone(),
            format!("{:?}", quality.latency),
            format!("{:?}", quality.jitter),
            percent(quality.loss_millionths),
            percent(quality.reorder_millionths),
            quality.mtu.to_string(),
            if quality.cut { "cut" } else { "" }.to_owned(),
        ]
    };
    let head = ["FROM", "TO", "LATENCY", "JITTER", "LOSS", "REORDER", "MTU", ""].map(ToOwned::to_owned);
    table(std::iter::once(head).chain(links.iter().map(row)).collect())
}

/// What the machine can do.
pub(super) fn findings(findings: &[Finding]) -> String {
    let row = |finding: &Finding| {
        let verdict = match (&finding.lacking, finding.needed) {
            (None, _) => "ok".to_owned(),
            (Some(why), true) => format!("LACKING: {why}"),
            (Some(why), false) => format!("SKIPPED: {why}"),
        };
        [finding.what.to_owned(), finding.serves.to_owned(), verdict]
    };
    let head = ["ABILITY", "SERVES", ""].map(ToOwned::to_owned);
    table(std::iter::once(head).chain(findings.iter().map(row)).collect())
}

/// Columns, each as wide as its widest cell.
fn table<const N: usize>(rows: Vec<[String; N]>) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
