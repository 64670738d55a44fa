//! What can be wrong in a scenario file. Each variant is a fact with what a person needs to mend it; the texts are here
//! and nowhere else.

use super::membership::MembershipWrong;
use super::nat::NatWrong;
use super::nearest::nearest;
use super::values::Kind;
use core::fmt;
use core::time::Duration;
use granit_parser::ErrorKind;
use std::borrow::Cow;
use tombolo_core::base::{Cidr, CidrError, ClusterId, LabelError};
use tombolo_core::model::{Protocol, ServiceKey};

/// The form of a YAML node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Nothing written.
    Nothing,
    /// A scalar.
    Word,
    /// A list.
    List,
    /// A mapping.
    Map,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "nothing",
            Self::Word => "a single value",
            Self::List => "a list",
            Self::Map => "a mapping",
        })
    }
}

/// What YAML has and a scenario must not use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// `&name`.
    Anchor,
    /// `*name`.
    Alias,
    /// `!name`.
    Tag,
    /// A second `---`.
    SecondDocument,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Anchor => "YAML anchors (&name) are not used in scenarios",
            Self::Alias => "YAML aliases (*name) are not used in scenarios",
            Self::Tag => "YAML tags (!name) are not used in scenarios",
            Self::SecondDocument => "a file holds one scenario; here begins a second document",
        })
    }
}

/// What two things that must differ are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Same {
    /// The two sides of a cut.
    Sides,
    /// The two clusters of a link.
    Ends,
    /// The cluster of a gateway or path, and the one it leads to.
    Path,
}

impl fmt::Display for Same {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sides => "both sides are the same",
            Self::Ends => "a link joins two clusters, here both are the same",
            Self::Path => "a path leads to another cluster, here both are the same",
        })
    }
}

/// One mistake.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Wrong {
    /// Not YAML.
    #[error("this is not YAML: {0}")]
    Syntax(ErrorKind),
    /// YAML that a scenario must not use.
    #[error("{0}")]
    Refused(Refused),
    /// A file far larger than any scenario.
    #[error("the file has {bytes} bytes; a scenario has at most {bytes_max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Nothing in the file.
    #[error("the file holds no scenario")]
    Empty,
    /// A file for something else.
    #[error("this is a Kubernetes manifest ({key}: {value}), not a scenario")]
    Manifest {
        /// The key that tells.
        key: String,
        /// Its value.
        value: String,
    },
    /// A node of another form than the place wants.
    #[error("expected {expected}, found {found}")]
    Shape {
        /// What the place wants.
        expected: Cow<'static, str>,
        /// What is there.
        found: Shape,
    },
    /// A key that the place does not have.
    #[error("unknown key '{key}' in {place}")]
    UnknownKey {
        /// The key.
        key: String,
        /// Where.
        place: &'static str,
        /// What the place has.
        known: Vec<&'static str>,
    },
    /// A verb or an expectation stands where only `do:` or a time may.
    #[error("'{verb}' is a verb: verbs stand under 'do'")]
    VerbOutsideDo {
        /// The verb.
        verb: String,
    },
    /// A key is missing.
    #[error("{place} lacks '{key}'")]
    MissingKey {
        /// The key.
        key: &'static str,
        /// Where.
        place: &'static str,
    },
    /// A key stands twice in one mapping.
    #[error("'{key}' stands here a second time; first on line {first_line}")]
    KeyTwice {
        /// The key.
        key: String,
        /// Where it stands first.
        first_line: usize,
    },
    /// A value that cannot be read.
    #[error("'{text}' is no {kind}")]
    Value {
        /// What was written.
        text: String,
        /// What the place wants.
        kind: Kind,
    },
    /// A value beyond a limit.
    #[error("{what} {text}: at most {limit}")]
    TooMuch {
        /// What.
        what: &'static str,
        /// What was written.
        text: String,
        /// The limit.
        limit: String,
    },
    /// Not a range.
    #[error("'{text}' is no range: {error}")]
    Range {
        /// What was written.
        text: String,
        /// Why.
        error: CidrError,
    },
    /// Not a name.
    #[error("'{text}' is no {kind}: {error}")]
    Name {
        /// What was written.
        text: String,
        /// Of what.
        kind: &'static str,
        /// Why.
        error: LabelError,
    },
    /// A text with a character that is not shown but changes how a terminal shows others.
    #[error("the text holds U+{:04X}, which is not shown but steers the terminal", u32::from(*character))]
    Steers {
        /// The character.
        character: char,
    },
    /// A name that means something else.
    #[error("'{name}' cannot be the name of a {kind}: the word means something else in references")]
    Reserved {
        /// The name.
        name: String,
        /// Of what.
        kind: &'static str,
    },
    /// Two ranges overlap.
    #[error("the {range_kind} {range} of {cluster} overlap the {other_kind} {other} of {other_cluster}")]
    RangesOverlap {
        /// `pods` or `services`.
        range_kind: &'static str,
        /// The range.
        range: Cidr,
        /// Its cluster.
        cluster: ClusterId,
        /// `pods` or `services`.
        other_kind: &'static str,
        /// The other range.
        other: Cidr,
        /// Its cluster.
        other_cluster: ClusterId,
    },
    /// A range of pods or services whose addresses mean something else already.
    #[error("the {range_kind} {range} of {cluster} overlap {special}, {why}")]
    RangeSpecial {
        /// `pods` or `services`.
        range_kind: &'static str,
        /// The range.
        range: Cidr,
        /// Its cluster.
        cluster: ClusterId,
        /// What it overlaps.
        special: Cidr,
        /// What that is for.
        why: &'static str,
    },
    /// A name used twice.
    #[error("{what} stands here a second time")]
    Twice {
        /// What.
        what: String,
    },
    /// A cluster without a gateway.
    #[error("cluster {cluster} has no node that may be a gateway")]
    NoGateway {
        /// The cluster.
        cluster: String,
        /// Its first node.
        node: String,
    },
    /// More gateways than slots.
    #[error("cluster {cluster} has {count} nodes that may be gateways, at most {limit} are possible")]
    TooManyGateways {
        /// The cluster.
        cluster: String,
        /// How many.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// An unknown verb or expectation.
    #[error("unknown {kind} '{word}'")]
    UnknownWord {
        /// `verb` or `expectation`.
        kind: &'static str,
        /// What was written.
        word: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// Two verbs or expectations in one entry.
    #[error("'{first}' and '{second}' in one entry: an entry has one {kind}")]
    Two {
        /// `verb`, `expectation` or `time`.
        kind: &'static str,
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// No verb or expectation in an entry.
    #[error("an entry without {article} {kind}")]
    Lacks {
        /// `a` or `an`.
        article: &'static str,
        /// `verb`, `expectation` or `time`.
        kind: &'static str,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// A time that does not suit an expectation.
    #[error("'{expectation}' cannot be judged '{when}'")]
    WrongWhen {
        /// The expectation.
        expectation: &'static str,
        /// The time.
        when: &'static str,
        /// What suits.
        suits: Vec<&'static str>,
    },
    /// About NAT boxes.
    #[error("{0}")]
    Nat(NatWrong),
    /// About membership.
    #[error("{0}")]
    Membership(MembershipWrong),
    /// No such cluster.
    #[error("there is no cluster '{name}'")]
    UnknownCluster {
        /// What was written.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No such node.
    #[error("cluster {cluster} has no node '{name}'")]
    UnknownNode {
        /// The cluster.
        cluster: ClusterId,
        /// What was written.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A node without its cluster.
    #[error("'{text}' does not say in which cluster")]
    NoCluster {
        /// What was written.
        text: String,
        /// How it can be written.
        meant: Option<String>,
    },
    /// No such service.
    #[error("there is no service '{name}'")]
    UnknownService {
        /// What was written.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A port that a service does not have.
    #[error("service {service} has no port {port}/{protocol}")]
    UnknownPort {
        /// The service.
        service: ServiceKey,
        /// The port.
        port: u16,
        /// Its protocol.
        protocol: Protocol,
        /// What it has.
        known: Vec<String>,
    },
    /// A window that ends before it begins.
    #[error("the window {0:?}..{1:?} ends before it begins")]
    Backwards(Duration, Duration),
    /// The timeline goes back.
    #[error("{at:?} comes after {before:?}: the timeline must go forward")]
    OutOfOrder {
        /// The time.
        at: Duration,
        /// The one before it.
        before: Duration,
    },
    /// `last-…` with nothing before it.
    #[error("no node of {cluster} was {done} before")]
    NothingBefore {
        /// The cluster.
        cluster: ClusterId,
        /// `powered off` or `crashed`.
        done: &'static str,
    },
    /// `restored` with no `backed-up` before it.
    #[error("the API of {api} was not backed up before")]
    NoBackup {
        /// Whose API.
        api: String,
    },
    /// A daemon where it never runs.
    #[error("{node} runs no {daemon}")]
    NoDaemonThere {
        /// The node.
        node: String,
        /// The daemon.
        daemon: &'static str,
        /// What runs there instead.
        instead: &'static str,
    },
    /// Two things that must differ are the same.
    #[error("{0}")]
    Same(Same),
    /// An API fault without the time it needs.
    #[error("an API that is {is} needs 'by'")]
    ApiLacksTime {
        /// The fault.
        is: &'static str,
    },
    /// An API fault with a time that it has no use for.
    #[error("an API that is {is} takes no 'by'")]
    ApiTakesNoTime {
        /// The fault.
        is: &'static str,
    },
    /// A code that has no answer, with an answer.
    #[error("an answer with code {rcode} holds no address")]
    AnswerWithCode {
        /// The code.
        rcode: String,
    },
}

impl Wrong {
    /// What the place wants, where there is a list to show.
    #[must_use]
    pub fn expected(&self) -> Option<String> {
        match self {
            Self::UnknownKey { known, .. } | Self::UnknownWord { known, .. } | Self::Lacks { known, .. } => {
                Some(any_of(known))
            }
            Self::WrongWhen { suits, .. } => Some(any_of(suits)),
            Self::UnknownCluster { known, .. }
            | Self::UnknownNode { known, .. }
            | Self::UnknownService { known, .. }
            | Self::UnknownPort { known, .. } => Some(any_of(known)),
            Self::Value { kind, .. } => Some(kind.form().into_owned()),
            Self::Range { .. } => Some(Kind::Range.form().into_owned()),
            Self::NoCluster { .. } => Some("cluster/node".to_owned()),
            Self::Syntax(_)
            | Self::Refused(_)
            | Self::TooLong { .. }
            | Self::Empty
            | Self::Manifest { .. }
            | Self::Shape { .. }
            | Self::VerbOutsideDo { .. }
            | Self::MissingKey { .. }
            | Self::KeyTwice { .. }
            | Self::TooMuch { .. }
            | Self::Name { .. }
            | Self::Steers { .. }
            | Self::Reserved { .. }
            | Self::RangesOverlap { .. }
            | Self::RangeSpecial { .. }
            | Self::Twice { .. }
            | Self::NoGateway { .. }
            | Self::TooManyGateways { .. }
            | Self::Two { .. }
            | Self::Backwards(..)
            | Self::OutOfOrder { .. }
            | Self::NothingBefore { .. }
            | Self::NoBackup { .. }
            | Self::NoDaemonThere { .. }
            | Self::Same(_)
            | Self::Membership(_)
            | Self::Nat(_)
            | Self::ApiLacksTime { .. }
            | Self::ApiTakesNoTime { .. }
            | Self::AnswerWithCode { .. } => None,
        }
    }

    /// What to do, where we can guess.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Syntax(kind) => syntax_hint(kind).map(str::to_owned),
            Self::Refused(Refused::Alias) => {
                Some("the star of a gateway node stands behind its name: gw-a*".to_owned())
            }
            Self::Refused(Refused::Tag) => Some("put the value in quotes if it begins with '!'".to_owned()),
            Self::Refused(Refused::Anchor) => Some("put the value in quotes if it begins with '&'".to_owned()),
            Self::Refused(Refused::SecondDocument) => Some("put each scenario in a file of its own".to_owned()),
            Self::Manifest { .. } => Some(
                "a scenario says in a few lines which clusters there are and what happens to them: scenarios/*.yaml are \
                 examples to copy, scenarios/README.md tells the format"
                    .to_owned(),
            ),
            Self::Empty => Some("scenarios/README.md shows a whole one".to_owned()),
            Self::Shape { found, .. } => (*found == Shape::Nothing).then(|| "is the line below indented?".to_owned()),
            Self::UnknownKey { key, known, .. } => nearest(key, known.iter().copied()).map(did_you_mean),
            Self::UnknownWord { word, known, .. } => nearest(word, known.iter().copied()).map(did_you_mean),
            Self::VerbOutsideDo { verb } => Some(format!("write {{ at: 20s, do: {{ {verb}: … }} }}")),
            Self::MissingKey { key, place } => example_of(key, place).map(|example| format!("for example {example}")),
            Self::Value { text, kind } => kind.hint(text),
            Self::Name { kind, .. } if *kind == "scenario name" => Some("the long story goes into 'about'".to_owned()),
            Self::Steers { .. } => Some("leave it out".to_owned()),
            Self::RangesOverlap { .. } => Some("give each cluster ranges of its own".to_owned()),
            Self::RangeSpecial { range_kind, .. } => {
                let example = if *range_kind == "pods" { "10.1.0.0/16" } else { "10.101.0.0/16" };
                Some(format!("take a part of 10.0.0.0/8, such as {example}"))
            }
            Self::NoGateway { node, .. } => Some(format!("mark one with a star: {node}*")),
            Self::Two { kind, .. } if *kind == "time" => Some("keep the one that is meant".to_owned()),
            Self::Two { .. } => Some("give each an entry of its own; two entries may have the same time".to_owned()),
            Self::Lacks { kind, .. } if *kind == "time" => Some("for example by: 10s, or during: 20s..60s".to_owned()),
            Self::UnknownCluster { name, known }
            | Self::UnknownNode { name, known, .. }
            | Self::UnknownService { name, known } => nearest(name, known.iter().map(String::as_str)).map(did_you_mean),
            Self::NoCluster { meant, .. } => meant.as_deref().map(did_you_mean),
            Self::Backwards(from, to) if from != to => Some(format!("did you mean {to:?}..{from:?}?")),
            Self::OutOfOrder { .. } => Some("move the entry up, or mend its time".to_owned()),
            Self::NoDaemonThere { instead, .. } => Some(format!("its daemon is the {instead}")),
            Self::NothingBefore { done, .. } if *done == "crashed" => Some("name the node".to_owned()),
            Self::NothingBefore { .. } => Some("name the node, or power it off first".to_owned()),
            Self::NoBackup { api } => {
                Some(format!("at an earlier time, say {{ api: {{ of: {api}, is: backed-up }} }}"))
            }
            Self::ApiLacksTime { is } => Some(format!("for example {{ of: west, is: {is}, by: 6s }}")),
            Self::ApiTakesNoTime { .. } => Some("only slow and slow-deletes have a time".to_owned()),
            Self::Membership(wrong) => Some(wrong.hint()),
            Self::AnswerWithCode { .. } => Some("leave any_of out, or say rcode: NOERROR".to_owned()),
            Self::TooLong { .. }
            | Self::Lacks { .. }
            | Self::KeyTwice { .. }
            | Self::TooMuch { .. }
            | Self::Range { .. }
            | Self::Name { .. }
            | Self::Reserved { .. }
            | Self::Twice { .. }
            | Self::TooManyGateways { .. }
            | Self::WrongWhen { .. }
            | Self::UnknownPort { .. }
            | Self::Backwards(..)
            | Self::Nat(_)
            | Self::Same(_) => None,
        }
    }
}

fn did_you_mean(word: &str) -> String {
    format!("did you mean {word}?")
}

/// `a`, `a or b`, `a, b or c`; long lists are cut.
pub(super) fn any_of<S: AsRef<str>>(words: &[S]) -> String {
    const SHOWN_MAX: usize = 16;
    if words.is_empty() {
        return "nothing: there is none".to_owned();
    }
    let mut text = String::new();
    for (i, word) in words.iter().take(SHOWN_MAX).enumerate() {
        let last = i + 1 == words.len();
        text.push_str(if i == 0 {
            ""
        } else if last {
            " or "
        } else {
            ", "
        });
        text.push_str(word.as_ref());
    }
    if words.len() > SHOWN_MAX {
        text.push_str(&format!(" and {} more", words.len() - SHOWN_MAX));
    }
    text
}

fn example_of(key: &str, place: &str) -> Option<&'static str> {
    Some(match key {
        "scenario" => "scenario: gateway power loss",
        "about" => "about: The active gateway of west loses power.",
        "clusters" => "clusters: { west: { pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, worker] } }",
        "broker" => "broker: east, or broker: own",
        "expect" => "expect: [{ by: 60s, settled: true }], or expect: [] to check the invariants only",
        "pods" => "pods: 10.1.0.0/16",
        "services" => "services: 10.101.0.0/16",
        "nodes" => "nodes: [gw-a*, gw-b*, worker]",
        "ports" => "ports: [80/tcp]",
        "at" => "at: 20s",
        "do" => "do: { power_off: west/active-gateway }",
        "daemon" => "daemon: gateway, or daemon: all",
        "from" if matches!(place, "cut" | "heal") => "from: west/gw-a",
        "to" if matches!(place, "cut" | "heal") => "to: east",
        "from" => "from: west/worker",
        "to" => "to: \"web.shop.svc.clusterset.local:80\"",
        "at_most" => "at_most: 1s",
        "name" => "name: web.shop.svc.clusterset.local",
        "between" => "between: [west, east]",
        _ => return None,
    })
}

fn syntax_hint(kind: &ErrorKind) -> Option<&'static str> {
    if let ErrorKind::UnclosedFlowCollection { .. }
    | ErrorKind::UnexpectedEofFlowMapping
    | ErrorKind::UnexpectedEofFlowSequence
    | ErrorKind::ExpectedFlowMappingSeparator
    | ErrorKind::ExpectedFlowSequenceSeparator
    | ErrorKind::MismatchedFlowCollectionEnd { .. } = kind
    {
        return Some("is a ',' or a closing '}' or ']' missing?");
    }
    if let ErrorKind::TabInIndentation | ErrorKind::TabInBlockIndentation | ErrorKind::TabNotAllowed = kind {
        return Some("indent with spaces");
    }
    if let ErrorKind::UnclosedQuotedScalar = kind {
        return Some("is a closing quote missing?");
    }
    if let ErrorKind::MappingValueNotAllowed = kind {
        return Some("a value that holds ': ' needs quotes; or is the line indented too far?");
    }
    if let ErrorKind::UnexpectedCharacter { .. } = kind {
        return Some("a value that begins with such a character needs quotes");
    }
    None
}
