//! Of a scenario that fails, the smallest that still fails alike.
//!
//! One pass after the other makes candidates that are simpler in one respect: fewer acts (halves, quarters… as delta
//! debugging does), clusters, services, expectations, nodes; plain links and verbs; shorter waits. A candidate is tidied
//! first (what refers to what is gone goes too, as does a repair of what was never broken) and must be fair and sayable in
//! a file; then it is played. What still fails is the new best, until no pass finds anything or the runs are used up.

use super::broken::effective;
use super::draw::retime;
use crate::format::{implied, written};
use crate::wording::named_by;
use crate::{
    Act, ApiFault, ApiRef, Broker, Daemon, Daemons, Expectation, LinkSpec, NodeRef, Scenario, Side, Target, Verb, Which,
};
use core::ops::Range;
use core::time::Duration;
use tombolo_core::base::{ClusterId, NodeName};
use tombolo_core::model::{CableDriver, ServiceKey};

/// What shrinking came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Shrunk {
    /// The smallest that failed.
    pub scenario: Scenario,
    /// How many candidates were played.
    pub runs: usize,
}

/// Shrinks `scenario` in at most `runs_max` runs. `fails` plays a candidate and says whether it fails alike; `None` ends
/// the work, as when the time is over.
pub fn shrink(scenario: &Scenario, runs_max: usize, fails: &mut dyn FnMut(&Scenario) -> Option<bool>) -> Shrunk {
    let mut search = Search { best: scenario.clone(), runs: 0, runs_max, fails };
    let passes: [fn(&mut Search<'_>) -> bool; 9] = [
        |search| search.fewer(|s| s.timeline.len(), |s, range| drop(s.timeline.drain(range))),
        |search| search.each(without_a_cluster),
        |search| search.fewer(|s| s.workloads.len(), |s, range| drop(s.workloads.drain(range))),
        |search| search.fewer(|s| s.expect.len(), |s, range| drop(s.expect.drain(range))),
        |search| search.each(without_a_node),
        |search| search.each(plainer_world),
        |search| search.each(plainer_verbs),
        |search| search.each(shorter_waits),
        |search| search.each(rounder_times),
    ];
    loop {
        let mut any = false;
        for pass in passes {
            any |= pass(&mut search);
        }
        if !any || search.over() {
            return Shrunk { scenario: search.best, runs: search.runs };
        }
    }
}

struct Search<'f> {
    best: Scenario,
    runs: usize,
    runs_max: usize,
    fails: &'f mut dyn FnMut(&Scenario) -> Option<bool>,
}

impl Search<'_> {
    fn over(&self) -> bool {
        self.runs >= self.runs_max
    }

    /// Drops ranges of a list: halves, then quarters, down to single entries.
    fn fewer(&mut self, len: fn(&Scenario) -> usize, cut: fn(&mut Scenario, Range<usize>)) -> bool {
        let mut any = false;
        let mut size = len(&self.best).div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < len(&self.best) {
                let mut candidate = self.best.clone();
                cut(&mut candidate, from..(from + size).min(len(&self.best)));
                if self.attempt(candidate) {
                    any = true;
                } else {
                    from += size;
                }
            }
            size /= 2;
        }
        any
    }

    /// Tries what this makes of the best, anew after each success.
    fn each(&mut self, simpler: fn(&Scenario) -> Vec<Scenario>) -> bool {
        let mut any = false;
        while simpler(&self.best).into_iter().any(|candidate| self.attempt(candidate)) {
            any = true;
        }
        any
    }

    /// Whether the candidate is another scenario, a fair one, and fails alike. Then it is the best.
    fn attempt(&mut self, mut candidate: Scenario) -> bool {
        if self.over() {
            return false;
        }
        let uncured = tidy(&mut candidate);
        if !uncured.is_empty() {
            // What cured it did more, as a reboot does for a daemon: it is cured in the end, by itself.
            let at = self.best.timeline.last().map_or(Duration::ZERO, |act| act.at);
            candidate.timeline.extend(uncured.into_iter().map(|verb| Act { at, verb }));
            tidy(&mut candidate);
            if candidate.timeline.len() >= self.best.timeline.len() {
                return false;
            }
        }
        if candidate == self.best || written(&candidate).is_none() {
            return false;
        }
        self.runs += 1;
        match (self.fails)(&candidate) {
            Some(true) => {
                self.best = candidate;
                true
            }
            Some(false) => false,
            None => {
                self.runs_max = 0;
                false
            }
        }
    }
}

/// Drops what refers to what is not there, and what changes nothing. What is left to repair in the end.
fn tidy(scenario: &mut Scenario) -> Vec<Verb> {
    let there = scenario.clone();
    scenario.links.pairs.retain(|(a, b), _| [a, b].iter().all(|id| there.clusters.contains_key(*id)));
    scenario.workloads.retain(|workload| there.clusters.contains_key(&workload.cluster));
    let workloads = scenario.workloads.clone();
    let offers = |of: &ClusterId, key: &ServiceKey| workloads.iter().any(|w| w.cluster == *of && w.service == *key);
    scenario.timeline.retain(|Act { verb, .. }| match verb {
        Verb::PowerOff(node) | Verb::PowerOn(node) | Verb::ClockSkew(node, _) | Verb::ClockRate(node, _) => {
            has_node(&there, node)
        }
        Verb::NatRemap(cluster) | Verb::ChangeAddress(cluster) => {
            there.clusters.get(cluster).is_some_and(|cluster| cluster.nat.is_some())
        }
        Verb::Join(cluster) | Verb::Leave(cluster) => there.clusters.contains_key(cluster),
        Verb::Rebuild(rebuilt) => there.clusters.contains_key(&rebuilt.cluster),
        Verb::Crash(node, which) | Verb::Start(node, which) => has_daemon(&there, node, *which),
        Verb::Cut { from, to, .. } | Verb::Heal { from, to } => has_side(&there, from) && has_side(&there, to),
        Verb::Api(api, _) => has_api(&there, api),
        Verb::Export(cluster, key)
        | Verb::Unexport(cluster, key)
        | Verb::Ready(cluster, key)
        | Verb::Unready(cluster, key)
        | Verb::Reslice(cluster, key) => offers(cluster, key),
    });
    let broken = effective(scenario);
    let named = |name: &str| named_by(name, &workloads).is_some();
    scenario.expect.retain_mut(|expectation| match expectation {
        Expectation::Connect { from, to, .. }
        | Expectation::Refuse { from, to, .. }
        | Expectation::Outage { from, to, .. } => {
            let reached = match to {
                Target::Name(name, ..) => named_by(name, &workloads)
                    .is_some_and(|(key, _)| workloads.iter().any(|w| broken.exports(&w.cluster, &key))),
                Target::Address(..) => true,
            };
            has_node(&there, from) && reached
        }
        Expectation::Dns { from, name, any_of, .. } => {
            let denied = any_of.is_empty();
            let key = named_by(name, &workloads).map(|(key, _)| key);
            *any_of = workloads
                .iter()
                .filter(|w| Some(&w.service) == key.as_ref() && broken.exports(&w.cluster, &w.service))
                .map(|w| (w.cluster.clone(), w.service.clone()))
                .collect();
            has_node(&there, from) && named(name) && any_of.is_empty() == denied
        }
        Expectation::Refused { cluster, .. } => there.clusters.contains_key(cluster),
        Expectation::Unchanged { .. } | Expectation::Settled { .. } => true,
    });
    retime(scenario);
    scenario.needs = implied(&scenario.links, &scenario.timeline, &scenario.expect);
    broken.cures().to_vec()
}

fn has_node(scenario: &Scenario, node: &NodeRef) -> bool {
    let Some(cluster) = scenario.clusters.get(&node.cluster) else { return false };
    match &node.which {
        Which::Named(name) => cluster.nodes.iter().any(|spec| spec.name == *name),
        Which::GatewayTo(to) => scenario.clusters.contains_key(to),
        Which::ActiveGateway | Which::LastPoweredOff | Which::LastCrashed => true,
    }
}

/// Discovery and DNS move to another node when theirs is dropped.
fn has_daemon(scenario: &Scenario, node: &NodeRef, which: Daemons) -> bool {
    let home = scenario.clusters.get(&node.cluster).and_then(|cluster| cluster.home());
    let at_home = home.is_none_or(|home| node.which == Which::Named(home.clone()));
    match which {
        Daemons::One(Daemon::Discovery | Daemon::Dns) => has_node(scenario, node) && at_home,
        Daemons::One(Daemon::Gateway | Daemon::RouteAgent) | Daemons::All => has_node(scenario, node),
    }
}

fn has_side(scenario: &Scenario, side: &Side) -> bool {
    match side {
        Side::Node(node) => has_node(scenario, node),
        Side::Cluster(cluster) => scenario.clusters.contains_key(cluster),
        Side::Api(api) => has_api(scenario, api),
    }
}

fn has_api(scenario: &Scenario, api: &ApiRef) -> bool {
    match api {
        ApiRef::Cluster(cluster) => scenario.clusters.contains_key(cluster),
        ApiRef::Broker => scenario.broker == Broker::Own,
    }
}

/// `scenario` with this done to it.
fn with(scenario: &Scenario, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut changed = scenario.clone();
    change(&mut changed);
    changed
}

fn without_a_cluster(scenario: &Scenario) -> Vec<Scenario> {
    let without = |id: &ClusterId| {
        with(scenario, |s| {
            s.clusters.remove(id);
            if s.broker == Broker::Member(id.clone()) {
                s.broker = Broker::Own;
            }
        })
    };
    scenario.clusters.keys().map(without).collect()
}

fn without_a_node(scenario: &Scenario) -> Vec<Scenario> {
    let nodes = scenario.clusters.iter().flat_map(|(id, cluster)| (0..cluster.nodes.len()).map(move |n| (id, n)));
    let without = |(id, node): (&ClusterId, usize)| {
        with(scenario, |s| {
            if let Some(cluster) = s.clusters.get_mut(id) {
                let gone = cluster.nodes.remove(node).name;
                move_home(s, id, &gone);
            }
        })
    };
    nodes.map(without).collect()
}

/// Probes of a node that is gone start at the first that is left.
fn move_home(scenario: &mut Scenario, id: &ClusterId, gone: &NodeName) {
    let Some(first) = scenario.clusters.get(id).and_then(|cluster| cluster.home()).cloned() else { return };
    for expectation in &mut scenario.expect {
        match expectation {
            Expectation::Connect { from, .. }
            | Expectation::Refuse { from, .. }
            | Expectation::Dns { from, .. }
            | Expectation::Outage { from, .. } => {
                if from.cluster == *id && from.which == Which::Named(gone.clone()) {
                    from.which = Which::Named(first.clone());
                }
            }
            Expectation::Unchanged { .. } | Expectation::Refused { .. } | Expectation::Settled { .. } => {}
        }
    }
}

/// Links, cable, broker and services as they are when nothing is said.
fn plainer_world(scenario: &Scenario) -> Vec<Scenario> {
    let mut plainer = vec![
        with(scenario, |s| (s.links.default, s.links.pairs) = (LinkSpec::default(), Default::default())),
        with(scenario, |s| s.links.pairs.clear()),
        with(scenario, |s| s.clusters.values_mut().for_each(|cluster| cluster.nat = None)),
        with(scenario, |s| s.links.default = LinkSpec::default()),
        with(scenario, |s| s.cable = CableDriver::Wireguard),
    ];
    for (index, workload) in scenario.workloads.iter().enumerate() {
        let mut set = |change: fn(&mut crate::Workload)| {
            plainer.push(with(scenario, |s| s.workloads.iter_mut().skip(index).take(1).for_each(change)));
        };
        if workload.pods > 1 {
            set(|workload| workload.pods = 1);
        }
        if !workload.exported {
            set(|workload| workload.exported = true);
        }
    }
    plainer
}

/// The same acts, each a little simpler; cures are made to fit.
fn plainer_verbs(scenario: &Scenario) -> Vec<Scenario> {
    let mut plainer = Vec::new();
    for (index, act) in scenario.timeline.iter().enumerate() {
        let mut try_verb = |verb: Verb| {
            let cure_was = cure_of(&act.verb);
            let cure_is = cure_of(&verb);
            plainer.push(with(scenario, |s| {
                for (place, other) in s.timeline.iter_mut().enumerate().skip(index) {
                    if place == index {
                        other.verb = verb.clone();
                    } else if let (Some(was), Some(is)) = (&cure_was, &cure_is)
                        && other.verb == *was
                    {
                        other.verb = is.clone();
                    }
                }
            }));
        };
        match &act.verb {
            Verb::Crash(node, Daemons::All) => {
                Daemon::ALL.into_iter().for_each(|one| try_verb(Verb::Crash(node.clone(), Daemons::One(one))));
            }
            Verb::Cut { from, to, one_way: true } => {
                try_verb(Verb::Cut { from: from.clone(), to: to.clone(), one_way: false });
            }
            Verb::Api(api, ApiFault::Slow(by)) if *by != Duration::from_secs(6) => {
                try_verb(Verb::Api(api.clone(), ApiFault::Down));
                try_verb(Verb::Api(api.clone(), ApiFault::Slow(Duration::from_secs(6))));
            }
            Verb::Api(api, ApiFault::Erroring) => try_verb(Verb::Api(api.clone(), ApiFault::Down)),
            Verb::PowerOff(_)
            | Verb::PowerOn(_)
            | Verb::Crash(_, Daemons::One(_))
            | Verb::Start(..)
            | Verb::Cut { one_way: false, .. }
            | Verb::Heal { .. }
            | Verb::Api(..)
            | Verb::Export(..)
            | Verb::Unexport(..)
            | Verb::Ready(..)
            | Verb::Unready(..)
            | Verb::ClockSkew(..)
            | Verb::ClockRate(..)
            | Verb::NatRemap(_)
            | Verb::ChangeAddress(_)
            | Verb::Join(_)
            | Verb::Leave(_)
            | Verb::Rebuild(_)
            | Verb::Reslice(..) => {}
        }
    }
    plainer
}

/// The later act that must change along.
fn cure_of(verb: &Verb) -> Option<Verb> {
    match verb {
        Verb::Crash(node, which) => Some(Verb::Start(node.clone(), *which)),
        Verb::PowerOff(_)
        | Verb::PowerOn(_)
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
        | Verb::ChangeAddress(_)
        | Verb::Join(_)
        | Verb::Leave(_)
        | Verb::Rebuild(_)
        | Verb::Reslice(..) => None,
    }
}

/// The first act after 15 s, and after each the next at once, or sooner.
fn shorter_waits(scenario: &Scenario) -> Vec<Scenario> {
    let mut shorter = Vec::new();
    let mut before = Duration::ZERO;
    for (index, act) in scenario.timeline.iter().enumerate() {
        let wait = act.at - before;
        let waits = if index == 0 {
            vec![Duration::from_secs(15)]
        } else {
            vec![Duration::ZERO, Duration::from_secs(1), Duration::from_secs(wait.as_secs() / 2)]
        };
        let waits = waits.into_iter().filter(|less| *less < wait);
        shorter.extend(waits.map(|less| with(scenario, |s| sooner(s, index, wait - less))));
        before = act.at;
    }
    shorter
}

/// Times in whole seconds.
fn rounder_times(scenario: &Scenario) -> Vec<Scenario> {
    let odd = scenario.timeline.iter().enumerate().filter(|(_, act)| act.at.subsec_nanos() != 0);
    odd.map(|(index, act)| {
        let below = Duration::from_nanos(act.at.subsec_nanos().into());
        with(scenario, |s| sooner(s, index, below))
    })
    .filter(|candidate| candidate.timeline.is_sorted_by_key(|act| act.at))
    .collect()
}

/// The acts from there on, so much sooner.
fn sooner(scenario: &mut Scenario, from: usize, by: Duration) {
    for act in scenario.timeline.iter_mut().skip(from) {
        act.at -= by;
    }
}
