//! Daemons: the real shell and the real kube client, each daemon a process of its own on the stack of its node.

use super::chronicle::HostClock;
use super::hands::{Diary, Hellos, HostWall, NoHellos, WantedCell, Zone};
use super::nat::{Discovering, LookUps, NoDiscovery};
use super::process::{NAP, Process};
use super::sockets::{StackId, TcpStream};
use super::{Due, FullSpeed, FullSpeedError};
use crate::core_speed::{MachineUser, Start, use_machine};
use crate::world::{HostId, LOOKUP_TIME, Layout};
use core::cell::Cell;
use core::time::Duration;
use http::Uri;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use tombolo_cluster::{API_PORT, user_agent};
use tombolo_core::base::{ClusterId, Instant, Rng};
use tombolo_core::roles::{Event, Input, Role};
use tombolo_core::sync::REQUEST_DEADLINE;
use tombolo_kube::{Config, Connections, Kubernetes};
use tombolo_scenarios::{ApiRef, Daemon, Host, Place, What};
use tombolo_shell::{Hands, Inbox, NatHand, NetHand, inbox, run};

/// Daemons of a freshly started world begin within this.
const START_SPREAD: Duration = Duration::from_millis(200);
/// What a plan takes until the kernel has it, at least and at most.
const APPLY_TIME: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(3));

/// Number of a daemon's place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct DaemonId(pub(super) usize);

/// A daemon's place, and the daemon while it runs.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) host: HostId,
    pub(super) daemon: Daemon,
    pub(super) place: Place,
    /// How often it was started.
    pub(super) boot: u64,
    pub(super) running: Option<Running>,
}

/// A running daemon, seen by the world.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) inbox: Inbox,
    wanted: WantedCell,
    lookups: LookUps,
    /// It has told that nothing of its own is left.
    left: Rc<Cell<bool>>,
    /// The world is about to apply what is wanted.
    applying: bool,
}

/// All that a daemon's process takes with it.
struct Kit {
    stack: StackId,
    own: Ipv4Addr,
    daemon: Daemon,
    place: Place,
    chronicle: super::chronicle::Chronicle,
    clock: HostClock,
    wanted: WantedCell,
    cluster: ClusterId,
    layout: Arc<Layout>,
    lookups: LookUps,
    left: Rc<Cell<bool>>,
    local: SocketAddr,
    broker: SocketAddr,
    user_agent: String,
    config: Config,
    seed: u64,
}

impl FullSpeed {
    pub(super) fn place_daemons(&mut self) {
        let layout = Arc::clone(&self.layout);
        for (host, node) in layout.nodes() {
            let network = if node.gateway { Daemon::Gateway } else { Daemon::RouteAgent };
            let singletons = layout.home_of_singletons(&node.cluster) == Some(host);
            let once = if singletons { [Daemon::Discovery, Daemon::Dns].as_slice() } else { &[] };
            for daemon in core::iter::once(network).chain(once.iter().copied()) {
                let place = Place::Daemon(node.cluster.clone(), node.name.clone(), daemon);
                self.daemons.push(Post { host, daemon, place, boot: 0, running: None });
                let id = DaemonId(self.daemons.len() - 1);
                let at = self.chance.duration(Duration::ZERO, START_SPREAD);
                self.later(at, Due::Start(id, 1));
            }
        }
    }

    /// A daemon's process is due to start, if nothing happened to its host meanwhile.
    pub(super) fn start_due(&mut self, id: DaemonId, power_up: u64) -> Result<(), FullSpeedError> {
        let Some(host) = self.daemons.get(id.0).map(|post| post.host) else { return Ok(()) };
        let apart = self.outsiders.stands_apart(&self.layout, host);
        if self.power_ups.get(host.0) == Some(&power_up) && self.fabric.has_power(host) && !apart {
            self.start_daemon(id)?;
        }
        Ok(())
    }

    /// Starts a daemon afresh, unless it runs.
    pub(super) fn start_daemon(&mut self, id: DaemonId) -> Result<(), FullSpeedError> {
        let layout = Arc::clone(&self.layout);
        let now = self.time;
        let Some(post) = self.daemons.get_mut(id.0).filter(|post| post.running.is_none()) else { return Ok(()) };
        post.boot += 1;
        let (host, daemon, boot, place) = (post.host, post.daemon, post.boot, post.place.clone());
        let Some(node) = layout.host(host).and_then(|place| place.node.as_ref()) else { return Ok(()) };
        let seed = Rng::stream(self.seed, &format!("{}/{} {daemon} {boot}", node.cluster, node.name)).bits();
        let settings = self.settings.clone();
        let start = Start { layout: &layout, settings: &settings, host, node, daemon, boot, seed, now: Instant::ZERO };
        let process = Process::new(now, seed, NAP)?;
        process.set_rate(self.clocks.get(host.0).ok_or(FullSpeedError::NoClock)?.get().rate());
        let (wanted, lookups) = (WantedCell::default(), LookUps::default());
        let (letterbox, inputs) = inbox();
        let config = Config::new(node.cluster.clone(), seed);
        let kit = Kit {
            stack: StackId(host.0),
            own: self.sockets.v4(StackId(host.0)),
            daemon,
            place: place.clone(),
            chronicle: self.chronicle.clone(),
            clock: self.clocks.get(host.0).cloned().ok_or(FullSpeedError::NoClock)?,
            wanted: wanted.clone(),
            cluster: node.cluster.clone(),
            layout: Arc::clone(&layout),
            lookups: lookups.clone(),
            left: Rc::default(),
            local: self.api_address(&ApiRef::Cluster(node.cluster.clone()))?,
            broker: self.api_address(&settings.broker)?,
            user_agent: user_agent(&node.cluster, &node.name, daemon),
            config,
            seed,
        };
        let left = kit.left.clone();
        use_machine(&start, Birth { process: &process, kit, inbox: letterbox.clone(), inputs });
        if self.outsiders.leaves(&node.cluster) {
            letterbox.put(Input::Leave);
        }
        if let Some(post) = self.daemons.get_mut(id.0) {
            post.running = Some(Running { process, inbox: letterbox, wanted, lookups, left, applying: false });
        }
        self.chronicle.tell(place, What::Process(true));
        Ok(())
    }

    fn api_address(&self, api: &ApiRef) -> Result<SocketAddr, FullSpeedError> {
        let host = self.layout.find(&Host::Api(api.clone())).and_then(|host| self.layout.host(host));
        let host = host.ok_or_else(|| FullSpeedError::Api(format!("there is no API of {api}")))?;
        Ok(SocketAddr::new(host.address, API_PORT))
    }

    /// Kills a daemon. What it left in the kernel stays; true if it ran.
    pub(super) fn kill_daemon(&mut self, id: DaemonId) -> bool {
        let Some(post) = self.daemons.get_mut(id.0) else { return false };
        let Some(running) = post.running.take() else { return false };
        self.sockets.enter(StackId(post.host.0));
        drop(running);
        self.chronicle.tell(post.place.clone(), What::Process(false));
        true
    }

    /// The daemons of a host.
    pub(super) fn posts_of(&self, host: HostId) -> Vec<DaemonId> {
        let all = self.daemons.iter().enumerate().filter(|(_, post)| post.host == host);
        all.map(|(index, _)| DaemonId(index)).collect()
    }

    /// Sees which daemons want another network or their public address, and gives it to them a little later.
    pub(super) fn see_wishes(&mut self) {
        for index in 0..self.daemons.len() {
            let is_over = |post: &Post| post.running.as_ref().is_some_and(|running| running.left.get());
            if self.daemons.get(index).is_some_and(is_over) {
                self.kill_daemon(DaemonId(index));
            }
            let Some(post) = self.daemons.get_mut(index) else { continue };
            let boot = post.boot;
            let Some(running) = post.running.as_mut() else { continue };
            let (looks_up, applies) = (running.lookups.take(), !running.applying && running.wanted.is_some());
            running.applying |= applies;
            if looks_up {
                let delay = self.chance.duration(LOOKUP_TIME.0, LOOKUP_TIME.1);
                self.later(delay, Due::LookedUp(DaemonId(index), boot));
            }
            if applies {
                let delay = self.chance.duration(APPLY_TIME.0, APPLY_TIME.1);
                self.later(delay, Due::Apply(DaemonId(index), boot));
            }
        }
    }

    /// Somebody outside has answered a lookup.
    pub(super) fn looked_up(&mut self, id: DaemonId, boot: u64) {
        let Some(host) = self.daemons.get(id.0).filter(|post| post.boot == boot).map(|post| post.host) else { return };
        self.stir(StackId(host.0));
        let seen = self.fabric.seen_from_outside(host);
        if let Some(running) = self.daemons.get(id.0).and_then(|post| post.running.as_ref()) {
            running.inbox.put(Input::LookedUp(Ok(seen)));
        }
    }

    /// The hand observes the kernel, plans and applies.
    pub(super) fn apply(&mut self, id: DaemonId, boot: u64) {
        let Some(host) = self.daemons.get(id.0).filter(|post| post.boot == boot).map(|post| post.host) else { return };
        self.stir(StackId(host.0));
        let Some(post) = self.daemons.get_mut(id.0) else { return };
        let Some(running) = post.running.as_mut() else { return };
        running.applying = false;
        let Some(wanted) = running.wanted.take() else { return };
        let Some(kernel) = self.fabric.kernel_mut(host) else { return };
        let steps = kernel.apply(&wanted);
        let items = kernel.ours().entries().count();
        running.inbox.put(Input::Applied(Ok(())));
        if !steps.is_empty() {
            self.chronicle.tell(crate::world::place(&self.layout, host), What::Applied { steps, items });
        }
    }
}

/// Puts a machine into its process.
struct Birth<'a> {
    process: &'a Process,
    kit: Kit,
    inbox: Inbox,
    inputs: tokio::sync::mpsc::UnboundedReceiver<Input>,
}

impl MachineUser for Birth<'_> {
    type Out = ();

    fn use_it<R: Role + 'static>(self, machine: R) {
        let Self { process, kit, inbox, inputs } = self;
        process.spawn(async move {
            let (chronicle, place) = (kit.chronicle.clone(), kit.place.clone());
            match hands(kit, inbox).await {
                Ok(hands) => {
                    run(machine, hands, inputs, None).await;
                }
                Err(error) => chronicle.broke(format!("{place} could not begin: {error}")),
            }
        });
    }
}

async fn hands(kit: Kit, inbox: Inbox) -> Result<Hands, Box<dyn core::error::Error>> {
    let client = |api: SocketAddr| {
        let base: Uri = format!("http://{api}").parse()?;
        let connect = move |_: Uri| TcpStream::connect(api);
        Ok::<_, Box<dyn core::error::Error>>(tombolo_kube::client(connect, &base, &kit.user_agent, REQUEST_DEADLINE)?)
    };
    let connections = Connections { local: client(kit.local)?, broker: Some(client(kit.broker)?) };
    let (chronicle, place) = (kit.chronicle.clone(), kit.place.clone());
    let tell = move |event: Event| chronicle.tell(place.clone(), What::Told(event));
    let mut kube = Kubernetes::new(connections, kit.config, inbox.clone(), tell);
    let net: Box<dyn NetHand> = match kit.daemon {
        Daemon::Gateway | Daemon::RouteAgent => Box::new(Hellos::bind(kit.stack, &inbox).await?),
        Daemon::Discovery | Daemon::Dns => Box::new(NoHellos(kit.chronicle.clone(), kit.place.clone())),
    };
    let nat: Box<dyn NatHand> = match kit.daemon {
        Daemon::Gateway => {
            let own = (kit.cluster.clone(), Arc::clone(&kit.layout));
            Box::new(Discovering::bind(kit.stack, own, kit.lookups.clone(), inbox.clone()).await?)
        }
        Daemon::RouteAgent | Daemon::Discovery | Daemon::Dns => {
            Box::new(NoDiscovery(kit.chronicle.clone(), kit.place.clone()))
        }
    };
    let zone = Zone::new(kit.chronicle.clone(), kit.place.clone());
    if kit.daemon == Daemon::Dns {
        tokio::task::spawn_local(zone.clone().serve(kit.own, kit.seed));
    }
    if let (Daemon::Gateway, Place::Daemon(_, node, _)) = (kit.daemon, &kit.place) {
        let (chronicle, clock) = (kit.chronicle.clone(), kit.clock.clone());
        kube.sign_gateway(node.clone(), move || clock.get().wall(chronicle.now()));
    }
    Ok(Hands {
        kube: Box::new(kube),
        net,
        nat,
        kernel: Box::new(kit.wanted),
        zone: Box::new(zone),
        journal: Box::new(Diary(kit.chronicle.clone(), kit.place, kit.left)),
        wall: Box::new(HostWall(kit.chronicle, kit.clock)),
    })
}
