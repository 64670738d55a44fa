//! Addresses inside one range, and who has them.
//!
//! ```text
//!  Recovery ── record what objects claim already ──> Pool ── allocate ──> Held ── retire ──> Leaving ── forget ──> free
//! ```
//! * **Recorded first.** A pool exists only once all that objects claim was recorded: a [`Recovery`] gives it out. So a
//!   process that starts never gives away what somebody has (F5).
//! * **One block an owner, ever.** Who asks again gets what it has, however stale the view of who asks (B30).
//! * **Release on proof.** An owner that is gone keeps its addresses until it is known that no translation and no answer
//!   uses them any more: [`Pool::retire`] first, [`Pool::forget`] then. If the owner comes back in between, it gets the same.
//!
//! Of one address the highest free one is given, of several the lowest neighbours, as Submariner does
//! (`admiral:pkg/ipam/ippool.go`): single addresses do not break up the room for blocks.

use super::runs::Runs;
use crate::base::Cidr;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

/// Why a range makes no pool.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RangeError {
    /// Network and broadcast address are never given out.
    #[error("{range} has fewer than 4 addresses: a pool needs a prefix of /{longest} or shorter")]
    TooSmall {
        /// The range.
        range: Cidr,
        /// The longest prefix that would do.
        longest: u8,
    },
}

/// Why nothing was allocated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AllocateError {
    /// The pool is too full.
    #[error("{wanted} addresses wanted, {free} of {range} are free: release some, or give the cluster a larger range")]
    Exhausted {
        /// How many were wanted.
        wanted: u32,
        /// How many are free.
        free: u128,
        /// The pool's range.
        range: Cidr,
    },
    /// The owner has another number of addresses.
    #[error("{wanted} addresses wanted, and it has {has}: those must be out of use first")]
    HasOthers {
        /// How many were wanted.
        wanted: u32,
        /// How many it has.
        has: usize,
    },
    /// There are enough, but not side by side.
    #[error("{wanted} neighbouring addresses wanted: {free} of {range} are free, but at most {longest} side by side")]
    Fragmented {
        /// How many were wanted.
        wanted: u32,
        /// How many are free.
        free: u128,
        /// How many are free side by side.
        longest: u128,
        /// The pool's range.
        range: Cidr,
    },
}

/// Why a claim was not recorded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError<O: fmt::Debug + fmt::Display> {
    /// An address that this pool never gives out.
    #[error("{address} is not one that {range} gives out")]
    Outside {
        /// The address.
        address: IpAddr,
        /// The pool's range.
        range: Cidr,
    },
    /// Two owners claim it.
    #[error("{address} belongs to {owner}")]
    Taken {
        /// The address.
        address: IpAddr,
        /// Who claimed it first.
        owner: O,
    },
    /// The owner has other ones.
    #[error("{owner} has others already")]
    HasOthers {
        /// The owner.
        owner: O,
    },
}

/// What an owner has.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Lot {
    /// Places, in ascending order.
    places: Vec<u128>,
    /// The owner is gone; the addresses may still be in use.
    leaving: bool,
}

/// A pool whose past is being recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery<O: Ord>(Pool<O>);

/// A pool of addresses, each with at most one owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool<O: Ord> {
    range: Cidr,
    free: Runs,
    lots: BTreeMap<O, Lot>,
    owners: BTreeMap<u128, O>,
}

impl<O: Ord + Clone + fmt::Debug + fmt::Display> Recovery<O> {
    /// Begins with nothing recorded. Network and broadcast address of an IPv4 range, and the first of an IPv6 range, are
    /// never given out.
    ///
    /// # Errors
    /// If the range has fewer than four addresses.
    pub fn new(range: Cidr) -> Result<Self, RangeError> {
        let width = if range.is_ipv4() { 32 } else { 128 };
        let longest = width - 2;
        if range.prefix_len() > longest {
            return Err(RangeError::TooSmall { range, longest });
        }
        // The whole of IPv6 has one address more than can be counted.
        let size = 1_u128.checked_shl(u32::from(width - range.prefix_len())).unwrap_or(u128::MAX);
        let usable = if range.is_ipv4() { size - 2 } else { size - 1 };
        let free = Runs::of(1, usable);
        Ok(Self(Pool { range, free, lots: BTreeMap::new(), owners: BTreeMap::new() }))
    }

    /// Records that `owner` has `addresses`: all of them or, on an error, none. To record the same again changes nothing.
    ///
    /// # Errors
    /// If one is outside, or another owner's, or the owner has others.
    pub fn record(&mut self, owner: &O, addresses: &[IpAddr]) -> Result<(), RecordError<O>> {
        let pool = &mut self.0;
        let mut places = Vec::new();
        for address in addresses {
            let place = pool.place(*address);
            let inside = place.filter(|place| pool.owners.contains_key(place) || pool.free.has(*place, 1));
            let Some(place) = inside else {
                return Err(RecordError::Outside { address: *address, range: pool.range });
            };
            if let Some(other) = pool.owners.get(&place).filter(|other| *other != owner) {
                return Err(RecordError::Taken { address: *address, owner: other.clone() });
            }
            places.push(place);
        }
        places.sort_unstable();
        places.dedup();
        match pool.lots.get(owner) {
            Some(lot) if lot.places == places => Ok(()),
            Some(_) => Err(RecordError::HasOthers { owner: owner.clone() }),
            None => {
                pool.give(owner, places);
                Ok(())
            }
        }
    }

    /// All is recorded.
    #[must_use]
    pub fn done(self) -> Pool<O> {
        self.0
    }
}

impl<O: Ord + Clone + fmt::Debug + fmt::Display> Pool<O> {
    /// Gives `owner` so many addresses, in ascending order: those that it has, if it has any.
    ///
    /// # Errors
    /// If not so many are free, or not side by side; or if it has another number of them: those may be in use, so they
    /// have to be retired and forgotten first.
    pub fn allocate(&mut self, owner: &O, count: u32) -> Result<Vec<IpAddr>, AllocateError> {
        if let Some(lot) = self.lots.get_mut(owner) {
            let has = lot.places.len();
            if u32::try_from(has) != Ok(count) {
                return Err(AllocateError::HasOthers { wanted: count, has });
            }
            lot.leaving = false;
        } else if count > 0 {
            let first = self.find(count)?;
            self.give(owner, (0..u128::from(count)).map(|place| first + place).collect());
        }
        Ok(self.held(owner))
    }

    /// `owner` is gone. Its addresses are not given to others before they are [forgotten](Self::forget).
    pub fn retire(&mut self, owner: &O) {
        if let Some(lot) = self.lots.get_mut(owner) {
            lot.leaving = true;
        }
    }

    /// Nothing uses the addresses of an owner any more. Nothing happens if it has not been [retired](Self::retire): it has
    /// come back. True if they are free now.
    pub fn forget(&mut self, owner: &O) -> bool {
        let leaving = self.lots.get(owner).is_some_and(|lot| lot.leaving);
        leaving && self.take_back(owner).is_some()
    }

    /// What an owner has, in ascending order, also while it is leaving.
    #[must_use]
    pub fn held(&self, owner: &O) -> Vec<IpAddr> {
        let places = self.lots.get(owner).into_iter().flat_map(|lot| &lot.places);
        places.filter_map(|place| self.range.nth(*place)).collect()
    }

    /// Who has an address.
    #[must_use]
    pub fn owner(&self, address: IpAddr) -> Option<&O> {
        self.owners.get(&self.place(address)?)
    }

    /// Owners that are gone and have addresses still.
    pub fn leaving(&self) -> impl Iterator<Item = &O> {
        self.lots.iter().filter(|(_, lot)| lot.leaving).map(|(owner, _)| owner)
    }

    /// The range.
    #[must_use]
    pub const fn range(&self) -> Cidr {
        self.range
    }

    /// How many addresses nobody has.
    #[must_use]
    pub fn free(&self) -> u128 {
        self.free.count()
    }

    /// How many addresses somebody has.
    #[must_use]
    pub fn used(&self) -> usize {
        self.owners.len()
    }

    fn find(&self, count: u32) -> Result<u128, AllocateError> {
        let (wanted, range) = (count, self.range);
        let found = if count == 1 { self.free.highest() } else { self.free.lowest(u128::from(count)) };
        found.ok_or_else(|| {
            let (free, longest) = (self.free.count(), self.free.longest());
            if free < u128::from(count) {
                AllocateError::Exhausted { wanted, free, range }
            } else {
                AllocateError::Fragmented { wanted, free, longest, range }
            }
        })
    }

    fn give(&mut self, owner: &O, places: Vec<u128>) {
        if places.is_empty() {
            return;
        }
        for place in &places {
            self.free.take(*place, 1);
            self.owners.insert(*place, owner.clone());
        }
        self.lots.insert(owner.clone(), Lot { places, leaving: false });
    }

    fn take_back(&mut self, owner: &O) -> Option<Lot> {
        let lot = self.lots.remove(owner)?;
        for place in &lot.places {
            self.owners.remove(place);
            self.free.put(*place, 1);
        }
        Some(lot)
    }

    fn place(&self, address: IpAddr) -> Option<u128> {
        if !self.range.contains(address) {
            return None;
        }
        match (address, self.range.network()) {
            (IpAddr::V4(address), IpAddr::V4(first)) => Some(u128::from(u32::from(address) - u32::from(first))),
            (IpAddr::V6(address), IpAddr::V6(first)) => Some(u128::from(address) - u128::from(first)),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
        }
    }
}
