//! What is wrong in a drawn world and needs no repair: clocks that are off, a NAT box that changes its mind, a cluster that
//! leaves and joins again, an API that is restored from a backup, one from before a cluster changed that cannot say so, and
//! pods that move between slices.
//!
//! Each is drawn from a stream of chance of its own, after all else: so the rest of a seed's scenario stays what it was.

use super::draw::Dice;
use crate::format::is_called;
use crate::{Act, ApiFault, ApiRef, Broker, NodeRef, Rate, Rebuilt, Scenario, Side, Skew, Verb, Which, Workload};
use core::time::Duration;
use tombolo_core::base::{Cidr, ClusterId, Rng};
use tombolo_core::nat::boxes::{Behaviour, Dependence};

/// Adds to a scenario with its timeline, but nothing that is called by one of these words.
pub(super) fn disturb(scenario: &mut Scenario, seed: u64, without: &[String]) {
    let mut dice = Dice(Rng::stream(seed, "fuzz, clocks and boxes"));
    let mut verbs = Vec::new();
    if dice.one_in(4) {
        verbs.extend(nat(scenario, &mut dice));
    }
    if dice.one_in(5) {
        let by = dice.pick(&[1, 300, 3_600, 7_200].map(Duration::from_secs));
        let skew = if dice.one_in(2) { Skew::Ahead(by) } else { Skew::Behind(by) };
        verbs.push(Verb::ClockSkew(node(scenario, &mut dice), skew));
    }
    if dice.one_in(5) {
        let rate = Rate(dice.pick(&[-50_000, -1_000, 1_000, 50_000]));
        verbs.push(Verb::ClockRate(node(scenario, &mut dice), rate));
    }
    verbs.retain(|verb| !without.iter().any(|word| is_called(verb, word)));
    let last = scenario.timeline.last().map_or(Duration::ZERO, |act| act.at);
    let last = u64::try_from(last.as_millis()).unwrap_or(u64::MAX);
    for verb in verbs {
        scenario.timeline.push(Act { at: dice.millis(500, last.max(500)), verb });
    }
    come_and_go(scenario, last, seed);
    restore(scenario, last, seed);
    show_the_past(scenario, last, seed);
    reslice(scenario, last, seed);
    scenario.timeline.retain(|act| !without.iter().any(|word| is_called(&act.verb, word)));
    scenario.timeline.sort_by_key(|act| act.at);
}

/// A cluster leaves and joins again, in the middle of everything else.
fn come_and_go(scenario: &mut Scenario, last: u64, seed: u64) {
    let mut dice = Dice(Rng::stream(seed, "fuzz, members"));
    if dice.one_in(6) {
        let id = dice.pick(&scenario.clusters.keys().cloned().collect::<Vec<_>>());
        pair(scenario, [Verb::Leave(id.clone()), Verb::Join(id)], last, &mut dice);
    }
}

/// An API gets data back that was there some time before.
fn restore(scenario: &mut Scenario, last: u64, seed: u64) {
    let mut dice = Dice(Rng::stream(seed, "fuzz, backups"));
    if dice.one_in(8) {
        let mut apis = scenario.clusters.keys().cloned().map(ApiRef::Cluster).collect::<Vec<_>>();
        apis.extend((scenario.broker == Broker::Own).then_some(ApiRef::Broker));
        let api = dice.pick(&apis);
        let verbs = [ApiFault::BackedUp, ApiFault::Restored].map(|fault| Verb::Api(api.clone(), fault));
        pair(scenario, verbs, last, &mut dice);
    }
}

/// The broker gets back what it held before a member changed, while that member cannot reach it.
fn show_the_past(scenario: &mut Scenario, last: u64, seed: u64) {
    let mut dice = Dice(Rng::stream(seed, "fuzz, the past"));
    if !dice.one_in(10) {
        return;
    }
    let is_broker = |id: &&ClusterId| scenario.broker == Broker::Member((*id).clone());
    let ids = scenario.clusters.keys().filter(|id| !is_broker(id)).cloned().collect::<Vec<_>>();
    let id = dice.pick(&ids);
    let broker = match &scenario.broker {
        Broker::Member(cluster) => ApiRef::Cluster(cluster.clone()),
        Broker::Own => ApiRef::Broker,
    };
    let (from, to) = (Side::Cluster(id.clone()), Side::Api(broker.clone()));
    let mut acts = vec![(dice.millis(12_000, 15_000), Verb::Api(broker.clone(), ApiFault::BackedUp))];
    acts.extend(change(scenario, &id, &mut dice));
    acts.push((dice.millis(1_000, 30_000), Verb::Cut { from: from.clone(), to: to.clone(), one_way: false }));
    acts.push((dice.millis(500, 5_000), Verb::Api(broker, ApiFault::Restored)));
    acts.push((dice.millis(2_000, 60_000), Verb::Heal { from, to }));
    let mut at = dice.millis(0, last);
    for (after, verb) in acts {
        at += after;
        scenario.timeline.push(Act { at, verb });
    }
}

/// What becomes of a member, each act some time after the one before.
fn change(scenario: &Scenario, id: &ClusterId, dice: &mut Dice) -> Vec<(Duration, Verb)> {
    let soon = |dice: &mut Dice| dice.millis(1_000, 10_000);
    match dice.weighed(&[3, 3, 2]) {
        0 => {
            let number = scenario.clusters.keys().take_while(|other| *other != id).count();
            let range = |first: usize| Cidr::holding([10, u8::try_from(first + number).unwrap_or(0), 0, 0].into(), 16);
            let rebuilt = range(20).zip(range(120));
            let rebuilt = rebuilt.map(|(pods, services)| Rebuilt { cluster: id.clone(), pods, services });
            let rebuild = rebuilt.filter(|_| dice.one_in(2)).map(|rebuilt| (dice.millis(25_000, 30_000), rebuilt));
            let mut acts = vec![(soon(dice), Verb::Leave(id.clone()))];
            acts.extend(rebuild.map(|(after, rebuilt)| (after, Verb::Rebuild(rebuilt))));
            acts.push((soon(dice), Verb::Join(id.clone())));
            acts
        }
        1 => {
            // One that may be the active one.
            let nodes = scenario.clusters.get(id).into_iter().flat_map(|cluster| &cluster.nodes);
            let gateways = nodes.filter(|node| node.gateway).map(|node| node.name.clone()).collect::<Vec<_>>();
            let node = NodeRef { cluster: id.clone(), which: Which::Named(dice.pick(&gateways)) };
            vec![(soon(dice), Verb::PowerOff(node.clone())), (dice.millis(2_000, 40_000), Verb::PowerOn(node))]
        }
        _ => {
            let is_steady = |workload: &&Workload| {
                let turned = |act: &Act| matches!(&act.verb, Verb::Export(of, key) | Verb::Unexport(of, key) if (of, key) == (&workload.cluster, &workload.service));
                workload.cluster == *id && workload.exported && !scenario.timeline.iter().any(turned)
            };
            let exported = scenario.workloads.iter().filter(is_steady).cloned().collect::<Vec<_>>();
            if exported.is_empty() {
                return Vec::new();
            }
            let Workload { cluster, service, .. } = dice.pick(&exported);
            let again = Verb::Export(cluster.clone(), service.clone());
            vec![(soon(dice), Verb::Unexport(cluster, service)), (soon(dice), again)]
        }
    }
}

/// A service without a cluster IP, whose pods move between slices.
fn reslice(scenario: &mut Scenario, last: u64, seed: u64) {
    let mut dice = Dice(Rng::stream(seed, "fuzz, endpoints"));
    let services = scenario.workloads.iter().map(|workload| workload.service.clone()).collect::<Vec<_>>();
    if !dice.one_in(5) {
        return;
    }
    let service = dice.pick(&services);
    let homes = scenario.workloads.iter_mut().filter(|workload| workload.service == service).collect::<Vec<_>>();
    // Where several clusters have it, its name gives the pods of all of them, of which no expectation speaks.
    let headless = homes.len() == 1 && dice.one_in(2);
    let mut acts = Vec::new();
    for workload in homes {
        workload.headless = headless;
        let at = dice.millis(500, last.max(500));
        acts.push(Act { at, verb: Verb::Reslice(workload.cluster.clone(), service.clone()) });
    }
    scenario.timeline.extend(acts);
}

/// Two acts that belong together, the second some time after the first.
fn pair(scenario: &mut Scenario, [first, second]: [Verb; 2], last: u64, dice: &mut Dice) {
    let at = dice.millis(500, last.max(500));
    let after = match dice.weighed(&[1, 2, 2]) {
        0 => dice.millis(0, 2_000),
        1 => dice.millis(2_000, 15_000),
        _ => dice.millis(15_000, 40_000),
    };
    scenario.timeline.push(Act { at, verb: first });
    scenario.timeline.push(Act { at: at + after, verb: second });
}

fn node(scenario: &Scenario, dice: &mut Dice) -> NodeRef {
    let named = |(id, name): (&ClusterId, &crate::NodeSpec)| NodeRef {
        cluster: id.clone(),
        which: Which::Named(name.name.clone()),
    };
    let all = scenario.clusters.iter().flat_map(|(id, cluster)| cluster.nodes.iter().map(move |node| (id, node)));
    dice.pick(&all.map(named).collect::<Vec<_>>())
}

/// A box before one of those that may have one, and what happens to it.
fn nat(scenario: &mut Scenario, dice: &mut Dice) -> Vec<Verb> {
    let is_broker = |id: &ClusterId| scenario.broker == Broker::Member(id.clone());
    let ids = scenario.clusters.keys().filter(|id| !is_broker(id)).cloned().collect::<Vec<_>>();
    let id = dice.pick(&ids);
    let kinds = [Dependence::Nothing, Dependence::Address, Dependence::AddressAndPort];
    let (mapping, filtering, keeps_ports) = (dice.pick(&kinds), dice.pick(&kinds), dice.one_in(2));
    if let Some(cluster) = scenario.clusters.get_mut(&id) {
        cluster.nat = Some(Behaviour { mapping, filtering, keeps_ports });
    }
    let count = usize::try_from(dice.from(1, 2)).unwrap_or(1);
    let both = [Verb::NatRemap(id.clone()), Verb::ChangeAddress(id)];
    (0..count).map(|_| dice.pick(&both)).collect()
}
