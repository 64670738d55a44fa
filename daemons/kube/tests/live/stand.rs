//! A server, a hand on it, and what arrived.

use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tombolo_apiserver::{ApiServer, Registry};
use tombolo_core::base::{ClusterId, Epoch, Wall};
use tombolo_core::model::{Api, ApiError, ClusterRecord, Key, Kind, Lease, Object, Version, WatchEvent, Write};
use tombolo_core::roles::{Event, Input, RequestId};
use tombolo_kube::{Config, Connections, Kubernetes, client};
use tombolo_shell::{KubeHand as _, inbox};

pub const OWN: &str = "submariner-operator";

pub fn server() -> ApiServer {
    let server = ApiServer::new(Registry::clusterset(), 7, || Wall::from_unix_secs(1_767_225_600));
    for namespace in [OWN, "submariner-k8s-broker", "shop"] {
        server.create_namespace(namespace).unwrap();
    }
    server
}

pub fn config() -> Config {
    Config::new(ClusterId::new("east").unwrap(), 1)
}

/// A client that reaches `server` through a new pipe for each connection.
pub fn piped(server: &ApiServer) -> kube::Client {
    let server = server.clone();
    let connect = move |_| {
        let server = server.clone();
        async move {
            let (near, far) = tokio::io::duplex(64 << 10);
            tokio::spawn(server.serve_connection(far));
            Ok(near)
        }
    };
    client(connect, &"http://api:6443".parse().unwrap(), "east/gw-a gateway", Duration::from_secs(5)).unwrap()
}

pub struct Stand {
    pub server: ApiServer,
    pub hand: Kubernetes,
    inputs: UnboundedReceiver<Input>,
    told: UnboundedReceiver<Event>,
    requests: u64,
}

/// What a hand brings.
#[derive(Debug)]
pub enum Arrival {
    Input(Input),
    Event(Event),
}

impl Stand {
    pub fn new() -> Self {
        Self::with(config())
    }

    /// One server is both the own API and the broker's.
    pub fn with(config: Config) -> Self {
        let server = server();
        let connections = Connections { local: piped(&server), broker: Some(piped(&server)) };
        Self::on(server, connections, config)
    }

    pub fn on(server: ApiServer, connections: Connections, config: Config) -> Self {
        let (inbox, inputs) = inbox();
        let (teller, told) = unbounded_channel();
        let tell = move |event| {
            let _ = teller.send(event);
        };
        Self { hand: Kubernetes::new(connections, config, inbox, tell), server, inputs, told, requests: 0 }
    }

    pub async fn next(&mut self) -> Arrival {
        tokio::select! {
            biased;
            Some(event) = self.told.recv() => Arrival::Event(event),
            Some(input) = self.inputs.recv() => Arrival::Input(input),
        }
    }

    /// What arrives within `span`, a line each.
    pub async fn lines(&mut self, span: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        let _ = timeout(span, async {
            loop {
                lines.push(line(&self.next().await));
            }
        })
        .await;
        lines
    }

    pub async fn write(&mut self, api: Api, write: Write) -> Result<Version, ApiError> {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.hand.write(id, api, write);
        loop {
            if let Arrival::Input(Input::Written(request, result)) = self.next().await {
                assert_eq!(request, id);
                return result;
            }
        }
    }

    pub async fn read(&mut self, api: Api, key: Key) -> Result<Option<(Object, Version)>, ApiError> {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.hand.read(id, api, key);
        loop {
            if let Arrival::Input(Input::Read(request, result)) = self.next().await {
                assert_eq!(request, id);
                return result;
            }
        }
    }
}

pub fn line(arrival: &Arrival) -> String {
    match arrival {
        Arrival::Input(Input::Watched(_, WatchEvent::Began(kind))) => format!("began {kind}"),
        Arrival::Input(Input::Watched(_, WatchEvent::Applied(object, _))) => format!("applied {}", object.key()),
        Arrival::Input(Input::Watched(_, WatchEvent::Deleted(key))) => format!("deleted {key}"),
        Arrival::Input(Input::Watched(_, WatchEvent::Synced(kind))) => format!("synced {kind}"),
        Arrival::Input(Input::Watched(_, WatchEvent::Lost(kind))) => format!("lost {kind}"),
        Arrival::Event(Event::Ignored { because }) => format!("told {because}"),
        Arrival::Input(_) | Arrival::Event(_) => panic!("{arrival:?}"),
    }
}

pub fn lease(name: &str, holder: &str) -> Lease {
    Lease {
        name: name.into(),
        holder: Some(holder.into()),
        duration: Duration::from_secs(15),
        acquired: Wall::from_unix_secs(1),
        renewed: Wall::from_unix_secs(2),
        transitions: 0,
        epoch: Epoch(1),
    }
}

pub fn cluster(name: &str) -> Object {
    Object::from(ClusterRecord {
        cluster: ClusterId::new(name).unwrap(),
        pods: vec!["10.1.0.0/16".parse().unwrap()],
        services: vec![],
        epoch: Epoch(1),
    })
}

pub fn key(kind: Kind, namespace: &str, name: &str) -> Key {
    Key::new(kind, namespace, name)
}

/// A Cluster object as another tool would write it.
pub fn cluster_json(name: &str) -> Value {
    json!({
        "apiVersion": "submariner.io/v1",
        "kind": "Cluster",
        "metadata": { "namespace": OWN, "name": name, "labels": { "theirs": "x" } },
        "spec": { "cluster_id": name, "cluster_cidr": ["10.9.0.0/16"], "color_codes": ["blue"] },
    })
}

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
