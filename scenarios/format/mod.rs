//! The format of scenario files. `scenarios/README.md` tells what each word means; here it is read and checked.
//!
//! ```text
//! text ─tree─> nodes with places ─clusters, timeline, expect─> Scenario
//!                    │                      │
//!                    └──── report <─────────┘   each mistake with its place; all are told at once
//! ```
//! What may stand where is said once, in tables (`grammar.rs`, `words.rs`), for readers, messages and the JSON Schema.
//!
//! Reading goes through a tree of our own rather than through serde: a derived reader stops at its first mistake, and
//! it cannot say where a name stands that turns out, three sections later, to mean nothing. `write.rs` goes the way back.

mod clusters;
mod errors;
mod expect;
mod fields;
mod grammar;
mod membership;
mod names;
mod nat;
mod nearest;
mod report;
mod schema;
#[cfg(test)]
mod tests;
mod timeline;
mod tree;
mod values;
mod words;
mod write;
mod wrong;

pub use errors::{Errors, Mistake};
pub use schema::schema;
pub use values::Kind;
pub(crate) use write::is_called;
pub use write::{act_words, write, written};
pub use wrong::{Refused, Same, Shape, Wrong};

use crate::{Ability, Act, Expectation, Flow, LinkSpec, Links, Scenario, Verb};
use fields::Fields;
use grammar::{Form, Mapping, may, need};
use names::Names;
use report::Report;
use std::collections::BTreeSet;
use tombolo_core::model::CableDriver;
use tree::{Node, Value, Word};
use words::ABILITIES;

/// Longer names do not fit into a table.
const NAME_CHARS_MAX: usize = 63;

/// A whole file.
const SCENARIO: Mapping = Mapping {
    place: "a scenario",
    keys: &[
        need("scenario", Form::One(Kind::Text)),
        need("about", Form::One(Kind::Text)),
        may("origin", Form::List(&Form::One(Kind::Text))),
        may("needs", Form::List(&Form::One(Kind::Ability))),
        need("clusters", Form::ByName(&clusters::CLUSTER)),
        need("broker", Form::One(Kind::Broker)),
        may("cable", Form::One(Kind::Cable)),
        may("links", Form::Map(&clusters::LINKS)),
        may("workloads", Form::List(&Form::Map(&clusters::WORKLOAD))),
        may("timeline", Form::List(&Form::Map(&timeline::ENTRY))),
        need("expect", Form::List(&Form::Judged(&expect::ENTRY))),
    ],
};

/// Reads a scenario file. `file_name` stands in messages only.
///
/// # Errors
/// All that is wrong, each with line, column and what to do; see [`Errors`].
pub fn parse(file_name: &str, text: &str) -> Result<Scenario, Errors> {
    let mut report = Report::default();
    let root = tree::read(text, &mut report);
    if let Some((key, value)) = root.as_ref().and_then(manifest) {
        let (span, value) = (key.span.clone(), value.to_owned());
        // Whatever else is wrong with it as a scenario is beside the point.
        report = Report::default();
        report.add(span, Wrong::Manifest { key: key.text.clone(), value });
        return Err(Errors::new(file_name, text, report));
    }
    match root.and_then(|root| scenario(&root, &mut report)) {
        Some(scenario) if report.is_empty() => Ok(scenario),
        _ => Err(Errors::new(file_name, text, report)),
    }
}

/// What says that a file is a Kubernetes manifest: its kind, or else its API version.
fn manifest(root: &Node) -> Option<(&Word, &str)> {
    let Value::Map(entries) = &root.value else { return None };
    let find = |name: &str| entries.iter().find(|(key, _)| key.text == name);
    if find("scenario").is_some() {
        return None;
    }
    let (key, node) = find("kind").or_else(|| find("apiVersion"))?;
    match &node.value {
        Value::Word(word) => Some((key, &word.text)),
        Value::List(_) | Value::Map(_) | Value::Refused => None,
    }
}

fn scenario(root: &Node, report: &mut Report) -> Option<Scenario> {
    let fields = Fields::open(root, &SCENARIO, report)?;
    let name = fields.get("scenario").and_then(|node| name(node, report));
    let about = fields.get("about").and_then(|node| line(node, report));
    let origin = fields.get("origin").map_or_else(Vec::new, |node| lines(node, report));
    let needs = fields.get("needs").map_or_else(BTreeSet::new, |node| abilities(node, report));

    let mut names = Names::default();
    let clusters = fields.get("clusters").and_then(|node| clusters::clusters(node, &mut names, report));
    let broker = fields.get("broker").and_then(|node| clusters::broker(node, &names, report));
    names.broker.clone_from(&broker);
    let cable = fields.get("cable").map_or(Some(CableDriver::Wireguard), |node| clusters::cable(node, report));
    let links =
        fields.get("links").map_or_else(|| Some(Links::default()), |node| clusters::links(node, &names, report));
    names.services_whole = true;
    let workloads = fields.get("workloads").map_or_else(Vec::new, |node| clusters::workloads(node, &mut names, report));
    let (timeline, before) =
        fields.get("timeline").map_or_else(Default::default, |node| timeline::timeline(node, &names, report));
    let expect = fields.get("expect").map_or_else(Vec::new, |node| expect::expect(node, &names, &before, report));

    let links = links?;
    let needs = needs.into_iter().chain(implied(&links, &timeline, &expect)).collect();
    Some(Scenario {
        name: name?,
        about: about?,
        origin,
        needs,
        clusters: clusters?,
        broker: broker?,
        cable: cable?,
        links,
        workloads,
        timeline,
        expect,
    })
}

fn name(node: &Node, report: &mut Report) -> Option<String> {
    let name = line(node, report)?;
    let length = name.chars().count();
    if length > NAME_CHARS_MAX {
        let (text, limit) = (format!("with {length} characters"), format!("{NAME_CHARS_MAX} characters"));
        report.add(node.span.clone(), Wrong::TooMuch { what: "a scenario name", text, limit });
        return None;
    }
    Some(name)
}

/// A text; line breaks in the file are spaces in it. It is shown as it is, so nothing in it may steer a terminal.
fn line(node: &Node, report: &mut Report) -> Option<String> {
    let word = node.word(Kind::Text.form(), report)?;
    let steering = word.text.char_indices().find(|(_, c)| errors::steers(*c) && !c.is_whitespace());
    if let Some((at, character)) = steering {
        report.add(word.part(at, at + character.len_utf8()), Wrong::Steers { character });
        return None;
    }
    Some(word.text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn lines(node: &Node, report: &mut Report) -> Vec<String> {
    let list = node.list("a list of texts: [submariner#2747]", report).unwrap_or_default();
    list.iter().filter_map(|node| line(node, report)).collect()
}

fn abilities(node: &Node, report: &mut Report) -> BTreeSet<Ability> {
    let list = node.list("a list of abilities: [loss, jitter]", report).unwrap_or_default();
    list.iter().filter_map(|node| values::one_of(node, Kind::Ability, ABILITIES, report).copied()).collect()
}

/// Abilities that the rest of the file asks for, so that nobody can forget them.
pub(crate) fn implied(links: &Links, timeline: &[Act], expect: &[Expectation]) -> BTreeSet<Ability> {
    let mut needs = BTreeSet::new();
    let any = |test: fn(&LinkSpec) -> bool| test(&links.default) || links.pairs.values().any(test);
    if any(|link| link.loss_millionths > 0) {
        needs.insert(Ability::Loss);
    }
    if any(|link| !link.jitter.is_zero()) {
        needs.insert(Ability::Jitter);
    }
    if expect.iter().any(|expectation| matches!(expectation, Expectation::Outage { flow: Flow::Held, .. })) {
        needs.insert(Ability::HeldFlows);
    }
    if timeline.iter().any(|act| matches!(act.verb, Verb::ClockSkew(..) | Verb::ClockRate(..))) {
        needs.insert(Ability::Clocks);
    }
    needs
}
