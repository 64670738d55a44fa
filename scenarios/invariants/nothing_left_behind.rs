//! **Nothing left behind.** When a cluster has left, no API shows anything that its daemons wrote, no claim of its stands, and
//! no node of it has a link, route or rule of ours. And at no time does a daemon take away what is not ours: nodes,
//! namespaces, services, their endpoints, and what users export.

use super::{Invariant, Violation};
use crate::bounds::GONE_WITHIN;
use crate::membership::Membership;
use crate::mirror::Mirror;
use crate::trouble::Trouble;
use crate::wording::seconds;
use crate::{ApiRef, Change, Fact, Place, Scenario, What};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use tombolo_core::base::{ClusterId, NodeName};
use tombolo_core::model::Object;

const NAME: &str = "Nothing left behind";

/// See the module.
pub(super) struct NothingLeftBehind {
    trouble: Trouble,
    membership: Membership,
    mirror: Mirror,
    clusters: BTreeSet<ClusterId>,
    /// How many items of ours are in the kernel of each node that has power.
    items: BTreeMap<(ClusterId, NodeName), usize>,
    /// Which clusters were looked after, and when they were told to leave.
    looked_after: BTreeSet<(ClusterId, Duration)>,
    found: Vec<Violation>,
}

impl NothingLeftBehind {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self {
            trouble: Trouble::of(scenario),
            membership: Membership::of(scenario),
            mirror: Mirror::of(scenario),
            clusters: scenario.clusters.keys().cloned().collect(),
            items: BTreeMap::new(),
            looked_after: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    /// Once all faults have ended and the bound is over: what is left of each cluster that was told to leave?
    fn look_after(&mut self, now: Duration) {
        if self.trouble.calm_for(now) < GONE_WITHIN {
            return;
        }
        for cluster in &self.clusters {
            let Some(since) = self.membership.left_since(cluster, now) else { continue };
            if self.looked_after.insert((cluster.clone(), since)) {
                // Nobody is there who would take away what an old backup brought back.
                let restored = self.trouble.restored_since(cluster, since);
                let at_apis = if restored { Vec::new() } else { self.left_at_apis(cluster) };
                let left = at_apis.into_iter().chain(self.left_in_kernels(cluster));
                self.found.extend(left.map(|left| {
                    let text = format!("{left}, though {cluster} was told to leave at {}", seconds(since));
                    Violation { invariant: NAME, at: now, text }
                }));
            }
        }
    }

    fn left_at_apis(&self, cluster: &ClusterId) -> Vec<String> {
        self.mirror.all().filter_map(|(api, object)| left_at(api, object, cluster)).collect()
    }

    fn left_in_kernels(&self, cluster: &ClusterId) -> Vec<String> {
        let items = self.items.iter().filter(|((of, _), items)| of == cluster && **items > 0);
        items
            .map(|((_, node), items)| format!("{cluster}/{node} still has {items} items of ours in its kernel"))
            .collect()
    }

    fn note_kernel(&mut self, fact: &Fact) {
        let Place::Node(cluster, node) = &fact.place else { return };
        let at = (cluster.clone(), node.clone());
        if let What::Applied { items, .. } = &fact.what {
            self.items.insert(at, *items);
        } else if let What::Power(_) = fact.what {
            self.items.remove(&at);
        }
    }
}

impl Invariant for NothingLeftBehind {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F2 F8: submariner#1244 (B04), submariner-operator#299 (B34)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        self.trouble.advance(fact.at);
        self.look_after(fact.at);
        self.trouble.watch(fact);
        self.mirror.watch(fact);
        self.note_kernel(fact);
        let What::Wrote { by: by @ Place::Daemon(..), change: Change::Deleted, key, .. } = &fact.what else {
            return None;
        };
        let text = format!("{by} deleted {key}, which is not ours");
        key.kind.is_the_clusters_own().then_some(Violation { invariant: NAME, at: fact.at, text })
    }

    fn excuse(&mut self, at: Duration) -> Option<String> {
        self.trouble.advance(at);
        if !self.clusters.iter().any(|cluster| self.membership.has_left(cluster, at)) {
            return None;
        }
        self.trouble.says().or_else(|| self.trouble.says_lately(at, GONE_WITHIN))
    }

    fn end(&mut self, ended: Duration) -> Vec<Violation> {
        self.trouble.advance(ended);
        self.look_after(ended);
        core::mem::take(&mut self.found)
    }
}

/// What this object at an API is, if the daemons of `cluster` left it behind.
fn left_at(api: &ApiRef, object: &Object, cluster: &ClusterId) -> Option<String> {
    let is_here = *api == ApiRef::Cluster(cluster.clone());
    if let Object::ServiceExport(export) = object {
        let speaks = is_here && !export.conditions.is_empty();
        return speaks.then(|| format!("what it said about its export of {} still stands", export.key));
    }
    if let Object::Claims(claims) = object {
        return claims.members.contains_key(cluster).then(|| format!("its claim is still at the {api} api"));
    }
    let is_its = is_here || *api == ApiRef::Broker && object.cluster() == Some(cluster);
    let left = is_its && !object.kind().is_the_clusters_own();
    left.then(|| format!("{} is still at the {api} api", object.key()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{
        act, at, broken, claims, cluster, endpoint, exported, exported_told, fact, lease, scenario, secs, web_import,
        web_record, web_slice, wrote,
    };
    use crate::{Act, ApiFault, Verb};

    fn watch(timeline: Vec<Act>, facts: &[Fact]) -> Vec<String> {
        broken(&mut NothingLeftBehind::of(&scenario(timeline, vec![])), facts, secs(60))
    }

    fn leave(at: u64) -> Act {
        act(at, Verb::Leave(cluster("east")))
    }

    fn applied(at: u64, items: usize) -> Fact {
        fact(secs(at), "east/worker", What::Applied { steps: vec!["+ something".into()], items })
    }

    fn shown(at: u64, api: &str, object: Object) -> Fact {
        fact(secs(at), api, wrote("east/gw-a gateway", Change::Created, object))
    }

    fn gone(at: u64, api: &str, object: Object) -> Fact {
        fact(secs(at), api, wrote("east/gw-a gateway", Change::Deleted, object))
    }

    /// All that may be left behind, each with how that is told.
    fn all() -> Vec<(&'static str, Object, &'static str)> {
        vec![
            (
                "east api",
                endpoint("east", "gw-a", 5),
                "Endpoint east-submariner-cable-east-gw-a is still at the east api",
            ),
            (
                "east api",
                endpoint("west", "gw-a", 5),
                "Endpoint west-submariner-cable-west-gw-a is still at the east api",
            ),
            ("east api", lease("gw-a", 5, 1), "Lease tombolo-gateway is still at the east api"),
            ("east api", web_import(&["west"]), "Import shop/web is still at the east api"),
            ("east api", exported_told(), "what it said about its export of shop/web still stands"),
            (
                "broker api",
                endpoint("east", "gw-a", 5),
                "Endpoint east-submariner-cable-east-gw-a is still at the broker api",
            ),
            ("broker api", web_record(), "ExportRecord east.web.shop is still at the broker api"),
            ("broker api", web_slice(), "SourceSlice"),
            ("broker api", claims(&[("east", "10.2.0.0/16")]), "its claim is still at the broker api"),
        ]
    }

    #[test]
    fn a_cluster_that_takes_all_away_leaves_what_others_have() {
        let mut facts = vec![applied(2, 9), shown(3, "broker api", endpoint("west", "gw-a", 5))];
        facts.extend(all().into_iter().map(|(api, object, _)| shown(4, api, object)));
        facts.push(applied(21, 0));
        facts.extend(
            all()
                .into_iter()
                .filter(|(_, o, _)| !o.kind().is_the_clusters_own())
                .map(|(api, object, _)| gone(22, api, object)),
        );
        facts.push(shown(22, "broker api", claims(&[("west", "10.1.0.0/16")])));
        facts.push(shown(22, "east api", exported()));
        assert_eq!(watch(vec![leave(20)], &facts), [""; 0]);
    }

    #[test]
    fn whatever_is_left_is_caught() {
        for (api, object, told) in all() {
            let seen = watch(vec![leave(20)], &[shown(4, api, object.clone())]);
            assert_eq!(seen.len(), 1, "{object:?}: {seen:?}");
            assert!(
                seen[0].starts_with(told) && seen[0].ends_with("though east was told to leave at 20.000s"),
                "{seen:?}"
            );
            assert_eq!(watch(vec![], &[shown(4, api, object)]), [""; 0], "it has not left");
        }
    }

    #[test]
    fn what_is_left_in_a_kernel_is_caught_unless_the_node_lost_power() {
        assert_eq!(
            watch(vec![leave(20)], &[applied(2, 9), applied(21, 1)]),
            ["east/worker still has 1 items of ours in its kernel, though east was told to leave at 20.000s"]
        );
        let off = fact(secs(22), "east/worker", What::Power(false));
        let on = fact(secs(23), "east/worker", What::Power(true));
        assert_eq!(watch(vec![leave(20)], &[applied(2, 9), off, on]), [""; 0]);
    }

    #[test]
    fn a_cluster_that_cannot_reach_the_broker_or_joins_again_may_have_something_there() {
        let record = shown(4, "broker api", web_record());
        let down = act(10, Verb::Api(ApiRef::Broker, ApiFault::Down));
        assert_eq!(watch(vec![down.clone(), leave(20)], std::slice::from_ref(&record)), [""; 0]);
        let up = act(30, Verb::Api(ApiRef::Broker, ApiFault::Healthy));
        assert_eq!(watch(vec![down, leave(20), up], std::slice::from_ref(&record)).len(), 1);
        let again = act(35, Verb::Join(cluster("east")));
        assert_eq!(watch(vec![leave(20), again], &[record]), [""; 0]);
    }

    #[test]
    fn a_daemon_that_deletes_what_is_not_ours_is_caught() {
        let export = exported();
        assert_eq!(
            watch(vec![act(5, Verb::PowerOff(at("west/gw-a")))], &[gone(9, "east api", export)]),
            ["east/gw-a gateway deleted ServiceExport shop/web, which is not ours"]
        );
    }
}
