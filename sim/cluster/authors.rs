//! Who is behind a `User-Agent`.

use std::collections::BTreeMap;
use tombolo_core::base::{ClusterId, NodeName};
use tombolo_scenarios::layout::Layout;
use tombolo_scenarios::{Daemon, Place};

/// The `User-Agent` of a daemon in the simulator. A real one says its version too, and no node if it runs once a cluster.
#[must_use]
pub fn user_agent(cluster: &ClusterId, node: &NodeName, daemon: Daemon) -> String {
    format!("tombolo-{daemon} ({cluster}/{node})")
}

/// All daemons by what they call themselves.
#[derive(Clone, Debug, Default)]
pub struct Authors(BTreeMap<(Daemon, String), Place>);

impl Authors {
    /// Of these clusters.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        let mut authors = BTreeMap::new();
        for (host, node) in layout.nodes() {
            for daemon in Daemon::ALL {
                let place = Place::Daemon(node.cluster.clone(), node.name.clone(), daemon);
                if layout.home_of_singletons(&node.cluster) == Some(host) {
                    authors.insert((daemon, node.cluster.to_string()), place.clone());
                }
                authors.insert((daemon, format!("{}/{}", node.cluster, node.name)), place);
            }
        }
        Self(authors)
    }

    /// The daemon that calls itself so.
    #[must_use]
    pub fn find(&self, agent: &str) -> Option<&Place> {
        let (product, whose) = agent.strip_prefix("tombolo-")?.split_once(" (")?;
        let name = product.split('/').next().unwrap_or_default();
        let daemon = Daemon::ALL.into_iter().find(|daemon| daemon.name() == name)?;
        self.0.get(&(daemon, whose.strip_suffix(')')?.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_daemon_is_known_by_its_agent_with_or_without_version_and_node() {
        let text = "\
scenario: two
about: Two clusters.
clusters:
  west: { pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, worker] }
  east: { pods: 10.2.0.0/16, services: 10.102.0.0/16, nodes: [gw-a*] }
broker: own
expect:
  - { by: 10s, settled: true }
";
        let scenario = tombolo_scenarios::parse("two.yaml", text).unwrap();
        let authors = Authors::of(&Layout::of(&scenario).unwrap());
        let of = |agent: &str| authors.find(agent).map(ToString::to_string);
        assert_eq!(of("tombolo-gateway (west/gw-a)").as_deref(), Some("west/gw-a gateway"));
        assert_eq!(of("tombolo-gateway/0.1.0 (west/gw-a)").as_deref(), Some("west/gw-a gateway"));
        assert_eq!(of("tombolo-dns/0.1.0 (west)").as_deref(), Some("west/worker dns"));
        for other in ["the cluster itself", "tombolo-gateway (west/gw-z)", "tombolo-cook (west)", "tombolo-dns (west"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
