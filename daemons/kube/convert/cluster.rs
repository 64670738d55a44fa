//! What a cluster has without us: nodes, services, slices, and the Lease.

use super::EPOCH;
use super::field::{ConvertError, at, epoch, epoch_note, micro_time, noted, parse, parse_all, shaped, text, wall};
use k8s_openapi::api::coordination::v1::Lease as KubeLease;
use k8s_openapi::api::core::v1::{Node as KubeNode, Service as KubeService, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint as KubeEndpoint, EndpointSlice as KubeSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Duration;
use tombolo_core::base::Wall;
use tombolo_core::model::{Backend, EndpointSlice, Lease, Node, Port, Protocol, Service, ServiceKey, ServiceType};

/// Label of nodes that may be gateways (R27).
const GATEWAY_LABEL: &str = "submariner.io/gateway";
/// Label of slices: their service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

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
    let ports = spec.ports.unwrap_or_default();
    Ok(Service {
        key: service_key(value)?,
        service_type,
        cluster_ips: if headless { Vec::new() } else { parse_all("spec.clusterIPs", &addresses)? },
        ports: ports
            .iter()
            .enumerate()
            .filter_map(|(i, port)| read_port(i, port).transpose())
            .collect::<Result<_, _>>()?,
        client_ip_affinity: spec.session_affinity.as_deref() == Some("ClientIP"),
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
fn read_port(i: usize, port: &ServicePort) -> Result<Option<Port>, ConvertError> {
    let field = |name: &str| format!("spec.ports[{i}].{name}");
    let Some(protocol) = protocol(&field("protocol"), port.protocol.as_deref())? else { return Ok(None) };
    let number = port_number(&field("port"), port.port)?;
    let target = match &port.target_port {
        None | Some(IntOrString::Int(0)) => number,
        Some(IntOrString::Int(target)) => port_number(&field("targetPort"), *target)?,
        // A name means another number in each pod: only the slices know. Pods mostly listen where the service does.
        Some(IntOrString::String(text)) => text.parse().unwrap_or(number),
    };
    Ok(Some(Port { name: port_name(&field("name"), port.name.as_deref())?, protocol, port: number, target }))
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
    let port = |port: &Port| {
        let protocol = protocol_name(port.protocol);
        json!({ "name": port.name, "protocol": protocol, "port": port.port, "targetPort": port.target })
    };
    json!({
        "spec": {
            "type": kind,
            "clusterIP": addresses.first(),
            "clusterIPs": addresses,
            "ports": service.ports.iter().map(port).collect::<Vec<_>>(),
            "sessionAffinity": if service.client_ip_affinity { "ClientIP" } else { "None" },
        },
    })
}

/// `None` for a slice of no service of this cluster, or of names instead of addresses.
pub fn read_slice(value: &Value) -> Result<Option<EndpointSlice>, ConvertError> {
    let slice: KubeSlice = shaped(value)?;
    let Some(service) = noted(value, "labels", SERVICE_NAME) else { return Ok(None) };
    if slice.address_type == "FQDN" {
        return Ok(None);
    }
    let backends = slice.endpoints.iter().enumerate().filter_map(|(i, endpoint)| read_backend(i, endpoint).transpose());
    Ok(Some(EndpointSlice {
        namespace: parse("metadata.namespace", text(value, "metadata.namespace")?)?,
        name: text(value, "metadata.name")?.into(),
        service: parse(format!("label {SERVICE_NAME}"), service)?,
        backends: backends.collect::<Result<_, _>>()?,
    }))
}

fn read_backend(i: usize, endpoint: &KubeEndpoint) -> Result<Option<Backend>, ConvertError> {
    // Consumers take the first address (discovery/v1).
    let Some(address) = endpoint.addresses.first() else { return Ok(None) };
    let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true);
    let node = endpoint.node_name.as_deref();
    Ok(Some(Backend {
        address: parse(format!("endpoints[{i}].addresses[0]"), address)?,
        node: node.map(|node| parse(format!("endpoints[{i}].nodeName"), node)).transpose()?,
        ready,
    }))
}

pub fn write_slice(slice: &EndpointSlice) -> Value {
    let ipv6 = slice.backends.first().is_some_and(|backend| backend.address.is_ipv6());
    let endpoint = |backend: &Backend| {
        json!({
            "addresses": [backend.address],
            "conditions": { "ready": backend.ready },
            "nodeName": backend.node,
        })
    };
    json!({
        "metadata": { "labels": { SERVICE_NAME: slice.service } },
        "addressType": if ipv6 { "IPv6" } else { "IPv4" },
        "endpoints": slice.backends.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": [],
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
