//! What a NAT box does to a datagram, in the words of RFC 4787. Like `network::forward` it is a model that worlds carry
//! packets by; no daemon has one.
//!
//! A *mapping* gives an inside socket a port on the box's outside address. How many of them a socket gets, and who may
//! send back through one, is each of three kinds: it may depend on nothing, on the other side's address, or on its
//! address and port. A *forward* is a mapping that an administrator made.

use crate::base::Instant;
use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// How long a mapping lives without a datagram from inside (RFC 4787 REQ-5: not less than two minutes).
pub const LIFETIME: Duration = Duration::from_secs(120);
/// The first port that a box gives where it does not keep the inside one.
const FIRST_PORT: u16 = 20_000;

/// On what of the other side a mapping or a filter depends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Dependence {
    /// On nothing: endpoint independent.
    Nothing,
    /// On its address.
    Address,
    /// On its address and port.
    AddressAndPort,
}

impl Dependence {
    /// The part of `other` that matters.
    const fn of(self, other: SocketAddr) -> (Option<IpAddr>, Option<u16>) {
        match self {
            Self::Nothing => (None, None),
            Self::Address => (Some(other.ip()), None),
            Self::AddressAndPort => (Some(other.ip()), Some(other.port())),
        }
    }
}

impl fmt::Display for Dependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "endpoint-independent",
            Self::Address => "address-dependent",
            Self::AddressAndPort => "address-and-port-dependent",
        })
    }
}

/// How a box behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Behaviour {
    /// When an inside socket gets another outside port.
    pub mapping: Dependence,
    /// Who may send in through a mapping: whom the inside socket sent to.
    pub filtering: Dependence,
    /// The outside port is the inside one where that is free.
    pub keeps_ports: bool,
}

/// The part of the other side that a mapping depends on.
type Toward = (Option<IpAddr>, Option<u16>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Mapping {
    inside: SocketAddr,
    /// Sent to, by the part that the filter looks at.
    contacts: BTreeSet<Toward>,
    used: Instant,
}

/// A NAT box.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NatBox {
    behaviour: Behaviour,
    outside: IpAddr,
    forwards: BTreeMap<u16, SocketAddr>,
    by_inside: BTreeMap<(SocketAddr, Toward), u16>,
    by_port: BTreeMap<u16, Mapping>,
    next_port: u16,
}

impl NatBox {
    /// A box with this outside address, and no mapping.
    #[must_use]
    pub const fn new(behaviour: Behaviour, outside: IpAddr) -> Self {
        Self {
            behaviour,
            outside,
            forwards: BTreeMap::new(),
            by_inside: BTreeMap::new(),
            by_port: BTreeMap::new(),
            next_port: FIRST_PORT,
        }
    }

    /// Its outside address.
    #[must_use]
    pub const fn outside(&self) -> IpAddr {
        self.outside
    }

    /// Whatever comes for `port` goes to `inside`, and what `inside` sends comes from that port.
    pub fn forward(&mut self, port: u16, inside: SocketAddr) {
        self.forwards.insert(port, inside);
    }

    /// All mappings are forgotten; new ones get other ports where the box does not keep them. Forwards stay.
    pub fn forget(&mut self) {
        self.by_inside.clear();
        self.by_port.clear();
    }

    /// Its outside address is another now; mappings are forgotten.
    pub fn change_address(&mut self, outside: IpAddr) {
        self.outside = outside;
        self.forget();
    }

    /// The source under which a datagram from `inside` to `to` leaves.
    pub fn outbound(&mut self, inside: SocketAddr, to: SocketAddr, now: Instant) -> SocketAddr {
        let forward = self.forwards.iter().find(|(_, there)| **there == inside).map(|(port, _)| *port);
        let port = forward.unwrap_or_else(|| self.map(inside, to, now));
        SocketAddr::new(self.outside, port)
    }

    fn map(&mut self, inside: SocketAddr, to: SocketAddr, now: Instant) -> u16 {
        let key = (inside, self.behaviour.mapping.of(to));
        let known = self.by_inside.get(&key).copied().filter(|port| self.lives(*port, now));
        let port = known.unwrap_or_else(|| self.free_port(inside.port(), now));
        self.by_inside.insert(key, port);
        let mapping =
            self.by_port.entry(port).or_insert_with(|| Mapping { inside, contacts: BTreeSet::new(), used: now });
        if known.is_none() {
            *mapping = Mapping { inside, contacts: BTreeSet::new(), used: now };
        }
        mapping.used = now;
        mapping.contacts.insert(self.behaviour.filtering.of(to));
        port
    }

    fn lives(&self, port: u16, now: Instant) -> bool {
        self.by_port.get(&port).is_some_and(|mapping| now.since(mapping.used) < LIFETIME)
    }

    fn free_port(&mut self, inside: u16, now: Instant) -> u16 {
        let taken = |this: &Self, port: u16| this.forwards.contains_key(&port) || this.lives(port, now);
        if self.behaviour.keeps_ports && !taken(self, inside) {
            return inside;
        }
        for _ in FIRST_PORT..u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
            if !taken(self, port) {
                return port;
            }
        }
        // All ports are taken: the oldest mapping would go. No world is that large.
        FIRST_PORT
    }

    /// The inside socket to which a datagram from `from` for `port` of the outside address goes, if it may pass.
    #[must_use]
    pub fn inbound(&self, port: u16, from: SocketAddr, now: Instant) -> Option<SocketAddr> {
        if let Some(inside) = self.forwards.get(&port) {
            return Some(*inside);
        }
        let mapping = self.by_port.get(&port).filter(|_| self.lives(port, now))?;
        mapping.contacts.contains(&self.behaviour.filtering.of(from)).then_some(mapping.inside)
    }
}

#[cfg(test)]
mod tests {
    use super::Dependence::{Address, AddressAndPort, Nothing};
    use super::*;

    fn socket(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn new(mapping: Dependence, filtering: Dependence, keeps_ports: bool) -> NatBox {
        NatBox::new(Behaviour { mapping, filtering, keeps_ports }, "198.51.100.1".parse().unwrap())
    }

    const START: Instant = Instant::ZERO;

    #[test]
    fn a_mapping_depends_on_as_much_of_the_other_side_as_its_kind_says() {
        let ports = |mapping| {
            let mut nat = new(mapping, Nothing, false);
            let mut port = |to: &str| nat.outbound(socket("10.0.0.5:4490"), socket(to), START).port();
            [port("192.0.2.1:1"), port("192.0.2.1:2"), port("192.0.2.2:1"), port("192.0.2.1:1")]
        };
        assert_eq!(ports(Nothing), [20_000; 4]);
        assert_eq!(ports(Address), [20_000, 20_000, 20_001, 20_000]);
        assert_eq!(ports(AddressAndPort), [20_000, 20_001, 20_002, 20_000]);
    }

    #[test]
    fn a_filter_lets_in_whom_the_inside_wrote_to_by_its_kind() {
        let inside = socket("10.0.0.5:4490");
        let passes = |filtering| {
            let mut nat = new(Nothing, filtering, true);
            nat.outbound(inside, socket("192.0.2.1:1"), START);
            ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"].map(|from| nat.inbound(4490, socket(from), START).is_some())
        };
        assert_eq!(passes(Nothing), [true, true, true]);
        assert_eq!(passes(Address), [true, true, false]);
        assert_eq!(passes(AddressAndPort), [true, false, false]);
    }

    #[test]
    fn a_kept_port_that_is_taken_becomes_another() {
        let mut nat = new(Nothing, Nothing, true);
        assert_eq!(nat.outbound(socket("10.0.0.5:4490"), socket("192.0.2.1:1"), START).port(), 4490);
        assert_eq!(nat.outbound(socket("10.0.0.6:4490"), socket("192.0.2.1:1"), START).port(), 20_000);
        assert_eq!(nat.inbound(20_000, socket("192.0.2.9:9"), START), Some(socket("10.0.0.6:4490")));
    }

    #[test]
    fn a_mapping_dies_when_nothing_leaves_for_its_lifetime_and_a_forward_never() {
        let mut nat = new(Nothing, Nothing, true);
        nat.forward(500, socket("10.0.0.7:500"));
        nat.outbound(socket("10.0.0.5:4490"), socket("192.0.2.1:1"), START);
        let last = START + (LIFETIME - Duration::from_nanos(1));
        assert!(nat.inbound(4490, socket("192.0.2.1:1"), last).is_some());
        assert!(nat.inbound(4490, socket("192.0.2.1:1"), START + LIFETIME).is_none());
        assert_eq!(nat.inbound(500, socket("192.0.2.1:1"), START + LIFETIME), Some(socket("10.0.0.7:500")));
        assert_eq!(nat.outbound(socket("10.0.0.7:500"), socket("192.0.2.1:1"), START).port(), 500);
    }

    #[test]
    fn who_forgets_gives_new_ports_and_another_address_is_seen_outside() {
        let mut nat = new(Nothing, Nothing, false);
        let (inside, to) = (socket("10.0.0.5:4490"), socket("192.0.2.1:1"));
        assert_eq!(nat.outbound(inside, to, START), socket("198.51.100.1:20000"));
        nat.forget();
        assert_eq!(nat.inbound(20_000, to, START), None);
        nat.change_address("198.51.100.2".parse().unwrap());
        assert_eq!(nat.outbound(inside, to, START), socket("198.51.100.2:20001"));
    }
}
