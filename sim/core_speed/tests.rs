//! The world with machines that are small enough to see through.
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks for one kind of fact among all")]

use super::*;
use crate::world::{Kernel, fixtures};
use std::collections::VecDeque;
use std::net::IpAddr;
use tombolo_core::base::{Cidr, Instant, Machine, Wall};
use tombolo_core::model::{ApiError, Kind, Lease, Object, WatchEvent};
use tombolo_core::nat::NAT_PORT;
use tombolo_core::network::constants::{OVERLAY_LINK, OVERLAY_PORT, OVERLAY_VNI};
use tombolo_core::network::{
    Arrival, Link, LinkKind, Mac, Neighbour, Packet, Route, RouteId, RouteKind, Table, Transport, Wanted,
};
use tombolo_core::roles::{Input, Output, Role, Via};
use tombolo_scenarios::{ApiFault, Change, Daemons, Outcome as Probed, ProbeTarget, Target};

/// Notes each input as a refused event, and writes a lease once.
#[derive(Clone, PartialEq, Debug)]
struct Notes {
    name: String,
    lease: bool,
    asked: Option<Instant>,
    every: Duration,
    next: Option<Instant>,
    out: VecDeque<Output>,
}

impl Notes {
    fn note(&mut self, text: String) {
        self.out.push_back(Output::Event(tombolo_core::roles::Event::Ignored { because: text }));
    }
}

impl Machine for Notes {
    type Input = Input;
    type Output = Output;
    type Reason = ();

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Wall(_) => {
                if self.lease && self.asked.is_none() {
                    self.asked = Some(now);
                    self.out.push_back(Output::Write(RequestId(1), Api::Local, Write::Create(lease(&self.name))));
                }
                self.next.get_or_insert(now + self.every);
            }
            Input::Watched(api, WatchEvent::Applied(object, _)) => self.note(format!("{api}: + {}", object.key())),
            Input::Watched(api, WatchEvent::Deleted(key)) => self.note(format!("{api}: - {key}")),
            Input::Watched(api, WatchEvent::Began(kind)) => self.note(format!("{api}: began {kind}")),
            Input::Watched(api, WatchEvent::Lost(kind)) => self.note(format!("{api}: lost {kind}")),
            Input::Watched(api, WatchEvent::Synced(kind)) => self.note(format!("{api}: synced {kind}")),
            Input::Written(_, result) => self.note(match result {
                Ok(_) => "written".into(),
                Err(error) => format!("not written: {error}"),
            }),
            Input::Hello { via, from, bytes } => self.note(format!("heard {bytes:?} from {from} on {via:?}")),
            Input::Probe { arrival, bytes, .. } => self.note(format!("asked {bytes:?} out of {arrival:?}")),
            Input::LookedUp(result) => self.note(format!("seen as {result:?}")),
            Input::Applied(result) => self.note(format!("applied: {}", result.is_ok())),
            Input::Read(..) | Input::Stop | Input::Leave => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Instant, ())> {
        self.next.map(|at| (at, ()))
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(at) = self.next.filter(|at| *at <= now) {
            self.next = Some(at + self.every);
        }
    }
}

impl Role for Notes {
    fn watches(&self) -> &'static [(Api, Kind)] {
        &[(Api::Local, Kind::Lease), (Api::Local, Kind::ServiceExport), (Api::Broker, Kind::ServiceExport)]
    }
}

fn lease(name: &str) -> Object {
    Object::from(Lease {
        name: name.into(),
        holder: None,
        duration: Duration::from_secs(15),
        acquired: Wall::default(),
        renewed: Wall::default(),
        transitions: 0,
        epoch: tombolo_core::base::Epoch(1),
    })
}

fn notes(start: &Start<'_>) -> Box<dyn Driven> {
    Box::new(Notes {
        name: format!("{}-{}", start.node.name, start.boot),
        lease: start.daemon == Daemon::RouteAgent,
        asked: None,
        every: Duration::from_secs(7),
        next: None,
        out: VecDeque::new(),
    })
}

fn world(spawn: Spawn) -> CoreSpeed {
    CoreSpeed::with_daemons(&fixtures::two_clusters(), 1, spawn).unwrap()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn api(cluster: &str) -> ApiRef {
    ApiRef::Cluster(cluster.parse().unwrap())
}

/// What the daemons of a node noted from `from` on.
fn noted(facts: &[Fact], place: &str) -> Vec<String> {
    let of_place = facts.iter().filter(|fact| fact.place.to_string() == place);
    of_place
        .filter_map(|fact| match &fact.what {
            What::Told(tombolo_core::roles::Event::Ignored { because }) => Some(because.clone()),
            _ => None,
        })
        .collect()
}

fn run(world: &mut CoreSpeed, until: Duration) -> Vec<Fact> {
    world.advance(until).unwrap();
    world.facts()
}

#[test]
fn a_daemon_lists_watches_and_writes() {
    let mut world = world(notes);
    let facts = run(&mut world, secs(2));
    let wanted = [
        "local: began Lease",
        "local: synced Lease",
        "local: began ServiceExport",
        "local: synced ServiceExport",
        "broker: began ServiceExport",
        "broker: synced ServiceExport",
        "written",
        "local: + Lease worker-1",
    ];
    let got: std::collections::BTreeSet<String> = noted(&facts, "west/worker route-agent").into_iter().collect();
    assert_eq!(got, wanted.map(String::from).into());
    let wrote = facts.iter().find(|fact| fact.place == Place::Api(api("west")) && fact.at > Duration::ZERO).unwrap();
    let What::Wrote { by, change, key, .. } = &wrote.what else { panic!("{wrote:?}") };
    assert_eq!((by.to_string().as_str(), *change), ("west/worker route-agent", Change::Created));
    assert_eq!(key.to_string(), "Lease worker-1");
}

#[test]
fn a_crashed_daemon_starts_afresh_and_its_old_answers_are_for_nobody() {
    let mut world = world(notes);
    run(&mut world, secs(1));
    let worker = ("west".parse().unwrap(), "worker".parse().unwrap());
    let (cluster, node): (tombolo_core::base::ClusterId, tombolo_core::base::NodeName) = worker;
    let crash = Fault::Crash(cluster.clone(), node.clone(), Daemons::One(Daemon::RouteAgent));
    assert_eq!(world.act(&crash).unwrap(), "west/worker: route-agent crashed");
    assert_eq!(world.act(&crash).unwrap(), "nothing ran on west/worker");
    let dead = run(&mut world, secs(5));
    assert_eq!(noted(&dead, "west/worker route-agent"), Vec::<String>::new());
    world.act(&Fault::Start(cluster, node, Daemons::One(Daemon::RouteAgent))).unwrap();
    let facts = run(&mut world, secs(6));
    let got = noted(&facts, "west/worker route-agent");
    assert!(
        got.contains(&"local: + Lease worker-1".into()) && got.contains(&"local: + Lease worker-2".into()),
        "{got:?}"
    );
}

#[test]
fn a_request_to_an_api_that_is_down_is_given_up_after_five_seconds() {
    let mut world = world(notes);
    world.act(&Fault::Api(api("west"), ApiFault::Down)).unwrap();
    let facts = run(&mut world, secs(6));
    let told = facts.iter().find(|fact| {
        fact.what
            == What::Told(tombolo_core::roles::Event::Ignored {
                because: format!("not written: {}", ApiError::Unreachable),
            })
    });
    let at = told.expect("it was told").at;
    assert!(at >= secs(5) && at < secs(5) + Duration::from_millis(200), "{at:?}");
}

#[test]
fn a_slow_api_writes_at_once_and_answers_late() {
    let mut world = world(notes);
    world.act(&Fault::Api(api("west"), ApiFault::Slow(secs(3)))).unwrap();
    let facts = run(&mut world, secs(5));
    let wrote = facts.iter().find(|fact| fact.place == Place::Api(api("west")) && fact.at > Duration::ZERO).unwrap().at;
    let told = facts.iter().find(|fact| {
        fact.place.to_string() == "west/worker route-agent"
            && fact.what == What::Told(tombolo_core::roles::Event::Ignored { because: "written".into() })
    });
    assert!(wrote < Duration::from_millis(300));
    assert!(told.unwrap().at >= wrote + secs(3));
}

#[test]
fn a_watch_lists_anew_after_an_outage_since_the_store_may_be_an_old_one() {
    let mut world = world(notes);
    run(&mut world, secs(2));
    world.act(&Fault::Api(api("east"), ApiFault::Down)).unwrap();
    run(&mut world, secs(60));
    let east = "east".parse().unwrap();
    world.act(&Fault::Unexport(east, fixtures::web())).unwrap();
    let silent = run(&mut world, secs(61));
    assert_eq!(noted(&silent, "east/worker route-agent"), Vec::<String>::new());
    world.act(&Fault::Api(api("east"), ApiFault::Healthy)).unwrap();
    let facts = run(&mut world, secs(120));
    let of_exports = |whose| {
        let mut noted = noted(&facts, whose);
        noted.retain(|note| note.contains("ServiceExport"));
        noted.sort();
        noted
    };
    let broker = ["broker: began ServiceExport", "broker: synced ServiceExport"];
    let local = ["local: began ServiceExport", "local: synced ServiceExport"];
    assert_eq!(of_exports("east/worker route-agent"), [broker, local].concat());
    // East is also the broker, but its own objects are not in the broker's space.
    assert_eq!(of_exports("west/worker route-agent"), broker);
}

#[test]
fn expired_history_makes_every_watch_list_anew() {
    let mut world = world(notes);
    run(&mut world, secs(2));
    world.act(&Fault::Api(api("west"), ApiFault::HistoryExpired)).unwrap();
    let facts = run(&mut world, secs(5));
    let mut got = noted(&facts, "west/worker route-agent");
    // The watches of two kinds are two connections.
    got.retain(|note| note.contains("Lease"));
    assert_eq!(got, ["local: lost Lease", "local: began Lease", "local: + Lease worker-1", "local: synced Lease"]);
}

#[test]
fn a_node_cut_from_its_api_hears_what_it_missed_when_healed() {
    let mut world = world(notes);
    run(&mut world, secs(2));
    let node = Host::Node("west".parse().unwrap(), "gw-a".parse().unwrap());
    let (ones, others) = (vec![node], vec![Host::Api(api("west"))]);
    world.act(&Fault::Cut { from: ones.clone(), to: others.clone(), one_way: false }).unwrap();
    let number = world.find_api(&api("west")).unwrap();
    assert!(world.write_as_world(number, Write::Create(lease("late"))));
    let cut = run(&mut world, secs(100));
    let mut lost = noted(&cut, "west/gw-a gateway");
    lost.retain(|note| note.contains("Lease"));
    assert_eq!(lost, ["local: lost Lease"], "nothing else comes through a cut");
    assert_eq!(noted(&cut, "west/gw-b gateway"), ["local: + Lease late"]);
    world.act(&Fault::Heal { from: ones, to: others }).unwrap();
    let healed = run(&mut world, secs(120));
    let mut noted = noted(&healed, "west/gw-a gateway");
    noted.retain(|note| note.contains("Lease"));
    let listed = ["local: began Lease", "local: + Lease late", "local: + Lease worker-1", "local: synced Lease"];
    assert_eq!(noted, listed);
}

/// Wants an overlay to the other nodes of its cluster, and greets one of them.
#[derive(Clone, PartialEq, Debug)]
struct Greeter {
    notes: Notes,
    wanted: Arc<Wanted>,
    greets: Option<IpAddr>,
}

impl Machine for Greeter {
    type Input = Input;
    type Output = Output;
    type Reason = ();

    fn handle(&mut self, input: Input, now: Instant) {
        match &input {
            Input::Wall(_) if self.notes.next.is_none() => {
                self.notes.out.push_back(Output::Network(Arc::clone(&self.wanted)));
            }
            Input::Applied(Ok(())) => {
                let greeting = self.greets.map(|to| Output::Send { via: Via::Overlay, to, bytes: vec![1, 2, 3] });
                self.notes.out.extend(greeting);
            }
            _ => {}
        }
        self.notes.handle(input, now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.notes.poll_output()
    }

    fn poll_timeout(&self) -> Option<(Instant, ())> {
        self.notes.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.notes.handle_timeout(now);
    }
}

impl Role for Greeter {
    fn watches(&self) -> &'static [(Api, Kind)] {
        &[]
    }
}

fn overlay_address(host: HostId) -> IpAddr {
    format!("fd74::{:x}", host.0 + 1).parse().unwrap()
}

fn greeter(start: &Start<'_>) -> Box<dyn Driven> {
    if start.daemon == Daemon::Discovery || start.daemon == Daemon::Dns {
        return notes(start);
    }
    let link = LinkName(OVERLAY_LINK.into());
    let mac = |host: HostId| Mac([2, 0, 0, 0, 0, u8::try_from(host.0).unwrap()]);
    let mut wanted = Wanted::default();
    let own = start.layout.host(start.host).unwrap().address;
    let kind = LinkKind::Overlay { vni: OVERLAY_VNI, port: OVERLAY_PORT, local: own, mac: mac(start.host) };
    wanted.network.links.insert(link.clone(), Link { kind, mtu: 1450 });
    wanted.network.addresses.insert((link.clone(), overlay_address(start.host)), 64);
    let overlay: Cidr = "fd74::/64".parse().unwrap();
    let route = Route { kind: RouteKind::Out { link: link.clone(), via: None }, source: None, mtu: None };
    wanted.network.routes.insert(RouteId { table: Table::MAIN, to: overlay }, route);
    for (host, _) in start.layout.nodes_of(&start.node.cluster).filter(|(host, _)| *host != start.host) {
        let outer = start.layout.host(host).unwrap().address;
        wanted.network.neighbours.insert((link.clone(), overlay_address(host)), Neighbour { mac: mac(host), outer });
    }
    let peer = start.layout.find_node(&start.node.cluster, &"gw-a".parse().unwrap());
    let greets = peer.filter(|peer| *peer != start.host).map(overlay_address);
    Box::new(Greeter {
        notes: Notes {
            name: String::new(),
            lease: false,
            asked: None,
            every: secs(7),
            next: None,
            out: VecDeque::new(),
        },
        wanted: Arc::new(wanted),
        greets,
    })
}

#[test]
fn a_desired_network_is_planned_applied_told_and_carries_hellos() {
    let mut world = world(greeter);
    let facts = run(&mut world, secs(2));
    let steps = facts.iter().find_map(|fact| match &fact.what {
        What::Applied { steps, .. } if fact.place.to_string() == "west/worker" => Some(steps.clone()),
        _ => None,
    });
    assert!(steps.unwrap().iter().any(|step| step.starts_with("+ link vx-tombolo")));
    let heard = noted(&facts, "west/gw-a gateway");
    let from = overlay_address(world.layout.find_node(&"west".parse().unwrap(), &"worker".parse().unwrap()).unwrap());
    assert!(heard.contains(&format!("heard [1, 2, 3] from {from} on Overlay")), "{heard:?}");
}

#[test]
fn a_datagram_of_discovery_is_told_with_the_link_that_it_came_out_of_b13() {
    let mut world = world(greeter);
    run(&mut world, secs(2));
    let find = |node: &str| world.layout.find_node(&"west".parse().unwrap(), &node.parse().unwrap()).unwrap();
    let (from, to) = (find("worker"), find("gw-a"));
    let node_address = |host: HostId| world.layout.host(host).unwrap().address;
    let ways = [
        (Kernel::uplink(), node_address(from), node_address(to)),
        (LinkName(OVERLAY_LINK.into()), overlay_address(from), overlay_address(to)),
    ];
    for ((link, source, destination), byte) in ways.into_iter().zip(1..) {
        let transport = Transport::Udp { source: NAT_PORT, destination: NAT_PORT };
        let packet = Packet { source, destination, transport, ttl: 64, length: 60, mss: None, outer: None };
        let arrival = Arrival::Local { link: Some(link) };
        world.fabric.send(world.now, from, arrival, packet, Payload::Nat(vec![byte]));
    }
    let heard = noted(&run(&mut world, secs(3)), "west/gw-a gateway");
    assert_eq!(heard, ["asked [1] out of Uplink", "asked [2] out of Tunnel"]);
}

#[test]
fn a_kernel_outlives_the_process_and_dies_with_the_power() {
    let mut world = world(greeter);
    run(&mut world, secs(2));
    let (cluster, node): (tombolo_core::base::ClusterId, tombolo_core::base::NodeName) =
        ("west".parse().unwrap(), "worker".parse().unwrap());
    let host = world.layout.find_node(&cluster, &node).unwrap();
    let links = |world: &CoreSpeed| world.fabric.kernel(host).unwrap().ours().links.len();
    world.act(&Fault::Crash(cluster.clone(), node.clone(), Daemons::All)).unwrap();
    assert_eq!(links(&world), 1);
    world.act(&Fault::Start(cluster.clone(), node.clone(), Daemons::All)).unwrap();
    let facts = run(&mut world, secs(3));
    assert!(facts.iter().all(|fact| !matches!(fact.what, What::Applied { .. })), "what is there is adopted");
    world.act(&Fault::PowerOff(cluster.clone(), node.clone())).unwrap();
    assert_eq!(links(&world), 0);
    world.act(&Fault::PowerOn(cluster, node)).unwrap();
    run(&mut world, secs(4));
    assert_eq!(links(&world), 1);
}

fn probe(world: &mut CoreSpeed, id: u64, from: (&str, &str), to: ProbeTarget, held: bool) -> Probed {
    let from = (from.0.parse().unwrap(), from.1.parse().unwrap());
    world.probe(ProbeId(id), &Probe { from, to, timeout: secs(1), held }).unwrap();
    let until = world.now() + secs(2);
    let facts = run(world, until);
    let outcome = facts.into_iter().find_map(|fact| match fact.what {
        What::Probed { id: ProbeId(of), outcome, .. } if of == id => Some(outcome),
        _ => None,
    });
    outcome.expect("every probe ends")
}

fn fetch(name: &str) -> ProbeTarget {
    ProbeTarget::Fetch(Target::Name(name.into(), 80, tombolo_core::model::Protocol::Tcp))
}

const OWN: &str = "web.shop.svc.cluster.local";

#[test]
fn a_service_of_the_own_cluster_is_reached_without_us() {
    let mut world = world(notes);
    run(&mut world, secs(1));
    let outcome = probe(&mut world, 1, ("east", "gw-a"), fetch(OWN), false);
    let Probed::Fetched { address, server } = outcome else { panic!("{outcome:?}") };
    assert_eq!(address.to_string(), "10.102.0.10");
    assert!(["gw-a", "worker"].contains(&server.as_str()), "{server}");
    let outcome = probe(&mut world, 2, ("west", "gw-a"), fetch(OWN), false);
    assert_eq!(outcome, Probed::Failed { because: "web.shop.svc.cluster.local: NXDOMAIN".into() });
}

#[test]
fn a_probe_says_how_far_it_came() {
    let mut world = world(notes);
    run(&mut world, secs(1));
    let tcp = tombolo_core::model::Protocol::Tcp;
    let to = |address: &str, port| ProbeTarget::Fetch(Target::Address(address.parse().unwrap(), port, tcp));
    let failed = |outcome: Probed| match outcome {
        Probed::Failed { because } => because,
        Probed::Fetched { .. } | Probed::Resolved { .. } => panic!("{outcome:?}"),
    };
    let far = failed(probe(&mut world, 1, ("west", "worker"), to("10.2.1.10", 80), false));
    assert_eq!(far, "no connection to 10.2.1.10:80 (west/worker: nobody has 10.2.1.10)");
    let closed = failed(probe(&mut world, 2, ("east", "worker"), to("10.2.2.10", 81), false));
    assert_eq!(closed, "10.2.2.10:81 reset the flow");
    let nobody = failed(probe(&mut world, 3, ("east", "worker"), to("10.2.2.99", 80), false));
    assert_eq!(nobody, "no connection to 10.2.2.99:80 (east/worker: no pod has 10.2.2.99)");
    let silent = failed(probe(&mut world, 4, ("west", "gw-a"), fetch("web.shop.svc.clusterset.local"), false));
    assert!(silent.ends_with("(west/worker: nobody answers on port 53)"), "{silent}");
}

#[test]
fn a_held_flow_lives_over_many_probes_until_its_server_forgets_it() {
    let mut world = world(notes);
    run(&mut world, secs(1));
    let pod = "10.2.1.10".parse().unwrap();
    let to = ProbeTarget::Fetch(Target::Address(pod, 80, tombolo_core::model::Protocol::Tcp));
    let served = Probed::Fetched { address: pod, server: "gw-a".into() };
    assert_eq!(probe(&mut world, 1, ("east", "worker"), to.clone(), true), served);
    assert_eq!(probe(&mut world, 2, ("east", "worker"), to.clone(), true), served);
    assert_eq!(world.flows.served_len(), 1, "one flow for both");
    let (cluster, node) = ("east".parse().unwrap(), "gw-a".parse().unwrap());
    world.act(&Fault::PowerOff(cluster, node)).unwrap();
    let (cluster, node) = ("east".parse().unwrap(), "gw-a".parse().unwrap());
    world.act(&Fault::PowerOn(cluster, node)).unwrap();
    let reset = Probed::Failed { because: "10.2.1.10:80 reset the flow".into() };
    assert_eq!(probe(&mut world, 3, ("east", "worker"), to.clone(), true), reset);
    let dead = Probed::Failed { because: "the flow was reset".into() };
    assert_eq!(probe(&mut world, 4, ("east", "worker"), to, true), dead);
}

#[test]
fn pods_of_a_dead_node_are_taken_out_after_the_grace_time_and_come_back() {
    let mut world = world(notes);
    run(&mut world, secs(1));
    let (cluster, node): (tombolo_core::base::ClusterId, tombolo_core::base::NodeName) =
        ("east".parse().unwrap(), "worker".parse().unwrap());
    world.act(&Fault::PowerOff(cluster.clone(), node.clone())).unwrap();
    let ready = |facts: &[Fact]| -> Vec<(u64, Vec<bool>)> {
        let slices = facts.iter().filter_map(|fact| match &fact.what {
            What::Wrote { object: Object::EndpointSlice(slice), .. } => {
                Some((fact.at.as_secs(), slice.backends.iter().map(|backend| backend.ready).collect()))
            }
            _ => None,
        });
        slices.collect()
    };
    let facts = run(&mut world, secs(60));
    assert_eq!(ready(&facts), [(41, vec![false, true, false])]);
    for id in 0..10 {
        let outcome = probe(&mut world, id, ("east", "gw-a"), fetch(OWN), false);
        assert!(matches!(&outcome, Probed::Fetched { server, .. } if server == "gw-a"), "{outcome:?}");
    }
    let back = world.now();
    world.act(&Fault::PowerOn(cluster, node)).unwrap();
    let facts = run(&mut world, back + secs(10));
    assert_eq!(ready(&facts), [(back.as_secs() + 2, vec![true, true, true])]);
}

#[test]
fn the_same_seed_gives_the_same_facts_and_another_seed_others() {
    let story = |seed: u64| {
        let mut world = CoreSpeed::with_daemons(&fixtures::two_clusters(), seed, greeter).unwrap();
        world.advance(secs(2)).unwrap();
        world.act(&Fault::PowerOff("west".parse().unwrap(), "gw-a".parse().unwrap())).unwrap();
        world
            .probe(
                ProbeId(1),
                &Probe {
                    from: ("east".parse().unwrap(), "gw-a".parse().unwrap()),
                    to: fetch(OWN),
                    timeout: secs(1),
                    held: false,
                },
            )
            .unwrap();
        world.advance(secs(50)).unwrap();
        world.facts()
    };
    assert_eq!(story(5), story(5));
    assert_ne!(story(5), story(6));
}

#[test]
fn a_machine_that_never_lets_time_pass_breaks_the_world_with_its_name() {
    #[derive(Clone, PartialEq, Debug)]
    struct Restless(Option<Instant>);
    impl Machine for Restless {
        type Input = Input;
        type Output = Output;
        type Reason = ();
        fn handle(&mut self, _: Input, now: Instant) {
            self.0 = Some(now);
        }
        fn poll_output(&mut self) -> Option<Output> {
            None
        }
        fn poll_timeout(&self) -> Option<(Instant, ())> {
            self.0.map(|at| (at, ()))
        }
        fn handle_timeout(&mut self, _: Instant) {}
    }
    impl Role for Restless {
        fn watches(&self) -> &'static [(Api, Kind)] {
            &[]
        }
    }
    let mut world = CoreSpeed::with_daemons(&fixtures::two_clusters(), 1, |_| Box::new(Restless(None))).unwrap();
    let broken = world.advance(secs(1)).unwrap_err().to_string();
    assert!(broken.contains("wants to wake") && broken.contains("law 4"), "{broken}");
}
