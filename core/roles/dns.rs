//! The DNS daemon: keeps the table from which its sockets answer.
//!
//! ```text
//!  Import        ─> services                ┐
//!  SourceSlice   ─> endpoints               ├─> Table, swapped whole when it says something else
//!  Gateway       ─> reach                   │
//!  ExportSummary ─> may what lacks be gone? │
//!  (all complete once)                      ┘
//! ```
//! The sockets get a table that knows nothing and says so (SERVFAIL) at the start, and one that answers as soon as all
//! listings were complete; it denies names (NXDOMAIN) once discovery has said that all of them are there, since the API may
//! have lost its data just before. From then on there is always an answer: an API that cannot be reached takes nothing
//! away, neither does a new listing while it runs, and what one that lost its data does not show is believed gone only
//! after discovery said there that all is there again ([`Index::believe`]).
//!
//! **Reach** is what the own cluster's active gateway says, the one with the highest epoch: an old one's card may stay
//! behind for as long as its node is down. Where none is active, nothing is known, and nothing is hidden for it (F9).

#[cfg(test)]
mod tests;

use super::by_service::as_slice;
use super::{Event, Input, Output, Role};
use crate::base::{ClusterId, Few, Instant, Machine, Wall};
use crate::dns::{Contents, Knows, Table, Zone};
use crate::model::{Api, Gateway, Import, Key, Kind, Object, Reach, ServiceKey, SourceSlice, WatchEvent};
use crate::sync::Index;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// Why the DNS machine wants to wake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum DnsWake {
    /// What the API does not show any more may be gone for good.
    Absence,
}

/// The machine. See the module docs.
#[derive(Clone, PartialEq, Debug)]
pub struct Dns {
    cluster: ClusterId,
    zone: Zone,
    ttl: Duration,
    servers: Few<IpAddr>,
    index: Index,
    reach: BTreeMap<ClusterId, Reach>,
    /// A word of the cluster's discovery was true once.
    complete: bool,
    wall: Wall,
    /// What the sockets have, or will have when all outputs are taken.
    table: Arc<Table>,
    /// The table has yet to be handed over.
    fresh: bool,
    stopped: bool,
    /// What is still to be told.
    news: Option<Event>,
}

impl Dns {
    /// The DNS of `cluster` for `zone`, reached at `servers`, as far as that is known; answers may be cached for `ttl`.
    #[must_use]
    pub fn new(cluster: ClusterId, zone: Zone, ttl: Duration, servers: Few<IpAddr>) -> Self {
        let mut dns = Self {
            cluster,
            zone,
            ttl,
            servers,
            index: Index::default(),
            reach: BTreeMap::new(),
            complete: false,
            wall: Wall::default(),
            table: Arc::default(),
            fresh: true,
            stopped: false,
            news: None,
        };
        dns.table = Arc::new(dns.build());
        dns
    }

    fn watched(&mut self, event: WatchEvent, now: Instant) {
        if is_unfinished(&event) {
            return;
        }
        let mut changed = self.index.watched(Api::Local, event, now);
        self.index.hear_out(Api::Local, Kind::ExportSummary, &self.cluster, &changed, now);
        self.complete |= self.index.summary_holds(Api::Local, &self.cluster);
        changed.extend(self.believe_absences(now));
        self.refresh(&changed);
    }

    fn believe_absences(&mut self, now: Instant) -> Vec<Key> {
        let own = &self.cluster;
        let is_imported = |object: &Object| matches!(object.kind(), Kind::Import | Kind::SourceSlice);
        let gone =
            self.index.believe(now, |index, _, object| !is_imported(object) || index.summary_holds(Api::Local, own));
        gone.into_iter().map(|(_, key)| key).collect()
    }

    fn refresh(&mut self, changed: &[Key]) {
        let concerned = changed.iter().filter(|key| matches!(key.kind, Kind::Import | Kind::SourceSlice));
        let services: BTreeSet<ServiceKey> = concerned.filter_map(Key::service).collect();
        for service in &services {
            self.share_ports(service);
        }
        if !self.synced() {
            return; // Its content would not show.
        }
        let reach = self.reach_now();
        let next = if self.table.synced() && reach == self.reach {
            services.iter().fold(Table::clone(&self.table).knowing(self.knows()), |table, service| {
                let slices = self.index.of_service(Api::Local, Kind::SourceSlice, service);
                let slices = slices.filter_map(|(_, object)| as_slice(object)).map(Arc::as_ref);
                table.with_service(service, self.import(service), slices, &self.cluster, &self.reach)
            })
        } else {
            self.reach = reach;
            self.build()
        };
        self.swap(next);
    }

    /// Most slices have the ports of their import: these are kept once.
    fn share_ports(&mut self, service: &ServiceKey) {
        let Some(ports) = self.import(service).map(|import| import.offer.ports.clone()) else { return };
        let slices = self.index.of_service(Api::Local, Kind::SourceSlice, service);
        let apart = slices
            .filter_map(|(_, object)| as_slice(object))
            .filter(|slice| slice.ports == ports && !slice.ports.is_the_same_as(&ports));
        let sharing = |slice: &Arc<SourceSlice>| SourceSlice { ports: ports.clone(), ..SourceSlice::clone(slice) };
        let all: Vec<Object> = apart.map(sharing).map(Object::from).collect();
        for slice in all {
            self.index.share(Api::Local, &slice.key(), &slice);
        }
    }

    fn swap(&mut self, next: Table) {
        if next.says_the_same_as(&self.table) {
            return;
        }
        // Time makes it grow across restarts too; changes within a second, or a clock set back, must not stop it.
        let time = u32::try_from(self.wall.unix_secs()).unwrap_or(u32::MAX);
        self.table = Arc::new(next.with_serial(time.max(self.table.serial().wrapping_add(1))));
        self.fresh = true;
    }

    /// The table from all that is known.
    fn build(&self) -> Table {
        let imports = self.index.objects(Api::Local, Kind::Import).filter_map(|(_, object)| as_import(object));
        let slices = self.index.objects(Api::Local, Kind::SourceSlice);
        Table::build(Contents {
            zone: &self.zone,
            ttl: self.ttl,
            local: &self.cluster,
            servers: &self.servers,
            imports,
            slices: slices.filter_map(|(_, object)| as_slice(object)).map(Arc::as_ref),
            reach: &self.reach,
            knows: self.knows(),
            serial: self.table.serial(),
        })
    }

    fn synced(&self) -> bool {
        self.index.all_synced(Api::Local, &[Kind::Import, Kind::SourceSlice, Kind::Gateway, Kind::ExportSummary])
    }

    fn knows(&self) -> Knows {
        match (self.synced(), self.complete) {
            (false, _) => Knows::Nothing,
            (true, false) => Knows::Some,
            (true, true) => Knows::All,
        }
    }

    fn reach_now(&self) -> BTreeMap<ClusterId, Reach> {
        let gateways = self.index.objects(Api::Local, Kind::Gateway).filter_map(|(_, object)| as_gateway(object));
        let active = gateways.filter(|gateway| gateway.active.is_some());
        active.max_by_key(|gateway| (gateway.active, &gateway.node)).map(|g| g.reach.clone()).unwrap_or_default()
    }

    fn import(&self, service: &ServiceKey) -> Option<&Arc<Import>> {
        as_import(self.index.get(Api::Local, &Key::of_service(Kind::Import, service))?)
    }
}

/// Whose an import is stands in its status, which comes a moment after the rest: until then it says nothing, and what was
/// known of it stays.
fn is_unfinished(event: &WatchEvent) -> bool {
    matches!(event, WatchEvent::Applied(Object::Import(import), _) if import.sources.is_empty())
}

fn as_import(object: &Object) -> Option<&Arc<Import>> {
    let Object::Import(import) = object else { return None };
    Some(import)
}

fn as_gateway(object: &Object) -> Option<&Gateway> {
    let Object::Gateway(gateway) = object else { return None };
    Some(gateway)
}

impl Machine for Dns {
    type Input = Input;
    type Output = Output;
    type Reason = DnsWake;

    fn handle(&mut self, input: Input, now: Instant) {
        if self.stopped {
            return;
        }
        match input {
            Input::Watched(Api::Local, event) => self.watched(event, now),
            Input::Wall(wall) => self.wall = wall,
            Input::Stop => self.stopped = true,
            // It writes nothing anywhere; what it answers from goes by itself.
            Input::Leave => self.news = Some(Event::Left),
            Input::Watched(Api::Broker, _)
            | Input::Written(..)
            | Input::Read(..)
            | Input::Hello { .. }
            | Input::Probe { .. }
            | Input::LookedUp(_)
            | Input::Applied(_) => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        if let Some(event) = self.news.take().filter(|_| !self.stopped) {
            return Some(Output::Event(event));
        }
        (core::mem::take(&mut self.fresh) && !self.stopped).then(|| Output::Dns(Arc::clone(&self.table)))
    }

    fn poll_timeout(&self) -> Option<(Instant, DnsWake)> {
        self.index.poll_timeout().map(|at| (at, DnsWake::Absence)).filter(|_| !self.stopped)
    }

    fn handle_timeout(&mut self, now: Instant) {
        if !self.stopped {
            let gone = self.believe_absences(now);
            self.refresh(&gone);
        }
    }
}

impl Role for Dns {
    fn watches(&self) -> &'static [(Api, Kind)] {
        &[
            (Api::Local, Kind::Import),
            (Api::Local, Kind::SourceSlice),
            (Api::Local, Kind::Gateway),
            (Api::Local, Kind::ExportSummary),
        ]
    }
}
