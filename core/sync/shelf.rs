//! The objects of one kind in one API, in the order of their keys, in hardly more memory than they take themselves.
//!
//! ```text
//!  blocks: [ a b c d ] [ f g ] [ k m n ] …      an object tells its own key, none is kept beside it
//! ```
//! They lie in sorted blocks, none of which is empty, and each ends before the next begins. A block that is full is cut in
//! two, and neighbours that are nearly empty are joined; one that only grows at its end, as most listings make it, stays
//! full. Memory is taken in small steps: a hundred thousand objects have a dozen thousand places to spare, where the nodes of
//! a BTreeMap of them would have as many as objects.

use crate::model::{Key, KeyRef, Object, Version};
use alloc::vec::Vec;

/// The most in one block: to put one in, a few of them are moved.
const BLOCK: usize = 64;
/// By how many places a block grows.
const STEP: usize = 4;

/// One object, and the version in which the API shows it. It does not show what has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kept {
    pub(super) object: Object,
    pub(super) version: Option<Version>,
}

/// See the module docs.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    blocks: Vec<Vec<Kept>>,
}

/// Where something is, or would be.
#[derive(Clone, Copy)]
struct Place {
    block: usize,
    at: usize,
}

impl Shelf {
    /// The object with this key.
    pub(super) fn get(&self, key: KeyRef<'_>) -> Option<&Kept> {
        let Place { block, at } = self.find(key).ok()?;
        self.blocks.get(block)?.get(at)
    }

    /// The same, to be changed into one with the same key.
    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Kept> {
        let Place { block, at } = self.find(key.as_key_ref()).ok()?;
        self.blocks.get_mut(block)?.get_mut(at)
    }

    /// Whether there is one with this key.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.find(key.as_key_ref()).is_ok()
    }

    /// Puts an object in the place of the one with its key.
    pub(super) fn put(&mut self, kept: Kept) {
        match self.find(kept.object.key_ref()) {
            Ok(Place { block, at }) => {
                if let Some(there) = self.blocks.get_mut(block).and_then(|block| block.get_mut(at)) {
                    *there = kept;
                }
            }
            Err(place) => {
                let place = self.make_room(place);
                self.insert(place, kept);
            }
        }
    }

    /// Takes an object away.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Kept> {
        let Place { block: number, at } = self.find(key.as_key_ref()).ok()?;
        let block = self.blocks.get_mut(number)?;
        let kept = block.remove(at);
        if block.capacity() - block.len() > 2 * STEP {
            block.shrink_to(block.len() + STEP);
        }
        self.tidy(number);
        Some(kept)
    }

    /// All, in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.blocks.iter().flatten()
    }

    /// Those whose keys are not below `first`.
    pub(super) fn from(&self, first: KeyRef<'_>) -> impl Iterator<Item = &Kept> + use<'_> {
        let (Ok(Place { block, at }) | Err(Place { block, at })) = self.find(first);
        self.blocks.iter().skip(block).flatten().skip(at)
    }

    fn find(&self, key: KeyRef<'_>) -> Result<Place, Place> {
        let begins_later = |block: &Vec<Kept>| block.first().is_some_and(|first| first.object.key_ref() > key);
        let block = self.blocks.partition_point(|block| !begins_later(block)).saturating_sub(1);
        let Some(all) = self.blocks.get(block) else { return Err(Place { block, at: 0 }) };
        let found = all.binary_search_by(|kept| kept.object.key_ref().cmp(&key));
        found.map(|at| Place { block, at }).map_err(|at| Place { block, at })
    }
}

/// Blocks.
impl Shelf {
    /// Makes room at `place`, and gives where it is then.
    fn make_room(&mut self, Place { block: number, at }: Place) -> Place {
        let next = Place { block: number + 1, at: 0 };
        let Some(block) = self.blocks.get_mut(number).filter(|block| block.len() == BLOCK) else {
            return Place { block: number, at };
        };
        if at == BLOCK {
            // What comes in order fills one block after the other.
            self.blocks.insert(next.block, Vec::new());
            return next;
        }
        let upper = block.split_off(BLOCK / 2);
        block.shrink_to_fit();
        self.blocks.insert(next.block, upper);
        if at <= BLOCK / 2 { Place { block: number, at } } else { Place { at: at - BLOCK / 2, ..next } }
    }

    fn insert(&mut self, Place { block, at }: Place, kept: Kept) {
        if block == self.blocks.len() {
            self.blocks.push(Vec::new());
        }
        let Some(block) = self.blocks.get_mut(block) else { return };
        if block.len() == block.capacity() {
            block.reserve_exact(STEP);
        }
        block.insert(at, kept);
    }

    /// Joins the block with the next one, or takes it away, if it holds so little.
    fn tidy(&mut self, number: usize) {
        let len = |number: usize| self.blocks.get(number).map(Vec::len);
        if len(number) == Some(0) {
            self.blocks.remove(number);
        } else if let (Some(one), Some(next)) = (len(number), len(number + 1))
            && one + next <= BLOCK / 2
        {
            let next = self.blocks.remove(number + 1);
            if let Some(block) = self.blocks.get_mut(number) {
                block.reserve_exact(next.len());
                block.extend(next);
            }
        }
    }
}

/// Two shelves are equal that hold the same, however it came there.
impl PartialEq for Shelf {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Shelf {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{ClusterId, Epoch};
    use crate::model::{ClusterRecord, Kind};
    use alloc::collections::BTreeMap;
    use alloc::format;
    use proptest::prelude::*;

    fn record(number: u16, epoch: u64) -> Object {
        let cluster = ClusterId::new(&format!("c{number}")).unwrap();
        Object::from(ClusterRecord { cluster, pods: Vec::new(), services: Vec::new(), epoch: Epoch(epoch) })
    }

    fn key(number: u16) -> Key {
        record(number, 0).key()
    }

    fn kept(number: u16, epoch: u64) -> Kept {
        Kept { object: record(number, epoch), version: Some(Version("1".into())) }
    }

    fn is_in_order(shelf: &Shelf) -> bool {
        let sizes_fit = shelf.blocks.iter().all(|block| (1..=BLOCK).contains(&block.len()));
        sizes_fit && shelf.iter().map(|kept| kept.object.key_ref()).is_sorted_by(|a, b| a < b)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(u16, u64),
        Remove(u16),
        /// Many at once, up or down: whole blocks come and go.
        PutAll(u16, u16),
        RemoveAll(u16, u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        let run = || (0..2_000u16, 1..300u16);
        prop_oneof![
            (0..2_000u16, 0..3u64).prop_map(|(number, epoch)| Step::Put(number, epoch)),
            (0..2_000u16).prop_map(Step::Remove),
            run().prop_map(|(from, count)| Step::PutAll(from, count)),
            run().prop_map(|(from, count)| Step::RemoveAll(from, count)),
        ]
    }

    proptest! {
        #[test]
        fn a_shelf_is_as_a_btree_map(steps in proptest::collection::vec(step(), 0..30), asked in 0..2_000u16) {
            let (mut shelf, mut map) = (Shelf::default(), BTreeMap::new());
            let put = |shelf: &mut Shelf, map: &mut BTreeMap<Key, Kept>, number, epoch| {
                shelf.put(kept(number, epoch));
                map.insert(key(number), kept(number, epoch));
            };
            for step in steps {
                match step {
                    Step::Put(number, epoch) => put(&mut shelf, &mut map, number, epoch),
                    Step::Remove(number) => prop_assert_eq!(shelf.remove(&key(number)), map.remove(&key(number))),
                    Step::PutAll(from, count) => (from..from + count).for_each(|one| put(&mut shelf, &mut map, one, 9)),
                    Step::RemoveAll(from, count) => for one in (from..from + count).rev() {
                        prop_assert_eq!(shelf.remove(&key(one)), map.remove(&key(one)));
                    },
                }
                prop_assert!(is_in_order(&shelf));
            }
            prop_assert!(shelf.iter().eq(map.values()));
            prop_assert_eq!(shelf.get(key(asked).as_key_ref()), map.get(&key(asked)));
            prop_assert_eq!(shelf.get_mut(&key(asked)), map.get_mut(&key(asked)));
            prop_assert_eq!(shelf.contains(&key(asked)), map.contains_key(&key(asked)));
            let from_asked = shelf.from(key(asked).as_key_ref());
            prop_assert!(from_asked.eq(map.range(key(asked)..).map(|(_, kept)| kept)));
        }
    }

    #[test]
    fn what_comes_in_order_fills_its_blocks() {
        let mut shelf = Shelf::default();
        let mut numbers: Vec<u16> = (0..1_000).collect();
        numbers.sort_by_key(|number| key(*number));
        numbers.into_iter().for_each(|number| shelf.put(kept(number, 1)));
        assert_eq!(shelf.blocks.len(), 1_000_usize.div_ceil(BLOCK));
    }

    #[test]
    fn shelves_are_equal_by_what_they_hold() {
        let (mut up, mut down) = (Shelf::default(), Shelf::default());
        (0..200).for_each(|number| up.put(kept(number, 1)));
        (0..200).rev().for_each(|number| down.put(kept(number, 1)));
        assert_eq!(up, down);
        down.remove(&key(7));
        assert_ne!(up, down);
        assert_eq!(up.iter().filter(|kept| kept.object.kind() == Kind::Cluster).count(), 200);
    }
}
