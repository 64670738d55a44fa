//! From a cluster's own objects to what it exports.

use super::labels::{Carried, Unlabelled, carried};
use crate::base::{ClusterId, Few, Label};
use crate::model::{
    Backend, EndpointSlice, ExportRecord, Family, Offer, Port, Service, ServiceExport, ServiceKey, ServiceType,
    SourceEndpoint,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::Serialize;

/// Why a ServiceExport exports nothing. Each is a reason of the condition `Valid=False` (MCS API).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, thiserror::Error)]
pub enum NotExportable {
    /// `NoService`: there is no Service of that name.
    #[error("service {service} does not exist")]
    NoService {
        /// The name exported.
        service: ServiceKey,
    },
    /// `InvalidServiceType`: an alias of an outside name has no backends in this cluster.
    #[error("service {service} is of type ExternalName, which cannot be exported")]
    ExternalName {
        /// The name exported.
        service: ServiceKey,
    },
}

/// What somebody wanted exported and the clusterset cannot have. All else is exported without it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeftOut {
    /// Every API would refuse the import.
    #[error(transparent)]
    Text(#[from] Unlabelled),
    /// Hosts whose names nobody could ask for.
    #[error(
        "{count} of the hosts, {first} first, have no name: with {length} characters it would be longer than {NAME_MAX}"
    )]
    Hosts {
        /// The first of them.
        first: Label,
        /// The length of its name in the zone that a clusterset has unless it chooses another.
        length: usize,
        /// How many they are.
        count: usize,
    },
}

/// Longest domain name, in characters (RFC 1035 2.3.4).
const NAME_MAX: usize = 253;
/// What names of services end in, unless a clusterset chooses another zone.
const ZONE: &str = "svc.clusterset.local";

/// What a cluster exports of one service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    /// What it offers.
    pub record: ExportRecord,
    /// Where that is found, by family and by the ports that the endpoints have in common.
    pub endpoints: Endpoints,
    /// What is not.
    pub left_out: Vec<LeftOut>,
}

/// Endpoints by address, by family and ports.
pub type Endpoints = BTreeMap<(Family, Few<Port>), BTreeMap<IpAddr, SourceEndpoint>>;

/// What `cluster` exports by `export`. Slices of other services are passed over.
///
/// A service with a cluster IP is found there, at the ports of the service, and is ready if some backend of the family
/// is. A headless service has no address of its own: it is found at its backends, where they listen.
///
/// # Errors
/// A [`NotExportable`].
pub fn exported(
    cluster: &ClusterId,
    export: &ServiceExport,
    service: Option<&Service>,
    slices: &[&EndpointSlice],
) -> Result<Exported, NotExportable> {
    let key = &export.key;
    let service = service.ok_or_else(|| NotExportable::NoService { service: key.clone() })?;
    let of_service = slices.iter().filter(|slice| slice.namespace == key.namespace && slice.service == key.name);
    let slices: Vec<&EndpointSlice> = of_service.copied().collect();
    let endpoints = match service.service_type {
        ServiceType::ClusterIp => behind_cluster_ips(service, &slices),
        ServiceType::Headless => of_pods(&slices),
        ServiceType::ExternalName => return Err(NotExportable::ExternalName { service: key.clone() }),
    };
    let Carried { labels, annotations, left_out } = carried(&export.labels, &export.annotations);
    let unnamed = unnamed(cluster, key, &endpoints);
    let offer = Offer {
        service_type: service.service_type,
        ports: service.ports.iter().map(|port| port.port.clone()).collect(),
        families: service.families.iter().copied().collect(),
        affinity: service.affinity,
        internal_traffic: service.internal_traffic,
        traffic_distribution: service.traffic_distribution.clone(),
        labels,
        annotations,
    };
    let record =
        ExportRecord { cluster: cluster.clone(), key: key.clone(), created: export.created, offer: Arc::new(offer) };
    let left_out = left_out.into_iter().map(LeftOut::Text).chain(unnamed).collect();
    Ok(Exported { record, endpoints, left_out })
}

/// Hosts whose names are too long: DNS answers with all others.
fn unnamed(cluster: &ClusterId, key: &ServiceKey, endpoints: &Endpoints) -> Option<LeftOut> {
    let length = |host: &Label| {
        let parts = [host.as_str(), cluster.as_str(), key.name.as_str(), key.namespace.as_str(), ZONE];
        parts.map(str::len).into_iter().sum::<usize>() + parts.len() - 1
    };
    let hosts: BTreeSet<&Label> =
        endpoints.values().flat_map(BTreeMap::values).filter_map(|e| e.hostname.as_ref()).collect();
    let mut unnamed = hosts.into_iter().filter(|host| length(host) > NAME_MAX);
    let first = unnamed.next()?;
    Some(LeftOut::Hosts { first: first.clone(), length: length(first), count: 1 + unnamed.count() })
}

fn behind_cluster_ips(service: &Service, slices: &[&EndpointSlice]) -> Endpoints {
    let ports: Few<Port> = service.ports.iter().map(|port| port.port.clone()).collect();
    let backends = || slices.iter().flat_map(|slice| &slice.backends);
    let mut endpoints = Endpoints::new();
    for address in &service.cluster_ips {
        let family = Family::of(*address);
        let ready = backends().any(|backend| backend.ready && Family::of(backend.address) == family);
        let endpoint = SourceEndpoint { address: *address, hostname: None, ready };
        endpoints.entry((family, ports.clone())).or_default().insert(*address, endpoint);
    }
    endpoints
}

/// Each address once. While a pod moves between slices its address is in two, once ready and once not: ready wins (B58).
fn of_pods(slices: &[&EndpointSlice]) -> Endpoints {
    let mut endpoints = Endpoints::new();
    for slice in slices {
        let ports: Few<Port> = slice.ports.iter().cloned().collect();
        for Backend { address, hostname, ready, node: _ } in &slice.backends {
            let of_kind = endpoints.entry((Family::of(*address), ports.clone())).or_default();
            let new = SourceEndpoint { address: *address, hostname: hostname.clone(), ready: *ready };
            let known = of_kind.entry(*address).or_insert_with(|| new.clone());
            if (new.ready, &new.hostname) > (known.ready, &known.hostname) {
                *known = new;
            }
        }
    }
    endpoints
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::base::Wall;
    use alloc::string::{String, ToString};
    use alloc::vec;

    fn of(service: &Service, slices: &[&EndpointSlice]) -> Exported {
        exported(&cluster("east"), &export(1_000), Some(service), slices).unwrap()
    }

    fn text(exported: &Exported) -> Vec<String> {
        exported.endpoints.values().flat_map(BTreeMap::values).map(endpoint_text).collect()
    }

    #[test]
    fn a_cluster_ip_service_is_found_at_its_cluster_ip_and_its_own_ports() {
        let service = service(ServiceType::ClusterIp, &["10.102.0.10"]);
        let found = of(&service, &[&slice("web", &[("10.2.1.5", true)])]);
        assert_eq!(text(&found), ["10.102.0.10 ready"]);
        let ((family, ports), _) = found.endpoints.first_key_value().unwrap();
        assert_eq!((*family, ports.iter().map(|port| port.port).collect::<Vec<_>>()), (Family::V4, vec![80]));
        assert_eq!(found.record, record("east", 1_000, vec![port("", Protocol::Tcp, 80)]));
    }

    #[test]
    fn one_ready_backend_in_any_slice_makes_a_cluster_ip_ready() {
        let service = service(ServiceType::ClusterIp, &["10.102.0.10"]);
        let down = slice("web", &[("10.2.1.5", false)]);
        let up = slice("web", &[("10.2.1.6", false), ("10.2.1.7", true)]);
        assert_eq!(text(&of(&service, &[&down, &up])), ["10.102.0.10 ready"]);
        for slices in [&[&down][..], &[]] {
            assert_eq!(text(&of(&service, slices)), ["10.102.0.10 not ready"], "clusterip_slice_stays_not_ready");
        }
    }

    #[test]
    fn each_cluster_ip_is_as_ready_as_the_backends_of_its_family() {
        let service = service(ServiceType::ClusterIp, &["10.102.0.10", "fd00:102::10"]);
        let slices = [&slice("web", &[("10.2.1.5", false)]), &slice("web", &[("fd00:2::5", true)])];
        assert_eq!(text(&of(&service, &slices)), ["10.102.0.10 not ready", "fd00:102::10 ready"]);
    }

    #[test]
    fn backends_of_another_service_do_not_count() {
        let service = service(ServiceType::ClusterIp, &["10.102.0.10"]);
        assert_eq!(text(&of(&service, &[&slice("api", &[("10.2.1.5", true)])])), ["10.102.0.10 not ready"]);
    }

    #[test]
    fn a_headless_service_is_found_at_each_address_once_whatever_the_order_of_slices_b58() {
        let service = service(ServiceType::Headless, &[]);
        let old = slice("web", &[("10.2.1.9", true), ("10.2.1.5", false)]);
        let new = slice("web", &[("10.2.1.5", true), ("10.2.1.7", false)]);
        for slices in [[&old, &new], [&new, &old]] {
            assert_eq!(text(&of(&service, &slices)), ["10.2.1.5 ready", "10.2.1.7 not ready", "10.2.1.9 ready"]);
        }
    }

    #[test]
    fn pods_of_a_headless_service_that_listen_elsewhere_are_kept_apart() {
        let service = service(ServiceType::Headless, &[]);
        let mut other = slice("web", &[("10.2.1.6", true)]);
        other.ports[0].port = 9090;
        let found = of(&service, &[&slice("web", &[("10.2.1.5", true)]), &other]);
        assert_eq!(found.endpoints.len(), 2);
    }

    #[test]
    fn a_label_that_no_label_may_be_is_left_out_and_told() {
        let mut export = export(1_000);
        export.labels = [("team".into(), "a".into()), ("tier".into(), "not a label!".into())].into();
        export.annotations = [("any".into(), "thing at all".into()), ("no key!".into(), "".into())].into();
        let service = service(ServiceType::ClusterIp, &["10.102.0.10"]);
        let Exported { record, left_out, .. } = exported(&cluster("east"), &export, Some(&service), &[]).unwrap();
        assert_eq!(record.offer.labels, [("team".into(), "a".into())].into());
        assert_eq!(record.offer.annotations, [("any".into(), "thing at all".into())].into());
        let told: Vec<String> =
            left_out.iter().map(|left_out| left_out.to_string().chars().take(28).collect()).collect();
        assert_eq!(told, ["label \"tier\" is left out: it", "annotation \"no key!\" is left"]);
    }

    /// `<host>.east.web.shop.svc.clusterset.local` has 34 characters beside the host's: no label is so long that it would not
    /// fit. Names of the longest service and cluster leave 40.
    #[test]
    fn a_host_is_told_whose_name_would_be_longer_than_253_characters() {
        let long = "a".repeat(63);
        let key = ServiceKey { namespace: label(&long), name: label(&long) };
        let export = ServiceExport::new(key.clone(), Wall::default());
        let service = Service { key: key.clone(), ..service(ServiceType::Headless, &[]) };
        let left_out = |cluster_id: &str, hosts: &[usize]| {
            let mut slice = slice(&long, &[("10.2.1.5", true), ("10.2.1.6", true), ("10.2.1.7", true)]);
            slice.namespace = key.namespace.clone();
            for (backend, length) in slice.backends.iter_mut().zip(hosts) {
                backend.hostname = Some(label(&"h".repeat(*length)));
            }
            exported(&cluster(cluster_id), &export, Some(&service), &[&slice]).unwrap().left_out
        };
        assert_eq!(left_out(&"c".repeat(63), &[1, 39, 40]), []);
        let first = label(&"h".repeat(41));
        assert_eq!(left_out(&"c".repeat(63), &[40, 41, 63]), [LeftOut::Hosts { first, length: 254, count: 2 }]);
        assert_eq!(left_out("east", &[63, 63, 63]), []);
    }

    #[test]
    fn what_cannot_be_exported_says_why_export_missing_service_export_unsupported_type() {
        let missing = exported(&cluster("east"), &export(1), None, &[]).unwrap_err();
        assert_eq!(missing.to_string(), "service shop/web does not exist");
        let alias = service(ServiceType::ExternalName, &[]);
        let alias = exported(&cluster("east"), &export(1), Some(&alias), &[]).unwrap_err();
        assert_eq!(alias.to_string(), "service shop/web is of type ExternalName, which cannot be exported");
    }
}
