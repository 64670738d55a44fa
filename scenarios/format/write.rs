//! The inverse of reading: a scenario as the text of a file.
//!
//! The law is `parse(write(s)) == s`, for each scenario that a file can say. What a key means when it is left out is left
//! out, so that a file that was written reads as one that a person wrote. A word goes without quotes only where it is
//! certain that YAML takes it for itself.

use super::timeline::VERBS;
use super::words::{ABILITIES, BEHAVIOURS};
use super::{SCENARIO, implied, parse};
use crate::wording;
use crate::{
    Ability, Act, ApiFault, ApiRef, Broker, Cluster, Daemons, Expectation, Flow, LinkSpec, Links, NodeRef, Rate,
    Rebuilt, Scenario, Side, Skew, Target, Verb, When, Workload,
};
use core::fmt::Write as _;
use core::time::Duration;
use tombolo_core::model::CableDriver;
use tombolo_core::nat::boxes::Behaviour;

/// Lines of the story are not longer.
const WIDTH: usize = 118;

/// The text of a scenario file.
#[must_use]
pub fn write(scenario: &Scenario) -> String {
    SCENARIO.keys.iter().filter_map(|key| Some(section(key.name, scenario)?.trim_end().to_owned() + "\n")).collect()
}

/// The text, if a file can say this scenario at all: if reading it gives the same.
#[must_use]
pub fn written(scenario: &Scenario) -> Option<String> {
    let text = write(scenario);
    (parse("written.yaml", &text).ok()? == *scenario).then_some(text)
}

/// The words by which a file can call what happens: the verbs, and the states of an API.
pub fn act_words() -> impl Iterator<Item = &'static str> {
    VERBS.known().into_iter().chain(BEHAVIOURS.iter().map(|(name, _)| *name))
}

/// Whether a file calls this act by this word, one of [`act_words`].
pub(crate) fn is_called(verb: &Verb, word: &str) -> bool {
    let written = self::verb(verb);
    let state = matches!(verb, Verb::Api(..)).then(|| written.split_once("is: ")).flatten();
    let state = state.map(|(_, state)| state.split([',', ' ']).next().unwrap_or_default());
    written.split(':').next() == Some(word) || state == Some(word)
}

/// One top-level key with its value; `None` where leaving it out says the same.
fn section(key: &str, scenario: &Scenario) -> Option<String> {
    Some(match key {
        "scenario" => format!("scenario: {}", word(&scenario.name)),
        "about" => about(&scenario.about),
        "origin" => format!("origin: {}", flow(scenario.origin.iter().map(|text| word(text)))?),
        "needs" => {
            let implied = implied(&scenario.links, &scenario.timeline, &scenario.expect);
            let needs = scenario.needs.iter().filter(|ability| !implied.contains(ability));
            format!("needs: {}", flow(needs.map(|ability| self::ability(*ability)))?)
        }
        "clusters" => {
            let line = |(id, cluster): (_, &Cluster)| format!("  {}: {}\n", word(id), self::cluster(cluster));
            let lines = scenario.clusters.iter().map(|(id, cluster)| line((id.as_str(), cluster)));
            format!("\nclusters:\n{}", lines.collect::<String>())
        }
        "broker" => match &scenario.broker {
            Broker::Member(cluster) => format!("broker: {}", word(cluster.as_str())),
            Broker::Own => "broker: own".into(),
        },
        "cable" => match scenario.cable {
            CableDriver::Wireguard => return None,
            CableDriver::Vxlan => "cable: vxlan".into(),
            // No file can say that yet.
            CableDriver::Ipsec => "cable: ipsec".into(),
        },
        "links" => links(&scenario.links)?,
        "workloads" => list(key, scenario.workloads.iter().map(workload))?,
        "timeline" => list(key, scenario.timeline.iter().map(act))?,
        "expect" => list(key, scenario.expect.iter().map(expectation)).unwrap_or_else(|| "\nexpect: []".into()),
        _ => return None,
    })
}

/// `key:` with one entry a line; `None` without entries.
fn list(key: &str, entries: impl Iterator<Item = String>) -> Option<String> {
    let lines = entries.map(|entry| format!("  - {{ {entry} }}\n")).collect::<String>();
    (!lines.is_empty()).then(|| format!("\n{key}:\n{lines}"))
}

/// `[one, two]`; `None` without entries.
fn flow(entries: impl Iterator<Item = String>) -> Option<String> {
    let entries = entries.collect::<Vec<_>>();
    (!entries.is_empty()).then(|| format!("[{}]", entries.join(", ")))
}

/// In one line if it fits, else folded. The reader makes one space of each break.
fn about(text: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric();
    let line = format!("about: {}", word(text));
    if line.chars().count() <= WIDTH || !text.chars().all(plain) {
        return line;
    }
    let mut folded = "about: >\n ".to_owned();
    let mut column = 1;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 1 && column + 1 + length > WIDTH {
            folded.push_str("\n ");
            column = 1;
        }
        let _ = write!(folded, " {word}");
        column += 1 + length;
    }
    folded
}

/// A word or a text, in quotes where YAML might take it for something else.
fn word(text: &str) -> String {
    let tame = |c: char| c.is_ascii_alphanumeric() || " _./#*%-".contains(c);
    let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(tame)
        && !text.contains(" #")
        && !text.ends_with(' ')
        && text != "null";
    if plain { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric() => quoted.push(c),
            c => drop(write!(quoted, "\\U{:08X}", u32::from(c))),
        }
    }
    quoted + "\""
}

fn ability(ability: Ability) -> String {
    ABILITIES.iter().filter(|(_, known)| *known == ability).map(|(word, _)| *word).collect()
}

fn cluster(Cluster { pods, services, nodes, nat, apart }: &Cluster) -> String {
    let node = |node: &crate::NodeSpec| format!("{}{}", node.name, if node.gateway { "*" } else { "" });
    let nodes = nodes.iter().map(|spec| word(&node(spec))).collect::<Vec<_>>().join(", ");
    let (pods, services) = (word(&pods.to_string()), word(&services.to_string()));
    let nat = nat.map_or_else(String::new, |nat| format!(", nat: {}", self::nat(nat)));
    let apart = if *apart { ", apart: true" } else { "" };
    format!("{{ pods: {pods}, services: {services}, nodes: [{nodes}]{nat}{apart} }}")
}

fn nat(Behaviour { mapping, filtering, keeps_ports }: Behaviour) -> String {
    let ports = if keeps_ports { ", ports: kept" } else { "" };
    format!("{{ mapping: {mapping}, filtering: {filtering}{ports} }}")
}

fn links(links: &Links) -> Option<String> {
    let default = link(&links.default, &LinkSpec::default());
    let mut text = String::new();
    if !default.is_empty() {
        let _ = writeln!(text, "  default: {{ {} }}", default.join(", "));
    }
    if !links.pairs.is_empty() {
        text.push_str("  pairs:\n");
    }
    for ((a, b), spec) in &links.pairs {
        let mut fields = vec![format!("between: [{}, {}]", word(a.as_str()), word(b.as_str()))];
        fields.extend(link(spec, &links.default));
        let _ = writeln!(text, "    - {{ {} }}", fields.join(", "));
    }
    (!text.is_empty()).then(|| format!("links:\n{text}"))
}

/// What is not as in `base`.
fn link(LinkSpec { latency, jitter, loss_millionths, mtu }: &LinkSpec, base: &LinkSpec) -> Vec<String> {
    let mut fields = Vec::new();
    if *latency != base.latency {
        fields.push(format!("latency: {}", duration(*latency)));
    }
    if *jitter != base.jitter {
        fields.push(format!("jitter: {}", duration(*jitter)));
    }
    if *loss_millionths != base.loss_millionths {
        fields.push(format!("loss: {}", share(*loss_millionths)));
    }
    if *mtu != base.mtu {
        fields.push(format!("mtu: {mtu}"));
    }
    fields
}

fn share(millionths: u32) -> String {
    let fraction = format!("{:04}", millionths % 10_000);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}%", millionths / 10_000)
}

fn workload(Workload { service, cluster, pods, ports, exported, headless }: &Workload) -> String {
    let (name, namespace) = (word(service.name.as_str()), word(service.namespace.as_str()));
    let mut text = format!("service: {name}, namespace: {namespace}, cluster: {}", word(cluster.as_str()));
    if *pods != 1 {
        let _ = write!(text, ", pods: {pods}");
    }
    let ports = ports.iter().map(|(port, protocol)| format!("{port}/{protocol}")).collect::<Vec<_>>();
    let _ = write!(text, ", ports: [{}]", ports.join(", "));
    if *exported {
        text.push_str(", exported: true");
    }
    if *headless {
        text.push_str(", headless: true");
    }
    text
}

fn act(Act { at, verb }: &Act) -> String {
    format!("at: {}, do: {{ {} }}", duration(*at), self::verb(verb))
}

fn verb(verb: &Verb) -> String {
    let process = |node: &NodeRef, which: &Daemons| {
        let which = match which {
            Daemons::One(daemon) => daemon.name(),
            Daemons::All => "all",
        };
        format!("{{ node: {}, daemon: {which} }}", wording::node(node))
    };
    match verb {
        Verb::PowerOff(node) => format!("power_off: {}", wording::node(node)),
        Verb::PowerOn(node) => format!("power_on: {}", wording::node(node)),
        Verb::Crash(node, which) => format!("crash: {}", process(node, which)),
        Verb::Start(node, which) => format!("start: {}", process(node, which)),
        Verb::Cut { from, to, one_way } => {
            let one_way = if *one_way { ", one_way: true" } else { "" };
            format!("cut: {{ from: {}, to: {}{one_way} }}", side(from), side(to))
        }
        Verb::Heal { from, to } => format!("heal: {{ from: {}, to: {} }}", side(from), side(to)),
        Verb::Api(api, fault) => format!("api: {{ of: {}, {} }}", self::api(api), api_fault(fault)),
        Verb::Export(cluster, service) => format!("export: {cluster}/{service}"),
        Verb::Unexport(cluster, service) => format!("unexport: {cluster}/{service}"),
        Verb::ClockSkew(node, skew) => {
            let (sign, by) = match skew {
                Skew::Ahead(by) => ("", by),
                Skew::Behind(by) => ("-", by),
            };
            format!("clock_skew: {{ node: {}, by: {sign}{} }}", wording::node(node), duration(*by))
        }
        Verb::ClockRate(node, Rate(millionths)) => {
            let sign = if *millionths < 0 { "-" } else { "" };
            let by = share(millionths.unsigned_abs());
            format!("clock_rate: {{ node: {}, by: {sign}{by} }}", wording::node(node))
        }
        Verb::NatRemap(cluster) => format!("nat_remap: {}", word(cluster.as_str())),
        Verb::ChangeAddress(cluster) => format!("change_address: {}", word(cluster.as_str())),
        Verb::Join(cluster) => format!("join: {}", word(cluster.as_str())),
        Verb::Leave(cluster) => format!("leave: {}", word(cluster.as_str())),
        Verb::Rebuild(Rebuilt { cluster, pods, services }) => {
            format!("rebuild: {{ cluster: {}, pods: {pods}, services: {services} }}", word(cluster.as_str()))
        }
        Verb::Unready(cluster, service) => format!("unready: {cluster}/{service}"),
        Verb::Ready(cluster, service) => format!("ready: {cluster}/{service}"),
        Verb::Reslice(cluster, service) => format!("reslice: {cluster}/{service}"),
    }
}

fn side(side: &Side) -> String {
    match side {
        Side::Node(node) => wording::node(node),
        Side::Cluster(cluster) => word(cluster.as_str()),
        Side::Api(ApiRef::Cluster(cluster)) => format!("{cluster}/api"),
        Side::Api(ApiRef::Broker) => "broker".into(),
    }
}

fn api(api: &ApiRef) -> String {
    match api {
        ApiRef::Cluster(cluster) => word(cluster.as_str()),
        ApiRef::Broker => "broker".into(),
    }
}

fn api_fault(fault: &ApiFault) -> String {
    match fault {
        ApiFault::Healthy => "is: healthy".into(),
        ApiFault::Slow(by) => format!("is: slow, by: {}", duration(*by)),
        ApiFault::SlowDeletes(by) => format!("is: slow-deletes, by: {}", duration(*by)),
        ApiFault::Erroring => "is: erroring".into(),
        ApiFault::Down => "is: down".into(),
        ApiFault::RestartedEmpty => "is: restarted-empty".into(),
        ApiFault::BackedUp => "is: backed-up".into(),
        ApiFault::Restored => "is: restored".into(),
        ApiFault::HistoryExpired => "is: history-expired".into(),
    }
}

fn expectation(expectation: &Expectation) -> String {
    let ends =
        |from: &NodeRef, to: &Target| format!("from: {}, to: {}", wording::node(from), quoted(&wording::target(to)));
    let what = match expectation {
        Expectation::Connect { from, to, .. } => format!("connect: {{ {} }}", ends(from, to)),
        Expectation::Refuse { from, to, .. } => format!("refuse: {{ {} }}", ends(from, to)),
        Expectation::Dns { from, name, rcode, any_of, .. } => {
            let mut text = format!("dns: {{ from: {}, name: {}", wording::node(from), word(name));
            if rcode != "NOERROR" {
                let _ = write!(text, ", rcode: {rcode}");
            }
            if let Some(any_of) = flow(any_of.iter().map(|(cluster, key)| format!("{cluster}/{key}"))) {
                let _ = write!(text, ", any_of: {any_of}");
            }
            text + " }"
        }
        Expectation::Outage { from, to, at_most, flow, .. } => {
            let held = if *flow == Flow::Held { ", flow: held" } else { "" };
            format!("outage: {{ {}, at_most: {}{held} }}", ends(from, to), duration(*at_most))
        }
        Expectation::Unchanged { what, .. } => format!("unchanged: {}", wording::watched(what)),
        Expectation::Refused { cluster, .. } => format!("refused: {}", word(cluster.as_str())),
        Expectation::Settled { .. } => "settled: true".into(),
    };
    format!("{}, {what}", when(crate::probing::when(expectation)))
}

fn when(when: When) -> String {
    match when {
        When::By(at) => format!("by: {}", duration(at)),
        When::During(from, to) => format!("during: {}..{}", duration(from), duration(to)),
        When::Always => "always: true".into(),
    }
}

/// As [`wording::brief`], but exact.
fn duration(time: Duration) -> String {
    let below = time.subsec_nanos() % 1_000_000;
    let mut text = if below == 0 || time.as_millis() > 0 {
        wording::brief(time - Duration::from_nanos(below.into()))
    } else {
        String::new()
    };
    // "1.5s" is no unit to go on from with "ms", but with smaller ones.
    for (unit, count) in [("us", below / 1_000), ("ns", below % 1_000)] {
        if count > 0 {
            let _ = write!(text, "{count}{unit}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_exactly() {
        let nanos = |nanos| duration(Duration::from_nanos(nanos));
        assert_eq!(
            [0, 1, 5_000, 50_000_000, 1_500_000_000, 61_000_000_000, 2_003_000_400_001_000].map(nanos),
            ["0s", "1ns", "5us", "50ms", "1.5s", "61s", "2003000.4s1us"]
        );
    }

    #[test]
    fn an_act_is_called_by_its_verb_or_the_state_of_its_api() {
        let slow = Verb::Api(ApiRef::Broker, ApiFault::SlowDeletes(Duration::from_secs(1)));
        let called = act_words().filter(|word| is_called(&slow, word)).collect::<Vec<_>>();
        assert_eq!(called, ["api", "slow-deletes"]);
        let off = Verb::PowerOff(crate::rehearsal::at("west/gw-a"));
        assert_eq!(act_words().filter(|word| is_called(&off, word)).collect::<Vec<_>>(), ["power_off"]);
    }

    #[test]
    fn a_word_has_quotes_where_yaml_would_take_it_for_something_else() {
        let words = ["gw-a*", "10.1.0.0/16", "submariner#2747", "null", "fd00::/64", "a #b", "-a", "", "say \"so\""];
        let written = words.map(word);
        assert_eq!(
            written,
            [
                "gw-a*",
                "10.1.0.0/16",
                "submariner#2747",
                "\"null\"",
                "\"fd00::/64\"",
                "\"a #b\"",
                "\"-a\"",
                "\"\"",
                "\"say \\\"so\\\"\""
            ]
        );
    }
}
