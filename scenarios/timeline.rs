//! The timeline: a run on one screen. Acts, power, processes, leadership, paths, announcements, DNS tables and flows, one
//! line for each change; what merely goes on is left out, and what many tell is said once.

use crate::probing::{stream_of_probe, streams};
use crate::whereabouts::Whereabouts;
use crate::wording::{node, probe, seconds};
use crate::{Change, Fact, Outcome, Place, Scenario, What, trace};
use core::fmt::Write as _;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use tombolo_core::base::{ClusterId, Slot};
use tombolo_core::model::Kind;
use tombolo_core::roles::Event;

/// What the columns and words of a timeline mean.
pub const LEGEND: &str = "\
time     seconds since the start; of a flow: when the first probe of a run began
act      a line of the scenario's timeline      power    a node goes off or on         process  daemons end or start
leader   who announces for a cluster            path     the pair of gateways in use   api      an object came or went
dns      what a DNS server can answer           flow     probes with one outcome, as one line
";

/// Tellings of one thing within this time are one line.
const ONE_STORY: Duration = Duration::from_secs(2);

/// The timeline of a run as text, with its legend.
#[must_use]
pub fn timeline(scenario: &Scenario, facts: &[Fact]) -> String {
    let mut entries = Vec::new();
    changes(facts, &mut entries);
    processes(facts, &mut entries);
    paths(facts, &mut entries);
    flows(scenario, facts, &mut entries);
    entries.sort_by_key(|entry: &Entry| entry.at);
    let mut text = String::from(LEGEND);
    text.push('\n');
    for Entry { at, kind, text: line } in entries {
        let _ = writeln!(text, "{:>9}  {kind:<8} {line}", seconds(at));
    }
    text
}

/// One line.
struct Entry {
    at: Duration,
    kind: &'static str,
    text: String,
}

/// What is one line for each fact.
fn changes(facts: &[Fact], entries: &mut Vec<Entry>) {
    let mut tables = BTreeMap::new();
    for Fact { at, place, what } in facts {
        let (kind, text) = match what {
            What::Act(done) => ("act", done.clone()),
            What::Power(on) => ("power", format!("{place} is {}", if *on { "on" } else { "off" })),
            What::Told(Event::Elected(epoch)) => ("leader", format!("{place} announces, in epoch {epoch}")),
            What::Told(Event::StoodDown { epoch, because }) => {
                ("leader", format!("{place} stands down from epoch {epoch}: {because}"))
            }
            What::Wrote { change: change @ (Change::Created | Change::Deleted), key, .. }
                if is_worth_a_line(key.kind) =>
            {
                ("api", format!("{} {key} at the {place}", if *change == Change::Created { '+' } else { '-' }))
            }
            What::Table { names, synced } if tables.insert(place, (names, synced)) != Some((names, synced)) => {
                let complete = if *synced { "" } else { ", not complete yet" };
                ("dns", format!("{place} has {names} name{}{complete}", if *names == 1 { "" } else { "s" }))
            }
            What::Table { .. }
            | What::Process(_)
            | What::Told(Event::PathChosen { .. } | Event::PathDead { .. } | Event::Ignored { .. })
            | What::Wrote { .. }
            | What::Applied { .. }
            | What::Probed { .. } => continue,
        };
        entries.push(Entry { at: *at, kind, text });
    }
}

/// What tells the story of an announcement or an export.
fn is_worth_a_line(kind: Kind) -> bool {
    match kind {
        Kind::ServiceExport | Kind::Endpoint | Kind::ExportRecord | Kind::Import => true,
        Kind::Node
        | Kind::Service
        | Kind::EndpointSlice
        | Kind::Lease
        | Kind::Gateway
        | Kind::Cluster
        | Kind::Candidates => false,
    }
}

/// Daemons that start within one story are one line; what ends with its node's power needs none.
fn processes(facts: &[Fact], entries: &mut Vec<Entry>) {
    let lost_power = |fact: &Fact| match &fact.place {
        Place::Daemon(cluster, on, _) => facts.iter().any(|other| {
            other.at == fact.at
                && other.what == What::Power(false)
                && matches!(&other.place, Place::Node(c, n) if c == cluster && n == on)
        }),
        Place::World | Place::Api(_) | Place::Node(..) => false,
    };
    let mut starts: Vec<&Fact> = Vec::new();
    for fact in facts {
        let What::Process(runs) = fact.what else { continue };
        if runs {
            starts.push(fact);
        } else if !lost_power(fact) {
            entries.push(Entry { at: fact.at, kind: "process", text: format!("{} ends", fact.place) });
        }
    }
    while let Some(first) = starts.first().copied() {
        let count = starts.iter().take_while(|fact| fact.at <= first.at + ONE_STORY).count();
        let story = starts.drain(..count).collect::<Vec<_>>();
        let text = match story.as_slice() {
            [one] => format!("{} starts", one.place),
            all => format!("{count} daemons start until {}", seconds(all.last().unwrap_or(&first).at)),
        };
        entries.push(Entry { at: first.at, kind: "process", text });
    }
}

/// A choice of path, seen from the cluster with the smaller name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    clusters: (ClusterId, ClusterId),
    version: u32,
    /// None: this version is dead.
    pair: Option<(Slot, Slot)>,
}

fn choice(fact: &Fact) -> Option<Choice> {
    let (What::Told(event), Place::Daemon(own, ..)) = (&fact.what, &fact.place) else { return None };
    let (other, version, pair) = match event {
        Event::PathChosen { cluster, version, pair } => (cluster, *version, Some(*pair)),
        Event::PathDead { cluster, version } => (cluster, *version, None),
        Event::Elected(_) | Event::StoodDown { .. } | Event::Ignored { .. } => return None,
    };
    Some(if own < other {
        Choice { clusters: (own.clone(), other.clone()), version, pair }
    } else {
        let pair = pair.map(|(local, remote)| (remote, local));
        Choice { clusters: (other.clone(), own.clone()), version, pair }
    })
}

/// Every node of both clusters tells a choice: one line, with the time at which the last one knew.
fn paths(facts: &[Fact], entries: &mut Vec<Entry>) {
    let mut whereabouts = Whereabouts::default();
    facts.iter().for_each(|fact| whereabouts.watch(fact));
    let mut tellings: BTreeMap<Choice, Vec<&Fact>> = BTreeMap::new();
    for fact in facts {
        if let Some(choice) = choice(fact) {
            tellings.entry(choice).or_default().push(fact);
        }
    }
    for (Choice { clusters: (one, other), version, pair }, told) in tellings {
        let Some(first) = told.first() else { continue };
        let story = told.iter().take_while(|fact| fact.at <= first.at + ONE_STORY).collect::<Vec<_>>();
        let who = story.iter().map(|fact| &fact.place).collect::<BTreeSet<_>>().len();
        let end = |cluster, slot| {
            let name = whereabouts.node_of_slot(cluster, slot).map_or(format!("slot {slot}"), ToString::to_string);
            format!("{cluster}/{name}")
        };
        let is = match pair {
            Some((left, right)) => format!("{} - {}", end(&one, left), end(&other, right)),
            None => format!("{one} - {other} is dead, routes stay"),
        };
        let until = story.last().map_or(first.at, |fact| fact.at);
        let text = format!("{is}, version {version}; told by {who}, the last at {}", seconds(until));
        entries.push(Entry { at: first.at, kind: "path", text });
    }
}

/// Probes in a row with one outcome.
struct Row {
    began: Duration,
    outcome: String,
    /// Why the first of them failed.
    because: Option<String>,
    probes: usize,
}

fn flows(scenario: &Scenario, facts: &[Fact], entries: &mut Vec<Entry>) {
    let mut probes = BTreeMap::new();
    for fact in facts {
        if let What::Probed { id, began, outcome } = &fact.what {
            probes.insert(*id, (*began, outcome));
        }
    }
    for (index, stream) in streams(scenario).iter().enumerate() {
        let mut rows: Vec<Row> = Vec::new();
        for (_, (began, outcome)) in probes.iter().filter(|(id, _)| stream_of_probe(**id) == index) {
            let (words, because) = in_short(outcome);
            match rows.last_mut() {
                Some(row) if row.outcome == words => row.probes += 1,
                _ => rows.push(Row { began: *began, outcome: words, because, probes: 1 }),
            }
        }
        let held = if stream.held { ", held" } else { "" };
        let flow = format!("{} to {}{held}", node(&stream.from), probe(&stream.to));
        for (row, next) in rows.iter().zip(rows.iter().skip(1).map(Some).chain([None])) {
            let span =
                next.map_or(String::new(), |next| format!(" for {}", seconds(next.began.saturating_sub(row.began))));
            let because = row.because.as_ref().map(|because| format!(": {because}")).unwrap_or_default();
            let text = format!("{flow} {}{span}, {} probes{because}", row.outcome, row.probes);
            entries.push(Entry { at: row.began, kind: "flow", text });
        }
    }
}

fn in_short(outcome: &Outcome) -> (String, Option<String>) {
    match outcome {
        Outcome::Fetched { .. } => ("works".into(), None),
        Outcome::Failed { because } => ("fails".into(), Some(because.clone())),
        Outcome::Resolved { .. } => (format!("gives {}", trace::outcome(outcome)), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{
        Rehearsal, act, at, candidates, connects, elected, endpoint, fact, failed, fetched, millis, path, resolved,
        resolves, scenario, secs, web_import, wrote,
    };
    use crate::{Options, ProbeTarget, Verb, When, run};

    /// West loses its active gateway at 20 s and gets it back at 30 s.
    fn story() -> Vec<Fact> {
        let mut facts = vec![
            fact(millis(350), "west/gw-a gateway", What::Process(true)),
            fact(millis(410), "west/gw-b gateway", What::Process(true)),
            fact(millis(480), "west/worker route-agent", What::Process(true)),
            fact(millis(1_200), "west/gw-a gateway", elected(1_700_000_001)),
        ];
        for (cluster, nodes) in [("west", &["gw-a", "gw-b"][..]), ("east", &["gw-a"][..])] {
            let by = format!("{cluster}/gw-a gateway");
            facts.push(fact(
                millis(1_250),
                "broker api",
                wrote(&by, Change::Created, candidates(cluster, 1_700_000_001, nodes)),
            ));
        }
        facts.push(fact(
            millis(1_250),
            "broker api",
            wrote("west/gw-a gateway", Change::Created, endpoint("west", "gw-a", 1)),
        ));
        facts.push(fact(
            millis(1_900),
            "west api",
            wrote("west/worker discovery", Change::Created, web_import(&["east"])),
        ));
        facts.push(fact(millis(1_950), "west/worker dns", What::Table { names: 0, synced: false }));
        facts.push(fact(millis(1_960), "west/worker dns", What::Table { names: 1, synced: true }));
        facts.push(fact(millis(1_970), "west/worker dns", What::Table { names: 1, synced: true }));
        for (after, version, slot) in [(2_000, 1, 1), (20_410, 2, 2)] {
            facts.push(fact(millis(after), "east/gw-a gateway", path("west", version, 1, slot)));
            facts.push(fact(millis(after + 6), "west/gw-b gateway", path("east", version, slot, 1)));
            facts.push(fact(millis(after + 9), "west/worker route-agent", path("east", version, slot, 1)));
        }
        // One that has restarted tells what all know.
        facts.push(fact(millis(31_500), "west/gw-a gateway", path("east", 2, 2, 1)));
        facts.push(fact(
            millis(20_405),
            "east/gw-a gateway",
            What::Told(Event::PathDead { cluster: crate::rehearsal::cluster("west"), version: 1 }),
        ));
        facts.push(fact(millis(36_300), "west/gw-b gateway", elected(1_700_000_036)));
        facts.push(fact(millis(30_450), "west/gw-a gateway", What::Process(true)));
        facts.push(fact(millis(33_000), "west/worker dns", What::Process(false)));
        facts.sort_by_key(|fact| fact.at);
        facts
    }

    #[test]
    fn a_failover_fits_on_one_screen() {
        let timeline_of = vec![
            act(20, Verb::PowerOff(at("west/active-gateway"))),
            act(30, Verb::PowerOn(at("west/last-powered-off"))),
        ];
        let expect = vec![connects(When::By(secs(10))), resolves(When::During(secs(1), secs(40)), "NOERROR", vec![])];
        let scenario = scenario(timeline_of, expect);
        let mut stage = Rehearsal::new(story()).answering(|at, probe| {
            let gap = at < millis(2_000) || (millis(20_000)..millis(20_450)).contains(&at);
            Some(match (&probe.to, gap) {
                (ProbeTarget::Resolve(_), _) if at < millis(1_960) => (millis(1), resolved("SERVFAIL", &[])),
                (ProbeTarget::Resolve(_), _) => (millis(1), resolved("NOERROR", &["10.102.0.10"])),
                (ProbeTarget::Fetch(_), true) => (probe.timeout, failed("no connection to 10.102.0.10:80")),
                (ProbeTarget::Fetch(_), false) => (millis(22), fetched()),
            })
        });
        let report = run(&scenario, &mut stage, &Options::default());
        assert_eq!(report.failures, []);
        insta::assert_snapshot!(timeline(&scenario, &report.facts));
    }
}
