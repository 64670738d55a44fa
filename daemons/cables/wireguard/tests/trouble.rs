//! Peers that move, vanish, come back; copies, forgeries, garbage and floods.

use super::super::{Change, Input, PeerChange};
use super::wire::{FLIGHT, World, key, known, packet, place};
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tombolo_core::base::{Instant, Machine, drain};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Two with a session that both use.
fn talking() -> World {
    let mut world = World::pair();
    world.send(0, 1, 2);
    world.pass(secs(1));
    world.send(1, 0, 2);
    world.pass(secs(1));
    (0..2).for_each(|index| drop(world.marks(index)));
    world.sent.clear();
    world
}

/// B18.
#[test]
fn a_peer_that_moves_is_answered_where_it_is_within_one_round_trip() {
    let mut world = talking();
    for moved in ["198.51.100.7:4511", "198.51.100.7:61000", "[2001:db8::99]:5"] {
        world.places[0] = moved.parse().unwrap();
        world.send(0, 1, 4);
        world.pass(FLIGHT);
        world.send(1, 0, 6);
        world.pass(FLIGHT);
        assert_eq!((world.marks(1), world.marks(0)), (vec![4], vec![6]), "{moved}");
        assert_eq!(world.endpoint(1, 0), world.places[0]);
    }
    assert!(!world.kinds().contains_key(&1), "it took no handshake");
}

/// B18: the old address is somebody else's later.
#[test]
fn an_address_is_not_tied_to_who_had_it() {
    let mut world = World::of(3);
    for (at, peer) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        world.change(at, Change::Peer(known(peer)));
    }
    world.send(0, 1, 2);
    world.pass(secs(1));
    world.places[0] = "198.51.100.7:4511".parse().unwrap();
    world.places[2] = place(0);
    world.send(2, 1, 4);
    world.send(0, 1, 6);
    world.pass(secs(1));
    world.send(1, 0, 8);
    world.send(1, 2, 10);
    world.pass(secs(1));
    assert_eq!(world.marks(1), [2, 6, 4]);
    assert_eq!((world.marks(0), world.marks(2)), (vec![8], vec![10]));
    assert_eq!((world.endpoint(1, 0), world.endpoint(1, 2)), (world.places[0], world.places[2]));
}

/// B15: the box in between gives another port; what is configured stays as it is.
#[test]
fn a_peer_set_up_anew_as_it_was_loses_nothing() {
    let mut world = talking();
    world.places[0] = "192.0.2.200:41000".parse().unwrap();
    for round in 0..10 {
        world.send(0, 1, 2);
        world.send(1, 0, 2);
        world.pass(secs(3));
        let seen = world.endpoint(1, 0);
        world.change(1, Change::Peer(PeerChange { endpoint: Some(seen), ..known(0) }));
        if round == 5 {
            world.places[0] = "192.0.2.200:42000".parse().unwrap();
        }
    }
    // At each of the two moves, what is on its way to the port that is gone is lost.
    assert_eq!((world.marks(1).len(), world.marks(0).len()), (10, 8));
    assert!(!world.kinds().contains_key(&1), "it was rebuilt");
}

#[test]
fn a_restarted_peer_is_back_within_a_round_trip() {
    let mut world = talking();
    world.restart(1);
    world.change(1, Change::Peer(PeerChange { keep_open_secs: Some(25), ..known(0) }));
    world.pass(FLIGHT * 3);
    world.send(0, 1, 4);
    world.send(1, 0, 6);
    world.pass(FLIGHT);
    assert_eq!((world.marks(1), world.marks(0)), (vec![4], vec![6]));
}

#[test]
fn a_peer_that_boots_later_is_asked_again_soon() {
    let mut world = World::pair();
    let up = Instant::ZERO + Duration::from_millis(1200);
    world.fate = Box::new(move |now, _, to, _| to != place(1) || now >= up);
    world.send(0, 1, 2);
    world.pass(Duration::from_millis(3000));
    assert_eq!(world.marks(1), [2]);
}

#[test]
fn what_waits_does_not_wait_for_a_session_that_the_other_never_used() {
    let mut world = World::pair();
    // The first question of the one is lost, and all that the other says in the session that it got.
    world.fate = Box::new(|now, _, to, bytes| match bytes[0] {
        1 => to == place(0) || now > Instant::ZERO + Duration::from_millis(100),
        4 => to == place(1),
        _ => true,
    });
    world.send(0, 1, 2);
    world.send(1, 0, 4);
    world.pass(secs(1));
    assert_eq!(world.marks(1), [2]);
}

#[test]
fn who_does_not_answer_is_asked_for_ninety_seconds_and_no_longer() {
    let mut world = World::pair();
    world.fate = Box::new(|_, _, _, _| false);
    world.send(0, 1, 2);
    world.pass(secs(1000));
    let last = world.sent.last().unwrap().0;
    assert!((secs(80)..=secs(95)).contains(&last.since_origin()), "{last}");
    let asked = world.kinds()[&1];
    assert!((17..=24).contains(&asked), "asked {asked} times");
    assert_eq!(world.devices[0].poll_timeout(), None);
    // What waited is dropped; the next packet asks anew.
    world.fate = Box::new(|_, _, _, _| true);
    world.send(0, 1, 4);
    world.pass(secs(1));
    assert_eq!(world.marks(1), [4]);
}

#[test]
fn a_way_that_went_dead_is_asked_anew_after_fifteen_seconds() {
    let mut world = talking();
    world.pass(secs(30));
    let cut = Rc::new(Cell::new(true));
    let is_cut = cut.clone();
    world.fate = Box::new(move |_, _, _, _| !is_cut.get());
    world.send(0, 1, 4);
    world.pass(Duration::from_millis(14_900));
    assert_eq!(world.kinds().get(&1), None);
    world.pass(Duration::from_millis(600));
    assert_eq!(world.kinds()[&1], 1);
    cut.set(false);
    world.pass(secs(6));
    world.send(0, 1, 6);
    world.pass(FLIGHT);
    assert_eq!(world.marks(1), [6]);
}

#[test]
fn a_copy_passes_once_and_moves_nobody() {
    let mut world = World::pair();
    world.send(0, 1, 2);
    world.pass(secs(1));
    let copies = world.sent.clone();
    let before = (world.endpoint(0, 1), world.endpoint(1, 0));
    world.marks(1);
    for (_, _, to, bytes) in copies {
        let to = if to == place(0) { 0 } else { 1 };
        world.give(to, Input::Datagram { from: "203.0.113.66:666".parse().unwrap(), bytes });
    }
    world.pass(secs(1));
    assert!(world.marks(1).is_empty());
    assert_eq!((world.endpoint(0, 1), world.endpoint(1, 0)), before);
    // Nor is the session that both use any worse.
    world.send(0, 1, 4);
    world.send(1, 0, 6);
    world.pass(FLIGHT);
    assert_eq!((world.marks(1), world.marks(0)), (vec![4], vec![6]));
}

#[test]
fn what_overtakes_on_the_way_is_taken_too() {
    let mut world = talking();
    let cut = Rc::new(Cell::new(true));
    let is_cut = cut.clone();
    world.fate = Box::new(move |_, _, _, _| !is_cut.get());
    (0..100).for_each(|mark| world.send(0, 1, mark));
    let held = std::mem::take(&mut world.sent);
    for (_, from, _, bytes) in held.into_iter().rev() {
        world.give(1, Input::Datagram { from, bytes });
    }
    assert_eq!(world.marks(1), (0..100).rev().collect::<Vec<_>>());
}

#[test]
fn a_packet_from_an_address_that_is_not_the_peers_is_dropped() {
    let mut world = talking();
    let forged = packet(7, 1, 2);
    world.give(0, Input::Packet(forged));
    world.pass(secs(1));
    assert!(world.marks(1).is_empty());
    // It was the peer all the same.
    assert_eq!(world.kinds()[&4], 1);
}

#[test]
fn a_stranger_is_not_answered() {
    let mut world = World::of(3);
    world.change(2, Change::Peer(known(1)));
    world.change(1, Change::Peer(known(0)));
    world.send(2, 1, 2);
    world.pass(secs(3));
    assert!(world.sent.iter().all(|(_, from, ..)| *from == place(2)));
}

#[test]
fn a_removed_peer_is_a_stranger_at_once() {
    let mut world = talking();
    world.change(1, Change::Remove(key(0)));
    world.send(0, 1, 4);
    world.pass(secs(30));
    assert!(world.marks(1).is_empty());
    assert!(world.sent.iter().all(|(_, from, ..)| *from == place(0)));
    assert_eq!(world.devices[1].peers().count(), 0);
    world.change(1, Change::Peer(known(0)));
    world.pass(secs(10));
    world.send(0, 1, 6);
    world.pass(secs(1));
    assert!(world.marks(1).contains(&6));
}

#[test]
fn another_own_key_ends_all_sessions() {
    let mut world = talking();
    world.change(1, Change::Secret(Some(super::wire::secret(9))));
    world.send(0, 1, 4);
    world.pass(secs(1));
    assert!(world.marks(1).is_empty());
    world.change(0, Change::Remove(key(1)));
    world.change(0, Change::Peer(PeerChange { key: key(9), ..known(1) }));
    world.send(0, 1, 6);
    world.pass(secs(1));
    assert_eq!(world.marks(1), [6]);
}

#[test]
fn under_a_flood_who_gets_what_is_sent_to_it_gets_in() {
    let mut world = World::of(3);
    for (at, peer) in [(0, 1), (1, 0)] {
        world.change(at, Change::Peer(known(peer)));
    }
    // A question that somebody recorded: its first MAC is right, and its address is anybody's.
    world.change(2, Change::Peer(known(1)));
    world.send(2, 1, 2);
    let question = world.sent.last().unwrap().3.clone();
    world.pass(secs(2));
    let flood = |world: &mut World, count: u16| {
        for number in 0..count {
            let [high, low] = number.to_be_bytes();
            let from = format!("203.0.{high}.{low}:9").parse().unwrap();
            world.give(1, Input::Datagram { from, bytes: question.clone() });
        }
    };
    flood(&mut world, 1000);
    world.sent.clear();
    world.send(0, 1, 4);
    for _ in 0..40 {
        world.pass(Duration::from_millis(100));
        flood(&mut world, 1000);
    }
    assert_eq!(world.marks(1), [4]);
    // It had to prove its address.
    assert!(world.sent.iter().any(|(_, _, to, bytes)| *to == place(0) && bytes[0] == 3));
}

fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![0_usize..40, Just(64), Just(92), Just(148), 0_usize..2000];
    (0_u8..6, length, any::<u64>()).prop_map(|(kind, length, seed)| {
        let mut chance = tombolo_core::base::Rng::new(seed);
        let mut bytes: Vec<u8> = (0..length).map(|_| u8::try_from(chance.below(256)).unwrap()).collect();
        bytes.iter_mut().zip([kind, 0, 0, 0]).for_each(|(to, from)| *to = from);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_changes_nothing(datagrams in proptest::collection::vec(garbage(), 1..40)) {
        let mut world = talking();
        let from = "203.0.113.66:666".parse().unwrap();
        for bytes in datagrams {
            world.give(1, Input::Datagram { from, bytes: bytes.clone() });
            world.give(1, Input::Packet(bytes));
        }
        prop_assert_eq!(world.sent.len(), 0);
        world.send(0, 1, 4);
        world.pass(FLIGHT);
        prop_assert_eq!(world.marks(1), [4]);
    }

    #[test]
    fn what_is_spoilt_on_the_way_is_dropped(at in 0_usize..200, bit in 0_u8..8, kinds in 0_u8..3) {
        let mut world = World::pair();
        // The first, second or third message of the conversation is spoilt.
        world.send(0, 1, 2);
        let mut seen = 0;
        let mut deliver = |world: &mut World| {
            for (_, from, to, mut bytes) in std::mem::take(&mut world.sent) {
                // The second MAC of a handshake message counts under load alone.
                let end = if bytes[0] < 3 { bytes.len() - 16 } else { bytes.len() };
                let is_spoilt = seen == kinds && at < end;
                if is_spoilt {
                    bytes[at] ^= 1 << bit;
                }
                seen += 1;
                let index = u8::from(to == place(1));
                let before = world.devices[usize::from(index)].peers().next().unwrap().1.tally;
                world.give(index, Input::Datagram { from, bytes });
                let after = world.devices[usize::from(index)].peers().next().unwrap().1.tally;
                prop_assert!(!is_spoilt || before == after, "it was taken");
                drop(drain(&mut world.devices[usize::from(index)]));
            }
            Ok(())
        };
        for _ in 0..3 {
            deliver(&mut world)?;
        }
    }
}
