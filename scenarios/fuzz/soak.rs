//! A scenario that goes on for as long as one likes: bursts of faults by chance, and after each a quiet time in which all that
//! was broken is cured, everything works again, and nothing moves.
//!
//! ```text
//! |<- start ->| faults and cures |<-- quiet: connects, settled -->| faults and cures |<-- quiet … -->| end
//! ```
//! The clusterset is always the same, so that what grows from burst to burst shows: memory, open files, rules.

use super::broken::{Broken, effective};
use super::draw::{Dice, repair, timeline};
use crate::bounds::{CALM_AFTER, GONE_WITHIN, LEASE_TAKEN_WITHIN};
use crate::format::implied;
use crate::{
    Act, Broker, Cluster, Expectation, LinkSpec, Links, NodeRef, NodeSpec, Scenario, Target, Verb, When, Which,
    Workload,
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use tombolo_core::base::{Cidr, ClusterId, Label, NodeName, Rng};
use tombolo_core::model::{CableDriver, Protocol, ServiceKey};

/// When faults begin: by then all has come up.
const START: Duration = Duration::from_secs(20);
/// For how long it is watched that nothing moves, after each burst.
const WATCHED_FOR: Duration = Duration::from_secs(10);
/// From the last act of a burst until nothing may move any more: an emptied API may have lost a lease.
const STILL_AFTER: Duration = CALM_AFTER.saturating_add(LEASE_TAKEN_WITHIN);

/// The scenario of this seed, in which bursts begin until `length` is over.
#[must_use]
pub fn soak(seed: u64, length: Duration) -> Scenario {
    let mut dice = Dice(Rng::stream(seed, "soak"));
    let mut scenario = clusterset(seed);
    let flows = flows(&scenario);
    let mut acts: Vec<Act> = Vec::new();
    let mut base = START;
    while base < length {
        let burst = burst(&scenario, &mut dice);
        let last = burst.last().map_or(Duration::ZERO, |act| act.at) + base;
        acts.extend(burst.into_iter().map(|act| Act { at: act.at + base, ..act }));
        let still = last + STILL_AFTER;
        for (from, to) in &flows {
            let (from, to) = (from.clone(), to.clone());
            scenario.expect.push(Expectation::Connect { when: When::By(last + GONE_WITHIN), from, to });
        }
        scenario.expect.push(Expectation::Settled { when: When::During(still, still + WATCHED_FOR) });
        base = still + WATCHED_FOR;
    }
    scenario.timeline = acts;
    scenario.needs = implied(&scenario.links, &scenario.timeline, &scenario.expect);
    scenario
}

/// Faults and their cures, from the first one on, at the end of which all is as it was.
fn burst(clusterset: &Scenario, dice: &mut Dice) -> Vec<Act> {
    let mut part = clusterset.clone();
    let broken = loop {
        part.timeline = timeline(&part, dice);
        let broken = effective(&mut part);
        // Chance may draw nothing but cures of what is whole.
        if !part.timeline.is_empty() {
            break broken;
        }
    };
    repair(&mut part, &broken, dice);
    let exported = Broken::of(clusterset);
    let lost = part.workloads.iter().filter(|workload| {
        let of = (&workload.cluster, &workload.service);
        exported.exports(of.0, of.1) && !broken.exports(of.0, of.1)
    });
    let at = part.timeline.last().map_or(Duration::ZERO, |act| act.at);
    let again = lost.map(|workload| Verb::Export(workload.cluster.clone(), workload.service.clone()));
    let again: Vec<Act> = again.map(|verb| Act { at, verb }).collect();
    part.timeline.extend(again);
    let first = part.timeline.first().map_or(Duration::ZERO, |act| act.at);
    part.timeline.into_iter().map(|act| Act { at: act.at.saturating_sub(first), ..act }).collect()
}

fn clusterset(seed: u64) -> Scenario {
    let clusters = [("west", 1, 2), ("east", 2, 2), ("north", 3, 1)];
    let named = |(id, number, gateways)| Some((ClusterId::new(id).ok()?, cluster(number, gateways)?));
    let service = |name: &str, of: &str| {
        let (namespace, name) = (Label::new("shop").ok()?, Label::new(name).ok()?);
        Some(Workload {
            service: ServiceKey { namespace, name },
            cluster: ClusterId::new(of).ok()?,
            pods: 2,
            ports: vec![(80, Protocol::Tcp)],
            exported: true,
            headless: false,
        })
    };
    let workloads = [("web", "east"), ("web", "north"), ("api", "west"), ("db", "east")];
    Scenario {
        name: format!("soak {seed}"),
        about: format!(
            "Bursts of faults drawn by chance from seed {seed}, each with its cures and a quiet time after it."
        ),
        origin: Vec::new(),
        needs: BTreeSet::new(),
        clusters: clusters.into_iter().filter_map(named).collect(),
        broker: Broker::Own,
        cable: CableDriver::Wireguard,
        links: Links {
            default: LinkSpec { latency: Duration::from_millis(5), ..LinkSpec::default() },
            pairs: BTreeMap::new(),
        },
        workloads: workloads.into_iter().filter_map(|(name, of)| service(name, of)).collect(),
        timeline: Vec::new(),
        expect: Vec::new(),
    }
}

fn cluster(number: u8, gateways: usize) -> Option<Cluster> {
    let range = |second| Cidr::holding(IpAddr::V4(Ipv4Addr::new(10, second, 0, 0)), 16);
    let node = |gateway| move |name: &str| Some(NodeSpec { name: NodeName::new(name).ok()?, gateway });
    let nodes = ["gw-a", "gw-b"].into_iter().take(gateways).filter_map(node(true));
    let nodes = nodes.chain(["worker"].into_iter().filter_map(node(false))).collect();
    Some(Cluster { pods: range(number)?, services: range(100 + number)?, nodes, nat: None, apart: false })
}

/// From a worker of each cluster to a service of another.
fn flows(scenario: &Scenario) -> Vec<(NodeRef, Target)> {
    let pairs = [("west", "web"), ("west", "db"), ("east", "api"), ("north", "api"), ("north", "db")];
    let worker = NodeName::new("worker").ok();
    let known = |of: &str| scenario.clusters.keys().find(|id| id.as_str() == of).cloned();
    let flow = |(from, to): (&str, &str)| {
        let from = NodeRef { cluster: known(from)?, which: Which::Named(worker.clone()?) };
        let service = scenario.workloads.iter().map(|w| &w.service).find(|service| service.name.as_str() == to)?;
        Some((from, Target::Name(crate::wording::zone_name(service), 80, Protocol::Tcp)))
    };
    pairs.into_iter().filter_map(flow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;

    #[test]
    fn each_burst_ends_with_all_cured_and_a_quiet_time_before_the_next() {
        for seed in 0..50 {
            let length = Duration::from_secs(1_200);
            let mut scenario = soak(seed, length);
            let broken = effective(&mut scenario.clone());
            assert_eq!(broken.cures(), [], "seed {seed}");
            for workload in &scenario.workloads {
                assert!(broken.exports(&workload.cluster, &workload.service), "seed {seed}");
            }
            let gaps = scenario.timeline.windows(2).filter(|two| two[1].at - two[0].at >= STILL_AFTER).count();
            let bursts = scenario.expect.iter().filter(|e| matches!(e, Expectation::Settled { .. })).count();
            assert!(bursts >= 5 && gaps + 1 >= bursts, "seed {seed}: {bursts} bursts, {gaps} gaps");
            assert!(scenario.timeline.iter().all(|act| act.at >= START));
            // It is a file as any other.
            let text = format::write(&scenario);
            let read = crate::parse("soak.yaml", &text).unwrap();
            scenario.origin.clone_from(&read.origin);
            assert_eq!(read.timeline, scenario.timeline, "seed {seed}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_and_another_another() {
        let of = |seed| soak(seed, Duration::from_secs(300)).timeline;
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
