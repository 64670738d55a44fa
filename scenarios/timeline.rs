//! The timeline: a run on one screen. Acts, power, processes, leadership, paths, announcements, DNS tables and flows, one
//! line for each change, in the order in which they happened or could be observed, so that a cause stands before its
//! effect; what merely goes on is left out, and what many tell is said once.

use crate::continuity;
use crate::whereabouts::Whereabouts;
use crate::wording::seconds;
use crate::{Change, Fact, Place, Scenario, What};
use core::fmt::Write as _;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use tombolo_core::base::{ClusterId, Slot};
use tombolo_core::model::Kind;
use tombolo_core::paths::Carried;
use tombolo_core::paths::carried::LONGEST;
use tombolo_core::roles::Event;

/// What the columns and words of a timeline mean.
pub const LEGEND: &str = "\
time     seconds since the start: when it happened or could be observed
act      a line of the scenario's timeline      power    a node goes off or on         process  daemons end or start
leader   who announces for a cluster            path     the pair of gateways in use   api      an object came or went
dns      what a DNS server can answer
flow     works: its first answer   cut: no answer for 100ms   back: the next answer, and how long there was none before it
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
    let flows = continuity::of_flows(scenario, facts);
    entries.extend(flows.into_iter().map(|(at, text)| Entry { at, kind: "flow", text }));
    // What is simultaneous stays in this order: an act comes before what follows from it, a flow after all.
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
            What::Told(event @ (Event::Refused { .. } | Event::Contested { .. } | Event::Left)) => {
                ("join", format!("{place} {event}"))
            }
            What::Told(event @ Event::Carries { carried, .. }) if !carries_all(*carried) => {
                ("cable", format!("{place}: {event}"))
            }
            What::Told(event @ Event::Public(Some(_))) => ("nat", format!("{place} {event}")),
            What::Told(event @ Event::Dials { choice, .. }) if choice.nat => ("nat", format!("{place} {event}")),
            What::Table { .. }
            | What::Process(_)
            | What::Told(
                Event::PathChosen { .. }
                | Event::PathDead { .. }
                | Event::Carries { .. }
                | Event::Dials { .. }
                | Event::Unanswered { .. }
                | Event::Public(_)
                | Event::Ignored { .. },
            )
            | What::Wrote { .. }
            | What::Applied { .. }
            | What::Probed { .. } => continue,
        };
        entries.push(Entry { at: *at, kind, text });
    }
}

fn carries_all(carried: Carried) -> bool {
    carried.longest().is_none_or(|longest| longest == LONGEST)
}

/// What tells the story of an announcement or an export.
fn is_worth_a_line(kind: Kind) -> bool {
    match kind {
        Kind::ServiceExport | Kind::Endpoint | Kind::ExportRecord | Kind::Import => true,
        Kind::Namespace
        | Kind::Node
        | Kind::Service
        | Kind::EndpointSlice
        | Kind::Lease
        | Kind::Gateway
        | Kind::Cluster
        | Kind::Candidates
        | Kind::Claims
        | Kind::ExportSummary
        | Kind::SourceSlice => false,
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
    /// How often whoever tells it had told it dead before.
    deaths: usize,
    /// None: this version is dead.
    pair: Option<(Slot, Slot)>,
}

/// The choice that a fact tells; `deaths` are counted for each teller.
fn choice<'a>(fact: &'a Fact, deaths: &mut BTreeMap<(&'a Place, &'a ClusterId, u32), usize>) -> Option<Choice> {
    let (What::Told(event), Place::Daemon(own, ..)) = (&fact.what, &fact.place) else { return None };
    let (other, version, pair) = match event {
        Event::PathChosen { cluster, version, pair } => (cluster, *version, Some(*pair)),
        Event::PathDead { cluster, version } => (cluster, *version, None),
        Event::Elected(_)
        | Event::StoodDown { .. }
        | Event::Carries { .. }
        | Event::Dials { .. }
        | Event::Unanswered { .. }
        | Event::Public(_)
        | Event::Refused { .. }
        | Event::Left
        | Event::Contested { .. }
        | Event::Ignored { .. } => return None,
    };
    let count = deaths.entry((&fact.place, other, version)).or_default();
    let deaths = *count;
    *count += usize::from(pair.is_none());
    Some(if own < other {
        Choice { clusters: (own.clone(), other.clone()), version, deaths, pair }
    } else {
        let pair = pair.map(|(local, remote)| (remote, local));
        Choice { clusters: (other.clone(), own.clone()), version, deaths, pair }
    })
}

/// Every node of both clusters tells a choice: one line, with the time at which the last one knew.
fn paths(facts: &[Fact], entries: &mut Vec<Entry>) {
    let mut whereabouts = Whereabouts::default();
    facts.iter().for_each(|fact| whereabouts.watch(fact));
    let mut tellings: BTreeMap<Choice, Vec<&Fact>> = BTreeMap::new();
    let mut deaths = BTreeMap::new();
    for fact in facts {
        if let Some(choice) = choice(fact, &mut deaths) {
            tellings.entry(choice).or_default().push(fact);
        }
    }
    for (Choice { clusters: (one, other), version, pair, .. }, told) in tellings {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{
        Rehearsal, act, at, candidates, connects, elected, endpoint, fact, failed, fetched, millis, path, path_dead,
        resolved, resolves, scenario, secs, web_import, wrote,
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
        facts.push(fact(millis(20_405), "east/gw-a gateway", path_dead("west", 1)));
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

    #[test]
    fn the_legend_has_the_number_in_force() {
        assert!(LEGEND.contains(&format!("no answer for {} ", crate::wording::brief(continuity::MISSING))));
    }

    #[test]
    fn a_path_that_died_and_came_back_the_same_is_told() {
        let by = "west/gw-a gateway";
        let facts = [
            fact(secs(1), by, path("east", 1, 1, 1)),
            fact(secs(20), by, path_dead("east", 1)),
            fact(secs(25), by, path("east", 1, 1, 1)),
        ];
        let text = timeline(&scenario(vec![], vec![]), &facts);
        let lines = text.lines().filter(|line| line.contains("s  path  ")).map(str::trim).collect::<Vec<_>>();
        assert_eq!(
            lines,
            [
                "1.000s  path     east/slot 1 - west/slot 1, version 1; told by 1, the last at 1.000s",
                "20.000s  path     east - west is dead, routes stay, version 1; told by 1, the last at 20.000s",
                "25.000s  path     east/slot 1 - west/slot 1, version 1; told by 1, the last at 25.000s",
            ]
        );
    }
}
