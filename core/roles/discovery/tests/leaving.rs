//! A cluster leaves: what its discovery takes away, and what the others make of it.

use super::*;
use crate::model::ConditionType;

#[test]
fn a_cluster_that_leaves_takes_its_exports_and_imports_away_and_what_it_said_about_them() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", exported("web", "10.101.0.10"));
    world.put("west", exported("api", "10.101.0.11"));
    world.run();
    world.handle("east", Input::Leave);
    world.run();
    assert_eq!(world.told("east").last().map(String::as_str), Some("has left, with nothing left behind"));
    assert_eq!(world.broker(), ["ExportRecord west.api.shop", "ExportRecord west.web.shop"]);
    assert_eq!(world.summaries("east"), [(Api::Broker, "west".into())]);
    assert_eq!((world.import("east", "web"), world.import("east", "api"), world.slices("east")), (None, None, 0));
    assert_eq!(world.conditions("east", "web"), [""; 0], "the export is its user's, and stays");
    assert_eq!(world.sources("west", "web"), ["west 10.101.0.10 ready"]);
    let written = world.all_writes();
    world.put("east", exported("late", "10.102.0.12"));
    world.run_for(Duration::from_secs(120));
    assert_eq!(world.all_writes(), written, "and that is all");
}

#[test]
fn a_cluster_has_not_left_while_it_cannot_reach_the_broker() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.cut_broker("east");
    world.handle("east", Input::Leave);
    world.run_for(Duration::from_secs(60));
    assert_eq!((world.told("east"), world.broker().len()), (vec![], 1));
    world.heal_broker("east");
    world.run_for(Duration::from_secs(20));
    assert_eq!((world.told("east").len(), world.broker().len()), (1, 0));
}

#[test]
fn a_discovery_that_is_killed_while_its_cluster_leaves_goes_on_when_it_is_told_again() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.cut_broker("east");
    world.handle("east", Input::Leave);
    world.run();
    world.stop("east");
    world.start("east");
    world.handle("east", Input::Leave);
    world.heal_broker("east");
    world.run_for(Duration::from_secs(20));
    assert_eq!((world.told("east").len(), world.broker().len(), world.slices("east")), (1, 0, 0));
}

/// West cannot reach the broker, and meanwhile east leaves.
fn left_unseen() -> World {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.cut_broker("west");
    world.handle("east", Input::Leave);
    world.run();
    world.heal_broker("west");
    world.run_for(Duration::from_secs(300));
    world
}

#[test]
fn what_a_cluster_had_that_left_unseen_goes_when_the_gateways_believe_that_it_left() {
    let mut world = left_unseen();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"], "they may yet find that it is there");
    world.delete("west", &announced("east", "10.0.0.0/8").key());
    world.run_for(Duration::from_secs(20));
    assert_eq!((world.import("west", "web"), world.slices("west")), (None, 0));
}

#[test]
fn an_own_api_that_lost_all_copies_says_nothing_about_who_left() {
    let mut world = left_unseen();
    world.delete("west", &announced("west", "10.0.0.0/8").key());
    world.delete("west", &announced("east", "10.0.0.0/8").key());
    world.run_for(Duration::from_secs(300));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
}

/// Its discovery does not run, and so cannot take its records away.
#[test]
fn what_a_cluster_left_at_the_broker_is_not_imported_and_is_again_when_it_is_back() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.stop("east");
    world.delete("west", &announced("east", "10.0.0.0/8").key());
    world.run();
    assert_eq!(world.broker(), ["ExportRecord east.web.shop"]);
    assert_eq!((world.import("west", "web"), world.slices("west")), (None, 0));
    world.put("west", vec![announced("east", "10.0.0.0/8")]);
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
}

/// The gateways start anew and know nobody; who is a member brings its record back a little later.
#[test]
fn a_member_that_is_missing_since_the_own_api_lost_its_data_has_time_to_come_back() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.empty_own("west");
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    world.put("west", vec![announced("west", "10.0.0.0/8")]);
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.import("west", "web"), None, "nobody has brought it back");
    world.put("west", vec![announced("east", "10.0.0.0/8")]);
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
}

/// Another cluster has joined as east (B36), and what is at the broker under that id is its own.
fn with_a_namesake() -> World {
    let mut world = World::of(&["east", "west"]);
    world.put_broker(claimed(&[("east", "another"), ("west", "uid")]));
    let theirs = [record_of("east", "api"), source_slice("east", "api", "10.102.0.10")];
    world.put_broker(summary_of("east", 1, &theirs));
    theirs.into_iter().for_each(|object| world.put_broker(object));
    world.run();
    world.put("east", exported("web", "10.102.0.20"));
    world
}

#[test]
fn a_cluster_whose_id_is_anothers_publishes_nothing_and_says_why_b36() {
    let mut world = with_a_namesake();
    let before = world.writes("east", Api::Broker);
    world.run_for(Duration::from_secs(300));
    assert_eq!(world.broker(), ["ExportRecord east.api.shop"]);
    assert_eq!(world.writes("east", Api::Broker), before);
    let message = world.message("east", "web", ConditionType::Ready);
    assert!(message.contains("another cluster has joined as east"), "{message}");
    world.put_broker(claimed(&[("east", "uid"), ("west", "uid")]));
    world.run();
    assert_eq!(world.broker(), ["ExportRecord east.web.shop"], "the id is its own now, and so is what is there");
}

#[test]
fn a_cluster_whose_id_is_anothers_takes_nothing_of_the_others_away_when_it_leaves_b36() {
    let mut world = with_a_namesake();
    world.run();
    world.handle("east", Input::Leave);
    world.run();
    assert_eq!((world.told("east").len(), world.broker()), (1, vec!["ExportRecord east.api.shop".into()]));
    assert!(world.summaries("west").contains(&(Api::Broker, "east".into())));
}

#[test]
fn what_a_namesake_announces_at_the_broker_makes_no_member_b36() {
    let mut world = World::of(&["east", "west"]);
    world.stop("east");
    world.forget("east", Kind::Cluster);
    world.put_broker(claimed(&[("east", "another")]));
    world.put_broker(announced("east", "10.102.0.0/16"));
    world.put("east", exported("web", "10.102.0.20"));
    world.start("east");
    world.run_for(Duration::from_secs(300));
    assert_eq!((world.broker(), world.slices("east")), (vec![], 0));
    world.put_broker(claimed(&[("east", "uid")]));
    world.run();
    assert_eq!((world.broker().len(), world.slices("east")), (1, 1), "its own gateways have announced it there");
}
