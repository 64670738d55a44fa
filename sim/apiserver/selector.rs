//! Label and field selectors.

use crate::{Failure, Reason};
use serde_json::Value;

/// Which objects of a kind are meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Requirement {
    at: Place,
    wants: Wants,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Label(String),
    Name,
    Namespace,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Wants {
    /// One of these. An absent key does not match.
    In(Vec<String>),
    /// None of these. An absent key matches.
    NotIn(Vec<String>),
    Exists,
    Absent,
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`.
    ///
    /// # Errors
    /// `BadRequest`, with the part that cannot be read.
    pub fn parse(labels: Option<&str>, fields: Option<&str>) -> Result<Self, Failure> {
        let mut all = Vec::new();
        for part in split_outside_parentheses(labels.unwrap_or_default()) {
            all.push(label_requirement(part)?);
        }
        for part in split_outside_parentheses(fields.unwrap_or_default()) {
            all.push(field_requirement(part)?);
        }
        Ok(Self(all))
    }

    /// Whether it selects everything.
    pub const fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `object` is meant.
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let metadata = &object["metadata"];
            let found = match &requirement.at {
                Place::Label(key) => metadata["labels"].get(key),
                Place::Name => metadata.get("name"),
                Place::Namespace => metadata.get("namespace"),
            }
            .and_then(Value::as_str);
            match &requirement.wants {
                Wants::In(values) => found.is_some_and(|found| values.iter().any(|value| value == found)),
                Wants::NotIn(values) => !found.is_some_and(|found| values.iter().any(|value| value == found)),
                Wants::Exists => found.is_some(),
                Wants::Absent => found.is_none(),
            }
        })
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
    .collect()
}

fn label_requirement(part: &str) -> Result<Requirement, Failure> {
    let label = |key: &str| Place::Label(key.trim().to_owned());
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((head, list)) = part.split_once('(') {
        let values = list
            .strip_suffix(')')
            .ok_or_else(|| unreadable("label", part))?
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        return match head.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => Ok(Requirement { at: label(key), wants: Wants::In(values) }),
            [key, "notin"] => Ok(Requirement { at: label(key), wants: Wants::NotIn(values) }),
            _ => Err(unreadable("label", part)),
        };
    }
    let (at, wants) = if let Some((key, value)) = part.split_once("!=") {
        (label(key), Wants::NotIn(one(value)))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (label(key), Wants::In(one(value)))
    } else if let Some(key) = part.strip_prefix('!') {
        (label(key), Wants::Absent)
    } else if part.contains(char::is_whitespace) {
        return Err(unreadable("label", part));
    } else {
        (label(part), Wants::Exists)
    };
    Ok(Requirement { at, wants })
}

fn field_requirement(part: &str) -> Result<Requirement, Failure> {
    let (field, value, equal) = if let Some((field, value)) = part.split_once("!=") {
        (field, value, false)
    } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (field, value, true)
    } else {
        return Err(unreadable("field", part));
    };
    let at = match field.trim() {
        "metadata.name" => Place::Name,
        "metadata.namespace" => Place::Namespace,
        other => return Err(Failure::new(Reason::BadRequest, format!("field label not supported: {other}"))),
    };
    let values = vec![value.trim().to_owned()];
    Ok(Requirement { at, wants: if equal { Wants::In(values) } else { Wants::NotIn(values) } })
}

fn unreadable(what: &str, part: &str) -> Failure {
    Failure::new(Reason::BadRequest, format!("unable to parse requirement of the {what} selector: {part:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn matches(labels: &str, object: &Value) -> bool {
        Selector::parse(Some(labels), None).unwrap().matches(object)
    }

    #[test]
    fn the_label_grammar_is_understood() {
        let object = json!({ "metadata": { "name": "a", "labels": { "app": "web", "tier": "front" } } });
        for (selector, expected) in [
            ("app=web", true),
            ("app==web", true),
            ("app=db", false),
            ("app!=db", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app", true),
            ("other", false),
            ("!other", true),
            ("!app", false),
            ("app in (db, web)", true),
            ("app notin (db, web)", false),
            ("other notin (db)", true),
            ("app=web,tier=back", false),
            ("app in (web),tier=front", true),
        ] {
            assert_eq!(matches(selector, &object), expected, "{selector}");
        }
    }

    #[test]
    fn only_name_and_namespace_are_selectable_fields() {
        let object = json!({ "metadata": { "name": "a", "namespace": "shop" } });
        let by = |fields| Selector::parse(None, Some(fields));
        assert!(by("metadata.name=a,metadata.namespace=shop").unwrap().matches(&object));
        assert!(!by("metadata.name!=a").unwrap().matches(&object));
        assert_eq!(by("spec.nodeName=x").unwrap_err().message, "field label not supported: spec.nodeName");
        assert_eq!(by("metadata.name").unwrap_err().reason, Reason::BadRequest);
    }
}
