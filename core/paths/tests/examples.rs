//! The worked examples of `spec/failover.md` 7, and what follows for routes (F1 to F4).

use super::world::{Belief, Shape, World};
use crate::base::Slot;
use crate::model::Reach;
use crate::paths::{Exit, Input, Way};

fn slot(number: u8) -> Slot {
    Slot::try_from(number).unwrap()
}

/// A world of three candidates and a worker or two a side whose path is (1, 1). With this seed nobody loses a race that
/// may be lost.
fn world(latency_ms: u64) -> World {
    let world = World::settled(Shape::new(&[(3, 1), (3, 2)], 3).latency_ms(latency_ms));
    assert_eq!(belief(&world), (1, (1, 1)));
    world
}

fn belief(world: &World) -> (u32, (u8, u8)) {
    world.path();
    let Belief { version, pair, .. } = world.agreed("a", "b").unwrap();
    (version, pair)
}

fn way(world: &World, name: &str) -> Way {
    let id = world.id(name);
    world.way(id, 1 - world.cluster(id)).unwrap()
}

#[test]
fn every_node_sends_to_the_local_end_and_that_one_into_the_cable() {
    let world = world(5);
    assert_eq!(way(&world, "aw1").out, Exit::Overlay(slot(1)));
    assert_eq!(way(&world, "aw1").from_overlay, None);
    assert_eq!(way(&world, "a2").out, Exit::Overlay(slot(1)));
    assert_eq!(way(&world, "a2").from_overlay, Some(slot(1)));
    assert_eq!(way(&world, "a1").out, Exit::Cable(slot(1)));
    assert_eq!(way(&world, "bw2").reach, Reach::Connected);
}

#[test]
fn power_loss_moves_the_path_and_the_return_does_not() {
    let mut world = world(60);
    world.power_off("a1");
    world.run_ms(1_000);
    assert_eq!(belief(&world), (2, (2, 1)));
    world.power_on("a1");
    world.run_ms(2_000);
    assert_eq!(belief(&world), (2, (2, 1)));
}

#[test]
fn when_both_ends_lose_power_the_standbys_claim_one_pair() {
    let mut world = World::settled(Shape::new(&[(2, 1), (2, 1)], 1).latency_ms(60));
    assert_eq!(belief(&world), (1, (1, 1)));
    world.power_off("a1");
    world.power_off("b1");
    world.run_ms(350);
    assert!(world.belief(world.id("aw1"), 1).unwrap().alive, "nobody can revoke for the dead");
    world.run_ms(650);
    assert_eq!(belief(&world), (2, (2, 2)));
}

#[test]
fn a_gateway_with_its_wan_cut_follows_and_what_still_arrives_stays_off_the_overlay() {
    let mut world = world(60);
    world.cut_wan("a1");
    world.run_ms(1_000);
    assert_eq!(belief(&world), (2, (2, 1)));
    assert_eq!(way(&world, "a1").out, Exit::Overlay(slot(2)));
    let cable = way(&world, "a1").from_overlay;
    assert!(cable.is_some(), "it leaves by a cable, and is lost in it");
    world.run_ms(15_000);
    assert_eq!(way(&world, "a1").from_overlay, cable, "the route rests");
    assert!(world.carries("aw1", "bw1"));
}

/// Runs for `ms`; whatever the workers of both clusters send each other must arrive.
fn run_without_a_gap(world: &mut World, ms: u64) {
    for _ in 0..ms / 5 {
        world.run_ms(5);
        for (from, to) in [("aw1", "bw1"), ("bw1", "aw1")] {
            assert!(world.carries(from, to), "a gap from {from} to {to} at {} ms", world.now_ms());
        }
    }
}

#[test]
fn the_daemon_of_a_sole_gateway_is_killed_and_no_packet_is_lost() {
    for gateway in ["a1", "b1"] {
        let mut world = World::settled(Shape::new(&[(1, 1), (1, 1)], 1));
        world.kill(gateway);
        run_without_a_gap(&mut world, 15_000);
        let other = if gateway == "a1" { "b1" } else { "a1" };
        assert_eq!(way(&world, other).reach, Reach::Lost, "no daemon there says that it lives");
        assert_eq!(way(&world, other).from_overlay, Some(slot(1)));
        world.restart(gateway, 0);
        run_without_a_gap(&mut world, 2_000);
        assert_eq!(way(&world, other).reach, Reach::Connected);
    }
}

#[test]
fn all_gateway_daemons_of_a_cluster_are_killed_in_turn_and_no_packet_is_lost_after_the_last_one() {
    let mut world = World::settled(Shape::new(&[(1, 1), (2, 1)], 1));
    assert_eq!(belief(&world), (1, (1, 1)));
    world.kill("b1");
    run_without_a_gap(&mut world, 2_000);
    assert_eq!(belief(&world), (2, (1, 2)));
    world.kill("b2");
    run_without_a_gap(&mut world, 15_000);
}

#[test]
fn a_gateway_that_restarts_while_no_daemon_over_there_lives_goes_on_by_the_lowest_cable() {
    let mut world = World::settled(Shape::new(&[(1, 1), (1, 1)], 1));
    world.kill("b1");
    run_without_a_gap(&mut world, 1_000);
    world.restart("a1", 150);
    run_without_a_gap(&mut world, 5_000);
    assert_eq!(way(&world, "a1").from_overlay, Some(slot(1)));
    assert_eq!(way(&world, "a1").out, Exit::Cable(slot(1)), "it has the dead choice from its worker");
    assert_eq!(way(&world, "a1").reach, Reach::Lost);
}

#[test]
fn a_gateway_that_restarts_while_no_daemon_over_there_lives_learns_which_cable_was_the_paths() {
    let mut world = World::settled(Shape::new(&[(1, 1), (2, 1)], 1));
    world.power_off("b1");
    world.run_ms(1_000);
    assert_eq!(belief(&world), (2, (1, 2)));
    world.kill("b2");
    run_without_a_gap(&mut world, 1_000);
    world.restart("a1", 150);
    world.run_ms(150 + 400);
    assert_eq!(way(&world, "a1").from_overlay, Some(slot(2)), "its worker has told it");
    run_without_a_gap(&mut world, 5_000);
}

#[test]
fn a_gateway_that_is_no_end_passes_packets_on_by_cable_only() {
    let mut world = world(5);
    world.cut_both("a2", "b1");
    world.run_ms(1_000);
    assert_eq!(belief(&world), (1, (1, 1)));
    assert_eq!(way(&world, "a2").out, Exit::Overlay(slot(1)));
    let stand_in = way(&world, "a2").from_overlay;
    assert_eq!(stand_in, Some(slot(2)));
    // The cable that stands in is slow, yet the route rests.
    for _ in 0..120 {
        world.run_ms(100);
        assert_eq!(way(&world, "a2").from_overlay, stand_in, "at {} ms", world.now_ms());
    }
}

#[test]
fn a_cable_that_stands_in_and_has_only_aged_yields_to_one_that_is_heard() {
    let mut world = World::settled(Shape::new(&[(2, 1), (3, 1)], 1));
    world.cut_both("a2", "b1");
    world.run_ms(1_000);
    assert_eq!(way(&world, "a2").from_overlay, Some(slot(2)));
    world.cut_both("a2", "b2");
    world.run_ms(22_000);
    assert_eq!(belief(&world), (1, (1, 1)));
    for _ in 0..300 {
        assert_eq!(way(&world, "a2").from_overlay, Some(slot(3)), "at {} ms", world.now_ms());
        world.run_ms(100);
    }
}

#[test]
fn a_one_way_cut_moves_the_path_away_from_it() {
    for cut in [("a1", "b1"), ("b1", "a1")] {
        let mut world = world(60);
        world.cut(cut.0, cut.1);
        world.run_ms(1_000);
        let (version, pair) = belief(&world);
        assert_eq!(version, 2);
        assert!(pair == (1, 2) || pair == (2, 1), "{pair:?}");
    }
}

#[test]
fn three_candidates_in_turn() {
    let mut world = world(60);
    world.power_off("a1");
    world.run_ms(200);
    world.power_off("a2");
    world.run_ms(1_500);
    assert_eq!(world.path(), (3, 1));
}

#[test]
fn a_worker_that_restarts_during_a_switch_changes_nothing() {
    let mut world = world(60);
    world.power_off("a1");
    world.run_ms(250);
    world.restart("aw1", 200);
    world.run_ms(1_200);
    assert_eq!(belief(&world), (2, (2, 1)));
}

#[test]
fn overlay_cut_moves_the_path_to_a_gateway_that_workers_reach() {
    let mut world = world(60);
    world.cut_overlay("a1");
    world.run_ms(1_000);
    assert_eq!(world.path(), (2, 1));
}

#[test]
fn a_draining_gateway_is_left_at_once_and_not_chosen_again() {
    let mut world = world(5);
    world.tell("a1", Input::Drain(true));
    world.run_ms(200);
    assert_eq!(belief(&world), (2, (2, 1)));
    world.power_off("b1");
    world.run_ms(1_000);
    assert_eq!(world.path(), (2, 2));
    world.tell("a1", Input::Drain(false));
    world.run_ms(1_000);
    assert_eq!(world.path(), (2, 2));
}

#[test]
fn a_lone_gateway_that_drains_goes_on() {
    let mut world = World::settled(Shape::new(&[(1, 1), (1, 1)], 1));
    world.tell("a1", Input::Drain(true));
    world.run_ms(3_000);
    assert_eq!(belief(&world), (1, (1, 1)));
}

#[test]
fn a_dead_path_stays_in_the_routes_and_is_told_as_lost() {
    let mut world = World::settled(Shape::new(&[(1, 1), (1, 1)], 1));
    world.power_off("b1");
    world.run_ms(1_000);
    assert_eq!(way(&world, "aw1").out, Exit::Overlay(slot(1)));
    assert_eq!(way(&world, "a1").out, Exit::Cable(slot(1)));
    for name in ["aw1", "a1", "bw1"] {
        assert_eq!(way(&world, name).reach, Reach::Lost, "{name}");
    }
    world.power_on("b1");
    world.run_ms(1_000);
    assert_eq!(way(&world, "aw1").reach, Reach::Connected);
}

#[test]
fn a_path_per_pair_of_clusters() {
    let mut world = World::settled(Shape::new(&[(2, 1), (2, 1), (2, 1)], 1));
    world.cut_both("a1", "b1");
    world.cut_both("a1", "b2");
    world.cut_both("a2", "c1");
    world.cut_both("a2", "c2");
    world.run_ms(1_000);
    assert_eq!(world.agreed("a", "b").unwrap().pair, (2, 1));
    assert_eq!(world.agreed("a", "c").unwrap().pair, (1, 1));
    assert_eq!(world.agreed("b", "c").unwrap().pair, (1, 1));
}

#[test]
fn a_gateways_daemon_may_be_away_for_150_ms() {
    for seed in 0..2 {
        let settled = World::settled(Shape::new(&[(2, 1), (2, 1)], seed).latency_ms(60));
        for (gateway, ms) in [("a1", 30), ("b1", 90), ("a1", 150)] {
            let mut world = settled.clone();
            let before = belief(&world);
            world.restart(gateway, ms);
            world.run_ms(1_500);
            assert_eq!(belief(&world), before, "seed {seed}, {gateway} away for {ms} ms");
        }
    }
}

#[test]
fn an_idle_path_costs_what_the_table_says() {
    let mut world = world(5);
    world.run_ms(1_000);
    let before = ["a1", "a2", "a3"].map(|name| world.sent(name, true));
    world.run_ms(10_000);
    let mut rates = ["a1", "a2", "a3"].map(|name| world.sent(name, true));
    for ((hellos, octets), before) in rates.iter_mut().zip(before) {
        (*hellos, *octets) = (*hellos - before.0, *octets - before.1);
    }
    let [(active, octets), (second, _), (third, _)] = rates;
    assert!((285..=315).contains(&active), "the active gateway says {active} hellos in 10 s");
    assert!((95..=110).contains(&second) && (95..=110).contains(&third), "standbys say {second} and {third}");
    assert!(octets / active < 130, "{} bytes a hello", octets / active);
}
