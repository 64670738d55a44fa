//! The service `shop/web`, as the tests of this module have it.

use crate::base::{ClusterId, Label, Wall};
use crate::model::{
    Backend, EndpointSlice, ExportRecord, Family, InternalTrafficPolicy, Offer, Port, Service, ServiceExport,
    ServiceKey, ServicePort, ServiceType, SessionAffinity, SourceEndpoint, TargetPort,
};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) use crate::model::Protocol;

pub(super) fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

pub(super) fn cluster(text: &str) -> ClusterId {
    ClusterId::new(text).unwrap()
}

pub(super) fn key() -> ServiceKey {
    ServiceKey { namespace: label("shop"), name: label("web") }
}

pub(super) fn port(name: &str, protocol: Protocol, number: u16) -> Port {
    let name = (!name.is_empty()).then(|| label(name));
    Port { name, protocol, port: number, app_protocol: None }
}

pub(super) fn export(created_s: u64) -> ServiceExport {
    ServiceExport::new(key(), Wall::from_unix_secs(created_s))
}

pub(super) fn service(service_type: ServiceType, cluster_ips: &[&str]) -> Service {
    Service {
        key: key(),
        service_type,
        cluster_ips: cluster_ips.iter().map(|text| text.parse().unwrap()).collect(),
        families: vec![Family::V4],
        ports: vec![ServicePort { port: port("", Protocol::Tcp, 80), target: TargetPort::Number(8080) }],
        affinity: SessionAffinity::None,
        internal_traffic: InternalTrafficPolicy::Cluster,
        traffic_distribution: None,
    }
}

pub(super) fn slice(service: &str, backends: &[(&str, bool)]) -> EndpointSlice {
    let backend = |(address, ready): &(&str, bool)| Backend {
        address: address.parse().unwrap(),
        node: None,
        hostname: None,
        ready: *ready,
    };
    EndpointSlice {
        namespace: label("shop"),
        name: "web-1".into(),
        service: label(service),
        backends: backends.iter().map(backend).collect(),
        ports: vec![port("", Protocol::Tcp, 8080)],
    }
}

pub(super) fn record(cluster_id: &str, created_s: u64, ports: Vec<Port>) -> ExportRecord {
    ExportRecord {
        cluster: cluster(cluster_id),
        key: key(),
        created: Wall::from_unix_secs(created_s),
        offer: Arc::new(Offer::new(ServiceType::ClusterIp, ports.into_iter().collect(), [Family::V4].into())),
    }
}

pub(super) fn endpoint_text(endpoint: &SourceEndpoint) -> String {
    let host = endpoint.hostname.as_ref().map(|host| format!(" {host}")).unwrap_or_default();
    format!("{}{host} {}", endpoint.address, if endpoint.ready { "ready" } else { "not ready" })
}
