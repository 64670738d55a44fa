//! Which peer has which addresses: the longest range wins.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tombolo_core::base::Cidr;
use tombolo_core::model::CableKey;
use tombolo_core::network::longest_match;

/// Ranges and their peers. A range has one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ranges(BTreeMap<Cidr, CableKey>);

impl Ranges {
    /// Gives a range to a peer, and takes it from whoever had it.
    pub fn put(&mut self, range: Cidr, peer: CableKey) {
        self.0.insert(range, peer);
    }

    /// Takes all ranges of a peer away.
    pub fn clear(&mut self, peer: &CableKey) {
        self.0.retain(|_, has| has != peer);
    }

    /// Whose address it is.
    #[must_use]
    pub fn of(&self, address: IpAddr) -> Option<&CableKey> {
        let found = longest_match(address, |bound| self.0.range(..=bound).next_back().map(|(range, _)| *range))?;
        self.0.get(&found)
    }

    /// The ranges of a peer.
    #[must_use]
    pub fn by(&self, peer: &CableKey) -> BTreeSet<Cidr> {
        self.0.iter().filter(|(_, has)| *has == peer).map(|(range, _)| *range).collect()
    }
}

/// Where a packet comes from, and where it goes; `None` if it is none of IPv4 or IPv6.
#[must_use]
pub fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    fn at<const N: usize>(packet: &[u8], offset: usize) -> Option<[u8; N]> {
        packet.get(offset..)?.first_chunk().copied()
    }
    match packet.first()? >> 4 {
        4 => Some((Ipv4Addr::from(at::<4>(packet, 12)?).into(), Ipv4Addr::from(at::<4>(packet, 16)?).into())),
        6 => Some((Ipv6Addr::from(at::<16>(packet, 8)?).into(), Ipv6Addr::from(at::<16>(packet, 24)?).into())),
        _ => None,
    }
}

/// How long a packet says that it is: what is behind that is padding. `None` if there is less of it, or if it is none.
#[must_use]
pub fn length(packet: &[u8]) -> Option<usize> {
    let field = |at: usize| packet.get(at..)?.first_chunk().map(|bytes| usize::from(u16::from_be_bytes(*bytes)));
    let length = match packet.first()? >> 4 {
        4 => field(2).filter(|length| *length >= 20)?,
        6 => field(4)? + 40,
        _ => return None,
    };
    (length <= packet.len()).then_some(length)
}
