//! `doublecheck`: plays a seed in two processes and compares all that they print. What differs was left to chance.

use super::Ending;
use super::args::Doublecheck;
use super::corpus::{self, Entry};
use super::output::{self, Progress};
use super::run::{replay, tell_not_run};
use anyhow::{Context as _, bail};
use std::process::{Child, Command, Stdio};
use tombolo_sim::Speed;

/// Checks each seed of each scenario.
pub(super) fn doublecheck(asked: &Doublecheck) -> anyhow::Result<Ending> {
    let (entries, unread) = corpus::read_all(&asked.which.files);
    let (seeds, speed) = (asked.which.seeds(), asked.which.speed);
    let progress = Progress::of(entries.len() * seeds.len());
    let (mut done, mut differing) = (0, 0);
    for entry in &entries {
        for seed in &seeds {
            let same = check(entry, *seed, speed, &progress)?;
            done += 1;
            differing += usize::from(!same);
            progress.tell(done, differing);
        }
    }
    progress.wipe();
    let ending = if differing == 0 { Ending::Held } else { Ending::Failed };
    Ok(tell_not_run(&unread, asked.which.files.len()).max(ending))
}

fn check(entry: &Entry, seed: u64, speed: Speed, progress: &Progress) -> anyhow::Result<bool> {
    let [first, second] = [spawn(entry, seed, speed)?, spawn(entry, seed, speed)?].map(output_of);
    let ((first, failed), (second, _)) = (first?, second?);
    progress.wipe();
    let name = &entry.scenario.name;
    match first_difference(&first, &second) {
        None => {
            let failed = if failed { ", twice FAILED" } else { "" };
            let hash = hash_of(&first);
            output::say_table(&format!("ok      {name} | {speed} | seed {seed}: twice trace {hash}{failed}"))?;
            Ok(true)
        }
        Some((line, one, other)) => {
            output::say_table(&format!("FAILED  {name} | {speed} | seed {seed}: the runs differ from line {line} on"))?;
            output::say(&format!("  first   {one}\n  second  {other}"))?;
            output::say(&format!("  replay: {}", replay("doublecheck", &entry.path, seed, speed)))?;
            Ok(false)
        }
    }
}

fn spawn(entry: &Entry, seed: u64, speed: Speed) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.arg("run").arg(&entry.path).args(["--seed", &seed.to_string(), "--speed", speed.name(), "--trace"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("cannot start this program again")
}

/// What a run printed, and whether it failed: which is no difference if both did.
fn output_of(child: Child) -> anyhow::Result<(String, bool)> {
    let output = child.wait_with_output().context("cannot hear the second process")?;
    match output.status.code() {
        Some(code @ (0 | 1)) => {
            let text = String::from_utf8(output.stdout).context("the run printed what is no text")?;
            Ok((text, code == 1))
        }
        Some(_) | None => {
            bail!("the run ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
        }
    }
}

/// Number, from 1, and text of the first line that differs.
fn first_difference<'a>(one: &'a str, other: &'a str) -> Option<(usize, &'a str, &'a str)> {
    const NOTHING: &str = "(no more)";
    let (mut ones, mut others) = (one.lines(), other.lines());
    for number in 1.. {
        match (ones.next(), others.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some((number, a.unwrap_or(NOTHING), b.unwrap_or(NOTHING))),
        }
    }
    None
}

/// The hash stands at the end of a table.
fn hash_of(output: &str) -> &str {
    output.rsplit_once(" played, trace ").map_or("", |(_, hash)| hash.split_whitespace().next().unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_found_also_where_one_output_ends() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\nc", "a\nx\ny"), Some((2, "b", "x")));
        assert_eq!(first_difference("a\nb", "a"), Some((2, "b", "(no more)")));
    }

    #[test]
    fn the_hash_is_read_from_the_end_of_the_table() {
        let ok = "trace of old\n  ok  65.000 s played, trace 0011223344556677\n";
        assert_eq!(hash_of(ok), "0011223344556677");
        let failed = "  FAILED  65.000 s played, trace 0011\n  replay: …\n  (--trace tells every fact)\n";
        assert_eq!(hash_of(failed), "0011");
    }
}
