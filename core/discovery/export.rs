//! From a cluster's own objects to its record of an export.

use crate::base::ClusterId;
use crate::model::{EndpointSlice, ExportRecord, Service, ServiceExport, ServiceKey, ServiceType};
use alloc::collections::BTreeSet;
use core::net::IpAddr;
use serde::Serialize;

/// Why a ServiceExport gives no record. Each is a reason of the condition `Valid=False` (MCS API).
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

/// The record that `cluster` publishes for `export`. Slices of other services are passed over.
///
/// A headless service has no address of its own: its record carries those of its ready backends.
///
/// # Errors
/// A [`NotExportable`].
pub fn export_record(
    cluster: &ClusterId,
    export: &ServiceExport,
    service: Option<&Service>,
    slices: &[&EndpointSlice],
) -> Result<ExportRecord, NotExportable> {
    let key = &export.key;
    let service = service.ok_or_else(|| NotExportable::NoService { service: key.clone() })?;
    let ready = ready_addresses(key, slices);
    let addresses = match service.service_type {
        ServiceType::ClusterIp => service.cluster_ips.clone(),
        ServiceType::Headless => ready.iter().copied().collect(),
        ServiceType::ExternalName => return Err(NotExportable::ExternalName { service: key.clone() }),
    };
    Ok(ExportRecord {
        cluster: cluster.clone(),
        key: key.clone(),
        service_type: service.service_type,
        ports: service.ports.clone(),
        addresses,
        ready: !ready.is_empty(),
        created: export.created,
    })
}

/// Each ready address once, sorted. While a pod moves between slices its address is in two, once ready and once not:
/// ready wins (B58). Sorted, so that a reshuffled slice is no change.
fn ready_addresses(key: &ServiceKey, slices: &[&EndpointSlice]) -> BTreeSet<IpAddr> {
    slices
        .iter()
        .filter(|slice| slice.namespace == key.namespace && slice.service == key.name)
        .flat_map(|slice| &slice.backends)
        .filter(|backend| backend.ready)
        .map(|backend| backend.address)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Label, Wall};
    use crate::model::{Backend, Port, Protocol};
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    fn label(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    fn key() -> ServiceKey {
        ServiceKey { namespace: label("shop"), name: label("web") }
    }

    fn cluster() -> ClusterId {
        ClusterId::new("east").unwrap()
    }

    fn export() -> ServiceExport {
        ServiceExport { key: key(), created: Wall::from_unix_secs(1_000) }
    }

    fn service(service_type: ServiceType) -> Service {
        let cluster_ips =
            if service_type == ServiceType::ClusterIp { vec!["10.102.0.10".parse().unwrap()] } else { vec![] };
        Service {
            key: key(),
            service_type,
            cluster_ips,
            ports: vec![Port { name: None, protocol: Protocol::Tcp, port: 80, target: 8080 }],
            client_ip_affinity: false,
        }
    }

    fn slice(service: &str, backends: &[(&str, bool)]) -> EndpointSlice {
        let backends = backends
            .iter()
            .map(|(address, ready)| Backend { address: address.parse().unwrap(), node: None, ready: *ready })
            .collect();
        EndpointSlice { namespace: label("shop"), name: "web-1".into(), service: label(service), backends }
    }

    fn texts(addresses: &[IpAddr]) -> Vec<alloc::string::String> {
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cluster_ip_service_is_exported_with_its_cluster_ip_and_ports() {
        let service = service(ServiceType::ClusterIp);
        let slice = slice("web", &[("10.2.1.5", true)]);
        let record = export_record(&cluster(), &export(), Some(&service), &[&slice]).unwrap();
        assert_eq!(
            record,
            ExportRecord {
                cluster: cluster(),
                key: key(),
                service_type: ServiceType::ClusterIp,
                ports: service.ports,
                addresses: vec!["10.102.0.10".parse().unwrap()],
                ready: true,
                created: Wall::from_unix_secs(1_000),
            }
        );
    }

    #[test]
    fn one_ready_backend_in_any_slice_makes_the_record_ready() {
        let service = service(ServiceType::ClusterIp);
        let down = slice("web", &[("10.2.1.5", false)]);
        let up = slice("web", &[("10.2.1.6", false), ("10.2.1.7", true)]);
        let ready =
            |slices: &[&EndpointSlice]| export_record(&cluster(), &export(), Some(&service), slices).unwrap().ready;
        assert!(ready(&[&down, &up]));
        assert!(!ready(&[&down]));
        assert!(!ready(&[]));
    }

    #[test]
    fn backends_of_another_service_do_not_count() {
        let service = service(ServiceType::ClusterIp);
        let other = slice("api", &[("10.2.1.5", true)]);
        assert!(!export_record(&cluster(), &export(), Some(&service), &[&other]).unwrap().ready);
    }

    #[test]
    fn a_headless_record_carries_each_ready_address_once_whatever_the_order_of_slices() {
        let service = service(ServiceType::Headless);
        let old = slice("web", &[("10.2.1.9", true), ("10.2.1.5", false)]);
        let new = slice("web", &[("10.2.1.5", true), ("10.2.1.7", false)]);
        for slices in [[&old, &new], [&new, &old]] {
            let record = export_record(&cluster(), &export(), Some(&service), &slices).unwrap();
            assert_eq!(texts(&record.addresses), ["10.2.1.5", "10.2.1.9"]);
        }
    }

    #[test]
    fn what_cannot_be_exported_says_why() {
        let missing = export_record(&cluster(), &export(), None, &[]).unwrap_err();
        assert_eq!(missing.to_string(), "service shop/web does not exist");
        let alias = service(ServiceType::ExternalName);
        let alias = export_record(&cluster(), &export(), Some(&alias), &[]).unwrap_err();
        assert_eq!(alias.to_string(), "service shop/web is of type ExternalName, which cannot be exported");
    }
}
