//! **No lost delete.** What is gone at its source is gone everywhere within the bound, also after any outage, with no
//! further event needed: the record of an export that ended, its imports and the answers that name it; and the Endpoint
//! of a gateway that no longer announces.

use super::{Invariant, Violation};
use crate::addresses::AddressBook;
use crate::bounds::{CALM_AFTER, GONE_WITHIN};
use crate::exports::Exports;
use crate::membership::Membership;
use crate::mirror::Mirror;
use crate::probing::{Stream, stream_of_probe, streams};
use crate::trouble::Trouble;
use crate::wording::{named_by, seconds};
use crate::{ApiRef, Fact, Outcome, Scenario, What, Workload};
use core::time::Duration;
use std::collections::BTreeSet;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Kind, Object, ServiceKey};

const NAME: &str = "No lost delete";

/// See the module.
pub(super) struct NoLostDelete {
    workloads: Vec<Workload>,
    streams: Vec<Stream>,
    trouble: Trouble,
    exports: Exports,
    membership: Membership,
    mirror: Mirror,
    addresses: AddressBook,
    /// Ends of exports that were looked after when their bound was over.
    looked_after: BTreeSet<(ClusterId, ServiceKey, Duration)>,
    found: Vec<Violation>,
}

impl NoLostDelete {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self {
            workloads: scenario.workloads.clone(),
            streams: streams(scenario),
            trouble: Trouble::of(scenario),
            exports: Exports::of(scenario),
            membership: Membership::of(scenario),
            mirror: Mirror::of(scenario),
            addresses: AddressBook::default(),
            looked_after: BTreeSet::new(),
            found: Vec::new(),
        }
    }
}

impl Invariant for NoLostDelete {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F2: submariner#1244 (B04), lighthouse#1416 (B37), cilium#24740 (B48), kube#1615 (B68)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        self.trouble.advance(fact.at);
        self.look_after(fact.at);
        self.trouble.watch(fact);
        self.mirror.watch(fact);
        self.addresses.watch(fact);
        let What::Probed { id, began, outcome: Outcome::Resolved { addresses, .. } } = &fact.what else { return None };
        let name = self.streams.get(stream_of_probe(*id))?.name()?;
        let (key, _) = named_by(name, &self.workloads)?;
        if self.trouble.calm_for(fact.at) < GONE_WITHIN + fact.at.saturating_sub(*began) {
            return None;
        }
        let ended = self.exports.ended(*began);
        let (cluster, _, since) = ended.iter().find(|(cluster, of, _)| {
            let known = self.addresses.of_service(&((*cluster).clone(), key.clone()), Duration::ZERO, *began);
            **of == key && addresses.iter().any(|address| known.contains(address))
        })?;
        let text =
            format!("{name} still gives the address of {cluster}, which ended its export at {}", seconds(*since));
        Some(Violation { invariant: NAME, at: fact.at, text })
    }

    fn excuse(&mut self, at: Duration) -> Option<String> {
        self.trouble.advance(at);
        if self.exports.ended(at).is_empty() {
            return None;
        }
        self.trouble.says().or_else(|| self.trouble.says_lately(at, GONE_WITHIN))
    }

    fn end(&mut self, ended: Duration) -> Vec<Violation> {
        self.trouble.advance(ended);
        self.look_after(ended);
        self.old_endpoints(ended);
        core::mem::take(&mut self.found)
    }
}

impl NoLostDelete {
    /// Once all faults have ended and the bound is over: what is left of each export that ended?
    fn look_after(&mut self, now: Duration) {
        if self.trouble.calm_for(now) < GONE_WITHIN {
            return;
        }
        let ended = self.exports.ended(now);
        for (cluster, key, since) in ended {
            // Nobody is there who would take away what an old backup brought back of a cluster that left.
            let left = self.membership.left_since(cluster, now);
            if left.is_some_and(|left| self.trouble.restored_since(cluster, left)) {
                continue;
            }
            if self.looked_after.insert((cluster.clone(), key.clone(), since)) {
                let left = left_of(&self.mirror, cluster, key);
                self.found.extend(left.into_iter().map(|left| {
                    let text = format!("{left}, though {cluster} ended its export of {key} at {}", seconds(since));
                    Violation { invariant: NAME, at: now, text }
                }));
            }
        }
    }

    /// In the end, no API shows an Endpoint that its own cluster has replaced.
    fn old_endpoints(&mut self, now: Duration) {
        if self.trouble.apis_in_force() || self.trouble.still_for(now) < CALM_AFTER {
            return;
        }
        for (api, object) in self.mirror.objects(Kind::Endpoint) {
            let Object::Endpoint(endpoint) = object else { continue };
            // Nobody is there to take it away.
            if matches!(api, ApiRef::Cluster(cluster) if self.trouble.lacks_machines(cluster)) {
                continue;
            }
            let origin = ApiRef::Cluster(endpoint.cluster.clone());
            let newer = self.mirror.objects_at(&origin, Kind::Endpoint).any(
                |other| matches!(other, Object::Endpoint(o) if o.cluster == endpoint.cluster && o.epoch > endpoint.epoch),
            );
            if newer {
                let text = format!(
                    "the {api} api still shows {} as the gateway of {}, of epoch {}",
                    endpoint.node, endpoint.cluster, endpoint.epoch
                );
                self.found.push(Violation { invariant: NAME, at: now, text });
            }
        }
    }
}

fn left_of(mirror: &Mirror, cluster: &ClusterId, key: &ServiceKey) -> Vec<String> {
    let mut left = Vec::new();
    for (api, object) in mirror.objects(Kind::ExportRecord) {
        if matches!(object, Object::ExportRecord(record) if record.cluster == *cluster && record.key == *key) {
            left.push(format!("its record is still at the {api} api"));
        }
    }
    for (api, object) in mirror.objects(Kind::SourceSlice) {
        if matches!(object, Object::SourceSlice(slice) if slice.cluster == *cluster && slice.key == *key) {
            left.push(format!("its endpoints are still at the {api} api"));
        }
    }
    for (api, object) in mirror.objects(Kind::Import) {
        if matches!(object, Object::Import(import) if import.key == *key && import.sources.contains_key(cluster)) {
            left.push(format!("the import at the {api} api still names {cluster}"));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{
        WEB_IP, act, at, broken, endpoint, fact, probed, resolved, resolves, scenario, secs, web, web_import,
        web_record, web_service, web_slice, wrote,
    };
    use crate::{Act, ApiFault, Change, Verb, When};

    const DISCOVERY: &str = "west/worker discovery";

    fn watch(timeline: Vec<Act>, facts: &[Fact]) -> Vec<String> {
        let expect = vec![resolves(When::Always, "NOERROR", vec![])];
        broken(&mut NoLostDelete::of(&scenario(timeline, expect)), facts, secs(60))
    }

    fn unexport(time: u64) -> Act {
        act(time, Verb::Unexport(crate::rehearsal::cluster("east"), web()))
    }

    fn exported() -> Vec<Fact> {
        vec![
            fact(secs(0), "east api", wrote("world", Change::Created, web_service())),
            fact(secs(1), "east api", wrote("east/worker discovery", Change::Created, web_record())),
            fact(secs(2), "west api", wrote(DISCOVERY, Change::Created, web_import(&["east"]))),
        ]
    }

    fn swept(time: u64) -> Vec<Fact> {
        vec![
            fact(secs(time), "east api", wrote("east/worker discovery", Change::Deleted, web_record())),
            fact(secs(time), "west api", wrote(DISCOVERY, Change::Deleted, web_import(&["east"]))),
        ]
    }

    #[test]
    fn a_delete_that_arrives_within_the_bound_is_fine() {
        let mut facts = exported();
        facts.push(fact(secs(25), "west/worker", probed(0, 1, secs(25), resolved("NOERROR", &[WEB_IP]))));
        facts.extend(swept(28));
        facts.push(fact(secs(40), "west/worker", probed(0, 2, secs(40), resolved("NXDOMAIN", &[]))));
        assert_eq!(watch(vec![unexport(20)], &facts), [""; 0]);
    }

    #[test]
    fn a_delete_during_an_outage_has_until_the_bound_after_it() {
        let down = act(15, Verb::Api(ApiRef::Broker, ApiFault::Down));
        let healthy = act(35, Verb::Api(ApiRef::Broker, ApiFault::Healthy));
        let mut facts = exported();
        facts.push(fact(secs(40), "west/worker", probed(0, 1, secs(40), resolved("NOERROR", &[WEB_IP]))));
        facts.extend(swept(50));
        let timeline = vec![down, unexport(20), healthy];
        assert_eq!(watch(timeline.clone(), &facts), [""; 0]);
        let mut invariant = NoLostDelete::of(&scenario(timeline.clone(), vec![]));
        let excuses = crate::rehearsal::excused(&mut invariant, &facts, secs(60));
        assert_eq!(excuses, ["20.000s..55.000s: broker api down; less than 20s since the last act"]);
        // The same outage, and the delete is lost.
        assert_eq!(watch(timeline, &exported()).len(), 2);
    }

    #[test]
    fn a_record_and_an_import_that_stay_are_caught() {
        assert_eq!(
            watch(vec![unexport(20)], &exported()),
            [
                "its record is still at the east api, though east ended its export of shop/web at 20.000s",
                "the import at the west api still names east, though east ended its export of shop/web at 20.000s",
            ]
        );
    }

    #[test]
    fn endpoints_that_stay_are_caught() {
        let mut facts = exported();
        facts.push(fact(secs(2), "west api", wrote(DISCOVERY, Change::Created, web_slice())));
        facts.extend(swept(21));
        assert_eq!(
            watch(vec![unexport(20)], &facts),
            ["its endpoints are still at the west api, though east ended its export of shop/web at 20.000s"]
        );
    }

    #[test]
    fn a_late_sweep_does_not_undo_that_the_bound_was_missed() {
        let mut facts = exported();
        facts.push(fact(secs(31), "west/worker", What::Power(true)));
        facts.extend(swept(50));
        assert_eq!(watch(vec![unexport(20)], &facts).len(), 2);
    }

    #[test]
    fn an_answer_that_outlives_its_export_is_caught() {
        let mut facts = exported();
        facts.extend(swept(21));
        facts.push(fact(secs(40), "west/worker", probed(0, 2, secs(40), resolved("NOERROR", &[WEB_IP]))));
        assert_eq!(
            watch(vec![unexport(20)], &facts),
            ["web.shop.svc.clusterset.local still gives the address of east, which ended its export at 20.000s"]
        );
    }

    #[test]
    fn an_endpoint_that_outlives_its_term_is_caught() {
        let by = "west/gw-b gateway";
        let mut facts = vec![
            fact(secs(1), "east api", wrote("west/gw-a gateway", Change::Created, endpoint("west", "gw-a", 5))),
            fact(secs(20), "west api", wrote(by, Change::Created, endpoint("west", "gw-b", 6))),
            fact(secs(20), "east api", wrote(by, Change::Created, endpoint("west", "gw-b", 6))),
        ];
        let power_off = || vec![act(5, Verb::PowerOff(at("west/gw-a")))];
        assert_eq!(watch(power_off(), &facts), ["the east api still shows gw-a as the gateway of west, of epoch 5"]);
        let mut nobody_there = facts.clone();
        nobody_there.push(fact(secs(5), "east/gw-a", What::Power(false)));
        assert_eq!(watch(power_off(), &nobody_there), [""; 0], "nobody is there who would take it away");
        facts.push(fact(secs(21), "east api", wrote(by, Change::Deleted, endpoint("west", "gw-a", 5))));
        assert_eq!(watch(power_off(), &facts), [""; 0]);
    }
}
