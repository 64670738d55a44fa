//! Pools against a plain model, and what users of Submariner's pools rely on.

use super::cidr;
use crate::ipam::{AllocateError, Pool, RangeError, RecordError, Recovery};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use proptest::prelude::*;

fn pool(range: &str) -> Pool<String> {
    Recovery::new(cidr(range)).unwrap().done()
}

fn own(name: &str) -> String {
    name.to_string()
}

fn texts(addresses: &[IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

fn give(pool: &mut Pool<String>, owner: &str, count: u32) -> Vec<String> {
    texts(&pool.allocate(&own(owner), count).unwrap())
}

#[test]
fn ippool_one_takes_highest() {
    let mut pool = pool("242.0.0.0/29");
    assert_eq!(give(&mut pool, "a", 1), ["242.0.0.6"]);
    assert_eq!(give(&mut pool, "b", 1), ["242.0.0.5"]);
    assert_eq!((pool.free(), pool.used()), (4, 2));
}

#[test]
fn ippool_many_takes_lowest_contiguous() {
    let mut pool = pool("242.0.0.0/29");
    assert_eq!(give(&mut pool, "a", 2), ["242.0.0.1", "242.0.0.2"]);
    assert_eq!(give(&mut pool, "b", 3), ["242.0.0.3", "242.0.0.4", "242.0.0.5"]);
}

#[test]
fn ippool_fragmented_error() {
    let mut pool = pool("242.0.0.0/29");
    for (owner, count) in [("a", 2), ("b", 1), ("c", 2)] {
        give(&mut pool, owner, count);
    }
    pool.retire(&own("a"));
    assert!(pool.forget(&own("a")));
    let error = pool.allocate(&own("d"), 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "3 neighbouring addresses wanted: 3 of 242.0.0.0/29 are free, but at most 2 side by side"
    );
    let error = pool.allocate(&own("d"), 4).unwrap_err();
    assert!(matches!(error, AllocateError::Exhausted { wanted: 4, free: 3, .. }), "{error}");
}

#[test]
fn reserve_is_all_or_nothing() {
    let mut recovery = Recovery::new(cidr("242.0.0.0/29")).unwrap();
    let address = |last: u8| IpAddr::from([242, 0, 0, last]);
    recovery.record(&own("a"), &[address(3)]).unwrap();
    let taken = recovery.record(&own("b"), &[address(2), address(3)]).unwrap_err();
    assert_eq!(taken, RecordError::Taken { address: address(3), owner: own("a") });
    for outside in [IpAddr::from([242, 0, 1, 1]), address(0), address(7), "fd00::1".parse().unwrap()] {
        let error = recovery.record(&own("b"), &[address(2), outside]).unwrap_err();
        assert_eq!(error.to_string(), format!("{outside} is not one that 242.0.0.0/29 gives out"));
    }
    let pool = recovery.done();
    assert_eq!((pool.used(), pool.owner(address(2))), (1, None));
}

#[test]
fn what_is_recorded_stays_with_its_owner_over_a_restart() {
    let mut recovery = Recovery::new(cidr("242.0.0.0/29")).unwrap();
    let claimed: IpAddr = "242.0.0.6".parse().unwrap();
    recovery.record(&own("old"), &[claimed]).unwrap();
    recovery.record(&own("old"), &[claimed]).unwrap();
    let error = recovery.record(&own("old"), &["242.0.0.5".parse().unwrap()]).unwrap_err();
    assert_eq!(error, RecordError::HasOthers { owner: own("old") });
    let mut pool = recovery.done();
    assert_eq!(give(&mut pool, "new", 1), ["242.0.0.5"]);
    assert_eq!(give(&mut pool, "old", 1), ["242.0.0.6"]);
}

#[test]
fn restart_conflict_reallocates() {
    let mut recovery = Recovery::new(cidr("242.0.0.0/29")).unwrap();
    let claimed: IpAddr = "242.0.0.6".parse().unwrap();
    recovery.record(&own("a"), &[claimed]).unwrap();
    assert!(matches!(recovery.record(&own("b"), &[claimed]), Err(RecordError::Taken { .. })));
    let mut pool = recovery.done();
    assert_eq!(give(&mut pool, "b", 1), ["242.0.0.5"]);
    assert_eq!(give(&mut pool, "a", 1), ["242.0.0.6"]);
}

#[test]
fn one_owner_has_one_address_ever_though_it_asks_again_b30() {
    let mut pool = pool("242.0.0.0/28");
    let first: Vec<_> = (0..10).map(|i| give(&mut pool, &format!("s{i}"), 1)).collect();
    let again: Vec<_> = (0..10).map(|i| give(&mut pool, &format!("s{i}"), 1)).collect();
    assert_eq!((first, pool.used()), (again, 10));
}

#[test]
fn addresses_of_an_owner_that_is_gone_are_free_only_when_nothing_uses_them() {
    let mut pool = pool("242.0.0.0/30");
    assert_eq!(give(&mut pool, "a", 2).len(), 2);
    assert!(!pool.forget(&own("a")), "it has not been retired");
    pool.retire(&own("a"));
    assert_eq!(pool.leaving().collect::<Vec<_>>(), [&own("a")]);
    assert!(pool.allocate(&own("b"), 1).is_err());
    assert_eq!(give(&mut pool, "a", 2), ["242.0.0.1", "242.0.0.2"], "it came back");
    assert!(!pool.forget(&own("a")));
    pool.retire(&own("a"));
    assert!(pool.forget(&own("a")));
    assert_eq!(give(&mut pool, "b", 1), ["242.0.0.2"]);
}

#[test]
fn who_wants_another_number_gives_up_what_it_has_first() {
    let mut pool = pool("242.0.0.0/29");
    give(&mut pool, "a", 2);
    let error = pool.allocate(&own("a"), 3).unwrap_err();
    assert_eq!(error.to_string(), "3 addresses wanted, and it has 2: those must be out of use first");
    assert_eq!(give(&mut pool, "a", 2).len(), 2);
}

#[test]
fn zero_addresses_are_none() {
    let mut pool = pool("242.0.0.0/29");
    assert_eq!(give(&mut pool, "a", 0), [""; 0]);
    assert_eq!(pool.used(), 0);
}

#[test]
fn a_range_of_fewer_than_four_addresses_is_no_pool() {
    for (range, longest) in [("242.0.0.0/31", 30), ("fd00::/127", 126)] {
        assert_eq!(Recovery::<String>::new(cidr(range)), Err(RangeError::TooSmall { range: cidr(range), longest }));
    }
}

#[test]
fn the_whole_of_ipv6_is_a_pool_too() {
    let mut pool = pool("::/0");
    assert_eq!(give(&mut pool, "a", 2), ["::1", "::2"]);
}

/// The plain model: who has which of the addresses 1..=14, and who is leaving.
#[derive(Default)]
struct Model {
    has: BTreeMap<u8, (Vec<u8>, bool)>,
}

impl Model {
    fn taken(&self) -> BTreeSet<u8> {
        self.has.values().flat_map(|(addresses, _)| addresses.clone()).collect()
    }

    fn allocate(&mut self, owner: u8, count: u8) -> Option<Vec<u8>> {
        if let Some((addresses, leaving)) = self.has.get_mut(&owner) {
            if addresses.len() != usize::from(count) {
                return None;
            }
            *leaving = false;
            return Some(addresses.clone());
        }
        if count == 0 {
            return Some(vec![]);
        }
        let taken = self.taken();
        let block = |first: u8| (first..first + count).collect::<Vec<_>>();
        let fits = |first: &u8| block(*first).iter().all(|address| *address <= 14 && !taken.contains(address));
        let first = if count == 1 { (1..=14).rev().find(fits) } else { (1..=14).find(fits) }?;
        self.has.insert(owner, (block(first), false));
        Some(block(first))
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate(u8, u8),
    Retire(u8),
    Forget(u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (0..8_u8, 0..5_u8).prop_map(|(owner, count)| Op::Allocate(owner, count)),
        1 => (0..8_u8).prop_map(Op::Retire),
        1 => (0..8_u8).prop_map(Op::Forget),
    ];
    proptest::collection::vec(op, 0..60)
}

proptest! {
    #[test]
    fn a_pool_does_what_the_plain_model_does(ops in ops(), six: bool) {
        let range = cidr(if six { "fd00::/124" } else { "242.0.0.0/28" });
        let mut pool = Recovery::<u8>::new(range).unwrap().done();
        let mut model = Model::default();
        let address = |place: &u8| range.nth(u128::from(*place)).unwrap();
        if six {
            // One more than the model has.
            prop_assert_eq!(pool.allocate(&99, 1).unwrap(), [address(&15)]);
        }
        for op in ops {
            match op {
                Op::Allocate(owner, count) => {
                    let expected = model.allocate(owner, count).map(|places| places.iter().map(address).collect());
                    prop_assert_eq!(pool.allocate(&owner, u32::from(count)).ok(), expected);
                }
                Op::Retire(owner) => {
                    pool.retire(&owner);
                    model.has.entry(owner).and_modify(|(_, leaving)| *leaving = true);
                }
                Op::Forget(owner) => {
                    let leaving = model.has.get(&owner).is_some_and(|(_, leaving)| *leaving);
                    prop_assert_eq!(pool.forget(&owner), leaving);
                    model.has.retain(|has, _| *has != owner || !leaving);
                }
            }
            prop_assert_eq!(pool.free(), 14 - u128::try_from(model.taken().len()).unwrap());
            for (owner, (places, _)) in &model.has {
                prop_assert_eq!(pool.held(owner), places.iter().map(address).collect::<Vec<_>>());
                for place in places {
                    prop_assert_eq!(pool.owner(address(place)), Some(owner));
                }
            }
        }
    }
}
