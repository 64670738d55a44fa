//! What the processes of a lab take: memory and open files, looked at whenever all has been quiet for a while. What grows
//! from one quiet time to the next is leaked.

use core::fmt;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// So long nothing was done before it is looked.
pub(super) const QUIET: Duration = Duration::from_secs(30);
/// In so many quiet times it is looked before growth is judged: the first may be before all is warm.
const LOOKS_MIN: usize = 3;
/// Files that a process may have open more than at first, beside a quarter.
const FILES_SPARE: u64 = 4;
/// Memory that it may take more than at first, in KiB, beside a third.
const KIB_SPARE: u64 = 4 * 1024;

/// What all processes of one kind take together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sum {
    /// How many there are.
    pub processes: u64,
    /// Open files, sockets among them.
    pub files: u64,
    /// Resident memory of their own, in KiB.
    pub kib: u64,
}

/// What was seen at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Look {
    /// When, since the start.
    pub at: Duration,
    /// By kind: `tombolo gateway`.
    pub by: BTreeMap<String, Sum>,
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}s:", self.at.as_secs_f64())?;
        for (kind, Sum { processes, files, kib }) in &self.by {
            write!(f, " {processes} {kind} {files} files {:.1} MiB,", *kib as f64 / 1024.0)?;
        }
        Ok(())
    }
}

/// Looks at all processes but the first, which is the lab's own.
pub(super) fn look(at: Duration) -> Look {
    let mut look = Look { at, by: BTreeMap::new() };
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        let number: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // Who ends meanwhile takes nothing.
        let Some((kind, files, kib)) = number.filter(|number| *number > 1).and_then(|_| of_process(&path)) else {
            continue;
        };
        let sum = look.by.entry(kind).or_default();
        *sum = Sum { processes: sum.processes + 1, files: sum.files + files, kib: sum.kib + kib };
    }
    look
}

fn of_process(path: &Path) -> Option<(String, u64, u64)> {
    let line = fs::read(path.join("cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let program = words.next().filter(|program| !program.is_empty())?;
    let name = Path::new(&*program).file_name()?.to_string_lossy().into_owned();
    let verb = words.next().filter(|verb| verb.starts_with(|c: char| c.is_ascii_lowercase()));
    let kind = verb.map_or_else(|| name.clone(), |verb| format!("{name} {verb}"));
    let files = fs::read_dir(path.join("fd")).ok()?.count();
    let status = fs::read_to_string(path.join("status")).ok()?;
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some((kind, u64::try_from(files).ok()?, own.trim().trim_end_matches("kB").trim().parse().ok()?))
}

/// What grew from the first look to the last, in words.
#[must_use]
pub fn growth(looks: &[Look]) -> Vec<String> {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return Vec::new() };
    if looks.len() < LOOKS_MIN {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (kind, now) in &last.by {
        let Some(then) = first.by.get(kind) else { continue };
        let each = |of: u64, sum: &Sum| of / sum.processes.max(1);
        let (files, files_then) = (each(now.files, now), each(then.files, then));
        if files > files_then + files_then / 4 + FILES_SPARE {
            found.push(format!(
                "a {kind} has {files} open files, and had {files_then} at {:.0}s",
                first.at.as_secs_f64()
            ));
        }
        let (kib, kib_then) = (each(now.kib, now), each(then.kib, then));
        if kib > kib_then + kib_then / 3 + KIB_SPARE {
            found.push(format!("a {kind} takes {kib} KiB, and took {kib_then} at {:.0}s", first.at.as_secs_f64()));
        }
        if now.processes > then.processes {
            found.push(format!("there are {} {kind}, and there were {}", now.processes, then.processes));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at: u64, processes: u64, files: u64, kib: u64) -> Look {
        let sum = Sum { processes, files, kib };
        Look { at: Duration::from_secs(at), by: [("tombolo gateway".into(), sum)].into() }
    }

    #[test]
    fn what_grows_is_told_and_a_little_more_is_no_growth() {
        let first = seen(60, 4, 100, 40_000);
        let of = |last: Look| growth(&[first.clone(), first.clone(), last]);
        assert_eq!(of(seen(600, 4, 120, 60_000)), [""; 0]);
        assert_eq!(of(seen(600, 2, 50, 20_000)), [""; 0], "two of them are off");
        assert_eq!(of(seen(600, 4, 160, 40_000)), ["a tombolo gateway has 40 open files, and had 25 at 60s"]);
        assert_eq!(of(seen(600, 4, 100, 80_000)), ["a tombolo gateway takes 20000 KiB, and took 10000 at 60s"]);
        assert_eq!(of(seen(600, 5, 125, 50_000)), ["there are 5 tombolo gateway, and there were 4"]);
        assert_eq!(growth(&[first.clone(), seen(600, 9, 900, 900_000)]), [""; 0], "the first look may be a cold one");
    }

    #[test]
    fn it_sees_the_processes_that_are_there() {
        let look = look(Duration::ZERO);
        let own =
            std::env::args().next().and_then(|own| Some(Path::new(&own).file_name()?.to_string_lossy().into_owned()));
        let sum = look.by.iter().find(|(kind, _)| own.as_ref().is_some_and(|own| kind.starts_with(own.as_str())));
        assert!(sum.is_some_and(|(_, sum)| sum.files > 2 && sum.kib > 100), "{look}");
    }
}
