//! The keys of a mapping, taken by name.

use super::nearest::nearest;
use super::report::{Report, Span};
use super::tree::{Node, Word};
use super::wrong::Wrong;

/// A mapping whose keys are known: others are reported when it is opened, missing ones when they are needed.
pub(super) struct Fields<'t> {
    entries: &'t [(Word, Node)],
    span: Span,
    place: &'static str,
    known: &'static [&'static str],
}

impl<'t> Fields<'t> {
    /// Opens the mapping at `node`. `place` names it in messages.
    pub fn open(
        node: &'t Node,
        place: &'static str,
        known: &'static [&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        let entries = node.map("a mapping with keys and values", report)?;
        for (key, _) in entries {
            if !known.contains(&key.text.as_str()) {
                report.add(key.span.clone(), Wrong::UnknownKey { key: key.text.clone(), place, known });
            }
        }
        Some(Self { entries, span: node.span.clone(), place, known })
    }

    /// The value of a key that may be missing.
    pub fn get(&self, key: &str) -> Option<&'t Node> {
        self.entries.iter().find(|(word, _)| word.text == key).map(|(_, node)| node)
    }

    /// The value of a key that must be there. One that is merely misspelt is reported once, as unknown.
    pub fn need(&self, key: &'static str, report: &mut Report) -> Option<&'t Node> {
        let node = self.get(key);
        let strangers = self.entries.iter().map(|(word, _)| word.text.as_str()).filter(|k| !self.known.contains(k));
        let misspelt = |stranger| nearest(stranger, self.known.iter().copied()) == Some(key);
        if node.is_none() && !strangers.into_iter().any(misspelt) {
            report.add(self.span.clone(), Wrong::MissingKey { key, place: self.place });
        }
        node
    }

    /// Where the mapping stands.
    pub fn span(&self) -> Span {
        self.span.clone()
    }
}

/// A mapping in which exactly one of several words must stand, beside other keys: an entry of the timeline or of the
/// expectations.
pub(super) struct Choice {
    /// `verb`, `expectation` or `time`.
    pub kind: &'static str,
    /// `a` or `an`.
    pub article: &'static str,
    /// The words.
    pub known: &'static [&'static str],
}

impl Choice {
    /// The one that stands in `entries`. None or several are reported.
    pub fn of<'t>(
        &self,
        entries: &'t [(Word, Node)],
        span: &Span,
        report: &mut Report,
    ) -> Option<(&'t Word, &'t Node)> {
        let mut chosen = entries.iter().filter(|(key, _)| self.known.contains(&key.text.as_str()));
        let Some((first, node)) = chosen.next() else {
            let Self { kind, article, known } = self;
            report.add(span.clone(), Wrong::Lacks { article, kind, known });
            return None;
        };
        if let Some((second, _)) = chosen.next() {
            let (first, second_text) = (first.text.clone(), second.text.clone());
            report.add(second.span.clone(), Wrong::Two { kind: self.kind, first, second: second_text });
            return None;
        }
        Some((first, node))
    }
}
