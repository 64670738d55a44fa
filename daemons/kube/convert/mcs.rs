//! `multicluster.x-k8s.io`: ServiceExport and ServiceImport.

use super::cluster::{list, port_name, port_number, protocol, protocol_name, service_key};
use super::field::{ConvertError, WithSpec, created, noted, parse, shaped};
use super::{SOURCES, TARGET_PORTS};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Import, Port, ServiceExport, ServiceType, Source};

pub fn read_export(value: &Value) -> Result<ServiceExport, ConvertError> {
    Ok(ServiceExport { key: service_key(value)?, created: created(value)? })
}

pub fn write_export(export: &ServiceExport) -> Value {
    // Servers set this themselves when a user creates the export.
    let secs = i64::try_from(export.created.unix_secs()).unwrap_or(i64::MAX);
    let stamp = Timestamp::from_second(secs).map(|stamp| stamp.to_string()).ok();
    json!({ "metadata": { "creationTimestamp": stamp } })
}

#[derive(Deserialize)]
struct ImportSpec {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    ports: Vec<ImportPort>,
}

#[derive(Deserialize)]
struct ImportPort {
    name: Option<String>,
    protocol: Option<String>,
    port: i32,
}

/// One exporting cluster, in our annotation.
#[derive(Serialize, Deserialize)]
struct SourceNote {
    addresses: Vec<IpAddr>,
    ready: bool,
}

pub fn read_import(value: &Value) -> Result<Import, ConvertError> {
    let WithSpec::<ImportSpec> { spec } = shaped(value)?;
    let service_type = match spec.kind.as_str() {
        "ClusterSetIP" => ServiceType::ClusterIp,
        "Headless" => ServiceType::Headless,
        other => return Err(ConvertError::bad("spec.type", format!("{other:?}"), "it is ClusterSetIP or Headless")),
    };
    let mut targets = noted(value, "annotations", TARGET_PORTS).unwrap_or_default().split(',');
    let mut ports = BTreeSet::new();
    for (i, port) in spec.ports.iter().enumerate() {
        let field = |name: &str| format!("spec.ports[{i}].{name}");
        let target = targets.next().filter(|target| !target.is_empty());
        let Some(protocol) = protocol(&field("protocol"), port.protocol.as_deref())? else { continue };
        let number = port_number(&field("port"), port.port)?;
        ports.insert(Port {
            name: port_name(&field("name"), port.name.as_deref())?,
            protocol,
            port: number,
            target: target.map_or(Ok(number), |target| parse(format!("annotation {TARGET_PORTS}"), target))?,
        });
    }
    Ok(Import { key: service_key(value)?, service_type, ports, sources: read_sources(value)? })
}

/// The clusters of the status, with the addresses of our annotation. The two are written one after the other: what only
/// one of them names is not written yet. An import that others wrote has no annotation: its addresses are in slices, and
/// nothing can be answered from it.
fn read_sources(value: &Value) -> Result<BTreeMap<ClusterId, Source>, ConvertError> {
    let field = format!("annotation {SOURCES}");
    let notes: Option<BTreeMap<String, SourceNote>> = noted(value, "annotations", SOURCES)
        .map(|note| serde_json::from_str(note).map_err(|error| ConvertError::bad(&field, note, error)))
        .transpose()?;
    let mut sources = BTreeMap::new();
    for cluster in list(value, "status.clusters")? {
        let name = cluster["cluster"].as_str().unwrap_or_default();
        let source = match &notes {
            None => Source { addresses: Vec::new(), ready: false },
            Some(notes) => match notes.get(name) {
                Some(note) => Source { addresses: note.addresses.clone(), ready: note.ready },
                None => continue,
            },
        };
        sources.insert(parse("status.clusters[].cluster", name)?, source);
    }
    Ok(sources)
}

pub fn write_import(import: &Import) -> Result<Value, ConvertError> {
    let kind = match import.service_type {
        ServiceType::ClusterIp => "ClusterSetIP",
        ServiceType::Headless => "Headless",
        ServiceType::ExternalName => {
            let because = "an ExternalName service cannot be imported".into();
            return Err(ConvertError::Unsayable { field: "spec.type".into(), because });
        }
    };
    let port = |port: &Port| json!({ "name": port.name, "protocol": protocol_name(port.protocol), "port": port.port });
    let targets: Vec<_> = import.ports.iter().map(|port| port.target.to_string()).collect();
    let note = |source: &Source| SourceNote { addresses: source.addresses.clone(), ready: source.ready };
    let notes: BTreeMap<&str, _> =
        import.sources.iter().map(|(cluster, source)| (cluster.as_str(), note(source))).collect();
    let clusters: Vec<_> = import.sources.keys().map(|cluster| json!({ "cluster": cluster })).collect();
    Ok(json!({
        "metadata": { "annotations": { SOURCES: json!(notes).to_string(), TARGET_PORTS: targets.join(",") } },
        "spec": { "type": kind, "ports": import.ports.iter().map(port).collect::<Vec<_>>(), "ips": [] },
        "status": { "clusters": clusters },
    }))
}
