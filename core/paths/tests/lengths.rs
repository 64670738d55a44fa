//! How long packets may be in a cable is found out by both ends, each for its own direction, and followed.

use super::long;
use super::world::{Shape, World, cluster_id, node_name};
use crate::base::{Epoch, Instant, Machine, Slot, drain};
use crate::paths::carried::{LEAST, LONGEST};
use crate::paths::wire::{ClusterHash, Hello, Sender};
use crate::paths::{Carried, Config, Input, Me, Neighbour, Output, Paths};
use alloc::vec::Vec;
use core::time::Duration;

/// What is found may be so much less than what is so.
const FINE: u16 = 4;

/// What `from` thinks that its cable to `to` carries.
fn carried(world: &World, from: &str, to: &str) -> Carried {
    let (from, to) = (world.id(from), world.id(to));
    let slot = Slot::try_from(world.slot(to).unwrap()).unwrap();
    world.way(from, world.cluster(to)).unwrap().carried.get(slot)
}

#[track_caller]
fn assert_near(found: Carried, is: u16) {
    assert!(matches!(found, Carried::UpTo(found) if found <= is && is - found <= FINE), "{found:?}, and it is {is}");
}

fn two(seed: u64) -> World {
    World::new(Shape::new(&[(1, 1), (1, 1)], seed))
}

#[test]
fn a_cable_that_carries_all_that_its_link_takes_is_known_within_a_second() {
    let mut world = two(1);
    world.run_ms(1_000);
    assert_eq!(carried(&world, "a1", "b1"), Carried::UpTo(LONGEST));
    assert_eq!(carried(&world, "b1", "a1"), Carried::UpTo(LONGEST));
}

#[test]
fn each_end_finds_what_its_own_direction_carries() {
    for (there, back) in [(1_220, 1_380), (1_419, 577), (LEAST, 1_416), (1_000, LONGEST)] {
        let mut world = two(2);
        world.narrow("a1", "b1", there);
        world.narrow("b1", "a1", back);
        world.run_ms(5_000);
        assert_near(carried(&world, "a1", "b1"), there);
        assert_near(carried(&world, "b1", "a1"), back);
    }
}

#[test]
fn a_cable_that_carries_hellos_and_nothing_longer_is_known_as_such_until_it_does() {
    let mut world = two(3);
    world.narrow("a1", "b1", 400);
    world.run_ms(5_000);
    assert_eq!(carried(&world, "a1", "b1"), Carried::Nothing);
    assert_eq!(world.path(), (1, 1), "the choice does not depend on it");
    world.narrow("a1", "b1", 1_300);
    world.run_ms(8_000);
    assert_near(carried(&world, "a1", "b1"), 1_300);
}

#[test]
fn a_black_hole_is_found_within_9_s_and_what_carries_more_again_within_63_s() {
    for seed in 0..3 * long() {
        let mut world = two(seed);
        world.run_ms(3_000 + seed * 777);
        world.narrow("a1", "b1", 1_300);
        world.run_ms(9_000);
        assert_near(carried(&world, "a1", "b1"), 1_300);
        assert_eq!(carried(&world, "b1", "a1"), Carried::UpTo(LONGEST));
        world.narrow("a1", "b1", 1_400);
        world.run_ms(63_000);
        assert_near(carried(&world, "a1", "b1"), 1_400);
    }
}

#[test]
fn standby_cables_are_measured_too_and_keep_it_while_they_are_slow() {
    let mut world = World::new(Shape::new(&[(2, 1), (2, 1)], 4));
    for from in ["a1", "a2"] {
        world.narrow(from, "b1", 1_300);
        world.narrow(from, "b2", 1_350);
    }
    for after in [15_000, 60_000] {
        world.run_ms(after);
        for from in ["a1", "a2"] {
            assert_near(carried(&world, from, "b1"), 1_300);
            assert_near(carried(&world, from, "b2"), 1_350);
        }
    }
}

#[test]
fn neither_loss_nor_cuts_change_what_is_known_of_lengths() {
    for seed in 0..2 * long() {
        for loss_percent in [0, 20] {
            let mut world = World::new(Shape::new(&[(1, 1), (1, 1)], seed).latency_ms(60).loss_percent(loss_percent));
            world.narrow("a1", "b1", 1_300);
            world.run_ms(15_000);
            let before = carried(&world, "a1", "b1");
            assert_near(before, 1_300);
            for turn in 0..60 {
                if turn % 6 == 3 {
                    world.cut_both("a1", "b1");
                    world.run_ms(200 + turn * 30);
                    world.heal_all();
                }
                world.run_ms(2_000);
                assert_eq!(carried(&world, "a1", "b1"), before, "seed {seed}, {loss_percent}%, turn {turn}");
                assert_eq!(carried(&world, "b1", "a1"), Carried::UpTo(LONGEST));
            }
        }
    }
}

#[test]
fn an_end_that_restarts_finds_it_again_and_the_other_forgets_nothing() {
    let mut world = two(5);
    world.narrow("a1", "b1", 1_300);
    world.narrow("b1", "a1", 1_200);
    world.run_ms(5_000);
    world.restart("a1", 100);
    world.run_ms(200);
    assert_near(carried(&world, "b1", "a1"), 1_200);
    world.run_ms(5_000);
    assert_near(carried(&world, "a1", "b1"), 1_300);
    assert_near(carried(&world, "b1", "a1"), 1_200);
}

#[test]
fn what_is_asked_costs_little() {
    let mut world = two(6);
    world.run_ms(3_000);
    let (_, before) = world.sent("a1", true);
    world.run_ms(60_000);
    let (_, after) = world.sent("a1", true);
    // Ten hellos a second of at most 100 bytes, and a question of 1420 each 5 s.
    assert!((after - before) / 60 < 1_000 + 320, "{} bytes a second", (after - before) / 60);
}

#[test]
fn a_peer_that_knows_nothing_of_lengths_is_not_asked() {
    let east = cluster_id(1);
    let slot = Slot::all()[0];
    let config = Config {
        cluster: cluster_id(0),
        node: node_name("me"),
        me: Me::Candidate(slot),
        seed: 1,
        boot: Instant::from_origin(Duration::ZERO),
    };
    let mut machine = Paths::new(config);
    let peer = Neighbour::Remote { cluster: east.clone(), slot };
    machine.handle(Input::Neighbours([peer.clone()].into()), Instant::from_origin(Duration::ZERO));
    let hello = Hello { hears: true, ..Hello::new(ClusterHash::of(&east), Sender::Candidate(slot), Epoch(0), None) };
    assert_eq!(hello.encode()[3], 0, "minor version");
    for turn in 0..200 {
        let now = Instant::from_origin(Duration::from_millis(turn * 50));
        machine.handle_timeout(now);
        machine.handle(Input::Hello { from: peer.clone(), bytes: hello.encode() }, now);
        let sent = drain(&mut machine).into_iter().filter_map(|output| match output {
            Output::Send { bytes, .. } => Some(bytes.len()),
            Output::Ways(_) | Output::Silent(_) | Output::Epoch(_) | Output::Ignored(_) => None,
        });
        let longest = sent.collect::<Vec<_>>().into_iter().max().unwrap_or_default();
        assert!(longest < 200, "{longest} bytes");
    }
    assert_eq!(machine.ways()[&east].carried.get(slot), Carried::Unknown);
}
