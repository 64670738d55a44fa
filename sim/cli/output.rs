//! The only place that prints. Colours and progress only where a terminal shows them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the output layer")]
#![allow(clippy::disallowed_types, reason = "how often progress is told is for people, and decides nothing")]

use anyhow::Context as _;
use core::cell::Cell;
use core::time::Duration;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::time::Instant;
use tombolo_scenarios::Judgement;

/// A line, or several, for whoever asked.
///
/// # Errors
/// If it cannot be written, as on a full disk: what nobody can read was not found out.
pub(super) fn say(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    written(writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush()))
}

/// Whoever reads may have stopped (`| head`): that is no failure of ours.
pub(super) fn written(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write the output"),
    }
}

/// What went wrong.
pub(super) fn complain(text: &str) {
    let mark = if colours(std::io::stderr().is_terminal()) { "\x1b[31merror:\x1b[0m" } else { "error:" };
    let _ = writeln!(std::io::stderr().lock(), "{mark} {text}");
}

fn colours(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none()
}

/// A table with its judgements in colour, if a terminal shows it.
///
/// # Errors
/// As of [`say`].
pub(super) fn say_table(table: &str) -> anyhow::Result<()> {
    let paint = colours(std::io::stdout().is_terminal());
    let lines: Vec<String> = table.lines().map(|line| if paint { painted(line) } else { line.to_owned() }).collect();
    say(&lines.join("\n"))
}

fn painted(line: &str) -> String {
    let colour = |judgement: Judgement| match judgement {
        Judgement::Met => 32,
        Judgement::Failed => 31,
        Judgement::Skipped => 33,
    };
    let rest = line.trim_start();
    let indent = line.len() - rest.len();
    for judgement in [Judgement::Met, Judgement::Failed, Judgement::Skipped] {
        let word = judgement.word();
        if let Some(rest) = rest.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
            return format!("{}\x1b[{}m{word}\x1b[0m{rest}", " ".repeat(indent), colour(judgement));
        }
    }
    match rest.strip_prefix("broken") {
        Some(rest) => format!("{}\x1b[31mbroken\x1b[0m{rest}", " ".repeat(indent)),
        None => line.to_owned(),
    }
}

/// Where nobody watches a line change, how far a work is stands in a line of its own, so often.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// How far a long work is, on standard error: a line that changes if that is a terminal, else a line now and then.
#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
    total: usize,
    /// When a line was told last, or the work began.
    told: Cell<Instant>,
}

impl Progress {
    /// Of `total` runs. One run needs none.
    pub(super) fn of(total: usize) -> Self {
        let open = Self::open();
        Self { shown: total > 1 && open.shown, total, ..open }
    }

    /// Of a work whose end is a time rather than a number.
    pub(super) fn open() -> Self {
        Self { shown: std::io::stderr().is_terminal(), total: 0, told: Cell::new(Instant::now()) }
    }

    /// So many are done, so many failed.
    pub(super) fn tell(&self, done: usize, failed: usize) {
        self.show(&format!("{done} of {} runs, {failed} failed", self.total));
    }

    /// In other words.
    pub(super) fn show(&self, text: &str) {
        if self.shown {
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
        } else if self.told.get().elapsed() >= LINE_EVERY {
            self.told.set(Instant::now());
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }

    /// Wipes it, so that something else can be printed.
    pub(super) fn wipe(&self) {
        if self.shown {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_pipe_is_no_failure() {
        assert!(written(Err(ErrorKind::BrokenPipe.into())).is_ok());
        assert_eq!(written(Err(ErrorKind::StorageFull.into())).unwrap_err().to_string(), "cannot write the output");
    }

    #[test]
    fn a_judgement_is_painted_and_nothing_else_of_its_line() {
        assert_eq!(painted("  ok      west/worker"), "  \x1b[32mok\x1b[0m      west/worker");
        assert_eq!(painted("  FAILED  x"), "  \x1b[31mFAILED\x1b[0m  x");
        assert_eq!(painted("  broken  x"), "  \x1b[31mbroken\x1b[0m  x");
        assert_eq!(painted("okay | core speed"), "okay | core speed");
    }
}
