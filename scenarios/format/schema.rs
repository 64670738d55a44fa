//! The format as a JSON Schema, so that editors complete a scenario and mark what is wrong while it is written.
//!
//! It is made of the tables by which files are read (`grammar.rs`, `words.rs`), and of the rows of the reference page
//! that tell what a word means. It says the form of a file, not its sense: whether a node exists only the reader knows.
//! Whatever the reader takes, the schema takes. Draft 7 is what editors for YAML know best.

use super::SCENARIO;
use super::grammar::{Choice, Form, Judged, Key, Mapping, Need};
use super::names::PATH_TO;
use super::values::{Kind, MTU, UNITS};
use serde_json::{Map, Value, json};

const REFERENCE: &str = include_str!("../README.md");

/// The schema as the text of a file.
#[must_use]
pub fn schema() -> String {
    let mut schema = mapping(&SCENARIO, &told);
    schema.insert("$schema".into(), "http://json-schema.org/draft-07/schema#".into());
    schema.insert("title".into(), "A scenario of Tombolo".into());
    format!("{:#}\n", Value::Object(schema))
}

/// What the reference page tells of a word: the last cell of the row that it heads.
fn told(word: &str) -> Option<&'static str> {
    let row = |line: &'static str| {
        let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
        // Every second part stands in backticks: `by: T` heads the row of `by`.
        let mut heads = cells.next()?.split('`').skip(1).step_by(2);
        heads.any(|head| head.split(':').next() == Some(word)).then(|| cells.next_back()).flatten()
    };
    REFERENCE.lines().find_map(row)
}

fn silent(_: &str) -> Option<&'static str> {
    None
}

type Object = Map<String, Value>;

/// A mapping with these keys and no others. `told` says what a key means.
fn mapping(mapping: &Mapping, told: &dyn Fn(&str) -> Option<&'static str>) -> Object {
    let mut schema = object(properties(mapping.keys, told));
    let needed = |key: &&Key| matches!(key.need, Need::Always);
    let needed = mapping.keys.iter().filter(needed).map(|key| key.name).collect::<Vec<_>>();
    schema.insert("required".into(), needed.into());
    for key in mapping.keys {
        if let Need::With(other, values) = key.need {
            let there = json!({ "required": [key.name] });
            schema.insert("if".into(), json!({ "properties": { other: { "enum": values() } }, "required": [other] }));
            schema.insert("then".into(), there.clone());
            schema.insert("else".into(), json!({ "not": there }));
        }
    }
    schema
}

/// A mapping with exactly one of these words.
fn choice(choice: &Choice) -> Object {
    let one = members(json!({ "minProperties": 1, "maxProperties": 1 }));
    object(properties(choice.words, &told)).into_iter().chain(one).collect()
}

/// A mapping with exactly one time and one thing, which suit each other.
fn judged(judged: &Judged) -> Object {
    let Judged { times, things, .. } = judged;
    let mut both = properties(times.words, &told);
    both.extend(properties(things.words, &told));
    let mut schema = object(both);
    let one_of = |words: Vec<&str>| {
        let there = words.into_iter().map(|word| json!({ "required": [word] })).collect::<Vec<_>>();
        json!({ "oneOf": there })
    };
    schema.insert("allOf".into(), [one_of(times.known()), one_of(things.known())].as_slice().into());
    let suits = judged.suits.iter().map(|(thing, times)| ((*thing).to_owned(), one_of(times.to_vec())));
    schema.insert("dependencies".into(), Value::Object(suits.collect()));
    schema
}

fn object(properties: Object) -> Object {
    members(json!({ "type": "object", "properties": properties, "additionalProperties": false }))
}

/// What `json!` made of braces.
fn members(object: Value) -> Object {
    match object {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Object::new(),
    }
}

fn properties(keys: &[Key], told: &dyn Fn(&str) -> Option<&'static str>) -> Object {
    let property = |key: &Key| {
        let mut schema = form(&key.form);
        let told = told(key.name).map(str::to_owned);
        let said = schema.remove("description").and_then(|said| said.as_str().map(str::to_owned));
        let description = told.into_iter().chain(said).collect::<Vec<_>>().join("\n\n");
        if !description.is_empty() {
            schema.insert("description".into(), description.into());
        }
        (key.name.to_owned(), Value::Object(schema))
    };
    keys.iter().map(property).collect()
}

fn form(form: &Form) -> Object {
    members(match form {
        Form::One(kind) => return value(*kind),
        Form::Map(of) => return mapping(of, &silent),
        Form::Choice(of) => return choice(of),
        Form::Judged(of) => return judged(of),
        Form::List(of) => json!({ "type": "array", "items": self::form(of) }),
        Form::Some(of) => json!({ "type": "array", "items": self::form(of), "minItems": 1 }),
        Form::Pair(of) => json!({ "type": "array", "items": self::form(of), "minItems": 2, "maxItems": 2 }),
        Form::ByName(of) => json!({
            "type": "object",
            "propertyNames": like(&cluster()),
            "additionalProperties": mapping(of, &silent),
            "minProperties": 1,
        }),
    })
}

/// A single value, as YAML hands it over: `80` is a number there, `true` is none of its words, `20s` is a text.
fn value(kind: Kind) -> Object {
    let mut schema = members(match kind {
        Kind::Text => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Count => json!({ "type": "integer", "minimum": 0 }),
        Kind::Mtu => json!({ "type": "integer", "minimum": MTU.start(), "maximum": MTU.end() }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Set => json!({ "enum": [true] }),
        Kind::NatKind
        | Kind::NatPorts
        | Kind::Rcode
        | Kind::Cable
        | Kind::Flow
        | Kind::Ability
        | Kind::Daemon
        | Kind::ApiFault => json!({ "enum": kind.words() }),
        Kind::Name => named(LABEL),
        Kind::NodeSpec => named(&format!(r"{LABEL}\*?")),
        Kind::Cluster | Kind::Broker => named(&cluster()),
        Kind::Api => named(&format!("{}(/api)?", cluster())),
        Kind::Node => like(&format!("{}/{}", cluster(), cluster())),
        Kind::Side => named(&format!("{}(/{})?", cluster(), cluster())),
        Kind::Service => like(&format!("{}/{LABEL}/{LABEL}", cluster())),
        Kind::Watched => like(&format!("{}/(active-gateway|{PATH_TO}{})", cluster(), cluster())),
        Kind::Range => like("[0-9a-fA-F:.]+/[0-9]+"),
        Kind::Duration => like(&duration()),
        Kind::Window => like(&format!(r"{}\s*\.\.\s*{}", duration(), duration())),
        Kind::Skew => like(&format!("-?{}", duration())),
        Kind::Share => like(SHARE),
        Kind::Rate => like(&format!("-?{SHARE}")),
        Kind::Port => json!({ "type": ["string", "integer"], "pattern": format!("^{PORT}$") }),
        Kind::Target => like(&format!(".+:{PORT}")),
        Kind::DnsName => named(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?"),
    });
    schema.insert("description".into(), kind.form().into());
    schema
}

/// Of RFC 1123.
const LABEL: &str = "[a-z0-9]([a-z0-9-]*[a-z0-9])?";
const SHARE: &str = r"[0-9]+(\.[0-9]+)?\s*%";
const PORT: &str = "[0-9]+(/(tcp|udp))?";

/// One label or two.
fn cluster() -> String {
    format!(r"{LABEL}(\.{LABEL})?")
}

fn duration() -> String {
    let units = UNITS.map(|(unit, _)| unit).join("|");
    format!(r"([0-9]+(\.[0-9]+)?({units}))+")
}

/// A text that is this from end to end.
fn like(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^({pattern})$") })
}

/// A name that is this from end to end. YAML takes some names for something else, and we take them as they stand.
fn named(pattern: &str) -> Value {
    json!({ "type": ["string", "number", "boolean"], "pattern": format!("^({pattern})$") })
}
