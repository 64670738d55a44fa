//! What each word of the format becomes.

use super::super::parse;
use super::BASE;
use crate::{
    Ability, Act, ApiFault, ApiRef, Broker, Daemon, Daemons, Expectation, Flow, LinkSpec, NodeRef, NodeSpec, Rate,
    Scenario, Side, Skew, Target, Verb, Watched, When, Which,
};
use core::time::Duration;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{CableDriver, Protocol, ServiceKey};
use tombolo_core::nat::boxes::{Behaviour, Dependence};

const HEAD: &str = "
scenario: every word
about: >
  One of
  each.
origin: [B01, submariner#2747]
needs: [delay]
clusters:
  west: { pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, gw-b*, worker] }
  east.prod: { pods: fd00:2::/48, services: fd00:102::/112, nodes: [gw-a*, worker] }
broker: own
cable: vxlan
links:
  default: { latency: 10ms, jitter: 2ms, mtu: 1400 }
  pairs: [{ between: [west, east.prod], loss: 0.25% }]
workloads:
  - { service: web, namespace: shop, cluster: east.prod, pods: 2, ports: [80, 53/udp], exported: true }
  - { service: web, namespace: shop, cluster: west, ports: [80/tcp] }
";

fn scenario(tail: &str) -> Scenario {
    parse("words.yaml", &format!("{HEAD}{tail}")).unwrap_or_else(|errors| panic!("{errors}"))
}

fn verb(text: &str) -> Verb {
    let tail = format!(
        "timeline: [{{ at: 1s, do: {{ power_off: west/gw-b }} }}, {{ at: 1s, do: {{ {text} }} }}]\nexpect: []\n"
    );
    let timeline = scenario(&tail).timeline;
    assert_eq!(timeline.len(), 2);
    timeline.into_iter().next_back().unwrap().verb
}

fn expectation(text: &str) -> Expectation {
    let expect = scenario(&format!("expect: [{{ {text} }}]\n")).expect;
    assert_eq!(expect.len(), 1);
    expect.into_iter().next().unwrap()
}

fn id(text: &str) -> ClusterId {
    text.parse().unwrap()
}

fn node(cluster: &str, which: Which) -> NodeRef {
    NodeRef { cluster: id(cluster), which }
}

fn named(cluster: &str, name: &str) -> NodeRef {
    node(cluster, Which::Named(name.parse().unwrap()))
}

fn web() -> ServiceKey {
    ServiceKey { namespace: "shop".parse().unwrap(), name: "web".parse().unwrap() }
}

fn name_of_web(port: u16, protocol: Protocol) -> Target {
    Target::Name("web.shop.svc.clusterset.local".to_owned(), port, protocol)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn the_world_is_as_written() {
    let scenario = scenario("expect: []\n");
    assert_eq!((scenario.name.as_str(), scenario.about.as_str()), ("every word", "One of each."));
    assert_eq!(scenario.origin, ["B01", "submariner#2747"]);
    assert_eq!((scenario.broker, scenario.cable), (Broker::Own, CableDriver::Vxlan));
    let west = &scenario.clusters[&id("west")];
    assert_eq!((west.pods, west.services), ("10.1.0.0/16".parse().unwrap(), "10.101.0.0/16".parse().unwrap()));
    let nodes = [("gw-a", true), ("gw-b", true), ("worker", false)];
    assert_eq!(west.nodes, nodes.map(|(name, gateway)| NodeSpec { name: name.parse().unwrap(), gateway }));
    let [first, second] = &scenario.workloads[..] else { panic!("two workloads") };
    assert_eq!((first.service.clone(), first.cluster.clone()), (web(), id("east.prod")));
    assert_eq!((first.pods, first.exported), (2, true));
    assert_eq!(first.ports, [(80, Protocol::Tcp), (53, Protocol::Udp)]);
    assert_eq!((second.pods, second.exported), (1, false));
}

#[test]
fn a_pair_of_clusters_keeps_what_it_does_not_change_and_stands_smaller_id_first() {
    let links = scenario("expect: []\n").links;
    let (latency, jitter) = (Duration::from_millis(10), Duration::from_millis(2));
    let default = LinkSpec { latency, jitter, loss_millionths: 0, mtu: 1_400 };
    assert_eq!(links.default, default);
    let pairs: Vec<_> = links.pairs.into_iter().collect();
    assert_eq!(pairs, [((id("east.prod"), id("west")), LinkSpec { loss_millionths: 2_500, ..default })]);
}

#[test]
fn abilities_follow_from_what_is_written() {
    let needs = scenario("expect: []\n").needs;
    assert_eq!(needs.into_iter().collect::<Vec<_>>(), [Ability::Loss, Ability::Delay, Ability::Jitter]);
    let held =
        "expect: [{ during: 1s..2s, outage: { from: west/worker, to: 10.0.0.1:80, at_most: 1s, flow: held } }]\n";
    assert!(scenario(held).needs.contains(&Ability::HeldFlows));
}

#[test]
fn what_is_left_out_has_its_default() {
    let text = BASE.lines().filter(|line| !line.starts_with("links:")).collect::<Vec<_>>().join("\n");
    let scenario = parse("base.yaml", &text).unwrap();
    assert_eq!((scenario.links.default, scenario.cable), (LinkSpec::default(), CableDriver::Wireguard));
    assert!(scenario.links.pairs.is_empty() && scenario.needs.is_empty() && scenario.origin.is_empty());
}

#[test]
fn power_and_processes() {
    assert_eq!(verb("power_off: west/gw-a"), Verb::PowerOff(named("west", "gw-a")));
    assert_eq!(verb("power_on: west/last-powered-off"), Verb::PowerOn(node("west", Which::LastPoweredOff)));
    assert_eq!(verb("power_on: west/worker"), Verb::PowerOn(named("west", "worker")));
    assert_eq!(
        verb("crash: { node: west/active-gateway, daemon: gateway }"),
        Verb::Crash(node("west", Which::ActiveGateway), Daemons::One(Daemon::Gateway))
    );
    assert_eq!(
        verb("crash: { node: west/worker, daemon: route-agent }"),
        Verb::Crash(named("west", "worker"), Daemons::One(Daemon::RouteAgent))
    );
    assert_eq!(
        verb("start: { node: west/gateway-to-east.prod, daemon: all }"),
        Verb::Start(node("west", Which::GatewayTo(id("east.prod"))), Daemons::All)
    );
}

#[test]
fn cuts_and_their_sides() {
    let (gw_a, east) = (Side::Node(named("west", "gw-a")), Side::Cluster(id("east.prod")));
    let broker = Side::Api(ApiRef::Broker);
    let west_api = Side::Api(ApiRef::Cluster(id("west")));
    assert_eq!(
        verb("cut: { from: west/gw-a, to: east.prod, one_way: true }"),
        Verb::Cut { from: gw_a.clone(), to: east.clone(), one_way: true }
    );
    assert_eq!(
        verb("cut: { from: west/gw-a, to: broker }"),
        Verb::Cut { from: gw_a.clone(), to: broker, one_way: false }
    );
    assert_eq!(verb("heal: { from: west/api, to: west/gw-a }"), Verb::Heal { from: west_api, to: gw_a });
}

#[test]
fn apis_and_their_states() {
    let west = ApiRef::Cluster(id("west"));
    let states = [
        ("healthy", ApiFault::Healthy),
        ("slow, by: 6s", ApiFault::Slow(secs(6))),
        ("slow-deletes, by: 500ms", ApiFault::SlowDeletes(Duration::from_millis(500))),
        ("erroring", ApiFault::Erroring),
        ("down", ApiFault::Down),
        ("restarted-empty", ApiFault::RestartedEmpty),
        ("backed-up", ApiFault::BackedUp),
        ("history-expired", ApiFault::HistoryExpired),
    ];
    for (text, fault) in states {
        assert_eq!(verb(&format!("api: {{ of: west, is: {text} }}")), Verb::Api(west.clone(), fault));
    }
    assert_eq!(verb("api: { of: broker, is: down }"), Verb::Api(ApiRef::Broker, ApiFault::Down));
}

#[test]
fn the_broker_of_a_member_is_that_members_api() {
    let of_broker = BASE.replace("of: west", "of: broker");
    let timeline = parse("base.yaml", &of_broker).unwrap().timeline;
    assert_eq!(timeline[1].verb, Verb::Api(ApiRef::Cluster(id("east")), ApiFault::Slow(secs(6))));
}

#[test]
fn exports_come_and_go() {
    assert_eq!(verb("export: west/shop/web"), Verb::Export(id("west"), web()));
    assert_eq!(verb("unexport: east.prod/shop/web"), Verb::Unexport(id("east.prod"), web()));
}

#[test]
fn a_nat_box_is_of_two_kinds_and_keeps_ports_or_not() {
    let with = |nat: &str| BASE.replacen("worker] }", &format!("worker], nat: {{ {nat} }} }}"), 1);
    let nat = |text: &str| parse("nat.yaml", &with(text)).unwrap_or_else(|e| panic!("{e}")).clusters[&id("west")].nat;
    let behaviour = |mapping, filtering, keeps_ports| Some(Behaviour { mapping, filtering, keeps_ports });
    let (nothing, address, both) = (Dependence::Nothing, Dependence::Address, Dependence::AddressAndPort);
    let text = "mapping: endpoint-independent, filtering: address-dependent";
    assert_eq!(nat(text), behaviour(nothing, address, false));
    let text = "mapping: address-dependent, filtering: address-and-port-dependent, ports: kept";
    assert_eq!(nat(text), behaviour(address, both, true));
    let verbs = ["nat_remap: west", "change_address: west"].map(|verb| {
        let text = with("mapping: endpoint-independent, filtering: endpoint-independent");
        let text = text.replace("power_on: west/last-powered-off", verb);
        parse("nat.yaml", &text).unwrap_or_else(|e| panic!("{e}")).timeline.pop().unwrap().verb
    });
    assert_eq!(verbs, [Verb::NatRemap(id("west")), Verb::ChangeAddress(id("west"))]);
}

#[test]
fn clocks_are_wrong_by_a_time_or_a_share() {
    let (gw_a, active) = (named("west", "gw-a"), node("west", Which::ActiveGateway));
    let skew = |by| Verb::ClockSkew(gw_a.clone(), by);
    assert_eq!(verb("clock_skew: { node: west/gw-a, by: 1h }"), skew(Skew::Ahead(secs(3_600))));
    assert_eq!(verb("clock_skew: { node: west/gw-a, by: -1.5s }"), skew(Skew::Behind(Duration::from_millis(1_500))));
    let rate = |millionths| Verb::ClockRate(active.clone(), Rate(millionths));
    assert_eq!(verb("clock_rate: { node: west/active-gateway, by: 0.25% }"), rate(2_500));
    assert_eq!(verb("clock_rate: { node: west/active-gateway, by: -10% }"), rate(-100_000));
}

#[test]
fn entries_of_one_time_keep_their_order() {
    let tail = "timeline:\n  - { at: 1m30s, do: { power_off: west/gw-b } }\n  - { at: 90s, do: { power_off: west/gw-a } }\nexpect: []\n";
    let act = |name| Act { at: secs(90), verb: Verb::PowerOff(named("west", name)) };
    assert_eq!(scenario(tail).timeline, [act("gw-b"), act("gw-a")]);
}

#[test]
fn probes_and_their_targets() {
    let from = named("west", "worker");
    assert_eq!(
        expectation("by: 10s, connect: { from: west/worker, to: web.shop.svc.clusterset.local:80 }"),
        Expectation::Connect { when: When::By(secs(10)), from: from.clone(), to: name_of_web(80, Protocol::Tcp) }
    );
    assert_eq!(
        expectation("always: true, connect: { from: west/worker, to: \"WEB.shop.svc.clusterset.local.:53/udp\" }"),
        Expectation::Connect { when: When::Always, from: from.clone(), to: name_of_web(53, Protocol::Udp) }
    );
    let address = Target::Address("fd00::1".parse().unwrap(), 80, Protocol::Tcp);
    assert_eq!(
        expectation("during: 1s..1m, refuse: { from: west/worker, to: \"[fd00::1]:80\" }"),
        Expectation::Refuse { when: When::During(secs(1), secs(60)), from: from.clone(), to: address.clone() }
    );
    assert_eq!(
        expectation("by: 1s, refuse: { from: west/worker, to: nobody.shop.svc.clusterset.local:80 }"),
        Expectation::Refuse {
            when: When::By(secs(1)),
            from: from.clone(),
            to: Target::Name("nobody.shop.svc.clusterset.local".to_owned(), 80, Protocol::Tcp),
        }
    );
    assert_eq!(
        expectation("during: 1s..2s, outage: { from: west/worker, to: \"[fd00::1]:80\", at_most: 250ms }"),
        Expectation::Outage {
            during: When::During(secs(1), secs(2)),
            from,
            to: address,
            at_most: Duration::from_millis(250),
            flow: Flow::New,
        }
    );
}

#[test]
fn a_name_may_name_the_cluster() {
    let text = "by: 1s, connect: { from: west/worker, to: east.prod.web.shop.svc.clusterset.local:80 }";
    let Expectation::Connect { to: Target::Name(name, ..), .. } = expectation(text) else { panic!("a name") };
    assert_eq!(name, "east.prod.web.shop.svc.clusterset.local");
}

#[test]
fn answers_of_dns() {
    let dns = |name: &str, rcode: &str, any_of: Vec<(ClusterId, ServiceKey)>| Expectation::Dns {
        when: When::By(secs(5)),
        from: named("west", "worker"),
        name: name.to_owned(),
        rcode: rcode.to_owned(),
        any_of,
    };
    assert_eq!(
        expectation(
            "by: 5s, dns: { from: west/worker, name: web.shop.svc.clusterset.local, any_of: [east.prod/shop/web] }"
        ),
        dns("web.shop.svc.clusterset.local", "NOERROR", vec![(id("east.prod"), web())])
    );
    assert_eq!(
        expectation("by: 5s, dns: { from: west/worker, name: no.shop.svc.clusterset.local, rcode: NXDOMAIN }"),
        dns("no.shop.svc.clusterset.local", "NXDOMAIN", Vec::new())
    );
}

#[test]
fn things_that_stay_and_worlds_that_settle() {
    assert_eq!(
        expectation("during: 1s..2s, unchanged: west/active-gateway"),
        Expectation::Unchanged { during: When::During(secs(1), secs(2)), what: Watched::ActiveGateway(id("west")) }
    );
    assert_eq!(
        expectation("always: true, unchanged: west/path-to-east.prod"),
        Expectation::Unchanged { during: When::Always, what: Watched::PathTo(id("west"), id("east.prod")) }
    );
    assert_eq!(expectation("by: 60s, settled: true"), Expectation::Settled { when: When::By(secs(60)) });
}

#[test]
fn a_cluster_that_stands_apart_may_have_anothers_ranges_and_joins_once() {
    let whole = |clusters: &str, timeline: &str| {
        let text = format!(
            "scenario: x\nabout: x\nbroker: own\nexpect: []\nclusters:\n  \
             west: {{ pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw*] }}\n{clusters}\ntimeline: {timeline}\n"
        );
        parse("x.yaml", &text).map_err(|errors| errors.to_string())
    };
    let north = "  north: { pods: 10.1.0.0/16, services: 10.103.0.0/16, nodes: [gw*], apart: true }";
    let scenario = whole(north, "[{ at: 9s, do: { join: north } }]").unwrap();
    assert!(scenario.clusters[&id("north")].apart && !scenario.clusters[&id("west")].apart);
    assert_eq!(scenario.timeline[0].verb, Verb::Join(id("north")));
    let told = |timeline| whole(north, timeline).unwrap_err();
    assert!(told("[{ at: 9s, do: { join: west } }]").contains("cluster west is in the clusterset already"));
    let twice = told("[{ at: 9s, do: { join: north } }, { at: 10s, do: { join: north } }]");
    assert!(twice.contains("cluster north is in the clusterset already"), "{twice}");
    let own = "  north: { pods: 10.3.0.0/16, services: 10.3.4.0/24, nodes: [gw*], apart: true }";
    assert!(whole(own, "[]").unwrap_err().contains("overlap"));
}
