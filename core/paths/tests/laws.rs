//! The six laws of machines, for a candidate and a worker among neighbours that say all sorts of things.

use crate::base::laws::{Proof, Subject, prove};
use crate::base::{Epoch, Instant, Rng, Slot};
use crate::paths::carried::{Lengths, Mark};
use crate::paths::register::{PairSet, Register};
use crate::paths::tests::long;
use crate::paths::tests::world::{cluster_id, node_name};
use crate::paths::wire::{ClusterHash, Hello, Origin, Sender, Side, worker_hash};
use crate::paths::{Config, Input, Me, Neighbour, Output, Paths, SlotSet};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// Neighbours of one node, each with a beat of its own.
struct Neighbours {
    all: Vec<Neighbour>,
    beat: u32,
}

fn slot(number: u8) -> Slot {
    Slot::try_from(number).unwrap()
}

impl Neighbours {
    fn of(me: Me) -> Self {
        let mut all = vec![];
        for cluster in 1..=2 {
            all.extend((1..=2).map(|n| Neighbour::Remote { cluster: cluster_id(cluster), slot: slot(n) }));
        }
        all.extend((1..=3).map(|n| Neighbour::Own { slot: slot(n) }));
        if me != Me::Worker {
            all.extend((1..=2).map(|n| Neighbour::Worker { node: node_name(&format!("aw{n}")) }));
        }
        Self { all, beat: 0 }
    }

    fn hello(&mut self, from: &Neighbour, heard: Mark, rng: &mut Rng) -> Vec<u8> {
        let own = ClusterHash::of(&cluster_id(0));
        let (cluster, sender) = match from {
            Neighbour::Remote { cluster, slot } => (ClusterHash::of(cluster), Sender::Candidate(*slot)),
            Neighbour::Own { slot } => (own, Sender::Candidate(*slot)),
            Neighbour::Worker { node } => (own, Sender::Worker(worker_hash(node))),
        };
        let bits = |rng: &mut Rng| u16::try_from(rng.below(0x40)).unwrap() & 0x33;
        let mut registers = vec![];
        for other in 0..3 {
            if rng.chance(300_000) {
                let version = u32::try_from(rng.below(4)).unwrap();
                let (claims, revoked) = (PairSet::from_bits(bits(rng)), PairSet::from_bits(bits(rng)));
                registers.push((ClusterHash::of(&cluster_id(other)), Register { version, claims, revoked }));
            }
        }
        self.beat += 1;
        let beat = self.beat;
        let mut origins = vec![];
        for _ in 0..rng.below(4) {
            let side = if rng.chance(700_000) { Side::Sender } else { Side::Receiver };
            let (lacked, had) = (SlotSet::from_bits(rng.bits() as u8), SlotSet::from_bits(rng.bits() as u8));
            let drain = rng.chance(50_000);
            let candidate = slot(u8::try_from(rng.below(3)).unwrap() + 1);
            origins.push((side, candidate, Origin { beat, lacked, had, workers: true, drain }));
        }
        let hello = Hello {
            cluster,
            sender,
            hears: rng.chance(850_000),
            ask: rng.chance(200_000),
            settled: rng.chance(800_000),
            drain: false,
            hurry: rng.chance(50_000),
            epoch: Epoch(rng.below(5)),
            holder: None,
            origins,
            registers,
            both: SlotSet::from_bits(rng.bits() as u8),
            digest: u32::try_from(rng.below(2)).unwrap(),
            hurried: if rng.chance(50_000) { vec![ClusterHash::of(&cluster_id(1))] } else { vec![] },
            report_ms: 100,
            lengths: rng.chance(900_000).then(|| {
                let length = if rng.chance(100_000) { 576 + u16::try_from(rng.below(845)).unwrap() } else { 0 };
                Lengths { question: Mark { round: u16::try_from(rng.below(3)).unwrap(), length }, heard }
            }),
        };
        hello.encode_padded()
    }

    fn happening(&mut self, rng: &mut Rng) -> Input {
        match rng.below(20) {
            0 => {
                let here = self.all.iter().filter(|_| rng.chance(700_000));
                Input::Neighbours(here.cloned().collect::<BTreeSet<_>>())
            }
            1 => Input::Neighbours(self.all.iter().cloned().collect()),
            2 => Input::Lease { epoch: Epoch(rng.below(5)), holder: Some(slot(1)) },
            3 => Input::Drain(rng.chance(500_000)),
            4 => {
                let from = self.all[rng.below(self.all.len() as u64) as usize].clone();
                Input::Hello { from, bytes: vec![0x74, 0x62, rng.below(3) as u8, 0, 0] }
            }
            _ => {
                let from = self.all[rng.below(self.all.len() as u64) as usize].clone();
                let bytes = self.hello(&from, Mark::default(), rng);
                Input::Hello { from, bytes }
            }
        }
    }

    fn answer(&mut self, output: &Output, rng: &mut Rng) -> Vec<(Duration, Input)> {
        let Output::Send { to, bytes } = output else { return vec![] };
        if rng.chance(600_000) {
            return vec![];
        }
        let question = Hello::decode(bytes).unwrap().lengths.map_or(Mark::default(), |lengths| lengths.question);
        // Long ones get lost.
        let heard = if question.length < 1_300 || rng.chance(100_000) { question } else { Mark::default() };
        let bytes = self.hello(to, heard, rng);
        vec![(Duration::from_millis(rng.below(80)), Input::Hello { from: to.clone(), bytes })]
    }
}

fn begin(me: Me, rng: &mut Rng) -> (Neighbours, Paths) {
    let mut machine =
        Paths::new(Config { cluster: cluster_id(0), node: node_name("me"), me, seed: rng.bits(), boot: Instant::ZERO });
    let neighbours = Neighbours::of(me);
    crate::base::Machine::handle(
        &mut machine,
        Input::Neighbours(neighbours.all.iter().cloned().collect()),
        Instant::ZERO,
    );
    (neighbours, machine)
}

macro_rules! subject {
    ($name:ident, $me:expr) => {
        struct $name(Neighbours);

        impl Subject for $name {
            type M = Paths;
            const GAP_MAX: Duration = Duration::from_millis(400);

            fn begin(rng: &mut Rng) -> (Self, Paths) {
                let (neighbours, machine) = begin($me, rng);
                (Self(neighbours), machine)
            }

            fn input(&mut self, rng: &mut Rng, _: Instant) -> Input {
                self.0.happening(rng)
            }

            fn react(&mut self, output: &Output, rng: &mut Rng, _: Instant) -> Vec<(Duration, Input)> {
                self.0.answer(output, rng)
            }
        }
    };
}

subject!(Candidate, Me::Candidate(slot(2)));
subject!(Worker, Me::Worker);

fn assert_full(proof: Proof) {
    let Proof { inputs, answers, coincidences, wakes, .. } = proof;
    assert!(inputs > 20 && answers > 100 && coincidences > 5 && wakes > 150, "{proof:?}");
}

#[test]
fn a_candidate_keeps_the_laws() {
    assert_full(prove::<Candidate>(u32::try_from(2 * long()).unwrap()));
}

#[test]
fn a_worker_keeps_the_laws() {
    assert_full(prove::<Worker>(u32::try_from(4 * long()).unwrap()));
}
