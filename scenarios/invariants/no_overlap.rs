//! **No overlap.** No two live owners hold one address or range: at no time does the broker show two clusters whose ranges
//! meet, or the claims of two that do, nor do two clusters offer one address.

use super::{Invariant, Violation};
use crate::membership::Membership;
use crate::mirror::Mirror;
use crate::trouble::Trouble;
use crate::{ApiRef, Change, Fact, Place, Scenario, What};
use core::time::Duration;
use tombolo_core::base::ClusterId;
use tombolo_core::ipam::conflicts;
use tombolo_core::model::{Claims, ClusterRecord, Kind, Object, SourceSlice};

const NAME: &str = "No overlap";

/// See the module.
pub(super) struct NoOverlap {
    mirror: Mirror,
    membership: Membership,
    trouble: Trouble,
}

impl NoOverlap {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self { mirror: Mirror::of(scenario), membership: Membership::of(scenario), trouble: Trouble::of(scenario) }
    }

    /// Whether what the broker shows of the cluster is out of a backup of before it left: it has no owner any more.
    fn is_ownerless(&self, cluster: &ClusterId, at: Duration) -> bool {
        self.membership.left_since(cluster, at).is_some_and(|left| self.trouble.restored_since(cluster, left))
    }

    fn range_taken(&self, new: &ClusterRecord, at: Duration) -> Option<String> {
        for other in self.mirror.objects_at(&ApiRef::Broker, Kind::Cluster) {
            let Object::Cluster(other) = other else { continue };
            if other.cluster == new.cluster || self.is_ownerless(&other.cluster, at) {
                continue;
            }
            let theirs = || other.pods.iter().chain(&other.services);
            for ours in new.pods.iter().chain(&new.services) {
                if let Some(theirs) = theirs().find(|theirs| theirs.overlaps(ours)) {
                    let (new, other) = (&new.cluster, &other.cluster);
                    return Some(format!("the broker shows {ours} of {new} beside {theirs} of {other}"));
                }
            }
        }
        None
    }

    fn claimed_twice(&self, claims: &Claims, at: Duration) -> Option<String> {
        let owned = claims.members.iter().filter(|(cluster, _)| !self.is_ownerless(cluster, at));
        let members: Vec<_> = owned.map(|(cluster, claim)| (cluster, &claim.ranges)).collect();
        let pairs = members.iter().enumerate().flat_map(|(i, one)| members.iter().skip(i + 1).map(move |o| (*one, *o)));
        let conflict = pairs.flat_map(|(one, other)| conflicts(one, other)).next()?;
        Some(format!("the broker holds claims that meet: {conflict}"))
    }

    fn address_taken(&self, new: &SourceSlice, at: Duration) -> Option<String> {
        for other in self.mirror.objects_at(&ApiRef::Broker, Kind::SourceSlice) {
            let Object::SourceSlice(other) = other else { continue };
            let theirs = |address| other.endpoints.iter().any(|endpoint| endpoint.address == address);
            let taken = new.endpoints.iter().map(|endpoint| endpoint.address).find(|address| theirs(*address));
            let is_anothers = other.cluster != new.cluster && !self.is_ownerless(&other.cluster, at);
            if let Some(address) = taken.filter(|_| is_anothers) {
                let (key, cluster) = (&new.key, &new.cluster);
                let text = format!("{cluster} offers {address} for {key}, which {} offers for", other.cluster);
                return Some(format!("{text} {}", other.key));
            }
        }
        None
    }
}

impl Invariant for NoOverlap {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F5 F8: submariner#4122 (B30), submariner-operator#299 (B34)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        self.trouble.watch(fact);
        self.mirror.watch(fact);
        let (What::Wrote { change, object, .. }, Place::Api(ApiRef::Broker)) = (&fact.what, &fact.place) else {
            return None;
        };
        if *change == Change::Deleted {
            return None;
        }
        let text = if let Object::Cluster(record) = object {
            self.range_taken(record, fact.at)?
        } else if let Object::SourceSlice(slice) = object {
            self.address_taken(slice, fact.at)?
        } else if let Object::Claims(claims) = object {
            self.claimed_twice(claims, fact.at)?
        } else {
            return None;
        };
        Some(Violation { invariant: NAME, at: fact.at, text })
    }

    fn excuse(&mut self, _: Duration) -> Option<String> {
        None
    }

    fn end(&mut self, _: Duration) -> Vec<Violation> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{act, broken, claims, cluster, cluster_record, fact, scenario, secs, web_slice, wrote};
    use crate::{ApiFault, Verb};

    fn watch(facts: &[Fact]) -> Vec<String> {
        broken(&mut NoOverlap::of(&scenario(vec![], vec![])), facts, secs(60))
    }

    fn shown(by: &str, object: Object) -> Fact {
        fact(secs(1), "broker api", wrote(&format!("{by}/gw-a gateway"), Change::Created, object))
    }

    #[test]
    fn clusters_with_ranges_of_their_own_are_fine_and_so_is_one_that_announces_again() {
        let west = || shown("west", cluster_record("west", "10.1.0.0/16", "10.101.0.0/16"));
        let east = shown("east", cluster_record("east", "10.2.0.0/16", "10.102.0.0/16"));
        assert_eq!(watch(&[west(), east, west()]), [""; 0]);
    }

    #[test]
    fn a_cluster_that_takes_anothers_range_is_caught_whichever_of_its_ranges_it_is() {
        let west = shown("west", cluster_record("west", "10.1.0.0/16", "10.101.0.0/16"));
        for (pods, services) in [("10.1.128.0/17", "10.102.0.0/16"), ("10.2.0.0/16", "10.0.0.0/9")] {
            let seen = watch(&[west.clone(), shown("east", cluster_record("east", pods, services))]);
            assert_eq!(seen.len(), 1, "{seen:?}");
        }
        let seen = watch(&[west, shown("east", cluster_record("east", "10.1.128.0/17", "10.102.0.0/16"))]);
        assert_eq!(seen, ["the broker shows 10.1.128.0/17 of east beside 10.1.0.0/16 of west"]);
    }

    #[test]
    fn a_range_whose_owner_has_left_is_free() {
        let record = || cluster_record("west", "10.1.0.0/16", "10.101.0.0/16");
        let gone = fact(secs(2), "broker api", wrote("west/gw-a gateway", Change::Deleted, record()));
        let next = fact(
            secs(3),
            "broker api",
            wrote("east/gw-a gateway", Change::Created, cluster_record("east", "10.1.0.0/16", "10.102.0.0/16")),
        );
        assert_eq!(watch(&[shown("west", record()), gone, next]), [""; 0]);
    }

    #[test]
    fn what_a_backup_shows_of_a_cluster_that_has_left_holds_no_range() {
        let record = |of: &str| cluster_record(of, "10.1.0.0/16", "10.101.0.0/16");
        let by = |at, of: &str, change| {
            fact(secs(at), "broker api", wrote(&format!("{of}/gw-a gateway"), change, record(of)))
        };
        let facts = [
            by(1, "west", Change::Created),
            by(11, "west", Change::Deleted),
            // It is there again.
            by(21, "east", Change::Created),
        ];
        let broker = |at, fault| act(at, Verb::Api(ApiRef::Broker, fault));
        let (backup, restore) = (broker(5, ApiFault::BackedUp), broker(20, ApiFault::Restored));
        let left = act(10, Verb::Leave(cluster("west")));
        let seen = |timeline| broken(&mut NoOverlap::of(&scenario(timeline, vec![])), &facts, secs(60)).len();
        assert_eq!(seen(vec![backup.clone(), left, restore.clone()]), 0);
        assert_eq!(seen(vec![backup, restore]), 1, "nobody told it to leave");
    }

    #[test]
    fn claims_that_meet_are_caught() {
        assert_eq!(watch(&[shown("west", claims(&[("west", "10.1.0.0/16"), ("east", "10.2.0.0/16")]))]), [""; 0]);
        assert_eq!(
            watch(&[shown("west", claims(&[("west", "10.1.0.0/16"), ("east", "10.1.4.0/24")]))]),
            ["the broker holds claims that meet: 10.1.4.0/24 for pods of east meets 10.1.0.0/16 for pods of west"]
        );
    }

    #[test]
    fn an_address_that_two_clusters_offer_is_caught() {
        let Object::SourceSlice(slice) = web_slice() else { unreachable!() };
        let other = Object::from(SourceSlice { cluster: cluster("north"), ..SourceSlice::clone(&slice) });
        assert_eq!(
            watch(&[shown("east", web_slice()), shown("north", other)]),
            ["north offers 10.102.0.10 for shop/web, which east offers for shop/web"]
        );
    }
}
