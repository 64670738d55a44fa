//! Addresses that are derived, never assigned: from the UID of a node and from cluster and slot.

use crate::base::{Cidr, ClusterId, Slot, hash};
use crate::network::Mac;
use core::net::{IpAddr, Ipv6Addr};

/// First 16 bits of overlay addresses (unique local, RFC 4193).
const OVERLAY: u16 = 0xfd74;
/// First 16 bits of probe addresses.
const PROBE: u16 = 0xfd75;

fn address(prefix: u16, net: u64, host: u64) -> IpAddr {
    let bits = (u128::from(prefix) << 112) | (u128::from(net >> 16) << 64) | u128::from(host);
    IpAddr::V6(Ipv6Addr::from(bits))
}

/// The overlay's range in a cluster.
#[must_use]
pub fn overlay_range(cluster: &ClusterId) -> Option<Cidr> {
    Cidr::holding(overlay_address(cluster, ""), 64)
}

/// A node's address on the overlay of its cluster. Not from the node's own addresses: those may clash in their last
/// octets and may be IPv6 only (data-plane.md 3).
#[must_use]
pub fn overlay_address(cluster: &ClusterId, uid: &str) -> IpAddr {
    address(OVERLAY, hash::mix(hash::fnv1a(cluster.as_str().as_bytes())), hash::mix(hash::fnv1a(uid.as_bytes())))
}

/// A node's MAC on the overlay: locally administered, unicast, stable.
#[must_use]
pub fn overlay_mac(uid: &str) -> Mac {
    let [a, b, c, d, e, f, ..] = hash::mix(hash::fnv1a(uid.as_bytes())).to_be_bytes();
    Mac([a & 0xfc | 0x02, b, c, d, e, f])
}

/// A candidate's address inside the cables, unique in the clusterset.
#[must_use]
pub fn probe_address(cluster: &ClusterId, slot: Slot) -> IpAddr {
    address(PROBE, hash::mix(hash::fnv1a(cluster.as_str().as_bytes())), u64::from(slot.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_addresses_are_distinct_stable_and_in_their_range() {
        let (east, west) = (ClusterId::new("east").unwrap(), ClusterId::new("west").unwrap());
        let [one, two, ..] = Slot::all();
        assert_ne!(probe_address(&east, one), probe_address(&east, two));
        assert_ne!(probe_address(&east, one), probe_address(&west, one));
        assert_ne!(overlay_address(&east, "a"), overlay_address(&east, "b"));
        assert!(overlay_range(&east).unwrap().contains(overlay_address(&east, "some-uid")));
        assert!(!overlay_range(&west).unwrap().contains(overlay_address(&east, "some-uid")));
        assert_eq!(overlay_mac("x").0[0] & 3, 2, "locally administered unicast");
    }
}
