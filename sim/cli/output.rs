//! The only place that prints. Colours and progress only where a terminal shows them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the output layer")]

use std::io::{IsTerminal as _, Write as _};
use tombolo_scenarios::Judgement;

/// A line, or several, for whoever asked.
pub(super) fn say(text: &str) {
    // Whoever reads may have stopped (`| head`): that is no failure of ours.
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end_matches('\n'));
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
pub(super) fn say_table(table: &str) {
    let paint = colours(std::io::stdout().is_terminal());
    let lines: Vec<String> = table.lines().map(|line| if paint { painted(line) } else { line.to_owned() }).collect();
    say(&lines.join("\n"));
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

/// How far a long work is, on standard error if that is a terminal.
#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
    total: usize,
}

impl Progress {
    /// Of `total` runs. One run needs none.
    pub(super) fn of(total: usize) -> Self {
        Self { shown: total > 1 && std::io::stderr().is_terminal(), total }
    }

    /// So many are done, so many failed.
    pub(super) fn tell(&self, done: usize, failed: usize) {
        if self.shown {
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K{done} of {} runs, {failed} failed", self.total);
            let _ = stderr.flush();
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
    fn a_judgement_is_painted_and_nothing_else_of_its_line() {
        assert_eq!(painted("  ok      west/worker"), "  \x1b[32mok\x1b[0m      west/worker");
        assert_eq!(painted("  FAILED  x"), "  \x1b[31mFAILED\x1b[0m  x");
        assert_eq!(painted("  broken  x"), "  \x1b[31mbroken\x1b[0m  x");
        assert_eq!(painted("okay | core speed"), "okay | core speed");
    }
}
