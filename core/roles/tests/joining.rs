//! The holder claims the cluster's ranges before it announces them, and announces nothing that is another's.

use super::cluster::{EAST, WEST, candidates, claims, cluster, record, west};
use super::scene::{Scene, settled};
use crate::base::{Epoch, Wall};
use crate::model::{Api, CableDriver, Claims, Endpoint, Kind, Object};
use crate::roles::{Event, Gateway, GatewayConfig, Input};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// Its pods meet those of west.
const NORTH: (&str, &str, &str, &str) = ("north", "uid-north", "10.1.128.0/17", "10.103.0.0/16");
const REFUSAL: &str = "is refused, and announces nothing: ranges overlap: 10.1.0.0/16 for pods of west meets \
                       10.1.128.0/17 for pods of north";

/// The kinds of what `name` has at the broker.
fn announces(scene: &Scene, name: &str) -> Vec<Kind> {
    let kinds = [Kind::Cluster, Kind::Candidates, Kind::Endpoint].into_iter();
    let of = |kind: &Kind| {
        let objects = scene.apis.of_kind(Api::Broker, *kind).into_iter();
        objects.filter_map(Object::cluster).any(|of| *of == cluster(name))
    };
    kinds.filter(of).collect()
}

/// Who has a claim.
fn claimers(scene: &Scene) -> Vec<String> {
    let claims = scene.apis.of_kind(Api::Broker, Kind::Claims).into_iter();
    let members = claims.flat_map(|object| if let Object::Claims(c) = object { c.members.keys() } else { panic!() });
    members.map(|cluster| cluster.as_str().into()).collect()
}

fn is_here(scene: &Scene, object: &Object) -> bool {
    scene.apis.get(Api::Local, &object.key()).is_some()
}

fn claims_version(scene: &Scene) -> crate::model::Version {
    scene.apis.get(Api::Broker, &claims(&[]).key()).unwrap().1
}

/// The gateway daemon starts anew, with this set-up.
fn restart(scene: &mut Scene, change: impl FnOnce(&mut GatewayConfig)) {
    let mut config = GatewayConfig { process: "2".into(), ..west("gw-a", 0) };
    config.node.boot = scene.now;
    change(&mut config);
    scene.gateway = Gateway::new(config);
    scene.inputs.push_back(Input::Wall(Wall::from_unix_secs(2_000)));
    scene.list(Api::Local);
    scene.list(Api::Broker);
}

#[test]
fn the_holder_claims_its_ranges_before_it_announces_them() {
    let scene = settled(&[record("east", 2, 7), claims(&[EAST])]);
    assert_eq!(claimers(&scene), ["east", "west"]);
    assert_eq!(scene.written.first(), Some(&Kind::Claims));
    assert_eq!(scene.written.iter().filter(|kind| **kind == Kind::Claims).count(), 1);
    assert_eq!(announces(&scene, "west"), [Kind::Cluster, Kind::Candidates, Kind::Endpoint]);
    assert_eq!(scene.told(), [""; 0]);
}

#[test]
fn ranges_that_another_has_claimed_are_not_announced_and_nothing_of_the_others_is_believed() {
    let scene = settled(&[record("east", 2, 7), claims(&[EAST, NORTH])]);
    assert_eq!(scene.told(), [REFUSAL]);
    assert_eq!(announces(&scene, "west"), []);
    assert_eq!(scene.written, []);
    assert!(!is_here(&scene, &record("east", 2, 7)), "a cluster that is no member has no use for the others");
}

#[test]
fn a_plain_submariner_member_has_no_claim_and_its_record_counts_as_one() {
    let Object::Cluster(plain) = record("north", 3, 0) else { unreachable!() };
    let mut plain = (*plain).clone();
    plain.pods = vec!["10.1.128.0/17".parse().unwrap()];
    let scene = settled(&[Object::from(plain)]);
    assert_eq!(scene.told(), [REFUSAL]);
    assert_eq!(announces(&scene, "west"), []);
}

#[test]
fn pods_may_not_have_the_addresses_of_anothers_gateway() {
    let plain = Object::from(Endpoint {
        cluster: cluster("north"),
        cable_name: "submariner-cable-north-10-1-9-9".into(),
        node: super::cluster::node_name("gw-a"),
        private_ip: [10, 1, 9, 9].into(),
        public_ip: None,
        nat_enabled: false,
        discovery_port: None,
        subnets: vec![],
        driver: CableDriver::Wireguard,
        epoch: Epoch(0),
    });
    let scene = settled(&[record("north", 3, 0), plain]);
    assert_eq!(
        scene.told(),
        ["is refused, and announces nothing: ranges overlap: 10.1.0.0/16 for pods of west meets \
          10.1.9.9/32 for a node of north"]
    );
}

#[test]
fn another_cluster_under_the_same_id_is_refused_b36() {
    let stranger = ("west", "uid-stranger", "10.9.0.0/16", "10.109.0.0/16");
    let scene = settled(&[claims(&[stranger])]);
    let [told] = &scene.told()[..] else { panic!("{:?}", scene.told()) };
    assert!(told.contains("the id west belongs to another cluster"), "{told}");
    assert_eq!(scene.written, []);
}

#[test]
fn a_refused_cluster_is_taken_in_as_soon_as_nobody_is_in_its_way() {
    let mut scene = settled(&[record("north", 3, 7), claims(&[EAST, NORTH])]);
    assert_eq!(scene.told(), [REFUSAL]);
    scene.run(Duration::from_secs(120));
    assert_eq!(scene.told(), [REFUSAL], "told once");
    scene.show(Api::Broker, claims(&[EAST]));
    scene.delete(Api::Broker, &record("north", 3, 7).key());
    scene.run(Duration::from_secs(1));
    assert_eq!(claimers(&scene), ["east", "west"]);
    assert_eq!(announces(&scene, "west").len(), 3);
}

#[test]
fn what_was_announced_before_goes_on_though_the_claim_is_anothers() {
    let mut scene = Scene::new();
    scene.show(Api::Broker, record("west", 1, 900));
    scene.show(Api::Broker, record("east", 2, 7));
    scene.show(Api::Broker, claims(&[NORTH]));
    scene.list(Api::Local);
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(60));
    let [told] = &scene.told()[..] else { panic!("{:?}", scene.told()) };
    assert!(told.starts_with("announces as before, but its claim is refused: ranges overlap: "), "{told}");
    assert_eq!(announces(&scene, "west").len(), 3);
    assert!(is_here(&scene, &record("east", 2, 7)));
}

#[test]
fn a_restart_finds_the_own_claim_and_writes_nothing() {
    let mut scene = settled(&[record("east", 2, 7), claims(&[EAST])]);
    let before = claims_version(&scene);
    restart(&mut scene, |_| {});
    scene.run(Duration::from_secs(60));
    assert_eq!(claims_version(&scene), before);
    assert_eq!(scene.told(), [""; 0]);
    assert_eq!(announces(&scene, "west").len(), 3);
}

#[test]
fn other_ranges_than_before_have_to_be_claimed_first() {
    let mut scene = settled(&[claims(&[EAST])]);
    restart(&mut scene, |config| config.node.pods = vec!["10.2.4.0/24".parse().unwrap()]);
    scene.run(Duration::from_secs(60));
    let [told] = &scene.told()[..] else { panic!("{:?}", scene.told()) };
    assert!(told.contains("10.2.4.0/24 for pods of west meets 10.2.0.0/16 for pods of east"), "{told}");
    let there = scene.apis.get(Api::Broker, &record("west", 1, 0).key()).map(|(object, _)| object.clone());
    let Some(Object::Cluster(there)) = there else { panic!("withdrawn") };
    assert_eq!(there.pods, ["10.1.0.0/16".parse().unwrap()]);
}

#[test]
fn a_broker_that_lost_its_data_gets_all_claims_back_also_of_those_who_are_away() {
    let mut scene = settled(&[record("east", 2, 7), claims(&[EAST])]);
    scene.apis.forget(Api::Broker);
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(1));
    assert_eq!(claimers(&scene), ["east", "west"]);
    assert_eq!(announces(&scene, "west").len(), 3);
    assert_eq!(scene.told(), [""; 0]);
}

/// A broker that got a backup of before east joined would let another have east's ranges, were east away (F3).
#[test]
fn a_broker_that_got_old_claims_back_gets_those_that_came_since() {
    let of_west = |scene: &Scene| {
        let claims = scene.apis.of_kind(Api::Broker, Kind::Claims);
        let [Object::Claims(claims)] = claims.as_slice() else { panic!("{claims:?}") };
        let mut old = Claims::clone(claims);
        old.members.retain(|id, _| id.as_str() == "west");
        old
    };
    let mut scene = settled(&[claims(&[EAST])]);
    let old = of_west(&scene);
    scene.apis.put(Api::Broker, old.clone().into());
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(1));
    assert_eq!(claimers(&scene), ["east", "west"]);
    // One that left since has not lost its claim.
    let left = Claims { left: [(cluster("east"), Epoch(7))].into(), ..old.clone() };
    scene.apis.put(Api::Broker, left.into());
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(60));
    assert_eq!(claimers(&scene), ["west"]);
}

#[test]
fn a_claim_that_somebody_removes_or_that_meets_one_that_stands_is_not_given_back() {
    let newcomer = ("north", "uid-north", EAST.2, "10.103.0.0/16");
    for (members, is_listed) in [(&[WEST][..], false), (&[WEST, newcomer], true)] {
        let mut scene = settled(&[claims(&[EAST])]);
        scene.written.clear();
        if is_listed {
            scene.apis.put(Api::Broker, claims(members));
            scene.list(Api::Broker);
        } else {
            scene.show(Api::Broker, claims(members));
        }
        scene.run(Duration::from_secs(90));
        let expected: Vec<&str> = if is_listed { vec!["north", "west"] } else { vec!["west"] };
        assert_eq!((claimers(&scene), &scene.written[..]), (expected.iter().map(|id| (*id).into()).collect(), &[][..]));
    }
}

#[test]
fn a_broker_that_was_down_at_the_start_is_claimed_at_when_it_comes() {
    let mut scene = Scene::new();
    scene.broker_down = true;
    scene.list(Api::Local);
    scene.run(Duration::from_secs(60));
    assert_eq!(scene.endpoints(Api::Local), [("gw-a", 1_001)], "the own cluster works without it");
    scene.broker_down = false;
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(1));
    assert_eq!((claimers(&scene), announces(&scene, "west").len()), (vec!["west".into()], 3));
}

#[test]
fn who_may_not_write_claims_announces_on_the_claim_that_an_admin_wrote() {
    let mut scene = Scene::new();
    scene.forbidden = Some(Kind::Claims);
    let wider = ("west", "uid-west", "10.0.0.0/15", "10.101.0.0/16");
    scene.show(Api::Broker, claims(&[wider, EAST]));
    scene.list(Api::Local);
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(60));
    assert_eq!(scene.told(), [""; 0]);
    assert_eq!(announces(&scene, "west").len(), 3);
}

#[test]
fn a_broker_that_forbids_the_claim_is_asked_again_and_taken_at_its_word_meanwhile() {
    let mut scene = Scene::new();
    scene.forbidden = Some(Kind::Claims);
    scene.list(Api::Local);
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(20));
    assert_eq!(scene.told(), ["is refused, and announces nothing: the broker refuses the claim: not yours"]);
    assert_eq!(announces(&scene, "west"), []);
    scene.forbidden = None;
    scene.run(Duration::from_secs(30));
    assert_eq!(announces(&scene, "west").len(), 3);
}

#[test]
fn of_two_others_whose_ranges_meet_the_one_is_believed_that_is_known() {
    let Object::Cluster(rival) = record("centre", 3, 9) else { unreachable!() };
    let mut rival = (*rival).clone();
    rival.pods = vec!["10.2.4.0/24".parse().unwrap()];
    let rival = Object::from(rival);
    let slots = candidates("centre", 3, 9, &[("gw-a", 0)]);
    let mut scene = settled(&[record("east", 2, 7), claims(&[EAST])]);
    for object in [rival.clone(), slots.clone()] {
        scene.show(Api::Broker, object);
    }
    scene.run(Duration::from_secs(20));
    assert!(is_here(&scene, &record("east", 2, 7)) && !is_here(&scene, &rival) && !is_here(&scene, &slots));
    let ignored = scene.events.iter().filter(|event| matches!(event, Event::Ignored { .. })).collect::<Vec<_>>();
    let because = "what centre announces: 10.2.4.0/24 for pods of centre meets 10.2.0.0/16 for pods of east".into();
    assert_eq!(ignored, [&Event::Ignored { because }], "told once");
    scene.delete(Api::Broker, &record("east", 2, 7).key());
    scene.run(Duration::from_secs(1));
    assert!(is_here(&scene, &rival) && is_here(&scene, &slots), "nobody is in its way any more");
}

#[test]
fn of_two_others_who_come_at_once_the_one_is_believed_that_has_a_claim() {
    let Object::Cluster(rival) = record("centre", 3, 9) else { unreachable!() };
    let mut rival = (*rival).clone();
    rival.pods = vec!["10.2.4.0/24".parse().unwrap()];
    let rival = Object::from(rival);
    let scene = settled(&[claims(&[EAST]), rival.clone(), record("east", 2, 7)]);
    assert!(is_here(&scene, &record("east", 2, 7)) && !is_here(&scene, &rival));
}
