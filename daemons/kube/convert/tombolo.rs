//! `tombolo.dev/v1alpha1`: Candidates and Export.

use super::cluster::{port_number, protocol_name};
use super::field::{ConvertError, WithSpec, micro_time, parse, parse_all, shaped, wall};
use super::submariner::{key_text, read_key};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tombolo_core::base::{Epoch, Slot};
use tombolo_core::model::{Candidate, Candidates, ExportRecord, Port, Protocol, ServiceKey, ServiceType};

#[derive(Serialize, Deserialize)]
struct CandidatesSpec {
    cluster: String,
    epoch: u64,
    #[serde(default)]
    candidates: Vec<CandidateSpec>,
}

#[derive(Serialize, Deserialize)]
struct CandidateSpec {
    slot: u8,
    node: String,
    address: String,
    probe: String,
    #[serde(default)]
    keys: Vec<String>,
}

pub fn read_candidates(value: &Value) -> Result<Candidates, ConvertError> {
    let WithSpec::<CandidatesSpec> { spec } = shaped(value)?;
    let mut by_slot = BTreeMap::new();
    for (i, candidate) in spec.candidates.iter().enumerate() {
        let field = |name: &str| format!("spec.candidates[{i}].{name}");
        let slot =
            Slot::try_from(candidate.slot).map_err(|error| ConvertError::bad(field("slot"), candidate.slot, error))?;
        let keys = candidate.keys.iter().map(|key| read_key(&field("keys"), key)).collect::<Result<_, _>>()?;
        let read = Candidate {
            node: parse(field("node"), &candidate.node)?,
            address: parse(field("address"), &candidate.address)?,
            keys,
            probe: parse(field("probe"), &candidate.probe)?,
        };
        if by_slot.insert(slot, read).is_some() {
            return Err(ConvertError::bad(field("slot"), slot, "given twice"));
        }
    }
    Ok(Candidates { cluster: parse("spec.cluster", &spec.cluster)?, epoch: Epoch(spec.epoch), by_slot })
}

pub fn write_candidates(record: &Candidates) -> Value {
    let candidate = |(slot, candidate): (&Slot, &Candidate)| CandidateSpec {
        slot: slot.get(),
        node: candidate.node.to_string(),
        address: candidate.address.to_string(),
        probe: candidate.probe.to_string(),
        keys: candidate.keys.iter().map(key_text).collect(),
    };
    let spec = CandidatesSpec {
        cluster: record.cluster.to_string(),
        epoch: record.epoch.0,
        candidates: record.by_slot.iter().map(candidate).collect(),
    };
    json!({ "metadata": {}, "spec": spec })
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportSpec {
    cluster: String,
    namespace: String,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    ports: Vec<ExportPort>,
    #[serde(default)]
    addresses: Vec<String>,
    ready: bool,
    created: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportPort {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    protocol: String,
    port: i32,
    target_port: i32,
}

pub fn read_export(value: &Value) -> Result<ExportRecord, ConvertError> {
    let WithSpec::<ExportSpec> { spec } = shaped(value)?;
    let service_type = match spec.kind.as_str() {
        "ClusterIP" => ServiceType::ClusterIp,
        "Headless" => ServiceType::Headless,
        other => return Err(ConvertError::bad("spec.type", format!("{other:?}"), "it is ClusterIP or Headless")),
    };
    let mut ports = Vec::new();
    for (i, port) in spec.ports.iter().enumerate() {
        let field = |name: &str| format!("spec.ports[{i}].{name}");
        let protocol = match port.protocol.as_str() {
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            other => return Err(ConvertError::bad(field("protocol"), other, "it is TCP or UDP")),
        };
        ports.push(Port {
            name: port.name.as_deref().map(|name| parse(field("name"), name)).transpose()?,
            protocol,
            port: port_number(&field("port"), port.port)?,
            target: port_number(&field("targetPort"), port.target_port)?,
        });
    }
    let stamp: Timestamp = parse("spec.created", &spec.created)?;
    Ok(ExportRecord {
        cluster: parse("spec.cluster", &spec.cluster)?,
        key: ServiceKey { namespace: parse("spec.namespace", &spec.namespace)?, name: parse("spec.name", &spec.name)? },
        service_type,
        ports,
        addresses: parse_all("spec.addresses", &spec.addresses)?,
        ready: spec.ready,
        created: wall("spec.created", stamp)?,
    })
}

pub fn write_export(record: &ExportRecord) -> Result<Value, ConvertError> {
    let kind = match record.service_type {
        ServiceType::ClusterIp => "ClusterIP",
        ServiceType::Headless => "Headless",
        ServiceType::ExternalName => {
            let because = "an ExternalName service cannot be exported".into();
            return Err(ConvertError::Unsayable { field: "spec.type".into(), because });
        }
    };
    let port = |port: &Port| ExportPort {
        name: port.name.as_ref().map(ToString::to_string),
        protocol: protocol_name(port.protocol).into(),
        port: port.port.into(),
        target_port: port.target.into(),
    };
    let spec = ExportSpec {
        cluster: record.cluster.to_string(),
        namespace: record.key.namespace.to_string(),
        name: record.key.name.to_string(),
        kind: kind.into(),
        ports: record.ports.iter().map(port).collect(),
        addresses: record.addresses.iter().map(ToString::to_string).collect(),
        ready: record.ready,
        created: micro_time("spec.created", record.created)?,
    };
    Ok(json!({ "metadata": {}, "spec": spec }))
}
