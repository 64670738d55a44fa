//! The store against a plain model that keeps a full copy of the world for each revision.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Create(u8, u8),
    /// How many revisions back the writer read; 0 is unconditional.
    Replace(u8, u8, u64),
    Delete(u8, u64),
    Compact(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (0..6u8, 0..3u8).prop_map(|(key, value)| Op::Create(key, value)),
        4 => (0..6u8, 0..3u8, 0..4u64).prop_map(|(key, value, back)| Op::Replace(key, value, back)),
        2 => (0..6u8, 0..4u64).prop_map(|(key, back)| Op::Delete(key, back)),
        1 => (0..8u64).prop_map(Op::Compact),
    ];
    proptest::collection::vec(op, 0..60)
}

/// The plain model: a full copy of the world for each revision, each value with its revision of change.
#[derive(Clone, Debug)]
struct Model(Vec<BTreeMap<u8, (u8, Revision)>>);

impl Model {
    fn latest(&self) -> Revision {
        Revision(u64::try_from(self.0.len()).unwrap())
    }

    fn at(&self, revision: Revision) -> &BTreeMap<u8, (u8, Revision)> {
        &self.0[usize::try_from(revision.0).unwrap() - 1]
    }

    fn write(&mut self, key: u8, value: Option<u8>) -> Revision {
        let mut world = self.at(self.latest()).clone();
        let revision = Revision(self.latest().0 + 1);
        match value {
            Some(value) => world.insert(key, (value, revision)),
            None => world.remove(&key),
        };
        self.0.push(world);
        revision
    }

    /// The compare of compare-and-swap: what is there, if a writer that expects `expected` may write.
    fn check(&self, key: u8, expected: Option<Revision>) -> Option<(u8, Revision)> {
        let there = self.at(self.latest()).get(&key).copied()?;
        expected.is_none_or(|expected| expected == there.1).then_some(there)
    }
}

fn apply(op: &Op, store: &mut Store<u8, u8>, model: &mut Model) {
    let read = |model: &Model, key: u8, back: u64| {
        let there = model.at(model.latest()).get(&key).map_or(Revision(77), |there| there.1);
        (back > 0).then(|| Revision(there.0.saturating_sub(back - 1)))
    };
    match *op {
        Op::Create(key, value) => {
            let there = model.check(key, None);
            let wanted = there.map_or_else(|| Ok(model.write(key, Some(value))), |there| Err(there.1));
            let got = store.create(key, value).map_err(|error| match error {
                StoreError::Exists { actual } => actual,
                StoreError::NotFound | StoreError::Conflict { .. } => panic!("{error}"),
            });
            assert_eq!(got, wanted);
        }
        Op::Replace(key, value, back) => {
            let expected = read(model, key, back);
            let there = model.check(key, expected);
            let wanted = there.map(|there| if there.0 == value { there.1 } else { model.write(key, Some(value)) });
            assert_eq!(store.replace(key, value, expected).ok(), wanted);
        }
        Op::Delete(key, back) => {
            let expected = read(model, key, back);
            let wanted = model.check(key, expected).map(|_| model.write(key, None));
            assert_eq!(store.delete(&key, expected).ok(), wanted);
        }
        Op::Compact(back) => store.compact(Revision(model.latest().0.saturating_sub(back))),
    }
}

fn plain<'a>(items: impl Iterator<Item = (&'a u8, &'a Versioned<u8>)>) -> BTreeMap<u8, (u8, Revision)> {
    items.map(|(key, there)| (*key, (there.value, there.modified))).collect()
}

proptest! {
    #[test]
    fn the_store_is_what_a_copy_of_the_world_per_revision_is(
        ops in ops(), history_max in 0..40usize, limit in 1..4usize, low in 0..6u8,
    ) {
        let mut store = Store::new(history_max);
        let mut model = Model([BTreeMap::new()].into());
        for op in &ops {
            apply(op, &mut store, &mut model);
        }
        prop_assert_eq!(store.latest(), model.latest());
        prop_assert_eq!(plain(store.iter()), model.at(store.latest()).clone());
        for number in 1..=model.latest().0 {
            let revision = Revision(number);
            if revision < store.oldest() {
                let expired = HistoryError::Compacted { asked: revision, oldest: store.oldest() };
                prop_assert_eq!(store.events_since(revision).err(), Some(expired));
                continue;
            }
            let then = model.at(revision);
            let snapshot = store.snapshot(Some(revision)).unwrap();
            prop_assert_eq!(&plain(snapshot.range(..)), then);
            for key in 0..6u8 {
                prop_assert_eq!(snapshot.get(&key).map(|there| there.modified), then.get(&key).map(|there| there.1));
            }
            prop_assert_eq!(plain(snapshot.range(low..)), then.range(low..).map(|(k, v)| (*k, *v)).collect());

            // Page by page.
            let (mut paged, mut from) = (Vec::new(), Bound::Unbounded);
            loop {
                let page = snapshot.page((from, Bound::Unbounded), limit);
                paged.extend(page.items.iter().map(|(key, there)| (**key, there.value)));
                prop_assert_eq!(paged.len() + page.remaining, then.len());
                let Some((last, _)) = page.items.last() else { break };
                from = Bound::Excluded(**last);
            }
            prop_assert_eq!(paged, then.iter().map(|(key, there)| (*key, there.0)).collect::<Vec<_>>());

            // A watcher from here gets to the present, one revision after the other.
            let mut watched = then.clone();
            let mut last = revision;
            for event in store.events_since(revision).unwrap() {
                prop_assert_eq!(event.revision.0, last.0 + 1);
                last = event.revision;
                let before = event.change.before().map(|there| (there.value, there.modified));
                prop_assert_eq!(watched.get(&event.key).copied(), before);
                match event.change.after() {
                    Some(after) => watched.insert(event.key, (after.value, after.modified)),
                    None => watched.remove(&event.key),
                };
                prop_assert_eq!(&watched, model.at(event.revision));
            }
            prop_assert_eq!(last, store.latest());
        }
    }
}
