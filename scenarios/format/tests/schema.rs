//! The schema says of a file what the reader says of its form.

use super::super::grammar::{Form, Key};
use super::super::report::Report;
use super::super::tree::{self, Node, Value};
use super::super::{Kind, SCENARIO, Wrong, parse, schema};
use super::{corpus, folder, library, readme};
use boon::{Compiler, SchemaIndex, Schemas};
use core::ops::Range;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs;

/// Why an editor would mark this file, if it would. A file that is no YAML is no case for a schema.
pub(super) fn refusal(text: &str) -> Option<String> {
    thread_local! {
        static COMPILED: (Schemas, SchemaIndex) = compiled();
    }
    let mut report = Report::default();
    let file = json(&tree::read(text, &mut report).unwrap());
    COMPILED.with(|(schemas, index)| schemas.validate(&file, *index).err().map(|error| error.to_string()))
}

fn compiled() -> (Schemas, SchemaIndex) {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("schema.json", serde_json::from_str(&schema()).unwrap()).unwrap();
    let index = compiler.compile("schema.json", &mut schemas).unwrap();
    (schemas, index)
}

/// What YAML makes of a node by its core schema, as editors do.
fn json(node: &Node) -> Json {
    match &node.value {
        Value::Word(word) if word.is_nothing() => Json::Null,
        Value::Word(word) if word.quoted() => Json::from(word.text.as_str()),
        Value::Word(word) => plain(&word.text),
        Value::List(list) => list.iter().map(json).collect(),
        Value::Map(map) => map.iter().map(|(key, value)| (key.text.clone(), json(value))).collect(),
        Value::Refused => Json::Null,
    }
}

fn plain(text: &str) -> Json {
    let number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    match text {
        "true" | "false" => Json::from(text == "true"),
        _ if !number => Json::from(text),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => Json::from(whole),
            (Err(_), Ok(number)) => Json::from(number),
            (Err(_), Err(_)) => Json::from(text),
        },
    }
}

/// Files that use the whole format.
fn files() -> Vec<String> {
    let files = library().into_iter().chain(corpus()).map(|(_, text)| text);
    files.chain(readme::examples()).collect()
}

#[test]
fn the_kept_copy_is_what_the_tables_say() {
    let kept = fs::read_to_string(folder().join("schema.json")).unwrap();
    assert!(kept == schema(), "renew it: cargo run -p tombolo-sim -- schema > scenarios/schema.json");
}

#[test]
fn every_file_that_is_kept_or_shown_suits_the_schema() {
    for text in files() {
        assert_eq!(refusal(&text), None, "{text}");
    }
}

#[test]
fn the_top_of_a_scenario_shows_how_an_editor_finds_the_schema() {
    let (_, text) = library().into_iter().find(|(name, _)| name == "gateway-power-loss").unwrap();
    let line = "# yaml-language-server: $schema=schema.json";
    assert_eq!(text.lines().next(), Some(line));
    assert!(fs::read_to_string(folder().join("README.md")).unwrap().contains(line));
    assert!(folder().join("schema.json").exists());
}

#[test]
fn each_verb_expectation_and_time_is_told_as_on_the_reference_page() {
    let schema: Json = serde_json::from_str(&schema()).unwrap();
    let words = |pointer: &str| {
        let words = schema.pointer(pointer).unwrap().as_object().unwrap();
        words.iter().map(|(word, schema)| (word.clone(), schema["description"].as_str().unwrap_or_default().to_owned()))
    };
    let verbs = words("/properties/timeline/items/properties/do/properties");
    let page = fs::read_to_string(folder().join("README.md")).unwrap();
    for (word, description) in verbs.chain(words("/properties/expect/items/properties")).chain(words("/properties")) {
        let told = description.split("\n\n").next().unwrap();
        assert!(told.len() > 10 && !told.contains('|'), "{word}: {description}");
        assert!(page.contains(&format!("| {told} |")), "{word}: {description}");
    }
}

/// Which value of the format: what its mapping is called, and its key.
type Name = (&'static str, &'static str);

/// The values of a file by the tables: which, of what kind, and where each stands.
fn values(text: &str) -> Vec<(Name, Kind, Range<usize>)> {
    let mut values = Vec::new();
    let root = tree::read(text, &mut Report::default()).unwrap();
    collect(&root, ("", ""), &Form::Map(&SCENARIO), &mut values);
    values
}

fn collect(node: &Node, name: Name, form: &Form, values: &mut Vec<(Name, Kind, Range<usize>)>) {
    if let (Form::One(kind), Value::Word(word)) = (form, &node.value) {
        values.push((name, *kind, word.span.clone()));
    }
    for (name, key, form) in inside(name, form) {
        let nodes: Vec<&Node> = match (&node.value, key) {
            (Value::Map(map), Some(key)) => {
                map.iter().filter(|(word, _)| word.text == key).map(|(_, node)| node).collect()
            }
            (Value::Map(map), None) => map.iter().map(|(_, node)| node).collect(),
            (Value::List(list), _) => list.iter().collect(),
            (Value::Word(_) | Value::Refused, _) => panic!("{name:?} is a single value"),
        };
        nodes.into_iter().for_each(|node| collect(node, name, &form, values));
    }
}

/// What a form holds: the name and the form of each part, and the key behind which it stands, if that is fixed.
fn inside(name: Name, form: &Form) -> Vec<(Name, Option<&'static str>, Form)> {
    let keys = |place: &'static str, keys: &'static [Key]| {
        let part = move |key: &'static Key| ((place, key.name), Some(key.name), key.form);
        keys.iter().map(part).collect::<Vec<_>>()
    };
    match form {
        Form::One(_) => Vec::new(),
        Form::List(of) | Form::Some(of) | Form::Pair(of) => vec![(name, None, **of)],
        Form::ByName(of) => vec![(name, None, Form::Map(of))],
        Form::Map(of) => keys(of.place, of.keys),
        Form::Choice(of) => keys(of.kind, of.words),
        Form::Judged(of) => [keys(of.times.kind, of.times.words), keys(of.things.kind, of.things.words)].concat(),
    }
}

/// All values that the format has.
fn names(name: Name, form: &Form) -> BTreeSet<Name> {
    let own = matches!(form, Form::One(_)).then_some(name);
    own.into_iter().chain(inside(name, form).into_iter().flat_map(|(name, _, form)| names(name, &form))).collect()
}

#[test]
fn each_value_is_read_as_the_tables_say_and_garbage_there_is_refused_by_reader_and_schema() {
    let mut seen = BTreeSet::new();
    for text in files() {
        for (name, kind, span) in values(&text) {
            seen.insert(name);
            if kind == Kind::Text {
                continue;
            }
            let line = text[..span.start].matches('\n').count() + 1;
            let garbage = format!("{}\"§\"{}", &text[..span.start], &text[span.end..]);
            assert!(refusal(&garbage).is_some(), "{garbage}");
            let errors = parse("garbage.yaml", &garbage).unwrap_err();
            let here: Vec<_> = errors.mistakes().iter().filter(|mistake| mistake.line == line).collect();
            assert!(!here.is_empty(), "{errors}");
            for mistake in here {
                if let Wrong::Value { text, kind: read } = &mistake.wrong {
                    assert_eq!((text.as_str(), *read), ("§", kind), "{name:?}");
                }
            }
        }
    }
    assert_eq!(seen, names(("", ""), &Form::Map(&SCENARIO)), "of these, some stand in no file");
}
