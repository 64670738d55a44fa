//! Mistakes as they are collected while a file is read.

use super::wrong::Wrong;
use core::ops::Range;

/// Bytes of the file.
pub(super) type Span = Range<usize>;

/// What is wrong so far. Reading goes on after a mistake, so that one run shows as many as it can; a function that
/// returns `None` has reported why.
#[derive(Default, Debug)]
pub(super) struct Report(Vec<(Span, Wrong)>);

impl Report {
    /// Adds a mistake.
    pub fn add(&mut self, span: Span, wrong: Wrong) {
        self.0.push((span, wrong));
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All mistakes, in the order of the file, each once.
    pub fn into_sorted(self) -> Vec<(Span, Wrong)> {
        let mut found = self.0;
        found.sort_by_key(|(span, _)| (span.start, span.end));
        found.dedup();
        found
    }
}
