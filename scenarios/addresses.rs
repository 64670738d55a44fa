//! Which service an answered address belongs to, learned from the facts: the Service objects of the clusters, and where
//! a world does not tell those, what the clusters tell each other.

use crate::{ApiRef, Fact, Outcome, Place, What, trace};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Object, ServiceKey};

/// A service of one cluster.
pub type Owner = (ClusterId, ServiceKey);

/// See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AddressBook {
    /// The cluster IPs of a service, and from when on they were these. A cluster that is built anew has others.
    services: BTreeMap<Owner, Vec<(Duration, BTreeSet<IpAddr>)>>,
    /// The addresses of all pods that a service without a cluster IP ever had.
    pods: BTreeMap<Owner, BTreeSet<IpAddr>>,
    told: BTreeMap<Owner, BTreeSet<IpAddr>>,
}

impl AddressBook {
    /// From all these facts.
    #[must_use]
    pub fn of(facts: &[Fact]) -> Self {
        let mut book = Self::default();
        for fact in facts {
            book.watch(fact);
        }
        book
    }

    /// Takes note of a fact.
    pub fn watch(&mut self, fact: &Fact) {
        let What::Wrote { object, .. } = &fact.what else { return };
        match (object, &fact.place) {
            (Object::Service(service), Place::Api(ApiRef::Cluster(cluster))) => {
                let owner = (cluster.clone(), service.key.clone());
                let addresses = service.cluster_ips.iter().copied().collect();
                let known = self.services.entry(owner).or_default();
                if known.last().is_none_or(|(_, last)| *last != addresses) {
                    known.push((fact.at, addresses));
                }
            }
            (Object::EndpointSlice(slice), Place::Api(ApiRef::Cluster(cluster))) => {
                let key = ServiceKey { namespace: slice.namespace.clone(), name: slice.service.clone() };
                let addresses = slice.backends.iter().map(|backend| backend.address);
                self.pods.entry((cluster.clone(), key)).or_default().extend(addresses);
            }
            (Object::SourceSlice(slice), _) => {
                let owner = (slice.cluster.clone(), slice.key.clone());
                let addresses = slice.endpoints.iter().map(|endpoint| endpoint.address);
                self.told.entry(owner).or_default().extend(addresses);
            }
            _ => {}
        }
    }

    /// The addresses that a service of one cluster had at any moment from `from` to `to`; empty if none is known.
    #[must_use]
    pub fn of_service(&self, owner: &Owner, from: Duration, to: Duration) -> BTreeSet<IpAddr> {
        let Some(known) = self.services.get(owner) else { return self.told.get(owner).cloned().unwrap_or_default() };
        if known.iter().all(|(_, addresses)| addresses.is_empty()) {
            return self.pods.get(owner).cloned().unwrap_or_default();
        }
        let ends = known.iter().skip(1).map(|(since, _)| *since).chain([Duration::MAX]);
        let then = known.iter().zip(ends).filter(|((since, _), end)| *since <= to && from < *end);
        then.flat_map(|((_, addresses), _)| addresses).copied().collect()
    }

    /// What is wrong with the answer to a question of that moment, if anything: another code, or addresses other than those
    /// of exactly one of the services (none at all, if no service may be answered).
    #[must_use]
    pub fn check(&self, rcode: &str, any_of: &[Owner], outcome: &Outcome, at: Duration) -> Option<String> {
        let Outcome::Resolved { rcode: got, addresses } = outcome else { return Some(trace::outcome(outcome)) };
        let wrong = || Some(format!("got {}", trace::outcome(outcome)));
        if got != rcode {
            return wrong();
        }
        if any_of.is_empty() {
            return if addresses.is_empty() { None } else { wrong() };
        }
        if let Some((cluster, key)) = any_of.iter().find(|owner| self.of_service(owner, at, at).is_empty()) {
            return Some(format!("no fact tells the cluster IP of {cluster}/{key}"));
        }
        let got = addresses.iter().copied().collect::<BTreeSet<_>>();
        let one = any_of.iter().any(|owner| !got.is_empty() && got.is_subset(&self.of_service(owner, at, at)));
        if one { None } else { wrong() }
    }
}
