//! Everything that answers follow from.

use super::name::{Place, PortName, Zone};
use crate::base::hash::{fnv1a, fnv1a_more, mix};
use crate::base::{ClusterId, Label};
use crate::model::{Import, Port, Reach, ServiceKey, ServiceType, SourceSlice};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
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
    parts: Vec<Arc<BTreeMap<ServiceKey, Arc<Owner>>>>,
    /// How many services each namespace has.
    namespaces: Arc<BTreeMap<Label, usize>>,
    len: usize,
}

impl Services {
    /// With 100,000 services about 100 in a part.
    const PARTS: usize = 1024;

    fn part(service: &ServiceKey) -> usize {
        let hash = fnv1a_more(fnv1a(service.namespace.as_str().as_bytes()), service.name.as_str().as_bytes());
        usize::try_from(mix(hash) % Self::PARTS as u64).unwrap_or(0)
    }

    fn get(&self, service: &ServiceKey) -> Option<&Owner> {
        self.parts.get(Self::part(service))?.get(service).map(Arc::as_ref)
    }

    /// Puts `owner` in the place of what is there.
    fn set(&mut self, service: &ServiceKey, owner: Option<Owner>) {
        let Some(part) = self.parts.get_mut(Self::part(service)).map(Arc::make_mut) else { return };
        let comes = owner.is_some();
        let went = match owner {
            Some(owner) => part.insert(service.clone(), Arc::new(owner)),
            None => part.remove(service),
        };
        if went.is_some() == comes {
            return;
        }
        let namespaces = Arc::make_mut(&mut self.namespaces);
        let count = namespaces.entry(service.namespace.clone()).or_default();
        if comes {
            (*count, self.len) = (*count + 1, self.len + 1);
        } else {
            (*count, self.len) = (count.saturating_sub(1), self.len.saturating_sub(1));
        }
        if *count == 0 {
            namespaces.remove(&service.namespace);
        }
    }
}

impl Default for Services {
    fn default() -> Self {
        Self { parts: alloc::vec![Arc::default(); Self::PARTS], namespaces: Arc::default(), len: 0 }
    }
}

/// One service: what its names give.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Owner {
    pub(super) headless: bool,
    /// The own cluster, if it is offered.
    pub(super) preferred: Option<ClusterId>,
    /// Those of the import. A cluster may have others under these names, which it gave up to an older export.
    pub(super) ports: BTreeSet<Port>,
    /// All exporting clusters. Those that are not offered have no addresses here.
    pub(super) clusters: BTreeMap<ClusterId, Share>,
}

/// What one cluster has of a service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct Share {
    /// Ready, each once, sorted.
    pub(super) addresses: Vec<IpAddr>,
    /// Where the addresses are listened at; of a headless service, of each host.
    pub(super) ports: BTreeSet<Port>,
    /// Ready endpoints of a headless service by host name.
    pub(super) hosts: BTreeMap<Label, HostShare>,
}

/// One host of a headless service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct HostShare {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ports: BTreeSet<Port>,
}

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Found<'a> {
    Elsewhere,
    NotReady,
    Apex,
    Version,
    /// It has nothing of its own, but there are names below it.
    Between,
    Service(ServiceKey, &'a Owner),
    /// What one cluster has.
    Cluster(&'a Owner, &'a ClusterId, &'a Share),
    /// One host of a headless service.
    Host(&'a HostShare),
    /// One port, of all clusters or of one.
    Port(ServiceKey, &'a Owner, Option<ClusterId>, PortName),
    Nothing,
}

impl Table {
    /// The table that follows from `contents`.
    #[must_use]
    pub fn build<'a>(
        contents: Contents<'_, impl IntoIterator<Item = &'a Import>, impl IntoIterator<Item = &'a SourceSlice>>,
    ) -> Self {
        let Contents { zone, ttl, local, imports, slices, reach, knows, serial } = contents;
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
        Self { zone: zone.clone(), ttl_s, serial, knows, services }
    }

    /// This table with `service` as `import` and `slices` have it, or without it. All else is shared. `local` and `reach`
    /// as in [`Contents`].
    #[must_use]
    pub fn with_service<'a>(
        &self,
        service: &ServiceKey,
        import: Option<&Import>,
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
        (&self.zone, self.ttl_s, self.knows, &self.services) == (&other.zone, other.ttl_s, other.knows, &other.services)
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
        self.owner(service).map(|owner| owner.clusters.iter().map(|(id, share)| (id, share.addresses.as_slice())))
    }

    fn owner(&self, service: &ServiceKey) -> Option<&Owner> {
        self.services.get(service)
    }

    pub(super) fn find(&self, name: &Name) -> Found<'_> {
        let place = self.zone.place(name);
        match place {
            Place::Elsewhere => Found::Elsewhere,
            _ if !self.synced() => Found::NotReady,
            Place::Apex => Found::Apex,
            Place::Version => Found::Version,
            Place::Services | Place::Servers | Place::Server => Found::Between,
            Place::Namespace(namespace) if self.services.namespaces.contains_key(&namespace) => Found::Between,
            Place::Service(service) => match self.owner(&service) {
                Some(owner) => Found::Service(service, owner),
                None => Found::Nothing,
            },
            Place::Below(service, label) => self.owner(&service).map_or(Found::Nothing, |owner| owner.below(&label)),
            Place::TwoBelow(service, left, right) => {
                self.owner(&service).map_or(Found::Nothing, |owner| owner.two_below(&left, &right))
            }
            Place::ThreeBelow(service, host, cluster) => {
                let share = self.owner(&service).and_then(|owner| owner.clusters.get(&cluster));
                share.map_or(Found::Nothing, |share| share.host(&host))
            }
            Place::Protocol(service, cluster, protocol) => self.owner(&service).map_or(Found::Nothing, |owner| {
                let below = owner.has_port(cluster.as_ref(), |port| port.name.is_some() && port.protocol == protocol);
                if below { Found::Between } else { Found::Nothing }
            }),
            Place::Port(service, cluster, port) => match self.owner(&service) {
                Some(owner) if owner.has_port(cluster.as_ref(), |one| port.is(one)) => {
                    Found::Port(service, owner, cluster, port)
                }
                Some(_) | None => Found::Nothing,
            },
            Place::Namespace(_) | Place::Unheard => Found::Nothing,
        }
    }
}

impl Owner {
    fn of<'a>(
        import: &Import,
        slices: impl IntoIterator<Item = &'a SourceSlice>,
        local: &ClusterId,
        reach: &BTreeMap<ClusterId, Reach>,
    ) -> Self {
        let lost = |cluster: &ClusterId| cluster != local && reach.get(cluster) == Some(&Reach::Lost);
        let headless = import.offer.service_type == ServiceType::Headless;
        let mut clusters: BTreeMap<ClusterId, Share> =
            import.sources.keys().map(|cluster| (cluster.clone(), Share::default())).collect();
        for slice in slices {
            if let Some(share) = clusters.get_mut(&slice.cluster) {
                share.add(slice, headless, !lost(&slice.cluster));
            }
        }
        clusters.values_mut().for_each(Share::sort);
        let preferred = clusters.get(local).is_some_and(|share| !share.addresses.is_empty()).then(|| local.clone());
        Self { headless, preferred, ports: import.offer.ports.clone(), clusters }
    }

    /// A cluster whose id is `label`, or the right half of ids that exist.
    fn below(&self, label: &Label) -> Found<'_> {
        if let Some(found) = ClusterId::new(label.as_str()).ok().and_then(|cluster| self.cluster(&cluster)) {
            return found;
        }
        let half = |cluster: &ClusterId| cluster.as_str().split_once('.').is_some_and(|(_, r)| r == label.as_str());
        if self.clusters.keys().any(half) { Found::Between } else { Found::Nothing }
    }

    /// A cluster whose id is of two labels, or a host of one whose id is one.
    fn two_below(&self, left: &Label, right: &Label) -> Found<'_> {
        let both = ClusterId::new(&format!("{left}.{right}")).ok();
        if let Some(found) = both.and_then(|cluster| self.cluster(&cluster)) {
            return found;
        }
        let share = ClusterId::new(right.as_str()).ok().and_then(|cluster| self.clusters.get(&cluster));
        share.map_or(Found::Nothing, |share| share.host(left))
    }

    fn cluster(&self, cluster: &ClusterId) -> Option<Found<'_>> {
        self.clusters.get_key_value(cluster).map(|(id, share)| Found::Cluster(self, id, share))
    }

    /// Whether what is found at `cluster`, or anywhere, listens at such a port.
    fn has_port(&self, cluster: Option<&ClusterId>, is: impl Fn(&Port) -> bool) -> bool {
        let at = |(id, _): &(&ClusterId, &Share)| cluster.is_none_or(|cluster| cluster == *id);
        self.clusters.iter().filter(at).any(|(_, share)| share.ports.iter().any(&is))
    }
}

impl Share {
    /// Adds what is ready, if the cluster is `offered`. The ports of a cluster IP are there, whether anything is ready or
    /// not.
    fn add(&mut self, slice: &SourceSlice, headless: bool, offered: bool) {
        let ready = || slice.endpoints.iter().filter(|endpoint| endpoint.ready && offered);
        if !headless || ready().next().is_some() {
            self.ports.extend(slice.ports.iter().cloned());
        }
        self.addresses.extend(ready().map(|endpoint| endpoint.address));
        for endpoint in ready().filter(|_| headless) {
            let name = endpoint.hostname.clone().or_else(|| system_name(endpoint.address));
            if let Some(name) = name {
                let host = self.hosts.entry(name).or_default();
                host.addresses.push(endpoint.address);
                host.ports.extend(slice.ports.iter().cloned());
            }
        }
    }

    fn sort(&mut self) {
        for addresses in core::iter::once(&mut self.addresses).chain(self.hosts.values_mut().map(|h| &mut h.addresses))
        {
            addresses.sort_unstable();
            addresses.dedup();
            addresses.shrink_to_fit();
        }
    }

    fn host(&self, name: &Label) -> Found<'_> {
        self.hosts.get(name).map_or(Found::Nothing, Found::Host)
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
