//! Fields out of JSON, each failure with the field and the reason.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Display;
use std::str::FromStr;
use tombolo_core::base::{Epoch, Wall};

/// Why an object cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConvertError {
    /// A field that must be there is not.
    #[error("{field} is missing")]
    Missing {
        /// The field.
        field: String,
    },
    /// A field does not say what it should.
    #[error("{field}: {value}: {because}")]
    Bad {
        /// The field.
        field: String,
        /// What it says.
        value: String,
        /// Why that is wrong.
        because: String,
    },
    /// The object has not the shape of its kind.
    #[error("not the shape of its kind: {0}")]
    Shape(String),
    /// The content is about something else than the name says.
    #[error("it is named {name} but its content is {content}")]
    WrongName {
        /// `metadata.name`.
        name: String,
        /// The name that goes with the content.
        content: String,
    },
    /// Our object says something that the API's object cannot say.
    #[error("{field} cannot be written: {because}")]
    Unsayable {
        /// The field.
        field: String,
        /// Why.
        because: String,
    },
}

impl ConvertError {
    pub(super) fn bad(field: impl Into<String>, value: impl Display, because: impl Display) -> Self {
        Self::Bad {
            field: cut(&field.into(), 160),
            value: cut(&value.to_string(), 80),
            because: cut(&because.to_string(), 160),
        }
    }

    pub(super) fn shape(error: impl Display) -> Self {
        Self::Shape(cut(&error.to_string(), 160))
    }

    pub(super) fn wrong_name(name: &str, content: &str) -> Self {
        Self::WrongName { name: cut(name, 80), content: cut(content, 80) }
    }
}

/// Whoever wrote the object decides how long its texts are and what they hold, and the reason ends in logs: it is short,
/// and steers no terminal.
fn cut(text: &str, chars_max: usize) -> String {
    let shown = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    if text.chars().nth(chars_max).is_none() {
        return shown.collect();
    }
    shown.take(chars_max - 1).chain(['…']).collect()
}

/// An object of which the spec matters.
#[derive(Deserialize)]
pub(super) struct WithSpec<S> {
    pub spec: S,
}

/// What is at `path`, if anything.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

/// The text at `path`.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> Result<&'a str, ConvertError> {
    let found = at(value, path).ok_or_else(|| ConvertError::Missing { field: path.into() })?;
    found.as_str().ok_or_else(|| ConvertError::bad(path, found, "not a text"))
}

/// An annotation or label of ours: its keys have dots, so no path leads there.
pub(super) fn noted<'a>(value: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    value["metadata"][map].get(key)?.as_str()
}

/// `text`, the content of `field`, as what it stands for.
pub(super) fn parse<T: FromStr<Err: Display>>(field: impl Into<String>, text: &str) -> Result<T, ConvertError> {
    text.parse().map_err(|error| ConvertError::bad(field, format!("{text:?}"), error))
}

/// Many texts of one field.
pub(super) fn parse_all<T: FromStr<Err: Display>>(field: &str, texts: &[String]) -> Result<Vec<T>, ConvertError> {
    texts.iter().enumerate().map(|(i, text)| parse(format!("{field}[{i}]"), text)).collect()
}

/// `value` as the typed object of its kind.
pub(super) fn shaped<T: DeserializeOwned>(value: &Value) -> Result<T, ConvertError> {
    T::deserialize(value).map_err(ConvertError::shape)
}

/// The epoch in our annotation; 0 if there is none.
pub(super) fn epoch(value: &Value) -> Result<Epoch, ConvertError> {
    let text = noted(value, "annotations", super::EPOCH).unwrap_or("0");
    Ok(Epoch(parse(format!("annotation {}", super::EPOCH), text)?))
}

/// The annotation of an epoch; none for 0.
pub(super) fn epoch_note(epoch: Epoch) -> Value {
    if epoch == Epoch::default() { Value::Null } else { Value::String(epoch.to_string()) }
}

/// Wall-clock time out of a timestamp.
pub(super) fn wall(field: &str, timestamp: Timestamp) -> Result<Wall, ConvertError> {
    let micros = timestamp.as_microsecond();
    u64::try_from(micros).map(Wall::from_unix_micros).map_err(|_| ConvertError::bad(field, timestamp, "before 1970"))
}

/// RFC 3339 with microseconds, as `MicroTime`.
pub(super) fn micro_time(field: &str, wall: Wall) -> Result<String, ConvertError> {
    let stamp = i64::try_from(wall.unix_micros()).ok().and_then(|micros| Timestamp::from_microsecond(micros).ok());
    let stamp = stamp.ok_or_else(|| ConvertError::Unsayable {
        field: field.into(),
        because: format!("{} s after 1970 is beyond the calendar", wall.unix_secs()),
    })?;
    Ok(format!("{stamp:.6}"))
}

/// `creationTimestamp`, whole seconds.
pub(super) fn created(value: &Value) -> Result<Wall, ConvertError> {
    let field = "metadata.creationTimestamp";
    wall(field, parse(field, text(value, field)?)?)
}
