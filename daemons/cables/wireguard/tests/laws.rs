//! The device keeps the laws of machines.

use super::super::{Change, Device, Input, Output, PeerChange, Reason};
use super::wire::{key, known, packet, place, secret};
use std::time::Duration;
use tombolo_core::base::laws::{Subject, prove};
use tombolo_core::base::{Instant, Machine, Rng, Wall, drain};

/// A peer that answers, as a device of its own.
struct Other(Device);

impl Subject for Other {
    type M = Device;
    const GAP_MAX: Duration = Duration::from_secs(200);

    fn begin(rng: &mut Rng) -> (Self, Device) {
        let mut make = |index: u8, other: u8| {
            let seed = u8::try_from(rng.below(256)).unwrap();
            let mut device = Device::new([seed; 32], Wall::from_unix_secs(1_000_000));
            device.handle(Input::Change(Change::Secret(Some(secret(index)))), Instant::ZERO);
            let keep_open_secs = (index == 0).then(|| u16::try_from(rng.below(30)).unwrap());
            let change = PeerChange { keep_open_secs, ..known(other) };
            device.handle(Input::Change(Change::Peer(change)), Instant::ZERO);
            drop(drain(&mut device));
            device
        };
        (Self(make(1, 0)), make(0, 1))
    }

    fn input(&mut self, rng: &mut Rng, now: Instant) -> Input {
        let mark = u8::try_from(rng.below(100)).unwrap();
        match rng.below(6) {
            0 => Input::Change(Change::Peer(PeerChange { keep_open_secs: Some(mark.into()), ..known(1) })),
            1 => Input::Datagram { from: place(1), bytes: vec![mark % 5; usize::from(mark) * 3] },
            2 | 3 => {
                self.0.handle(Input::Packet(packet(1, 0, mark)), now);
                let said = drain(&mut self.0).into_iter().find_map(|output| match output {
                    Output::Datagram { bytes, .. } => Some(bytes),
                    Output::Packet(_) => None,
                });
                Input::Datagram { from: place(mark % 3), bytes: said.unwrap_or_default() }
            }
            _ => Input::Packet(packet(0, 1, mark)),
        }
    }

    fn react(&mut self, output: &Output, rng: &mut Rng, now: Instant) -> Vec<(Duration, Input)> {
        let Output::Datagram { bytes, .. } = output else { return Vec::new() };
        if rng.chance(200_000) {
            return Vec::new();
        }
        self.0.handle(Input::Datagram { from: place(0), bytes: bytes.clone() }, now);
        let said = drain(&mut self.0).into_iter();
        let datagrams = said.filter_map(|output| match output {
            Output::Datagram { bytes, .. } => Some(Input::Datagram { from: place(1), bytes }),
            Output::Packet(_) => None,
        });
        datagrams.map(|input| (rng.duration(Duration::ZERO, Duration::from_millis(700)), input)).collect()
    }
}

#[test]
fn a_device_keeps_the_laws() {
    let proof = prove::<Other>(64);
    assert!(proof.answers > 100 && proof.wakes > 100 && proof.coincidences > 10, "{proof:?}");
}

#[test]
fn the_reason_of_a_wish_to_wake_is_told() {
    let mut device = Device::new([1; 32], Wall::from_unix_secs(1));
    device.handle(Input::Change(Change::Secret(Some(secret(0)))), Instant::ZERO);
    device.handle(Input::Change(Change::Peer(known(1))), Instant::ZERO);
    assert_eq!(device.poll_timeout(), None);
    device.handle(Input::Packet(packet(0, 1, 2)), Instant::ZERO);
    assert_eq!(device.poll_timeout().map(|(_, reason)| reason), Some(Reason::AskAgain));
    assert_eq!(device.peers().next().map(|(is, _)| *is), Some(key(1)));
}
