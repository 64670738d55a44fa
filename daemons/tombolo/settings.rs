//! What a daemon is told: by flags, by the environment, and by a file, in this order of precedence.
//!
//! Each setting has one name. As a flag it is `--node-name`, in the environment `TOMBOLO_NODE_NAME`, in the file (`--config`)
//! a line `node-name: …`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use tombolo_cables::command::Arguments;
use tombolo_core::base::{Cidr, ClusterId, NodeName};
use tombolo_core::dns::Zone;
use tombolo_core::model::CableDriver;

/// Joins Kubernetes clusters: the daemons.
#[derive(Parser, Clone, Debug)]
#[command(name = "tombolo", version, args_override_self = true)]
pub struct Cli {
    /// Which one.
    #[command(subcommand)]
    pub command: Command,
}

/// What to run.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// On each node that may be a gateway: leads, announces, dials other clusters, and owns the node's network
    Gateway(GatewaySettings),
    /// On all other nodes: owns the node's network
    RouteAgent(AgentSettings),
    /// Once a cluster: publishes what it exports and imports what others do
    Discovery(DiscoverySettings),
    /// Answers for the clusterset's names
    Dns(DnsSettings),
    /// Starts a cable of userspace WireGuard: the gateway does so itself
    #[command(hide = true)]
    Cable(Arguments),
    /// Lives a run again that a daemon wrote down with --record
    Replay(ReplaySettings),
}

/// How logs look.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// What every daemon is told.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// A YAML file with settings by the names of the flags; flags and the environment come before it
    #[arg(long, env = "TOMBOLO_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The id of this cluster in the clusterset
    #[arg(long, env = "TOMBOLO_CLUSTER_ID", value_name = "ID")]
    pub cluster_id: ClusterId,
    /// How to reach the own cluster's API; without it, as the pod's service account does
    #[arg(long, env = "TOMBOLO_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of Tombolo's own objects
    #[arg(long, env = "TOMBOLO_NAMESPACE", default_value = "submariner-operator", value_name = "NAME")]
    pub namespace: String,
    /// Where /metrics, /healthz and /readyz are served; each daemon has a port of its own [default: [::]:PORT]
    #[arg(long, env = "TOMBOLO_STATUS_ADDRESS", value_name = "ADDRESS")]
    pub status_address: Option<SocketAddr>,
    /// How logs look
    #[arg(long, env = "TOMBOLO_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or by module
    #[arg(long, env = "TOMBOLO_LOG", default_value = "info", value_name = "LEVEL")]
    pub log: String,
    /// Writes each step down here, for `tombolo replay`
    #[arg(long, env = "TOMBOLO_RECORD", value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Tells on standard output what is done, as JSON lines: for the lab
    #[arg(long, hide = true)]
    pub notes: bool,
    /// The cluster leaves the clusterset: takes away what this daemon wrote anywhere, and ends when nothing is left
    #[arg(long, env = "TOMBOLO_LEAVE")]
    pub leave: bool,
}

/// How the broker is reached.
#[derive(Args, Clone, Debug)]
pub struct BrokerSettings {
    /// How to reach the broker's API
    #[arg(long, env = "TOMBOLO_BROKER_KUBECONFIG", value_name = "FILE", required_unless_present = "broker_api")]
    pub broker_kubeconfig: Option<PathBuf>,
    /// The address of the broker's API, as in https://broker:6443
    #[arg(long, env = "TOMBOLO_BROKER_API", value_name = "URL", conflicts_with = "broker_kubeconfig")]
    pub broker_api: Option<String>,
    /// The token to show there; read again when it changes
    #[arg(long, env = "TOMBOLO_BROKER_TOKEN_FILE", value_name = "FILE", requires = "broker_api")]
    pub broker_token_file: Option<PathBuf>,
    /// The certificates that it is known by
    #[arg(long, env = "TOMBOLO_BROKER_CA_FILE", value_name = "FILE", requires = "broker_api")]
    pub broker_ca_file: Option<PathBuf>,
    /// The clusterset's namespace at the broker
    #[arg(long, env = "TOMBOLO_BROKER_NAMESPACE", default_value = "submariner-k8s-broker", value_name = "NAME")]
    pub broker_namespace: String,
}

/// What a daemon on a node is told.
#[derive(Args, Clone, Debug)]
pub struct NodeSettings {
    /// The node's name in its cluster
    #[arg(long, env = "TOMBOLO_NODE_NAME", value_name = "NAME")]
    pub node_name: NodeName,
    /// Pod ranges of the cluster
    #[arg(long, env = "TOMBOLO_POD_CIDRS", value_name = "CIDR", value_delimiter = ',', required = true)]
    pub pod_cidrs: Vec<Cidr>,
    /// Service ranges of the cluster
    #[arg(long, env = "TOMBOLO_SERVICE_CIDRS", value_name = "CIDR", value_delimiter = ',', required = true)]
    pub service_cidrs: Vec<Cidr>,
    /// How cables carry packets: wireguard, vxlan (unencrypted)
    #[arg(long, env = "TOMBOLO_CABLE_DRIVER", default_value = "wireguard", value_parser = cable_driver)]
    pub cable_driver: CableDriver,
    /// Where this node keeps its keys, and notes that only one daemon of a kind runs
    #[arg(long, env = "TOMBOLO_STATE_DIR", default_value = "/var/lib/tombolo", value_name = "DIRECTORY")]
    pub state_dir: PathBuf,
}

/// `tombolo gateway`
#[derive(Args, Clone, Debug)]
#[allow(missing_docs, reason = "groups of settings, each documented")]
pub struct GatewaySettings {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub node: NodeSettings,
    #[command(flatten)]
    pub broker: BrokerSettings,
    /// This gateway's private address, at which others may dial it [default: from where the broker is reached]
    #[arg(long, env = "TOMBOLO_PRIVATE_ADDRESS", value_name = "IP")]
    pub private_address: Option<IpAddr>,
    /// How this gateway finds the address under which it is seen from outside, the first that works: ipv4:ADDRESS,
    /// ipv6:ADDRESS, dns:NAME, lb:SERVICE (the ingress of a load balancer in the own namespace), api:HOST/PATH (a web
    /// service that says from where it is asked), none
    #[arg(long, env = "TOMBOLO_PUBLIC_ADDRESS", value_name = "HOW", value_delimiter = ',', default_value = "none")]
    pub public_address: Vec<String>,
    /// Where sockets of userspace cables are; `wg` looks in the default
    #[arg(long, env = "TOMBOLO_CABLE_DIR", default_value = tombolo_cables::process::DIRECTORY, value_name = "DIRECTORY")]
    pub cable_dir: PathBuf,
    /// The UDP port of NAT discovery; 0: this gateway takes no part
    #[arg(long, env = "TOMBOLO_NAT_DISCOVERY_PORT", default_value_t = tombolo_core::nat::NAT_PORT, value_name = "PORT")]
    pub nat_discovery_port: u16,
    /// A file with the clusterset's secret, the same in all members, which seals NAT discovery
    #[arg(long, env = "TOMBOLO_PSK_FILE", value_name = "FILE")]
    pub psk_file: Option<PathBuf>,
}

/// `tombolo route-agent`
#[derive(Args, Clone, Debug)]
#[allow(missing_docs, reason = "groups of settings, each documented")]
pub struct AgentSettings {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub node: NodeSettings,
}

/// `tombolo discovery`
#[derive(Args, Clone, Debug)]
#[allow(missing_docs, reason = "groups of settings, each documented")]
pub struct DiscoverySettings {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub broker: BrokerSettings,
}

/// `tombolo dns`
#[derive(Args, Clone, Debug)]
pub struct DnsSettings {
    #[allow(missing_docs, reason = "a group of settings, each documented")]
    #[command(flatten)]
    pub common: Common,
    /// Where queries are answered, over UDP and TCP
    #[arg(
        long,
        env = "TOMBOLO_DNS_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "0.0.0.0:53,[::]:53"
    )]
    pub dns_listen: Vec<SocketAddr>,
    /// The zone
    #[arg(long, env = "TOMBOLO_DNS_ZONE", value_name = "NAME", default_value = "clusterset.local")]
    pub dns_zone: Zone,
    /// For how many seconds answers may be remembered
    #[arg(long, env = "TOMBOLO_DNS_TTL", value_name = "SECONDS", default_value_t = 5)]
    pub dns_ttl: u32,
    /// Addresses at which clients reach this server, which it gives as those of the zone's name server
    #[arg(long, env = "TOMBOLO_DNS_SERVER", value_name = "IP", value_delimiter = ',')]
    pub dns_server: Vec<IpAddr>,
    /// From where questions are answered [default: everywhere]
    #[arg(long, env = "TOMBOLO_DNS_CLIENTS", value_name = "CIDR", value_delimiter = ',')]
    pub dns_clients: Vec<Cidr>,
}

/// `tombolo replay`
#[derive(Args, Clone, Debug)]
pub struct ReplaySettings {
    /// What --record wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Stops after so many steps
    #[arg(long, value_name = "STEPS")]
    pub stop: Option<usize>,
}

fn cable_driver(text: &str) -> Result<CableDriver, String> {
    match text {
        "wireguard" => Ok(CableDriver::Wireguard),
        "vxlan" => Ok(CableDriver::Vxlan),
        "ipsec" => Err("there are no IPsec cables yet: wireguard or vxlan".into()),
        _ => Err("one of wireguard, vxlan".into()),
    }
}

impl Command {
    /// What every daemon is told.
    #[must_use]
    pub const fn common(&self) -> Option<&Common> {
        match self {
            Self::Gateway(settings) => Some(&settings.common),
            Self::RouteAgent(settings) => Some(&settings.common),
            Self::Discovery(settings) => Some(&settings.common),
            Self::Dns(settings) => Some(&settings.common),
            Self::Cable(_) | Self::Replay(_) => None,
        }
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Gateway(_) => "gateway",
            Self::RouteAgent(_) => "route-agent",
            Self::Discovery(_) => "discovery",
            Self::Dns(_) => "dns",
            Self::Cable(_) => "cable",
            Self::Replay(_) => "replay",
        }
    }

    /// The port of its metrics and health, where Submariner's daemon of the kind has its own (`spec/submariner.md` 14).
    #[must_use]
    pub const fn status_port(&self) -> u16 {
        match self {
            Self::Gateway(_) | Self::Cable(_) | Self::Replay(_) => 32_780,
            Self::RouteAgent(_) => 32_782,
            Self::Discovery(_) => 8_082,
            Self::Dns(_) => 9_153,
        }
    }
}
