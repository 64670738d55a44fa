//! One machine by itself: what it takes in, what it refuses, and what its hellos say.

use super::world::{cluster_id, node_name};
use crate::base::{Epoch, Instant, Machine, Slot, drain};
use crate::paths::register::{Pair, Register};
use crate::paths::wire::{ClusterHash, Hello, Origin, REGISTERS_MAX, Sender, Side, worker_hash};
use crate::paths::{Config, Input, Me, Neighbour, Output, Paths, SlotSet, Way};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

fn slot(number: u8) -> Slot {
    Slot::try_from(number).unwrap()
}

fn at(ms: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(ms))
}

fn remote(cluster: usize, number: u8) -> Neighbour {
    Neighbour::Remote { cluster: cluster_id(cluster), slot: slot(number) }
}

fn own(number: u8) -> Neighbour {
    Neighbour::Own { slot: slot(number) }
}

fn machine(me: Me, neighbours: impl IntoIterator<Item = Neighbour>) -> Paths {
    let config = Config { cluster: cluster_id(0), node: node_name("me"), me, seed: 1, boot: at(0) };
    let mut machine = Paths::new(config);
    machine.handle(Input::Neighbours(neighbours.into_iter().collect()), at(0));
    machine
}

/// What `from` says, with nothing in it.
fn plain(from: &Neighbour) -> Hello {
    let own = ClusterHash::of(&cluster_id(0));
    let (cluster, sender) = match from {
        Neighbour::Remote { cluster, slot } => (ClusterHash::of(cluster), Sender::Candidate(*slot)),
        Neighbour::Own { slot } => (own, Sender::Candidate(*slot)),
        Neighbour::Worker { node } => (own, Sender::Worker(worker_hash(node))),
    };
    Hello { hears: true, settled: true, ..Hello::new(cluster, sender, Epoch(0), None) }
}

fn hear(machine: &mut Paths, from: Neighbour, hello: &Hello, now: Instant) -> Vec<Output> {
    machine.handle(Input::Hello { from, bytes: hello.encode() }, now);
    drain(machine)
}

/// Runs to `end` and gives the hellos said to `to`.
fn said(machine: &mut Paths, to: &Neighbour, end: Instant) -> Vec<Hello> {
    let mut hellos = vec![];
    loop {
        for output in drain(machine) {
            if let Output::Send { to: receiver, bytes } = output
                && receiver == *to
            {
                hellos.push(Hello::decode(&bytes).unwrap());
            }
        }
        match machine.poll_timeout() {
            Some((at, _)) if at <= end => machine.handle_timeout(at),
            _ => return hellos,
        }
    }
}

fn claim(version: u32, left: u8, right: u8) -> Register {
    let pair = Pair { left: slot(left), right: slot(right) };
    Register { version: version - 1, ..Register::default() }.outbid(pair)
}

fn ignored(outputs: &[Output]) -> Vec<&String> {
    let mut reasons = vec![];
    for output in outputs {
        if let Output::Ignored(why) = output {
            reasons.push(why);
        }
    }
    reasons
}

#[test]
fn bad_datagrams_are_told_once_a_second_with_their_number() {
    let mut machine = machine(Me::Candidate(slot(1)), [remote(1, 1)]);
    let garbage = |from| Input::Hello { from, bytes: vec![1, 2, 3, 4] };
    machine.handle(garbage(remote(1, 1)), at(10));
    assert_eq!(ignored(&drain(&mut machine)), ["a hello from candidate 1 of b: not a hello: it begins with 0x0102"]);
    for ms in 11..14 {
        machine.handle(garbage(remote(1, 1)), at(ms));
        assert_eq!(drain(&mut machine), []);
    }
    machine.handle(garbage(remote(2, 1)), at(1_010));
    assert_eq!(
        ignored(&drain(&mut machine)),
        ["a hello from candidate 1 of c: not a hello: it begins with 0x0102 (and 3 others since the last report)"]
    );
}

#[test]
fn a_hello_of_somebody_else_is_refused() {
    let mut machine = machine(Me::Candidate(slot(1)), [remote(1, 1), remote(1, 2)]);
    let outputs = hear(&mut machine, remote(1, 1), &plain(&remote(1, 2)), at(10));
    assert!(ignored(&outputs)[0].contains("it says it is Candidate(2)"), "{outputs:?}");
    let outputs = hear(&mut machine, remote(1, 3), &plain(&remote(1, 3)), at(2_000));
    assert_eq!(ignored(&outputs), ["a hello from candidate 3 of b: no session"]);
}

#[test]
fn a_peer_cluster_speaks_of_its_own_register_only() {
    let mut machine = machine(Me::Candidate(slot(1)), [remote(1, 1), remote(2, 1)]);
    let mut hello = plain(&remote(1, 1));
    let (a, c) = (ClusterHash::of(&cluster_id(0)), ClusterHash::of(&cluster_id(2)));
    hello.registers = vec![(c, claim(7, 1, 1)), (a, claim(3, 1, 1))];
    hear(&mut machine, remote(1, 1), &hello, at(10));
    let version = |cluster| machine.ways()[&cluster_id(cluster)].choice.map(|choice| choice.version);
    assert_eq!((version(1), version(2)), (Some(3), None));
}

#[test]
fn a_higher_epoch_is_told_and_passed_on() {
    let mut machine = machine(Me::Candidate(slot(1)), [own(2), remote(1, 1)]);
    machine.handle(Input::Lease { epoch: Epoch(5), holder: Some(slot(1)) }, at(0));
    let mut hello = plain(&own(2));
    (hello.epoch, hello.holder) = (Epoch(9), Some(slot(2)));
    assert!(hear(&mut machine, own(2), &hello, at(10)).contains(&Output::Epoch(Epoch(9))));
    assert!(!hear(&mut machine, own(2), &hello, at(20)).contains(&Output::Epoch(Epoch(9))));
    // An API that was restored knows less.
    machine.handle(Input::Lease { epoch: Epoch(6), holder: Some(slot(1)) }, at(30));
    let hellos = said(&mut machine, &own(2), at(400));
    assert_eq!(hellos.last().map(|hello| (hello.epoch, hello.holder)), Some((Epoch(9), Some(slot(2)))));
    // A peer's epoch is another cluster's.
    let mut hello = plain(&remote(1, 1));
    hello.epoch = Epoch(99);
    let outputs = hear(&mut machine, remote(1, 1), &hello, at(410));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Epoch(_))));
}

#[test]
fn the_table_travels_only_while_the_other_side_has_another() {
    let mut machine = machine(Me::Worker, [own(1), remote(1, 1)]);
    let b = ClusterHash::of(&cluster_id(1));
    let mut hello = plain(&own(1));
    hello.registers = vec![(b, claim(3, 1, 1))];
    hear(&mut machine, own(1), &hello, at(10));
    let hellos = said(&mut machine, &own(1), at(11));
    assert_eq!(hellos.len(), 0, "the first word was said in the step itself");
    // It has not heard that the candidate has the same table.
    let hellos = said(&mut machine, &own(1), at(200));
    assert!(hellos.iter().all(|hello| hello.registers == vec![(b, claim(3, 1, 1))]), "{hellos:?}");
    hello.digest = hellos[0].digest;
    for ms in [210, 300, 400, 500] {
        hear(&mut machine, own(1), &hello, at(ms));
    }
    let hellos = said(&mut machine, &own(1), at(600));
    assert!(!hellos.is_empty() && hellos.iter().all(|hello| hello.registers.is_empty()), "{hellos:?}");
}

#[test]
fn a_table_larger_than_a_hello_travels_in_parts() {
    let many = REGISTERS_MAX + 50;
    let cluster = |n: usize| crate::base::ClusterId::new(&format!("z{n}")).unwrap();
    let neighbours = (0..many).map(|n| Neighbour::Remote { cluster: cluster(n), slot: slot(1) });
    let mut machine = machine(Me::Candidate(slot(2)), neighbours.chain([own(1), own(3)]));
    let all: Vec<_> = (0..many).map(|n| (ClusterHash::of(&cluster(n)), claim(1, 1, 1))).collect();
    for part in all.chunks(REGISTERS_MAX) {
        let mut hello = plain(&own(1));
        hello.registers = part.to_vec();
        hear(&mut machine, own(1), &hello, at(10));
    }
    hear(&mut machine, own(3), &plain(&own(3)), at(20));
    let hellos = said(&mut machine, &own(3), at(700));
    let told: alloc::collections::BTreeSet<_> =
        hellos.iter().flat_map(|hello| &hello.registers).map(|(hash, _)| *hash).collect();
    assert_eq!(told.len(), many);
    assert!(hellos.iter().all(|hello| hello.registers.len() <= REGISTERS_MAX));
}

#[test]
fn many_workers_report_less_often() {
    let workers = (0..250).map(|n| Neighbour::Worker { node: node_name(&format!("w{n}")) });
    let mut candidate = machine(Me::Candidate(slot(1)), workers.chain([remote(1, 1)]));
    let one = Neighbour::Worker { node: node_name("w7") };
    let mut report = plain(&one);
    report.both = SlotSet::of(slot(1));
    hear(&mut candidate, one.clone(), &report, at(1_000));
    let hellos = said(&mut candidate, &one, at(1_900));
    assert!(hellos.iter().all(|hello| hello.report_ms == 250), "{hellos:?}");
    assert!(hellos.iter().all(|hello| hello.hears), "silent for less than four reports");
    // Suspect after 300 ms, 50 ms more than a report takes, and no sooner.
    let asks = hellos.iter().filter(|hello| hello.ask).count();
    assert!((25..=32).contains(&asks), "{asks} asks in 900 ms, the first after 300");

    let mut worker = machine(Me::Worker, [own(1), remote(1, 1)]);
    let mut hello = plain(&own(1));
    hello.report_ms = 250;
    for ms in (0..2_000).step_by(100) {
        hear(&mut worker, own(1), &hello, at(ms));
    }
    let mut reports = 0;
    for ms in (2_000..4_000).step_by(100) {
        hear(&mut worker, own(1), &hello, at(ms));
        reports += said(&mut worker, &own(1), at(ms + 99)).len();
    }
    assert!((7..=9).contains(&reports), "{reports} reports in 2 s");
}

#[test]
fn a_vanished_cluster_is_forgotten_and_a_vanished_candidate_has_no_session() {
    let mut machine = machine(Me::Candidate(slot(1)), [remote(1, 1), remote(1, 2), remote(2, 1)]);
    machine.handle(Input::Neighbours([remote(1, 1)].into()), at(10));
    assert_eq!(machine.ways().keys().cloned().collect::<Vec<_>>(), [cluster_id(1)]);
    assert_eq!(ignored(&hear(&mut machine, remote(1, 2), &plain(&remote(1, 2)), at(20))).len(), 1);
}

#[test]
fn what_comes_from_the_overlay_has_a_cable_before_anybody_is_heard() {
    let from_overlay = |machine: &Paths| machine.ways()[&cluster_id(1)].from_overlay;
    let mut candidate = machine(Me::Candidate(slot(1)), [own(2), remote(1, 2), remote(1, 3), remote(1, 4)]);
    assert_eq!(from_overlay(&candidate), Some(slot(2)), "the lowest known");
    let mut hello = plain(&own(2));
    let dead = Register { revoked: claim(4, 2, 3).claims, ..claim(4, 2, 3) };
    hello.registers = vec![(ClusterHash::of(&cluster_id(1)), dead)];
    hear(&mut candidate, own(2), &hello, at(10));
    assert_eq!(from_overlay(&candidate), Some(slot(3)), "the choice's end, though the choice is dead");
    hear(&mut candidate, remote(1, 4), &plain(&remote(1, 4)), at(20));
    assert_eq!(from_overlay(&candidate), Some(slot(4)), "one that answers");
    said(&mut candidate, &own(2), at(60_000));
    assert_eq!(from_overlay(&candidate), Some(slot(4)), "the last that answered");
    candidate.handle(Input::Neighbours([own(2), remote(1, 2), remote(1, 3)].into()), at(60_001));
    assert_eq!(from_overlay(&candidate), Some(slot(3)), "it is gone, so it goes by the choice again");

    let worker = machine(Me::Worker, [own(1), remote(1, 1)]);
    assert_eq!(from_overlay(&worker), None, "a worker passes nothing on");
}

#[test]
fn a_restarted_candidate_passes_its_former_beat() {
    let mut machine = machine(Me::Candidate(slot(1)), [own(2), remote(1, 1)]);
    let mut hello = plain(&own(2));
    let origin = Origin { beat: 5_000, ..Origin::default() };
    hello.origins = vec![(Side::Sender, slot(1), origin)];
    hear(&mut machine, own(2), &hello, at(10));
    let hellos = said(&mut machine, &own(2), at(500));
    let beat = |hello: &Hello| hello.origins.iter().find(|(_, s, _)| *s == slot(1)).map(|(_, _, origin)| origin.beat);
    assert!(hellos.iter().all(|hello| beat(hello) > Some(5_000)), "{hellos:?}");
}

#[test]
fn a_session_without_answer_becomes_quiet_while_the_path_lives() {
    let mut machine = machine(Me::Candidate(slot(1)), [remote(1, 1), remote(1, 2)]);
    // b1 answers, b2 never does.
    let mut hello = plain(&remote(1, 1));
    let mut ms = 0;
    let mut unanswered = vec![];
    while ms < 20_000 {
        ms += 100;
        hello.origins = vec![(Side::Sender, slot(1), Origin { beat: ms as u32, ..Origin::default() })];
        let words = said(&mut machine, &remote(1, 2), at(ms)).len();
        let at_once = hear(&mut machine, remote(1, 1), &hello, at(ms));
        let at_once = at_once.iter().filter(|o| matches!(o, Output::Send { to, .. } if *to == remote(1, 2))).count();
        unanswered.push(words + at_once);
    }
    assert!(machine.ways()[&cluster_id(1)].choice.is_some_and(|choice| choice.alive));
    let early: usize = unanswered[20..90].iter().sum();
    let late: usize = unanswered[120..190].iter().sum();
    assert!((65..=80).contains(&early), "{early} hellos in 7 s");
    assert!((6..=8).contains(&late), "{late} hellos in 7 s");
}

#[test]
fn ways_are_told_when_they_change_and_only_then() {
    let mut machine = machine(Me::Worker, [own(1), remote(1, 1)]);
    let ways = |outputs: Vec<Output>| -> Vec<Way> {
        let way = |output| if let Output::Ways(ways) = output { Some(ways[&cluster_id(1)]) } else { None };
        outputs.into_iter().filter_map(way).collect()
    };
    assert_eq!(ways(drain(&mut machine)).len(), 1);
    let mut hello = plain(&own(1));
    hello.origins = vec![(Side::Sender, slot(1), Origin { beat: 1, ..Origin::default() })];
    hello.registers = vec![(ClusterHash::of(&cluster_id(1)), claim(1, 1, 1))];
    let told = ways(hear(&mut machine, own(1), &hello, at(10)));
    assert_eq!(told.len(), 1);
    assert!(told[0].choice.is_some_and(|choice| choice.alive));
    assert_eq!(ways(hear(&mut machine, own(1), &hello, at(20))), []);
}
