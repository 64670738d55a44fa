//! YAML as a tree in which each node knows where it stands.
//!
//! Of YAML a scenario uses mappings, lists and words; anchors, aliases, tags and several documents in one file are
//! refused, since a reader would have to follow them. A scalar stays the text that was written: what it means is
//! decided by the place where it stands, so `gw-a*`, `20s..60s` and `80/tcp` need no quotes.

use super::report::{Report, Span};
use super::wrong::{Refused, Shape, Wrong};
use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, StrInput};
use std::borrow::Cow;

/// Deeper nesting than any scenario needs; it bounds the recursion below.
const NESTING_MAX: usize = 24;
/// Longer files are no scenarios.
const BYTES_MAX: usize = 1 << 20;

/// A node.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub value: Value,
}

/// See [`Node`].
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    /// A word, or nothing at all.
    Word(Word),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order written, each key once.
    Map(Vec<(Word, Node)>),
    /// Refused; the report says why.
    Refused,
}

/// A scalar.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Word {
    /// Its text.
    pub text: String,
    /// Where it stands, with its quotes.
    pub span: Span,
    /// Where the text itself begins, if the file holds it letter by letter.
    verbatim: Option<usize>,
    /// Whether it stands in quotes or is a block.
    quoted: bool,
}

impl Word {
    /// Where the part of the text between these bytes stands; the whole word where that cannot be said.
    pub fn part(&self, from: usize, to: usize) -> Span {
        self.verbatim.map_or_else(|| self.span.clone(), |start| start + from..start + to)
    }

    /// Whether it stands in quotes or is a block.
    #[cfg(test)]
    pub const fn quoted(&self) -> bool {
        self.quoted
    }

    /// Whether nothing was written.
    pub fn is_nothing(&self) -> bool {
        !self.quoted && matches!(self.text.as_str(), "" | "~" | "null")
    }
}

impl Node {
    /// What it is, for a message.
    pub fn shape(&self) -> Shape {
        match &self.value {
            Value::Word(word) if word.is_nothing() => Shape::Nothing,
            Value::Word(_) => Shape::Word,
            Value::List(_) => Shape::List,
            Value::Map(_) => Shape::Map,
            Value::Refused => Shape::Nothing,
        }
    }

    /// The word that it is. Anything else is reported.
    pub fn word(&self, expected: impl Into<Cow<'static, str>>, report: &mut Report) -> Option<&Word> {
        match &self.value {
            Value::Word(word) if !word.is_nothing() => Some(word),
            Value::Word(_) | Value::List(_) | Value::Map(_) => {
                let expected = expected.into();
                report.add(self.span.clone(), Wrong::Shape { expected, found: self.shape() });
                None
            }
            Value::Refused => None,
        }
    }

    /// The entries of the list that it is. Anything else is reported.
    pub fn list(&self, expected: &'static str, report: &mut Report) -> Option<&[Self]> {
        match &self.value {
            Value::List(list) => Some(list),
            Value::Word(_) | Value::Map(_) => {
                let expected = expected.into();
                report.add(self.span.clone(), Wrong::Shape { expected, found: self.shape() });
                None
            }
            Value::Refused => None,
        }
    }

    /// The entries of the mapping that it is. Anything else is reported.
    pub fn map(&self, expected: &'static str, report: &mut Report) -> Option<&[(Word, Self)]> {
        match &self.value {
            Value::Map(map) => Some(map),
            Value::Word(_) | Value::List(_) => {
                let expected = expected.into();
                report.add(self.span.clone(), Wrong::Shape { expected, found: self.shape() });
                None
            }
            Value::Refused => None,
        }
    }
}

/// Reads the one document of `text`. What is no YAML ends the reading; what a scenario must not use is reported and
/// reading goes on.
pub(super) fn read(text: &str, report: &mut Report) -> Option<Node> {
    if text.len() > BYTES_MAX {
        report.add(0..0, Wrong::TooLong { bytes: text.len(), bytes_max: BYTES_MAX });
        return None;
    }
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.emit_unresolved_aliases = true;
    options.flow_nesting_limit = NESTING_MAX;
    options.block_nesting_limit = NESTING_MAX;
    let mut reader = Reader { text, events: Parser::new_from_str_with_options(text, options), report };
    match reader.document() {
        Ok(root) => root,
        Err(error) => {
            reader.syntax(&error);
            None
        }
    }
}

struct Reader<'t, 'r> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    report: &'r mut Report,
}

impl<'t> Reader<'t, '_> {
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, ScanError> {
        match self.events.next() {
            None => Ok(None),
            Some(Err(error)) => Err(error),
            Some(Ok((event, span))) => {
                if let Some(tag) = span.tag_span().and_then(|tag| tag.byte_range()) {
                    self.report.add(tag, Wrong::Refused(Refused::Tag));
                }
                Ok(Some((event, span.byte_range().unwrap_or(0..0))))
            }
        }
    }

    fn syntax(&mut self, error: &ScanError) {
        let at = error.marker().byte_offset().unwrap_or(self.text.len());
        self.report.add(at..at, Wrong::Syntax(error.kind().clone()));
    }

    fn document(&mut self) -> Result<Option<Node>, ScanError> {
        let mut root = None;
        let mut documents = 0;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents == 2 {
                        self.report.add(span, Wrong::Refused(Refused::SecondDocument));
                        return Ok(root);
                    }
                }
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                Event::Alias(_)
                | Event::UnresolvedAlias(_)
                | Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::MappingStart(..) => root = self.node(event, span)?,
                Event::SequenceEnd | Event::MappingEnd | Event::Anchor(..) | Event::Comment(..) | _ => {}
            }
        }
        let nothing = root.as_ref().is_none_or(|root| root.shape() == Shape::Nothing);
        if nothing && self.report.is_empty() {
            self.report.add(0..0, Wrong::Empty);
            return Ok(None);
        }
        Ok(root)
    }

    /// The node that begins with `event`; `None` where `event` begins none.
    fn node(&mut self, event: Event<'t>, span: Span) -> Result<Option<Node>, ScanError> {
        Ok(Some(match event {
            Event::Scalar(text, style, anchor, _) => {
                self.refuse_anchor(anchor, &span);
                let word = word(self.text, text.into_owned(), style, span.clone());
                Node { span, value: Value::Word(word) }
            }
            Event::SequenceStart(_, anchor, _) => {
                self.refuse_anchor(anchor, &span);
                self.sequence(span)?
            }
            Event::MappingStart(_, anchor, _) => {
                self.refuse_anchor(anchor, &span);
                self.mapping(span)?
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.report.add(span.clone(), Wrong::Refused(Refused::Alias));
                Node { span, value: Value::Refused }
            }
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd
            | Event::Anchor(..)
            | Event::Comment(..)
            | _ => return Ok(None),
        }))
    }

    fn refuse_anchor(&mut self, anchor: usize, span: &Span) {
        if anchor != 0 {
            self.report.add(span.clone(), Wrong::Refused(Refused::Anchor));
        }
    }

    fn sequence(&mut self, open: Span) -> Result<Node, ScanError> {
        let mut list = Vec::new();
        let mut end = open.end;
        while let Some((event, span)) = self.next()? {
            if event == Event::SequenceEnd {
                end = end.max(span.end);
                break;
            }
            list.extend(self.node(event, span)?);
        }
        Ok(Node { span: whole(&open, end, list.first().map(|first| &first.span)), value: Value::List(list) })
    }

    fn mapping(&mut self, open: Span) -> Result<Node, ScanError> {
        let mut map: Vec<(Word, Node)> = Vec::new();
        let mut end = open.end;
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                end = end.max(span.end);
                break;
            }
            let Some(key) = self.node(event, span)? else { continue };
            let Some((event, span)) = self.next()? else { break };
            let Some(value) = self.node(event, span)? else { continue };
            let Some(key) = key.word("a key, one word", self.report) else { continue };
            match map.iter().find(|(known, _)| known.text == key.text) {
                Some((first, _)) => {
                    let first_line =
                        self.text.get(..first.span.start).map_or(0, |before| before.matches('\n').count()) + 1;
                    self.report.add(key.span.clone(), Wrong::KeyTwice { key: key.text.clone(), first_line });
                }
                None => map.push((key.clone(), value)),
            }
        }
        Ok(Node { span: whole(&open, end, map.first().map(|(key, _)| &key.span)), value: Value::Map(map) })
    }
}

/// Where a list or a mapping stands. One in block style has no brackets to point at: its first entry stands for it.
fn whole(open: &Span, end: usize, first: Option<&Span>) -> Span {
    match first {
        Some(first) if open.is_empty() => first.clone(),
        _ => open.start..end,
    }
}

fn word(source: &str, text: String, style: ScalarStyle, span: Span) -> Word {
    let holds = |start: usize| source.get(start..).is_some_and(|rest| rest.starts_with(&text));
    let (start, quoted) = match style {
        ScalarStyle::Plain => (span.start, false),
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => (span.start + 1, true),
        ScalarStyle::Literal | ScalarStyle::Folded => (span.start, true),
    };
    let verbatim = holds(start).then_some(start);
    Word { text, span, verbatim, quoted }
}
