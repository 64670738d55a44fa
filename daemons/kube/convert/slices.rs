//! EndpointSlices: the cluster's own, and those that tell what other clusters have (MCS API).

use super::field::{ConvertError, noted, parse, shaped, text};
use super::offer::{PortSpec, family, ports, ports_json};
use super::{NUMBER, SOURCE_NAMESPACE};
use k8s_openapi::api::discovery::v1::{Endpoint as KubeEndpoint, EndpointPort, EndpointSlice as KubeSlice};
use serde_json::{Value, json};
use std::net::IpAddr;
use tombolo_core::base::{Label, NodeName};
use tombolo_core::model::{Backend, EndpointSlice, Family, ServiceKey, SourceEndpoint, SourceSlice};

/// Label of the cluster's own slices: their service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of the clusterset's slices: their service.
const MCS_SERVICE_NAME: &str = "multicluster.kubernetes.io/service-name";
/// Label of the clusterset's slices: the cluster whose endpoints they hold.
pub(crate) const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
/// Label: who keeps a slice.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// As Submariner marks its own: its members read only these.
const MANAGER: &str = "lighthouse-agent.submariner.io";

/// `None` for a slice of no service of this cluster, or of names instead of addresses.
pub fn read_slice(value: &Value) -> Result<Option<EndpointSlice>, ConvertError> {
    let slice: KubeSlice = shaped(value)?;
    let Some(service) = noted(value, "labels", SERVICE_NAME) else { return Ok(None) };
    if slice.address_type == "FQDN" || noted(value, "labels", SOURCE_CLUSTER).is_some() {
        return Ok(None);
    }
    let mut backends = Vec::new();
    for (i, endpoint) in slice.endpoints.iter().enumerate() {
        if let Some(Read { address, hostname, node, ready }) = read_endpoint(i, endpoint)? {
            backends.push(Backend { address, node, hostname, ready });
        }
    }
    Ok(Some(EndpointSlice {
        namespace: parse("metadata.namespace", text(value, "metadata.namespace")?)?,
        name: text(value, "metadata.name")?.into(),
        service: parse(format!("label {SERVICE_NAME}"), service)?,
        backends,
        ports: read_ports(slice.ports)?,
    }))
}

pub fn write_slice(slice: &EndpointSlice) -> Value {
    let ipv6 = slice.backends.first().is_some_and(|backend| backend.address.is_ipv6());
    let endpoint = |backend: &Backend| {
        json!({
            "addresses": [backend.address],
            "hostname": backend.hostname,
            "conditions": { "ready": backend.ready },
            "nodeName": backend.node,
        })
    };
    json!({
        "metadata": { "labels": { SERVICE_NAME: slice.service } },
        "addressType": if ipv6 { "IPv6" } else { "IPv4" },
        "endpoints": slice.backends.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": ports_json(&slice.ports),
    })
}

/// `None` for a slice that is not of our making.
pub fn read_source_slice(value: &Value) -> Result<Option<SourceSlice>, ConvertError> {
    let label = |key: &str| noted(value, "labels", key);
    let (Some(cluster), Some(name), Some(number)) =
        (label(SOURCE_CLUSTER), label(MCS_SERVICE_NAME), noted(value, "annotations", NUMBER))
    else {
        return Ok(None);
    };
    let slice: KubeSlice = shaped(value)?;
    let family = family("addressType", &slice.address_type)?;
    let namespace =
        label(SOURCE_NAMESPACE).ok_or_else(|| ConvertError::Missing { field: format!("label {SOURCE_NAMESPACE}") })?;
    let mut endpoints = Vec::new();
    for (i, endpoint) in slice.endpoints.iter().enumerate() {
        if let Some(Read { address, hostname, ready, .. }) = read_endpoint(i, endpoint)? {
            if Family::of(address) != family {
                return Err(ConvertError::bad(
                    format!("endpoints[{i}].addresses[0]"),
                    address,
                    format!("not {family}"),
                ));
            }
            endpoints.push(SourceEndpoint { address, hostname, ready });
        }
    }
    Ok(Some(SourceSlice {
        cluster: parse(format!("label {SOURCE_CLUSTER}"), cluster)?,
        key: ServiceKey {
            namespace: parse(format!("label {SOURCE_NAMESPACE}"), namespace)?,
            name: parse(format!("label {MCS_SERVICE_NAME}"), name)?,
        },
        family,
        number: parse(format!("annotation {NUMBER}"), number)?,
        endpoints: endpoints.into(),
        ports: read_ports(slice.ports)?.into_iter().collect(),
    }))
}

pub fn write_source_slice(slice: &SourceSlice) -> Value {
    let endpoint = |endpoint: &SourceEndpoint| {
        json!({
            "addresses": [endpoint.address],
            "hostname": endpoint.hostname,
            "conditions": { "ready": endpoint.ready },
        })
    };
    json!({
        "metadata": {
            "labels": {
                MANAGED_BY: MANAGER,
                MCS_SERVICE_NAME: slice.key.name,
                SOURCE_CLUSTER: slice.cluster,
                SOURCE_NAMESPACE: slice.key.namespace,
            },
            "annotations": { NUMBER: slice.number.to_string() },
        },
        "addressType": slice.family.to_string(),
        "endpoints": slice.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": ports_json(&slice.ports),
    })
}

struct Read {
    address: IpAddr,
    hostname: Option<Label>,
    node: Option<NodeName>,
    ready: bool,
}

/// `None` for an endpoint without an address.
fn read_endpoint(i: usize, endpoint: &KubeEndpoint) -> Result<Option<Read>, ConvertError> {
    // Consumers take the first address (discovery/v1).
    let Some(address) = endpoint.addresses.first() else { return Ok(None) };
    let field = |name: &str| format!("endpoints[{i}].{name}");
    let hostname = endpoint.hostname.as_deref().filter(|name| !name.is_empty());
    Ok(Some(Read {
        address: parse(field("addresses[0]"), address)?,
        hostname: hostname.map(|name| parse(field("hostname"), name)).transpose()?,
        node: endpoint.node_name.as_deref().map(|node| parse(field("nodeName"), node)).transpose()?,
        ready: endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true),
    }))
}

fn read_ports(listed: Option<Vec<EndpointPort>>) -> Result<Vec<tombolo_core::model::Port>, ConvertError> {
    let spec = |port: EndpointPort| PortSpec {
        name: port.name,
        protocol: port.protocol,
        port: port.port,
        app_protocol: port.app_protocol,
    };
    let listed: Vec<PortSpec> = listed.unwrap_or_default().into_iter().map(spec).collect();
    ports("ports", &listed)
}
