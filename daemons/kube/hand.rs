//! The shell's hand for the Kubernetes APIs.

use crate::convert::Writer;
use crate::heartbeat;
use crate::request::Requests;
use crate::resource::Places;
use crate::seen::Seen;
use crate::watch::Watch;
use kube::Client;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tombolo_core::base::{ClusterId, NodeName, Wall};
use tombolo_core::model::{Api, Key, Kind, Write};
use tombolo_core::roles::{Event, Input, RequestId};
use tombolo_core::sync::{REQUEST_DEADLINE, WATCH_PAUSES};
use tombolo_shell::{Inbox, KubeHand};

/// How the hand behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The own cluster and our namespaces.
    pub writer: Writer,
    /// Decides all chance.
    pub seed: u64,
    /// A read or write without a result by then has failed.
    pub request_deadline: Duration,
    /// One watch request lasts so long, at least and at most: a dead one is noticed 5 s later (`kube::runtime::watcher`).
    pub watch_lasts_secs: (u32, u32),
    /// Shortest and longest pause after failures of a watch.
    pub backoff: (Duration, Duration),
    /// Objects in one page of a list.
    pub page_size: u32,
}

impl Config {
    /// Requests within [`REQUEST_DEADLINE`], watches of 10 to 30 s, pauses of [`WATCH_PAUSES`], pages of 500.
    #[must_use]
    pub fn new(cluster: ClusterId, seed: u64) -> Self {
        Self {
            writer: Writer { cluster, places: Places::default() },
            seed,
            request_deadline: REQUEST_DEADLINE,
            watch_lasts_secs: (10, 30),
            backoff: WATCH_PAUSES,
            page_size: 500,
        }
    }
}

/// The clients of a daemon. See [`crate::client`].
#[derive(Clone)]
pub struct Connections {
    /// Of the own cluster's API.
    pub local: Client,
    /// Of the broker's, for daemons that need it.
    pub broker: Option<Client>,
}

impl Connections {
    pub(crate) const fn get(&self, api: Api) -> Option<&Client> {
        match api {
            Api::Local => Some(&self.local),
            Api::Broker => self.broker.as_ref(),
        }
    }
}

/// Watches, reads and writes, each in a task of its own. Dropping it ends them all.
pub struct Kubernetes {
    requests: Arc<Requests>,
    tasks: JoinSet<()>,
    inbox: Inbox,
}

impl Kubernetes {
    /// What comes of it goes to `inbox`; what is not usable, an object that cannot be read say, to `tell`.
    ///
    /// To be made inside the runtime that is to run it.
    #[must_use]
    pub fn new(
        connections: Connections,
        config: Config,
        inbox: Inbox,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::new(Requests { connections, config, seen: Seen::default(), tell: Box::new(tell) });
        Self { requests, tasks: JoinSet::new(), inbox }
    }

    /// Gives the sign of life on the Gateway object of `node` that Submariner's tools look for: for the gateway daemon
    /// there.
    pub fn sign_gateway(&mut self, node: NodeName, wall: impl Fn() -> Wall + Send + Sync + 'static) {
        self.tasks.spawn(heartbeat::beat(self.requests.clone(), node, wall));
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        // Those that have ended are of no more use.
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(task);
    }
}

impl std::fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kubernetes {{ tasks: {} }}", self.tasks.len())
    }
}

impl KubeHand for Kubernetes {
    fn watch(&mut self, watches: &'static [(Api, Kind)]) {
        for (api, kind) in watches {
            let watch = Watch::new(self.requests.clone(), *api, *kind, self.inbox.clone());
            self.spawn(watch.follow());
        }
    }

    fn read(&mut self, id: RequestId, api: Api, key: Key) {
        let (requests, inbox) = (self.requests.clone(), self.inbox.clone());
        self.spawn(async move {
            let result = requests.read(api, &key).await;
            inbox.put(Input::Read(id, result));
        });
    }

    fn write(&mut self, id: RequestId, api: Api, write: Write) {
        let (requests, inbox) = (self.requests.clone(), self.inbox.clone());
        self.spawn(async move {
            let result = requests.write(api, &write).await;
            inbox.put(Input::Written(id, result));
        });
    }
}
