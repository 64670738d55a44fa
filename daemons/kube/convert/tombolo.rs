//! `tombolo.dev/v1alpha1`: Candidates, Claims, Export and ExportSummary.

use super::field::{ConvertError, WithSpec, micro_time, parse, parse_all, shaped, wall};
use super::offer::{self, Notes, OfferSpec};
use super::submariner::{key_text, read_key};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use tombolo_core::base::{ClusterId, Epoch, Slot};
use tombolo_core::model::{Candidate, Candidates, Claim, Claims, ExportRecord, ExportSummary, Ranges, ServiceKey};

#[derive(Serialize, Deserialize)]
struct CandidatesSpec {
    cluster: String,
    epoch: u64,
    #[serde(default)]
    candidates: Vec<CandidateSpec>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CandidateSpec {
    slot: u8,
    node: String,
    address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    discovery_port: Option<u16>,
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
            public: candidate.public.as_ref().map(|public| parse(field("public"), public)).transpose()?,
            discovery_port: candidate.discovery_port.filter(|port| *port != 0),
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
        public: candidate.public.map(|public| public.to_string()),
        discovery_port: candidate.discovery_port,
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
struct ClaimsSpec {
    #[serde(default)]
    members: Vec<ClaimSpec>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<LeftSpec>,
}

/// A cluster that has left, and the last epoch in which it announced.
#[derive(Serialize, Deserialize)]
struct LeftSpec {
    cluster: String,
    epoch: u64,
}

/// Each range in its text form. What a cluster does not have is left out.
#[derive(Serialize, Deserialize)]
struct ClaimSpec {
    cluster: String,
    identity: String,
    #[serde(default)]
    epoch: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pods: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    services: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    global: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    overlay: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
}

pub fn read_claims(value: &Value) -> Result<Claims, ConvertError> {
    let WithSpec::<ClaimsSpec> { spec } = shaped(value)?;
    let mut members = BTreeMap::new();
    for (i, claim) in spec.members.iter().enumerate() {
        let field = |name: &str| format!("spec.members[{i}].{name}");
        let ranges = Ranges {
            pods: parse_all(&field("pods"), &claim.pods)?,
            services: parse_all(&field("services"), &claim.services)?,
            global: parse_all(&field("global"), &claim.global)?,
            overlay: parse_all(&field("overlay"), &claim.overlay)?,
            nodes: parse_all(&field("nodes"), &claim.nodes)?,
        };
        let read = Claim { identity: claim.identity.clone(), ranges, epoch: Epoch(claim.epoch) };
        if members.insert(parse(field("cluster"), &claim.cluster)?, read).is_some() {
            return Err(ConvertError::bad(field("cluster"), &claim.cluster, "given twice"));
        }
    }
    let mut left = BTreeMap::new();
    for (i, LeftSpec { cluster, epoch }) in spec.left.iter().enumerate() {
        let field = || format!("spec.left[{i}].cluster");
        if left.insert(parse(field(), cluster)?, Epoch(*epoch)).is_some() {
            return Err(ConvertError::bad(field(), cluster, "given twice"));
        }
    }
    Ok(Claims { members, left })
}

pub fn write_claims(claims: &Claims) -> Value {
    let member = |(cluster, claim): (&ClusterId, &Claim)| ClaimSpec {
        cluster: cluster.to_string(),
        identity: claim.identity.clone(),
        epoch: claim.epoch.0,
        pods: texts(&claim.ranges.pods),
        services: texts(&claim.ranges.services),
        global: texts(&claim.ranges.global),
        overlay: texts(&claim.ranges.overlay),
        nodes: texts(&claim.ranges.nodes),
    };
    let left = claims.left.iter().map(|(cluster, epoch)| LeftSpec { cluster: cluster.to_string(), epoch: epoch.0 });
    let spec = ClaimsSpec { members: claims.members.iter().map(member).collect(), left: left.collect() };
    json!({ "metadata": {}, "spec": spec })
}

fn texts<T: Display>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportSpec {
    cluster: String,
    namespace: String,
    name: String,
    created: String,
    #[serde(default)]
    exported_labels: BTreeMap<String, String>,
    #[serde(default)]
    exported_annotations: BTreeMap<String, String>,
    #[serde(flatten)]
    offer: OfferSpec,
}

pub fn read_export(value: &Value) -> Result<ExportRecord, ConvertError> {
    let WithSpec::<ExportSpec> { spec } = shaped(value)?;
    let stamp: Timestamp = parse("spec.created", &spec.created)?;
    let notes = Notes { labels: spec.exported_labels, annotations: spec.exported_annotations };
    Ok(ExportRecord {
        cluster: parse("spec.cluster", &spec.cluster)?,
        key: ServiceKey { namespace: parse("spec.namespace", &spec.namespace)?, name: parse("spec.name", &spec.name)? },
        created: wall("spec.created", stamp)?,
        offer: Arc::new(offer::read(spec.offer, notes)?),
    })
}

pub fn write_export(record: &ExportRecord) -> Result<Value, ConvertError> {
    let mut spec = offer::write(&record.offer)?;
    spec["cluster"] = json!(record.cluster);
    spec["namespace"] = json!(record.key.namespace);
    spec["name"] = json!(record.key.name);
    spec["created"] = json!(micro_time("spec.created", record.created)?);
    spec["exportedLabels"] = json!(record.offer.labels);
    spec["exportedAnnotations"] = json!(record.offer.annotations);
    Ok(json!({ "metadata": {}, "spec": spec }))
}

#[derive(Serialize, Deserialize)]
struct SummarySpec {
    cluster: String,
    generation: u64,
    digest: String,
}

pub fn read_summary(value: &Value) -> Result<ExportSummary, ConvertError> {
    let WithSpec::<SummarySpec> { spec } = shaped(value)?;
    Ok(ExportSummary {
        cluster: parse("spec.cluster", &spec.cluster)?,
        generation: spec.generation,
        digest: parse("spec.digest", &spec.digest)?,
    })
}

pub fn write_summary(summary: &ExportSummary) -> Value {
    let spec = SummarySpec {
        cluster: summary.cluster.to_string(),
        generation: summary.generation,
        digest: summary.digest.to_string(),
    };
    json!({ "metadata": {}, "spec": spec })
}
