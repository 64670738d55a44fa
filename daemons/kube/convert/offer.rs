//! What a service offers, in the words of the MCS API: the spec of a ServiceImport and, with a little more, of our records.

use super::cluster::{port_name, port_number, protocol, protocol_name};
use super::field::ConvertError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tombolo_core::model::{Families, Family, InternalTrafficPolicy, Offer, Port, ServiceType, SessionAffinity};

/// By meaning, where `ClientIP` is said without a time (MCS API).
const AFFINITY_TIMEOUT_S: u32 = 10_800;
/// Longest time that the API takes for it: a day.
const AFFINITY_TIMEOUT_MAX_S: u32 = 86_400;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfferSpec {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    ports: Vec<PortSpec>,
    #[serde(default)]
    ip_families: Vec<String>,
    #[serde(default)]
    session_affinity: Option<String>,
    #[serde(default)]
    session_affinity_config: Option<AffinityConfig>,
    #[serde(default)]
    internal_traffic_policy: Option<String>,
    #[serde(default)]
    traffic_distribution: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PortSpec {
    pub name: Option<String>,
    pub protocol: Option<String>,
    pub port: Option<i32>,
    pub app_protocol: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AffinityConfig {
    #[serde(rename = "clientIP")]
    client_ip: Option<ClientIp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientIp {
    timeout_seconds: Option<u32>,
}

/// Labels and annotations that an import gets from the exports.
#[derive(Serialize, Deserialize, Default)]
pub(super) struct Notes {
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

pub(super) fn read(spec: OfferSpec, notes: Notes) -> Result<Offer, ConvertError> {
    let service_type = match spec.kind.as_str() {
        "ClusterSetIP" => ServiceType::ClusterIp,
        "Headless" => ServiceType::Headless,
        other => return Err(ConvertError::bad("spec.type", format!("{other:?}"), "it is ClusterSetIP or Headless")),
    };
    let config = spec.session_affinity_config.and_then(|config| config.client_ip);
    let timeout_s = config.and_then(|client_ip| client_ip.timeout_seconds);
    Ok(Offer {
        ports: ports("spec.ports", &spec.ports)?.into_iter().collect(),
        families: families("spec.ipFamilies", &spec.ip_families)?,
        affinity: affinity("spec.sessionAffinity", spec.session_affinity.as_deref(), timeout_s)?,
        internal_traffic: internal_traffic("spec.internalTrafficPolicy", spec.internal_traffic_policy.as_deref())?,
        traffic_distribution: spec.traffic_distribution.filter(|text| !text.is_empty()),
        labels: notes.labels,
        annotations: notes.annotations,
        service_type,
    })
}

pub(super) fn write(offer: &Offer) -> Result<Value, ConvertError> {
    let kind = match offer.service_type {
        ServiceType::ClusterIp => "ClusterSetIP",
        ServiceType::Headless => "Headless",
        ServiceType::ExternalName => {
            let because = "an ExternalName service cannot be exported".into();
            return Err(ConvertError::Unsayable { field: "spec.type".into(), because });
        }
    };
    let (affinity, timeout_s) = affinity_text(offer.affinity);
    let config = timeout_s.map(|timeout_s| json!({ "clientIP": { "timeoutSeconds": timeout_s } }));
    Ok(json!({
        "type": kind,
        "ports": ports_json(&offer.ports),
        "ipFamilies": offer.families.into_iter().map(|family| family.to_string()).collect::<Vec<_>>(),
        "sessionAffinity": affinity,
        "sessionAffinityConfig": config,
        "internalTrafficPolicy": internal_traffic_text(offer.internal_traffic),
        "trafficDistribution": offer.traffic_distribution,
    }))
}

/// Ports of any object that lists them; without those of SCTP, which is not carried, and without any that has no number.
pub(super) fn ports(field: &str, ports: &[PortSpec]) -> Result<Vec<Port>, ConvertError> {
    let mut read = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("{field}[{i}].{name}");
        let protocol = protocol(&field("protocol"), port.protocol.as_deref())?;
        let (Some(protocol), Some(number)) = (protocol, port.port) else { continue };
        read.push(Port {
            name: port_name(&field("name"), port.name.as_deref())?,
            protocol,
            port: port_number(&field("port"), number)?,
            app_protocol: port.app_protocol.clone().filter(|text| !text.is_empty()),
        });
    }
    Ok(read)
}

pub(super) fn ports_json<'a>(ports: impl IntoIterator<Item = &'a Port>) -> Value {
    ports.into_iter().map(port_json).collect()
}

pub(super) fn port_json(port: &Port) -> Value {
    let Port { name, protocol, port, app_protocol } = port;
    json!({ "name": name, "protocol": protocol_name(*protocol), "port": port, "appProtocol": app_protocol })
}

pub(super) fn families(field: &str, families: &[String]) -> Result<Families, ConvertError> {
    families.iter().enumerate().map(|(i, text)| family(&format!("{field}[{i}]"), text)).collect()
}

pub(super) fn family(field: &str, text: &str) -> Result<Family, ConvertError> {
    match text {
        "IPv4" => Ok(Family::V4),
        "IPv6" => Ok(Family::V6),
        other => Err(ConvertError::bad(field, format!("{other:?}"), "an address family is IPv4 or IPv6")),
    }
}

pub(super) fn affinity(
    field: &str,
    text: Option<&str>,
    timeout_s: Option<u32>,
) -> Result<SessionAffinity, ConvertError> {
    match text {
        None | Some("" | "None") => Ok(SessionAffinity::None),
        Some("ClientIP") => match timeout_s.unwrap_or(AFFINITY_TIMEOUT_S) {
            timeout_s @ 1..=AFFINITY_TIMEOUT_MAX_S => Ok(SessionAffinity::ClientIp { timeout_s }),
            other => {
                Err(ConvertError::bad(format!("{field}Config.clientIP.timeoutSeconds"), other, "it is from 1 to 86400"))
            }
        },
        Some(other) => Err(ConvertError::bad(field, format!("{other:?}"), "it is None or ClientIP")),
    }
}

pub(super) const fn affinity_text(affinity: SessionAffinity) -> (&'static str, Option<u32>) {
    match affinity {
        SessionAffinity::None => ("None", None),
        SessionAffinity::ClientIp { timeout_s } => ("ClientIP", Some(timeout_s)),
    }
}

pub(super) fn internal_traffic(field: &str, text: Option<&str>) -> Result<InternalTrafficPolicy, ConvertError> {
    match text {
        None | Some("" | "Cluster") => Ok(InternalTrafficPolicy::Cluster),
        Some("Local") => Ok(InternalTrafficPolicy::Local),
        Some(other) => Err(ConvertError::bad(field, format!("{other:?}"), "it is Cluster or Local")),
    }
}

pub(super) const fn internal_traffic_text(policy: InternalTrafficPolicy) -> &'static str {
    match policy {
        InternalTrafficPolicy::Cluster => "Cluster",
        InternalTrafficPolicy::Local => "Local",
    }
}

/// A note in an annotation, as JSON.
pub(super) fn note<T: serde::de::DeserializeOwned>(annotation: &str, text: &str) -> Result<T, ConvertError> {
    serde_json::from_str(text).map_err(|error| ConvertError::bad(format!("annotation {annotation}"), text, error))
}
