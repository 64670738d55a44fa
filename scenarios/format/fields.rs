//! The keys of a mapping, taken by name.

use super::grammar::{Choice, Mapping, Need};
use super::nearest::nearest;
use super::report::{Report, Span};
use super::tree::{Node, Word};
use super::wrong::Wrong;

/// A mapping whose keys are known.
pub(super) struct Fields<'t> {
    entries: &'t [(Word, Node)],
    span: Span,
    mapping: &'static Mapping,
}

impl<'t> Fields<'t> {
    /// Opens the mapping at `node`. Keys that it does not have are reported, and those that it lacks; one that is merely
    /// misspelt is reported once, as unknown.
    pub fn open(node: &'t Node, mapping: &'static Mapping, report: &mut Report) -> Option<Self> {
        let entries = node.map("a mapping with keys and values", report)?;
        let known = mapping.known();
        let (place, mut meant) = (mapping.place, Vec::new());
        for (key, _) in entries.iter().filter(|(key, _)| !known.contains(&key.text.as_str())) {
            meant.extend(nearest(&key.text, known.iter().copied()));
            report.add(key.span.clone(), Wrong::UnknownKey { key: key.text.clone(), place, known: known.clone() });
        }
        let fields = Self { entries, span: node.span.clone(), mapping };
        let needed = mapping.keys.iter().filter(|key| matches!(key.need, Need::Always));
        for key in needed.map(|key| key.name) {
            if fields.get(key).is_none() && !meant.contains(&key) {
                report.add(fields.span(), Wrong::MissingKey { key, place });
            }
        }
        Some(fields)
    }

    /// The value of a key, if it is there.
    pub fn get(&self, key: &str) -> Option<&'t Node> {
        debug_assert!(self.mapping.known().contains(&key), "{} has no key {key}", self.mapping.place);
        self.entries.iter().find(|(word, _)| word.text == key).map(|(_, node)| node)
    }

    /// Where the mapping stands.
    pub fn span(&self) -> Span {
        self.span.clone()
    }
}

impl Choice {
    /// The one that stands in `entries`. None or several are reported.
    pub fn of<'t>(
        &self,
        entries: &'t [(Word, Node)],
        span: &Span,
        report: &mut Report,
    ) -> Option<(&'t Word, &'t Node)> {
        let mut chosen = entries.iter().filter(|(key, _)| self.has(&key.text));
        let Some((first, node)) = chosen.next() else {
            let Self { kind, article, .. } = self;
            report.add(span.clone(), Wrong::Lacks { article, kind, known: self.known() });
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
