//! `timeline:`: what happens, each entry a time and one verb.

use super::fields::{Choice, Fields};
use super::names::Names;
use super::nat;
use super::report::Report;
use super::tree::{Node, Word};
use super::values::{Kind, duration, flag, no, rate, skew, value};
use super::wrong::{Same, Wrong};
use crate::{Act, ApiFault, ApiRef, Daemon, Daemons, NodeRef, Side, Verb, Which};
use core::time::Duration;
use std::collections::BTreeSet;
use tombolo_core::base::ClusterId;

/// The verbs.
pub(super) const VERBS: Choice = Choice {
    kind: "verb",
    article: "a",
    known: &[
        "power_off",
        "power_on",
        "crash",
        "start",
        "cut",
        "heal",
        "api",
        "export",
        "unexport",
        "ready",
        "unready",
        "clock_skew",
        "clock_rate",
        "nat_remap",
        "change_address",
    ],
};

/// Clusters in which something happened that a later `last-…` may refer to.
#[derive(Default)]
pub(super) struct Before {
    powered_off: BTreeSet<ClusterId>,
    crashed: BTreeSet<ClusterId>,
    backed_up: BTreeSet<ApiRef>,
    /// A verb could not be read: it may have been the one.
    unsure: bool,
}

impl Before {
    fn note(&mut self, verb: Option<&Verb>) {
        let Some(verb) = verb else {
            self.unsure = true;
            return;
        };
        match verb {
            Verb::PowerOff(node) => self.powered_off.insert(node.cluster.clone()),
            Verb::Crash(node, _) => self.crashed.insert(node.cluster.clone()),
            Verb::Api(api, ApiFault::BackedUp) => self.backed_up.insert(api.clone()),
            Verb::PowerOn(_)
            | Verb::Start(..)
            | Verb::Cut { .. }
            | Verb::Heal { .. }
            | Verb::Api(..)
            | Verb::Export(..)
            | Verb::Unexport(..)
            | Verb::Ready(..)
            | Verb::Unready(..)
            | Verb::ClockSkew(..)
            | Verb::ClockRate(..)
            | Verb::NatRemap(_)
            | Verb::ChangeAddress(_) => false,
        };
    }

    /// Reports a `last-…` to which nothing before gives a meaning.
    pub fn check(&self, at: &Node, node: &NodeRef, report: &mut Report) {
        if self.unsure {
            return;
        }
        let done = match &node.which {
            Which::LastPoweredOff if !self.powered_off.contains(&node.cluster) => "powered off",
            Which::LastCrashed if !self.crashed.contains(&node.cluster) => "crashed",
            Which::LastPoweredOff | Which::LastCrashed => return,
            Which::Named(_) | Which::ActiveGateway | Which::GatewayTo(_) => return,
        };
        report.add(at.span.clone(), Wrong::NothingBefore { cluster: node.cluster.clone(), done });
    }
}

/// The timeline, and what it gives later references.
pub(super) fn timeline(node: &Node, names: &Names, report: &mut Report) -> (Vec<Act>, Before) {
    let mut acts = Vec::new();
    let mut before = Before::default();
    let mut last = Duration::ZERO;
    let list = node.list("a list of { at: …, do: { … } }", report);
    for node in list.unwrap_or_default() {
        let Some(fields) = open_entry(node, report) else {
            before.note(None);
            continue;
        };
        let at = fields.need("at", report).and_then(|node| {
            let at = duration(node, report)?;
            if at < last {
                report.add(node.span.clone(), Wrong::OutOfOrder { at, before: last });
            }
            last = last.max(at);
            Some(at)
        });
        let verb = fields.need("do", report).and_then(|node| verb(node, names, &before, report));
        before.note(verb.as_ref());
        if let (Some(at), Some(verb)) = (at, verb) {
            acts.push(Act { at, verb });
        }
    }
    (acts, before)
}

/// The mapping of an entry. A verb beside `at` instead of under `do` is a mistake of its own.
fn open_entry<'t>(node: &'t Node, report: &mut Report) -> Option<Fields<'t>> {
    let entries = node.map("an entry: { at: 20s, do: { … } }", report)?;
    let stray = entries.iter().find(|(key, _)| VERBS.known.contains(&key.text.as_str()));
    if let Some((key, _)) = stray {
        report.add(key.span.clone(), Wrong::VerbOutsideDo { verb: key.text.clone() });
        return None;
    }
    Fields::open(node, "an entry of the timeline", &["at", "do"], report)
}

fn verb(node: &Node, names: &Names, before: &Before, report: &mut Report) -> Option<Verb> {
    let entries = node.map("one verb with its object: { power_off: west/gw-a }", report)?;
    let strangers: Vec<&Word> =
        entries.iter().map(|(key, _)| key).filter(|key| !VERBS.known.contains(&key.text.as_str())).collect();
    for key in &strangers {
        let (kind, known) = (VERBS.kind, VERBS.known);
        report.add(key.span.clone(), Wrong::UnknownWord { kind, word: key.text.clone(), known });
    }
    if !strangers.is_empty() {
        return None;
    }
    let (verb, object) = VERBS.of(entries, &node.span, report)?;
    let some_node = |node: &Node, report: &mut Report| {
        let found = names.node(node, report)?;
        before.check(node, &found, report);
        Some(found)
    };
    match verb.text.as_str() {
        "power_off" => some_node(object, report).map(Verb::PowerOff),
        "power_on" => some_node(object, report).map(Verb::PowerOn),
        "crash" => process(object, names, &some_node, report).map(|(node, daemons)| Verb::Crash(node, daemons)),
        "start" => process(object, names, &some_node, report).map(|(node, daemons)| Verb::Start(node, daemons)),
        "cut" => cut(object, names, before, report),
        "heal" => {
            let fields = Fields::open(object, "heal", &["from", "to"], report)?;
            let (from, to) = sides(&fields, names, before, report)?;
            Some(Verb::Heal { from, to })
        }
        "api" => api(object, names, before, report).map(|(api, fault)| Verb::Api(api, fault)),
        "export" => names.service(object, report).map(|(cluster, key)| Verb::Export(cluster, key)),
        "unexport" => names.service(object, report).map(|(cluster, key)| Verb::Unexport(cluster, key)),
        "nat_remap" => nat::boxed(object, names, report).map(Verb::NatRemap),
        "change_address" => nat::boxed(object, names, report).map(Verb::ChangeAddress),
        "clock_skew" => {
            clock(object, "clock_skew", &some_node, skew, report).map(|(node, skew)| Verb::ClockSkew(node, skew))
        }
        "clock_rate" => {
            clock(object, "clock_rate", &some_node, rate, report).map(|(node, rate)| Verb::ClockRate(node, rate))
        }
        "ready" => names.service(object, report).map(|(cluster, key)| Verb::Ready(cluster, key)),
        "unready" => names.service(object, report).map(|(cluster, key)| Verb::Unready(cluster, key)),
        _ => None,
    }
}

/// `{ node: west/gw-a, by: -30s }`, with what `by` is read by.
fn clock<T>(
    object: &Node,
    verb: &'static str,
    some_node: &dyn Fn(&Node, &mut Report) -> Option<NodeRef>,
    by: fn(&Node, &mut Report) -> Option<T>,
    report: &mut Report,
) -> Option<(NodeRef, T)> {
    let fields = Fields::open(object, verb, &["node", "by"], report)?;
    let node = fields.need("node", report).and_then(|node| some_node(node, report));
    let by = fields.need("by", report).and_then(|node| by(node, report));
    Some((node?, by?))
}

/// `{ node: west/gw-a, daemon: gateway }`.
fn process(
    object: &Node,
    names: &Names,
    some_node: &dyn Fn(&Node, &mut Report) -> Option<NodeRef>,
    report: &mut Report,
) -> Option<(NodeRef, Daemons)> {
    let fields = Fields::open(object, "crash or start", &["node", "daemon"], report)?;
    let node = fields.need("node", report).and_then(|node| some_node(node, report));
    let parse = |text: &str| {
        let one = Daemon::ALL.into_iter().find(|daemon| daemon.name() == text).map(Daemons::One);
        if text == "all" { Some(Daemons::All) } else { one }
    };
    let daemon_node = fields.need("daemon", report)?;
    let daemons = value(daemon_node, Kind::Daemon, parse, report);
    let (node, daemons) = (node?, daemons?);
    let is_gateway = is_gateway(&node, names);
    let misplaced = match (daemons, is_gateway) {
        (Daemons::One(Daemon::Gateway), Some(false)) => Some((Daemon::Gateway, Daemon::RouteAgent)),
        (Daemons::One(Daemon::RouteAgent), Some(true)) => Some((Daemon::RouteAgent, Daemon::Gateway)),
        (Daemons::One(_) | Daemons::All, _) => None,
    };
    if let Some((daemon, instead)) = misplaced {
        let word = fields.get("node").and_then(|node| node.word("a node", report));
        let node = word.map_or_else(String::new, |word| word.text.clone());
        let wrong = Wrong::NoDaemonThere { node, daemon: daemon.name(), instead: instead.name() };
        report.add(daemon_node.span.clone(), wrong);
        return None;
    }
    Some((node, daemons))
}

/// Whether the node is a gateway, where that is certain.
fn is_gateway(node: &NodeRef, names: &Names) -> Option<bool> {
    match &node.which {
        Which::ActiveGateway | Which::GatewayTo(_) => Some(true),
        Which::LastPoweredOff | Which::LastCrashed => None,
        Which::Named(name) => {
            let members = names.clusters.get(&node.cluster)?;
            members.nodes.iter().find(|node| node.name == *name).map(|node| node.gateway)
        }
    }
}

fn cut(object: &Node, names: &Names, before: &Before, report: &mut Report) -> Option<Verb> {
    let fields = Fields::open(object, "cut", &["from", "to", "one_way"], report)?;
    let one_way = fields.get("one_way").map_or(Some(false), |node| flag(node, report));
    let (from, to) = sides(&fields, names, before, report)?;
    Some(Verb::Cut { from, to, one_way: one_way? })
}

/// `from` and `to`.
fn sides(fields: &Fields<'_>, names: &Names, before: &Before, report: &mut Report) -> Option<(Side, Side)> {
    let mut side = |key: &'static str| {
        let node = fields.need(key, report)?;
        let side = names.side(node, report)?;
        if let Side::Node(found) = &side {
            before.check(node, found, report);
        }
        Some(side)
    };
    let (from, to) = (side("from"), side("to"));
    let (from, to) = (from?, to?);
    if from == to {
        report.add(fields.span(), Wrong::Same(Same::Sides));
        return None;
    }
    Some((from, to))
}

/// How an API can be told to behave.
pub(super) enum Behaviour {
    Plain(ApiFault),
    Timed(fn(Duration) -> ApiFault),
}

pub(super) const BEHAVIOURS: [(&str, Behaviour); 9] = [
    ("healthy", Behaviour::Plain(ApiFault::Healthy)),
    ("slow", Behaviour::Timed(ApiFault::Slow)),
    ("slow-deletes", Behaviour::Timed(ApiFault::SlowDeletes)),
    ("erroring", Behaviour::Plain(ApiFault::Erroring)),
    ("down", Behaviour::Plain(ApiFault::Down)),
    ("restarted-empty", Behaviour::Plain(ApiFault::RestartedEmpty)),
    ("backed-up", Behaviour::Plain(ApiFault::BackedUp)),
    ("restored", Behaviour::Plain(ApiFault::Restored)),
    ("history-expired", Behaviour::Plain(ApiFault::HistoryExpired)),
];

/// `{ of: west, is: slow, by: 6s }`.
fn api(object: &Node, names: &Names, before: &Before, report: &mut Report) -> Option<(ApiRef, ApiFault)> {
    let fields = Fields::open(object, "api", &["of", "is", "by"], report)?;
    let of = fields.need("of", report).and_then(|node| names.api(node, report));
    let word = fields.need("is", report)?.word(Kind::ApiFault.form(), report)?;
    let Some((is, behaviour)) = BEHAVIOURS.iter().find(|(name, _)| *name == word.text) else {
        return no(word, Kind::ApiFault, report);
    };
    let fault = match (behaviour, fields.get("by")) {
        (Behaviour::Plain(fault), None) => fault.clone(),
        (Behaviour::Timed(fault), Some(node)) => fault(duration(node, report)?),
        (Behaviour::Plain(_), Some(node)) => {
            report.add(node.span.clone(), Wrong::ApiTakesNoTime { is });
            return None;
        }
        (Behaviour::Timed(_), None) => {
            report.add(object.span.clone(), Wrong::ApiLacksTime { is });
            return None;
        }
    };
    let of = of?;
    if fault == ApiFault::Restored && !before.unsure && !before.backed_up.contains(&of) {
        report.add(word.span.clone(), Wrong::NoBackup { api: of.to_string() });
        return None;
    }
    Some((of, fault))
}
