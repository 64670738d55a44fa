//! For tests: a stage that plays nothing and says what its script says, and short ways to write scenarios and facts.

use crate::{
    Ability, Act, ApiRef, Broker, Change, Cluster, Daemon, Expectation, Fact, Fault, Flow, LinkSpec, Links, NodeRef,
    NodeSpec, Outcome, Place, Probe, ProbeId, Scenario, Stage, StageError, Target, Verb, What, When, Which, Workload,
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use tombolo_core::base::{ClusterId, Epoch, Few, Label, NodeName, Slot, Wall};
use tombolo_core::model::{
    CableDriver, Candidate, Candidates, Claim, Claims, ClusterRecord, Condition, ConditionType, Endpoint, ExportRecord,
    Family, Gateway, Import, InternalTrafficPolicy, Lease, Object, Offer, Protocol, Ranges, Reach, Service,
    ServiceExport, ServiceKey, ServiceType, SessionAffinity, SourceEndpoint, SourceSlice,
};
use tombolo_core::roles::Event;

pub const WEB: &str = "web.shop.svc.clusterset.local";
pub const WEB_IP: &str = "10.102.0.10";

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn cluster(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

pub fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub fn slot(number: u8) -> Slot {
    Slot::try_from(number).unwrap()
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn web() -> ServiceKey {
    ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() }
}

pub fn to_web() -> Target {
    Target::Name(WEB.into(), 80, Protocol::Tcp)
}

/// As a file writes it: `west/worker`, `west/active-gateway`.
pub fn at(text: &str) -> NodeRef {
    let (in_cluster, which) = text.split_once('/').unwrap();
    let which = match which {
        "active-gateway" => Which::ActiveGateway,
        "last-powered-off" => Which::LastPoweredOff,
        "last-crashed" => Which::LastCrashed,
        name => match name.strip_prefix("gateway-to-") {
            Some(to) => Which::GatewayTo(cluster(to)),
            None => Which::Named(node(name)),
        },
    };
    NodeRef { cluster: cluster(in_cluster), which }
}

pub fn act(at: u64, verb: Verb) -> Act {
    Act { at: secs(at), verb }
}

pub fn connects(when: When) -> Expectation {
    Expectation::Connect { when, from: at("west/worker"), to: to_web() }
}

pub fn refused(when: When) -> Expectation {
    Expectation::Refuse { when, from: at("west/worker"), to: to_web() }
}

pub fn outage(from: u64, to: u64, at_most: Duration) -> Expectation {
    let during = When::During(secs(from), secs(to));
    Expectation::Outage { during, from: at("west/worker"), to: to_web(), at_most, flow: Flow::New }
}

pub fn resolves(when: When, rcode: &str, any_of: Vec<(ClusterId, ServiceKey)>) -> Expectation {
    Expectation::Dns { when, from: at("west/worker"), name: WEB.into(), rcode: rcode.into(), any_of }
}

/// West asks, east exports `shop/web` and is the broker.
pub fn scenario(timeline: Vec<Act>, expect: Vec<Expectation>) -> Scenario {
    let nodes = |names: &[&str]| {
        let spec = |name: &&str| NodeSpec { name: node(name), gateway: name.starts_with("gw") };
        names.iter().map(spec).collect()
    };
    let west = Cluster {
        pods: "10.1.0.0/16".parse().unwrap(),
        services: "10.101.0.0/16".parse().unwrap(),
        nodes: nodes(&["gw-a", "gw-b", "worker"]),
        nat: None,
        apart: false,
    };
    let east = Cluster {
        pods: "10.2.0.0/16".parse().unwrap(),
        services: "10.102.0.0/16".parse().unwrap(),
        nodes: nodes(&["gw-a", "worker"]),
        nat: None,
        apart: false,
    };
    Scenario {
        name: "rehearsal".into(),
        about: "For tests.".into(),
        origin: Vec::new(),
        needs: BTreeSet::new(),
        clusters: BTreeMap::from([(cluster("west"), west), (cluster("east"), east)]),
        broker: Broker::Member(cluster("east")),
        cable: CableDriver::Wireguard,
        links: Links { default: LinkSpec::default(), pairs: BTreeMap::new() },
        workloads: vec![Workload {
            service: web(),
            cluster: cluster("east"),
            pods: 2,
            ports: vec![(80, Protocol::Tcp)],
            exported: true,
            headless: false,
        }],
        timeline,
        expect,
    }
}

/// A place as the trace writes it: `world`, `west api`, `west/gw-a`, `west/gw-a gateway`.
pub fn place(text: &str) -> Place {
    if text == "world" {
        return Place::World;
    }
    if let Some(api) = text.strip_suffix(" api") {
        return Place::Api(if api == "broker" { ApiRef::Broker } else { ApiRef::Cluster(cluster(api)) });
    }
    let (in_cluster, rest) = text.split_once('/').unwrap();
    match rest.split_once(' ') {
        None => Place::Node(cluster(in_cluster), node(rest)),
        Some((on, name)) => {
            let daemon = Daemon::ALL.into_iter().find(|daemon| daemon.name() == name).unwrap();
            Place::Daemon(cluster(in_cluster), node(on), daemon)
        }
    }
}

pub fn fact(at: Duration, here: &str, what: What) -> Fact {
    Fact { at, place: place(here), what }
}

pub fn elected(epoch: u64) -> What {
    What::Told(Event::Elected(Epoch(epoch)))
}

pub fn stood_down(epoch: u64) -> What {
    What::Told(Event::StoodDown { epoch: Epoch(epoch), because: "the API does not answer".into() })
}

pub fn path(to: &str, version: u32, local: u8, remote: u8) -> What {
    What::Told(Event::PathChosen { cluster: cluster(to), version, pair: (slot(local), slot(remote)) })
}

pub fn path_dead(to: &str, version: u32) -> What {
    What::Told(Event::PathDead { cluster: cluster(to), version })
}

pub fn wrote(by: &str, change: Change, object: Object) -> What {
    What::Wrote { by: place(by), change, key: object.key(), object }
}

pub fn applied(steps: &[&str]) -> What {
    What::Applied { steps: steps.iter().map(ToString::to_string).collect(), items: steps.len() }
}

pub fn candidates(of: &str, epoch: u64, nodes: &[&str]) -> Object {
    let candidate = |name: &str| Candidate {
        node: node(name),
        address: ip("192.0.2.1"),
        public: None,
        discovery_port: None,
        keys: Vec::new(),
        probe: ip("240.0.0.1"),
    };
    let by_slot = (1..).zip(nodes).map(|(number, name)| (slot(number), candidate(name))).collect();
    Object::from(Candidates { cluster: cluster(of), epoch: Epoch(epoch), by_slot })
}

pub fn endpoint(of: &str, on: &str, epoch: u64) -> Object {
    Object::from(Endpoint {
        cluster: cluster(of),
        cable_name: format!("submariner-cable-{of}-{on}"),
        node: node(on),
        private_ip: ip("192.0.2.1"),
        public_ip: None,
        nat_enabled: false,
        discovery_port: None,
        subnets: Vec::new(),
        driver: CableDriver::Wireguard,
        epoch: Epoch(epoch),
    })
}

pub fn lease(holder: &str, epoch: u64, renewed: u64) -> Object {
    Object::from(Lease {
        name: "tombolo-gateway".into(),
        holder: Some(holder.into()),
        duration: secs(15),
        acquired: Wall::from_unix_secs(1_700_000_000),
        renewed: Wall::from_unix_secs(1_700_000_000 + renewed),
        transitions: 0,
        epoch: Epoch(epoch),
    })
}

pub fn gateway(on: &str, active: Option<u64>, reach: &[(&str, Reach)]) -> Object {
    Object::from(Gateway {
        node: node(on),
        address: ip("192.0.2.1"),
        public: None,
        discovery_port: None,
        keys: Vec::new(),
        active: active.map(Epoch),
        reach: reach.iter().map(|(to, reach)| (cluster(to), *reach)).collect(),
        remarks: BTreeMap::new(),
    })
}

pub fn web_service() -> Object {
    Object::from(Service {
        key: web(),
        service_type: ServiceType::ClusterIp,
        cluster_ips: vec![ip(WEB_IP)],
        families: vec![Family::V4],
        ports: Vec::new(),
        affinity: SessionAffinity::None,
        internal_traffic: InternalTrafficPolicy::Cluster,
        traffic_distribution: None,
    })
}

fn web_offer() -> Arc<Offer> {
    Arc::new(Offer::new(ServiceType::ClusterIp, Few::default(), [Family::V4].into()))
}

/// Web, exported, with nothing said about it.
pub fn exported() -> Object {
    Object::from(ServiceExport::new(web(), Wall::from_unix_secs(1_700_000_000)))
}

/// The same, and it is said to be valid.
pub fn exported_told() -> Object {
    let since = Wall::from_unix_secs(1_700_000_000);
    let valid = Condition { status: Some(true), reason: "Valid".into(), message: String::new(), since };
    let Object::ServiceExport(export) = exported() else { unreachable!() };
    Object::from(ServiceExport { conditions: [(ConditionType::Valid, valid)].into(), ..ServiceExport::clone(&export) })
}

pub fn web_record() -> Object {
    let created = Wall::from_unix_secs(1_700_000_000);
    Object::from(ExportRecord { cluster: cluster("east"), key: web(), created, offer: web_offer() })
}

pub fn cluster_record(name: &str, pods: &str, services: &str) -> Object {
    let range = |text: &str| vec![text.parse().unwrap()];
    let cluster = cluster(name);
    Object::from(ClusterRecord { cluster, pods: range(pods), services: range(services), epoch: Epoch(1) })
}

/// The claims of clusters, each with a range for its pods.
pub fn claims(members: &[(&str, &str)]) -> Object {
    let claim = |(name, pods): &(&str, &str)| {
        let ranges = Ranges { pods: vec![pods.parse().unwrap()], ..Ranges::default() };
        (cluster(name), Claim { identity: format!("uid of {name}"), ranges, epoch: Epoch(1) })
    };
    Object::from(Claims { members: members.iter().map(claim).collect(), ..Claims::default() })
}

/// What east has, as its discovery tells it and others copy it.
pub fn web_slice() -> Object {
    Object::from(SourceSlice {
        cluster: cluster("east"),
        key: web(),
        family: Family::V4,
        number: 0,
        endpoints: [SourceEndpoint { address: ip(WEB_IP), hostname: None, ready: true }].into(),
        ports: Few::default(),
    })
}

pub fn web_import(sources: &[&str]) -> Object {
    let since = |name: &&str| (cluster(name), Wall::from_unix_secs(1_700_000_000));
    Object::from(Import { key: web(), offer: web_offer(), sources: sources.iter().map(since).collect() })
}

pub fn fetched() -> Outcome {
    Outcome::Fetched { address: ip(WEB_IP), server: "worker".into() }
}

pub fn failed(because: &str) -> Outcome {
    Outcome::Failed { because: because.into() }
}

pub fn resolved(rcode: &str, addresses: &[&str]) -> Outcome {
    Outcome::Resolved { rcode: rcode.into(), addresses: addresses.iter().map(|text| ip(text)).collect() }
}

pub fn probed(stream: usize, nth: u32, began: Duration, outcome: Outcome) -> What {
    What::Probed { id: crate::probing::probe_id(stream, nth), began, outcome }
}

/// How long an answer takes, and what it is.
type Answer = Box<dyn Fn(Duration, &Probe) -> Option<(Duration, Outcome)>>;

/// See the module.
pub struct Rehearsal {
    now: Duration,
    /// What is still to happen, in order of time.
    script: Vec<Fact>,
    answer: Answer,
    lacking: BTreeMap<Ability, String>,
    pub acts: Vec<(Duration, Fault)>,
    pub probes: Vec<(Duration, ProbeId, Probe)>,
}

impl Rehearsal {
    /// Every probe is answered after 10 ms.
    pub fn new(script: Vec<Fact>) -> Self {
        Self {
            now: Duration::ZERO,
            script,
            answer: Box::new(|_, _| Some((millis(10), fetched()))),
            lacking: BTreeMap::new(),
            acts: Vec::new(),
            probes: Vec::new(),
        }
    }

    /// Another way to answer; `None`: the outcome never comes.
    pub fn answering(mut self, answer: impl Fn(Duration, &Probe) -> Option<(Duration, Outcome)> + 'static) -> Self {
        self.answer = Box::new(answer);
        self
    }

    /// Fetches that begin within one of these spans of milliseconds time out; others are answered after 10 ms.
    pub fn with_outages(self, spans: &'static [(u64, u64)]) -> Self {
        self.answering(move |at, probe| {
            let out = spans.iter().any(|(from, to)| (millis(*from)..millis(*to)).contains(&at));
            Some(if out { (probe.timeout, failed("no answer")) } else { (millis(10), fetched()) })
        })
    }

    pub fn lacking(mut self, ability: Ability, why: &str) -> Self {
        self.lacking.insert(ability, why.into());
        self
    }

    fn add(&mut self, fact: Fact) {
        let place = self.script.partition_point(|known| known.at <= fact.at);
        self.script.insert(place, fact);
    }
}

impl Stage for Rehearsal {
    fn name(&self) -> &'static str {
        "rehearsal"
    }

    fn lacks(&self, ability: Ability) -> Option<String> {
        self.lacking.get(&ability).cloned()
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn advance(&mut self, until: Duration) -> Result<(), StageError> {
        assert!(until >= self.now, "time goes one way");
        self.now = until;
        Ok(())
    }

    fn act(&mut self, fault: &Fault) -> Result<String, StageError> {
        self.acts.push((self.now, fault.clone()));
        let gateway = |in_cluster: &ClusterId, on: &NodeName, runs| {
            (Place::Daemon(in_cluster.clone(), on.clone(), Daemon::Gateway), What::Process(runs))
        };
        let power = |in_cluster: &ClusterId, on: &NodeName, is_on| {
            (Place::Node(in_cluster.clone(), on.clone()), What::Power(is_on))
        };
        let follows = match fault {
            Fault::PowerOff(c, n) => vec![gateway(c, n, false), power(c, n, false)],
            Fault::PowerOn(c, n) => vec![power(c, n, true)],
            Fault::Crash(c, n, _) => vec![gateway(c, n, false)],
            Fault::Start(c, n, _) => vec![gateway(c, n, true)],
            Fault::Cut { .. }
            | Fault::Heal { .. }
            | Fault::Api(..)
            | Fault::Export(..)
            | Fault::Unexport(..)
            | Fault::Ready(..)
            | Fault::Unready(..)
            | Fault::ClockSkew(..)
            | Fault::ClockRate(..)
            | Fault::NatRemap(_)
            | Fault::ChangeAddress(_)
            | Fault::Join(_)
            | Fault::Leave(_)
            | Fault::Rebuild(_)
            | Fault::Reslice(..) => return Ok(String::new()),
        };
        for (here, what) in &follows {
            self.add(Fact { at: self.now, place: here.clone(), what: what.clone() });
        }
        Ok(follows.last().map(|(here, _)| here.to_string()).unwrap_or_default())
    }

    fn probe(&mut self, id: ProbeId, probe: &Probe) -> Result<(), StageError> {
        self.probes.push((self.now, id, probe.clone()));
        if let Some((after, outcome)) = (self.answer)(self.now, probe) {
            let here = Place::Node(probe.from.0.clone(), probe.from.1.clone());
            let what = What::Probed { id, began: self.now, outcome };
            self.add(Fact { at: self.now + after, place: here, what });
        }
        Ok(())
    }

    fn facts(&mut self) -> Vec<Fact> {
        let until = self.script.partition_point(|fact| fact.at <= self.now);
        self.script.drain(..until).collect()
    }
}

/// What an invariant says to these facts.
pub fn broken(invariant: &mut dyn crate::invariants::Invariant, facts: &[Fact], ended: Duration) -> Vec<String> {
    let seen = crate::invariants::watch_all(invariant, facts, ended);
    seen.violations.into_iter().map(|violation| violation.text).collect()
}

/// When and why an invariant does not watch these facts.
pub fn excused(invariant: &mut dyn crate::invariants::Invariant, facts: &[Fact], ended: Duration) -> Vec<String> {
    let seen = crate::invariants::watch_all(invariant, facts, ended);
    seen.excuses.iter().map(ToString::to_string).collect()
}
