//! Names and numbers that identify things. Keys are full tuples of these, never a name cut from a string.

use alloc::string::String;
use core::borrow::Borrow;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Why a text is no name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LabelError {
    /// No character at all.
    #[error("empty: a name has 1 to 63 characters")]
    Empty,
    /// Longer than a DNS label or a Kubernetes label value may be.
    #[error("{length} characters: a name has at most 63")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A character other than a-z, 0-9 and `-`, or a `-` at an end.
    #[error("'{bad}' at position {position}: only a-z, 0-9 and '-' are allowed, and no '-' at either end")]
    Character {
        /// The character.
        bad: char,
        /// Its place, counted from 1.
        position: usize,
    },
    /// More labels than allowed.
    #[error("{labels} labels: a cluster id has one or two, joined by a dot")]
    TooManyLabels {
        /// How many there are.
        labels: usize,
    },
}

fn check_label(text: &str, offset: usize) -> Result<(), LabelError> {
    if is_label(text) {
        return Ok(());
    }
    if text.is_empty() {
        return Err(LabelError::Empty);
    }
    if text.len() > 63 {
        return Err(LabelError::TooLong { length: text.len() });
    }
    let last = text.chars().count() - 1;
    for (i, c) in text.chars().enumerate() {
        let fine = matches!(c, 'a'..='z' | '0'..='9') || (c == '-' && i != 0 && i != last);
        if !fine {
            return Err(LabelError::Character { bad: c, position: offset + i + 1 });
        }
    }
    Ok(())
}

/// Whether `text` is one DNS label (RFC 1123).
#[must_use]
pub fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let fine = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (1..=63).contains(&bytes.len()) && bytes.iter().all(fine) && !text.starts_with('-') && !text.ends_with('-')
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(SmolStr);

        impl $name {
            /// Checks and takes `text`.
            ///
            /// # Errors
            /// A [`LabelError`] that says what is wrong and where.
            pub fn new(text: &str) -> Result<Self, LabelError> {
                let check: fn(&str) -> Result<(), LabelError> = $check;
                check(text)?;
                Ok(Self(SmolStr::new(text)))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = LabelError;
            fn from_str(text: &str) -> Result<Self, LabelError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = LabelError;
            fn try_from(text: String) -> Result<Self, LabelError> {
                Self::new(&text)
            }
        }

        /// The text, without a copy of what is not kept in place.
        impl From<&$name> for SmolStr {
            fn from(name: &$name) -> Self {
                name.0.clone()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.as_str().into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name! {
    /// One DNS label (RFC 1123): the name of a namespace, a service, a port.
    Label, |text| check_label(text, 0)
}

name! {
    /// The id of a cluster: one DNS label, or two joined by a dot, at most 63 characters in all, since it becomes a
    /// label value (KEP-1645, KEP-2149).
    ClusterId, |text| {
        if text.len() > 63 {
            return Err(LabelError::TooLong { length: text.len() });
        }
        let labels = text.split('.').count();
        if labels > 2 {
            return Err(LabelError::TooManyLabels { labels });
        }
        let mut offset = 0;
        for label in text.split('.') {
            check_label(label, offset)?;
            offset += label.len() + 1;
        }
        Ok(())
    }
}

name! {
    /// The name of a node: a DNS subdomain (RFC 1123), at most 253 characters.
    NodeName, |text| {
        if text.len() > 253 {
            return Err(LabelError::TooLong { length: text.len() });
        }
        let mut offset = 0;
        for label in text.split('.') {
            check_label(label, offset)?;
            offset += label.len() + 1;
        }
        Ok(())
    }
}

/// The rank of a gateway candidate in its cluster, 1 to 4; lower is better (`spec/failover.md` 1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Slot(u8);

/// A slot outside 1 to 4.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("slot {0}: a candidate has a slot from 1 to 4")]
pub struct SlotError(pub u8);

impl Slot {
    /// How many candidates a cluster can have.
    pub const COUNT: u8 = 4;

    /// All slots, best first.
    #[must_use]
    pub fn all() -> [Self; 4] {
        [Self(1), Self(2), Self(3), Self(4)]
    }

    /// Its number, 1 to 4.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for Slot {
    type Error = SlotError;
    fn try_from(number: u8) -> Result<Self, SlotError> {
        if (1..=Self::COUNT).contains(&number) { Ok(Self(number)) } else { Err(SlotError(number)) }
    }
}

impl From<Slot> for u8 {
    fn from(slot: Slot) -> Self {
        slot.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fencing number of a term of leadership: `max(all seen, Unix seconds) + 1`, so that a restored or emptied API
/// never sends it backwards. 0 = none known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_cluster_id_has_one_or_two_labels_and_at_most_63_characters() {
        assert!(ClusterId::new("east").is_ok());
        assert!(ClusterId::new("east.eu-1").is_ok());
        assert_eq!(ClusterId::new("a.b.c").unwrap_err(), LabelError::TooManyLabels { labels: 3 });
        assert_eq!(ClusterId::new(&"a".repeat(64)).unwrap_err(), LabelError::TooLong { length: 64 });
        assert_eq!(ClusterId::new("a..b").unwrap_err(), LabelError::TooManyLabels { labels: 3 });
        assert_eq!(ClusterId::new("a.").unwrap_err(), LabelError::Empty);
    }

    #[test]
    fn a_bad_character_is_named_with_its_place() {
        assert_eq!(
            ClusterId::new("east.Eu").unwrap_err().to_string(),
            "'E' at position 6: only a-z, 0-9 and '-' are allowed, and no '-' at either end"
        );
        assert_eq!(Label::new("-a").unwrap_err(), LabelError::Character { bad: '-', position: 1 });
    }

    #[test]
    fn slots_go_from_one_to_four() {
        assert!(Slot::try_from(0).is_err());
        assert!(Slot::try_from(5).is_err());
        assert_eq!(Slot::all().map(Slot::get), [1, 2, 3, 4]);
    }
}
