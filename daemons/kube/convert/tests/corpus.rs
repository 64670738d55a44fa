//! What API servers may hand us, kept: one file for each kind, each object with what is wrong with it. Snapshots keep what
//! becomes of it: why it is refused, that it is not for us, or what we understand, in the words in which we would write it.

use super::{places, stored, writer};
use crate::convert::{Object, key_of, overlay, read, version_of, write};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use tombolo_core::model::{Api, Kind};

const KINDS: [Kind; 15] = [
    Kind::Namespace,
    Kind::Node,
    Kind::Service,
    Kind::EndpointSlice,
    Kind::SourceSlice,
    Kind::ServiceExport,
    Kind::Lease,
    Kind::Gateway,
    Kind::Cluster,
    Kind::Endpoint,
    Kind::Candidates,
    Kind::Claims,
    Kind::ExportRecord,
    Kind::ExportSummary,
    Kind::Import,
];

/// Objects of a kind, by what is wrong with them.
fn corpus(kind: Kind) -> Map<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("convert/tests/corpus/{kind:?}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// What becomes of an object.
fn outcome(kind: Kind, value: &Value) -> String {
    match read(kind, value) {
        Err(refusal) => format!("refused: {refusal}"),
        Ok(None) => "not for us".to_owned(),
        Ok(Some(object)) => match write(&object, Api::Local, &writer()) {
            Ok(written) => format!("understood: {}", cut(&written.to_string())),
            Err(error) => format!("understood, though {error}"),
        },
    }
}

fn cut(text: &str) -> String {
    const SHOWN_MAX: usize = 700;
    if text.chars().count() <= SHOWN_MAX {
        text.to_owned()
    } else {
        text.chars().take(SHOWN_MAX).chain(['…']).collect()
    }
}

#[test]
fn each_kept_object_has_the_outcome_that_is_kept() {
    for kind in KINDS {
        let corpus = corpus(kind);
        assert!(outcome(kind, &corpus["as it should be"]).starts_with("understood: "), "{kind:?}");
        let told = corpus.iter().map(|(wrong, value)| format!("{wrong}\n    {}\n", outcome(kind, value)));
        insta::assert_snapshot!(format!("{kind:?}"), told.collect::<String>());
    }
}

#[test]
fn no_kept_object_breaks_the_reader_of_another_kind_nor_what_is_laid_over_it() {
    for value in KINDS.into_iter().flat_map(corpus).map(|(_, value)| value) {
        for kind in KINDS {
            // Whether another kind can make sense of it does not matter here.
            let _ = read(kind, &value);
            let _ = (key_of(kind, &value), version_of(&value));
            let good = corpus(kind).remove("as it should be").unwrap();
            let Ok(Some(good)) = read(kind, &good) else { panic!("{kind:?}: {good}") };
            let mut under = value.clone();
            overlay(&mut under, &write(&good, Api::Local, &writer()).unwrap());
            assert!(under.is_object());
        }
    }
}

#[test]
fn a_refusal_is_short_however_long_the_value_is() {
    let long = "0".repeat(100_000);
    let strangers = [json!(long), json!([long]), json!({ long.clone(): long })];
    for kind in KINDS {
        let good = corpus(kind).remove("as it should be").unwrap();
        let mut all = Vec::new();
        places(&good, "", &mut all);
        for (place, stranger) in all.iter().flat_map(|place| strangers.iter().map(move |stranger| (place, stranger))) {
            let mut value = good.clone();
            *value.pointer_mut(place).unwrap() = stranger.clone();
            if let Err(refusal) = read(kind, &value) {
                assert!(refusal.to_string().chars().count() < 500, "{kind:?} {place}: {refusal}");
            }
        }
    }
}

/// What is put into a valid object.
#[derive(Clone, Debug)]
enum Damage {
    Replace(Value),
    Remove,
    Twice,
    /// With what stands at another place.
    Swap(prop::sample::Index),
    Stranger(String),
}

fn damage() -> impl Strategy<Value = Damage> {
    let texts =
        ["", "\u{0}", "a.b.c.d", "../..", "None", "true", "0", "-1", "1e9", "10.0.0.0/33", "::", "é", "\u{202e}"];
    let garbage = prop_oneof![
        prop::sample::select(texts.map(Value::from).to_vec()),
        prop::sample::select(vec![json!(null), json!(-1), json!(0), json!(1.5), json!(1e300), json!(u64::MAX)]),
        prop::sample::select(vec![json!([]), json!({}), json!([null]), json!({ "": null }), json!(true)]),
        "\\PC{0,80}".prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
    ];
    prop_oneof![
        3 => garbage.prop_map(Damage::Replace),
        1 => Just(Damage::Remove),
        1 => Just(Damage::Twice),
        1 => any::<prop::sample::Index>().prop_map(Damage::Swap),
        1 => ".{0,8}".prop_map(Damage::Stranger),
    ]
}

/// Does it to what stands at `place`.
fn inflict(root: &mut Value, place: &str, damage: Damage, all: &[String]) {
    let there = root.pointer(place).cloned().unwrap_or_default();
    let (parent, last) = place.rsplit_once('/').unwrap_or(("", ""));
    match (damage, root.pointer_mut(parent)) {
        (Damage::Remove, Some(Value::Object(map))) => drop(map.remove(&last.replace("~1", "/").replace("~0", "~"))),
        (Damage::Twice, Some(Value::Array(items))) => items.push(there),
        (Damage::Replace(value), _) => root.pointer_mut(place).into_iter().for_each(|place| *place = value.clone()),
        (Damage::Swap(other), _) => {
            let other = root.pointer(&all[other.index(all.len())]).cloned().unwrap_or_default();
            root.pointer_mut(place).into_iter().for_each(|place| *place = other.clone());
        }
        (Damage::Stranger(key), Some(Value::Object(map))) => drop(map.insert(key, there)),
        (Damage::Remove | Damage::Twice | Damage::Stranger(_), _) => {}
    }
}

proptest! {
    #[test]
    fn a_damaged_object_is_refused_or_understood_as_it_would_be_written(
        object in super::object(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..6),
    ) {
        let kind = object.kind();
        let mut value = stored(&object, Api::Local);
        for (place, damage) in damages {
            let mut all = Vec::new();
            places(&value, "", &mut all);
            inflict(&mut value, &all[place.index(all.len())], damage, &all);
        }
        match read(kind, &value) {
            Err(refusal) => prop_assert!(!refusal.to_string().contains(char::is_control), "{refusal:?}"),
            Ok(None) => {}
            Ok(Some(object)) => again(&object, &value)?,
        }
    }
}

/// What was understood can be written, and reads as the same.
fn again(object: &Object, from: &Value) -> Result<(), TestCaseError> {
    let mut value = json!({ "metadata": {} });
    match write(object, Api::Local, &writer()) {
        Ok(written) => overlay(&mut value, &written),
        Err(error) => return Err(TestCaseError::fail(format!("{from} is understood but cannot be written: {error}"))),
    }
    prop_assert_eq!(read(object.kind(), &value), Ok(Some(object.clone())), "{}", from);
    Ok(())
}
