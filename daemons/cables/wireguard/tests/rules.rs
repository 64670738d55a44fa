//! What the protocol promises when nothing is wrong.

use super::super::{Carry, Change, PeerChange, Shared};
use super::wire::{World, ip, key, known, packet};
use std::collections::BTreeMap;
use std::time::Duration;
use tombolo_core::base::Instant;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_packet_that_comes_first_waits_for_the_handshake() {
    let mut world = World::pair();
    for mark in [2, 3, 4] {
        world.send(0, 1, mark);
    }
    world.pass(secs(1));
    assert_eq!(world.arrived[1], [packet(0, 1, 2), packet(0, 1, 3), packet(0, 1, 4)]);
    assert_eq!(world.kinds(), BTreeMap::from([(1, 1), (2, 1), (4, 3)]));
}

#[test]
fn both_ways_carry_after_one_handshake() {
    let mut world = World::pair();
    world.send(0, 1, 2);
    world.pass(secs(1));
    for mark in 0..100 {
        world.send(0, 1, mark);
        world.send(1, 0, mark);
    }
    world.pass(secs(1));
    assert_eq!(world.marks(1).len(), 101);
    assert_eq!(world.marks(0), (0..100).collect::<Vec<_>>());
    assert_eq!(world.kinds()[&1], 1);
}

#[test]
fn two_that_ask_each_other_at_once_both_carry_without_a_pause() {
    let mut world = World::pair();
    world.send(0, 1, 2);
    world.send(1, 0, 4);
    world.pass(Duration::from_millis(50));
    assert_eq!((world.marks(0), world.marks(1)), (vec![4], vec![2]));
    world.send(0, 1, 6);
    world.send(1, 0, 8);
    world.pass(Duration::from_millis(20));
    assert_eq!((world.marks(0), world.marks(1)), (vec![8], vec![6]));
}

#[test]
fn a_session_is_renewed_every_two_minutes_and_no_packet_is_lost() {
    // If both have asked at the beginning, both go on doing so.
    for (both_begin, most) in [(false, 9), (true, 18)] {
        let mut world = World::pair();
        world.send(0, 1, 2);
        world.pass(if both_begin { Duration::ZERO } else { secs(1) });
        let mut sent = 0;
        while world.now < Instant::ZERO + secs(1000) {
            world.send(0, 1, 2);
            world.send(1, 0, 3);
            sent += 1;
            world.pass(Duration::from_millis(250));
        }
        world.pass(secs(1));
        assert_eq!((world.marks(0).len(), world.marks(1).len()), (sent, sent + 1));
        let asked = world.kinds()[&1];
        assert!((most - 1..=most).contains(&asked), "asked {asked} times in 1000 s");
    }
}

#[test]
fn a_peer_that_is_only_listened_to_is_told_that_it_was_heard() {
    let mut world = World::pair();
    world.send(0, 1, 2);
    world.pass(secs(9));
    assert_eq!(world.kinds(), BTreeMap::from([(1, 1), (2, 1), (4, 1)]));
    world.pass(secs(3));
    // The acknowledgement; nobody asks anew, and nobody acknowledges it.
    assert_eq!(world.kinds(), BTreeMap::from([(4, 1)]));
    world.pass(secs(100));
    assert_eq!(world.kinds(), BTreeMap::new());
}

#[test]
fn a_way_is_kept_open_where_that_is_wanted() {
    let mut world = World::pair();
    world.change(0, Change::Peer(PeerChange { keep_open_secs: Some(25), ..PeerChange::of(key(1)) }));
    world.pass(secs(1));
    // It greets at once.
    assert_eq!(world.kinds(), BTreeMap::from([(1, 1), (2, 1), (4, 1)]));
    world.pass(secs(76));
    assert_eq!(world.kinds(), BTreeMap::from([(4, 3)]));
    world.change(0, Change::Peer(PeerChange { keep_open_secs: Some(0), ..PeerChange::of(key(1)) }));
    world.pass(secs(76));
    assert_eq!(world.kinds(), BTreeMap::new());
}

#[test]
fn a_longer_range_takes_an_address_from_a_shorter_one() {
    let mut world = World::of(3);
    world.change(0, Change::Peer(known(1)));
    world.change(0, Change::Peer(known(2)));
    world.change(
        0,
        Change::Peer(PeerChange { ranges: ["10.1.7.0/24".parse().unwrap()].into(), ..PeerChange::of(key(2)) }),
    );
    let whose = |world: &mut World, address| {
        world.devices[0].carry(ip(address), 1, 100, world.now);
        let asked = |peer: u8| world.devices[0].peers().any(|(is, found)| *is == key(peer) && found.asking.is_some());
        (asked(1), asked(2))
    };
    assert_eq!(whose(&mut world, "10.9.0.1"), (false, false));
    assert_eq!(whose(&mut world, "10.1.7.1"), (false, true));
    assert_eq!(whose(&mut world, "10.1.8.1"), (true, true));
    assert_eq!(world.devices[0].carry(ip("10.9.0.1"), 1, 100, Instant::ZERO), Carry::Nowhere);
}

#[test]
fn a_range_that_another_peer_gets_is_gone_from_the_first() {
    let mut world = World::of(3);
    world.change(0, Change::Peer(known(1)));
    world.change(0, Change::Peer(PeerChange { ranges: known(1).ranges, ..known(2) }));
    assert!(world.devices[0].ranges(&key(1)).is_empty());
    assert_eq!(world.devices[0].ranges(&key(2)), known(1).ranges);
    world.change(0, Change::Peer(PeerChange { replace_ranges: true, ..PeerChange::of(key(2)) }));
    assert!(world.devices[0].ranges(&key(2)).is_empty());
}

#[test]
fn who_lacks_the_shared_key_gets_no_session() {
    let mut world = World::pair();
    let with = |byte, peer| Change::Peer(PeerChange { shared: Some(Shared([byte; 32])), ..PeerChange::of(key(peer)) });
    world.change(0, with(7, 1));
    world.change(1, with(8, 0));
    world.send(0, 1, 2);
    world.pass(secs(5));
    assert!(world.marks(1).is_empty());
    world.change(1, with(7, 0));
    world.pass(secs(10));
    assert_eq!(world.marks(1), [2]);
}

#[test]
fn many_packets_are_carried_by_one_decision() {
    let mut world = World::pair();
    world.send(0, 1, 2);
    world.pass(secs(1));
    let first = |world: &mut World, count| match world.devices[0].carry(ip("10.1.0.9"), count, 1000, world.now) {
        Carry::Now { first, .. } => first,
        other @ (Carry::Later | Carry::Nowhere) => panic!("{other:?}"),
    };
    let start = first(&mut world, 40);
    assert_eq!(first(&mut world, 1), start + 40);
}

#[test]
fn keys_are_forgotten_after_nine_minutes() {
    let mut world = World::pair();
    world.send(0, 1, 2);
    world.pass(secs(539));
    assert!(world.devices[0].peers().all(|(_, peer)| peer.sessions.current.is_some()));
    world.pass(secs(2));
    for device in &world.devices {
        assert!(device.peers().all(|(_, peer)| peer.sessions == super::super::peer::Sessions::default()));
    }
    // And all begins anew.
    world.marks(1);
    world.send(0, 1, 4);
    world.pass(secs(1));
    assert_eq!(world.marks(1), [4]);
}

#[test]
fn the_time_from_question_to_answer_is_known() {
    let mut world = World::pair();
    world.send(0, 1, 2);
    world.pass(secs(1));
    let tally = world.devices[0].tally(&key(1)).unwrap();
    assert_eq!(tally.round_trip, Some(super::wire::FLIGHT * 2));
    assert_eq!(tally.handshake, Some(Instant::ZERO + super::wire::FLIGHT * 2));
    // A packet of 30 bytes takes 32, and 32 more.
    assert_eq!((tally.sent, world.devices[1].tally(&key(0)).unwrap().received), (64, 64));
}
