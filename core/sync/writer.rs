//! Writes that make an API show what is wanted.

use super::Index;
use crate::base::{Instant, Rng};
use crate::model::{Api, ApiError, Key, Kind, Object, ServiceKey, Version, Write};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

/// First pause after a failed write (±20 %), doubled each time.
pub const BACKOFF_MIN: Duration = Duration::from_millis(500);
/// Longest pause.
pub const BACKOFF_MAX: Duration = Duration::from_secs(3);
/// How long a done write may stay unseen by the watch before the key is judged anew.
pub const SETTLE: Duration = Duration::from_secs(30);

/// What is under way for one key.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Pending {
    /// The version that the view showed when the write was made: the write succeeds only on top of it, so as long as
    /// the view shows this, it lags; as soon as it shows anything else, it has caught up.
    seen: Option<Version>,
    stage: Stage,
    failures: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    InFlight,
    Settling {
        until: Instant,
    },
    Pausing {
        until: Instant,
    },
    /// The pause is over.
    Due,
}

/// See the module docs of [`crate::sync`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    pending: BTreeMap<Api, BTreeMap<Key, Pending>>,
    /// Which object each request in flight is about.
    requests: BTreeMap<u64, (Api, Key)>,
    /// When each object that settles or pauses has to be judged anew.
    deadlines: BTreeSet<(Instant, Api, Key)>,
    outbox: VecDeque<(u64, Api, Write)>,
    next_request: u64,
    rng: Rng,
}

impl Writer {
    /// `seed` spreads the pauses after failures.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            pending: BTreeMap::new(),
            requests: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            outbox: VecDeque::new(),
            next_request: 0,
            rng: Rng::stream(seed, "sync/writer"),
        }
    }

    /// Says what `key` should be: this object, or gone. Costs nothing when it is so, or when a write is under way.
    pub fn want(&mut self, api: Api, key: &Key, wanted: Option<&Object>, index: &Index) {
        let shown = index.shown(api, key);
        let seen = shown.map(|(_, version)| version);
        let mut failures = 0;
        if let Some(pending) = self.pending.get(&api).and_then(|of_api| of_api.get(key)) {
            let lags = pending.seen.as_ref() == seen;
            match pending.stage {
                Stage::InFlight => return,
                Stage::Settling { .. } | Stage::Pausing { .. } if lags => return,
                Stage::Settling { .. } | Stage::Pausing { .. } | Stage::Due => failures = pending.failures,
            }
            self.forget(api, key);
        }
        let write = match (wanted, shown) {
            (Some(wanted), Some((shown, version))) if wanted != shown => {
                Write::Replace(wanted.clone(), version.clone())
            }
            (Some(wanted), None) => Write::Create(wanted.clone()),
            (None, Some((_, version))) => Write::Delete(key.clone(), version.clone()),
            (Some(_), Some(_)) | (None, None) => return,
        };
        let request = self.next_request;
        self.next_request += 1;
        let pending = Pending { seen: seen.cloned(), stage: Stage::InFlight, failures };
        self.pending.entry(api).or_default().insert(key.clone(), pending);
        self.requests.insert(request, (api, key.clone()));
        self.outbox.push_back((request, api, write));
    }

    fn forget(&mut self, api: Api, key: &Key) {
        let Some(of_api) = self.pending.get_mut(&api) else { return };
        if let Some(until) = of_api.remove(key).and_then(|pending| pending.until()) {
            self.deadlines.remove(&(until, api, key.clone()));
        }
        if of_api.is_empty() {
            self.pending.remove(&api);
        }
    }

    /// Takes what came of a write. Gives the key, which is to be judged anew.
    pub fn written(&mut self, request: u64, result: &Result<Version, ApiError>, now: Instant) -> Option<(Api, Key)> {
        let (api, key) = self.requests.remove(&request)?;
        let pending = self.pending.get_mut(&api)?.get_mut(&key)?;
        let until = if result.is_ok() {
            pending.failures = 0;
            pending.stage = Stage::Settling { until: now + SETTLE };
            now + SETTLE
        } else {
            let until = now + self.rng.pause((BACKOFF_MIN, BACKOFF_MAX), pending.failures);
            pending.failures += 1;
            pending.stage = Stage::Pausing { until };
            until
        };
        self.deadlines.insert((until, api, key.clone()));
        Some((api, key))
    }

    /// A new listing of the kind is complete: it shows the writes that were done, or the API has lost them. Gives the keys of
    /// those, which are to be judged anew.
    pub fn relisted(&mut self, api: Api, kind: Kind) -> Vec<Key> {
        let of_api = self.pending.get_mut(&api).into_iter();
        let of_kind = of_api.flat_map(|of_api| of_api.range_mut(Key::new(kind, "", "")..));
        let of_kind = of_kind.take_while(|(key, _)| key.kind == kind);
        let mut done = Vec::new();
        for (key, pending) in of_kind {
            if let Stage::Settling { until } = pending.stage {
                self.deadlines.remove(&(until, api, key.clone()));
                pending.stage = Stage::Due;
                done.push(key.clone());
            }
        }
        done
    }

    /// The next write to make.
    pub fn poll_write(&mut self) -> Option<(u64, Api, Write)> {
        let write = self.outbox.pop_front();
        if self.outbox.is_empty() {
            self.outbox = VecDeque::new(); // At a start it was long, and the memory is not needed again.
        }
        write
    }

    /// How many writes were made and have no answer yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Whether anything that was said of objects of these `kinds` at `api` is still to be done or to be seen.
    #[must_use]
    pub fn is_busy(&self, api: Api, kinds: &[Kind]) -> bool {
        let Some(of_api) = self.pending.get(&api) else { return false };
        let first = |kind| Key::new(kind, "", "");
        let busy = |kind: &Kind| of_api.range(first(*kind)..).next().is_some_and(|(key, _)| key.kind == *kind);
        kinds.iter().any(busy)
    }

    /// The objects of a kind for which that is so and that go by the name of `service`.
    pub fn busy_with<'a>(&'a self, api: Api, kind: Kind, service: &'a ServiceKey) -> impl Iterator<Item = &'a Key> {
        let of_api = self.pending.get(&api).into_iter();
        let from_first = of_api.flat_map(move |of_api| of_api.range(Key::of_service(kind, service)..));
        from_first.map(|(key, _)| key).take_while(move |key| key.kind == kind && key.as_key_ref().is_named(service))
    }

    /// The objects of which that is so.
    pub fn all_busy(&self) -> impl Iterator<Item = (Api, &Key)> {
        self.pending.iter().flat_map(|(api, of_api)| of_api.keys().map(|key| (*api, key)))
    }

    /// When a key has to be judged anew.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Keys whose pause is over: say again what they should be.
    pub fn due(&mut self, now: Instant) -> Vec<(Api, Key)> {
        let mut due = Vec::new();
        while self.deadlines.first().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, api, key)) = self.deadlines.pop_first() else { break };
            let pending = self.pending.get_mut(&api).and_then(|of_api| of_api.get_mut(&key));
            if let Some(pending) = pending {
                pending.stage = Stage::Due;
                due.push((api, key));
            }
        }
        due
    }
}

impl Pending {
    const fn until(&self) -> Option<Instant> {
        match self.stage {
            Stage::InFlight | Stage::Due => None,
            Stage::Settling { until } | Stage::Pausing { until } => Some(until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{ClusterId, Epoch};
    use crate::model::{ClusterRecord, WatchEvent};
    use alloc::vec;

    const API: Api = Api::Broker;

    fn record(epoch: u64) -> Object {
        Object::from(ClusterRecord {
            cluster: ClusterId::new("east").unwrap(),
            pods: vec![],
            services: vec![],
            epoch: Epoch(epoch),
        })
    }

    fn version(text: &str) -> Version {
        Version(text.into())
    }

    fn shows(index: &mut Index, epoch: u64, v: &str) {
        index.watched(API, WatchEvent::Applied(record(epoch), version(v)), Instant::ZERO);
    }

    fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    fn want(writer: &mut Writer, wanted: Option<&Object>, index: &Index) -> Option<(u64, Api, Write)> {
        writer.want(API, &record(0).key(), wanted, index);
        writer.poll_write()
    }

    #[test]
    fn a_write_that_a_new_listing_does_not_show_is_lost_and_made_again_at_once() {
        let (mut writer, index) = (Writer::new(0), Index::default());
        let (request, ..) = want(&mut writer, Some(&record(1)), &index).unwrap();
        assert_eq!(writer.relisted(API, Kind::Cluster), [], "it may yet be done");
        writer.written(request, &Ok(version("1")), at(0));
        assert_eq!(want(&mut writer, Some(&record(1)), &index), None, "the view may be behind");
        assert_eq!(
            (writer.relisted(API, Kind::Endpoint), writer.relisted(Api::Local, Kind::Cluster)),
            (vec![], vec![])
        );
        assert_eq!(writer.relisted(API, Kind::Cluster), [record(1).key()]);
        assert!(want(&mut writer, Some(&record(1)), &index).is_some());
        assert_eq!(writer.poll_timeout(), None);
    }

    #[test]
    fn nothing_is_written_when_the_view_is_as_wanted() {
        let (mut writer, mut index) = (Writer::new(0), Index::default());
        assert_eq!(want(&mut writer, None, &index), None);
        shows(&mut index, 1, "1");
        assert_eq!(want(&mut writer, Some(&record(1)), &index), None);
    }

    #[test]
    fn one_write_a_key_at_a_time_on_top_of_the_version_seen() {
        let (mut writer, mut index) = (Writer::new(0), Index::default());
        shows(&mut index, 1, "1");
        let (request, _, write) = want(&mut writer, Some(&record(2)), &index).unwrap();
        assert_eq!(write, Write::Replace(record(2), version("1")));
        assert_eq!(want(&mut writer, Some(&record(3)), &index), None, "the first is still in flight");
        assert!(writer.written(request, &Ok(version("2")), at(1)).is_some());
        assert_eq!(want(&mut writer, Some(&record(3)), &index), None, "the view lags behind the own write");
        shows(&mut index, 2, "2");
        let (_, _, write) = want(&mut writer, Some(&record(3)), &index).unwrap();
        assert_eq!(write, Write::Replace(record(3), version("2")));
    }

    #[test]
    fn after_a_conflict_the_next_write_waits_for_what_came_in_between() {
        let (mut writer, mut index) = (Writer::new(0), Index::default());
        shows(&mut index, 1, "1");
        let (request, ..) = want(&mut writer, Some(&record(2)), &index).unwrap();
        writer.written(request, &Err(ApiError::Conflict), at(1));
        assert_eq!(want(&mut writer, Some(&record(2)), &index), None);
        shows(&mut index, 9, "2");
        let (_, _, write) = want(&mut writer, Some(&record(2)), &index).unwrap();
        assert_eq!(write, Write::Replace(record(2), version("2")));
    }

    #[test]
    fn pauses_grow_while_an_api_is_unreachable_and_have_a_limit() {
        let (mut writer, index) = (Writer::new(0), Index::default());
        let (mut now, mut pauses) = (at(0), vec![]);
        for _ in 0..7 {
            let (request, ..) = want(&mut writer, Some(&record(1)), &index).unwrap();
            writer.written(request, &Err(ApiError::Unreachable), now);
            let until = writer.poll_timeout().unwrap();
            pauses.push(until - now);
            now = until;
            assert_eq!(writer.due(now).len(), 1);
            assert_eq!(writer.due(now), vec![], "a second wake-up changes nothing");
        }
        assert!(pauses[0] >= Duration::from_millis(400) && pauses[0] <= Duration::from_millis(600));
        assert!(pauses[5] >= BACKOFF_MAX * 8 / 10 && pauses[6] <= BACKOFF_MAX * 12 / 10, "{pauses:?}");
    }

    #[test]
    fn a_write_whose_event_never_comes_is_judged_anew() {
        let (mut writer, index) = (Writer::new(0), Index::default());
        let (request, ..) = want(&mut writer, Some(&record(1)), &index).unwrap();
        writer.written(request, &Ok(version("1")), at(1));
        assert_eq!(writer.poll_timeout(), Some(at(1) + SETTLE));
        writer.due(at(1) + SETTLE);
        assert!(want(&mut writer, Some(&record(1)), &index).is_some());
    }

    #[test]
    fn a_deletion_names_the_version_seen_so_that_a_successor_survives_b03() {
        let (mut writer, mut index) = (Writer::new(0), Index::default());
        shows(&mut index, 1, "1");
        let (_, _, write) = want(&mut writer, None, &index).unwrap();
        assert_eq!(write, Write::Delete(record(1).key(), version("1")));
    }
}
