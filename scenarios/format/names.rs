//! What a scenario names, and references to it: `west/gw-a`, `west/active-gateway`, `east/shop/web`, `broker`.
//!
//! A reference is checked against what the file defines. Where a definition could not be read, references to it are
//! believed: one mistake is told once.

use super::report::Report;
use super::tree::{Node, Word};
use super::values::{Kind, name, no, parse_dns_name, parse_port};
use super::wrong::{Same, Wrong};
use crate::{ApiRef, Broker, NodeRef, NodeSpec, Side, Target, Watched, Which};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tombolo_core::base::{ClusterId, NodeName};
use tombolo_core::model::{Protocol, ServiceKey};
use tombolo_core::nat::boxes::Behaviour;

/// Names that mean something else in references to nodes.
const NODE_WORDS: [&str; 4] = ["active-gateway", "last-powered-off", "last-crashed", "api"];
const GATEWAY_TO: &str = "gateway-to-";
pub(super) const PATH_TO: &str = "path-to-";
/// The zone of services of the clusterset.
const ZONE: &str = ".svc.clusterset.local";

/// Whether a node may not have this name.
pub(super) fn reserved_for_nodes(name: &str) -> bool {
    NODE_WORDS.contains(&name) || name.starts_with(GATEWAY_TO) || name.starts_with(PATH_TO)
}

/// Whether a cluster may not have this name.
pub(super) fn reserved_for_clusters(name: &str) -> bool {
    matches!(name, "broker" | "own")
}

/// A cluster's nodes.
#[derive(Clone, Default, Debug)]
pub(super) struct Members {
    /// Those that could be read.
    pub nodes: Vec<NodeSpec>,
    /// Whether that is all.
    pub whole: bool,
    /// Whether they are behind a NAT box.
    pub nat: bool,
    /// How that box behaves, if that could be read.
    pub behaviour: Option<Behaviour>,
    /// Whether it is no member at the start.
    pub apart: bool,
}

/// What the file defines.
#[derive(Default, Debug)]
pub(super) struct Names {
    /// Clusters.
    pub clusters: BTreeMap<ClusterId, Members>,
    /// Whether all of them could be read.
    pub clusters_whole: bool,
    /// Services with their ports.
    pub services: BTreeMap<(ClusterId, ServiceKey), Vec<(u16, Protocol)>>,
    /// Whether all of them could be read.
    pub services_whole: bool,
    /// Where the broker is, if that could be read.
    pub broker: Option<Broker>,
}

impl Names {
    /// The cluster that a part of `word` names.
    pub fn cluster(&self, word: &Word, part: (usize, usize), report: &mut Report) -> Option<ClusterId> {
        let text = word.text.get(part.0..part.1).unwrap_or_default();
        let id: Option<ClusterId> = text.parse().ok();
        match id {
            Some(id) if self.clusters.contains_key(&id) => Some(id),
            _ => {
                if self.clusters_whole {
                    let known = self.clusters.keys().map(ToString::to_string).collect();
                    report.add(word.part(part.0, part.1), Wrong::UnknownCluster { name: text.to_owned(), known });
                }
                None
            }
        }
    }

    /// `cluster`, as a whole value.
    pub fn cluster_at(&self, node: &Node, report: &mut Report) -> Option<ClusterId> {
        let word = node.word(Kind::Cluster.form(), report)?;
        self.cluster(word, (0, word.text.len()), report)
    }

    /// `cluster/which`.
    pub fn node(&self, node: &Node, report: &mut Report) -> Option<NodeRef> {
        let word = node.word(Kind::Node.form(), report)?;
        let Some(slash) = word.text.find('/') else {
            return self.node_without_cluster(word, report);
        };
        self.node_behind(word, slash, report)
    }

    fn node_without_cluster(&self, word: &Word, report: &mut Report) -> Option<NodeRef> {
        let text = word.text.as_str();
        if self.clusters.keys().any(|cluster| cluster.as_str() == text) {
            return no(word, Kind::Node, report);
        }
        let has = |members: &Members| members.nodes.iter().any(|node| node.name.as_str() == text);
        let home = self.clusters.iter().find(|(_, members)| NODE_WORDS.contains(&text) || has(members));
        let meant = home.map(|(cluster, _)| format!("{cluster}/{text}"));
        report.add(word.span.clone(), Wrong::NoCluster { text: text.to_owned(), meant });
        None
    }

    /// The node behind the slash at this byte of `word`.
    fn node_behind(&self, word: &Word, slash: usize, report: &mut Report) -> Option<NodeRef> {
        let cluster = self.cluster(word, (0, slash), report)?;
        let start = slash + 1;
        let end = word.text.len();
        let which = match word.text.get(start..).unwrap_or_default() {
            "active-gateway" => Which::ActiveGateway,
            "last-powered-off" => Which::LastPoweredOff,
            "last-crashed" => Which::LastCrashed,
            text if text.starts_with(GATEWAY_TO) => {
                Which::GatewayTo(self.other_cluster(word, (start + GATEWAY_TO.len(), end), &cluster, report)?)
            }
            text => Which::Named(self.named(word, text, start, &cluster, report)?),
        };
        Some(NodeRef { cluster, which })
    }

    fn named(
        &self,
        word: &Word,
        text: &str,
        start: usize,
        cluster: &ClusterId,
        report: &mut Report,
    ) -> Option<NodeName> {
        let members = self.clusters.get(cluster)?;
        if let Some(node) = members.nodes.iter().find(|node| node.name.as_str() == text) {
            return Some(node.name.clone());
        }
        if members.whole {
            let known = members.nodes.iter().map(|node| node.name.to_string());
            let known = known.chain(NODE_WORDS[..3].iter().map(|&word| word.to_owned())).collect();
            let wrong = Wrong::UnknownNode { cluster: cluster.clone(), name: text.to_owned(), known };
            report.add(word.part(start, word.text.len()), wrong);
        }
        None
    }

    fn other_cluster(
        &self,
        word: &Word,
        part: (usize, usize),
        own: &ClusterId,
        report: &mut Report,
    ) -> Option<ClusterId> {
        let other = self.cluster(word, part, report)?;
        if other == *own {
            report.add(word.part(part.0, part.1), Wrong::Same(Same::Path));
            return None;
        }
        Some(other)
    }

    /// The API server of a cluster or of the broker, as `of:` in the verb `api` has it.
    pub fn api(&self, node: &Node, report: &mut Report) -> Option<ApiRef> {
        let word = node.word(Kind::Api.form(), report)?;
        if word.text == "broker" {
            return Some(self.broker_api());
        }
        let end = word.text.strip_suffix("/api").map_or(word.text.len(), str::len);
        self.cluster(word, (0, end), report).map(ApiRef::Cluster)
    }

    /// Where a member is the broker, its API is the broker's.
    fn broker_api(&self) -> ApiRef {
        match &self.broker {
            Some(Broker::Member(cluster)) => ApiRef::Cluster(cluster.clone()),
            Some(Broker::Own) | None => ApiRef::Broker,
        }
    }

    /// One side of a cut.
    pub fn side(&self, node: &Node, report: &mut Report) -> Option<Side> {
        let word = node.word(Kind::Side.form(), report)?;
        if word.text == "broker" {
            return Some(Side::Api(self.broker_api()));
        }
        let Some(slash) = word.text.find('/') else {
            return self.cluster(word, (0, word.text.len()), report).map(Side::Cluster);
        };
        if word.text.get(slash..) == Some("/api") {
            return self.cluster(word, (0, slash), report).map(|cluster| Side::Api(ApiRef::Cluster(cluster)));
        }
        self.node_behind(word, slash, report).map(Side::Node)
    }

    /// `cluster/namespace/name`.
    pub fn service(&self, node: &Node, report: &mut Report) -> Option<(ClusterId, ServiceKey)> {
        let word = node.word(Kind::Service.form(), report)?;
        let text = word.text.as_str();
        let slashes: Vec<usize> = text.match_indices('/').map(|(at, _)| at).collect();
        let [first, second] = slashes[..] else {
            return no(word, Kind::Service, report);
        };
        let cluster = self.cluster(word, (0, first), report)?;
        let namespace = name(word, (first + 1, second), "namespace", report)?;
        let service = name(word, (second + 1, text.len()), "service name", report)?;
        let full = (cluster, ServiceKey { namespace, name: service });
        if !self.services.contains_key(&full) && self.services_whole {
            let known = self.services.keys().map(|(cluster, key)| format!("{cluster}/{key}")).collect();
            report.add(word.span.clone(), Wrong::UnknownService { name: text.to_owned(), known });
            return None;
        }
        Some(full)
    }

    /// `cluster/active-gateway` or `cluster/path-to-<cluster>`.
    pub fn watched(&self, node: &Node, report: &mut Report) -> Option<Watched> {
        let word = node.word(Kind::Watched.form(), report)?;
        let text = word.text.as_str();
        let Some(slash) = text.find('/') else {
            return no(word, Kind::Watched, report);
        };
        let start = slash + 1;
        match text.get(start..) {
            Some("active-gateway") => self.cluster(word, (0, slash), report).map(Watched::ActiveGateway),
            Some(path) if path.starts_with(PATH_TO) => {
                let own = self.cluster(word, (0, slash), report)?;
                let other = self.other_cluster(word, (start + PATH_TO.len(), text.len()), &own, report)?;
                Some(Watched::PathTo(own, other))
            }
            _ => no(word, Kind::Watched, report),
        }
    }

    /// A name or an address, and a port. With `must_exist`, a name of the clusterset must be that of a service here,
    /// and the service must have the port.
    pub fn target(&self, node: &Node, must_exist: bool, report: &mut Report) -> Option<Target> {
        let word = node.word(Kind::Target.form(), report)?;
        let text = word.text.as_str();
        let Some(((host, port), colon)) = text.rfind(':').map(|colon| (text.split_at(colon), colon)) else {
            return no(word, Kind::Target, report);
        };
        let Some((port, protocol)) = parse_port(port.trim_start_matches(':')) else {
            let text = port.trim_start_matches(':').to_owned();
            report.add(word.part(colon + 1, word.text.len()), Wrong::Value { text, kind: Kind::Port });
            return None;
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(host).parse::<IpAddr>()
            && address.is_ipv6() == bare.is_some()
        {
            return Some(Target::Address(address, port, protocol));
        }
        // A slip in an address is no name: nobody would ever have it, and `refuse` would hold for ever.
        let is_address = host.chars().all(|c| c.is_ascii_digit() || c == '.');
        let Some(name) = parse_dns_name(host).filter(|_| !is_address) else {
            return no(word, Kind::Target, report);
        };
        if must_exist {
            self.check_name(word, &name, (port, protocol), colon, report)?;
        }
        Some(Target::Name(name, port, protocol))
    }

    /// Reports a clusterset name that no service here has, or a port that its service lacks.
    fn check_name(
        &self,
        word: &Word,
        name: &str,
        port: (u16, Protocol),
        colon: usize,
        report: &mut Report,
    ) -> Option<()> {
        let Some(labels) = name.strip_suffix(ZONE) else {
            return Some(());
        };
        let meant = |cluster: &ClusterId, key: &ServiceKey| {
            labels == format!("{}.{}", key.name, key.namespace)
                || labels == format!("{cluster}.{}.{}", key.name, key.namespace)
        };
        let homes: Vec<_> = self.services.iter().filter(|((cluster, key), _)| meant(cluster, key)).collect();
        let Some(((_, key), _)) = homes.first() else {
            if !self.services_whole {
                return None;
            }
            let mut known: Vec<_> =
                self.services.keys().map(|(_, key)| format!("{}.{}{ZONE}", key.name, key.namespace)).collect();
            known.dedup();
            report.add(word.part(0, colon), Wrong::UnknownService { name: name.to_owned(), known });
            return None;
        };
        if homes.iter().any(|(_, ports)| ports.contains(&port)) {
            return Some(());
        }
        let known =
            homes.iter().flat_map(|(_, ports)| ports.iter().map(|(port, protocol)| format!("{port}/{protocol}")));
        let known: BTreeSet<String> = known.collect();
        let (known, (port, protocol)) = (known.into_iter().collect(), port);
        report.add(
            word.part(colon + 1, word.text.len()),
            Wrong::UnknownPort { service: key.clone(), port, protocol, known },
        );
        None
    }
}
