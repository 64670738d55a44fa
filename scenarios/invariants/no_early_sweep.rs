//! **No early sweep.** Nothing is removed on the strength of a view that is not yet complete: a record, an import or a
//! copy of what a cluster announces is never deleted while its source still exists where it comes from. A cluster that
//! leaves takes all away, its own and its copies of others'.

use super::{Invariant, Violation, end_may_come_late};
use crate::exports::Exports;
use crate::membership::Membership;
use crate::mirror::Mirror;
use crate::trouble::Trouble;
use crate::{ApiRef, Change, Fact, Place, Scenario, What};
use core::time::Duration;
use std::collections::BTreeMap;
use tombolo_core::base::{Cidr, ClusterId, Epoch};
use tombolo_core::model::{ClusterRecord, Import, Key, Kind, Object, ServiceKey};

const NAME: &str = "No early sweep";

/// See the module.
pub(super) struct NoEarlySweep {
    trouble: Trouble,
    exports: Exports,
    membership: Membership,
    mirror: Mirror,
    /// The latest epoch in which each cluster ever announced an Endpoint.
    latest: BTreeMap<ClusterId, Epoch>,
}

impl NoEarlySweep {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self {
            trouble: Trouble::of(scenario),
            exports: Exports::of(scenario),
            membership: Membership::of(scenario),
            mirror: Mirror::of(scenario),
            latest: BTreeMap::new(),
        }
    }
}

impl Invariant for NoEarlySweep {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F3: submariner#4104 (B33), cilium#23823 (B51), linkerd2#12499 (B66)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        self.trouble.watch(fact);
        let before = self.mirror.watch(fact);
        let (What::Wrote { by, change, key, object }, Place::Api(api)) = (&fact.what, &fact.place) else { return None };
        if let (Change::Created | Change::Replaced, Object::Endpoint(endpoint)) = (change, object) {
            let latest = self.latest.entry(endpoint.cluster.clone()).or_default();
            *latest = endpoint.epoch.max(*latest);
        }
        if matches!(by, Place::Daemon(author, ..) if self.membership.was_leaving(author, fact.at, &self.trouble)) {
            return None;
        }
        let source = match (change, object) {
            (Change::Created, _) => None,
            (Change::Deleted, Object::ExportRecord(record)) => self
                .firmly(&record.cluster, &record.key, fact.at)
                .then(|| format!("{} exports {}", record.cluster, record.key)),
            // Of a cluster IP there is always a slice; all services of scenarios have one.
            (Change::Deleted, Object::SourceSlice(slice)) => self
                .firmly(&slice.cluster, &slice.key, fact.at)
                .then(|| format!("{} exports {}", slice.cluster, slice.key)),
            (Change::Deleted, Object::Import(import)) => self.still_exported(import, &Import::clone(import), fact.at),
            (Change::Replaced, Object::Import(now)) => match &before {
                Some(Object::Import(before)) => {
                    let lost = before.sources.iter().filter(|(cluster, _)| !now.sources.contains_key(*cluster));
                    let sources = lost.map(|(cluster, since)| (cluster.clone(), *since)).collect();
                    self.still_exported(now, &Import { sources, ..Import::clone(before) }, fact.at)
                }
                _ => None,
            },
            (Change::Deleted, _) => self.still_announced(api, key, object, fact.at),
            (Change::Replaced, _) => None,
        };
        let verb = if *change == Change::Deleted { "deleted" } else { "cut down" };
        let text = format!("{by} {verb} {key} at the {api} api, though {}", source?);
        Some(Violation { invariant: NAME, at: fact.at, text })
    }

    fn excuse(&mut self, _: Duration) -> Option<String> {
        None
    }

    fn end(&mut self, _: Duration) -> Vec<Violation> {
        Vec::new()
    }
}

impl NoEarlySweep {
    /// Whether it is exported, and nothing is on its way that may take it away for a moment.
    fn firmly(&self, cluster: &ClusterId, key: &ServiceKey, at: Duration) -> bool {
        self.exports.firmly(cluster, key, at) && !end_may_come_late(&self.exports, &self.trouble, (cluster, key), at)
    }

    /// Says who of the lost sources exports the service.
    fn still_exported(&self, import: &Import, lost: &Import, at: Duration) -> Option<String> {
        let key = &import.key;
        let exporter = lost.sources.keys().find(|cluster| self.firmly(cluster, key, at))?;
        Some(format!("{exporter} exports {key}"))
    }

    /// Whether the broker or this API shows another cluster's ranges that meet its own: of the two one is not believed.
    fn is_contested(&self, api: &ApiRef, cluster: &ClusterId) -> bool {
        let records = || {
            let all = [&ApiRef::Broker, api].into_iter().flat_map(|at| self.mirror.objects_at(at, Kind::Cluster));
            all.filter_map(|object| if let Object::Cluster(record) = object { Some(record) } else { None })
        };
        let ranges = |of: &ClusterRecord| of.pods.iter().chain(&of.services).copied().collect::<Vec<_>>();
        let own: Vec<Cidr> = records().filter(|record| record.cluster == *cluster).flat_map(|of| ranges(of)).collect();
        let mut others = records().filter(|record| record.cluster != *cluster).flat_map(|of| ranges(of));
        others.any(|range| own.iter().any(|own| own.overlaps(&range)))
    }

    /// Says that the copied announcement still stands in its cluster, and that no later one takes its place.
    fn still_announced(&self, api: &ApiRef, key: &Key, object: &Object, at: Duration) -> Option<String> {
        let (cluster, epoch) = object.announced()?;
        // A later term's was there, wherever that was: a backup may have brought the former one back.
        let superseded = key.kind == Kind::Endpoint && self.latest.get(cluster) > Some(&epoch);
        if superseded || self.membership.was_leaving(cluster, at, &self.trouble) || self.is_contested(api, cluster) {
            return None;
        }
        let origin = ApiRef::Cluster(cluster.clone());
        self.mirror.get(&origin, key).map(|_| format!("it still stands in {cluster}, where it comes from"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{
        act, broken, candidates, cluster, cluster_record, endpoint, fact, scenario, secs, web, web_import, web_record,
        web_slice, wrote,
    };
    use crate::{Act, ApiFault, Verb};

    fn watch(timeline: Vec<Act>, facts: &[Fact]) -> Vec<String> {
        broken(&mut NoEarlySweep::of(&scenario(timeline, vec![])), facts, secs(60))
    }

    fn writes(at: u64, api: &str, by: &str, change: Change, object: Object) -> Fact {
        fact(secs(at), api, wrote(by, change, object))
    }

    const WEST: &str = "west/gw-a gateway";
    const EAST: &str = "east/gw-a gateway";
    const DISCOVERY: &str = "west/worker discovery";

    #[test]
    fn what_ended_at_its_source_is_swept() {
        let unexport = act(20, Verb::Unexport(cluster("east"), web()));
        let facts = [
            writes(1, "east api", "east/worker discovery", Change::Created, web_record()),
            writes(2, "west api", DISCOVERY, Change::Created, web_import(&["east"])),
            writes(21, "east api", "east/worker discovery", Change::Deleted, web_record()),
            writes(22, "west api", DISCOVERY, Change::Deleted, web_import(&["east"])),
        ];
        assert_eq!(watch(vec![unexport], &facts), [""; 0]);
    }

    #[test]
    fn an_endpoint_that_a_later_one_replaces_is_swept_in_any_order() {
        let facts = [
            writes(1, "west api", WEST, Change::Created, endpoint("west", "gw-a", 5)),
            writes(2, "east api", WEST, Change::Created, endpoint("west", "gw-a", 5)),
            writes(20, "east api", "west/gw-b gateway", Change::Created, endpoint("west", "gw-b", 6)),
            // At the broker first: the own API is slow.
            writes(20, "east api", "west/gw-b gateway", Change::Deleted, endpoint("west", "gw-a", 5)),
            writes(21, "west api", "west/gw-b gateway", Change::Created, endpoint("west", "gw-b", 6)),
            writes(21, "west api", "west/gw-b gateway", Change::Deleted, endpoint("west", "gw-a", 5)),
        ];
        assert_eq!(watch(vec![], &facts), [""; 0]);
    }

    #[test]
    fn of_two_whose_ranges_meet_one_is_not_believed() {
        let north = cluster_record("north", "10.2.0.0/16", "10.103.0.0/16");
        let watch = |pods| {
            let facts = [
                writes(1, "east api", EAST, Change::Created, endpoint("east", "gw-a", 5)),
                writes(2, "west api", WEST, Change::Created, endpoint("east", "gw-a", 5)),
                writes(3, "west api", WEST, Change::Created, north.clone()),
                writes(4, "broker api", EAST, Change::Created, cluster_record("east", pods, "10.102.0.0/16")),
                writes(30, "west api", WEST, Change::Deleted, endpoint("east", "gw-a", 5)),
            ];
            watch(vec![], &facts).len()
        };
        assert_eq!((watch("10.2.128.0/17"), watch("10.3.0.0/16")), (0, 1));
    }

    #[test]
    fn a_record_deleted_while_its_service_is_exported_is_caught() {
        let facts = [writes(30, "east api", "east/worker discovery", Change::Deleted, web_record())];
        assert_eq!(
            watch(vec![], &facts),
            ["east/worker discovery deleted ExportRecord east.web.shop at the east api, though east exports shop/web"]
        );
    }

    #[test]
    fn a_record_of_an_export_that_began_anew_may_go_until_its_former_end_must_have_come_through() {
        let api = |at, fault| act(at, Verb::Api(ApiRef::Cluster(cluster("east")), fault));
        let timeline = vec![
            api(15, ApiFault::Down),
            act(20, Verb::Unexport(cluster("east"), web())),
            act(21, Verb::Export(cluster("east"), web())),
            api(40, ApiFault::Healthy),
        ];
        let deleted_at = |at| {
            let facts = [writes(at, "east api", "east/worker discovery", Change::Deleted, web_record())];
            watch(timeline.clone(), &facts).len()
        };
        assert_eq!([22, 40, 49, 51].map(deleted_at), [0, 0, 0, 1]);
    }

    #[test]
    fn endpoints_deleted_while_their_service_is_exported_are_caught() {
        let facts = [writes(30, "west api", DISCOVERY, Change::Deleted, web_slice())];
        let slice = web_slice().key();
        let expected = format!("{DISCOVERY} deleted {slice} at the west api, though east exports shop/web");
        assert_eq!(watch(vec![], &facts), [expected]);
    }

    #[test]
    fn an_import_swept_before_all_sources_are_listed_is_caught() {
        let facts = [
            writes(2, "west api", DISCOVERY, Change::Created, web_import(&["east", "north"])),
            writes(30, "west api", DISCOVERY, Change::Replaced, web_import(&["north"])),
            writes(31, "west api", DISCOVERY, Change::Deleted, web_import(&["east"])),
        ];
        assert_eq!(
            watch(vec![], &facts),
            [
                "west/worker discovery cut down Import shop/web at the west api, though east exports shop/web",
                "west/worker discovery deleted Import shop/web at the west api, though east exports shop/web",
            ]
        );
    }

    #[test]
    fn a_copy_swept_while_it_stands_in_its_cluster_is_caught() {
        for object in [endpoint("west", "gw-a", 5), candidates("west", 5, &["gw-a"])] {
            let facts = [
                writes(1, "west api", WEST, Change::Created, object.clone()),
                writes(2, "east api", EAST, Change::Created, object.clone()),
                writes(30, "east api", EAST, Change::Deleted, object.clone()),
            ];
            let expected = format!(
                "east/gw-a gateway deleted {} at the east api, though it still stands in west, where it comes from",
                object.key()
            );
            assert_eq!(watch(vec![], &facts), [expected]);
        }
    }
}
