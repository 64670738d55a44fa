//! A scenario by chance.
//!
//! ```text
//! |<- start ->| fault ~ cure      fault ~~~~~~~~ cure
//! |           |    fault ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~ | all cured |<------- quiet ------->| end
//! ```
//! Faults come in a few bursts, most of them at one cluster, so that they meet: a second one while the first is being
//! dealt with, one at the very moment of a cure, one just before or after somebody's patience is over. Each has its cure,
//! some at once, some only in the end.

use super::broken::{Broken, effective};
use super::disturb::disturb;
use crate::bounds::{ADDRESS_KNOWN_WITHIN, CALM_AFTER, CONVERGED_WITHIN, GONE_WITHIN};
use crate::format::{implied, is_called};
use crate::wording::zone_name;
use crate::{
    Act, ApiFault, ApiRef, Broker, Cluster, Daemon, Daemons, Expectation, Flow, LinkSpec, Links, NodeRef, NodeSpec,
    Scenario, Side, Target, Verb, When, Which, Workload,
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use tombolo_core::base::{Cidr, ClusterId, Label, NodeName, Rng};
use tombolo_core::model::{CableDriver, Protocol, ServiceKey};

const CLUSTERS: [&str; 4] = ["east", "west", "north", "south"];
const GATEWAYS: [&str; 3] = ["gw-a", "gw-b", "gw-c"];
const WORKERS: [&str; 2] = ["worker", "worker-b"];
const SERVICES: [&str; 4] = ["web", "api", "db", "queue"];
/// Times are multiples of this, so that a person can read them.
const GRAIN_MS: u64 = 100;
/// How long a daemon waits for an answer, how long an absence has to last, how long a lease lasts.
const PATIENCES_MS: [u64; 3] = [5_000, 10_000, 15_000];
/// So close to the end of one.
const AROUND_MS: u64 = 800;
/// More streams of probes cost time and show nothing new.
const STREAMS_MAX: usize = 6;
/// How often a timeline is drawn anew that came out empty.
const TRIES_MAX: u32 = 100;
/// For how long it is watched that nothing moves any more.
const WATCHED_FOR: Duration = Duration::from_secs(20);
/// Where links lose packets, a flow may fail by chance for less.
const LOSSY_OUTAGE: Duration = Duration::from_secs(5);

/// The scenario of this seed, in which nothing happens that a file calls by one of these words (`power_off`,
/// `restarted-empty`; see [`crate::format::act_words`]): so that one open finding does not hide all others.
#[must_use]
pub fn draw(seed: u64, without: &[String]) -> Scenario {
    let mut dice = Dice(Rng::stream(seed, "fuzz"));
    let clusters = clusters(&mut dice);
    let ids = clusters.keys().cloned().collect::<Vec<_>>();
    let broker = if dice.one_in(3) { Broker::Own } else { Broker::Member(dice.pick(&ids)) };
    let links = links(&ids, &mut dice);
    let mut scenario = Scenario {
        name: format!("fuzz {seed}"),
        about: format!("Drawn by chance from seed {seed}."),
        origin: Vec::new(),
        needs: BTreeSet::new(),
        clusters,
        broker,
        cable: if dice.one_in(8) { CableDriver::Vxlan } else { CableDriver::Wireguard },
        links,
        workloads: workloads(&ids, &mut dice),
        timeline: Vec::new(),
        expect: Vec::new(),
    };
    let mut tries = 0;
    let broken = loop {
        scenario.timeline = timeline(&scenario, &mut dice);
        scenario.timeline.retain(|act| !without.iter().any(|word| is_called(&act.verb, word)));
        let broken = effective(&mut scenario);
        // Where nothing is left that could happen, nothing happens.
        tries += 1;
        if !scenario.timeline.is_empty() || tries == TRIES_MAX {
            break broken;
        }
    };
    repair(&mut scenario, &broken, &mut dice);
    disturb(&mut scenario, seed, without);
    // What that ended needs no other cure.
    effective(&mut scenario);
    scenario.expect = expectations(&scenario, &broken, &mut dice);
    retime(&mut scenario);
    scenario.needs = implied(&scenario.links, &scenario.timeline, &scenario.expect);
    scenario
}

/// Gives each expectation the time from which it can be asked for, after the last act.
pub(super) fn retime(scenario: &mut Scenario) {
    let last = scenario.timeline.last().map_or(Duration::ZERO, |act| act.at);
    let changes = scenario.timeline.iter().filter(|act| matches!(act.verb, Verb::ChangeAddress(_)));
    let known = changes.map(|act| act.at + ADDRESS_KNOWN_WITHIN).max().unwrap_or_default();
    let calm = known.max(last + CALM_AFTER);
    for expectation in &mut scenario.expect {
        match expectation {
            Expectation::Connect { when, .. } | Expectation::Dns { when, .. } => *when = When::By(last + GONE_WITHIN),
            Expectation::Settled { when } => {
                *when = When::During(calm, calm + WATCHED_FOR);
            }
            Expectation::Outage { during, .. } => {
                *during = When::During(last + CONVERGED_WITHIN, last + CALM_AFTER + WATCHED_FOR);
            }
            Expectation::Refuse { .. } | Expectation::Unchanged { .. } | Expectation::Refused { .. } => {}
        }
    }
}

/// Chance, in the words of this page.
pub(super) struct Dice(pub(super) Rng);

impl Dice {
    /// Even in `low..=high`.
    pub(super) fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    /// An index, each as often as its weight says.
    pub(super) fn weighed(&mut self, weights: &[u64]) -> usize {
        let mut left = self.0.below(weights.iter().sum());
        weights.iter().position(|weight| left.checked_sub(*weight).map(|less| left = less).is_none()).unwrap_or(0)
    }

    /// One of them; there is at least one.
    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        let index = usize::try_from(self.0.below(of.len() as u64)).unwrap_or(0);
        of[index].clone()
    }

    pub(super) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.from(low / GRAIN_MS, high / GRAIN_MS) * GRAIN_MS)
    }

    /// When somebody is about to give up waiting, or has just done so.
    fn about_a_patience(&mut self) -> Duration {
        let patience = self.pick(&PATIENCES_MS);
        self.millis(patience - AROUND_MS, patience + AROUND_MS)
    }
}

fn clusters(dice: &mut Dice) -> BTreeMap<ClusterId, Cluster> {
    let count = 2 + dice.weighed(&[6, 3, 1]);
    let cluster = |(number, name): (u8, &&str)| {
        let gateways = 1 + dice.weighed(&[3, 4, 1]);
        let workers = dice.weighed(&[1, 5, 2]);
        let node = |gateway| move |name: &&str| Some(NodeSpec { name: NodeName::new(name).ok()?, gateway });
        let nodes = GATEWAYS.iter().take(gateways).filter_map(node(true));
        let nodes = nodes.chain(WORKERS.iter().take(workers).filter_map(node(false))).collect();
        Some((
            ClusterId::new(name).ok()?,
            Cluster { pods: range(number)?, services: range(100 + number)?, nodes, nat: None, apart: false },
        ))
    };
    (1..).zip(CLUSTERS.iter().take(count)).filter_map(cluster).collect()
}

fn range(second: u8) -> Option<Cidr> {
    Cidr::holding(IpAddr::V4(Ipv4Addr::new(10, second, 0, 0)), 16)
}

/// Never so bad that nothing could work over one of them.
fn links(ids: &[ClusterId], dice: &mut Dice) -> Links {
    let lossy = dice.one_in(10);
    let link = |dice: &mut Dice| LinkSpec {
        latency: Duration::from_millis(dice.pick(&[1, 5, 5, 5, 20, 60])),
        jitter: Duration::from_millis(dice.pick(&[0, 0, 0, 1, 4, 10])),
        loss_millionths: if lossy { dice.pick(&[0, 1_000, 10_000, 20_000]) } else { 0 },
        ..LinkSpec::default()
    };
    let mut links = Links { default: link(dice), pairs: BTreeMap::new() };
    for (index, a) in ids.iter().enumerate() {
        for b in ids.get(index + 1..).unwrap_or_default() {
            if dice.one_in(4) {
                links.pairs.insert((a.clone(), b.clone()), link(dice));
            }
        }
    }
    links
}

/// At least one is exported from somewhere, or will be.
fn workloads(ids: &[ClusterId], dice: &mut Dice) -> Vec<Workload> {
    let count = 1 + dice.weighed(&[4, 3, 2, 1]);
    let mut workloads = Vec::new();
    for name in SERVICES.iter().take(count) {
        let (Ok(namespace), Ok(name)) = (Label::new("shop"), Label::new(name)) else { continue };
        let service = ServiceKey { namespace, name };
        let ports = vec![if dice.one_in(8) { (53, Protocol::Udp) } else { (80, Protocol::Tcp) }];
        let first = dice.pick(ids);
        let homes = ids.iter().filter(|id| **id == first || dice.one_in(4)).cloned().collect::<Vec<_>>();
        workloads.extend(homes.into_iter().map(|cluster| Workload {
            service: service.clone(),
            cluster,
            pods: u32::try_from(dice.from(1, 3)).unwrap_or(1),
            ports: ports.clone(),
            exported: !dice.one_in(6),
            headless: false,
        }));
    }
    workloads
}

/// Faults and their cures in order of time; some may change nothing, and some may lack their cure.
pub(super) fn timeline(scenario: &Scenario, dice: &mut Dice) -> Vec<Act> {
    let focus = dice.pick(&scenario.clusters.keys().cloned().collect::<Vec<_>>());
    let world = World { scenario, focus };
    let mut now = if dice.one_in(8) { dice.millis(500, 10_000) } else { dice.millis(15_000, 20_000) };
    let mut acts = Vec::new();
    for _ in 0..=dice.weighed(&[3, 4, 4, 3, 2, 1]) {
        let verb = world.fault(dice);
        if let Some(cure) = world.cure(&verb, dice) {
            let after = match dice.weighed(&[3, 2, 2, 2, 2]) {
                0 => Some(dice.millis(0, 2_000)),
                1 => Some(dice.millis(2_000, 12_000)),
                2 => Some(dice.millis(12_000, 40_000)),
                3 => Some(dice.about_a_patience()),
                _ => None,
            };
            acts.extend(after.map(|after| Act { at: now + after, verb: cure }));
        }
        acts.push(Act { at: now, verb });
        now += match dice.weighed(&[2, 4, 2, 2, 2]) {
            0 => Duration::ZERO,
            1 => dice.millis(100, 2_000),
            2 => dice.millis(2_000, 15_000),
            3 => dice.about_a_patience(),
            _ => dice.millis(15_000, 35_000),
        };
    }
    acts.sort_by_key(|act| act.at);
    acts
}

/// Cures what is still broken, in any order.
pub(super) fn repair(scenario: &mut Scenario, broken: &Broken, dice: &mut Dice) {
    let mut cures = broken.cures().to_vec();
    let mut at = scenario.timeline.last().map_or(Duration::ZERO, |act| act.at);
    at += dice.millis(500, 15_000);
    while !cures.is_empty() {
        let index = usize::try_from(dice.0.below(cures.len() as u64)).unwrap_or(0);
        scenario.timeline.push(Act { at, verb: cures.swap_remove(index) });
        at += if dice.one_in(2) { Duration::ZERO } else { dice.millis(100, 3_000) };
    }
}

/// What can be broken.
struct World<'a> {
    scenario: &'a Scenario,
    /// Most of it happens here.
    focus: ClusterId,
}

impl World<'_> {
    fn fault(&self, dice: &mut Dice) -> Verb {
        match dice.weighed(&[4, 6, 5, 6, 2, 1]) {
            0 => Verb::PowerOff(self.node(dice).0),
            1 => self.crash(dice),
            2 => self.cut(dice),
            3 => Verb::Api(self.api(dice), self.api_fault(dice)),
            5 => {
                let workload = dice.pick(&self.scenario.workloads);
                Verb::Unready(workload.cluster, workload.service)
            }
            _ => {
                let workload = dice.pick(&self.scenario.workloads);
                let (cluster, service) = (workload.cluster, workload.service);
                // Whether it changes anything depends on what came before: see `effective`.
                if dice.one_in(3) { Verb::Export(cluster, service) } else { Verb::Unexport(cluster, service) }
            }
        }
    }

    /// What ends it. A verb that ends another needs no end itself.
    fn cure(&self, verb: &Verb, dice: &mut Dice) -> Option<Verb> {
        Some(match verb {
            Verb::PowerOff(node) => Verb::PowerOn(node.clone()),
            Verb::Crash(node, which) => Verb::Start(node.clone(), *which),
            Verb::Cut { from, to, .. } => Verb::Heal { from: from.clone(), to: to.clone() },
            Verb::Api(
                _,
                ApiFault::Healthy | ApiFault::RestartedEmpty | ApiFault::Restored | ApiFault::HistoryExpired,
            ) => return None,
            Verb::Api(api, ApiFault::BackedUp) => Verb::Api(api.clone(), ApiFault::Restored),
            Verb::Api(api, ApiFault::Down) if dice.one_in(5) => Verb::Api(api.clone(), ApiFault::RestartedEmpty),
            Verb::Api(api, _) => Verb::Api(api.clone(), ApiFault::Healthy),
            Verb::Unexport(cluster, key) => Verb::Export(cluster.clone(), key.clone()),
            Verb::Unready(cluster, key) => Verb::Ready(cluster.clone(), key.clone()),
            Verb::Reslice(..) => return None,
            Verb::PowerOn(_) | Verb::Start(..) | Verb::Heal { .. } | Verb::Export(..) | Verb::Ready(..) => {
                return None;
            }
            Verb::Leave(cluster) => Verb::Join(cluster.clone()),
            Verb::ClockSkew(..)
            | Verb::ClockRate(..)
            | Verb::NatRemap(_)
            | Verb::ChangeAddress(_)
            | Verb::Join(_)
            | Verb::Rebuild(_) => return None,
        })
    }

    fn cluster(&self, dice: &mut Dice) -> ClusterId {
        if dice.one_in(4) {
            dice.pick(&self.scenario.clusters.keys().cloned().collect::<Vec<_>>())
        } else {
            self.focus.clone()
        }
    }

    fn other(&self, than: &ClusterId, dice: &mut Dice) -> ClusterId {
        let others = self.scenario.clusters.keys().filter(|id| *id != than).cloned().collect::<Vec<_>>();
        dice.pick(&others)
    }

    /// A node, more often one that may be a gateway, and what it is.
    fn node(&self, dice: &mut Dice) -> (NodeRef, NodeSpec) {
        let cluster = self.cluster(dice);
        self.node_of(cluster, dice)
    }

    fn node_of(&self, cluster: ClusterId, dice: &mut Dice) -> (NodeRef, NodeSpec) {
        let nodes = self.scenario.clusters.get(&cluster).map_or(&[][..], |cluster| &cluster.nodes);
        let gateways = nodes.iter().filter(|node| node.gateway).cloned().collect::<Vec<_>>();
        let spec = if dice.one_in(3) { dice.pick(nodes) } else { dice.pick(&gateways) };
        (NodeRef { cluster, which: Which::Named(spec.name.clone()) }, spec)
    }

    fn crash(&self, dice: &mut Dice) -> Verb {
        if dice.one_in(3) {
            let cluster = self.cluster(dice);
            let home = self.scenario.clusters.get(&cluster).and_then(Cluster::home).cloned();
            if let Some(home) = home {
                let node = NodeRef { cluster, which: Which::Named(home) };
                return Verb::Crash(node, Daemons::One(dice.pick(&[Daemon::Discovery, Daemon::Dns])));
            }
        }
        let (node, spec) = self.node(dice);
        let network = if spec.gateway { Daemon::Gateway } else { Daemon::RouteAgent };
        Verb::Crash(node, if dice.one_in(4) { Daemons::All } else { Daemons::One(network) })
    }

    fn cut(&self, dice: &mut Dice) -> Verb {
        let cluster = self.cluster(dice);
        let other = self.other(&cluster, dice);
        let node = |of: &ClusterId, dice: &mut Dice| Side::Node(self.node_of(of.clone(), dice).0);
        let (from, to) = match dice.weighed(&[3, 3, 2, 2, 2, 2, 2]) {
            0 => (node(&cluster, dice), Side::Cluster(other)),
            1 => (node(&cluster, dice), node(&other, dice)),
            2 => (Side::Cluster(cluster), Side::Cluster(other)),
            3 => (node(&cluster, dice), node(&cluster, dice)),
            4 => (node(&cluster, dice), Side::Api(ApiRef::Cluster(cluster))),
            5 => (Side::Cluster(cluster.clone()), Side::Api(ApiRef::Cluster(cluster))),
            _ => (Side::Cluster(cluster), Side::Api(self.broker())),
        };
        if from == to {
            // One node was drawn twice.
            return self.cut(dice);
        }
        let one_way = dice.one_in(3);
        let (from, to) = if one_way && dice.one_in(2) { (to, from) } else { (from, to) };
        Verb::Cut { from, to, one_way }
    }

    /// As the reader of files has it: where a member is the broker, that member's.
    fn broker(&self) -> ApiRef {
        match &self.scenario.broker {
            Broker::Member(cluster) => ApiRef::Cluster(cluster.clone()),
            Broker::Own => ApiRef::Broker,
        }
    }

    fn api(&self, dice: &mut Dice) -> ApiRef {
        if dice.one_in(3) { self.broker() } else { ApiRef::Cluster(self.cluster(dice)) }
    }

    fn api_fault(&self, dice: &mut Dice) -> ApiFault {
        match dice.weighed(&[4, 3, 2, 2, 3, 2]) {
            0 => ApiFault::Down,
            1 => ApiFault::Slow(dice.millis(500, 8_000)),
            2 => ApiFault::SlowDeletes(dice.millis(1_000, 8_000)),
            3 => ApiFault::Erroring,
            4 => ApiFault::RestartedEmpty,
            _ => ApiFault::HistoryExpired,
        }
    }
}

impl Cluster {
    /// Where its discovery and DNS daemons run: the first worker, or the first node.
    pub(super) fn home(&self) -> Option<&NodeName> {
        let worker = self.nodes.iter().find(|node| !node.gateway);
        worker.or(self.nodes.first()).map(|node| &node.name)
    }
}

/// That in the end everything works and stands still; times are given by [`retime`].
fn expectations(scenario: &Scenario, broken: &Broken, dice: &mut Dice) -> Vec<Expectation> {
    let lossy = scenario.links.lose_packets();
    let when = When::Always;
    let mut flows = Vec::new();
    for service in scenario.workloads.iter().map(|workload| &workload.service).collect::<BTreeSet<_>>() {
        for cluster in scenario.clusters.keys() {
            flows.push((cluster.clone(), service.clone()));
        }
    }
    let mut expect = Vec::new();
    while !flows.is_empty() && expect.len() < STREAMS_MAX {
        let index = usize::try_from(dice.0.below(flows.len() as u64)).unwrap_or(0);
        let (cluster, service) = flows.swap_remove(index);
        let homes = scenario.workloads.iter().filter(|workload| workload.service == service).collect::<Vec<_>>();
        let exporters = homes.iter().filter(|home| broken.exports(&home.cluster, &service));
        let any_of = exporters.map(|home| (home.cluster.clone(), service.clone())).collect::<Vec<_>>();
        let nodes = scenario.clusters.get(&cluster).map_or(&[][..], |cluster| &cluster.nodes);
        let from = NodeRef { cluster, which: Which::Named(dice.pick(nodes).name) };
        let name = zone_name(&service);
        let Some(&(port, protocol)) = homes.first().and_then(|home| home.ports.first()) else { continue };
        let to = Target::Name(name.clone(), port, protocol);
        if any_of.is_empty() {
            let rcode = "NXDOMAIN".into();
            expect.push(Expectation::Dns { when, from, name, rcode, any_of });
            continue;
        }
        if !dice.one_in(3) {
            expect.push(Expectation::Dns { when, from: from.clone(), name, rcode: "NOERROR".into(), any_of });
        }
        expect.push(if lossy {
            Expectation::Outage { during: when, from, to, at_most: LOSSY_OUTAGE, flow: Flow::New }
        } else {
            Expectation::Connect { when, from, to }
        });
    }
    if !lossy {
        expect.push(Expectation::Settled { when });
    }
    expect
}
