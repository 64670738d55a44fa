//! A wire in memory, with a clock that jumps from one thing to the next.

use super::super::{Change, Device, Input, Output, PeerChange, Secret};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tombolo_core::base::{Instant, Machine, Wall, drain};
use tombolo_core::model::CableKey;

/// How long a datagram is on its way.
pub const FLIGHT: Duration = Duration::from_millis(10);

/// Says whether a datagram arrives: given when, from, to and what.
pub type Fate = Box<dyn FnMut(Instant, SocketAddr, SocketAddr, &[u8]) -> bool>;

/// Devices and what is between them.
pub struct World {
    pub now: Instant,
    pub devices: Vec<Device>,
    /// Where each is.
    pub places: Vec<SocketAddr>,
    /// What came out inside, by device.
    pub arrived: Vec<Vec<Vec<u8>>>,
    /// On the way: when it arrives, from, to, what.
    flying: Vec<(Instant, SocketAddr, SocketAddr, Vec<u8>)>,
    /// All that was ever sent: when, from, to, what.
    pub sent: Vec<(Instant, SocketAddr, SocketAddr, Vec<u8>)>,
    pub fate: Fate,
}

/// The private key of a device.
pub fn secret(index: u8) -> Secret {
    Secret::new([index + 1; 32])
}

/// Its public key.
pub fn key(index: u8) -> CableKey {
    secret(index).public()
}

/// Where it is at first: in IPv6 the odd ones.
pub fn place(index: u8) -> SocketAddr {
    let text =
        if index.is_multiple_of(2) { format!("192.0.2.{index}:4511") } else { format!("[2001:db8::{index}]:4511") };
    text.parse().unwrap()
}

/// How others know it: with ranges of both families, all of them its own.
pub fn known(index: u8) -> PeerChange {
    let ranges = [format!("10.{index}.0.0/16"), format!("fd00:{index}::/32")];
    let ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
    PeerChange { endpoint: Some(place(index)), ranges, ..PeerChange::of(key(index)) }
}

/// A packet with this mark, from one device's range to another's.
pub fn packet(from: u8, to: u8, mark: u8) -> Vec<u8> {
    if mark.is_multiple_of(2) {
        let mut packet = vec![0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend([10, from, 0, 1, 10, to, 0, 1]);
        packet.extend([mark; 10]);
        return packet;
    }
    let address = |index: u8| format!("fd00:{index}::1").parse::<std::net::Ipv6Addr>().unwrap().octets();
    let head = [0x60, 0, 0, 0, 0, 10, 17, 64];
    [&head[..], &address(from), &address(to), &[mark; 10]].concat()
}

impl World {
    /// So many devices with keys, that know nobody.
    pub fn of(count: u8) -> Self {
        let mut world = Self {
            now: Instant::ZERO,
            devices: Vec::new(),
            places: (0..count).map(place).collect(),
            arrived: vec![Vec::new(); usize::from(count)],
            flying: Vec::new(),
            sent: Vec::new(),
            fate: Box::new(|_, _, _, _| true),
        };
        (0..count).for_each(|index| world.devices.push(device(index, 1_000_000)));
        world
    }

    /// Two that know each other.
    pub fn pair() -> Self {
        let mut world = Self::of(2);
        world.change(0, Change::Peer(known(1)));
        world.change(1, Change::Peer(known(0)));
        world
    }

    /// A device starts anew, and knows nobody. Its wall clock has gone on.
    pub fn restart(&mut self, index: u8) {
        let seconds = 1_000_000 + self.now.since_origin().as_secs() + 1;
        let origin = seconds - self.now.since_origin().as_secs();
        self.devices[usize::from(index)] = device(index, origin);
    }

    pub fn change(&mut self, index: u8, change: Change) {
        self.give(index, Input::Change(change));
    }

    /// A packet goes from one to the other.
    pub fn send(&mut self, from: u8, to: u8, mark: u8) {
        self.give(from, Input::Packet(packet(from, to, mark)));
    }

    pub fn give(&mut self, index: u8, input: Input) {
        self.devices[usize::from(index)].handle(input, self.now);
        self.take(index);
    }

    /// Takes what a device wants to have done.
    fn take(&mut self, index: u8) {
        let index = usize::from(index);
        for output in drain(&mut self.devices[index]) {
            match output {
                Output::Packet(packet) => self.arrived[index].push(packet),
                Output::Datagram { to, bytes } => {
                    let from = self.places[index];
                    self.sent.push((self.now, from, to, bytes.clone()));
                    if (self.fate)(self.now, from, to, &bytes) {
                        self.flying.push((self.now + FLIGHT, from, to, bytes));
                    }
                }
            }
        }
    }

    /// Lets time pass, and all that happens meanwhile.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let arrival = self.flying.iter().map(|(at, ..)| *at).min();
            let wake = self.devices.iter().filter_map(Machine::poll_timeout).map(|(at, _)| at).min();
            let Some(next) = arrival.into_iter().chain(wake).min().filter(|next| *next <= end) else { break };
            self.now = next;
            for index in 0..self.devices.len() {
                if self.devices[index].poll_timeout().is_some_and(|(at, _)| at <= next) {
                    self.devices[index].handle_timeout(next);
                    self.take(u8::try_from(index).unwrap());
                }
            }
            let (landed, flying): (Vec<_>, _) =
                std::mem::take(&mut self.flying).into_iter().partition(|(at, ..)| *at <= next);
            self.flying = flying;
            for (_, from, to, bytes) in landed {
                if let Some(index) = self.places.iter().position(|place| *place == to) {
                    self.give(u8::try_from(index).unwrap(), Input::Datagram { from, bytes });
                }
            }
        }
        self.now = end;
    }

    /// The marks of what arrived at a device since this was asked last.
    pub fn marks(&mut self, index: u8) -> Vec<u8> {
        let arrived = std::mem::take(&mut self.arrived[usize::from(index)]);
        arrived.iter().map(|packet| *packet.last().unwrap()).collect()
    }

    /// How many messages of each kind were sent since this was asked last.
    pub fn kinds(&mut self) -> BTreeMap<u8, usize> {
        let mut kinds = BTreeMap::new();
        std::mem::take(&mut self.sent).iter().for_each(|(.., bytes)| *kinds.entry(bytes[0]).or_default() += 1);
        kinds
    }

    /// Where a device believes its peer to be.
    pub fn endpoint(&self, of: u8, peer: u8) -> SocketAddr {
        let mut peers = self.devices[usize::from(of)].peers();
        peers.find(|(is, _)| **is == key(peer)).and_then(|(_, peer)| peer.endpoint).unwrap()
    }
}

fn device(index: u8, wall_secs: u64) -> Device {
    let seed = u8::try_from(wall_secs % 200).unwrap();
    let mut device = Device::new([index ^ seed; 32], Wall::from_unix_secs(wall_secs));
    device.handle(Input::Change(Change::Secret(Some(secret(index)))), Instant::ZERO);
    device
}

/// An address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
