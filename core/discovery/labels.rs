//! Which labels and annotations an object can have. An API refuses an object as a whole for one that it cannot have, so an
//! import would be missing for a slip in an export.
//!
//! The rules are those of Kubernetes (`apimachinery`: `util/validation`, `api/validation/objectmeta.go`).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Longest name behind the prefix of a key, and longest value of a label.
const NAME_MAX: usize = 63;
/// Longest prefix of a key: a DNS name.
const PREFIX_MAX: usize = 253;
/// An object has at most 256 KiB of annotations, keys and values. Of these, some are for who exports since when.
const ROOM: usize = (256 - 32) << 10;

type Texts = BTreeMap<String, String>;

/// What an import carries of the labels and annotations of an export.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Carried {
    pub labels: Texts,
    pub annotations: Texts,
    /// The others.
    pub left_out: Vec<Unlabelled>,
}

/// A label or an annotation that no object can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} {key:?} is left out: {misfit}")]
pub struct Unlabelled {
    /// `label` or `annotation`.
    pub what: &'static str,
    /// Its key.
    pub key: String,
    /// Why.
    pub misfit: Misfit,
}

/// What is wrong with a label or an annotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misfit {
    /// Its key.
    #[error(
        "its key is no name of up to 63 letters, digits, '-', '_' and '.', with or without a DNS name and '/' before it"
    )]
    Key,
    /// Its value, of a label.
    #[error("its value is not up to 63 letters, digits, '-', '_' and '.' that begin and end with a letter or digit")]
    Value,
    /// An object has no room for so much.
    #[error("with those before it, it is more than an object can have")]
    Room,
}

/// Sorts out what an object can have. Where the room does not suffice, those go without that come later.
pub(super) fn carried(labels: &Texts, annotations: &Texts) -> Carried {
    let mut carried = Carried::default();
    let mut room = ROOM;
    for (key, value) in labels {
        // The import also notes, in an annotation, which of its labels and annotations are exported.
        let misfit =
            misfit_of_key(key).or_else(|| misfit_of_value(value)).or_else(|| take(&mut room, noted(key, value)));
        carried.put("label", key, value, misfit);
    }
    for (key, value) in annotations {
        // The keys of annotations are judged as if they were written small.
        let bytes = key.len() + value.len() + noted(key, value);
        let misfit = misfit_of_key(&key.to_ascii_lowercase()).or_else(|| take(&mut room, bytes));
        carried.put("annotation", key, value, misfit);
    }
    carried
}

impl Carried {
    fn put(&mut self, what: &'static str, key: &str, value: &str, misfit: Option<Misfit>) {
        if let Some(misfit) = misfit {
            return self.left_out.push(Unlabelled { what, key: key.into(), misfit });
        }
        let texts = if what == "label" { &mut self.labels } else { &mut self.annotations };
        texts.insert(key.into(), value.into());
    }
}

fn take(room: &mut usize, bytes: usize) -> Option<Misfit> {
    match room.checked_sub(bytes) {
        Some(rest) => {
            *room = rest;
            None
        }
        None => Some(Misfit::Room),
    }
}

/// Bytes of the two as JSON, with quotes, colon and comma.
fn noted(key: &str, value: &str) -> usize {
    let written = |c: char| match c {
        '"' | '\\' => 2,
        c if c.is_control() => 6,
        c => c.len_utf8(),
    };
    key.chars().chain(value.chars()).map(written).sum::<usize>() + 6
}

fn misfit_of_key(key: &str) -> Option<Misfit> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let fine = !name.is_empty() && is_name(name) && prefix.is_none_or(is_dns_name);
    (!fine).then_some(Misfit::Key)
}

fn misfit_of_value(value: &str) -> Option<Misfit> {
    (!is_name(value)).then_some(Misfit::Value)
}

/// Nothing, or letters, digits, `-`, `_` and `.` with letters or digits at both ends.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= NAME_MAX
        && text.bytes().all(inner)
        && ends.into_iter().flatten().all(|byte| byte.is_ascii_alphanumeric())
}

/// Labels of small letters, digits and `-`, joined by dots; each may be longer than one of DNS (RFC 1123 by Kubernetes).
fn is_dns_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let label =
        |label: &str| !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-');
    text.len() <= PREFIX_MAX && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn texts(pairs: &[(&str, &str)]) -> Texts {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    fn of_labels(pairs: &[(&str, &str)]) -> (Texts, Vec<Misfit>) {
        let Carried { labels, left_out, .. } = carried(&texts(pairs), &Texts::new());
        (labels, left_out.into_iter().map(|left_out| left_out.misfit).collect())
    }

    fn of_annotations(pairs: &[(&str, &str)]) -> (Texts, Vec<Misfit>) {
        let Carried { annotations, left_out, .. } = carried(&Texts::new(), &texts(pairs));
        (annotations, left_out.into_iter().map(|left_out| left_out.misfit).collect())
    }

    #[test]
    fn what_kubernetes_takes_for_a_label_is_carried() {
        let long = "a".repeat(63);
        let key = ["a".repeat(100), "b".repeat(152)].join(".") + "/" + &long;
        for (key, value) in [("team", "a"), ("a.b_c-D9", ""), ("example.org/x", "A.b_c-9"), (&key, &long)] {
            assert_eq!(of_labels(&[(key, value)]), (texts(&[(key, value)]), Vec::new()), "{key}={value}");
        }
    }

    #[test]
    fn what_it_refuses_is_left_out_with_the_reason_and_the_rest_stays() {
        let (long, prefix) = ("a".repeat(64), "a".repeat(254) + "/x");
        let team = || texts(&[("team", "a")]);
        for key in
            ["", "/", "/x", "a/", "a/b/c", "-a", "a-", "a b", "é", "Example.org/x", "a..b/x", "-a/x", &long, &prefix]
        {
            assert_eq!(of_labels(&[(key, "a"), ("team", "a")]), (team(), [Misfit::Key].into()), "{key}");
        }
        for value in ["a b", "-a", "a.", "é", "a/b", &long] {
            assert_eq!(of_labels(&[("x", value), ("team", "a")]), (team(), [Misfit::Value].into()), "{value}");
        }
    }

    #[test]
    fn an_annotation_has_any_value_and_letters_of_any_size_in_its_key() {
        let given = [("Example.Org/Note", "any text: é\n"), ("empty", "")];
        assert_eq!(of_annotations(&given), (texts(&given), Vec::new()));
        assert_eq!(of_annotations(&[("a b", "")]), (Texts::new(), [Misfit::Key].into()));
    }

    /// An import has what is exported twice: as it is, and in the note on what is exported.
    #[test]
    fn annotations_that_together_are_too_long_are_left_out_and_what_follows_may_still_fit() {
        let half = "x".repeat(60_000);
        let (fine, left_out) = of_annotations(&[("a", &half), ("b", &half), ("c", "small")]);
        assert_eq!(
            (fine.into_keys().collect::<Vec<_>>(), left_out),
            (["a", "c"].map(Into::into).into(), [Misfit::Room].into())
        );
        let steering = "\u{1}".repeat(40_000);
        assert_eq!(
            of_annotations(&[("a", &steering)]),
            (Texts::new(), [Misfit::Room].into()),
            "each is 6 bytes of JSON"
        );
    }

    #[test]
    fn what_is_left_out_says_what_it_is_and_why() {
        let left_out = carried(&texts(&[("team", "a b")]), &texts(&[("", "")])).left_out;
        let told = [
            "label \"team\" is left out: its value is not up to 63 letters, digits, '-', '_' and '.' that begin and end with \
             a letter or digit",
            "annotation \"\" is left out: its key is no name of up to 63 letters, digits, '-', '_' and '.', with or without a \
             DNS name and '/' before it",
        ];
        assert_eq!(left_out.iter().map(ToString::to_string).collect::<Vec<_>>(), told);
    }
}
