//! Which machine a daemon's process is.

use super::process::Driven;
use crate::world::{HostId, Layout, NodeLayout};
use core::time::Duration;
use tombolo_core::base::Instant;
use tombolo_core::dns::Zone;
use tombolo_core::model::CableDriver;
use tombolo_core::nat::NAT_PORT;
use tombolo_core::roles::{Discovery, Dns, Gateway, GatewayConfig, NodeConfig, Role, RouteAgent};
use tombolo_scenarios::{ApiRef, Broker, Daemon, Scenario};

/// What all daemons of a scenario are set up with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How cables carry packets.
    pub cable: CableDriver,
    /// Which API is the broker's.
    pub broker: ApiRef,
}

impl Settings {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let broker = match &scenario.broker {
            Broker::Member(cluster) => ApiRef::Cluster(cluster.clone()),
            Broker::Own => ApiRef::Broker,
        };
        Self { cable: scenario.cable, broker }
    }
}

/// A process that starts: all that its configuration follows from.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Who is where.
    pub layout: &'a Layout,
    /// The scenario's settings.
    pub settings: &'a Settings,
    /// Its host.
    pub host: HostId,
    /// Its node.
    pub node: &'a NodeLayout,
    /// Which daemon it is.
    pub daemon: Daemon,
    /// How often it was started, this time too.
    pub boot: u64,
    /// A seed of its own, for this run.
    pub seed: u64,
    /// What its host's clock reads.
    pub now: Instant,
}

/// Makes the machine of a process.
pub type Spawn = fn(&Start<'_>) -> Box<dyn Driven>;

/// How long answers of the clusterset zone may be cached.
const DNS_TTL: Duration = Duration::from_secs(5);

/// Does something with the machine of a process, whichever it is.
pub(crate) trait MachineUser {
    /// What comes of it.
    type Out;

    /// Does it.
    fn use_it<R: Role + 'static>(self, machine: R) -> Self::Out;
}

/// Makes the machine of the product that a process runs.
pub(crate) fn use_machine<U: MachineUser>(start: &Start<'_>, user: U) -> U::Out {
    match start.daemon {
        Daemon::Gateway => {
            let host = start.layout.host(start.host);
            user.use_it(Gateway::new(GatewayConfig {
                node: node_config(start),
                address: host.map_or(start.node.bridge, |host| host.address),
                discovery_port: Some(NAT_PORT),
                looks_up: true,
                keys: start.node.cable_keys.to_vec(),
                process: start.boot.to_string(),
                cluster_uid: start.layout.cluster_uid(&start.node.cluster),
            }))
        }
        Daemon::RouteAgent => user.use_it(RouteAgent::new(node_config(start))),
        Daemon::Discovery => {
            let cluster = start.node.cluster.clone();
            let identity = start.layout.cluster_uid(&cluster);
            user.use_it(Discovery::new(cluster, identity, start.seed))
        }
        Daemon::Dns => {
            let server = start.layout.host(start.host).map(|host| host.address);
            user.use_it(Dns::new(start.node.cluster.clone(), Zone::default(), DNS_TTL, server.into_iter().collect()))
        }
    }
}

struct Boxed;

impl MachineUser for Boxed {
    type Out = Box<dyn Driven>;

    fn use_it<R: Role + 'static>(self, machine: R) -> Box<dyn Driven> {
        Box::new(machine)
    }
}

/// The machines of the product.
#[must_use]
pub fn real(start: &Start<'_>) -> Box<dyn Driven> {
    use_machine(start, Boxed)
}

fn node_config(start: &Start<'_>) -> NodeConfig {
    let (pods, services) = start.layout.ranges(&start.node.cluster).unzip();
    NodeConfig {
        cluster: start.node.cluster.clone(),
        node: start.node.name.clone(),
        pods: pods.into_iter().collect(),
        services: services.into_iter().collect(),
        driver: start.settings.cable,
        seed: start.seed,
        boot: start.now,
    }
}
