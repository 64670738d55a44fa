//! From the records of all clusters to one import.

use crate::base::{ClusterId, Label};
use crate::model::{ExportRecord, Import, Port, Protocol, ServiceType, Source};
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

/// The import that all `records` of one service make; `None` if there are none.
///
/// The oldest export decides what exports can disagree on (KEP-1645, "Constraints and Conflict Resolution"); of
/// equally old ones that of the lowest cluster id, since timestamps have a grain of one second and all clusters must
/// agree. Records come from other clusters and are believed only as far as they make sense: an alias is no export, and
/// an address that cannot be a service's is left out.
#[must_use]
pub fn merge<'a>(records: impl IntoIterator<Item = &'a ExportRecord>) -> Option<Import> {
    let mut by_age: Vec<&ExportRecord> =
        records.into_iter().filter(|record| record.service_type != ServiceType::ExternalName).collect();
    by_age.sort_by_key(|record| (record.created, &record.cluster));
    let oldest = by_age.first()?;
    debug_assert!(by_age.iter().all(|record| record.key == oldest.key), "records of one service");
    Some(Import {
        key: oldest.key.clone(),
        service_type: oldest.service_type,
        ports: union_of_ports(&by_age),
        sources: by_age.iter().map(|record| source(record)).collect(),
    })
}

fn source(record: &ExportRecord) -> (ClusterId, Source) {
    let addresses: Vec<IpAddr> =
        record.addresses.iter().copied().filter(|address| can_be_a_services(*address)).collect();
    let ready = record.ready && !addresses.is_empty();
    (record.cluster.clone(), Source { addresses, ready })
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
fn union_of_ports(by_age: &[&ExportRecord]) -> BTreeSet<Port> {
    let mut names: BTreeSet<Option<&Label>> = BTreeSet::new();
    let mut union: BTreeMap<(Protocol, u16), Port> = BTreeMap::new();
    for port in by_age.iter().flat_map(|record| &record.ports) {
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
    use super::*;
    use crate::base::Wall;
    use crate::model::ServiceKey;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use proptest::prelude::*;

    fn label(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    fn port(name: &str, protocol: Protocol, number: u16) -> Port {
        let name = (!name.is_empty()).then(|| label(name));
        Port { name, protocol, port: number, target: number }
    }

    fn record(cluster: &str, created_s: u64, ports: Vec<Port>) -> ExportRecord {
        ExportRecord {
            cluster: ClusterId::new(cluster).unwrap(),
            key: ServiceKey { namespace: label("shop"), name: label("web") },
            service_type: ServiceType::ClusterIp,
            ports,
            addresses: vec!["10.102.0.10".parse().unwrap()],
            ready: true,
            created: Wall::from_unix_secs(created_s),
        }
    }

    fn ports(import: &Import) -> Vec<String> {
        import
            .ports
            .iter()
            .map(|p| format!("{}:{}/{}", p.name.as_ref().map_or("", Label::as_str), p.port, p.protocol))
            .collect()
    }

    #[test]
    fn without_a_record_there_is_no_import() {
        assert_eq!(merge([]), None);
    }

    #[test]
    fn each_cluster_is_a_source_with_its_own_addresses_and_readiness() {
        let east = record("east", 2, vec![]);
        let west =
            ExportRecord { addresses: vec!["10.101.0.7".parse().unwrap()], ready: false, ..record("west", 1, vec![]) };
        let import = merge([&east, &west]).unwrap();
        let source = |cluster: &str| import.sources[&ClusterId::new(cluster).unwrap()].clone();
        assert_eq!(import.sources.len(), 2);
        assert_eq!(source("east"), Source { addresses: vec!["10.102.0.10".parse().unwrap()], ready: true });
        assert_eq!(source("west"), Source { addresses: vec!["10.101.0.7".parse().unwrap()], ready: false });
    }

    #[test]
    fn the_oldest_export_decides_the_type() {
        let old = record("west", 1, vec![]);
        let new = ExportRecord { service_type: ServiceType::Headless, ..record("east", 2, vec![]) };
        assert_eq!(merge([&new, &old]).unwrap().service_type, ServiceType::ClusterIp);
    }

    #[test]
    fn of_equally_old_exports_the_lowest_cluster_id_decides() {
        let west = record("west", 1, vec![]);
        let east = ExportRecord { service_type: ServiceType::Headless, ..record("east", 1, vec![]) };
        assert_eq!(merge([&west, &east]).unwrap().service_type, ServiceType::Headless);
    }

    #[test]
    fn ports_are_a_union_in_which_the_older_export_keeps_name_and_number() {
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
    fn a_port_that_is_refused_by_number_does_not_take_its_name() {
        let old = record("a", 1, vec![port("http", Protocol::Tcp, 80)]);
        let mid = record("b", 2, vec![port("web", Protocol::Tcp, 80)]);
        let new = record("c", 3, vec![port("web", Protocol::Tcp, 8080)]);
        assert_eq!(ports(&merge([&new, &mid, &old]).unwrap()), ["http:80/tcp", "web:8080/tcp"]);
    }

    #[test]
    fn an_alias_on_the_broker_is_not_believed() {
        let alias = ExportRecord { service_type: ServiceType::ExternalName, ..record("east", 1, vec![]) };
        assert_eq!(merge([&alias]), None);
    }

    #[test]
    fn addresses_that_cannot_be_a_services_are_left_out_and_do_not_make_it_ready() {
        let bad = ["127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "fe80::1", "ff02::1"];
        let record = ExportRecord {
            addresses: bad.iter().map(|text| text.parse().unwrap()).collect(),
            ..record("east", 1, vec![])
        };
        let import = merge([&record]).unwrap();
        assert_eq!(import.sources[&record.cluster], Source { addresses: vec![], ready: false });
    }

    prop_compose! {
        fn any_port()(name in 0..4usize, udp: bool, number in 80..84u16) -> Port {
            port(["", "a", "b", "c"][name], if udp { Protocol::Udp } else { Protocol::Tcp }, number)
        }
    }

    prop_compose! {
        fn any_records()(
            parts in prop::collection::vec(
                (0..3u64, any::<bool>(), any::<bool>(), prop::collection::vec(any_port(), 0..4)), 1..6),
        ) -> Vec<ExportRecord> {
            parts.into_iter().enumerate().map(|(i, (created_s, headless, ready, ports))| ExportRecord {
                service_type: if headless { ServiceType::Headless } else { ServiceType::ClusterIp },
                ready,
                ..record(&format!("c{i}"), created_s, ports)
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
            let names: BTreeSet<_> = import.ports.iter().map(|p| &p.name).collect();
            let numbers: BTreeSet<_> = import.ports.iter().map(|p| (p.protocol, p.port)).collect();
            prop_assert_eq!(names.len(), import.ports.len());
            prop_assert_eq!(numbers.len(), import.ports.len());
            for port in records.iter().flat_map(|r| &r.ports) {
                prop_assert!(names.contains(&port.name) || numbers.contains(&(port.protocol, port.port)));
            }
        }
    }
}
