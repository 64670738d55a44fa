//! Reading the words of clusters: where a listing of the broker shows something else of theirs than there was, it may be of a
//! backup, and their [`ExportSummary`](crate::model::ExportSummary) says whether it is ([`Index::take_unheard`]).
//!
//! [`Index::take_unheard`]: crate::sync::Index::take_unheard

use super::Discovery;
use crate::base::{ClusterId, Instant};
use crate::model::{ApiError, Key, Kind, Object, ServiceKey, Version};
use crate::roles::RequestId;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

/// When one that could not be read is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// What is being read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Words {
    /// Whose word each request is about.
    asked: BTreeMap<RequestId, ClusterId>,
    outbox: VecDeque<(RequestId, Key)>,
    requests: u64,
    again: Option<Instant>,
}

impl Words {
    fn ask(&mut self, cluster: ClusterId) {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.outbox.push_back((id, Key::new(Kind::ExportSummary, "", cluster.as_str())));
        self.asked.insert(id, cluster);
    }

    pub(super) fn poll_read(&mut self) -> Option<(RequestId, Key)> {
        self.outbox.pop_front()
    }

    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.again
    }

    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.again.take_if(|at| *at <= now).is_some()
    }
}

impl Discovery {
    /// Asks those of whom a listing showed something else.
    pub(super) fn ask_for_words(&mut self) {
        for cluster in self.index.take_unheard() {
            self.words.ask(cluster);
        }
    }

    pub(super) fn word_read(
        &mut self,
        id: RequestId,
        result: Result<Option<(Object, Version)>, ApiError>,
        now: Instant,
    ) {
        let Some(cluster) = self.words.asked.remove(&id) else { return };
        let Ok(word) = result else {
            self.index.unanswered(&cluster);
            self.words.again.get_or_insert(now + AGAIN);
            return;
        };
        let changed = self.index.answered(&cluster, word.as_ref().map(|(object, _)| object));
        // Something else may have been listed meanwhile.
        self.ask_for_words();
        let touched: BTreeSet<ServiceKey> = changed.iter().filter_map(Key::service).collect();
        self.judge_all(touched);
    }
}
