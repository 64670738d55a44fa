//! **Cut is not dead.** While an API or the broker is slow, faulty, down or cut off, nothing is withdrawn: no import is
//! deleted or loses an exporter that still exports, no DNS server forgets a name, and no node loses its route to a remote
//! cluster. Only evidence on the data path hides an address.
//!
//! Imports and names are watched whatever else is broken, since nothing but an end of the export takes them away. Routes
//! are watched only while nothing but APIs is in trouble: a node or a path that fails moves them for good reason.

use super::{Invariant, Violation, end_may_come_late};
use crate::bounds::CONVERGED_WITHIN;
use crate::exports::Exports;
use crate::membership::Membership;
use crate::mirror::Mirror;
use crate::steps::{RouteDoes, RouteStep, route_step};
use crate::trouble::Trouble;
use crate::wording::{self, brief};
use crate::{Change, Fact, Place, Scenario, What};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use tombolo_core::base::{Cidr, ClusterId, NodeName};
use tombolo_core::model::{Object, ServiceKey};

const NAME: &str = "Cut is not dead";

/// See the module.
pub(super) struct CutIsNotDead {
    trouble: Trouble,
    exports: Exports,
    membership: Membership,
    /// All that is ever exported.
    services: BTreeSet<(ClusterId, ServiceKey)>,
    mirror: Mirror,
    /// Pod and service ranges.
    ranges: BTreeMap<ClusterId, Vec<Cidr>>,
    /// Names that the DNS server of a node knew, since it has all views.
    names: BTreeMap<(ClusterId, NodeName), usize>,
    /// Destination and table of each route that leads there, in the kernel of a node.
    routes: BTreeMap<(ClusterId, NodeName), BTreeSet<(Cidr, String)>>,
}

impl CutIsNotDead {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self {
            trouble: Trouble::of(scenario),
            exports: Exports::of(scenario),
            membership: Membership::of(scenario),
            services: scenario.workloads.iter().map(|w| (w.cluster.clone(), w.service.clone())).collect(),
            mirror: Mirror::of(scenario),
            ranges: scenario.all_ranges(),
            names: BTreeMap::new(),
            routes: BTreeMap::new(),
        }
    }
}

impl Invariant for CutIsNotDead {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F3 F9: submariner#2747 (B01), cilium#23823 (B51), karmada#3546 (B45)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        self.trouble.watch(fact);
        let before = self.mirror.watch(fact);
        let names_before = self.note_names(fact);
        let withdrawn = self.note_routes(fact);
        let within = CONVERGED_WITHIN;
        if self.is_of_one_that_left(fact) {
            return None;
        }
        if !self.trouble.apis_lately(fact.at, within) || self.trouble.emptied_lately(fact.at, within) {
            return None;
        }
        let text = match (&fact.what, &fact.place) {
            (What::Wrote { change, object, .. }, _) => self.import_withdrawn(*change, before.as_ref(), object, fact.at),
            (What::Table { names, .. }, _) => self.names_forgotten(names_before?, *names, fact.at),
            (What::Applied { .. }, _) if !self.trouble.beyond_apis_lately(fact.at, within) => withdrawn,
            _ => None,
        };
        let text = format!("{}: {}, while an API was in trouble", fact.place, text?);
        Some(Violation { invariant: NAME, at: fact.at, text })
    }

    fn excuse(&mut self, at: Duration) -> Option<String> {
        self.trouble.advance(at);
        let within = CONVERGED_WITHIN;
        if !self.trouble.apis_lately(at, within) {
            return None;
        }
        if self.trouble.emptied_lately(at, within) {
            return Some(wording::emptied(within));
        }
        if !self.trouble.beyond_apis_lately(at, within) {
            return None;
        }
        let beyond = self.trouble.says_beyond_apis().map(|beyond| format!("of routes: {beyond}"));
        beyond.or_else(|| Some(format!("of routes: more than an API was broken less than {} ago", brief(within))))
    }

    fn end(&mut self, _: Duration) -> Vec<Violation> {
        Vec::new()
    }
}

impl CutIsNotDead {
    /// How many names the DNS server knew before this fact, if it was complete.
    fn note_names(&mut self, fact: &Fact) -> Option<usize> {
        match (&fact.what, &fact.place) {
            (What::Table { names, synced }, Place::Daemon(cluster, node, _)) => {
                let at = (cluster.clone(), node.clone());
                if *synced { self.names.insert(at, *names) } else { self.names.get(&at).copied() }
            }
            (What::Process(_), Place::Daemon(cluster, node, crate::Daemon::Dns))
            | (What::Power(_), Place::Node(cluster, node)) => {
                self.names.remove(&(cluster.clone(), node.clone()));
                None
            }
            _ => None,
        }
    }

    /// Which way to a remote cluster this fact took away, in words, if it took one.
    fn note_routes(&mut self, fact: &Fact) -> Option<String> {
        let Place::Node(own, node) = &fact.place else { return None };
        let at = (own.clone(), node.clone());
        let What::Applied { steps, .. } = &fact.what else {
            if let What::Power(_) = fact.what {
                self.routes.remove(&at);
            }
            return None;
        };
        let steps = steps.iter().filter_map(|step| route_step(step)).collect::<Vec<_>>();
        let kept =
            steps.iter().filter(|step| step.does == RouteDoes::Leads).map(RouteStep::id).collect::<BTreeSet<_>>();
        let mut known = self.routes.remove(&at).unwrap_or_default();
        let mut withdrawn = None;
        for step in &steps {
            let id = (step.to, step.table.to_owned());
            let lost = match step.does {
                RouteDoes::Leads => false,
                RouteDoes::Withdraws => {
                    known.remove(&id);
                    true
                }
                RouteDoes::Blocks => known.remove(&id),
            };
            if lost && withdrawn.is_none() && !kept.contains(&step.id()) && self.remote(own, step.to, fact.at) {
                withdrawn = Some(format!("the route to {} in table {} was withdrawn", step.to, step.table));
            }
        }
        known.extend(kept.into_iter().map(|(to, table)| (to, table.to_owned())));
        self.routes.insert(at, known);
        withdrawn
    }

    fn import_withdrawn(&self, change: Change, before: Option<&Object>, now: &Object, at: Duration) -> Option<String> {
        let Object::Import(now) = now else { return None };
        match change {
            Change::Created => None,
            Change::Deleted => {
                let exporter = self.exports.exporters(&now.key).find(|c| self.firmly(c, &now.key, at))?;
                Some(format!("the import of {} was deleted, though {exporter} exports it", now.key))
            }
            Change::Replaced => {
                let Some(Object::Import(before)) = before else { return None };
                let mut lost = before.sources.keys().filter(|c| !now.sources.contains_key(*c));
                let exporter = lost.find(|c| self.firmly(c, &now.key, at))?;
                Some(format!("the import of {} lost {exporter}, which exports it", now.key))
            }
        }
    }

    /// Whether it is exported, and nothing is on its way that may take it away for a moment.
    fn firmly(&self, cluster: &ClusterId, key: &ServiceKey, at: Duration) -> bool {
        self.exports.firmly(cluster, key, at) && !end_may_come_late(&self.exports, &self.trouble, (cluster, key), at)
    }

    fn names_forgotten(&self, before: usize, now: usize, at: Duration) -> Option<String> {
        // An export that ended takes its name along, whenever the news gets through, also if it has begun anew since.
        let late = |(cluster, key): &&(ClusterId, ServiceKey)| {
            self.exports.firmly(cluster, key, at) && !self.firmly(cluster, key, at)
        };
        let late = self.services.iter().filter(late).count();
        (now + self.exports.gone_or_renewed(at) + late < before)
            .then(|| format!("the DNS table shrank from {before} names to {now}"))
    }

    /// Whether it leads to another cluster, and to none that has left: its range may have been handed on to one that has not.
    fn remote(&self, own: &ClusterId, to: Cidr, at: Duration) -> bool {
        let has_it = |ranges: &Vec<Cidr>| ranges.iter().any(|range| range.covers(&to));
        let mut theirs = self
            .ranges
            .iter()
            .filter(|(cluster, ranges)| *cluster != own && has_it(ranges))
            .map(|(id, _)| id)
            .peekable();
        theirs.peek().is_some() && !theirs.any(|cluster| self.membership.was_leaving(cluster, at, &self.trouble))
    }

    /// A cluster that leaves withdraws all it has.
    fn is_of_one_that_left(&self, fact: &Fact) -> bool {
        let left = |cluster: &ClusterId| self.membership.was_leaving(cluster, fact.at, &self.trouble);
        match (&fact.what, &fact.place) {
            (What::Wrote { by: Place::Daemon(cluster, ..), .. }, _) => left(cluster),
            (_, Place::Node(cluster, _) | Place::Daemon(cluster, ..)) => left(cluster),
            (_, Place::World | Place::Api(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{act, applied, broken, cluster, fact, scenario, secs, web, web_import, wrote};
    use crate::{Act, ApiFault, ApiRef, Side, Verb};

    const DISCOVERY: &str = "west/worker discovery";
    const ROUTE: &str = "route 10.2.0.0/16 via inet6 fd74::4 dev vx-tombolo table 7403";

    fn watch(timeline: Vec<Act>, facts: &[Fact]) -> Vec<String> {
        broken(&mut CutIsNotDead::of(&scenario(timeline, vec![])), facts, secs(60))
    }

    fn broker_down() -> Vec<Act> {
        vec![act(20, Verb::Api(ApiRef::Broker, ApiFault::Down)), act(40, Verb::Api(ApiRef::Broker, ApiFault::Healthy))]
    }

    fn before() -> Vec<Fact> {
        vec![
            fact(secs(1), "west api", wrote(DISCOVERY, Change::Created, web_import(&["east"]))),
            fact(secs(2), "west/worker dns", What::Table { names: 1, synced: true }),
            fact(secs(3), "west/worker", applied(&[&format!("+ {ROUTE}  because east is reached through west/gw-a")])),
        ]
    }

    #[test]
    fn moving_a_route_or_changing_an_import_withdraws_nothing() {
        let mut facts = before();
        facts.push(fact(secs(30), "west/worker", applied(&[&format!("- {ROUTE}"), &format!("+ {ROUTE}")])));
        facts.push(fact(secs(31), "west/worker", applied(&[&format!("~ {ROUTE}")])));
        facts.push(fact(secs(32), "west api", wrote(DISCOVERY, Change::Replaced, web_import(&["east", "north"]))));
        facts.push(fact(secs(33), "west/worker dns", What::Table { names: 2, synced: true }));
        // A route of its own cluster is not a route to a remote one.
        facts.push(fact(secs(34), "west/worker", applied(&["- route 10.1.3.0/24 dev vx-tombolo table 7402"])));
        assert_eq!(watch(broker_down(), &facts), [""; 0]);
    }

    #[test]
    fn an_import_deleted_while_the_broker_is_down_is_caught() {
        let mut facts = before();
        facts.push(fact(secs(30), "west api", wrote(DISCOVERY, Change::Deleted, web_import(&["east"]))));
        assert_eq!(
            watch(broker_down(), &facts),
            ["west api: the import of shop/web was deleted, though east exports it, while an API was in trouble"]
        );
    }

    #[test]
    fn an_import_that_loses_an_exporter_when_the_broker_is_back_is_caught() {
        let mut facts = before();
        facts.push(fact(secs(41), "west api", wrote(DISCOVERY, Change::Replaced, web_import(&[]))));
        assert_eq!(
            watch(broker_down(), &facts),
            ["west api: the import of shop/web lost east, which exports it, while an API was in trouble"]
        );
    }

    #[test]
    fn a_name_that_the_dns_forgets_while_its_api_is_cut_off_is_caught() {
        let sides = || (Side::Cluster(cluster("west")), Side::Api(ApiRef::Cluster(cluster("west"))));
        let cut = act(20, Verb::Cut { from: sides().0, to: sides().1, one_way: true });
        let mut facts = before();
        facts.push(fact(secs(30), "west/worker dns", What::Table { names: 0, synced: false }));
        assert_eq!(
            watch(vec![cut], &facts),
            ["west/worker dns: the DNS table shrank from 1 names to 0, while an API was in trouble"]
        );
    }

    #[test]
    fn a_dns_server_that_starts_has_forgotten_nothing() {
        let mut facts = before();
        facts.push(fact(secs(29), "west/worker dns", What::Process(false)));
        facts.push(fact(secs(30), "west/worker dns", What::Process(true)));
        facts.push(fact(secs(30), "west/worker dns", What::Table { names: 0, synced: false }));
        assert_eq!(watch(broker_down(), &facts), [""; 0]);
    }

    #[test]
    fn a_range_that_was_handed_on_goes_with_the_one_who_left() {
        let mut scenario = scenario([broker_down(), vec![act(21, Verb::Leave(cluster("east")))]].concat(), vec![]);
        let heir = scenario.clusters[&cluster("east")].clone();
        scenario.clusters.insert(cluster("north"), heir);
        let mut facts = before();
        facts.push(fact(secs(41), "west/worker", applied(&[&format!("- {ROUTE}")])));
        assert_eq!(broken(&mut CutIsNotDead::of(&scenario), &facts, secs(60)), [""; 0]);
        scenario.timeline.pop();
        assert_eq!(broken(&mut CutIsNotDead::of(&scenario), &facts, secs(60)).len(), 1);
    }

    #[test]
    fn a_route_withdrawn_while_the_api_is_slow_is_caught() {
        let slow = act(20, Verb::Api(ApiRef::Cluster(cluster("west")), ApiFault::Slow(secs(6))));
        let mut facts = before();
        facts.push(fact(secs(30), "west/worker", applied(&[&format!("- {ROUTE}"), "+ rule 7430 lookup 7403"])));
        assert_eq!(
            watch(vec![slow.clone()], &facts),
            ["west/worker: the route to 10.2.0.0/16 in table 7403 was withdrawn, while an API was in trouble"]
        );
        for sign in ["~", "+"] {
            let mut facts = before();
            let step = format!("{sign} blackhole 10.2.0.0/16 table 7403");
            facts.push(fact(secs(30), "west/worker", applied(&[&step])));
            assert_eq!(watch(vec![slow.clone()], &facts).len(), 1, "{step}");
        }
    }

    #[test]
    fn a_kernel_that_has_just_booted_had_no_route_that_a_blackhole_could_withdraw() {
        let down = act(20, Verb::Api(ApiRef::Cluster(cluster("west")), ApiFault::Down));
        let blackhole = || applied(&["+ blackhole 10.2.0.0/16 table 7403"]);
        let mut facts = before();
        facts.push(fact(secs(20), "west/worker", What::Power(false)));
        facts.push(fact(secs(21), "west/worker", What::Power(true)));
        facts.push(fact(secs(32), "west/worker", blackhole()));
        // Of another node nothing is known either.
        facts.push(fact(secs(32), "west/gw-b", blackhole()));
        assert_eq!(watch(vec![down], &facts), [""; 0]);
    }

    #[test]
    fn routes_may_move_where_more_than_an_api_failed() {
        let mut facts = before();
        facts.push(fact(secs(25), "west/gw-a", What::Power(false)));
        facts.push(fact(secs(26), "west/worker", applied(&[&format!("- {ROUTE}")])));
        assert_eq!(watch(broker_down(), &facts), [""; 0]);
        let mut invariant = CutIsNotDead::of(&scenario(broker_down(), vec![]));
        let excuses = crate::rehearsal::excused(&mut invariant, &facts, secs(60));
        assert_eq!(excuses, ["25.000s..50.000s: of routes: west/gw-a is off"]);
    }

    #[test]
    fn an_export_that_ends_meanwhile_takes_import_and_name_along() {
        let mut timeline = broker_down();
        timeline.insert(1, act(30, Verb::Unexport(cluster("east"), web())));
        let mut facts = before();
        facts.push(fact(secs(41), "west api", wrote(DISCOVERY, Change::Deleted, web_import(&["east"]))));
        facts.push(fact(secs(41), "west/worker dns", What::Table { names: 0, synced: true }));
        assert_eq!(watch(timeline, &facts), [""; 0]);
    }

    #[test]
    fn an_export_that_ends_and_begins_anew_takes_its_name_along_until_its_end_must_have_come_through() {
        let mut timeline = broker_down();
        timeline.insert(1, act(30, Verb::Unexport(cluster("east"), web())));
        timeline.insert(2, act(31, Verb::Export(cluster("east"), web())));
        let after = |at: u64| {
            let mut facts = before();
            facts.push(fact(secs(at), "west api", wrote(DISCOVERY, Change::Deleted, web_import(&["east"]))));
            facts.push(fact(secs(at), "west/worker dns", What::Table { names: 0, synced: true }));
            watch(timeline.clone(), &facts)
        };
        // While the broker is down, and until 10 s after.
        assert_eq!([after(32), after(42), after(49)], [[""; 0]; 3]);
        timeline.push(act(52, Verb::Api(ApiRef::Broker, ApiFault::Down)));
        let mut facts = before();
        facts.push(fact(secs(53), "west api", wrote(DISCOVERY, Change::Deleted, web_import(&["east"]))));
        facts.push(fact(secs(53), "west/worker dns", What::Table { names: 0, synced: true }));
        assert_eq!(
            watch(timeline, &facts),
            [
                "west api: the import of shop/web was deleted, though east exports it, while an API was in trouble",
                "west/worker dns: the DNS table shrank from 1 names to 0, while an API was in trouble",
            ]
        );
    }
}
