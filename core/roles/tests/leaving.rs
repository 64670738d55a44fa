//! A cluster leaves: its gateways take away all they have written, and nothing of others'.

use super::cluster::{EAST, WEST, candidates, card, claims, cluster, lease, record, west};
use super::scene::{Scene, settled};
use crate::base::{Epoch, Wall};
use crate::model::{Api, Claims, Kind, Object};
use crate::roles::{Event, Gateway, GatewayConfig, Input};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

fn east() -> Vec<Object> {
    [record("east", 2, 7), candidates("east", 2, 7, &[("gw-a", 0)]), claims(&[EAST])].into()
}

/// What an API shows that gateways write.
fn shown(scene: &Scene, api: Api) -> Vec<String> {
    let kinds = [Kind::Cluster, Kind::Endpoint, Kind::Candidates, Kind::Gateway, Kind::Lease];
    let objects = kinds.into_iter().flat_map(|kind| scene.apis.of_kind(api, kind));
    objects.map(|object| object.key().to_string()).collect()
}

fn claimers(scene: &Scene) -> Vec<String> {
    let claims = scene.apis.of_kind(Api::Broker, Kind::Claims).into_iter();
    let members = claims.flat_map(|object| if let Object::Claims(c) = object { c.members.keys() } else { panic!() });
    members.map(ToString::to_string).collect()
}

fn left(scene: &Scene) -> usize {
    scene.events.iter().filter(|event| **event == Event::Left).count()
}

fn leave(scene: &mut Scene) {
    scene.inputs.push_back(Input::Leave);
    scene.settle();
}

#[test]
fn the_holder_takes_all_away_the_claim_after_the_announcements_and_the_lease_last() {
    let mut scene = settled(&east());
    assert_eq!(shown(&scene, Api::Local).len(), 7, "{:?}", shown(&scene, Api::Local));
    scene.written.clear();
    leave(&mut scene);
    scene.run(Duration::from_secs(5));
    assert_eq!(shown(&scene, Api::Local), [""; 0]);
    assert_eq!(shown(&scene, Api::Broker), ["Cluster east", "Candidates east"]);
    assert_eq!(claimers(&scene), ["east"]);
    assert_eq!(scene.written.last(), Some(&Kind::Claims));
    assert_eq!(scene.written.len(), 4, "{:?}", scene.written);
    assert_eq!((left(&scene), scene.wanted.as_deref()), (1, Some(&Default::default())));
    scene.run(Duration::from_secs(120));
    assert_eq!((left(&scene), shown(&scene, Api::Local).len()), (1, 0), "and that is all");
}

#[test]
fn nobody_has_left_before_the_nodes_network_is_gone() {
    let mut scene = settled(&east());
    scene.applies = false;
    leave(&mut scene);
    scene.run(Duration::from_secs(20));
    assert_eq!(left(&scene), 0);
    assert_eq!(shown(&scene, Api::Local), ["Lease submariner-gateway-lock"], "it is still somebody's to finish");
    // What was applied just before is no proof.
    scene.inputs.push_back(Input::Applied(Ok(())));
    scene.run(Duration::from_secs(20));
    assert_eq!(left(&scene), 0);
    scene.inputs.push_back(Input::Applied(Err("busy".into())));
    scene.run(Duration::from_secs(1));
    assert_eq!(left(&scene), 0);
    scene.inputs.push_back(Input::Applied(Ok(())));
    scene.run(Duration::from_secs(5));
    assert_eq!((left(&scene), shown(&scene, Api::Local).len()), (1, 0));
}

#[test]
fn a_fellow_takes_only_its_card_away_and_has_left_when_all_is_gone() {
    let mut scene = Scene::new();
    for object in east() {
        scene.show(Api::Broker, object);
    }
    scene.show(Api::Broker, record("west", 1, 900));
    scene.show(Api::Broker, claims(&[EAST, WEST]));
    scene.show(Api::Local, lease(900, 1_000));
    scene.show(Api::Local, card("gw-b", 1, 1, Some(900)));
    scene.show(Api::Local, record("west", 1, 900));
    scene.list(Api::Local);
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(3));
    leave(&mut scene);
    scene.run(Duration::from_secs(3));
    assert_eq!(shown(&scene, Api::Local), ["Cluster west", "Gateway gw-b", "Lease submariner-gateway-lock"]);
    assert_eq!((left(&scene), claimers(&scene)), (0, ["east", "west"].map(String::from).into()));
    // The holder does its part, and dies before the lease is gone.
    scene.delete(Api::Local, &record("west", 1, 0).key());
    scene.delete(Api::Local, &card("gw-b", 1, 1, None).key());
    scene.delete(Api::Broker, &record("west", 1, 0).key());
    scene.show(Api::Broker, noted(&[EAST], &[("west", 900)]));
    scene.run(Duration::from_secs(10));
    assert_eq!((left(&scene), shown(&scene, Api::Local)), (0, ["Lease submariner-gateway-lock".into()].into()));
    scene.run(Duration::from_secs(10));
    assert_eq!((left(&scene), shown(&scene, Api::Local).len()), (1, 0));
}

#[test]
fn a_cluster_whose_broker_cannot_be_reached_has_not_left_until_it_could() {
    let mut scene = settled(&east());
    scene.broker_down = true;
    leave(&mut scene);
    scene.run(Duration::from_secs(60));
    assert_eq!((left(&scene), shown(&scene, Api::Broker).len()), (0, 5));
    scene.broker_down = false;
    scene.run(Duration::from_secs(20));
    assert_eq!((left(&scene), shown(&scene, Api::Broker).len(), shown(&scene, Api::Local).len()), (1, 2, 0));
}

/// Found by chance (core speed, seed 605554): the API was down as the cluster was told to leave, so the lease ran out after
/// the note was written, and the next term waited half a minute for its own.
#[test]
fn who_gets_another_term_while_it_leaves_notes_it_at_once() {
    let mut scene = settled(&east());
    scene.applies = false;
    leave(&mut scene);
    scene.run(Duration::from_secs(1));
    let claims = |scene: &Scene| scene.apis.of_kind(Api::Broker, Kind::Claims).into_iter().cloned().collect::<Vec<_>>();
    assert_eq!(claims(&scene), [noted(&[EAST], &[("west", 1_001)])]);
    scene.show(Api::Local, lease(2_000, 2_000));
    scene.run(Duration::from_secs(20));
    assert_eq!(scene.events.last(), Some(&Event::Elected(Epoch(2_001))));
    scene.run(Duration::from_secs(1));
    assert_eq!(claims(&scene), [noted(&[EAST], &[("west", 2_001)])]);
    // One for each that was wanted.
    scene.inputs.extend([Input::Applied(Ok(())), Input::Applied(Ok(()))]);
    scene.run(Duration::from_secs(3));
    assert_eq!(left(&scene), 1);
}

#[test]
fn one_that_is_killed_while_it_leaves_goes_on_when_it_is_told_again() {
    for killed_after_ms in [0, 1, 200, 2_000] {
        let mut scene = settled(&east());
        scene.broker_down = true;
        leave(&mut scene);
        scene.run(Duration::from_millis(killed_after_ms));
        let mut config = GatewayConfig { process: "2".into(), ..west("gw-a", 0) };
        config.node.boot = scene.now;
        scene.gateway = Gateway::new(config);
        scene.inputs.clear();
        scene.broker_down = false;
        scene.inputs.extend([Input::Wall(Wall::from_unix_secs(2_000)), Input::Leave]);
        scene.list(Api::Local);
        scene.list(Api::Broker);
        scene.run(Duration::from_secs(30));
        assert_eq!(left(&scene), 1, "killed after {killed_after_ms} ms");
        assert_eq!((shown(&scene, Api::Local).len(), shown(&scene, Api::Broker).len()), (0, 2));
        assert_eq!(claimers(&scene), ["east"]);
    }
}

#[test]
fn one_that_was_refused_leaves_what_is_anothers_under_its_id() {
    let stranger = ("west", "uid-stranger", "10.9.0.0/16", "10.109.0.0/16");
    let theirs = [record("west", 5, 900), candidates("west", 5, 900, &[("gw-a", 0)])];
    let mut scene = settled(&[claims(&[EAST, stranger]), theirs[0].clone(), theirs[1].clone()]);
    leave(&mut scene);
    scene.run(Duration::from_secs(5));
    assert_eq!((left(&scene), claimers(&scene)), (1, ["east", "west"].map(String::from).into()));
    let stays = |object: &Object| scene.apis.of_kind(Api::Broker, object.kind()).contains(&object);
    assert!(theirs.iter().all(stays), "{:?}", shown(&scene, Api::Broker));
}

#[test]
fn a_claim_that_the_broker_does_not_let_go_is_told_of_and_left_to_others() {
    let mut scene = settled(&east());
    scene.forbidden = Some(Kind::Claims);
    leave(&mut scene);
    scene.run(Duration::from_secs(90));
    let told: Vec<String> = scene.events.iter().map(ToString::to_string).collect();
    let because = "ignored: has left, but for its claim: the broker refuses the claim: not yours";
    assert_eq!(told.iter().filter(|told| *told == because).count(), 1, "{told:?}");
    assert_eq!((left(&scene), shown(&scene, Api::Local).len(), claimers(&scene).len()), (1, 0, 2));
}

#[test]
fn who_is_told_to_leave_before_it_knows_anything_waits_until_it_does() {
    let mut scene = Scene::new();
    leave(&mut scene);
    scene.run(Duration::from_secs(30));
    assert_eq!(left(&scene), 0);
    scene.show(Api::Local, candidates("west", 1, 900, &[("gw-a", 0)]));
    scene.list(Api::Local);
    scene.show(Api::Broker, record("west", 1, 900));
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(30));
    assert_eq!((left(&scene), shown(&scene, Api::Local).len(), shown(&scene, Api::Broker).len()), (1, 0, 0));
    assert_eq!(
        scene.apis.of_kind(Api::Broker, Kind::Cluster).iter().filter(|o| o.cluster() == Some(&cluster("west"))).count(),
        0
    );
}

fn noted(members: &[(&str, &str, &str, &str)], left: &[(&str, u64)]) -> Object {
    let Object::Claims(noted) = claims(members) else { unreachable!() };
    let left = left.iter().map(|(id, epoch)| (cluster(id), Epoch(*epoch))).collect();
    Object::from(Claims { left, ..Claims::clone(&noted) })
}

#[test]
fn who_leaves_notes_its_last_epoch_and_announces_above_it_when_it_joins_again_whatever_its_clock_says() {
    let mut scene = settled(&east());
    leave(&mut scene);
    scene.run(Duration::from_secs(5));
    assert_eq!(scene.apis.of_kind(Api::Broker, Kind::Claims), [&noted(&[EAST], &[("west", 1_001)])]);
    let mut config = GatewayConfig { process: "2".into(), ..west("gw-a", 0) };
    config.node.boot = scene.now;
    scene.gateway = Gateway::new(config);
    scene.inputs.extend([Input::Wall(Wall::from_unix_secs(5))]);
    scene.list(Api::Local);
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(3));
    assert_eq!(scene.endpoints(Api::Broker), [("gw-a", 1_002)], "and it waits for nobody");
}

#[test]
fn of_a_cluster_that_noted_that_it_left_nothing_of_before_is_believed_though_the_broker_may_have_lost_it() {
    let at_broker = [record("east", 2, 7), candidates("east", 2, 7, &[("gw-a", 0)])];
    let mut scene = settled(&[at_broker.as_slice(), &[claims(&[EAST])]].concat());
    let is_copied = |scene: &Scene| scene.apis.get(Api::Local, &record("east", 2, 7).key()).is_some();
    assert!(is_copied(&scene));
    scene.apis.forget(Api::Broker);
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(60));
    assert!(is_copied(&scene), "it may be away, and the broker has lost all");
    scene.show(Api::Broker, noted(&[WEST], &[("east", 7)]));
    scene.run(Duration::from_secs(15));
    assert!(!is_copied(&scene));
}

#[test]
fn who_left_stays_so_at_a_broker_that_got_old_data_back_and_the_note_is_put_back() {
    let at_broker = [record("east", 2, 7), candidates("east", 2, 7, &[("gw-a", 0)])];
    let mut scene = settled(&[at_broker.as_slice(), &[claims(&[EAST])]].concat());
    let is_copied = |scene: &Scene, epoch| scene.apis.get(Api::Local, &record("east", 2, epoch).key()).is_some();
    scene.show(Api::Broker, noted(&[WEST], &[("east", 7)]));
    scene.apis.forget(Api::Broker);
    scene.show(Api::Broker, noted(&[WEST], &[("east", 7)]));
    scene.list(Api::Broker);
    scene.run(Duration::from_secs(60));
    assert!(!is_copied(&scene, 7));
    for object in at_broker {
        scene.show(Api::Broker, object);
    }
    scene.show(Api::Broker, claims(&[EAST, WEST]));
    scene.run(Duration::from_secs(5));
    assert!(!is_copied(&scene, 7), "it is of before");
    assert_eq!(scene.apis.of_kind(Api::Broker, Kind::Claims), [&noted(&[WEST], &[("east", 7)])], "so is its claim");
    scene.show(Api::Broker, record("east", 2, 8));
    scene.run(Duration::from_secs(5));
    assert!(is_copied(&scene, 8), "it has joined again");
}

#[test]
fn what_is_still_shown_of_who_left_bars_no_newcomer() {
    let of_before = record("north", 1, 7);
    let scene = settled(&[of_before.clone(), noted(&[], &[("north", 7)])]);
    assert_eq!(claimers(&scene), ["west"]);
    let scene = settled(&[of_before, noted(&[], &[("north", 6)])]);
    assert!(claimers(&scene).is_empty(), "it has joined again");
}
