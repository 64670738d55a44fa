//! All mistakes of a file, told so that a tired person finds them:
//!
//! ```text
//! crash.yaml:12:31: there is no cluster 'wets'
//!    |
//! 12 |   - { at: 20s, do: { power_off: wets/active-gateway } }
//!    |                                 ^^^^
//!    = expected: east or west
//!    = hint: did you mean west?
//! ```

use super::report::{Report, Span};
use super::wrong::Wrong;
use core::fmt;

/// More are counted, not shown.
const SHOWN_MAX: usize = 20;
/// Columns of a source line that are shown.
const WIDTH_MAX: usize = 160;

/// One mistake and its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Mistake {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// How many characters are meant, at least 1.
    pub width: usize,
    /// What is wrong.
    pub wrong: Wrong,
    source: String,
}

/// All mistakes of a file, in its order; at least one.
#[derive(Clone, PartialEq, Debug)]
pub struct Errors {
    file_name: String,
    mistakes: Vec<Mistake>,
}

impl Errors {
    pub(super) fn new(file_name: &str, text: &str, report: Report) -> Self {
        let mistakes = report.into_sorted().into_iter().map(|(span, wrong)| Mistake::new(text, &span, wrong)).collect();
        Self { file_name: file_name.to_owned(), mistakes }
    }

    /// Each of them.
    #[must_use]
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl core::error::Error for Errors {}

impl Mistake {
    fn new(text: &str, span: &Span, wrong: Wrong) -> Self {
        let start = boundary(text, span.start);
        let end = boundary(text, span.end).max(start);
        let line_start = text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
        let line_end = text.get(start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |newline| start + newline);
        let chars = |from: usize, to: usize| text.get(from..to).map_or(0, |part| part.chars().count());
        let line_text = text.get(line_start..line_end).unwrap_or_default();
        Self {
            line: text.get(..start).map_or(0, |before| before.matches('\n').count()) + 1,
            column: chars(line_start, start) + 1,
            width: chars(start, end.min(line_end)).max(1),
            wrong,
            source: line_text.trim_end_matches('\r').chars().map(shown).collect(),
        }
    }

    fn write(&self, file_name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let (source, column) = cut(&self.source, self.column, self.width);
        let width = self.width.min(WIDTH_MAX);
        writeln!(f, "{file_name}:{}:{}: {}", self.line, self.column, plain(&self.wrong.to_string()))?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {source}")?;
        writeln!(f, "{margin} | {}{}", " ".repeat(column - 1), "^".repeat(width))?;
        if let Some(expected) = self.wrong.expected() {
            writeln!(f, "{margin} = expected: {}", plain(&expected))?;
        }
        if let Some(hint) = self.wrong.hint() {
            writeln!(f, "{margin} = hint: {}", plain(&hint))?;
        }
        Ok(())
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in self.mistakes.iter().take(SHOWN_MAX) {
            mistake.write(&self.file_name, f)?;
            writeln!(f)?;
        }
        let count = self.mistakes.len();
        write!(f, "{count} {} in {}", if count == 1 { "mistake" } else { "mistakes" }, self.file_name)?;
        if count > SHOWN_MAX { write!(f, ", the first {SHOWN_MAX} are shown") } else { Ok(()) }
    }
}

/// The nearest place at or before `at` where a character begins.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// What a character looks like on a terminal: one column, and no control of it.
fn shown(c: char) -> char {
    match c {
        '\t' => ' ',
        c if steers(c) => '\u{fffd}',
        c => c,
    }
}

/// A text that came from the file, as it may be shown.
fn plain(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// Whether a character is not shown but changes how a terminal shows others: controls, and what turns the direction of
/// writing (UAX #9).
pub(super) fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// A long line is cut so that the place is seen; returns what is left and the column in it.
fn cut(line: &str, column: usize, width: usize) -> (String, usize) {
    let length = line.chars().count();
    if length <= WIDTH_MAX {
        return (line.to_owned(), column);
    }
    let context = WIDTH_MAX.saturating_sub(width) / 2;
    let from = (column - 1).saturating_sub(context);
    let front = if from > 0 { "…" } else { "" };
    let kept: String = line.chars().skip(from).take(WIDTH_MAX).collect();
    let back = if from + WIDTH_MAX < length { "…" } else { "" };
    (format!("{front}{kept}{back}"), column - from + front.chars().count())
}
