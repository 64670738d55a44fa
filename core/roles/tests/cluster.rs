//! Two APIs in memory, and objects to put there.

use crate::base::{ClusterId, Epoch, Instant, NodeName, Slot};
use crate::base::{Label, Wall};
use crate::model::{
    Api, ApiError, Backend, CableDriver, CableKey, Candidate, Candidates, Claim, Claims, ClusterRecord, EndpointSlice,
    Family, Gateway as Card, InternalTrafficPolicy, Key, Kind, Lease, Node, Object, Port, Protocol, Ranges, Service,
    ServiceExport, ServiceKey, ServicePort, ServiceType, SessionAffinity, TargetPort, Version, WatchEvent, Write,
};
use crate::nat::NAT_PORT;
use crate::nat::wire::{Message, Response};
use crate::paths::register::{PairSet, Register};
use crate::paths::wire::{ClusterHash, Hello, Origin, Sender, Side};
use crate::roles::addresses::probe_address;
use crate::roles::{GatewayConfig, LEASE, NodeConfig};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

/// Both APIs of a cluster, as stores.
#[derive(Clone, Debug, Default)]
pub struct Apis {
    objects: BTreeMap<(Api, Key), (Object, u64)>,
    revision: u64,
}

impl Apis {
    /// Puts an object there and gives the event that a watch would show.
    pub fn put(&mut self, api: Api, object: Object) -> WatchEvent {
        self.revision += 1;
        self.objects.insert((api, object.key()), (object.clone(), self.revision));
        WatchEvent::Applied(object, version(self.revision))
    }

    pub fn get(&self, api: Api, key: &Key) -> Option<(&Object, Version)> {
        self.objects.get(&(api, key.clone())).map(|(object, revision)| (object, version(*revision)))
    }

    pub fn of_kind(&self, api: Api, kind: Kind) -> Vec<&Object> {
        self.objects.iter().filter(|((a, k), _)| (*a, k.kind) == (api, kind)).map(|(_, (object, _))| object).collect()
    }

    /// Carries out a write as an API server would.
    pub fn write(&mut self, api: Api, write: &Write) -> Result<(Version, WatchEvent), ApiError> {
        let key = write.key();
        let there = self.get(api, &key).map(|(_, version)| version);
        let expected = match write {
            Write::Create(_) => None,
            Write::Replace(_, version) | Write::Delete(_, version) => Some(version.clone()),
        };
        if there != expected {
            return Err(ApiError::Conflict);
        }
        let event = match write {
            Write::Create(object) | Write::Replace(object, _) => self.put(api, object.clone()),
            Write::Delete(key, _) => {
                self.revision += 1;
                self.objects.remove(&(api, key.clone()));
                WatchEvent::Deleted(key.clone())
            }
        };
        Ok((version(self.revision), event))
    }

    pub fn delete(&mut self, api: Api, key: &Key) {
        self.objects.remove(&(api, key.clone()));
    }

    /// Loses all but what the cluster itself owns.
    pub fn forget(&mut self, api: Api) {
        self.objects.retain(|(of, key), _| *of != api || key.kind.is_the_clusters_own());
    }

    /// A complete listing of a kind.
    pub fn listing(&self, api: Api, kind: Kind) -> Vec<WatchEvent> {
        let mut events = vec![WatchEvent::Began(kind)];
        events.extend(
            self.objects
                .iter()
                .filter(|((a, key), _)| (*a, key.kind) == (api, kind))
                .map(|(_, (object, revision))| WatchEvent::Applied(object.clone(), version(*revision))),
        );
        events.push(WatchEvent::Synced(kind));
        events
    }
}

fn version(revision: u64) -> Version {
    Version(format!("{revision}").as_str().into())
}

pub fn cluster(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

pub fn node_name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub fn slot(number: u8) -> Slot {
    Slot::try_from(number).unwrap()
}

/// Node `index` of site `site`.
pub fn address(site: u8, index: u8) -> IpAddr {
    IpAddr::from([172, 16, site, 10 + index])
}

pub fn keys(site: u8, index: u8) -> Vec<CableKey> {
    (1..=4).map(|rank| CableKey([site * 32 + index * 4 + rank; 32])).collect()
}

pub fn node(name: &str, site: u8, index: u8, gateway: bool) -> Object {
    Object::from(Node {
        name: node_name(name),
        uid: format!("uid-{site}-{name}"),
        addresses: vec![address(site, index)],
        pod_ranges: vec![format!("10.{site}.{}.0/24", index + 1).parse().unwrap()],
        gateway,
    })
}

pub fn card(name: &str, site: u8, index: u8, active: Option<u64>) -> Object {
    Object::from(Card {
        node: node_name(name),
        address: address(site, index),
        public: None,
        discovery_port: Some(NAT_PORT),
        keys: keys(site, index),
        active: active.map(Epoch),
        reach: BTreeMap::new(),
        remarks: BTreeMap::new(),
    })
}

pub fn record(name: &str, site: u8, epoch: u64) -> Object {
    Object::from(ClusterRecord {
        cluster: cluster(name),
        pods: vec![format!("10.{site}.0.0/16").parse().unwrap()],
        services: vec![format!("10.{}.0.0/16", 100 + u32::from(site)).parse().unwrap()],
        epoch: Epoch(epoch),
    })
}

/// Candidates of a cluster in order of slots, each node with its index.
pub fn candidates(name: &str, site: u8, epoch: u64, nodes: &[(&str, u8)]) -> Object {
    let by_slot = Slot::all().into_iter().zip(nodes).map(|(slot, (node, index))| {
        let candidate = Candidate {
            node: node_name(node),
            address: address(site, *index),
            public: None,
            discovery_port: Some(NAT_PORT),
            keys: keys(site, *index),
            probe: probe_address(&cluster(name), slot),
        };
        (slot, candidate)
    });
    Object::from(Candidates { cluster: cluster(name), epoch: Epoch(epoch), by_slot: by_slot.collect() })
}

/// The lease of west, held by gw-b in that epoch and renewed then (seconds).
pub fn lease(epoch: u64, renewed: u64) -> Object {
    Object::from(Lease {
        name: LEASE.into(),
        holder: Some("gw-b/1".into()),
        duration: Duration::from_secs(15),
        acquired: Wall::from_unix_secs(epoch),
        renewed: Wall::from_unix_secs(renewed),
        transitions: 0,
        epoch: Epoch(epoch),
    })
}

/// A claim of east's: its id, the UID of its kube-system, its pods and its services.
pub const EAST: (&str, &str, &str, &str) = ("east", "uid-east", "10.2.0.0/16", "10.102.0.0/16");
/// One of west's.
pub const WEST: (&str, &str, &str, &str) = ("west", "uid-west", "10.1.0.0/16", "10.101.0.0/16");

/// The claims of clusters: of each its id, the UID of its kube-system, its pods and its services.
pub fn claims(members: &[(&str, &str, &str, &str)]) -> Object {
    let claim = |(name, identity, pods, services): &(&str, &str, &str, &str)| {
        let (pods, services) = (vec![pods.parse().unwrap()], vec![services.parse().unwrap()]);
        let ranges = Ranges { pods, services, ..Ranges::default() };
        (cluster(name), Claim { identity: (*identity).into(), ranges, epoch: Epoch(1) })
    };
    Object::from(Claims { members: members.iter().map(claim).collect(), ..Claims::default() })
}

/// The same candidates, behind a NAT box.
pub fn behind_nat(candidates: Object, last: u8) -> Object {
    let Object::Candidates(candidates) = candidates else { unreachable!() };
    let mut candidates = (*candidates).clone();
    candidates.by_slot.values_mut().for_each(|candidate| candidate.public = Some(IpAddr::from([203, 0, 113, last])));
    Object::from(candidates)
}

/// What whoever is asked says if nothing was changed on the way. `None` if this asks nothing.
pub fn answer_to(question: &[u8]) -> Option<Vec<u8>> {
    let Ok(Message::Request(_, request)) = Message::decode(question) else { return None };
    let response = Response {
        number: request.number,
        sender: request.receiver,
        receiver: request.sender,
        received: request.source,
        ..Response::default()
    };
    Some(Message::Response(response).encode())
}

pub fn web() -> [Object; 3] {
    let key = ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() };
    let backend =
        |address: [u8; 4], ready| Backend { address: IpAddr::from(address), node: None, hostname: None, ready };
    [
        Object::from(Service {
            key: key.clone(),
            service_type: ServiceType::ClusterIp,
            cluster_ips: vec![IpAddr::from([10, 101, 0, 10])],
            families: vec![Family::V4],
            ports: vec![ServicePort {
                port: Port { name: None, protocol: Protocol::Tcp, port: 80, app_protocol: None },
                target: TargetPort::Number(8080),
            }],
            affinity: SessionAffinity::None,
            internal_traffic: InternalTrafficPolicy::Cluster,
            traffic_distribution: None,
        }),
        Object::from(EndpointSlice {
            namespace: key.namespace.clone(),
            name: "web-1".into(),
            service: key.name.clone(),
            backends: vec![backend([10, 1, 3, 10], true), backend([10, 1, 3, 11], false)],
            ports: vec![],
        }),
        Object::from(ServiceExport::new(key, Wall::from_unix_secs(1))),
    ]
}

/// The set-up of node `index` of west, which is site 1.
pub fn west(name: &str, index: u8) -> GatewayConfig {
    GatewayConfig {
        node: NodeConfig {
            cluster: cluster("west"),
            node: node_name(name),
            pods: vec!["10.1.0.0/16".parse().unwrap()],
            services: vec!["10.101.0.0/16".parse().unwrap()],
            driver: CableDriver::Wireguard,
            seed: u64::from(index),
            boot: Instant::ZERO,
        },
        address: address(1, index),
        discovery_port: Some(NAT_PORT),
        looks_up: true,
        keys: keys(1, index),
        process: "1".into(),
        cluster_uid: "uid-west".into(),
    }
}

/// What candidate 1 of `from` says: the first candidates are the path to `other`, and it lives.
pub fn hello(from: &str, beat: u32, other: &str) -> Vec<u8> {
    let the_pair_of_first_candidates = PairSet::from_bits(1);
    let register = Register { version: 3, claims: the_pair_of_first_candidates, revoked: PairSet::default() };
    let hello = Hello {
        hears: true,
        origins: vec![(Side::Sender, slot(1), Origin { beat, ..Origin::default() })],
        registers: vec![(ClusterHash::of(&cluster(other)), register)],
        report_ms: 100,
        ..Hello::new(ClusterHash::of(&cluster(from)), Sender::Candidate(slot(1)), Epoch(5), Some(slot(1)))
    };
    hello.encode()
}
