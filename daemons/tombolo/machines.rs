//! Which machine a process runs, and all that it is made of: with this, a run that was written down can be lived again.

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use tombolo_core::base::{Cidr, ClusterId, Instant, NodeName};
use tombolo_core::dns::Zone;
use tombolo_core::model::{CableDriver, CableKey};
use tombolo_core::roles::{Discovery, Dns, Gateway, GatewayConfig, NodeConfig, Role, RouteAgent};

/// A machine, before it is made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blueprint {
    /// `tombolo gateway`
    Gateway {
        /// Who and where.
        node: NodeBlueprint,
        /// Its private address.
        address: IpAddr,
        /// Where it takes part in NAT discovery.
        discovery_port: Option<u16>,
        /// Whether it can look up its public address.
        looks_up: bool,
        /// Public keys of its cables.
        keys: Vec<CableKey>,
        /// Which process this is.
        process: String,
        /// Which cluster this is.
        cluster_uid: String,
    },
    /// `tombolo route-agent`
    RouteAgent {
        /// Who and where.
        node: NodeBlueprint,
    },
    /// `tombolo discovery`
    Discovery {
        /// Whose.
        cluster: ClusterId,
        /// Which cluster that is.
        cluster_uid: String,
        /// Spreads pauses.
        seed: u64,
    },
    /// `tombolo dns`
    Dns {
        /// Whose.
        cluster: ClusterId,
        /// For what.
        zone: String,
        /// For how many seconds answers may be remembered.
        ttl: u32,
        /// Where it is reached.
        servers: Vec<IpAddr>,
    },
}

/// What a machine on a node is made of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeBlueprint {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeName,
    /// Pod ranges of the cluster.
    pub pods: Vec<Cidr>,
    /// Service ranges of the cluster.
    pub services: Vec<Cidr>,
    /// How cables carry packets.
    pub driver: CableDriver,
    /// Spreads timers.
    pub seed: u64,
}

impl NodeBlueprint {
    fn config(self) -> NodeConfig {
        let Self { cluster, node, pods, services, driver, seed } = self;
        NodeConfig { cluster, node, pods, services, driver, seed, boot: Instant::ZERO }
    }
}

/// Does something with a machine, whichever it is.
pub trait MachineUser {
    /// What comes of it.
    type Out;

    /// Does it.
    fn use_it<R: Role + 'static>(self, machine: R) -> Self::Out;
}

impl Blueprint {
    /// Makes the machine.
    ///
    /// # Errors
    /// If the blueprint is of another version, or was changed: what in it makes no sense.
    pub fn build<U: MachineUser>(self, user: U) -> Result<U::Out, String> {
        Ok(match self {
            Self::Gateway { node, address, discovery_port, looks_up, keys, process, cluster_uid } => {
                let node = node.config();
                let config = GatewayConfig { node, address, discovery_port, looks_up, keys, process, cluster_uid };
                user.use_it(Gateway::new(config))
            }
            Self::RouteAgent { node } => user.use_it(RouteAgent::new(node.config())),
            Self::Discovery { cluster, cluster_uid, seed } => user.use_it(Discovery::new(cluster, cluster_uid, seed)),
            Self::Dns { cluster, zone, ttl, servers } => {
                let zone: Zone = zone.parse().map_err(|error| format!("the zone {zone:?}: {error}"))?;
                let ttl = Duration::from_secs(ttl.into());
                user.use_it(Dns::new(cluster, zone, ttl, servers.into_iter().collect()))
            }
        })
    }
}
