//! Which service an answered address belongs to, learned from the facts: the Service objects of the clusters, and where
//! a world does not tell those, what the clusters tell each other.

use crate::{ApiRef, Fact, Outcome, Place, What, trace};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Object, ServiceKey};

/// A service of one cluster.
pub type Owner = (ClusterId, ServiceKey);

/// See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AddressBook {
    services: BTreeMap<Owner, BTreeSet<IpAddr>>,
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
                self.services.entry(owner).or_default().extend(&service.cluster_ips);
            }
            (Object::SourceSlice(slice), _) => {
                let owner = (slice.cluster.clone(), slice.key.clone());
                let addresses = slice.endpoints.iter().map(|endpoint| endpoint.address);
                self.told.entry(owner).or_default().extend(addresses);
            }
            _ => {}
        }
    }

    /// The addresses of a service of one cluster; empty if none is known.
    #[must_use]
    pub fn of_service(&self, owner: &Owner) -> BTreeSet<IpAddr> {
        self.services.get(owner).or_else(|| self.told.get(owner)).cloned().unwrap_or_default()
    }

    /// What is wrong with an answer, if anything: another code, or addresses other than those of exactly one of the
    /// services (none at all, if no service may be answered).
    #[must_use]
    pub fn check(&self, rcode: &str, any_of: &[Owner], outcome: &Outcome) -> Option<String> {
        let Outcome::Resolved { rcode: got, addresses } = outcome else { return Some(trace::outcome(outcome)) };
        let wrong = || Some(format!("got {}", trace::outcome(outcome)));
        if got != rcode {
            return wrong();
        }
        if any_of.is_empty() {
            return if addresses.is_empty() { None } else { wrong() };
        }
        if let Some((cluster, key)) = any_of.iter().find(|owner| self.of_service(owner).is_empty()) {
            return Some(format!("no fact tells the cluster IP of {cluster}/{key}"));
        }
        let got = addresses.iter().copied().collect::<BTreeSet<_>>();
        let one = any_of.iter().any(|owner| !got.is_empty() && got.is_subset(&self.of_service(owner)));
        if one { None } else { wrong() }
    }
}
