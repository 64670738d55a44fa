//! Connection tracking by itself.

use super::clusters::*;
use crate::base::Instant;
use crate::network::{Class, Conntrack, Direction, Learned, Packet, Stage, Tuple};
use core::time::Duration;

fn at(seconds: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(seconds))
}

fn packet(flags: crate::network::Flags) -> Packet {
    tcp((ip("10.1.3.7"), 4000), (ip("10.2.3.7"), 8080), flags)
}

fn opened(packet: &Packet) -> Learned {
    Learned::Opened { original: Tuple::of(packet), reply: Tuple::of(packet).inverse(), picked_up: false }
}

fn class<'a>(conntrack: &'a Conntrack, packet: &Packet) -> Class<'a> {
    conntrack.classify(&Tuple::of(packet), &packet.transport, true)
}

fn seen(conntrack: &Conntrack, packet: &Packet) -> Learned {
    let crate::network::Transport::Tcp { flags, .. } = packet.transport else { panic!() };
    let Class::Known(flow, direction) = class(conntrack, packet) else { panic!("{packet:?} is of no flow") };
    Learned::Seen { original: flow.original, direction, flags: Some(flags) }
}

#[test]
fn both_directions_of_a_flow_are_known() {
    let mut conntrack = Conntrack::new();
    conntrack.commit(opened(&packet(SYN)), at(0));
    assert!(matches!(class(&conntrack, &packet(ACK)), Class::Known(_, Direction::Original)));
    assert!(matches!(class(&conntrack, &answer(&packet(SYN), SYN_ACK)), Class::Known(_, Direction::Reply)));
    let other = tcp((ip("10.1.3.7"), 4001), (ip("10.2.3.7"), 8080), SYN);
    assert!(matches!(class(&conntrack, &other), Class::New { picked_up: false }));
}

#[test]
fn flows_are_forgotten_at_their_time_and_not_before() {
    let mut conntrack = Conntrack::new();
    let query = udp((ip("10.1.3.7"), 4000), (ip("10.2.3.7"), 53));
    conntrack.commit(opened(&query), at(0));
    conntrack.expire(at(29));
    assert_eq!(conntrack.flows().count(), 1);
    let reply = Learned::Seen { original: Tuple::of(&query), direction: Direction::Reply, flags: None };
    conntrack.commit(reply, at(29));
    conntrack.expire(at(148));
    assert_eq!(conntrack.flows().count(), 1, "an answered one lives 120 s");
    conntrack.expire(at(149));
    assert_eq!(conntrack.flows().count(), 0);
    assert_eq!(conntrack, Conntrack::new());
}

#[test]
fn a_flow_that_ended_may_begin_again_with_the_same_ports() {
    let mut conntrack = Conntrack::new();
    conntrack.commit(opened(&packet(SYN)), at(0));
    conntrack.commit(seen(&conntrack.clone(), &answer(&packet(SYN), SYN_ACK)), at(0));
    assert!(matches!(class(&conntrack, &packet(SYN)), Class::Known(..)), "while it is open, a SYN is part of it");
    conntrack.commit(seen(&conntrack.clone(), &packet(FIN)), at(0));
    assert!(matches!(class(&conntrack, &packet(ACK)), Class::Known(..)));
    assert!(matches!(class(&conntrack, &packet(SYN)), Class::New { picked_up: false }));
    conntrack.commit(opened(&packet(SYN)), at(1));
    assert_eq!(conntrack.flows().map(|flow| flow.stage).next(), Some(Stage::Opening));
    assert_eq!(conntrack.flows().count(), 1);
}

#[test]
fn deletion_takes_the_flow_by_either_direction() {
    for tuple in [Tuple::of(&packet(SYN)), Tuple::of(&packet(SYN)).inverse()] {
        let mut conntrack = Conntrack::new();
        conntrack.commit(opened(&packet(SYN)), at(0));
        assert!(conntrack.delete(&tuple));
        assert!(!conntrack.delete(&tuple));
        assert_eq!(conntrack.lookup(&Tuple::of(&packet(SYN))), None);
    }
}

#[test]
fn only_a_plain_ack_is_picked_up_in_the_middle() {
    let conntrack = Conntrack::new();
    assert!(matches!(class(&conntrack, &packet(ACK)), Class::New { picked_up: true }));
    for flags in [FIN, RST, SYN_ACK, crate::network::Flags::default()] {
        assert_eq!(class(&conntrack, &packet(flags)), Class::Invalid);
    }
    let strict = conntrack.classify(&Tuple::of(&packet(ACK)), &packet(ACK).transport, false);
    assert_eq!(strict, Class::Invalid);
}
