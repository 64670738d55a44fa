//! One watch that never ends.
//!
//! kube's `watcher` lists and follows. Around it stands what it lacks: a seeded backoff; an own deadline for a listing
//! that hangs; and a new start, with a listing, after anything that breaks it off (also an end before its time, which
//! `term` makes an error). It would go on from the last version it
//! saw: from one that the API has forgotten, or that lies in its future, for ever; and where the API came back with an old
//! store, whose versions begin anew, from one that stands for something else there, without what came before it. Only a
//! watch whose time is over, or that is refused, goes on.
//!
//! Objects are taken as plain JSON and read one by one: one that cannot be read is told and treated as if it were not
//! there, and spoils nothing else.

use crate::backoff::Backoff;
use crate::convert::{self, key_of, version_of};
use crate::request::Requests;
use crate::resource::{Scope, resource, scope, selectors};
use crate::seen::{Name, name_of};
use futures_util::{Stream, StreamExt as _};
use kube::Api as KubeApi;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, watcher};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tombolo_core::base::Rng;
use tombolo_core::model::{Api, Key, Kind, WatchEvent};
use tombolo_core::roles::Input;
use tombolo_shell::Inbox;

pub struct Watch {
    requests: Arc<Requests>,
    api: Api,
    kind: Kind,
    inbox: Inbox,
    backoff: Backoff,
    /// When the last listing was complete, if nothing failed since.
    listed_at: Option<Instant>,
    /// What it told is complete, and it goes on from there.
    follows: bool,
    /// How long one watch request lasts.
    lasts_secs: u32,
    /// What was told of each object that cannot be read.
    unreadable: BTreeMap<Name, String>,
    /// Which object of ours each is whose name does not tell: as it was when it could be read.
    keys: BTreeMap<Name, Key>,
    /// What the listing under way has shown so far.
    listing: Option<BTreeSet<Name>>,
}

impl Watch {
    pub fn new(requests: Arc<Requests>, api: Api, kind: Kind, inbox: Inbox) -> Self {
        let config = &requests.config;
        let mut rng = Rng::stream(config.seed, &format!("watch {api} {kind}"));
        let (least, most) = config.watch_lasts_secs;
        let spread = rng.below(u64::from(most.saturating_sub(least)) + 1);
        Self {
            api,
            kind,
            inbox,
            backoff: Backoff::new(config.backoff.0, config.backoff.1, rng.bits()),
            listed_at: None,
            follows: false,
            lasts_secs: least.saturating_add(u32::try_from(spread).unwrap_or(0)),
            unreadable: BTreeMap::new(),
            keys: BTreeMap::new(),
            listing: None,
            requests,
        }
    }

    /// Follows for ever, or not at all where the daemon does not know the API.
    pub async fn follow(mut self) {
        let Some(objects) = self.objects() else {
            self.requests.tell(format!("{} {}: this daemon has no broker to watch", self.api, self.kind));
            return;
        };
        let (label_selector, field_selector) = selectors(self.api, self.kind, &self.requests.config.writer.places);
        let config = watcher::Config {
            page_size: Some(self.requests.config.page_size),
            label_selector,
            field_selector,
            ..watcher::Config::default().timeout(self.lasts_secs)
        };
        loop {
            let stream = watcher(objects.clone(), config.clone());
            let pause = self.follow_one(stream).await;
            if core::mem::take(&mut self.follows) {
                self.tell(WatchEvent::Lost(self.kind));
            }
            sleep(pause).await;
        }
    }

    fn objects(&self) -> Option<KubeApi<DynamicObject>> {
        let client = self.requests.connections.get(self.api)?.clone();
        let places = &self.requests.config.writer.places;
        let resource = resource(self.kind);
        Some(match (self.api, scope(self.kind)) {
            (_, Scope::Cluster) | (Api::Local, Scope::Anywhere) => KubeApi::all_with(client, &resource),
            (_, Scope::Own) | (Api::Broker, Scope::Anywhere) => {
                KubeApi::namespaced_with(client, places.own(self.api), &resource)
            }
        })
    }

    /// Follows one watcher until it is of no more use. Gives the pause before the next.
    async fn follow_one(
        &mut self,
        stream: impl Stream<Item = watcher::Result<watcher::Event<DynamicObject>>>,
    ) -> Duration {
        let mut stream = pin!(stream);
        let mut synced = false;
        loop {
            let next = if synced {
                stream.next().await
            } else {
                // The watcher gives up on a silent stream, but not on a page of a list that stops halfway.
                match timeout(self.requests.config.request_deadline * 2, stream.next()).await {
                    Ok(next) => next,
                    Err(_) => return self.pause(),
                }
            };
            match next {
                Some(Ok(event)) => {
                    synced = match &event {
                        watcher::Event::Init | watcher::Event::InitApply(_) => false,
                        watcher::Event::InitDone | watcher::Event::Apply(_) | watcher::Event::Delete(_) => true,
                    };
                    self.take(event);
                }
                Some(Err(error)) => {
                    let pause = self.pause();
                    if !synced || !is_to_wait(&error) {
                        return pause;
                    }
                    sleep(pause).await;
                }
                None => return self.pause(),
            }
        }
    }

    /// The pause after a failure. That a listing was complete shows no success where each watch after it fails; it is one if
    /// the watch then lasted for longer than such a failure takes.
    fn pause(&mut self) -> Duration {
        if self.listed_at.take().is_some_and(|at| at.elapsed() > self.requests.config.request_deadline) {
            self.backoff.reset();
        }
        self.backoff.pause()
    }

    fn take(&mut self, event: watcher::Event<DynamicObject>) {
        match event {
            // Told with the first thing that the listing shows: until then nothing began.
            watcher::Event::Init => self.listing = None,
            watcher::Event::InitApply(object) => {
                self.begin();
                self.applied(&object);
            }
            watcher::Event::InitDone => {
                self.begin();
                let listed = self.listing.take().unwrap_or_default();
                self.requests.seen.retain(self.api, self.kind, &listed);
                self.unreadable.retain(|name, _| listed.contains(name));
                self.keys.retain(|name, _| listed.contains(name));
                self.tell(WatchEvent::Synced(self.kind));
                self.follows = true;
                self.listed_at = Some(Instant::now());
            }
            watcher::Event::Apply(object) => {
                self.backoff.reset();
                self.applied(&object);
            }
            watcher::Event::Delete(object) => {
                self.backoff.reset();
                self.deleted(&object);
            }
        }
    }

    fn begin(&mut self) {
        if self.listing.is_none() {
            self.listing = Some(BTreeSet::new());
            self.tell(WatchEvent::Began(self.kind));
        }
    }

    fn applied(&mut self, object: &DynamicObject) {
        let value = serde_json::to_value(object).unwrap_or_default();
        let name = name_of(&value);
        if let Some(listing) = &mut self.listing {
            listing.insert(name.clone());
        }
        self.requests.seen.put(self.api, self.kind, &value);
        match convert::read(self.kind, &value) {
            Ok(Some(object)) => {
                self.unreadable.remove(&name);
                let key = object.key();
                if key.source.is_some() {
                    self.keys.insert(name, key);
                }
                self.tell(WatchEvent::Applied(object, version_of(&value)));
            }
            Ok(None) => self.absent(self.key_of(&name, &value)),
            Err(error) => {
                let because = format!("{} at the {} API: {error}", key_of(self.kind, &value), self.api);
                let key = self.key_of(&name, &value);
                if self.unreadable.get(&name) != Some(&because) {
                    self.unreadable.insert(name, because.clone());
                    self.requests.tell(because);
                }
                self.absent(key);
            }
        }
    }

    /// What is there but not for us. In a listing it is enough not to name it.
    fn absent(&self, key: Key) {
        if self.listing.is_none() {
            self.tell(WatchEvent::Deleted(key));
        }
    }

    fn deleted(&mut self, object: &DynamicObject) {
        let value: Value = serde_json::to_value(object).unwrap_or_default();
        let name = name_of(&value);
        self.unreadable.remove(&name);
        let key = match convert::read(self.kind, &value) {
            Ok(Some(object)) => object.key(),
            Ok(None) | Err(_) => self.key_of(&name, &value),
        };
        self.keys.remove(&name);
        self.requests.seen.remove(self.api, self.kind, name);
        self.tell(WatchEvent::Deleted(key));
    }

    /// Which object of ours an API object is, or was, that cannot be read now.
    fn key_of(&self, name: &Name, value: &Value) -> Key {
        self.keys.get(name).cloned().unwrap_or_else(|| key_of(self.kind, value))
    }

    fn tell(&self, event: WatchEvent) {
        self.inbox.put(Input::Watched(self.api, event));
    }
}

/// Whether the API refuses the watch, or has too much to do for it: a listing would not help.
fn is_to_wait(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else { return false };
    matches!(status.code, 401 | 403 | 429)
}
