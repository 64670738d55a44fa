//! Longest-prefix match straight in the sorted maps of a [`Network`](super::Network).
//!
//! Ranges are ordered by address, then by length. The greatest range that is not above `address/full` is the longest
//! match, if it holds the address. If not, any match must hold that range's address too, so it is no longer than the
//! bits both have in common: ask again from there. Each step cuts the length; two or three steps are usual.

use super::{Route, RouteId, Table};
use crate::base::Cidr;
use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

/// The longest range of `ranges` that holds `address`.
pub(super) fn longest_in(ranges: &BTreeSet<Cidr>, address: IpAddr) -> Option<Cidr> {
    longest_match(address, |bound| ranges.range(..=bound).next_back().copied())
}

/// The routes of `table` that hold `address`, longest first.
pub(super) fn routes(
    routes: &BTreeMap<RouteId, Route>,
    table: Table,
    address: IpAddr,
) -> impl Iterator<Item = (&RouteId, &Route)> {
    let mut bound = Some(Cidr::host(address));
    core::iter::from_fn(move || {
        let to = search_from(address, bound?, |bound| {
            let below = routes.range(..=RouteId { table, to: bound }).next_back();
            below.map(|(id, _)| *id).filter(|id| id.table == table).map(|id| id.to)
        })?;
        bound = to.prefix_len().checked_sub(1).and_then(|len| Cidr::holding(address, len));
        routes.get_key_value(&RouteId { table, to })
    })
}

/// The longest range that holds `address`, where `below` gives the greatest range that is not above its argument.
pub fn longest_match(address: IpAddr, below: impl Fn(Cidr) -> Option<Cidr>) -> Option<Cidr> {
    search_from(address, Cidr::host(address), below)
}

fn search_from(address: IpAddr, mut bound: Cidr, below: impl Fn(Cidr) -> Option<Cidr>) -> Option<Cidr> {
    loop {
        let found = below(bound)?;
        if found.contains(address) {
            return Some(found);
        }
        let common = common_bits(found.network(), address)?;
        bound = Cidr::holding(address, common.min(found.prefix_len().checked_sub(1)?))?;
    }
}

/// How many leading bits are equal; `None` across families.
fn common_bits(a: IpAddr, b: IpAddr) -> Option<u8> {
    let bits = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).leading_zeros(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    };
    u8::try_from(bits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    fn address() -> impl Strategy<Value = IpAddr> {
        // Few distinct high bits, so that prefixes nest and share.
        prop_oneof![
            (0u32..4, 0u32..4, any::<u8>())
                .prop_map(|(a, b, c)| Ipv4Addr::from(a << 30 | b << 12 | u32::from(c)).into()),
            (0u128..4, 0u128..4).prop_map(|(a, b)| Ipv6Addr::from(a << 126 | b << 40).into()),
        ]
    }

    fn range() -> impl Strategy<Value = Cidr> {
        (address(), 0u8..=128).prop_map(|(address, len)| {
            let width = if address.is_ipv4() { 32 } else { 128 };
            Cidr::holding(address, len % (width + 1)).unwrap()
        })
    }

    proptest! {
        #[test]
        fn finds_what_a_walk_over_all_ranges_finds(
            ranges in proptest::collection::btree_set(range(), 0..24),
            address in address(),
        ) {
            let walked = ranges.iter().filter(|r| r.contains(address)).max_by_key(|r| r.prefix_len()).copied();
            prop_assert_eq!(longest_in(&ranges, address), walked);
        }

        #[test]
        fn lists_all_matching_routes_of_the_table_longest_first(
            ranges in proptest::collection::btree_set((1u32..4, range()), 0..24),
            address in address(),
        ) {
            let table = Table(2);
            let map: BTreeMap<_, _> = ranges
                .iter()
                .map(|(table, to)| (RouteId { table: Table(*table), to: *to }, Route { kind: super::super::RouteKind::Blackhole, source: None, mtu: None }))
                .collect();
            let mut walked: Vec<_> = map.keys().filter(|id| id.table == table && id.to.contains(address)).collect();
            walked.sort_by_key(|id| core::cmp::Reverse(id.to.prefix_len()));
            let found: Vec<_> = routes(&map, table, address).map(|(id, _)| id).collect();
            prop_assert_eq!(found, walked);
        }
    }
}
