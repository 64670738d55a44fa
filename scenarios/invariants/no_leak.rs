//! **No leak between strangers.** A member announces only its own ranges, names and services, and nothing else is believed:
//! at the broker a daemon writes only what is its own cluster's and changes nobody else's claim, no cluster imports an address that is not one of the
//! cluster that is said to have it, and no node has a route to a range that is nobody's.

use super::{Invariant, Violation};
use crate::mirror::Mirror;
use crate::steps::{RouteDoes, route_step};
use crate::{ApiRef, Fact, Place, Scenario, What};
use core::time::Duration;
use std::collections::BTreeMap;
use tombolo_core::base::{Cidr, ClusterId};
use tombolo_core::model::{Claim, Claims, Object, SourceSlice};

const NAME: &str = "No leak between strangers";

/// See the module.
pub(super) struct NoLeak {
    /// All that each cluster ever has.
    ranges: BTreeMap<ClusterId, Vec<Cidr>>,
    /// All that each cluster ever claimed; it may be given back when the broker has lost it.
    claims: BTreeMap<ClusterId, Vec<Claim>>,
    /// What it made of its claim last: none, if it left. Another one that stands is out of a backup, and void.
    last: BTreeMap<ClusterId, Option<Claim>>,
    mirror: Mirror,
}

impl NoLeak {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self {
            ranges: scenario.all_ranges(),
            claims: BTreeMap::new(),
            last: BTreeMap::new(),
            mirror: Mirror::of(scenario),
        }
    }

    /// An endpoint that is not in its cluster.
    fn strange(&self, slice: &SourceSlice) -> Option<String> {
        let ranges = self.ranges.get(&slice.cluster)?;
        let inside = |address| ranges.iter().any(|range| range.contains(address));
        let endpoint = slice.endpoints.iter().find(|endpoint| !inside(endpoint.address))?;
        Some(format!("{} of {}, which {} does not have", endpoint.address, slice.key, slice.cluster))
    }

    fn wrote(&self, by: &Place, api: &ApiRef, object: &Object) -> Option<String> {
        let Place::Daemon(author, ..) = by else { return None };
        match api {
            ApiRef::Broker => {
                let owner = object.cluster().filter(|owner| *owner != author)?;
                Some(format!("{by} wrote {} at the broker, which is {owner}'s", object.key()))
            }
            ApiRef::Cluster(_) => {
                let Object::SourceSlice(slice) = object else { return None };
                self.strange(slice).map(|strange| format!("{by} imported {strange}"))
            }
        }
    }

    /// A claim of another cluster's that this write changes, or takes away. Who writes what was not there gives back what he
    /// knows, which may not be all; and what was claimed no later than in the epoch in which its cluster left is void.
    fn changes_claims(&mut self, by: &Place, before: Option<&Object>, now: &Claims) -> Option<String> {
        let Place::Daemon(author, ..) = by else { return None };
        let none = BTreeMap::new();
        let before = if let Some(Object::Claims(before)) = before { &before.members } else { &none };
        let made = |id: &ClusterId, claim: &Claim| self.claims.get(id).is_some_and(|all| all.contains(claim));
        let is_void = |id: &ClusterId, stood: &Claim| {
            now.is_of_before_it_left(id, stood.epoch)
                || self.last.get(id).is_some_and(|last| last.as_ref() != Some(stood))
        };
        let stands = |id: &ClusterId| before.get(id).filter(|stood| !is_void(id, stood)).cloned();
        let kept = |id: &ClusterId, claim: &Claim| stands(id).map_or_else(|| made(id, claim), |stood| stood == *claim);
        let others = now.members.iter().filter(|(id, claim)| *id != author && !kept(id, claim));
        let lost = |id: &&ClusterId| *id != author && stands(id).is_some() && !now.members.contains_key(*id);
        let changed = others.map(|(id, _)| id).chain(before.keys().filter(lost)).next().cloned();
        self.last.insert(author.clone(), now.members.get(author).cloned());
        for (id, claim) in &now.members {
            let all = self.claims.entry(id.clone()).or_default();
            if !all.contains(claim) {
                all.push(claim.clone());
            }
        }
        changed.map(|other| format!("{by} changed the claim of {other}"))
    }

    /// A route for IPv4 that leads out of all clusters. (Overlay and probe addresses are IPv6.)
    fn leads_astray(&self, steps: &[String]) -> Option<Cidr> {
        let leads = steps.iter().filter_map(|step| route_step(step)).filter(|step| step.does == RouteDoes::Leads);
        let known = |to: &Cidr| !to.is_ipv4() || self.ranges.values().flatten().any(|range| range.covers(to));
        leads.map(|step| step.to).find(|to| !known(to))
    }
}

impl Invariant for NoLeak {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F8 FX: submariner-operator#299 (B34), lighthouse#957 (B40)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        let before = self.mirror.watch(fact);
        let text = match (&fact.what, &fact.place) {
            (What::Wrote { by, object: Object::Claims(claims), .. }, Place::Api(ApiRef::Broker)) => {
                self.changes_claims(by, before.as_ref(), claims)?
            }
            (What::Wrote { by, object, .. }, Place::Api(api)) => self.wrote(by, api, object)?,
            (What::Applied { steps, .. }, Place::Node(cluster, node)) => {
                let to = self.leads_astray(steps)?;
                format!("{cluster}/{node} has a route to {to}, which is no cluster's")
            }
            _ => return None,
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
    use crate::rehearsal::{
        act, applied, broken, claims, cluster, endpoint, fact, scenario, secs, web_record, web_slice, wrote,
    };
    use crate::{ApiFault, Change, Verb};
    use tombolo_core::base::Epoch;
    use tombolo_core::model::SourceEndpoint;

    fn watch(facts: &[Fact]) -> Vec<String> {
        broken(&mut NoLeak::of(&scenario(vec![], vec![])), facts, secs(60))
    }

    fn writes(api: &str, by: &str, object: Object) -> Fact {
        fact(secs(1), api, wrote(by, Change::Created, object))
    }

    #[test]
    fn members_that_keep_to_their_own_break_nothing() {
        let facts = [
            writes("broker api", "east/worker discovery", web_record()),
            writes("broker api", "west/gw-a gateway", endpoint("west", "gw-a", 5)),
            // A copy of another cluster's record in the own API.
            writes("east api", "east/gw-a gateway", endpoint("west", "gw-a", 5)),
            writes("west api", "west/worker discovery", web_slice()),
            fact(secs(2), "west/worker", applied(&["+ route 10.2.0.0/16 via inet6 fd74::4 dev vx-tombolo table 7403"])),
        ];
        assert_eq!(watch(&facts), [""; 0]);
    }

    #[test]
    fn a_member_that_writes_anothers_record_is_caught() {
        assert_eq!(
            watch(&[writes("broker api", "west/worker discovery", web_record())]),
            ["west/worker discovery wrote ExportRecord east.web.shop at the broker, which is east's"]
        );
    }

    #[test]
    fn a_member_claims_for_itself_and_gives_back_what_a_broker_lost() {
        let (west, east) = (("west", "10.1.0.0/16"), ("east", "10.2.0.0/16"));
        let by = |at, by: &str, change, members: &[(&str, &str)]| {
            fact(secs(at), "broker api", wrote(by, change, claims(members)))
        };
        let facts = [
            by(1, "west/gw-a gateway", Change::Created, &[west]),
            by(2, "east/gw-a gateway", Change::Replaced, &[west, east]),
            // The broker lost all.
            by(4, "east/gw-a gateway", Change::Created, &[west, east]),
            by(5, "west/gw-a gateway", Change::Replaced, &[east]),
            // It lost all again, and who writes first knows of nobody.
            by(7, "west/gw-a gateway", Change::Created, &[west]),
            by(8, "north/gw-a gateway", Change::Replaced, &[west, ("north", "10.3.0.0/16")]),
        ];
        let timeline = [3, 6].map(|at| act(at, Verb::Api(ApiRef::Broker, ApiFault::RestartedEmpty))).to_vec();
        assert_eq!(broken(&mut NoLeak::of(&scenario(timeline, vec![])), &facts, secs(60)), [""; 0]);
    }

    #[test]
    fn a_claim_of_no_later_than_its_cluster_left_may_go_and_a_later_one_may_not() {
        let claim = |epoch| {
            let Object::Claims(all) = claims(&[("east", "10.2.0.0/16")]) else { panic!("no claims") };
            let mut all = Claims::clone(&all);
            all.members.values_mut().for_each(|claim| claim.epoch = Epoch(epoch));
            Object::from(all)
        };
        let noted = Object::from(Claims { left: [(cluster("east"), Epoch(5))].into(), ..Claims::default() });
        let seen = |epoch| {
            let by = |at, by, object| fact(secs(at), "broker api", wrote(by, Change::Replaced, object));
            watch(&[by(1, "east/gw-a gateway", claim(epoch)), by(2, "west/gw-a gateway", noted.clone())])
        };
        assert_eq!(seen(5), [""; 0]);
        assert_eq!(seen(6), ["west/gw-a gateway changed the claim of east"]);
    }

    #[test]
    fn a_member_that_changes_the_claim_of_another_is_caught() {
        let claimed = fact(
            secs(1),
            "broker api",
            wrote("east/gw-a gateway", Change::Created, claims(&[("east", "10.2.0.0/16")])),
        );
        let own = ("west", "10.1.0.0/16");
        for members in
            [&[own][..], &[own, ("east", "10.9.0.0/16")], &[("east", "10.2.0.0/16"), ("north", "10.3.0.0/16")]]
        {
            let changed = fact(secs(2), "broker api", wrote("west/gw-a gateway", Change::Replaced, claims(members)));
            let seen = watch(&[claimed.clone(), changed]);
            let whose = members.last().filter(|(id, _)| *id == "north").map_or("east", |(id, _)| *id);
            assert_eq!(seen, [format!("west/gw-a gateway changed the claim of {whose}")]);
        }
    }

    #[test]
    fn a_claim_that_a_backup_brought_back_may_give_way_and_one_that_stands_may_not() {
        let broker = |at, fault| act(at, Verb::Api(ApiRef::Broker, fault));
        let timeline = vec![broker(5, ApiFault::BackedUp), broker(20, ApiFault::Restored)];
        let (west, east, north) = (("west", "10.1.0.0/16"), ("east", "10.2.0.0/16"), ("north", "10.3.0.0/16"));
        let by = |at, by: &str, members: &[(&str, &str)]| {
            fact(secs(at), "broker api", wrote(by, Change::Replaced, claims(members)))
        };
        let facts = |last: &[(&str, &str)]| {
            [
                by(1, "west/gw-a gateway", &[west]),
                by(2, "east/gw-a gateway", &[west, east]),
                by(3, "north/gw-a gateway", &[west, east, north]),
                by(10, "north/gw-a gateway", &[west, east]),
                // All three are there again, though north has left.
                by(21, "west/gw-a gateway", last),
            ]
        };
        let watch = |last: &[(&str, &str)]| {
            broken(&mut NoLeak::of(&scenario(timeline.clone(), vec![])), &facts(last), secs(60))
        };
        assert_eq!(watch(&[west, east]), [""; 0]);
        assert_eq!(watch(&[west, east, north]), [""; 0]);
        assert_eq!(watch(&[west]), ["west/gw-a gateway changed the claim of east"]);
    }

    #[test]
    fn an_import_of_an_address_that_the_exporter_does_not_have_is_caught() {
        let Object::SourceSlice(slice) = web_slice() else { unreachable!() };
        let stolen = SourceEndpoint { address: "10.101.0.1".parse().unwrap(), hostname: None, ready: true };
        let slice = SourceSlice { cluster: cluster("east"), endpoints: [stolen].into(), ..SourceSlice::clone(&slice) };
        assert_eq!(
            watch(&[writes("west api", "west/worker discovery", Object::from(slice))]),
            ["west/worker discovery imported 10.101.0.1 of shop/web, which east does not have"]
        );
    }

    #[test]
    fn a_route_to_nobodys_range_is_caught() {
        for range in ["8.8.8.0/24", "0.0.0.0/0", "10.0.0.0/8"] {
            let step = format!("+ route {range} via inet6 fd74::4 dev vx-tombolo table 7403");
            let expected = format!("west/worker has a route to {range}, which is no cluster's");
            assert_eq!(watch(&[fact(secs(2), "west/worker", applied(&[&step]))]), [expected]);
        }
    }
}
