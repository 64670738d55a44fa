//! What may stand where: the keys of each mapping, and in what form the value behind each is written.
//!
//! The tables stand beside the readers of their sections, from `SCENARIO` in `mod.rs` down. Readers open mappings by
//! them (`fields.rs`), mistakes list them, and the JSON Schema is made of them (`schema.rs`).

use super::values::Kind;

/// How a value is written.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// One word of this kind.
    One(Kind),
    /// A list, perhaps empty.
    List(&'static Self),
    /// A list of at least one.
    Some(&'static Self),
    /// A list of exactly two.
    Pair(&'static Self),
    /// A mapping with these keys.
    Map(&'static Mapping),
    /// A mapping by names that the file gives; at least one.
    ByName(&'static Mapping),
    /// A mapping with exactly one of these words.
    Choice(&'static Choice),
    /// An expectation and when it is judged.
    Judged(&'static Judged),
}

/// A mapping whose keys are known.
pub(super) struct Mapping {
    /// What it is called in messages.
    pub place: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key and what stands behind it.
pub(super) struct Key {
    /// The word.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// When it must be there.
    pub need: Need,
}

/// When a key must be there.
pub(super) enum Need {
    /// Always.
    Always,
    /// It may be left out.
    Never,
    /// If that other key has one of these values; else it must not be there.
    With(&'static str, fn() -> Vec<&'static str>),
}

/// A key that must be there; of words to choose from, one of them.
pub(super) const fn need(name: &'static str, form: Form) -> Key {
    Key { name, form, need: Need::Always }
}

/// A key that may be left out.
pub(super) const fn may(name: &'static str, form: Form) -> Key {
    Key { name, form, need: Need::Never }
}

/// Words of which exactly one must stand in a mapping.
pub(super) struct Choice {
    /// `verb`, `expectation` or `time`.
    pub kind: &'static str,
    /// `a` or `an`.
    pub article: &'static str,
    /// The words, each with what stands behind it.
    pub words: &'static [Key],
}

/// An entry with exactly one time and one thing that is judged then.
pub(super) struct Judged {
    /// The times.
    pub times: Choice,
    /// The things.
    pub things: Choice,
    /// The times that suit a thing, if not all do.
    pub suits: &'static [(&'static str, &'static [&'static str])],
}

impl Mapping {
    /// The names of its keys.
    pub fn known(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }
}

impl Choice {
    /// The words alone.
    pub fn known(&self) -> Vec<&'static str> {
        self.words.iter().map(|key| key.name).collect()
    }

    /// Whether this is one of the words.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|key| key.name == word)
    }
}

impl Judged {
    /// Times and things.
    pub fn known(&self) -> Vec<&'static str> {
        [self.times.known(), self.things.known()].concat()
    }

    /// The times at which this thing can be judged.
    pub fn suits(&self, thing: &str) -> Vec<&'static str> {
        let some = self.suits.iter().find(|(name, _)| *name == thing);
        some.map_or_else(|| self.times.known(), |(_, times)| times.to_vec())
    }
}
