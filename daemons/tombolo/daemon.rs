//! A daemon's life: hands on, loop, and an end that leaves the data path as it is.

use crate::errors::Error;
use crate::hands::{Lacking, Log, Noted, SystemWall};
use crate::hellos::Hellos;
use crate::lock::Lock;
use crate::machines::{Blueprint, MachineUser, NodeBlueprint};
use crate::notes::Notes;
use crate::probing::{Probing, Secret};
use crate::public::{Lookup, ways};
use crate::settings::{
    AgentSettings, BrokerSettings, Command, Common, DiscoverySettings, DnsSettings, GatewaySettings, NodeSettings,
};
use crate::vitals::{Both, ReadyWhen, Vitals, Who};
use crate::{apis, records, status};
use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use tombolo_cables::keys::Keys;
use tombolo_cables::{Driver, Drivers, Kernel, Userspace, Vxlan};
use tombolo_core::base::NodeName;
use tombolo_core::dns::Table;
use tombolo_core::roles::{Input, Role};
use tombolo_dns::{Server, Settings};
use tombolo_kube::convert::Writer;
use tombolo_kube::{Config, Connections, Kubernetes, Places};
use tombolo_linux::{Deed, Hand, Namespace, NoCables};
use tombolo_shell::{Hands, Inbox, KernelHand, NatHand, NetHand, ZoneHand, inbox, run};
use tracing::info;

/// Who was asked to stop gives up what it holds within this.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
/// A machine that asked for nothing for so long has given up what it held.
const STOPPED_AFTER: Duration = Duration::from_millis(400);

/// Runs the daemon until it is told to end, or its cluster has left.
///
/// # Errors
/// Why it cannot start.
pub async fn live(command: Command) -> Result<(), Error> {
    let (port, daemon) = (command.status_port(), command.name());
    match command {
        Command::Gateway(settings) => gateway(settings, daemon, port).await,
        Command::RouteAgent(settings) => route_agent(settings, daemon, port).await,
        Command::Discovery(settings) => discovery(settings, daemon, port).await,
        Command::Dns(settings) => dns(settings, daemon, port).await,
        // It is no daemon.
        Command::Cable(_) | Command::Replay(_) => Ok(()),
    }
}

async fn gateway(settings: GatewaySettings, daemon: &'static str, port: u16) -> Result<(), Error> {
    let GatewaySettings {
        common,
        node,
        broker,
        private_address,
        public_address,
        cable_dir,
        nat_discovery_port,
        psk_file,
    } = settings;
    let lock = Lock::take(&node.state_dir, daemon, &common.cluster_id)?;
    let ways = ways(&public_address)?;
    let discovery_port = Some(nat_discovery_port).filter(|port| *port != 0);
    let secret = match &psk_file {
        None if discovery_port.is_some() => {
            let because =
                "NAT discovery between members is sealed: give the clusterset's secret, the same in all members, \
                           or --nat-discovery-port=0"
                    .into();
            return Err(Error::Setting { flag: "psk-file", because });
        }
        None => None,
        Some(path) => {
            let content = std::fs::read(path).map_err(|source| Error::File { path: path.clone(), source })?;
            Some(
                Secret::new(&content)
                    .map_err(|because| Error::Setting { flag: "psk-file", because: because.into() })?,
            )
        }
    };
    let agent = agent(&common, Some(&node.node_name), daemon);
    let connections = apis::connect(&common, Some(&broker), &agent).await?;
    let local = connections.local.clone();
    let address = private_address.map_or_else(uplink_address, Ok)?;
    let cluster_uid = apis::cluster_uid(&connections.local, Some(&node.state_dir.join("cluster-uid"))).await?;
    let keys = Keys::at(&node.state_dir.join("keys"));
    let blueprint = Blueprint::Gateway {
        node: blueprint_of(&common, &node)?,
        address,
        discovery_port,
        looks_up: !ways.is_empty(),
        keys: keys.public()?,
        process: format!("{:016x}", chance()?),
        cluster_uid,
    };
    let who = Who {
        cluster: common.cluster_id.clone(),
        node: node.node_name.to_string(),
        address: address.to_string(),
        driver: node.cable_driver.to_string(),
    };
    let start = Start::new(common, Some(broker), connections, who, daemon, port)?;
    let (inbox, signs) = (start.inbox.clone(), node.node_name.clone());
    let own = start.common.cluster_id.clone();
    let kernel = Hand::start(Namespace::Here, Box::new(drivers(keys, cable_dir)?), inbox.clone(), start.tell_deeds())?;
    let net = Hellos::bind(inbox.clone())?;
    let (namespace, v4) = (start.common.namespace.clone(), address.is_ipv4());
    let lookup = Lookup { ways, local, namespace, user_agent: agent, v4 };
    let nat = Probing::bind(own, (address, discovery_port), secret, lookup, inbox)?;
    let special = Special { net: Box::new(net), nat: Box::new(nat), kernel: Box::new(kernel), ..Special::none() };
    start.run(blueprint, special, ReadyWhen::Applied, Some(signs)).await?;
    drop(lock);
    Ok(())
}

async fn route_agent(settings: AgentSettings, daemon: &'static str, port: u16) -> Result<(), Error> {
    let AgentSettings { common, node } = settings;
    let lock = Lock::take(&node.state_dir, daemon, &common.cluster_id)?;
    let connections = apis::connect(&common, None, &agent(&common, Some(&node.node_name), daemon)).await?;
    let blueprint = Blueprint::RouteAgent { node: blueprint_of(&common, &node)? };
    let who = Who {
        cluster: common.cluster_id.clone(),
        node: node.node_name.to_string(),
        address: String::new(),
        driver: node.cable_driver.to_string(),
    };
    let start = Start::new(common, None, connections, who, daemon, port)?;
    let kernel = Hand::start(Namespace::Here, Box::new(NoCables), start.inbox.clone(), start.tell_deeds())?;
    let net = Hellos::bind(start.inbox.clone())?;
    let special = Special { net: Box::new(net), kernel: Box::new(kernel), ..Special::none() };
    start.run(blueprint, special, ReadyWhen::Applied, None).await?;
    drop(lock);
    Ok(())
}

async fn discovery(settings: DiscoverySettings, daemon: &'static str, port: u16) -> Result<(), Error> {
    let DiscoverySettings { common, broker } = settings;
    let connections = apis::connect(&common, Some(&broker), &agent(&common, None, daemon)).await?;
    let cluster_uid = apis::cluster_uid(&connections.local, None).await?;
    let blueprint = Blueprint::Discovery { cluster: common.cluster_id.clone(), cluster_uid, seed: chance()? };
    let who = Who::of(&common);
    let start = Start::new(common, Some(broker), connections, who, daemon, port)?;
    start.run(blueprint, Special::none(), ReadyWhen::Listed, None).await
}

async fn dns(settings: DnsSettings, daemon: &'static str, port: u16) -> Result<(), Error> {
    let DnsSettings { common, dns_listen, dns_zone, dns_ttl, dns_server, dns_clients } = settings;
    let sockets = Settings { clients: dns_clients, ..Settings::at(dns_listen) };
    // It knows nothing yet, and says so.
    let (server, zone) = Server::start(&sockets, Arc::new(Table::default()))?;
    for address in server.addresses() {
        info!(%address, zone = %dns_zone, "answers");
    }
    let connections = apis::connect(&common, None, &agent(&common, None, daemon)).await?;
    let cluster = common.cluster_id.clone();
    let blueprint = Blueprint::Dns { cluster, zone: dns_zone.to_string(), ttl: dns_ttl, servers: dns_server };
    let who = Who::of(&common);
    let start = Start::new(common, None, connections, who, daemon, port)?;
    let zone = Box::new(Noted { zone, log: start.log.clone() });
    start.run(blueprint, Special { zone, ..Special::none() }, ReadyWhen::Answers, None).await?;
    server.stop();
    Ok(())
}

/// Hands that only some daemons have.
struct Special {
    net: Box<dyn NetHand>,
    nat: Box<dyn NatHand>,
    kernel: Box<dyn KernelHand>,
    zone: Box<dyn ZoneHand>,
}

impl Special {
    fn none() -> Self {
        Self { net: Box::new(Lacking), nat: Box::new(Lacking), kernel: Box::new(Lacking), zone: Box::new(Lacking) }
    }
}

impl Who {
    /// Of a daemon that is of no node.
    fn of(common: &Common) -> Self {
        Self { cluster: common.cluster_id.clone(), node: String::new(), address: String::new(), driver: String::new() }
    }
}

/// A daemon that is about to run.
struct Start {
    common: Common,
    places: Places,
    connections: Connections,
    who: Who,
    daemon: &'static str,
    port: u16,
    inbox: Inbox,
    inputs: UnboundedReceiver<Input>,
    seed: u64,
    log: Log,
}

impl Start {
    fn new(
        common: Common,
        broker: Option<BrokerSettings>,
        connections: Connections,
        who: Who,
        daemon: &'static str,
        port: u16,
    ) -> Result<Self, Error> {
        let (inbox, inputs) = inbox();
        let mut places = Places { local: common.namespace.clone(), ..Places::default() };
        if let Some(broker) = broker {
            places.broker = broker.broker_namespace;
        }
        let log = Log::new(common.notes.then(Notes::default));
        Ok(Self { common, places, connections, who, daemon, port, inbox, inputs, seed: chance()?, log })
    }

    /// For the kernel hand.
    fn tell_deeds(&self) -> Box<dyn FnMut(Deed) + Send> {
        let log = self.log.clone();
        Box::new(move |deed| log.deed(deed))
    }

    /// Runs it to its end. `signs` is the node on whose Gateway object it gives signs of life.
    async fn run(
        self,
        blueprint: Blueprint,
        special: Special,
        ready_when: ReadyWhen,
        signs: Option<NodeName>,
    ) -> Result<(), Error> {
        let Self { common, places, connections, who, daemon, port, inbox, inputs, seed, log } = self;
        let mut config = Config::new(common.cluster_id.clone(), seed);
        config.writer = Writer { cluster: common.cluster_id.clone(), places };
        let mut kube = Kubernetes::new(connections, config, inbox.clone(), {
            let log = log.clone();
            move |event| log.event(&event)
        });
        if let Some(node) = signs {
            kube.sign_gateway(node, SystemWall::read);
        }
        let record = common.record.as_deref().map(|path| records::begin(path, &blueprint)).transpose()?;
        let Special { net, nat, kernel, zone } = special;
        let hands =
            Hands { kube: Box::new(kube), net, nat, kernel, zone, journal: Box::new(log), wall: Box::new(SystemWall) };
        if common.leave {
            inbox.put(Input::Leave);
        }
        let watched = WatchCount;
        let watches =
            blueprint.clone().build(watched).map_err(|because| Error::Setting { flag: "dns-zone", because })?;
        let vitals = Vitals::new(who, ready_when, watches);
        let addresses = match common.status_address {
            Some(at) => vec![at],
            // This node may have no IPv6.
            None => vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()],
        };
        let address = status::serve(addresses, vitals.clone()).await?;
        let status = address.map_or_else(|| "none yet".to_owned(), |address| address.to_string());
        info!(daemon, cluster = %common.cluster_id, %status, "starts");
        let both = Both { vitals: vitals.clone(), record };
        let life = Life { hands, inputs, both };
        let living = blueprint.build(life).map_err(|because| Error::Setting { flag: "dns-zone", because })?;
        tokio::select! {
            () = living => {}
            outcome = ended(&inbox, &vitals) => outcome?,
        }
        info!(daemon, "ends");
        Ok(())
    }
}

/// How many kinds a machine watches.
struct WatchCount;

impl MachineUser for WatchCount {
    type Out = usize;

    fn use_it<R: Role + 'static>(self, machine: R) -> usize {
        machine.watches().len()
    }
}

struct Life {
    hands: Hands,
    inputs: UnboundedReceiver<Input>,
    both: Both,
}

impl MachineUser for Life {
    type Out = std::pin::Pin<Box<dyn Future<Output = ()>>>;

    fn use_it<R: Role + 'static>(self, machine: R) -> Self::Out {
        let Self { hands, inputs, both } = self;
        Box::pin(async move {
            run(machine, hands, inputs, Some(Box::new(both))).await;
        })
    }
}

/// Waits until the daemon is told to end and has given up what it held, or has left.
async fn ended(inbox: &Inbox, vitals: &Vitals) -> Result<(), Error> {
    let listen = |kind| signal(kind).map_err(|source| Error::Socket { what: "signals".into(), source });
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = left(vitals) => return Ok(()),
    }
    info!("is told to end: gives up what it holds, and leaves the network as it is");
    inbox.put(Input::Stop);
    let stopped = async {
        loop {
            sleep(STOPPED_AFTER / 4).await;
            if vitals.idle_for() >= STOPPED_AFTER {
                return;
            }
        }
    };
    // Who cannot reach the API lets the lease run out.
    let _ = tokio::time::timeout(STOPS_WITHIN, stopped).await;
    Ok(())
}

async fn left(vitals: &Vitals) {
    while !vitals.has_left() {
        sleep(STOPPED_AFTER / 4).await;
    }
}

/// What makes cables here: the kernel's WireGuard where there is one, else processes of ours.
fn drivers(keys: Keys, directory: PathBuf) -> Result<Drivers, Error> {
    let program = std::env::current_exe().map_err(|source| Error::File { path: "this program".into(), source })?;
    let userspace = Userspace { command: vec![program.into(), "cable".into()], directory, keys: keys.clone() };
    let mut drivers: Vec<Box<dyn Driver>> = Vec::new();
    if Kernel::is_there() {
        drivers.push(Box::new(Kernel::with(keys)));
    } else {
        info!("this kernel has no WireGuard: cables are processes");
    }
    let vxlan = Vxlan::at(&userspace.directory);
    drivers.push(Box::new(userspace));
    drivers.push(Box::new(vxlan));
    Ok(Drivers::of(drivers))
}

fn blueprint_of(common: &Common, node: &NodeSettings) -> Result<NodeBlueprint, Error> {
    Ok(NodeBlueprint {
        cluster: common.cluster_id.clone(),
        node: node.node_name.clone(),
        pods: node.pod_cidrs.clone(),
        services: node.service_cidrs.clone(),
        driver: node.cable_driver,
        seed: chance()?,
    })
}

/// How a daemon calls itself at the APIs.
fn agent(common: &Common, node: Option<&NodeName>, daemon: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match node {
        Some(node) => format!("tombolo-{daemon}/{version} ({}/{node})", common.cluster_id),
        None => format!("tombolo-{daemon}/{version} ({})", common.cluster_id),
    }
}

fn chance() -> Result<u64, Error> {
    getrandom::u64().map_err(Error::Chance)
}

/// The address from which the world is reached. No packet is sent for it: the route is looked up.
fn uplink_address() -> Result<IpAddr, Error> {
    let wrong = |source: std::io::Error| Error::Setting {
        flag: "private-address",
        because: format!("this node has no way out by which it could be found ({source}): give it"),
    };
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(wrong)?;
    socket.connect("192.0.2.1:9").map_err(wrong)?;
    Ok(socket.local_addr().map_err(wrong)?.ip())
}
