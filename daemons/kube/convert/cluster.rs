//! What a cluster has without us: namespaces, nodes, services, and the Lease.

use super::field::{ConvertError, at, epoch, epoch_note, micro_time, noted, parse, parse_all, shaped, text, wall};
use super::{EPOCH, offer};
use k8s_openapi::api::coordination::v1::Lease as KubeLease;
use k8s_openapi::api::core::v1::{Node as KubeNode, Service as KubeService, ServicePort as KubePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Duration;
use tombolo_core::base::Wall;
use tombolo_core::model::{
    Family, Lease, Namespace, Node, Port, Protocol, Service, ServiceKey, ServicePort, ServiceType, TargetPort,
};

/// Label of nodes that may be gateways (R27).
const GATEWAY_LABEL: &str = "submariner.io/gateway";

pub fn read_namespace(value: &Value) -> Result<Namespace, ConvertError> {
    Ok(Namespace { name: parse("metadata.name", text(value, "metadata.name")?)? })
}

pub fn write_namespace(_: &Namespace) -> Value {
    json!({ "metadata": {} })
}

pub fn read_node(value: &Value) -> Result<Node, ConvertError> {
    let node: KubeNode = shaped(value)?;
    let spec = node.spec.unwrap_or_default();
    let mut ranges = spec.pod_cidrs.unwrap_or_default();
    if ranges.is_empty() {
        ranges.extend(spec.pod_cidr);
    }
    let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
    let internal: Vec<_> =
        addresses.into_iter().filter(|address| address.type_ == "InternalIP").map(|address| address.address).collect();
    Ok(Node {
        name: parse("metadata.name", text(value, "metadata.name")?)?,
        uid: text(value, "metadata.uid")?.into(),
        addresses: parse_all("status.addresses", &internal)?,
        pod_ranges: parse_all("spec.podCIDRs", &ranges)?,
        gateway: noted(value, "labels", GATEWAY_LABEL) == Some("true"),
    })
}

pub fn write_node(node: &Node) -> Value {
    let gateway = if node.gateway { json!("true") } else { Value::Null };
    let address = |address: &IpAddr| json!({ "type": "InternalIP", "address": address });
    let ranges: Vec<_> = node.pod_ranges.iter().map(ToString::to_string).collect();
    json!({
        "metadata": { "uid": node.uid, "labels": { GATEWAY_LABEL: gateway } },
        "spec": { "podCIDR": ranges.first(), "podCIDRs": ranges },
        "status": { "addresses": node.addresses.iter().map(address).collect::<Vec<_>>() },
    })
}

pub fn read_service(value: &Value) -> Result<Service, ConvertError> {
    let service: KubeService = shaped(value)?;
    let spec = service.spec.unwrap_or_default();
    let mut addresses = spec.cluster_ips.unwrap_or_default();
    if addresses.is_empty() {
        addresses.extend(spec.cluster_ip.filter(|address| !address.is_empty()));
    }
    let headless = addresses.first().is_some_and(|address| address == "None");
    let service_type = match spec.type_.as_deref() {
        Some("ExternalName") => ServiceType::ExternalName,
        _ if headless => ServiceType::Headless,
        _ => ServiceType::ClusterIp,
    };
    let cluster_ips = if headless { Vec::new() } else { parse_all("spec.clusterIPs", &addresses)? };
    let families = match spec.ip_families {
        Some(families) => {
            families.iter().map(|text| offer::family("spec.ipFamilies", text)).collect::<Result<_, _>>()?
        }
        None => cluster_ips.iter().copied().map(Family::of).collect(),
    };
    let timeout_s = spec.session_affinity_config.and_then(|config| config.client_ip?.timeout_seconds);
    let timeout_s = timeout_s.and_then(|timeout_s| u32::try_from(timeout_s).ok());
    let ports = spec.ports.unwrap_or_default();
    Ok(Service {
        key: service_key(value)?,
        service_type,
        cluster_ips,
        families,
        ports: ports
            .iter()
            .enumerate()
            .filter_map(|(i, port)| read_port(i, port).transpose())
            .collect::<Result<_, _>>()?,
        affinity: offer::affinity("spec.sessionAffinity", spec.session_affinity.as_deref(), timeout_s)?,
        internal_traffic: offer::internal_traffic(
            "spec.internalTrafficPolicy",
            spec.internal_traffic_policy.as_deref(),
        )?,
        traffic_distribution: spec.traffic_distribution.filter(|text| !text.is_empty()),
    })
}

/// Namespace and name.
pub(super) fn service_key(value: &Value) -> Result<ServiceKey, ConvertError> {
    Ok(ServiceKey {
        namespace: parse("metadata.namespace", text(value, "metadata.namespace")?)?,
        name: parse("metadata.name", text(value, "metadata.name")?)?,
    })
}

/// `None` for SCTP, which is not carried.
fn read_port(i: usize, port: &KubePort) -> Result<Option<ServicePort>, ConvertError> {
    let field = |name: &str| format!("spec.ports[{i}].{name}");
    let Some(protocol) = protocol(&field("protocol"), port.protocol.as_deref())? else { return Ok(None) };
    let number = port_number(&field("port"), port.port)?;
    let target = match &port.target_port {
        None | Some(IntOrString::Int(0)) => TargetPort::Number(number),
        Some(IntOrString::Int(target)) => TargetPort::Number(port_number(&field("targetPort"), *target)?),
        Some(IntOrString::String(text)) => {
            text.parse().map_or_else(|_| TargetPort::Named(text.clone()), TargetPort::Number)
        }
    };
    let name = port_name(&field("name"), port.name.as_deref())?;
    let app_protocol = port.app_protocol.clone().filter(|text| !text.is_empty());
    Ok(Some(ServicePort { port: Port { name, protocol, port: number, app_protocol }, target }))
}

pub(super) fn port_number(field: &str, number: i32) -> Result<u16, ConvertError> {
    match u16::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        Ok(_) | Err(_) => Err(ConvertError::bad(field, number, "a port is from 1 to 65535")),
    }
}

pub(super) fn port_name<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &str,
    name: Option<&str>,
) -> Result<Option<T>, ConvertError> {
    name.filter(|name| !name.is_empty()).map(|name| parse(field, name)).transpose()
}

/// TCP if absent; `None` for SCTP.
pub(super) fn protocol(field: &str, protocol: Option<&str>) -> Result<Option<Protocol>, ConvertError> {
    match protocol {
        None | Some("" | "TCP") => Ok(Some(Protocol::Tcp)),
        Some("UDP") => Ok(Some(Protocol::Udp)),
        Some("SCTP") => Ok(None),
        Some(other) => Err(ConvertError::bad(field, other, "a protocol is TCP, UDP or SCTP")),
    }
}

pub(super) const fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    }
}

pub fn write_service(service: &Service) -> Value {
    let kind = match service.service_type {
        ServiceType::ClusterIp | ServiceType::Headless => "ClusterIP",
        ServiceType::ExternalName => "ExternalName",
    };
    let addresses = match service.service_type {
        ServiceType::Headless => vec!["None".to_owned()],
        ServiceType::ClusterIp | ServiceType::ExternalName => {
            service.cluster_ips.iter().map(ToString::to_string).collect()
        }
    };
    let port = |port: &ServicePort| {
        let mut json = offer::port_json(&port.port);
        json["targetPort"] = match &port.target {
            TargetPort::Number(number) => json!(number),
            TargetPort::Named(name) => json!(name),
        };
        json
    };
    let (affinity, timeout_s) = offer::affinity_text(service.affinity);
    let config = timeout_s.map(|timeout_s| json!({ "clientIP": { "timeoutSeconds": timeout_s } }));
    json!({
        "spec": {
            "type": kind,
            "clusterIP": addresses.first(),
            "clusterIPs": addresses,
            "ipFamilies": service.families.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "ports": service.ports.iter().map(port).collect::<Vec<_>>(),
            "sessionAffinity": affinity,
            "sessionAffinityConfig": config,
            "internalTrafficPolicy": offer::internal_traffic_text(service.internal_traffic),
            "trafficDistribution": service.traffic_distribution,
        },
    })
}

pub fn read_lease(value: &Value) -> Result<Lease, ConvertError> {
    let lease: KubeLease = shaped(value)?;
    let spec = lease.spec.unwrap_or_default();
    let count = |field: &str, number: Option<i32>| {
        let number = number.unwrap_or(0);
        u32::try_from(number).map_err(|_| ConvertError::bad(field, number, "below zero"))
    };
    let time = |field: &str, time: Option<MicroTime>| time.map_or(Ok(Wall::default()), |MicroTime(at)| wall(field, at));
    Ok(Lease {
        name: text(value, "metadata.name")?.into(),
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        duration: Duration::from_secs(count("spec.leaseDurationSeconds", spec.lease_duration_seconds)?.into()),
        acquired: time("spec.acquireTime", spec.acquire_time)?,
        renewed: time("spec.renewTime", spec.renew_time)?,
        transitions: count("spec.leaseTransitions", spec.lease_transitions)?,
        epoch: epoch(value)?,
    })
}

pub fn write_lease(lease: &Lease) -> Result<Value, ConvertError> {
    let secs = i32::try_from(lease.duration.as_secs()).ok().filter(|_| lease.duration.subsec_nanos() == 0);
    let secs = secs.ok_or_else(|| ConvertError::Unsayable {
        field: "spec.leaseDurationSeconds".into(),
        because: format!("{:?} is no whole number of seconds below 2^31", lease.duration),
    })?;
    Ok(json!({
        "metadata": { "annotations": { EPOCH: epoch_note(lease.epoch) } },
        "spec": {
            "holderIdentity": lease.holder,
            "leaseDurationSeconds": secs,
            "acquireTime": micro_time("spec.acquireTime", lease.acquired)?,
            "renewTime": micro_time("spec.renewTime", lease.renewed)?,
            // The API counts in 31 bits; so do we from there on.
            "leaseTransitions": lease.transitions & 0x7fff_ffff,
        },
    }))
}

/// A list of numbers or texts under `path`, which may be absent.
pub(super) fn list<'a>(value: &'a Value, path: &str) -> Result<&'a [Value], ConvertError> {
    match at(value, path) {
        None => Ok(&[]),
        Some(list) => list.as_array().map(Vec::as_slice).ok_or_else(|| ConvertError::bad(path, list, "not a list")),
    }
}
