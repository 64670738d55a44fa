//! From the records of all clusters to one import.

use super::labels::{Carried, carried};
use crate::base::{Cidr, Few, Label};
use crate::model::{ExportRecord, Import, Offer, Port, Protocol, ServiceType, SourceEndpoint, SourceSlice};
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

/// The import that all `records` of one service make; `None` if there are none.
///
/// The oldest export decides what exports can disagree on (KEP-1645, "Constraints and Conflict Resolution"), but for
/// ports and families, of which the import has those of all. An export of another type than the oldest's has nothing that
/// clients of the import could use, and is no source of it. Labels and annotations for which an API would refuse the import
/// are left out: their exporter does so, too, but need not be one of ours.
#[must_use]
pub fn merge<'a>(records: impl IntoIterator<Item = &'a ExportRecord>) -> Option<Import> {
    let by_age = by_age(records);
    let oldest = *by_age.first()?;
    let same_type = |record: &&&ExportRecord| record.offer.service_type == oldest.offer.service_type;
    let sources: Vec<&ExportRecord> = by_age.iter().filter(same_type).copied().collect();
    let Carried { labels, annotations, .. } = carried(&oldest.offer.labels, &oldest.offer.annotations);
    let offer = Offer {
        labels,
        annotations,
        ports: union_of_ports(&sources),
        families: sources.iter().flat_map(|record| record.offer.families).collect(),
        ..Offer::clone(&oldest.offer)
    };
    let since = |record: &&ExportRecord| (record.cluster.clone(), record.created);
    let offer = if offer == *oldest.offer { Arc::clone(&oldest.offer) } else { Arc::new(offer) };
    Some(Import { key: oldest.key.clone(), offer, sources: sources.iter().map(since).collect() })
}

/// From the oldest to the newest; of equally old ones the lowest cluster id comes first, since timestamps have a grain of
/// one second and all clusters must agree. Records come from other clusters and are believed only as far as they make
/// sense: an alias is no export.
pub(super) fn by_age<'a>(records: impl IntoIterator<Item = &'a ExportRecord>) -> Vec<&'a ExportRecord> {
    let not_an_alias = |record: &&ExportRecord| record.offer.service_type != ServiceType::ExternalName;
    let mut by_age: Vec<&ExportRecord> = records.into_iter().filter(not_an_alias).collect();
    by_age.sort_by_key(|record| (record.created, &record.cluster));
    debug_assert!(by_age.is_sorted_by(|a, b| a.key == b.key), "records of one service");
    by_age
}

/// What is believed of a slice of another cluster: an endpoint that no packet from here could reach is left out, and so is
/// one outside the `ranges` that its cluster announced, where these are known.
#[must_use]
pub fn believed(slice: &Arc<SourceSlice>, ranges: Option<&[Cidr]>) -> Arc<SourceSlice> {
    let is_theirs = |address| ranges.is_none_or(|ranges| ranges.iter().any(|range| range.contains(address)));
    let possible = |endpoint: &&SourceEndpoint| can_be_a_services(endpoint.address) && is_theirs(endpoint.address);
    if slice.endpoints.iter().all(|endpoint| possible(&endpoint)) {
        return Arc::clone(slice);
    }
    let endpoints = slice.endpoints.iter().filter(possible).cloned().collect();
    Arc::new(SourceSlice { endpoints, ..SourceSlice::clone(slice) })
}

/// Whether a packet to `address` could leave the node it was sent from and reach one service: not loopback, link-local,
/// multicast or unspecified (lighthouse#2251).
fn can_be_a_services(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !(link_local || address.is_loopback() || address.is_multicast() || address.is_unspecified())
}

/// Walks the exports from the oldest to the newest and takes a port unless its name, or its protocol and number, is
/// taken. No name is a name, too: at most one port may go without.
fn union_of_ports(by_age: &[&ExportRecord]) -> Few<Port> {
    let mut names: BTreeSet<Option<&Label>> = BTreeSet::new();
    let mut union: BTreeMap<(Protocol, u16), Port> = BTreeMap::new();
    for port in by_age.iter().flat_map(|record| &record.offer.ports) {
        if names.contains(&port.name.as_ref()) {
            continue;
        }
        if let Entry::Vacant(free) = union.entry((port.protocol, port.port)) {
            free.insert(port.clone());
            names.insert(port.name.as_ref());
        }
    }
    union.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::model::{Family, InternalTrafficPolicy, SessionAffinity};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use proptest::prelude::*;

    fn with(mut record: ExportRecord, change: impl FnOnce(&mut Offer)) -> ExportRecord {
        change(Arc::make_mut(&mut record.offer));
        record
    }

    fn ports(import: &Import) -> Vec<String> {
        let ports = import.offer.ports.iter();
        ports.map(|p| format!("{}:{}/{}", p.name.as_ref().map_or("", Label::as_str), p.port, p.protocol)).collect()
    }

    fn sources(import: &Import) -> Vec<&str> {
        import.sources.keys().map(|cluster| cluster.as_str()).collect()
    }

    #[test]
    fn without_a_record_there_is_no_import() {
        assert_eq!(merge([]), None);
    }

    #[test]
    fn each_cluster_is_a_source_since_it_exports() {
        let (east, west) = (record("east", 2, vec![]), record("west", 1, vec![]));
        let import = merge([&east, &west]).unwrap();
        assert_eq!(import.sources, [(east.cluster, east.created), (west.cluster, west.created)].into());
    }

    #[test]
    fn the_oldest_export_decides_the_type_and_one_of_another_type_is_no_source_type_conflict_not_exported() {
        let old = record("west", 1, vec![port("http", Protocol::Tcp, 80)]);
        let new = with(record("east", 2, vec![port("db", Protocol::Tcp, 5432)]), |o| {
            o.service_type = ServiceType::Headless;
        });
        let import = merge([&new, &old]).unwrap();
        assert_eq!(import.offer.service_type, ServiceType::ClusterIp);
        assert_eq!((sources(&import), ports(&import)), (vec!["west"], vec!["http:80/tcp".into()]));
    }

    #[test]
    fn an_import_has_no_label_for_which_an_api_would_refuse_it() {
        let strange = with(record("west", 1, vec![]), |o| {
            o.labels = [("team".into(), "a".into()), ("not a key!".into(), "b".into())].into();
            o.annotations = [("note".into(), "any text!".into()), ("/".into(), "".into())].into();
        });
        let offer = merge([&strange]).unwrap().offer;
        assert_eq!(offer.labels, [("team".into(), "a".into())].into());
        assert_eq!(offer.annotations, [("note".into(), "any text!".into())].into());
    }

    #[test]
    fn of_equally_old_exports_the_lowest_cluster_id_decides() {
        let west = record("west", 1, vec![]);
        let east = with(record("east", 1, vec![]), |o| o.service_type = ServiceType::Headless);
        assert_eq!(merge([&west, &east]).unwrap().offer.service_type, ServiceType::Headless);
    }

    #[test]
    fn the_oldest_export_decides_policies_and_the_whole_of_labels_and_annotations() {
        let old = with(record("west", 1, vec![]), |o| {
            o.affinity = SessionAffinity::ClientIp { timeout_s: 60 };
            o.internal_traffic = InternalTrafficPolicy::Local;
            o.traffic_distribution = Some("PreferClose".into());
            o.labels = [("team".into(), "a".into())].into();
            o.annotations = [("note".into(), "old".into())].into();
        });
        let new = with(record("east", 2, vec![]), |o| {
            o.affinity = SessionAffinity::ClientIp { timeout_s: 30 };
            o.traffic_distribution = Some("PreferSameNode".into());
            o.labels = [("team".into(), "b".into()), ("tier".into(), "web".into())].into();
            o.annotations = [("note".into(), "new".into()), ("more".into(), "here".into())].into();
        });
        assert_eq!(merge([&new, &old]).unwrap().offer, old.offer);
    }

    #[test]
    fn when_the_oldest_leaves_the_next_oldest_decides_affinity_moves_to_next_oldest() {
        let sticky = SessionAffinity::ClientIp { timeout_s: 60 };
        let next = with(record("east", 2, vec![]), |o| o.affinity = sticky);
        let last = record("a", 3, vec![]);
        assert_eq!(merge([&last, &record("west", 1, vec![]), &next]).unwrap().offer.affinity, SessionAffinity::None);
        assert_eq!(merge([&last, &next]).unwrap().offer.affinity, sticky);
    }

    #[test]
    fn families_are_those_of_all_exports() {
        let six = with(record("east", 2, vec![]), |o| o.families = [Family::V6].into());
        let import = merge([&six, &record("west", 1, vec![])]).unwrap();
        assert_eq!(import.offer.families, [Family::V4, Family::V6].into());
    }

    #[test]
    fn ports_are_a_union_in_which_the_older_export_keeps_name_and_number_ports_union_oldest_wins() {
        let old = record("west", 1, vec![port("http", Protocol::Tcp, 80), port("dns", Protocol::Udp, 53)]);
        let new = record(
            "east",
            2,
            vec![
                port("http", Protocol::Tcp, 8080), // the name is taken
                port("web", Protocol::Tcp, 80),    // the number is taken
                port("dns-tcp", Protocol::Tcp, 53),
            ],
        );
        assert_eq!(ports(&merge([&new, &old]).unwrap()), ["dns:53/udp", "dns-tcp:53/tcp", "http:80/tcp"]);
    }

    #[test]
    fn only_one_port_goes_without_a_name() {
        let old = record("west", 1, vec![port("", Protocol::Tcp, 80)]);
        let new = record("east", 2, vec![port("", Protocol::Tcp, 8080)]);
        assert_eq!(ports(&merge([&new, &old]).unwrap()), [":80/tcp"]);
    }

    #[test]
    fn a_port_without_a_name_stays_beside_the_named_ones_of_other_exports() {
        let old = record("west", 1, vec![port("", Protocol::Tcp, 80)]);
        let new = record("east", 2, vec![port("metrics", Protocol::Tcp, 9090)]);
        assert_eq!(ports(&merge([&new, &old]).unwrap()), [":80/tcp", "metrics:9090/tcp"]);
    }

    #[test]
    fn a_number_may_be_used_once_by_each_protocol() {
        let old = record("west", 1, vec![port("dns", Protocol::Udp, 53)]);
        let new = record("east", 2, vec![port("dns-tcp", Protocol::Tcp, 53), port("dns-too", Protocol::Udp, 53)]);
        assert_eq!(ports(&merge([&new, &old]).unwrap()), ["dns:53/udp", "dns-tcp:53/tcp"]);
    }

    #[test]
    fn an_older_export_that_comes_later_decides_from_then_on() {
        let labelled = |cluster: &str, created_s| {
            with(record(cluster, created_s, vec![]), |o| o.labels = [("of".into(), cluster.into())].into())
        };
        let (first, restored) = (labelled("west", 2), labelled("east", 1));
        assert_eq!(merge([&first]).unwrap().offer.labels["of"], "west");
        assert_eq!(merge([&first, &restored]).unwrap().offer.labels["of"], "east");
    }

    #[test]
    fn a_port_that_is_refused_by_number_does_not_take_its_name() {
        let old = record("a", 1, vec![port("http", Protocol::Tcp, 80)]);
        let mid = record("b", 2, vec![port("web", Protocol::Tcp, 80)]);
        let new = record("c", 3, vec![port("web", Protocol::Tcp, 8080)]);
        assert_eq!(ports(&merge([&new, &mid, &old]).unwrap()), ["http:80/tcp", "web:8080/tcp"]);
    }

    #[test]
    fn an_alias_on_the_broker_is_not_believed() {
        let alias = with(record("east", 1, vec![]), |o| o.service_type = ServiceType::ExternalName);
        assert_eq!(merge([&alias]), None);
    }

    #[test]
    fn endpoints_that_cannot_be_reached_from_elsewhere_are_not_believed() {
        let bad = ["127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "fe80::1", "ff02::1"];
        let endpoint = |text: &str| SourceEndpoint { address: text.parse().unwrap(), hostname: None, ready: true };
        let good = endpoint("10.102.0.10");
        let slice = SourceSlice {
            cluster: cluster("east"),
            key: key(),
            family: Family::V4,
            number: 0,
            endpoints: bad.into_iter().map(endpoint).chain([good.clone()]).collect(),
            ports: Few::default(),
        };
        assert_eq!(*believed(&Arc::new(slice), None).endpoints, [good]);
    }

    #[test]
    fn an_address_is_not_believed_to_be_in_another_cluster_than_the_one_that_announced_its_range() {
        let endpoint = |text: &str| SourceEndpoint { address: text.parse().unwrap(), hostname: None, ready: true };
        let slice = SourceSlice {
            cluster: cluster("east"),
            key: key(),
            family: Family::V4,
            number: 0,
            endpoints: ["10.2.1.5", "10.101.0.10", "10.102.0.10"].map(endpoint).into(),
            ports: Few::default(),
        };
        let ranges: Vec<Cidr> = vec!["10.2.0.0/16".parse().unwrap(), "10.102.0.0/16".parse().unwrap()];
        let slice = Arc::new(slice);
        assert_eq!(*believed(&slice, Some(&ranges)).endpoints, ["10.2.1.5", "10.102.0.10"].map(endpoint));
        assert_eq!(believed(&slice, None), slice, "not knowing is no reason to doubt (F9)");
    }

    prop_compose! {
        fn any_port()(name in 0..4usize, udp: bool, number in 80..84u16) -> Port {
            port(["", "a", "b", "c"][name], if udp { Protocol::Udp } else { Protocol::Tcp }, number)
        }
    }

    prop_compose! {
        fn any_records()(
            parts in prop::collection::vec((0..3u64, any::<bool>(), prop::collection::vec(any_port(), 0..4)), 1..6),
        ) -> Vec<ExportRecord> {
            parts.into_iter().enumerate().map(|(i, (created_s, headless, ports))| {
                with(record(&format!("c{i}"), created_s, ports), |o| {
                    o.service_type = if headless { ServiceType::Headless } else { ServiceType::ClusterIp };
                })
            }).collect()
        }
    }

    proptest! {
        #[test]
        fn the_import_does_not_depend_on_the_order_of_arrival(
            (records, shuffled) in any_records().prop_flat_map(|r| (Just(r.clone()), Just(r).prop_shuffle())),
        ) {
            prop_assert_eq!(merge(&records), merge(&shuffled));
        }

        #[test]
        fn names_and_numbers_are_unique_in_the_union_and_none_is_lost_without_a_rival(records in any_records()) {
            let import = merge(&records).unwrap();
            let names: BTreeSet<_> = import.offer.ports.iter().map(|p| &p.name).collect();
            let numbers: BTreeSet<_> = import.offer.ports.iter().map(|p| (p.protocol, p.port)).collect();
            prop_assert_eq!(names.len(), import.offer.ports.len());
            prop_assert_eq!(numbers.len(), import.offer.ports.len());
            for record in records.iter().filter(|record| import.sources.contains_key(&record.cluster)) {
                for port in &record.offer.ports {
                    prop_assert!(names.contains(&port.name) || numbers.contains(&(port.protocol, port.port)));
                }
            }
        }
    }
}
