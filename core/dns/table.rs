//! Everything that answers follow from.

use super::name::{Place, Zone};
use crate::base::{ClusterId, Label};
use crate::model::{Import, Reach, ServiceKey, ServiceType};
use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use hickory_proto::rr::Name;
use serde::Serialize;

/// What a table is built from.
#[derive(Clone, PartialEq, Debug)]
pub struct Contents<'a, I> {
    /// The domain.
    pub zone: &'a Zone,
    /// How long an answer may be cached, in whole seconds (the rest is cut). 5 s is usual.
    pub ttl: Duration,
    /// The own cluster: its sources are preferred and never lost.
    pub local: &'a ClusterId,
    /// What there is.
    pub imports: I,
    /// What is known of the way to other clusters; those that are not named are [`Reach::Unknown`].
    pub reach: &'a BTreeMap<ClusterId, Reach>,
    /// Whether all views were complete once.
    pub synced: bool,
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
    synced: bool,
    services: BTreeMap<Label, BTreeMap<Label, Arc<Owner>>>,
}

/// One service: what its names give.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Owner {
    pub(super) headless: bool,
    /// The own cluster, if it is offered.
    pub(super) preferred: Option<ClusterId>,
    /// All exporting clusters. Those that are not offered have no addresses here.
    pub(super) clusters: BTreeMap<ClusterId, Vec<IpAddr>>,
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
    Cluster(&'a Owner, &'a [IpAddr]),
    Nothing,
}

impl Table {
    /// The table that follows from `contents`.
    #[must_use]
    pub fn build<'a>(contents: Contents<'_, impl IntoIterator<Item = &'a Import>>) -> Self {
        let Contents { zone, ttl, local, imports, reach, synced, serial } = contents;
        let mut services: BTreeMap<Label, BTreeMap<Label, Arc<Owner>>> = BTreeMap::new();
        for import in imports {
            let ServiceKey { namespace, name } = import.key.clone();
            services.entry(namespace).or_default().insert(name, Arc::new(Owner::of(import, local, reach)));
        }
        let ttl_s = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
        Self { zone: zone.clone(), ttl_s, serial, synced, services }
    }

    /// This table with `service` as `import` has it, or without it. All else is shared. `local` and `reach` as in
    /// [`Contents`].
    #[must_use]
    pub fn with_service(
        &self,
        service: &ServiceKey,
        import: Option<&Import>,
        local: &ClusterId,
        reach: &BTreeMap<ClusterId, Reach>,
    ) -> Self {
        let mut table = self.clone();
        let in_namespace = table.services.entry(service.namespace.clone()).or_default();
        match import {
            Some(import) => in_namespace.insert(service.name.clone(), Arc::new(Owner::of(import, local, reach))),
            None => in_namespace.remove(&service.name),
        };
        if in_namespace.is_empty() {
            table.services.remove(&service.namespace);
        }
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
        (&self.zone, self.ttl_s, self.synced, &self.services)
            == (&other.zone, other.ttl_s, other.synced, &other.services)
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

    /// Whether all views were complete once. Until then it says nothing about names.
    #[must_use]
    pub const fn synced(&self) -> bool {
        self.synced
    }

    /// How many services it knows.
    #[must_use]
    pub fn names(&self) -> usize {
        self.services.values().map(BTreeMap::len).sum()
    }

    /// The addresses that `service` may be answered with now, by cluster; empty for clusters that are not offered.
    #[must_use]
    pub fn offered(&self, service: &ServiceKey) -> Option<&BTreeMap<ClusterId, Vec<IpAddr>>> {
        self.owner(service).map(|owner| &owner.clusters)
    }

    fn owner(&self, service: &ServiceKey) -> Option<&Owner> {
        self.services.get(&service.namespace)?.get(&service.name).map(Arc::as_ref)
    }

    pub(super) fn find(&self, name: &Name) -> Found<'_> {
        let place = self.zone.place(name);
        match place {
            Place::Elsewhere => Found::Elsewhere,
            _ if !self.synced => Found::NotReady,
            Place::Apex => Found::Apex,
            Place::Version => Found::Version,
            Place::Services => Found::Between,
            Place::Namespace(namespace) if self.services.contains_key(&namespace) => Found::Between,
            Place::Service(service) => match self.owner(&service) {
                Some(owner) => Found::Service(service, owner),
                None => Found::Nothing,
            },
            Place::Below(service, label) => self.owner(&service).map_or(Found::Nothing, |owner| owner.below(&label)),
            Place::Cluster(service, cluster) => {
                self.owner(&service).and_then(|owner| owner.cluster(&cluster)).unwrap_or(Found::Nothing)
            }
            Place::Namespace(_) | Place::Unheard => Found::Nothing,
        }
    }
}

impl Owner {
    fn of(import: &Import, local: &ClusterId, reach: &BTreeMap<ClusterId, Reach>) -> Self {
        let lost = |cluster: &ClusterId| cluster != local && reach.get(cluster) == Some(&Reach::Lost);
        let clusters: BTreeMap<ClusterId, Vec<IpAddr>> = import
            .sources
            .iter()
            .map(|(cluster, source)| {
                let offered = source.ready && !lost(cluster);
                (cluster.clone(), if offered { each_once(&source.addresses) } else { Vec::new() })
            })
            .collect();
        let preferred = clusters.get(local).is_some_and(|addresses| !addresses.is_empty()).then(|| local.clone());
        Self { headless: import.service_type == ServiceType::Headless, preferred, clusters }
    }

    /// A cluster whose id is `label`, or the right half of ids that exist.
    fn below(&self, label: &Label) -> Found<'_> {
        if let Some(found) = ClusterId::new(label.as_str()).ok().and_then(|cluster| self.cluster(&cluster)) {
            return found;
        }
        let half = |cluster: &ClusterId| cluster.as_str().split_once('.').is_some_and(|(_, r)| r == label.as_str());
        if self.clusters.keys().any(half) { Found::Between } else { Found::Nothing }
    }

    fn cluster(&self, cluster: &ClusterId) -> Option<Found<'_>> {
        self.clusters.get(cluster).map(|addresses| Found::Cluster(self, addresses))
    }
}

fn each_once(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let mut seen = BTreeSet::new();
    addresses.iter().copied().filter(|address| seen.insert(*address)).collect()
}
