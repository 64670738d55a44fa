//! One open watch: a body of JSON lines that follows the store.
//!
//! It reads on from its revision whenever something changed, holds lines back while the server is slow, and ends at its
//! deadline (cleanly, after a bookmark), when its revision is forgotten (with an `ERROR` event), or at once when the
//! server is disrupted.

use crate::collection::expired_or_ahead;
use crate::selector::Selector;
use crate::server::{ApiServer, ObjectKey, State, render, render_at};
use crate::{Call, Failure, Gone, Query, Reason, Target};
use bytes::Bytes;
use futures_util::Stream;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tombolo_core::base::{Event, Revision, Versioned};

/// Without `timeoutSeconds` a watch lives this long (real servers: 30 to 60 minutes).
const LIFE_DEFAULT: Duration = Duration::from_mins(30);
/// Time between bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

pub(crate) struct Watching {
    server: ApiServer,
    target: Target,
    /// The kind, as in keys of the store.
    resource: Arc<str>,
    selector: Selector,
    bookmarks: bool,
    /// Everything up to here was read.
    cursor: Revision,
    /// Lines with the time at which each is due.
    lines: VecDeque<(Instant, Bytes)>,
    deadline: Instant,
    next_bookmark: Instant,
    /// No more lines will come.
    ended: bool,
    disruptions: u64,
}

impl Watching {
    /// Opens a watch.
    ///
    /// # Errors
    /// What the server answers instead: a bad selector, a revision in the future, a refusal on purpose, or, if it tells expiry
    /// so, `Expired`.
    pub fn open(server: &ApiServer, call: &Call) -> Result<Self, Failure> {
        let Query { labels, fields, timeout_secs, bookmarks, initial_events, .. } = &call.query;
        let selector = Selector::parse(labels.as_deref(), fields.as_deref())?;
        let state = server.state();
        if state.faults.refuses_watches {
            return Err(Failure::new(Reason::Forbidden, "watches are refused on purpose"));
        }
        let now = Instant::now();
        let start = call.query.revision()?;
        let mut watching = Self {
            server: server.clone(),
            target: call.target.clone(),
            resource: call.target.spec.resource().into(),
            selector,
            bookmarks: *bookmarks,
            cursor: start.unwrap_or_else(|| state.store.latest()),
            lines: VecDeque::new(),
            deadline: now + timeout_secs.map_or(LIFE_DEFAULT, Duration::from_secs),
            next_bookmark: now + BOOKMARK_INTERVAL,
            ended: false,
            disruptions: state.disruptions,
        };
        match (start, *initial_events) {
            (None, initial) | (_, initial @ true) => {
                watching.cursor = state.store.latest();
                watching.begin_with_all(&state, now, initial);
            }
            (Some(start), false) => match state.store.events_since(start).map_err(|error| expired_or_ahead(&error)) {
                Ok(_) => {}
                Err(gone) if gone.reason == Reason::Expired && state.faults.gone == Gone::InStream => {
                    watching.end_with(&gone, now);
                }
                Err(failure) => return Err(failure),
            },
        }
        drop(state);
        Ok(watching)
    }

    /// The lines, as they become due.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        futures_util::stream::unfold(self, |mut watching| async move {
            let chunk = watching.next_chunk().await?;
            Some((Ok(chunk), watching))
        })
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        let server = self.server.clone();
        loop {
            // Made before the store is read: a change in between is not missed.
            let changed = server.inner.changed.notified();
            let now = Instant::now();
            if server.state().disruptions != self.disruptions {
                return None;
            }
            if server.state().faults.silent {
                changed.await;
                continue;
            }
            self.read_on(now);
            if let Some(chunk) = self.take_due(now) {
                return Some(chunk);
            }
            let wake = match self.lines.front() {
                Some((due, _)) => *due,
                None if self.ended => return None,
                None if self.bookmarks => self.deadline.min(self.next_bookmark),
                None => self.deadline,
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    fn read_on(&mut self, now: Instant) {
        if self.ended {
            return;
        }
        let server = self.server.clone();
        let state = server.state();
        let due = now + state.faults.slow;
        match state.store.events_since(self.cursor) {
            Err(error) => self.end_with(&expired_or_ahead(&error), due),
            Ok(events) => {
                for event in events {
                    if let Some(line) = self.line_of(event) {
                        self.lines.push_back((due, line));
                    }
                }
                self.cursor = state.store.latest();
                if now >= self.deadline {
                    self.ended = true;
                }
                if self.bookmarks && (self.ended || now >= self.next_bookmark) {
                    self.next_bookmark = now + BOOKMARK_INTERVAL;
                    let bookmark = self.bookmark(&json!({}));
                    self.lines.push_back((due, bookmark));
                }
            }
        }
    }

    fn take_due(&mut self, now: Instant) -> Option<Bytes> {
        let mut chunk = Vec::new();
        while let Some((due, line)) = self.lines.front() {
            if *due > now {
                break;
            }
            chunk.extend_from_slice(line);
            self.lines.pop_front();
        }
        (!chunk.is_empty()).then(|| chunk.into())
    }

    fn begin_with_all(&mut self, state: &State, now: Instant, mark_the_end: bool) {
        let range = ObjectKey::range_of(&self.target.spec, &self.target.namespace);
        for (_, there) in state.store.range(range).filter(|(_, there)| self.selector.matches(&there.value)) {
            let object = render(there, &self.target.spec, &self.target.version);
            self.lines.push_back((now, line("ADDED", &object)));
        }
        if mark_the_end {
            let bookmark = self.bookmark(&json!({ "k8s.io/initial-events-end": "true" }));
            self.lines.push_back((now, bookmark));
        }
    }

    /// The line that tells `event`, if it is about what is watched. With a selector, an object that leaves the selection
    /// is told as deleted, and one that enters it as added.
    fn line_of(&self, event: &Event<ObjectKey, Arc<Value>>) -> Option<Bytes> {
        let Target { spec, version, namespace, .. } = &self.target;
        let in_namespace = namespace.is_empty() || *event.key.namespace == **namespace;
        if event.key.resource != self.resource || !in_namespace {
            return None;
        }
        let selected = |there: &&Versioned<Arc<Value>>| self.selector.matches(&there.value);
        let before = event.change.before().filter(selected);
        let after = event.change.after().filter(selected);
        let (told, there) = match (before, after) {
            (None, Some(after)) => ("ADDED", after),
            (Some(_), Some(after)) => ("MODIFIED", after),
            (Some(before), None) => ("DELETED", event.change.after().unwrap_or(before)),
            (None, None) => return None,
        };
        Some(line(told, &render_at(&there.value, event.revision, spec, version)))
    }

    fn bookmark(&self, annotations: &Value) -> Bytes {
        let Target { spec, version, .. } = &self.target;
        let metadata = json!({ "resourceVersion": self.cursor.to_string(), "annotations": annotations });
        let object = json!({ "kind": spec.kind, "apiVersion": spec.api_version(version), "metadata": metadata });
        line("BOOKMARK", &object)
    }

    fn end_with(&mut self, failure: &Failure, due: Instant) {
        self.lines.push_back((due, line("ERROR", &failure.to_status())));
        self.ended = true;
    }
}

fn line(told: &str, object: &Value) -> Bytes {
    let mut text = json!({ "type": told, "object": object }).to_string();
    text.push('\n');
    text.into()
}
