//! Carries packets hop by hop between hosts, whatever they carry.
//!
//! ```text
//!   pod ─cni0─> node ──forward──> eth0 ─┬─ next hop at the site ──────────> host
//!                 │                     └─ site router: whoever has the outermost destination, at any site
//!                 ├─> pod, host socket
//!                 └─> lost, because …
//! ```
//! Each node's decision is [`Kernel::handle`]; the fabric itself knows only who has which address, how long the way is,
//! what is cut, who has no power, and what a site's NAT box does to addresses. Cuts and loss act as a packet leaves, lack of power as it arrives. Time belongs to
//! the caller: [`Fabric::next_at`] says when something happens, [`Fabric::step`] lets exactly one host handle exactly
//! one packet.

use super::internet::{Internet, Unroutable};
use super::proxy::NoBackend;
use super::{HostId, Kernel, Layout, Proxy};
use core::cmp::{Ordering, Reverse};
use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tombolo_core::base::{ClusterId, Rng};
use tombolo_core::network::{Arrival, LinkName, Packet, Verdict};
use tombolo_scenarios::{LinkSpec, Links};

/// One-way delay between two hosts of a site.
const LOCAL_LATENCY: Duration = Duration::from_micros(200);
/// Added to it by chance, so that hosts of a site do not answer in a fixed order.
const LOCAL_JITTER: Duration = Duration::from_micros(50);
/// What a host takes to handle a packet.
const HANDLING: Duration = Duration::from_micros(10);
/// What a cable puts around a packet: the headers of IPv4, UDP and WireGuard.
const OUTER_HEADERS: u16 = 60;
/// The last byte of a site router's address.
const ROUTER: u8 = 1;

/// Where a packet's way ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome<P> {
    /// At a socket of a host.
    Host {
        /// The host.
        host: HostId,
        /// The link it came in by last; none if it was sent by the host itself.
        link: Option<LinkName>,
        /// As the socket sees it.
        packet: Packet,
        /// What it carries.
        payload: P,
    },
    /// At a pod.
    Pod {
        /// The pod's node.
        node: HostId,
        /// As the pod sees it.
        packet: Packet,
        /// What it carries.
        payload: P,
    },
    /// Nowhere.
    Lost {
        /// The host that had it last.
        host: HostId,
        /// Why.
        loss: Loss,
        /// As it was then.
        packet: Packet,
        /// What it carries.
        payload: P,
    },
}

/// Why a packet was lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The host has no power.
    Off,
    /// The way to that host is cut.
    Cut(HostId),
    /// By chance, on the way to that host.
    Chance(HostId),
    /// Longer than the link to that host takes.
    TooLong {
        /// Bytes on the wire.
        length: u16,
        /// What the link takes.
        mtu: u16,
    },
    /// Nobody has that address.
    NoOwner(IpAddr),
    /// The NAT box that has that address and port lets the packet not in.
    NotLetIn(SocketAddr),
    /// The service of the own cluster has no ready pod.
    NoBackend(IpAddr),
    /// The node's network dropped it, for this reason.
    Kernel(String),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("no power"),
            Self::Cut(_) => f.write_str("the way is cut"),
            Self::Chance(_) => f.write_str("lost on the way"),
            Self::TooLong { length, mtu } => write!(f, "{length} bytes, the link takes {mtu}"),
            Self::NoOwner(address) => write!(f, "nobody has {address}"),
            Self::NotLetIn(socket) => write!(f, "the NAT box of {socket} does not let it in"),
            Self::NoBackend(address) => write!(f, "no pod is ready behind {address}"),
            Self::Kernel(because) => f.write_str(because),
        }
    }
}

/// A packet about to be handled by a host.
#[derive(Debug)]
struct Flight<P> {
    at: Duration,
    sequence: u64,
    to: HostId,
    arrival: Arrival,
    packet: Packet,
    payload: P,
}

impl<P> PartialEq for Flight<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Flight<P> {}

impl<P> PartialOrd for Flight<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Flight<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// What a node has beside its place.
#[derive(Debug)]
struct NodeState {
    kernel: Kernel,
    proxy: Proxy,
}

#[derive(Debug)]
struct HostState {
    power: bool,
    /// None for the host of an API server: it only sends and receives.
    node: Option<NodeState>,
}

/// The network of the whole world. See the module docs.
#[derive(Debug)]
pub struct Fabric<P> {
    layout: Arc<Layout>,
    hosts: Vec<HostState>,
    /// The link between two sites.
    links: Vec<Vec<LinkSpec>>,
    cuts: BTreeSet<(HostId, HostId)>,
    /// When the last packet from one host arrives at another: a wire keeps the order of its packets.
    last: BTreeMap<(HostId, HostId), Duration>,
    flying: BinaryHeap<Reverse<Flight<P>>>,
    internet: Internet,
    sequence: u64,
    uplink: LinkName,
    chance: Rng,
    clamps: bool,
}

impl<P> Fabric<P> {
    /// All hosts powered, nothing cut, nothing on its way.
    #[must_use]
    pub fn new(layout: Arc<Layout>, links: &Links, seed: u64) -> Self {
        let hosts = layout.hosts().iter().enumerate().map(|(index, host)| HostState {
            power: true,
            node: host
                .node
                .as_ref()
                .map(|_| NodeState { kernel: Kernel::of(&layout, HostId(index)), proxy: Proxy::default() }),
        });
        Self {
            hosts: hosts.collect(),
            links: link_table(&layout, links),
            cuts: BTreeSet::new(),
            last: BTreeMap::new(),
            flying: BinaryHeap::new(),
            internet: Internet::of(&layout),
            sequence: 0,
            uplink: Kernel::uplink(),
            chance: Rng::stream(seed, "fabric"),
            clamps: true,
            layout,
        }
    }

    /// From now on kernels clamp no segments, whatever they were told: a bug for tests to plant.
    pub const fn break_clamps(&mut self) {
        self.clamps = false;
    }

    /// Who is where.
    #[must_use]
    pub const fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Who is where from now on. Nodes without power, which know nothing yet, boot with that.
    pub fn set_layout(&mut self, layout: Arc<Layout>) {
        self.layout = layout;
        for host in (0..self.hosts.len()).map(HostId).filter(|host| !self.has_power(*host)).collect::<Vec<_>>() {
            self.set_power(host, false);
        }
    }

    /// The kernel of a node.
    #[must_use]
    pub fn kernel(&self, node: HostId) -> Option<&Kernel> {
        self.hosts.get(node.0)?.node.as_ref().map(|node| &node.kernel)
    }

    /// The kernel of a node, to change it.
    pub fn kernel_mut(&mut self, node: HostId) -> Option<&mut Kernel> {
        self.hosts.get_mut(node.0)?.node.as_mut().map(|node| &mut node.kernel)
    }

    /// The service translation of a node, to change it.
    pub fn proxy_mut(&mut self, node: HostId) -> Option<&mut Proxy> {
        self.hosts.get_mut(node.0)?.node.as_mut().map(|node| &mut node.proxy)
    }

    /// Whether the host has power.
    #[must_use]
    pub fn has_power(&self, host: HostId) -> bool {
        self.hosts.get(host.0).is_some_and(|host| host.power)
    }

    /// Gives power to a host, or takes it away: then its kernel forgets everything.
    pub fn set_power(&mut self, host: HostId, on: bool) {
        let layout = Arc::clone(&self.layout);
        let Some(state) = self.hosts.get_mut(host.0) else { return };
        state.power = on;
        if let Some(node) = state.node.as_mut().filter(|_| !on) {
            node.kernel = Kernel::of(&layout, host);
            node.proxy = Proxy::default();
        }
    }

    /// From now on packets pass from the first host of each pair to the second, or none does.
    pub fn set_open(&mut self, ways: &[(HostId, HostId)], open: bool) {
        for way in ways {
            if open {
                self.cuts.remove(way)
            } else {
                self.cuts.insert(*way)
            };
        }
    }

    /// The NAT box of a site forgets its mappings. False if there is none.
    pub fn forget_mappings(&mut self, site: u8) -> bool {
        self.internet.forget(site)
    }

    /// The NAT box of a site gets another outside address: this one. `None` if there is no box.
    pub fn change_address(&mut self, site: u8) -> Option<IpAddr> {
        self.internet.change_address(site)
    }

    /// Under which address a host is seen from outside its site.
    #[must_use]
    pub fn seen_from_outside(&self, host: HostId) -> Option<IpAddr> {
        self.internet.seen(&self.layout, host)
    }

    /// Whether `from` and `to` have power and nothing cuts the way from one to the other.
    #[must_use]
    pub fn is_open(&self, from: HostId, to: HostId) -> bool {
        self.has_power(from) && self.has_power(to) && !self.cuts.contains(&(from, to))
    }

    /// Lets `from` send a packet: a local one of the host itself, or one that a pod gives to its node.
    pub fn send(&mut self, now: Duration, from: HostId, arrival: Arrival, packet: Packet, payload: P) {
        self.fly(now + HANDLING, from, arrival, packet, payload);
    }

    /// When the next packet is handled.
    #[must_use]
    pub fn next_at(&self) -> Option<Duration> {
        self.flying.peek().map(|Reverse(flight)| flight.at)
    }

    /// Lets one host handle the next packet. `None` if it only goes on from there.
    pub fn step(&mut self) -> Option<Outcome<P>> {
        let Reverse(flight) = self.flying.pop()?;
        let state = self.hosts.get_mut(flight.to.0)?;
        if !state.power {
            return Some(lost(flight, Loss::Off));
        }
        match &mut state.node {
            None => self.at_plain_host(flight),
            Some(node) => {
                let packet = match from_client(node, &flight, &mut self.chance) {
                    Ok(packet) => packet,
                    Err(loss) => return Some(lost(flight, loss)),
                };
                let mut verdict = node.kernel.handle(flight.at, &flight.arrival, &packet, &mut self.chance);
                if !self.clamps {
                    give_back(&mut verdict, packet.mss);
                }
                self.carry_out(flight, verdict)
            }
        }
    }

    /// How long a message takes from one host to another just now, or why it does not arrive: for what is carried by
    /// other means than packets.
    ///
    /// # Errors
    /// The [`Loss`] that a packet would suffer.
    pub fn passage(&mut self, from: HostId, to: HostId) -> Result<Duration, Loss> {
        if !self.has_power(from) || !self.has_power(to) {
            return Err(Loss::Off);
        }
        self.wire(from, to)
    }

    fn wire(&mut self, from: HostId, to: HostId) -> Result<Duration, Loss> {
        if from == to {
            return Ok(Duration::ZERO);
        }
        if self.cuts.contains(&(from, to)) {
            return Err(Loss::Cut(to));
        }
        let Some(link) = self.link(from, to) else {
            return Ok(LOCAL_LATENCY + self.chance.duration(Duration::ZERO, LOCAL_JITTER));
        };
        if link.loss_millionths > 0 && self.chance.chance(link.loss_millionths) {
            return Err(Loss::Chance(to));
        }
        let jitter =
            if link.jitter.is_zero() { Duration::ZERO } else { self.chance.duration(Duration::ZERO, link.jitter) };
        Ok(link.latency + jitter)
    }

    /// The link between the sites of two hosts; none if it is one site.
    fn link(&self, from: HostId, to: HostId) -> Option<LinkSpec> {
        let site = |host: HostId| self.layout.host(host).map(|host| usize::from(host.site));
        let (a, b) = (site(from), site(to));
        let link = || a.zip(b).and_then(|(a, b)| self.links.get(a)?.get(b)).copied().unwrap_or_default();
        (a != b).then(link)
    }

    /// What a packet suffers that is too long for the link. Nobody fragments, and nobody says so: on many ways the
    /// router's word is filtered.
    fn too_long(&self, from: HostId, to: HostId, packet: &Packet) -> Option<Loss> {
        let length = packet.length.saturating_add(if packet.outer.is_some() { OUTER_HEADERS } else { 0 });
        let mtu = self.link(from, to)?.mtu;
        (length > mtu).then_some(Loss::TooLong { length, mtu })
    }

    fn fly(&mut self, at: Duration, to: HostId, arrival: Arrival, packet: Packet, payload: P) {
        self.sequence += 1;
        self.flying.push(Reverse(Flight { at, sequence: self.sequence, to, arrival, packet, payload }));
    }

    fn carry_out(&mut self, mut flight: Flight<P>, verdict: Verdict) -> Option<Outcome<P>> {
        match verdict {
            Verdict::DeliverHost { link, packet } => {
                let packet = self.to_client(flight.to, packet);
                Some(Outcome::Host { host: flight.to, link, packet, payload: flight.payload })
            }
            Verdict::DeliverPod { packet } => {
                let packet = self.to_client(flight.to, packet);
                Some(Outcome::Pod { node: flight.to, packet, payload: flight.payload })
            }
            Verdict::Send { link: _, next_hop, packet } => {
                flight.packet = packet;
                self.transmit(flight, next_hop)
            }
            Verdict::Drop { because } => Some(lost(flight, Loss::Kernel(because))),
        }
    }

    fn to_client(&self, node: HostId, packet: Packet) -> Packet {
        let node = self.hosts.get(node.0).and_then(|host| host.node.as_ref());
        node.map_or(packet, |node| node.proxy.inbound(packet))
    }

    fn at_plain_host(&mut self, flight: Flight<P>) -> Option<Outcome<P>> {
        let own = self.layout.host(flight.to).map(|host| host.address);
        if own == Some(flight.packet.destination) {
            let link = match flight.arrival {
                Arrival::Local { .. } => None,
                Arrival::Link(link) => Some(link),
            };
            return Some(Outcome::Host { host: flight.to, link, packet: flight.packet, payload: flight.payload });
        }
        match flight.arrival {
            Arrival::Local { .. } => {
                let destination = flight.packet.destination;
                self.transmit(flight, destination)
            }
            Arrival::Link(_) => {
                let destination = flight.packet.destination;
                Some(lost(flight, Loss::NoOwner(destination)))
            }
        }
    }

    /// Puts what `flight` has become on the wire of the host that handled it.
    fn transmit(&mut self, mut flight: Flight<P>, next_hop: IpAddr) -> Option<Outcome<P>> {
        let site = self.layout.host(flight.to).map(|host| host.site)?;
        let router = IpAddr::V4(Ipv4Addr::new(172, 16, site, ROUTER));
        let wanted = if next_hop == router {
            flight.packet.outer.map_or(flight.packet.destination, |outer| outer.destination)
        } else {
            next_hop
        };
        // A plain host names the destination itself as next hop; its way to another site is the router's too.
        let way = (flight.at, flight.to);
        let to = match self.internet.carry(&self.layout, way, wanted, &flight.packet) {
            Ok((to, packet)) => {
                flight.packet = packet;
                to
            }
            Err(Unroutable::NoOwner(address)) => return Some(lost(flight, Loss::NoOwner(address))),
            Err(Unroutable::NotLetIn(socket)) => return Some(lost(flight, Loss::NotLetIn(socket))),
        };
        if let Some(loss) = self.too_long(flight.to, to, &flight.packet) {
            return Some(lost(flight, loss));
        }
        match self.wire(flight.to, to) {
            Err(loss) => Some(lost(flight, loss)),
            Ok(delay) => {
                let last = self.last.entry((flight.to, to)).or_default();
                let at = (flight.at + delay + HANDLING).max(*last);
                *last = at;
                self.fly(at, to, Arrival::Link(self.uplink.clone()), flight.packet, flight.payload);
                None
            }
        }
    }
}

fn lost<P>(flight: Flight<P>, loss: Loss) -> Outcome<P> {
    Outcome::Lost { host: flight.to, loss, packet: flight.packet, payload: flight.payload }
}

fn give_back(verdict: &mut Verdict, mss: Option<u16>) {
    match verdict {
        Verdict::DeliverHost { packet, .. } | Verdict::DeliverPod { packet } | Verdict::Send { packet, .. } => {
            packet.mss = mss;
        }
        Verdict::Drop { .. } => {}
    }
}

/// What a client of this node sends passes the cluster's service translation before anything else.
fn from_client<P>(node: &mut NodeState, flight: &Flight<P>, chance: &mut Rng) -> Result<Packet, Loss> {
    let by_client = match &flight.arrival {
        Arrival::Local { link } => link.is_none(),
        Arrival::Link(link) => *link == node.kernel.pods_link(),
    };
    if !by_client {
        return Ok(flight.packet);
    }
    node.proxy
        .outbound(flight.packet, flight.at, chance)
        .map_err(|NoBackend| Loss::NoBackend(flight.packet.destination))
}

/// The link between each two sites, by number of the site.
fn link_table(layout: &Layout, links: &Links) -> Vec<Vec<LinkSpec>> {
    let sites: Vec<Option<&ClusterId>> = core::iter::once(None).chain(layout.clusters().map(Some)).collect();
    sites.iter().map(|a| sites.iter().map(|b| links.spec(*a, *b)).collect()).collect()
}

#[cfg(test)]
#[path = "fabric_tests.rs"]
mod tests;
