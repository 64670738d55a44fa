//! `timeline:`: what happens, each entry a time and one verb.

use super::fields::Fields;
use super::grammar::{Choice, Form, Key, Mapping, Need, may, need};
use super::membership;
use super::names::Names;
use super::nat;
use super::report::Report;
use super::tree::{Node, Word};
use super::values::{Kind, duration, flag, no, one_of, rate, skew};
use super::words::{BEHAVIOURS, Behaviour, DAEMONS, timed_states};
use super::wrong::{Same, Wrong};
use crate::{Act, ApiFault, ApiRef, Daemon, Daemons, NodeRef, Side, Verb, Which};
use core::time::Duration;
use std::collections::BTreeSet;
use tombolo_core::base::ClusterId;

/// An entry.
pub(super) const ENTRY: Mapping = Mapping {
    place: "an entry of the timeline",
    keys: &[need("at", Form::One(Kind::Duration)), need("do", Form::Choice(&VERBS))],
};

/// The verbs.
pub(super) const VERBS: Choice = Choice {
    kind: "verb",
    article: "a",
    words: &[
        need("power_off", Form::One(Kind::Node)),
        need("power_on", Form::One(Kind::Node)),
        need("crash", Form::Map(&PROCESS)),
        need("start", Form::Map(&PROCESS)),
        need("cut", Form::Map(&CUT)),
        need("heal", Form::Map(&HEAL)),
        need("api", Form::Map(&API)),
        need("export", Form::One(Kind::Service)),
        need("unexport", Form::One(Kind::Service)),
        need("ready", Form::One(Kind::Service)),
        need("unready", Form::One(Kind::Service)),
        need("reslice", Form::One(Kind::Service)),
        need("clock_skew", Form::Map(&CLOCK_SKEW)),
        need("clock_rate", Form::Map(&CLOCK_RATE)),
        need("nat_remap", Form::One(Kind::Cluster)),
        need("change_address", Form::One(Kind::Cluster)),
        need("join", Form::One(Kind::Cluster)),
        need("leave", Form::One(Kind::Cluster)),
        need("rebuild", Form::Map(&membership::REBUILD)),
    ],
};

const PROCESS: Mapping = Mapping {
    place: "crash or start",
    keys: &[need("node", Form::One(Kind::Node)), need("daemon", Form::One(Kind::Daemon))],
};
const FROM: Key = need("from", Form::One(Kind::Side));
const TO: Key = need("to", Form::One(Kind::Side));
const CUT: Mapping = Mapping { place: "cut", keys: &[FROM, TO, may("one_way", Form::One(Kind::Flag))] };
const HEAL: Mapping = Mapping { place: "heal", keys: &[FROM, TO] };
const API: Mapping = Mapping {
    place: "api",
    keys: &[
        need("of", Form::One(Kind::Api)),
        need("is", Form::One(Kind::ApiFault)),
        Key { name: "by", form: Form::One(Kind::Duration), need: Need::With("is", timed_states) },
    ],
};
const CLOCK_SKEW: Mapping =
    Mapping { place: "clock_skew", keys: &[need("node", Form::One(Kind::Node)), need("by", Form::One(Kind::Skew))] };
const CLOCK_RATE: Mapping =
    Mapping { place: "clock_rate", keys: &[need("node", Form::One(Kind::Node)), need("by", Form::One(Kind::Rate))] };

/// Clusters in which something happened that a later `last-…` may refer to.
#[derive(Default)]
pub(super) struct Before {
    powered_off: BTreeSet<ClusterId>,
    crashed: BTreeSet<ClusterId>,
    backed_up: BTreeSet<ApiRef>,
    joined: membership::Joined,
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
            Verb::Join(cluster) => self.joined.insert(cluster.clone(), true).is_some(),
            Verb::Leave(cluster) => self.joined.insert(cluster.clone(), false).is_some(),
            Verb::PowerOn(_)
            | Verb::Start(..)
            | Verb::Cut { .. }
            | Verb::Heal { .. }
            | Verb::Api(..)
            | Verb::Export(..)
            | Verb::Unexport(..)
            | Verb::Ready(..)
            | Verb::Unready(..)
            | Verb::Reslice(..)
            | Verb::ClockSkew(..)
            | Verb::ClockRate(..)
            | Verb::NatRemap(_)
            | Verb::ChangeAddress(_)
            | Verb::Rebuild(_) => false,
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
        let at = fields.get("at").and_then(|node| {
            let at = duration(node, report)?;
            if at < last {
                report.add(node.span.clone(), Wrong::OutOfOrder { at, before: last });
            }
            last = last.max(at);
            Some(at)
        });
        let verb = fields.get("do").and_then(|node| verb(node, names, &before, report));
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
    let stray = entries.iter().find(|(key, _)| VERBS.has(&key.text));
    if let Some((key, _)) = stray {
        report.add(key.span.clone(), Wrong::VerbOutsideDo { verb: key.text.clone() });
        return None;
    }
    Fields::open(node, &ENTRY, report)
}

fn verb(node: &Node, names: &Names, before: &Before, report: &mut Report) -> Option<Verb> {
    let entries = node.map("one verb with its object: { power_off: west/gw-a }", report)?;
    let strangers: Vec<&Word> = entries.iter().map(|(key, _)| key).filter(|key| !VERBS.has(&key.text)).collect();
    for key in &strangers {
        let (kind, known) = (VERBS.kind, VERBS.known());
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
            let fields = Fields::open(object, &HEAL, report)?;
            let (from, to) = sides(&fields, names, before, report)?;
            Some(Verb::Heal { from, to })
        }
        "api" => api(object, names, before, report).map(|(api, fault)| Verb::Api(api, fault)),
        "export" => names.service(object, report).map(|(cluster, key)| Verb::Export(cluster, key)),
        "unexport" => names.service(object, report).map(|(cluster, key)| Verb::Unexport(cluster, key)),
        "nat_remap" => nat::boxed(object, names, report).map(Verb::NatRemap),
        "change_address" => nat::boxed(object, names, report).map(Verb::ChangeAddress),
        "join" => membership::joins(object, names, &before.joined, report).map(Verb::Join),
        "leave" => membership::leaves(object, names, &before.joined, report).map(Verb::Leave),
        "rebuild" => membership::rebuilds(object, names, &before.joined, report).map(Verb::Rebuild),
        "clock_skew" => {
            clock(object, &CLOCK_SKEW, &some_node, skew, report).map(|(node, skew)| Verb::ClockSkew(node, skew))
        }
        "clock_rate" => {
            clock(object, &CLOCK_RATE, &some_node, rate, report).map(|(node, rate)| Verb::ClockRate(node, rate))
        }
        "ready" => names.service(object, report).map(|(cluster, key)| Verb::Ready(cluster, key)),
        "reslice" => names.service(object, report).map(|(cluster, key)| Verb::Reslice(cluster, key)),
        "unready" => names.service(object, report).map(|(cluster, key)| Verb::Unready(cluster, key)),
        _ => None,
    }
}

/// `{ node: west/gw-a, by: -30s }`, with what `by` is read by.
fn clock<T>(
    object: &Node,
    mapping: &'static Mapping,
    some_node: &dyn Fn(&Node, &mut Report) -> Option<NodeRef>,
    by: fn(&Node, &mut Report) -> Option<T>,
    report: &mut Report,
) -> Option<(NodeRef, T)> {
    let fields = Fields::open(object, mapping, report)?;
    let node = fields.get("node").and_then(|node| some_node(node, report));
    let by = fields.get("by").and_then(|node| by(node, report));
    Some((node?, by?))
}

/// `{ node: west/gw-a, daemon: gateway }`.
fn process(
    object: &Node,
    names: &Names,
    some_node: &dyn Fn(&Node, &mut Report) -> Option<NodeRef>,
    report: &mut Report,
) -> Option<(NodeRef, Daemons)> {
    let fields = Fields::open(object, &PROCESS, report)?;
    let node = fields.get("node").and_then(|node| some_node(node, report));
    let daemon_node = fields.get("daemon")?;
    let daemons = one_of(daemon_node, Kind::Daemon, DAEMONS, report).copied();
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
    let fields = Fields::open(object, &CUT, report)?;
    let one_way = fields.get("one_way").map_or(Some(false), |node| flag(node, report));
    let (from, to) = sides(&fields, names, before, report)?;
    Some(Verb::Cut { from, to, one_way: one_way? })
}

/// `from` and `to`.
fn sides(fields: &Fields<'_>, names: &Names, before: &Before, report: &mut Report) -> Option<(Side, Side)> {
    let mut side = |key: &'static str| {
        let node = fields.get(key)?;
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

/// `{ of: west, is: slow, by: 6s }`.
fn api(object: &Node, names: &Names, before: &Before, report: &mut Report) -> Option<(ApiRef, ApiFault)> {
    let fields = Fields::open(object, &API, report)?;
    let of = fields.get("of").and_then(|node| names.api(node, report));
    let word = fields.get("is")?.word(Kind::ApiFault.form(), report)?;
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
