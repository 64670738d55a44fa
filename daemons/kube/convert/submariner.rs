//! `submariner.io/v1`: Cluster, Endpoint, Gateway.

use super::field::{ConvertError, WithSpec, epoch, epoch_note, noted, parse, parse_all, shaped, text};
use super::{EPOCH, KEYS};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tombolo_core::base::{ClusterId, Epoch};
use tombolo_core::model::{CableDriver, CableKey, ClusterRecord, Endpoint, Gateway, Reach};

/// Key in the `backend_config` of an Endpoint.
const DISCOVERY_PORT: &str = "natt-discovery-port";

/// `spec` of a Cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct ClusterSpec {
    cluster_id: String,
    #[serde(default)]
    cluster_cidr: Vec<String>,
    #[serde(default)]
    service_cidr: Vec<String>,
    #[serde(default)]
    global_cidr: Vec<String>,
    #[serde(default)]
    color_codes: Vec<String>,
}

/// `spec` of an Endpoint, also inside a Gateway.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct EndpointSpec {
    cluster_id: String,
    #[serde(default)]
    cable_name: String,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    subnets: Vec<String>,
    #[serde(default)]
    private_ip: String,
    #[serde(default)]
    public_ip: String,
    #[serde(default)]
    nat_enabled: bool,
    #[serde(default)]
    backend: String,
    #[serde(default)]
    backend_config: BTreeMap<String, String>,
}

/// `status` of a Gateway, which is an ordinary field.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GatewayStatus {
    ha_status: String,
    local_endpoint: EndpointSpec,
    connections: Vec<Connection>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
struct Connection {
    status: String,
    #[serde(rename = "statusMessage")]
    status_message: String,
    endpoint: EndpointSpec,
}

#[derive(Deserialize)]
struct WithStatus<S> {
    status: S,
}

pub fn read_cluster(value: &Value) -> Result<ClusterRecord, ConvertError> {
    let WithSpec::<ClusterSpec> { spec } = shaped(value)?;
    Ok(ClusterRecord {
        cluster: parse("spec.cluster_id", &spec.cluster_id)?,
        pods: parse_all("spec.cluster_cidr", &spec.cluster_cidr)?,
        services: parse_all("spec.service_cidr", &spec.service_cidr)?,
        epoch: epoch(value)?,
    })
}

pub fn write_cluster(record: &ClusterRecord) -> Value {
    let texts = |ranges: &[tombolo_core::base::Cidr]| ranges.iter().map(ToString::to_string).collect();
    let spec = ClusterSpec {
        cluster_id: record.cluster.to_string(),
        cluster_cidr: texts(&record.pods),
        service_cidr: texts(&record.services),
        global_cidr: Vec::new(),
        color_codes: Vec::new(),
    };
    json!({ "metadata": { "annotations": { EPOCH: epoch_note(record.epoch) } }, "spec": spec })
}

pub fn read_endpoint(value: &Value) -> Result<Endpoint, ConvertError> {
    let WithSpec::<EndpointSpec> { spec } = shaped(value)?;
    Ok(Endpoint {
        cluster: parse("spec.cluster_id", &spec.cluster_id)?,
        node: parse("spec.hostname", &spec.hostname)?,
        private_ip: parse("spec.private_ip", &spec.private_ip)?,
        public_ip: read_public("spec.public_ip", &spec.public_ip)?,
        nat_enabled: spec.nat_enabled,
        discovery_port: read_discovery_port(&spec.backend_config),
        subnets: parse_all("spec.subnets", &spec.subnets)?,
        driver: read_driver(&spec.backend)?,
        epoch: epoch(value)?,
        cable_name: spec.cable_name,
    })
}

pub fn write_endpoint(endpoint: &Endpoint) -> Value {
    let spec = EndpointSpec {
        cluster_id: endpoint.cluster.to_string(),
        cable_name: endpoint.cable_name.clone(),
        hostname: endpoint.node.to_string(),
        subnets: endpoint.subnets.iter().map(ToString::to_string).collect(),
        private_ip: endpoint.private_ip.to_string(),
        public_ip: endpoint.public_ip.map(|address| address.to_string()).unwrap_or_default(),
        nat_enabled: endpoint.nat_enabled,
        backend: driver_name(endpoint.driver).into(),
        backend_config: write_discovery_port(endpoint.discovery_port),
    };
    json!({ "metadata": { "annotations": { EPOCH: epoch_note(endpoint.epoch) } }, "spec": spec })
}

/// An address that may be missing: then the text is empty.
fn read_public(field: &str, text: &str) -> Result<Option<IpAddr>, ConvertError> {
    Some(text).filter(|text| !text.is_empty()).map(|text| parse(field, text)).transpose()
}

/// A port that is none is as good as a missing one: who has it cannot be asked, and is dialled as its record says.
fn read_discovery_port(backend_config: &BTreeMap<String, String>) -> Option<u16> {
    backend_config.get(DISCOVERY_PORT)?.parse().ok().filter(|port| *port != 0)
}

fn write_discovery_port(port: Option<u16>) -> BTreeMap<String, String> {
    port.map(|port| (DISCOVERY_PORT.to_owned(), port.to_string())).into_iter().collect()
}

/// As Submariner names drivers (its IPsec is libreswan).
const fn driver_name(driver: CableDriver) -> &'static str {
    match driver {
        CableDriver::Wireguard => "wireguard",
        CableDriver::Vxlan => "vxlan",
        CableDriver::Ipsec => "libreswan",
    }
}

fn read_driver(name: &str) -> Result<CableDriver, ConvertError> {
    match name {
        "wireguard" => Ok(CableDriver::Wireguard),
        "vxlan" => Ok(CableDriver::Vxlan),
        "libreswan" | "strongswan" => Ok(CableDriver::Ipsec),
        other => Err(ConvertError::bad("spec.backend", format!("{other:?}"), "no cable driver that we know")),
    }
}

pub fn read_gateway(value: &Value) -> Result<Gateway, ConvertError> {
    let WithStatus::<GatewayStatus> { status } = shaped(value)?;
    let local = status.local_endpoint;
    let active = match status.ha_status.as_str() {
        "active" => Some(epoch(value)?),
        "passive" | "" => None,
        other => return Err(ConvertError::bad("status.haStatus", other, "it is active or passive")),
    };
    let mut reach: BTreeMap<ClusterId, Reach> = BTreeMap::new();
    let mut remarks = BTreeMap::new();
    for (i, connection) in status.connections.iter().enumerate() {
        let cluster: ClusterId =
            parse(format!("status.connections[{i}].endpoint.cluster_id"), &connection.endpoint.cluster_id)?;
        let said = match connection.status.as_str() {
            "connected" => Reach::Connected,
            "error" => Reach::Lost,
            _ => Reach::Unknown,
        };
        // The best of several cables to one cluster.
        let known = reach.entry(cluster.clone()).or_insert(said);
        *known = (*known).min(said);
        if !connection.status_message.is_empty() {
            remarks.insert(cluster, connection.status_message.clone());
        }
    }
    Ok(Gateway {
        node: parse("metadata.name", text(value, "metadata.name")?)?,
        address: parse("status.localEndpoint.private_ip", &local.private_ip)?,
        public: read_public("status.localEndpoint.public_ip", &local.public_ip)?,
        discovery_port: read_discovery_port(&local.backend_config),
        keys: read_keys(noted(value, "annotations", KEYS).unwrap_or_default())?,
        active,
        reach,
        remarks,
    })
}

pub fn write_gateway(gateway: &Gateway, own: &ClusterId) -> Value {
    let address = gateway.address.to_string();
    let dashed: String = address.chars().map(|c| if c.is_ascii_hexdigit() { c } else { '-' }).collect();
    let local = EndpointSpec {
        cluster_id: own.to_string(),
        cable_name: format!("submariner-cable-{own}-{dashed}"),
        hostname: gateway.node.to_string(),
        private_ip: address,
        public_ip: gateway.public.map(|public| public.to_string()).unwrap_or_default(),
        nat_enabled: gateway.public.is_some(),
        backend_config: write_discovery_port(gateway.discovery_port),
        ..EndpointSpec::default()
    };
    let connection = |(cluster, reach): (&ClusterId, &Reach)| {
        let remark = gateway.remarks.get(cluster).map_or("", String::as_str);
        let status = match reach {
            Reach::Connected => "connected",
            Reach::Unknown => "connecting",
            Reach::Lost => "error",
        };
        let endpoint = EndpointSpec { cluster_id: cluster.to_string(), ..EndpointSpec::default() };
        json!({ "status": status, "statusMessage": remark, "endpoint": endpoint })
    };
    let keys: Vec<_> = gateway.keys.iter().map(key_text).collect();
    let epoch = gateway.active.map_or(Value::Null, |Epoch(epoch)| json!(epoch.to_string()));
    json!({
        "metadata": { "annotations": {
            EPOCH: epoch,
            KEYS: if keys.is_empty() { Value::Null } else { json!(keys.join(",")) },
        } },
        "status": {
            "version": env!("CARGO_PKG_VERSION"),
            "haStatus": if gateway.active.is_some() { "active" } else { "passive" },
            "localEndpoint": local,
            "statusFailure": "",
            "connections": gateway.reach.iter().map(connection).collect::<Vec<_>>(),
        },
    })
}

/// A key as WireGuard writes it.
pub(super) fn key_text(key: &CableKey) -> String {
    BASE64.encode(&key.0)
}

pub(super) fn read_key(field: &str, text: &str) -> Result<CableKey, ConvertError> {
    let bad = |because: String| ConvertError::bad(field, format!("{text:?}"), because);
    let bytes = BASE64.decode(text.as_bytes()).map_err(|error| bad(error.to_string()))?;
    let length = bytes.len();
    bytes.try_into().map(CableKey).map_err(|_| bad(format!("{length} bytes, a public key has 32")))
}

fn read_keys(text: &str) -> Result<Vec<CableKey>, ConvertError> {
    let field = format!("annotation {KEYS}");
    text.split(',').filter(|part| !part.is_empty()).map(|part| read_key(&field, part)).collect()
}
