//! Clusters with an API each, and a broker that all of them watch. Everything happens at once but pauses.

use super::*;
use crate::base::{Epoch, Label};
use crate::model::{
    Backend, Claim, Claims, ClusterRecord, Condition, ConditionType, EndpointSlice, ExportRecord, ExportSummary,
    Family, Import, InternalTrafficPolicy, Namespace, Offer, Port, Protocol, Ranges, Service, ServiceExport,
    ServicePort, ServiceType, SessionAffinity, SourceEndpoint, TargetPort,
};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

pub(super) fn key_of(kind: Kind, name: &str) -> Key {
    Key::new(kind, "shop", name)
}

pub(super) fn service_key(name: &str) -> ServiceKey {
    ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new(name).unwrap() }
}

pub(super) fn namespace() -> Object {
    Object::from(Namespace { name: Label::new("shop").unwrap() })
}

fn port(number: u16) -> Port {
    Port { name: None, protocol: Protocol::Tcp, port: number, app_protocol: None }
}

pub(super) fn service(name: &str, address: &str) -> Object {
    Object::from(Service {
        key: service_key(name),
        service_type: ServiceType::ClusterIp,
        cluster_ips: vec![address.parse().unwrap()],
        families: vec![Family::V4],
        ports: vec![ServicePort { port: port(80), target: TargetPort::Number(8080) }],
        affinity: SessionAffinity::None,
        internal_traffic: InternalTrafficPolicy::Cluster,
        traffic_distribution: None,
    })
}

pub(super) fn headless(name: &str) -> Object {
    let Object::Service(service) = service(name, "10.102.0.10") else { unreachable!() };
    Object::from(Service { service_type: ServiceType::Headless, cluster_ips: vec![], ..Service::clone(&service) })
}

pub(super) fn slice(name: &str, of: &str, ready: bool) -> Object {
    pods(name, of, &[("10.2.1.5", ready)])
}

pub(super) fn pods(name: &str, of: &str, pods: &[(&str, bool)]) -> Object {
    let pod = |(address, ready): &(&str, bool)| Backend {
        address: address.parse().unwrap(),
        node: None,
        hostname: None,
        ready: *ready,
    };
    Object::from(EndpointSlice {
        namespace: Label::new("shop").unwrap(),
        name: format!("{name}-x1"),
        service: Label::new(of).unwrap(),
        backends: pods.iter().map(pod).collect(),
        ports: vec![port(8080)],
    })
}

pub(super) fn export(name: &str, created_s: u64) -> Object {
    Object::from(ServiceExport::new(service_key(name), Wall::from_unix_secs(created_s)))
}

/// A service with a ready backend, and its export.
pub(super) fn exported(name: &str, address: &str) -> Vec<Object> {
    vec![service(name, address), slice(name, name, true), export(name, 1_000)]
}

fn offer() -> Arc<Offer> {
    Arc::new(Offer::new(ServiceType::ClusterIp, [port(80)].into(), [Family::V4].into()))
}

pub(super) fn record_of(cluster: &str, name: &str) -> Object {
    Object::from(ExportRecord {
        cluster: ClusterId::new(cluster).unwrap(),
        key: service_key(name),
        created: Wall::from_unix_secs(1_000),
        offer: offer(),
    })
}

pub(super) fn source_slice(cluster: &str, name: &str, address: &str) -> Object {
    Object::from(SourceSlice {
        cluster: ClusterId::new(cluster).unwrap(),
        key: service_key(name),
        family: Family::V4,
        number: 0,
        endpoints: [SourceEndpoint { address: address.parse().unwrap(), hostname: None, ready: true }].into(),
        ports: [port(80)].into(),
    })
}

/// What the discovery of the cluster says when all it has is at the broker: just these.
pub(super) fn summary_of(cluster: &str, generation: u64, objects: &[Object]) -> Object {
    let keys: Vec<Key> = objects.iter().map(Object::key).collect();
    let cluster = ClusterId::new(cluster).unwrap();
    Object::from(ExportSummary { cluster, generation, digest: keys.iter().collect() })
}

/// That clusters of these identities have joined under these ids.
pub(super) fn claimed(members: &[(&str, &str)]) -> Object {
    let claim = |(cluster, identity): &(&str, &str)| {
        let claim = Claim { identity: (*identity).into(), ranges: Ranges::default(), epoch: Epoch(1) };
        (ClusterId::new(cluster).unwrap(), claim)
    };
    Object::from(Claims { members: members.iter().map(claim).collect(), ..Claims::default() })
}

/// What the gateway of the cluster announces.
pub(super) fn announced(cluster: &str, services: &str) -> Object {
    let (cluster, services) = (ClusterId::new(cluster).unwrap(), vec![services.parse().unwrap()]);
    Object::from(ClusterRecord { cluster, pods: vec![], services, epoch: Epoch(1) })
}

pub(super) fn import_of(name: &str, source: &str) -> Object {
    Object::from(Import {
        key: service_key(name),
        offer: offer(),
        sources: [(ClusterId::new(source).unwrap(), Wall::from_unix_secs(1_000))].into(),
    })
}

/// An API server.
#[derive(Default)]
struct Server {
    objects: BTreeMap<Key, (Object, Version)>,
    writes: u64,
}

impl Server {
    fn version(&mut self) -> Version {
        self.writes += 1;
        Version(self.writes.to_string().as_str().into())
    }

    fn put(&mut self, object: Object) -> WatchEvent {
        let version = self.version();
        self.objects.insert(object.key(), (object.clone(), version.clone()));
        WatchEvent::Applied(object, version)
    }

    fn delete(&mut self, key: &Key) -> Option<WatchEvent> {
        self.version();
        self.objects.remove(key).map(|_| WatchEvent::Deleted(key.clone()))
    }

    fn write(&mut self, write: Write) -> Result<WatchEvent, ApiError> {
        let now = self.objects.get(&write.key()).map(|(_, version)| version);
        let fits = match &write {
            Write::Create(_) => now.is_none(),
            Write::Replace(_, version) | Write::Delete(_, version) => now == Some(version),
        };
        if !fits {
            return Err(ApiError::Conflict);
        }
        Ok(match write {
            Write::Create(object) | Write::Replace(object, _) => self.put(object),
            Write::Delete(key, _) => self.delete(&key).unwrap(),
        })
    }

    /// Of what discovery watches at the broker.
    fn listings(&self) -> Vec<WatchEvent> {
        let kinds = [Kind::ExportRecord, Kind::SourceSlice, Kind::ExportSummary, Kind::Cluster, Kind::Claims];
        kinds.into_iter().flat_map(|kind| self.listing(kind)).collect()
    }

    fn listing(&self, kind: Kind) -> Vec<WatchEvent> {
        let objects = self.objects.iter().filter(|(key, _)| key.kind == kind);
        let objects = objects.map(|(_, (object, version))| WatchEvent::Applied(object.clone(), version.clone()));
        [WatchEvent::Began(kind)].into_iter().chain(objects).chain([WatchEvent::Synced(kind)]).collect()
    }
}

/// What a broker held once.
#[derive(Clone, Default)]
pub(super) struct Backup(BTreeMap<Key, (Object, Version)>);

struct Member {
    machine: Discovery,
    runs: bool,
    api: Server,
    broker_cut: bool,
    inbox: VecDeque<Input>,
    writes: Vec<(Api, String)>,
    told: Vec<String>,
}

pub(super) struct World {
    now: Instant,
    broker: Server,
    broker_refuses: Option<String>,
    members: BTreeMap<String, Member>,
}

impl World {
    pub(super) fn of(clusters: &[&str]) -> Self {
        let mut world =
            Self { now: Instant::ZERO, broker: Server::default(), broker_refuses: None, members: BTreeMap::new() };
        for cluster in clusters {
            let member = Member {
                machine: Discovery::new(ClusterId::new(cluster).unwrap(), "uid".into(), 0),
                runs: false,
                api: Server::default(),
                broker_cut: false,
                inbox: VecDeque::new(),
                writes: vec![],
                told: vec![],
            };
            world.members.insert((*cluster).into(), member);
            world.member(cluster).api.put(namespace());
            // Its gateways announce it, and copy the others.
            for announces in clusters {
                world.member(cluster).api.put(announced(announces, "10.0.0.0/8"));
            }
        }
        for cluster in clusters {
            world.start(cluster);
        }
        world
    }

    fn member(&mut self, cluster: &str) -> &mut Member {
        self.members.get_mut(cluster).unwrap()
    }

    // What happens.

    pub(super) fn start(&mut self, cluster: &str) {
        self.start_with(cluster, |_| true);
    }

    /// Its daemon starts, but the listing of one kind of the own API does not come.
    pub(super) fn start_without(&mut self, cluster: &str, kind: Kind) {
        self.start_with(cluster, |listed| listed != kind);
    }

    fn start_with(&mut self, cluster: &str, lists: impl Fn(Kind) -> bool) {
        let broker = self.broker.listings();
        let member = self.members.get_mut(cluster).unwrap();
        member.machine = Discovery::new(ClusterId::new(cluster).unwrap(), "uid".into(), 1);
        member.runs = true;
        member.inbox.push_back(Input::Wall(Wall::from_unix_secs(2_000)));
        for (_, kind) in member.machine.watches().iter().filter(|(api, kind)| *api == Api::Local && lists(*kind)) {
            let listing = member.api.listing(*kind);
            member.inbox.extend(listing.into_iter().map(|event| Input::Watched(Api::Local, event)));
        }
        if !member.broker_cut {
            member.inbox.extend(broker.into_iter().map(|event| Input::Watched(Api::Broker, event)));
        }
    }

    pub(super) fn stop(&mut self, cluster: &str) {
        let member = self.member(cluster);
        member.runs = false;
        member.inbox.clear();
    }

    pub(super) fn handle(&mut self, cluster: &str, input: Input) {
        self.member(cluster).inbox.push_back(input);
    }

    pub(super) fn put(&mut self, cluster: &str, objects: Vec<Object>) {
        for object in objects {
            let event = self.member(cluster).api.put(object);
            self.show(cluster, event);
        }
    }

    /// The own API has nothing of this kind, and nobody is told.
    pub(super) fn forget(&mut self, cluster: &str, kind: Kind) {
        self.member(cluster).api.objects.retain(|key, _| key.kind != kind);
    }

    pub(super) fn delete(&mut self, cluster: &str, key: &Key) {
        let event = self.member(cluster).api.delete(key).unwrap();
        self.show(cluster, event);
    }

    fn show(&mut self, cluster: &str, event: WatchEvent) {
        let member = self.member(cluster);
        if member.runs {
            member.inbox.push_back(Input::Watched(Api::Local, event));
        }
    }

    pub(super) fn put_broker(&mut self, object: Object) {
        let event = self.broker.put(object);
        self.show_broker(&event);
    }

    pub(super) fn delete_broker(&mut self, key: &Key) {
        let event = self.broker.delete(key).unwrap();
        self.show_broker(&event);
    }

    fn show_broker(&mut self, event: &WatchEvent) {
        for member in self.members.values_mut().filter(|member| member.runs && !member.broker_cut) {
            member.inbox.push_back(Input::Watched(Api::Broker, event.clone()));
        }
    }

    pub(super) fn cut_broker(&mut self, cluster: &str) {
        self.member(cluster).broker_cut = true;
    }

    /// The broker can be reached again: the watch begins anew.
    pub(super) fn heal_broker(&mut self, cluster: &str) {
        let listing = self.broker.listings();
        let member = self.member(cluster);
        member.broker_cut = false;
        member.inbox.extend(listing.into_iter().map(|event| Input::Watched(Api::Broker, event)));
    }

    /// The broker loses all it stored; everybody who reaches it lists anew.
    pub(super) fn empty_broker(&mut self) {
        self.restore_broker(Backup::default());
    }

    /// What the broker holds now.
    pub(super) fn back_up_broker(&self) -> Backup {
        Backup(self.broker.objects.clone())
    }

    /// The broker holds what it held then; everybody who reaches it lists anew.
    pub(super) fn restore_broker(&mut self, backup: Backup) {
        self.broker.objects = backup.0;
        let reaching: Vec<String> =
            self.members.iter().filter(|(_, m)| m.runs && !m.broker_cut).map(|(name, _)| name.clone()).collect();
        for cluster in reaching {
            self.heal_broker(&cluster);
        }
    }

    /// A cluster's own API loses all that we wrote there; its daemon lists anew.
    pub(super) fn empty_own(&mut self, cluster: &str) {
        let member = self.member(cluster);
        member.api.objects.retain(|key, _| key.kind.is_the_clusters_own());
        for (_, kind) in member.machine.watches().iter().filter(|(api, _)| *api == Api::Local) {
            let listing = member.api.listing(*kind);
            member.inbox.extend(listing.into_iter().map(|event| Input::Watched(Api::Local, event)));
        }
    }

    /// The broker refuses all writes, and says why.
    pub(super) fn refuse_at_broker(&mut self, why: Option<&str>) {
        self.broker_refuses = why.map(ToString::to_string);
    }

    /// Until nothing happens by itself any more, for five seconds.
    pub(super) fn run(&mut self) {
        self.run_for(Duration::from_secs(5));
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            while self.step() {}
            let running = self.members.values().filter(|member| member.runs);
            let Some(next) = running.filter_map(|member| member.machine.poll_timeout()).map(|(at, _)| at).min() else {
                break;
            };
            if next > end {
                break;
            }
            self.now = next;
            for member in self.members.values_mut().filter(|member| member.runs) {
                member.machine.handle_timeout(next);
            }
        }
        self.now = end;
    }

    /// One input of each, and what comes of it. `false` when there is nothing to do.
    fn step(&mut self) -> bool {
        let mut busy = false;
        let clusters: Vec<String> = self.members.keys().cloned().collect();
        for cluster in clusters {
            let now = self.now;
            let member = self.member(&cluster);
            if !member.runs {
                continue;
            }
            if let Some(input) = member.inbox.pop_front() {
                member.machine.handle(input, now);
                busy = true;
            }
            for output in drain(&mut self.member(&cluster).machine) {
                self.output(&cluster, output);
                busy = true;
            }
        }
        busy
    }

    fn output(&mut self, cluster: &str, output: Output) {
        let member = self.members.get_mut(cluster).unwrap();
        match output {
            Output::Write(request, api, write) => {
                let verb = match &write {
                    Write::Create(_) => "create",
                    Write::Replace(..) => "replace",
                    Write::Delete(..) => "delete",
                };
                member.writes.push((api, format!("{verb} {}", write.key())));
                let result = match api {
                    Api::Local => member.api.write(write),
                    Api::Broker if member.broker_cut => Err(ApiError::Unreachable),
                    Api::Broker => match &self.broker_refuses {
                        Some(why) => Err(ApiError::Refused(why.as_str().into())),
                        None => self.broker.write(write),
                    },
                };
                let answer = result.clone().map(|_| Version("written".into()));
                member.inbox.push_back(Input::Written(request, answer));
                match (api, result) {
                    (Api::Local, Ok(event)) => self.show(cluster, event),
                    (Api::Broker, Ok(event)) => self.show_broker(&event),
                    (_, Err(_)) => {}
                }
            }
            Output::Event(event) => member.told.push(event.to_string()),
            Output::Read(id, Api::Broker, key) => {
                let there = if member.broker_cut {
                    Err(ApiError::Unreachable)
                } else {
                    Ok(self.broker.objects.get(&key).cloned())
                };
                member.inbox.push_back(Input::Read(id, there));
            }
            Output::Read(..)
            | Output::Send { .. }
            | Output::Probe { .. }
            | Output::LookUp
            | Output::Network(_)
            | Output::Dns(_) => panic!("{output:?}"),
        }
    }

    // What can be seen.

    pub(super) fn broker(&self) -> Vec<String> {
        let records = self.broker.objects.keys().filter(|key| key.kind == Kind::ExportRecord);
        records.map(ToString::to_string).collect()
    }

    pub(super) fn import(&self, cluster: &str, name: &str) -> Option<Import> {
        let (object, _) = self.members[cluster].api.objects.get(&key_of(Kind::Import, name))?;
        let Object::Import(import) = object else { panic!("{object:?}") };
        Some(Import::clone(import))
    }

    /// The sources of an import and their endpoints, one a line.
    pub(super) fn sources(&self, cluster: &str, name: &str) -> Vec<String> {
        let Some(import) = self.import(cluster, name) else { return vec![] };
        import.sources.keys().map(|source| format!("{source} {}", self.endpoints(cluster, name, source))).collect()
    }

    fn endpoints(&self, cluster: &str, name: &str, source: &ClusterId) -> String {
        let objects = self.members[cluster].api.objects.values();
        let slices = objects.filter_map(|(object, _)| if let Object::SourceSlice(s) = object { Some(s) } else { None });
        let slices = slices.filter(|slice| slice.cluster == *source && slice.key == service_key(name));
        let text = |endpoint: &SourceEndpoint| {
            format!("{} {}", endpoint.address, if endpoint.ready { "ready" } else { "not ready" })
        };
        slices.flat_map(|slice| &slice.endpoints).map(text).collect::<Vec<_>>().join(", ")
    }

    /// How many slices of exporting clusters are in the own API of a cluster.
    /// The summaries that a cluster sees, by API, and whose they are.
    pub(super) fn summaries(&self, cluster: &str) -> Vec<(Api, String)> {
        let here = self.members[cluster].api.objects.keys().map(|key| (Api::Local, key));
        let all = here.chain(self.broker.objects.keys().map(|key| (Api::Broker, key)));
        all.filter(|(_, key)| key.kind == Kind::ExportSummary).map(|(api, key)| (api, (*key.name).into())).collect()
    }

    pub(super) fn slices(&self, cluster: &str) -> usize {
        self.members[cluster].api.objects.keys().filter(|key| key.kind == Kind::SourceSlice).count()
    }

    /// The conditions of an export, one a line.
    pub(super) fn conditions(&self, cluster: &str, name: &str) -> Vec<String> {
        let (object, _) = &self.members[cluster].api.objects[&key_of(Kind::ServiceExport, name)];
        let Object::ServiceExport(export) = object else { panic!("{object:?}") };
        let line = |(about, condition): (&ConditionType, &Condition)| {
            let status = condition.status.map_or("Unknown", |yes| if yes { "True" } else { "False" });
            format!("{about}={status} {}", condition.reason)
        };
        export.conditions.iter().map(line).collect()
    }

    /// What a condition of an export says in words.
    pub(super) fn message(&self, cluster: &str, name: &str, about: ConditionType) -> String {
        let (object, _) = &self.members[cluster].api.objects[&key_of(Kind::ServiceExport, name)];
        let Object::ServiceExport(export) = object else { panic!("{object:?}") };
        export.conditions[&about].message.clone()
    }

    pub(super) fn writes(&self, cluster: &str, at: Api) -> Vec<String> {
        self.members[cluster].writes.iter().filter(|(api, _)| *api == at).map(|(_, write)| write.clone()).collect()
    }

    pub(super) fn all_writes(&self) -> usize {
        self.members.values().map(|member| member.writes.len()).sum()
    }

    pub(super) fn told(&self, cluster: &str) -> Vec<String> {
        self.members[cluster].told.clone()
    }
}
