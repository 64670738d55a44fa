//! What is written reads as what it was written from.

use super::super::{parse, write, written};
use super::{BASE, corpus, library};
use crate::rehearsal::{at, cluster, ip, to_web, web};
use crate::{
    Ability, Act, ApiFault, ApiRef, Broker, Daemon, Daemons, Expectation, Flow, NodeRef, Rate, Rebuilt, Scenario, Side,
    Skew, Target, Verb, Watched, When, fuzz,
};
use core::time::Duration;
use proptest::prelude::*;
use tombolo_core::base::{ClusterId, Label};
use tombolo_core::model::{Protocol, ServiceKey};

fn base() -> Scenario {
    parse("base.yaml", BASE).unwrap()
}

fn same(scenario: &Scenario) {
    let text = write(scenario);
    let read = parse("written.yaml", &text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(read, *scenario, "{text}");
    assert_eq!(super::schema::refusal(&text), None, "{text}");
    assert_eq!(written(scenario), Some(text));
}

#[test]
fn every_file_of_the_library_is_written_as_it_was_read() {
    for (name, text) in library().into_iter().chain(corpus()) {
        same(&parse(&name, &text).unwrap());
    }
}

#[test]
fn a_written_file_reads_as_a_person_would_write_it() {
    insta::assert_snapshot!(write(&base()));
}

#[test]
fn what_no_file_can_say_is_not_written() {
    let mut unsayable = base();
    unsayable.timeline.reverse();
    assert_eq!(written(&unsayable), None);
    let mut unsayable = base();
    unsayable.name = "two  blanks".into();
    assert_eq!(written(&unsayable), None);
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..100_u64).prop_map(Duration::from_secs),
        (0..100_000_u64).prop_map(Duration::from_millis),
        (0..100_000_000_000_u64).prop_map(Duration::from_nanos),
    ]
}

/// Texts as a reader hands them out: no character that steers, no blanks but single ones between words.
fn text() -> impl Strategy<Value = String> {
    let words = prop::collection::vec("[ -~]{1,12}|[!-~]{1,12}|\\PC{1,6}|null|~|#x|a: b|- a", 1..40);
    words.prop_map(|words| {
        let fine = |c: &char| c.is_whitespace() || !super::super::errors::steers(*c);
        let text: String = words.join(" ").chars().filter(fine).collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

fn node() -> impl Strategy<Value = NodeRef> {
    let nodes = ["west/gw-a", "west/gw-b", "west/active-gateway", "west/gateway-to-east", "west/last-powered-off"];
    prop::sample::select(nodes.to_vec()).prop_map(at)
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![
        node().prop_map(Side::Node),
        Just(Side::Cluster(cluster("east"))),
        Just(Side::Api(ApiRef::Cluster(cluster("null")))),
        Just(Side::Api(ApiRef::Broker)),
    ]
}

fn daemons() -> impl Strategy<Value = Daemons> {
    let one = [Daemon::Gateway, Daemon::Discovery, Daemon::Dns].map(Daemons::One);
    prop::sample::select([&one[..], &[Daemons::All]].concat())
}

fn api_fault() -> impl Strategy<Value = ApiFault> {
    prop_oneof![
        Just(ApiFault::Healthy),
        duration().prop_map(ApiFault::Slow),
        duration().prop_map(ApiFault::SlowDeletes),
        Just(ApiFault::Erroring),
        Just(ApiFault::Down),
        Just(ApiFault::RestartedEmpty),
        Just(ApiFault::BackedUp),
        Just(ApiFault::HistoryExpired),
    ]
}

fn verb() -> impl Strategy<Value = Verb> {
    let api = prop::sample::select(vec![ApiRef::Broker, ApiRef::Cluster(cluster("null"))]);
    prop_oneof![
        node().prop_map(Verb::PowerOff),
        node().prop_map(Verb::PowerOn),
        (node(), daemons()).prop_map(|(node, which)| Verb::Crash(node, which)),
        (node(), daemons()).prop_map(|(node, which)| Verb::Start(node, which)),
        (side(), side(), any::<bool>()).prop_map(|(from, to, one_way)| Verb::Cut { from, to, one_way }),
        (side(), side()).prop_map(|(from, to)| Verb::Heal { from, to }),
        (api, api_fault()).prop_map(|(api, fault)| Verb::Api(api, fault)),
        Just(Verb::Export(cluster("east"), web())),
        Just(Verb::Unexport(cluster("null"), null())),
        (node(), duration(), any::<bool>()).prop_map(|(node, by, ahead)| {
            Verb::ClockSkew(node, if ahead { Skew::Ahead(by) } else { Skew::Behind(by) })
        }),
        (node(), -100_000..=100_000).prop_map(|(node, millionths)| Verb::ClockRate(node, Rate(millionths))),
        Just(Verb::NatRemap(cluster("east"))),
        Just(Verb::ChangeAddress(cluster("east"))),
        Just(Verb::Join(cluster("null"))),
        Just(Verb::Leave(cluster("null"))),
        Just(Verb::Rebuild(Rebuilt {
            cluster: cluster("null"),
            pods: "10.77.0.0/16".parse().unwrap(),
            services: "10.78.4.0/22".parse().unwrap(),
        })),
        Just(Verb::Unready(cluster("null"), null())),
        Just(Verb::Ready(cluster("east"), web())),
        Just(Verb::Reslice(cluster("east"), web())),
    ]
}

fn null() -> ServiceKey {
    ServiceKey { namespace: Label::new("null").unwrap(), name: Label::new("null").unwrap() }
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        Just(to_web()),
        Just(Target::Name("-_.example".into(), 53, Protocol::Udp)),
        (1..=u16::MAX).prop_map(|port| Target::Address(ip("fd00::1"), port, Protocol::Udp)),
        Just(Target::Address(ip("10.102.0.10"), 80, Protocol::Tcp)),
    ]
}

fn window() -> impl Strategy<Value = When> {
    (duration(), duration()).prop_map(|(from, lasts)| When::During(from, from + lasts + Duration::from_nanos(1)))
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![duration().prop_map(When::By), window(), Just(When::Always)]
}

fn expectation() -> impl Strategy<Value = Expectation> {
    let during = || prop_oneof![window(), Just(When::Always)];
    let watched = [Watched::ActiveGateway(cluster("west")), Watched::PathTo(cluster("west"), cluster("east"))];
    let flow = prop::sample::select(vec![Flow::New, Flow::Held]);
    let answers: Vec<(&str, Vec<(ClusterId, ServiceKey)>)> = vec![
        ("NOERROR", vec![(cluster("east"), web()), (cluster("null"), null())]),
        ("NOERROR", vec![]),
        ("SERVFAIL", vec![]),
    ];
    let names = prop::sample::select(vec!["null", "-", "_x.example", "web.shop.svc.clusterset.local"]);
    prop_oneof![
        (when(), node(), target()).prop_map(|(when, from, to)| Expectation::Connect { when, from, to }),
        (when(), node(), target()).prop_map(|(when, from, to)| Expectation::Refuse { when, from, to }),
        (when(), node(), names, prop::sample::select(answers)).prop_map(|(when, from, name, (rcode, any_of))| {
            Expectation::Dns { when, from, name: name.into(), rcode: rcode.into(), any_of }
        }),
        (during(), node(), target(), duration(), flow)
            .prop_map(|(during, from, to, at_most, flow)| Expectation::Outage { during, from, to, at_most, flow }),
        (during(), prop::sample::select(watched.to_vec()))
            .prop_map(|(during, what)| Expectation::Unchanged { during, what }),
        (prop_oneof![duration().prop_map(When::By), window()], prop::sample::select(vec!["west", "null"]))
            .prop_map(|(when, name)| Expectation::Refused { when, cluster: cluster(name) }),
        prop_oneof![duration().prop_map(When::By), window()].prop_map(|when| Expectation::Settled { when }),
    ]
}

/// A world in which names look like something else to YAML.
fn odd_world() -> Scenario {
    let mut scenario = parse("odd.yaml", ODD).unwrap();
    scenario.timeline.clear();
    scenario
}

const ODD: &str = "
scenario: odd
about: x
clusters:
  west: { pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, gw-b*, 'null', true, 1e3, 0x10] }
  east:
    pods: 'fd00:2::/64'
    services: 'fd00:102::/112'
    nodes: [no*]
    nat: { mapping: endpoint-independent, filtering: address-dependent, ports: kept }
  'null': { pods: 10.3.0.0/16, services: 10.103.0.0/16, nodes: ['null*', 0], apart: true }
broker: own
workloads:
  - { service: web, namespace: shop, cluster: east, pods: 0, ports: [80/tcp, 53/udp], exported: true, headless: true }
  - { service: 'null', namespace: 'null', cluster: 'null', ports: [1/udp] }
expect: []
";

proptest! {
    #[test]
    fn every_drawn_scenario_is_written_and_read_as_it_is(seed: u64) {
        same(&fuzz::draw(seed, &[]));
    }

    #[test]
    fn every_scenario_that_a_file_can_say_is_written_and_read_as_it_is(
        name in "[ -~]{1,63}",
        about in text(),
        origin in prop::collection::vec(text(), 0..3),
        links in prop::collection::vec((duration(), duration(), 0..=1_000_000_u32, 1_280..=9_000_u16), 3),
        own in any::<bool>(),
        mut verbs in prop::collection::vec((duration(), verb()), 0..6),
        expect in prop::collection::vec(expectation(), 0..5),
    ) {
        let mut scenario = odd_world();
        scenario.name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        scenario.about = about;
        scenario.origin = origin;
        let spec = |(latency, jitter, loss_millionths, mtu): (Duration, Duration, u32, u16)| crate::LinkSpec {
            mtu,
            latency: latency / 10,
            jitter: jitter / 10,
            loss_millionths,
        };
        let [default, one, other] = <[_; 3]>::try_from(links).unwrap().map(spec);
        scenario.links.default = default;
        scenario.links.pairs.insert((cluster("east"), cluster("west")), one);
        scenario.links.pairs.insert((cluster("east"), cluster("null")), other);
        if !own {
            scenario.broker = Broker::Member(cluster("null"));
        }
        verbs.sort_by_key(|(at, _)| *at);
        let first = [Verb::PowerOff(at("west/gw-a")), Verb::Crash(at("west/gw-a"), Daemons::All)];
        let first = first.into_iter().map(|verb| (Duration::ZERO, verb));
        let mut joined = false;
        let mut said = |verb: &Verb| match verb {
            Verb::Join(_) => !core::mem::replace(&mut joined, true),
            Verb::Leave(_) => core::mem::replace(&mut joined, false),
            Verb::Rebuild(_) => !joined && own,
            Verb::Cut { from, to, .. } | Verb::Heal { from, to } => {
                from != to && (own || ![from, to].contains(&&Side::Api(ApiRef::Broker)))
            }
            Verb::Api(ApiRef::Broker, _) => own,
            Verb::Api(ApiRef::Cluster(_), _)
            | Verb::PowerOff(_)
            | Verb::PowerOn(_)
            | Verb::Crash(..)
            | Verb::Start(..)
            | Verb::Export(..)
            | Verb::Unexport(..)
            | Verb::Ready(..)
            | Verb::Unready(..)
            | Verb::Reslice(..)
            | Verb::ClockSkew(..)
            | Verb::ClockRate(..)
            | Verb::NatRemap(_)
            | Verb::ChangeAddress(_) => true,
        };
        let acts = first.chain(verbs).filter(|(_, verb)| said(verb));
        scenario.timeline = acts.map(|(at, verb)| Act { at, verb }).collect();
        scenario.expect = expect;
        scenario.needs = super::super::implied(&scenario.links, &scenario.timeline, &scenario.expect);
        scenario.needs.insert(Ability::Deterministic);
        same(&scenario);
    }
}
