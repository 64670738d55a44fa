//! The slot table of a service: which backend a flow goes to, by the hash of the flow.
//!
//! Each slot goes to the backend that scores highest in it (rendezvous hashing). So the table depends on the set of
//! backends alone, every gateway of a cluster makes the same one, and when a backend leaves, only its own slots move.

use crate::base::hash::{fnv1a, fnv1a_more, mix};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Slots of a service. With two backends, shares are uneven by some 4 %; of 64 backends about one in eight gets none.
pub const SLOTS: usize = 128;

/// The slot table of `backends`; empty if there is none.
#[must_use]
pub fn slots(backends: &BTreeSet<(IpAddr, u16)>) -> Vec<(IpAddr, u16)> {
    let hashed: Vec<_> = backends.iter().map(|backend| (hash_of(*backend), *backend)).collect();
    let score = |slot: u64, hash: u64| mix(hash ^ mix(slot.wrapping_add(1)));
    (0u64..)
        .take(if hashed.is_empty() { 0 } else { SLOTS })
        .filter_map(|slot| hashed.iter().max_by_key(|(hash, backend)| (score(slot, *hash), *backend)))
        .map(|(_, backend)| *backend)
        .collect()
}

fn hash_of((address, port): (IpAddr, u16)) -> u64 {
    let hash = match address {
        IpAddr::V4(v4) => fnv1a(&v4.octets()),
        IpAddr::V6(v6) => fnv1a(&v6.octets()),
    };
    fnv1a_more(hash, &port.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    fn backends() -> impl Strategy<Value = BTreeSet<(IpAddr, u16)>> {
        let backend = (any::<u32>(), 1u16..).prop_map(|(bits, port)| (IpAddr::from(Ipv4Addr::from(bits)), port));
        proptest::collection::btree_set(backend, 1..20)
    }

    proptest! {
        #[test]
        fn when_a_backend_leaves_only_its_own_slots_move(all in backends(), index in any::<prop::sample::Index>()) {
            let before = slots(&all);
            let gone = *all.iter().nth(index.index(all.len())).unwrap();
            let mut rest = all.clone();
            rest.remove(&gone);
            let after = slots(&rest);
            prop_assert_eq!(before.len(), SLOTS);
            prop_assert_eq!(after.is_empty(), rest.is_empty());
            for (was, is) in before.iter().zip(&after) {
                prop_assert!(was == is || *was == gone);
                prop_assert!(rest.contains(is));
            }
        }
    }

    #[test]
    fn ten_backends_share_the_slots_about_evenly() {
        let all = (1..=10).map(|n| (IpAddr::from([10, 2, 0, n]), 8080)).collect();
        let mut share = BTreeMap::<_, usize>::new();
        for backend in slots(&all) {
            *share.entry(backend).or_default() += 1;
        }
        assert_eq!(share.len(), 10);
        assert!(share.values().all(|n| (4..=24).contains(n)), "{share:?}");
    }

    #[test]
    fn no_backend_gives_no_slot() {
        assert_eq!(slots(&BTreeSet::new()), []);
    }
}
