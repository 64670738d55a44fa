//! Everything that answers follow from.

use super::name::{ClusterName, Place, PortName, Room, ServiceName, Zone};
use crate::base::hash::mix;
use crate::base::{ClusterId, Few, FewBy, Label};
use crate::model::{Import, Port, Reach, ServiceKey, ServiceType, SourceSlice};
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use hickory_proto::rr::Name;
use serde::{Deserialize, Serialize};

/// What a table is built from.
#[derive(Clone, PartialEq, Debug)]
pub struct Contents<'a, I, S> {
    /// The domain.
    pub zone: &'a Zone,
    /// How long an answer may be cached, in whole seconds (the rest is cut). 5 s is usual.
    pub ttl: Duration,
    /// The own cluster: its sources are preferred and never lost.
    pub local: &'a ClusterId,
    /// Where the name server itself is reached; may be empty.
    pub servers: &'a Few<IpAddr>,
    /// What there is.
    pub imports: I,
    /// Where it is found: slices of services that are not imported, or of clusters that are no sources, say nothing.
    pub slices: S,
    /// What is known of the way to other clusters; those that are not named are [`Reach::Unknown`].
    pub reach: &'a BTreeMap<ClusterId, Reach>,
    /// How much of all that there is.
    pub knows: Knows,
    /// Grows with each change.
    pub serial: u32,
}

/// An immutable clusterset zone. To change it, make another: they share what they have in common, and to swap is to swap
/// one pointer.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Table {
    zone: Zone,
    ttl_s: u32,
    serial: u32,
    knows: Knows,
    servers: Few<IpAddr>,
    services: Services,
}

/// How much a table knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Knows {
    /// Nothing: not all views were complete once.
    #[default]
    Nothing,
    /// What it has; of what it lacks it cannot say that it does not exist.
    Some,
    /// All there is.
    All,
}

/// All services, in parts, so that the next table shares all parts but those that changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Services {
    parts: Vec<Arc<Part>>,
    /// How many services each namespace has.
    namespaces: Arc<BTreeMap<Label, usize>>,
    len: usize,
}

/// Some services, in the order of their hashes: to look for one, nothing else is read.
type Part = Vec<(u64, Owner)>;

impl Services {
    /// With 100,000 services about 100 in a part.
    const PARTS: usize = 1024;
    /// By how many places a part grows: many small steps would leave holes in memory, and doubling leaves places free.
    const STEP: usize = 8;

    fn part(hash: u64) -> usize {
        usize::try_from(mix(hash) % Self::PARTS as u64).unwrap_or(0)
    }

    fn get(&self, service: ServiceName<'_>) -> Option<&Owner> {
        let hash = service.hash();
        let part = self.parts.get(Self::part(hash))?;
        place_in(part, hash, service).ok().and_then(|at| part.get(at)).map(|(_, owner)| owner)
    }

    /// Puts `owner` in the place of what is there.
    fn set(&mut self, service: &ServiceKey, owner: Option<Owner>) {
        let hash = ServiceName::from(service).hash();
        let Some(part) = self.parts.get_mut(Self::part(hash)).map(Arc::make_mut) else { return };
        match (place_in(part, hash, service.into()), owner) {
            (Ok(at), Some(owner)) => part.splice(at..=at, [(hash, owner)]).for_each(drop),
            (Ok(at), None) => {
                part.remove(at);
                self.count(&service.namespace, |count| count.saturating_sub(1));
            }
            (Err(at), Some(owner)) => {
                if part.len() == part.capacity() {
                    part.reserve_exact(Self::STEP);
                }
                part.insert(at, (hash, owner));
                self.count(&service.namespace, |count| count + 1);
            }
            (Err(_), None) => {}
        }
    }

    fn count(&mut self, namespace: &Label, changed: impl Fn(usize) -> usize) {
        self.len = changed(self.len);
        let namespaces = Arc::make_mut(&mut self.namespaces);
        let count = namespaces.entry(namespace.clone()).or_default();
        *count = changed(*count);
        if *count == 0 {
            namespaces.remove(namespace);
        }
    }
}

/// Where `service` is, or would be.
fn place_in(part: &Part, hash: u64, service: ServiceName<'_>) -> Result<usize, usize> {
    let name = |owner: &Owner| ServiceName::from(owner.key()).cmp(&service);
    part.binary_search_by(|(one, owner)| one.cmp(&hash).then_with(|| name(owner)))
}

impl Default for Services {
    fn default() -> Self {
        Self { parts: alloc::vec![Arc::default(); Self::PARTS], namespaces: Arc::default(), len: 0 }
    }
}

/// One service: what its names give.
#[derive(Clone, Eq, Debug, Serialize)]
pub(super) struct Owner {
    /// As the view has it, and shared with that.
    import: Arc<Import>,
    /// As the import says, where it takes longer to look.
    pub(super) headless: bool,
    /// Where the own cluster is among them, if it is offered.
    preferred: Option<u32>,
    /// What each exporting cluster has, in the order of the import's sources. Those that are not offered have no
    /// addresses here.
    shares: Arc<[Share]>,
}

/// Two are equal that say the same; an import has more to it.
impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        let said = |owner: &Self| (owner.headless, owner.preferred);
        said(self) == said(other)
            && (self.key(), self.ports()) == (other.key(), other.ports())
            && self.clusters().eq(other.clusters())
    }
}

/// What one cluster has of a service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Share {
    /// Ready, each once, sorted.
    pub(super) addresses: Few<IpAddr>,
    /// Where the addresses are listened at; of a headless service, of each host.
    pub(super) ports: Few<Port>,
    /// Ready endpoints of a headless service by host name.
    pub(super) hosts: FewBy<Label, HostShare>,
}

/// One host of a headless service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct HostShare {
    pub(super) addresses: Few<IpAddr>,
    pub(super) ports: Few<Port>,
}

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Found<'a> {
    Elsewhere,
    NotReady,
    Apex,
    Version,
    /// The name server.
    Server,
    /// It has nothing of its own, but there are names below it.
    Between,
    Service(&'a Owner),
    /// What one cluster has.
    Cluster(&'a Owner, &'a ClusterId, &'a Share),
    /// One host of a headless service.
    Host(&'a HostShare),
    /// One port, of all clusters or of one.
    Port(&'a Owner, Option<ClusterName<'a>>, PortName<'a>),
    Nothing,
}

impl Table {
    /// The table that follows from `contents`.
    #[must_use]
    pub fn build<'a>(
        contents: Contents<'_, impl IntoIterator<Item = &'a Arc<Import>>, impl IntoIterator<Item = &'a SourceSlice>>,
    ) -> Self {
        let Contents { zone, ttl, local, servers, imports, slices, reach, knows, serial } = contents;
        let mut by_service: BTreeMap<&ServiceKey, Vec<&SourceSlice>> = BTreeMap::new();
        for slice in slices {
            by_service.entry(&slice.key).or_default().push(slice);
        }
        let mut services = Services::default();
        for import in imports {
            let slices = by_service.get(&import.key).into_iter().flatten().copied();
            services.set(&import.key, Some(Owner::of(import, slices, local, reach)));
        }
        let ttl_s = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
        Self { zone: zone.clone(), ttl_s, serial, knows, servers: servers.clone(), services }
    }

    /// A table of `zone` that knows nothing yet: what a server begins with.
    #[must_use]
    pub fn of_nothing(zone: Zone) -> Self {
        Self { zone, ..Self::default() }
    }

    /// This table with `service` as `import` and `slices` have it, or without it. All else is shared. `local` and `reach`
    /// as in [`Contents`].
    #[must_use]
    pub fn with_service<'a>(
        &self,
        service: &ServiceKey,
        import: Option<&Arc<Import>>,
        slices: impl IntoIterator<Item = &'a SourceSlice>,
        local: &ClusterId,
        reach: &BTreeMap<ClusterId, Reach>,
    ) -> Self {
        let mut table = self.clone();
        table.services.set(service, import.map(|import| Owner::of(import, slices, local, reach)));
        table
    }

    /// The same content under another serial number.
    #[must_use]
    pub fn with_serial(self, serial: u32) -> Self {
        Self { serial, ..self }
    }

    /// Whether it says the same as `other`, apart from the serial number.
    #[must_use]
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let of = |table: &'_ Self| (table.ttl_s, table.knows);
        of(self) == of(other)
            && (&self.zone, &self.servers, &self.services) == (&other.zone, &other.servers, &other.services)
    }

    /// Where the name server itself is reached.
    #[must_use]
    pub fn servers(&self) -> &[IpAddr] {
        &self.servers
    }

    /// The domain.
    #[must_use]
    pub const fn zone(&self) -> &Zone {
        &self.zone
    }

    /// How long answers may be cached, in seconds.
    #[must_use]
    pub const fn ttl_s(&self) -> u32 {
        self.ttl_s
    }

    /// How long denials may be cached, in seconds: never so long that a new export would be seen late.
    #[must_use]
    pub fn negative_ttl_s(&self) -> u32 {
        self.ttl_s.min(5)
    }

    /// Number of this version of the zone.
    #[must_use]
    pub const fn serial(&self) -> u32 {
        self.serial
    }

    /// The same content, of which more is known.
    #[must_use]
    pub fn knowing(self, knows: Knows) -> Self {
        Self { knows, ..self }
    }

    /// How much it knows.
    #[must_use]
    pub const fn knows(&self) -> Knows {
        self.knows
    }

    /// Whether it says anything about names.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.knows != Knows::Nothing
    }

    /// How many services it knows.
    #[must_use]
    pub const fn names(&self) -> usize {
        self.services.len
    }

    /// The addresses that `service` may be answered with now, by cluster; empty for clusters that are not offered.
    #[must_use]
    pub fn offered(&self, service: &ServiceKey) -> Option<impl Iterator<Item = (&ClusterId, &[IpAddr])>> {
        self.services.get(service.into()).map(|owner| owner.clusters().map(|(id, share)| (id, &*share.addresses)))
    }

    pub(super) fn find<'a>(&'a self, name: &Name, room: &'a mut Room) -> Found<'a> {
        let place = self.zone.place(name, room);
        let below =
            |service, look: &dyn Fn(&'a Owner) -> Found<'a>| self.services.get(service).map_or(Found::Nothing, look);
        match place {
            Place::Elsewhere => Found::Elsewhere,
            _ if !self.synced() => Found::NotReady,
            Place::Apex => Found::Apex,
            Place::Version => Found::Version,
            Place::Services | Place::Servers => Found::Between,
            Place::Server => Found::Server,
            Place::Namespace(namespace) if self.services.namespaces.contains_key(namespace) => Found::Between,
            Place::Service(service) => below(service, &Found::Service),
            Place::Below(service, label) => below(service, &|owner| owner.below(label)),
            Place::TwoBelow(service, left, right) => below(service, &|owner| owner.two_below(left, right)),
            Place::ThreeBelow(service, host, cluster) => below(service, &|owner| owner.host_of(cluster, host)),
            Place::Protocol(service, cluster, protocol) => below(service, &|owner| {
                let is_between = owner.has_port(cluster, |port| port.name.is_some() && port.protocol == protocol);
                if is_between { Found::Between } else { Found::Nothing }
            }),
            Place::Port(service, cluster, port) => below(service, &|owner| {
                let is_there = owner.has_port(cluster, |one| port.is(one));
                if is_there { Found::Port(owner, cluster, port) } else { Found::Nothing }
            }),
            Place::Namespace(_) | Place::Unheard => Found::Nothing,
        }
    }
}

impl Owner {
    fn of<'a>(
        import: &Arc<Import>,
        slices: impl IntoIterator<Item = &'a SourceSlice>,
        local: &ClusterId,
        reach: &BTreeMap<ClusterId, Reach>,
    ) -> Self {
        let lost = |cluster: &ClusterId| cluster != local && reach.get(cluster) == Some(&Reach::Lost);
        let headless = import.offer.service_type == ServiceType::Headless;
        let mut slices_of: BTreeMap<&ClusterId, Vec<&SourceSlice>> =
            import.sources.keys().map(|cluster| (cluster, Vec::new())).collect();
        for slice in slices {
            if let Some(of_cluster) = slices_of.get_mut(&slice.cluster) {
                of_cluster.push(slice);
            }
        }
        let share = |(cluster, slices): (&ClusterId, Vec<&SourceSlice>)| Share::of(&slices, headless, !lost(cluster));
        let shares: Arc<[Share]> = slices_of.into_iter().map(share).collect();
        let offered = |(id, share): (&ClusterId, &Share)| id == local && !share.addresses.is_empty();
        let preferred = import.sources.keys().zip(&*shares).position(offered);
        let preferred = preferred.and_then(|at| u32::try_from(at).ok());
        Self { import: Arc::clone(import), headless, preferred, shares }
    }

    pub(super) fn key(&self) -> &ServiceKey {
        &self.import.key
    }

    /// Whether the one at `at` of its clusters is the own one; `None` if that is not offered.
    pub(super) fn prefers(&self, at: usize) -> Option<bool> {
        self.preferred.map(|preferred| usize::try_from(preferred) == Ok(at))
    }

    /// Those of the import. A cluster may have others under these names, which it gave up to an older export.
    pub(super) fn ports(&self) -> &[Port] {
        &self.import.offer.ports
    }

    /// All exporting clusters, and what each has.
    pub(super) fn clusters(&self) -> impl Iterator<Item = (&ClusterId, &Share)> {
        self.import.sources.keys().zip(&*self.shares)
    }

    /// A cluster whose id is `label`, or the right half of ids that exist.
    fn below(&self, label: &str) -> Found<'_> {
        let half = |cluster: &ClusterId| cluster.as_str().split_once('.').is_some_and(|(_, right)| right == label);
        match self.cluster(ClusterName::One(label)) {
            Some((cluster, share)) => Found::Cluster(self, cluster, share),
            None if self.import.sources.keys().any(half) => Found::Between,
            None => Found::Nothing,
        }
    }

    /// A cluster whose id is of two labels, or a host of one whose id is one.
    fn two_below(&self, left: &str, right: &str) -> Found<'_> {
        match self.cluster(ClusterName::Two(left, right)) {
            Some((cluster, share)) => Found::Cluster(self, cluster, share),
            None => self.host_of(ClusterName::One(right), left),
        }
    }

    fn host_of(&self, cluster: ClusterName<'_>, host: &str) -> Found<'_> {
        self.cluster(cluster).and_then(|(_, share)| share.hosts.get(host)).map_or(Found::Nothing, Found::Host)
    }

    pub(super) fn cluster(&self, cluster: ClusterName<'_>) -> Option<(&ClusterId, &Share)> {
        self.clusters().find(|(id, _)| cluster.is(id))
    }

    /// Whether what is found at `cluster`, or anywhere, listens at such a port.
    fn has_port(&self, cluster: Option<ClusterName<'_>>, is: impl Fn(&Port) -> bool) -> bool {
        let at = |(id, _): &(&ClusterId, &Share)| cluster.is_none_or(|cluster| cluster.is(id));
        self.clusters().filter(at).any(|(_, share)| share.ports.iter().any(&is))
    }
}

impl Share {
    /// What is ready, if the cluster is `offered`. The ports of a cluster IP are there, whether anything is ready or not.
    fn of(slices: &[&SourceSlice], headless: bool, offered: bool) -> Self {
        let ready = |slice: &&SourceSlice| slice.endpoints.iter().any(|endpoint| endpoint.ready) && offered;
        let mut hosts: BTreeMap<Label, Vec<(IpAddr, &SourceSlice)>> = BTreeMap::new();
        let mut addresses = Vec::new();
        for slice in slices.iter().filter(|slice| ready(slice)) {
            for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.ready) {
                addresses.push(endpoint.address);
                let name = || endpoint.hostname.clone().or_else(|| system_name(endpoint.address));
                if headless && let Some(name) = name() {
                    hosts.entry(name).or_default().push((endpoint.address, slice));
                }
            }
        }
        let listening = slices.iter().filter(|slice| !headless || ready(slice));
        Self {
            addresses: addresses.into(),
            ports: union(listening.map(|slice| &slice.ports)),
            hosts: hosts.into_iter().map(|(name, endpoints)| (name, HostShare::of(&endpoints))).collect(),
        }
    }
}

impl HostShare {
    fn of(endpoints: &[(IpAddr, &SourceSlice)]) -> Self {
        Self {
            addresses: endpoints.iter().map(|(address, _)| *address).collect(),
            ports: endpoints.iter().flat_map(|(_, slice)| &slice.ports).cloned().collect(),
        }
    }
}

/// The ports of all, shared where all have the same.
fn union<'a>(all: impl Iterator<Item = &'a Few<Port>> + Clone) -> Few<Port> {
    match all.clone().next() {
        Some(first) if all.clone().all(|one| one == first) => first.clone(),
        Some(_) | None => all.flatten().cloned().collect(),
    }
}

/// The name of an endpoint that has none of its own: its address, with dashes (as CoreDNS does).
fn system_name(address: IpAddr) -> Option<Label> {
    let mut text = address.to_string().replace(['.', ':'], "-");
    if text.ends_with('-') {
        text.push('0');
    }
    if text.starts_with('-') {
        text.insert(0, '0');
    }
    Label::new(&text).ok()
}
