//! `expect:`: what must hold, each entry one expectation and the time when it is judged.

use super::fields::Fields;
use super::grammar::{Choice, Form, Judged, Key, Mapping, may, need};
use super::names::Names;
use super::report::Report;
use super::timeline::Before;
use super::tree::{Node, Word};
use super::values::{Kind, duration, one_of, parse_dns_name, set, value, window};
use super::words::{FLOWS, RCODES, meaning};
use super::wrong::Wrong;
use crate::{Expectation, Flow, NodeRef, Target, When};

/// An entry.
pub(super) const ENTRY: Judged = Judged {
    times: Choice {
        kind: "time",
        article: "a",
        words: &[
            need("by", Form::One(Kind::Duration)),
            need("during", Form::One(Kind::Window)),
            need("always", Form::One(Kind::Set)),
        ],
    },
    things: Choice {
        kind: "expectation",
        article: "an",
        words: &[
            need("connect", Form::Map(&CONNECT)),
            need("refuse", Form::Map(&REFUSE)),
            need("dns", Form::Map(&DNS)),
            need("outage", Form::Map(&OUTAGE)),
            need("unchanged", Form::One(Kind::Watched)),
            need("refused", Form::One(Kind::Cluster)),
            need("settled", Form::One(Kind::Set)),
        ],
    },
    suits: &[
        ("outage", &["during", "always"]),
        ("unchanged", &["during", "always"]),
        ("refused", &["by", "during"]),
        ("settled", &["by", "during"]),
    ],
};

const FROM: Key = need("from", Form::One(Kind::Node));
const TO: Key = need("to", Form::One(Kind::Target));
const CONNECT: Mapping = Mapping { place: "connect", keys: &[FROM, TO] };
const REFUSE: Mapping = Mapping { place: "refuse", keys: &[FROM, TO] };
const DNS: Mapping = Mapping {
    place: "dns",
    keys: &[
        FROM,
        need("name", Form::One(Kind::DnsName)),
        may("rcode", Form::One(Kind::Rcode)),
        may("any_of", Form::List(&Form::One(Kind::Service))),
    ],
};
const OUTAGE: Mapping = Mapping {
    place: "outage",
    keys: &[FROM, TO, need("at_most", Form::One(Kind::Duration)), may("flow", Form::One(Kind::Flow))],
};

/// What an entry is read against.
struct Context<'c> {
    names: &'c Names,
    before: &'c Before,
}

/// The expectations, in the order written.
pub(super) fn expect(node: &Node, names: &Names, before: &Before, report: &mut Report) -> Vec<Expectation> {
    let context = Context { names, before };
    let list = node.list("a list of expectations", report).unwrap_or_default();
    list.iter().filter_map(|node| context.entry(node, report)).collect()
}

impl Context<'_> {
    fn entry(&self, node: &Node, report: &mut Report) -> Option<Expectation> {
        let entries = node.map("an entry: { by: 10s, connect: { … } }", report)?;
        let Judged { times, things, .. } = &ENTRY;
        let known = ENTRY.known();
        let strangers: Vec<&Word> =
            entries.iter().map(|(key, _)| key).filter(|key| !known.contains(&key.text.as_str())).collect();
        for key in &strangers {
            let wrong = Wrong::UnknownWord { kind: things.kind, word: key.text.clone(), known: known.clone() };
            report.add(key.span.clone(), wrong);
        }
        if !strangers.is_empty() {
            return None;
        }
        let time = times.of(entries, &node.span, report);
        let kind = things.of(entries, &node.span, report);
        let (kind, object) = kind?;
        let when = time.and_then(|(time, node)| Some((time, when(time, node, report)?)));
        match kind.text.as_str() {
            "connect" => self.connect(object, when, report),
            "refuse" => self.refuse(object, when, report),
            "dns" => self.dns(object, when, report),
            "outage" => self.outage(object, when, report),
            "unchanged" => {
                let what = self.names.watched(object, report);
                let during = suits(when?, "unchanged", report)?;
                Some(Expectation::Unchanged { during, what: what? })
            }
            "refused" => {
                let cluster = self.names.cluster_at(object, report);
                let when = suits(when?, "refused", report)?;
                Some(Expectation::Refused { when, cluster: cluster? })
            }
            "settled" => {
                set(object, report)?;
                let when = suits(when?, "settled", report)?;
                Some(Expectation::Settled { when })
            }
            _ => None,
        }
    }

    fn from(&self, fields: &Fields<'_>, report: &mut Report) -> Option<NodeRef> {
        let node = fields.get("from")?;
        let from = self.names.node(node, report)?;
        self.before.check(node, &from, report);
        Some(from)
    }

    fn to(&self, fields: &Fields<'_>, must_exist: bool, report: &mut Report) -> Option<Target> {
        self.names.target(fields.get("to")?, must_exist, report)
    }

    fn connect(&self, object: &Node, when: Option<Timed<'_>>, report: &mut Report) -> Option<Expectation> {
        let fields = Fields::open(object, &CONNECT, report)?;
        let (from, to) = (self.from(&fields, report), self.to(&fields, true, report));
        Some(Expectation::Connect { when: when?.1, from: from?, to: to? })
    }

    fn refuse(&self, object: &Node, when: Option<Timed<'_>>, report: &mut Report) -> Option<Expectation> {
        let fields = Fields::open(object, &REFUSE, report)?;
        let (from, to) = (self.from(&fields, report), self.to(&fields, false, report));
        Some(Expectation::Refuse { when: when?.1, from: from?, to: to? })
    }

    fn dns(&self, object: &Node, when: Option<Timed<'_>>, report: &mut Report) -> Option<Expectation> {
        let fields = Fields::open(object, &DNS, report)?;
        let from = self.from(&fields, report);
        let name = fields.get("name").and_then(|node| value(node, Kind::DnsName, parse_dns_name, report));
        let rcode = match fields.get("rcode") {
            Some(node) => rcode(node, report),
            None => Some("NOERROR".to_owned()),
        };
        let mut any_of = Vec::new();
        if let Some(node) = fields.get("any_of") {
            for node in node.list("a list of services: [east/shop/web]", report).unwrap_or_default() {
                any_of.extend(self.names.service(node, report));
            }
            if let Some(rcode) = rcode.clone().filter(|rcode| rcode != "NOERROR" && !any_of.is_empty()) {
                report.add(node.span.clone(), Wrong::AnswerWithCode { rcode });
            }
        }
        Some(Expectation::Dns { when: when?.1, from: from?, name: name?, rcode: rcode?, any_of })
    }

    fn outage(&self, object: &Node, when: Option<Timed<'_>>, report: &mut Report) -> Option<Expectation> {
        let fields = Fields::open(object, &OUTAGE, report)?;
        let (from, to) = (self.from(&fields, report), self.to(&fields, true, report));
        let at_most = fields.get("at_most").and_then(|node| duration(node, report));
        let flow = fields.get("flow").map_or(Some(&Flow::New), |node| one_of(node, Kind::Flow, FLOWS, report));
        let during = suits(when?, "outage", report)?;
        Some(Expectation::Outage { during, from: from?, to: to?, at_most: at_most?, flow: *flow? })
    }
}

/// A time, and the word that says it.
type Timed<'t> = (&'t Word, When);

fn when(time: &Word, node: &Node, report: &mut Report) -> Option<When> {
    match time.text.as_str() {
        "by" => duration(node, report).map(When::By),
        "during" => window(node, report).map(|(from, to)| When::During(from, to)),
        "always" => set(node, report).map(|()| When::Always),
        _ => None,
    }
}

/// The time, if the expectation can be judged then.
fn suits((word, when): Timed<'_>, expectation: &'static str, report: &mut Report) -> Option<When> {
    let suits = ENTRY.suits(expectation);
    if suits.contains(&word.text.as_str()) {
        return Some(when);
    }
    let when = match when {
        When::By(_) => "by",
        When::During(..) => "during",
        When::Always => "always",
    };
    report.add(word.span.clone(), Wrong::WrongWhen { expectation, when, suits });
    None
}

fn rcode(node: &Node, report: &mut Report) -> Option<String> {
    value(node, Kind::Rcode, |text| meaning(RCODES, text).map(|()| text.to_owned()), report)
}
