//! The sockets of the world: the one page that touches turmoil's network primitives.
//!
//! Each node (host network), each pod that is used, and each API server has a *stack* of its own. turmoil-net wants
//! addresses that are unique and never change; so a stack gets private *fabric addresses*, and what leaves it or comes
//! to it is rewritten here. Applications dial the world's addresses; only the own side of a socket is a fabric address.
//!
//! ```text
//!  socket ──198.18.0.3──> source rewritten ──172.16.1.10──> Fabric (forward, hop by hop) ──> destination rewritten ──> socket
//! ```
//! | owner | fabric address | in the world |
//! |---|---|---|
//! | host | one IPv4 | the host's address |
//! | node | one IPv6 for each link that hellos use | the node's address on that link; emulates a socket bound to a device |
//! | node | one IPv4 for its uplink | the node's address; emulates a socket of NAT discovery that is bound to a device |
//! | pod | one IPv4 | the pod's address, given to its node on the pods' link |

use super::acks::{Acks, Doubts, Mended, reset};
use super::segments::{self, Segments};
use crate::world::{Fabric, HostId, Kernel, Layout, Outcome};
use core::cell::Cell;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tombolo_core::base::Slot;
use tombolo_core::nat::NAT_PORT;
use tombolo_core::network::constants::{CABLE_LINK_PREFIX, OVERLAY_LINK};
use tombolo_core::network::{Arrival, Flags, LinkName, Packet, Transport};
use tombolo_core::paths::HELLO_PORT;
use tombolo_core::roles::Via;
use turmoil_net::{EnterGuard, KernelConfig, Net, TcpFlags, Transport as Load, netstat};

pub(super) use turmoil_net::shim::tokio::net::{TcpListener, TcpStream, UdpSocket};

/// Links of a node that hellos use: the overlay, and a cable for each rank.
pub(super) const HELLO_LINKS: usize = 5;
/// What each link takes that a socket sees. Simulated sockets find out no path MTU.
const MTU: u32 = 1500;
/// Linux' smallest retransmission timeout, in ticks.
const RETRANSMIT_MIN: u32 = 200;
/// A connection without progress is given up after this.
const GIVE_UP: u32 = 30_000;

/// Number of a stack. That of a host is the host's own number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct StackId(pub(super) usize);

/// Whose a stack is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Host(HostId),
    Pod { node: HostId, address: IpAddr },
}

#[derive(Debug)]
struct Stack {
    id: turmoil_net::HostId,
    owner: Owner,
    v4: Ipv4Addr,
}

/// What a packet carries through the fabric.
#[derive(Clone, Debug)]
pub(crate) struct Cargo {
    from: StackId,
    /// Where the sender thinks that it goes.
    dialled: SocketAddr,
    load: Load,
}

impl Cargo {
    fn lost(self, host: HostId, why: String) -> Lost {
        Lost { from: self.from, dialled: self.dialled, host, why }
    }
}

/// A packet for a stack.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) stack: StackId,
    pub(super) packet: turmoil_net::Packet,
    /// Of a SYN or SYN-ACK: the longest segment that it asks for.
    pub(super) mss: Option<u16>,
    /// Only the daemon that cares for the node's network reads it: a hello, or a datagram of NAT discovery.
    pub(super) for_network_daemon: bool,
}

/// A packet that was lost, for those who want to tell why nothing is heard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Lost {
    pub(super) from: StackId,
    pub(super) dialled: SocketAddr,
    pub(super) host: HostId,
    pub(super) why: String,
}

/// Another world lives on this thread already: the sockets of one thread belong to one world.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("another world at full speed lives on this thread")]
pub struct Occupied;

thread_local! {
    static OCCUPIED: Cell<bool> = const { Cell::new(false) };
}

/// All stacks. See the module docs.
pub(super) struct Sockets {
    guard: EnterGuard,
    layout: Arc<Layout>,
    stacks: Vec<Stack>,
    by_pod: BTreeMap<(HostId, IpAddr), StackId>,
    links: [LinkName; HELLO_LINKS],
    uplink: LinkName,
    pods_link: LinkName,
    acks: Acks,
    segments: Segments,
    /// Those that do not answer what belongs to no connection of theirs.
    silent: BTreeSet<StackId>,
    leaving: Vec<turmoil_net::Packet>,
}

impl core::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Sockets {{ stacks: {} }}", self.stacks.len())
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        OCCUPIED.set(false);
    }
}

/// All pods that are used, always in the same order.
fn pods(layout: &Layout) -> impl Iterator<Item = (HostId, IpAddr)> {
    let probes = layout.nodes().map(|(node, layout)| (node, layout.probe_pod));
    probes.chain(layout.services().iter().flat_map(|service| &service.pods).map(|pod| (pod.node, pod.address)))
}

impl Sockets {
    /// A stack for each host, each probe pod and each pod of a service. `round_trip_ms` is the longest one.
    pub(super) fn new(layout: &Arc<Layout>, round_trip_ms: u32) -> Result<Self, Occupied> {
        if OCCUPIED.replace(true) {
            return Err(Occupied);
        }
        let threshold = RETRANSMIT_MIN.max(round_trip_ms.saturating_mul(2));
        let config = KernelConfig::default().mtu(MTU).retx_threshold(threshold).retx_max(GIVE_UP / threshold);
        let mut net = Net::with_config(config);
        let mut stacks = Vec::new();
        let mut by_pod = BTreeMap::new();
        for index in 0..layout.hosts().len() {
            let id = StackId(stacks.len());
            let links = (0..HELLO_LINKS).map(|link| IpAddr::V6(link_address(id, link)));
            let v4 = [v4_address(id), uplink_address(id)].map(IpAddr::V4);
            let addresses: Vec<IpAddr> = v4.into_iter().chain(links).collect();
            let (id, v4) = (net.add_host(addresses), v4_address(id));
            stacks.push(Stack { id, owner: Owner::Host(HostId(index)), v4 });
        }
        for (node, address) in pods(layout) {
            let number = StackId(stacks.len());
            let (id, v4) = (net.add_host(IpAddr::V4(v4_address(number))), v4_address(number));
            stacks.push(Stack { id, owner: Owner::Pod { node, address }, v4 });
            by_pod.insert((node, address), number);
        }
        Ok(Self {
            guard: net.enter(),
            layout: Arc::clone(layout),
            stacks,
            by_pod,
            links: core::array::from_fn(|link| LinkName(link_name(link).into())),
            uplink: Kernel::uplink(),
            pods_link: Kernel::pods(),
            acks: Acks::default(),
            segments: Segments::default(),
            silent: BTreeSet::new(),
            leaving: Vec::new(),
        })
    }

    /// Pods have other addresses; who they are is as before.
    pub(super) fn set_layout(&mut self, layout: &Arc<Layout>) {
        self.layout = Arc::clone(layout);
        self.by_pod.clear();
        let stacks = self.stacks.iter_mut().enumerate().filter(|(_, stack)| matches!(stack.owner, Owner::Pod { .. }));
        for ((number, stack), (node, address)) in stacks.zip(pods(layout)) {
            stack.owner = Owner::Pod { node, address };
            self.by_pod.insert((node, address), StackId(number));
        }
    }

    /// What follows is done by processes of this stack.
    pub(super) fn enter(&self, stack: StackId) {
        if let Some(stack) = self.stacks.get(stack.0) {
            self.guard.set_current(stack.id);
        }
    }

    /// The address that IPv4 sockets of a stack bind to.
    pub(super) fn v4(&self, stack: StackId) -> Ipv4Addr {
        self.stacks.get(stack.0).map_or(Ipv4Addr::UNSPECIFIED, |stack| stack.v4)
    }

    /// The stack of a pod.
    pub(super) fn pod(&self, node: HostId, address: IpAddr) -> Option<StackId> {
        self.by_pod.get(&(node, address)).copied()
    }

    /// The stacks of a node's pods.
    pub(super) fn pods_of(&self, node: HostId) -> Vec<StackId> {
        let all = self.by_pod.range((node, lowest())..).take_while(|((on, _), _)| *on == node);
        all.map(|(_, stack)| *stack).collect()
    }

    /// Gives what all stacks want to send to the fabric.
    pub(super) fn send_all(&mut self, now: Duration, fabric: &mut Fabric<Cargo>) {
        let mut leaving = core::mem::take(&mut self.leaving);
        self.guard.egress_all(&mut leaving);
        for packet in leaving.drain(..) {
            self.send(now, packet, fabric);
        }
        self.leaving = leaving;
    }

    fn send(&mut self, now: Duration, packet: turmoil_net::Packet, fabric: &mut Fabric<Cargo>) {
        let Some((id, bound)) = stack_of(packet.src) else { return };
        let Some(owner) = self.stacks.get(id.0).map(|stack| stack.owner) else { return };
        let (host, arrival, source) = match (owner, bound) {
            (Owner::Pod { node, address }, _) => (node, Arrival::Link(self.pods_link.clone()), address),
            (Owner::Host(host), Bound::Nowhere) => {
                let Some(address) = self.layout.host(host).map(|host| host.address) else { return };
                (host, Arrival::Local { link: None }, address)
            }
            (Owner::Host(host), bound) => {
                let Some(name) = self.link_of(bound) else { return };
                // Without the link, or an address on it, nothing leaves.
                let source = fabric.kernel(host).and_then(|kernel| kernel.source_on(name, packet.dst));
                let Some(source) = source else { return };
                (host, Arrival::Local { link: Some(name.clone()) }, source)
            }
        };
        if !fabric.has_power(host) {
            return;
        }
        self.acks.said(now, &packet);
        let most = match owner {
            Owner::Pod { .. } => segments::PODS,
            Owner::Host(_) => segments::HOSTS,
        };
        for packet in self.segments.cut(now, packet, most) {
            let length = u16::try_from(packet.size()).unwrap_or(u16::MAX);
            let (transport, port) = header(&packet.payload);
            let (destination, ttl) = (packet.dst, packet.ttl);
            let mss = opens(transport).then_some(most);
            let seen = Packet { source, destination, transport, ttl, length, mss, outer: None };
            let cargo = Cargo { from: id, dialled: SocketAddr::new(packet.dst, port), load: packet.payload };
            fabric.send(now, host, arrival.clone(), seen, cargo);
        }
    }

    fn link_of(&self, bound: Bound) -> Option<&LinkName> {
        match bound {
            Bound::Nowhere => None,
            Bound::Uplink => Some(&self.uplink),
            Bound::Link(link) => self.links.get(link),
        }
    }

    /// Where what the fabric has carried to its end is to be delivered; or that it was lost. `None`: to no socket.
    pub(super) fn aim(&self, outcome: Outcome<Cargo>, fabric: &Fabric<Cargo>) -> Option<Result<Delivery, Lost>> {
        let (stack, own, packet, cargo) = match outcome {
            Outcome::Lost { host, loss, packet: _, payload } => return Some(Err(payload.lost(host, loss.to_string()))),
            Outcome::Pod { node, packet, payload } => {
                let Some(id) = self.pod(node, packet.destination) else {
                    return Some(Err(payload.lost(node, format!("no pod has {}", packet.destination))));
                };
                (id, IpAddr::V4(self.v4(id)), packet, payload)
            }
            Outcome::Host { host, link, packet, payload } => {
                let id = StackId(host.0);
                let by_uplink = link.as_ref() == Some(&self.uplink);
                let via = link.and_then(|link| fabric.kernel(host)?.via(&link));
                let own = match (via, packet.transport) {
                    (Some(via), Transport::Udp { destination: HELLO_PORT, .. }) => {
                        IpAddr::V6(link_address(id, link_number(via)))
                    }
                    (None, Transport::Udp { destination: NAT_PORT, .. }) if by_uplink => IpAddr::V4(uplink_address(id)),
                    _ if packet.destination.is_ipv4() => IpAddr::V4(self.v4(id)),
                    _ => return None,
                };
                (id, own, packet, payload)
            }
        };
        let payload = with_ports(cargo.load, packet.transport);
        let mss = packet.mss;
        let packet = turmoil_net::Packet { src: packet.source, dst: own, ttl: packet.ttl, payload };
        let for_network_daemon = stack_of(own).is_some_and(|(_, bound)| bound != Bound::Nowhere);
        Some(Ok(Delivery { stack, packet, mss, for_network_daemon }))
    }

    /// Delivers a packet to its stack.
    pub(super) fn deliver(&mut self, now: Duration, packet: turmoil_net::Packet, mss: Option<u16>) {
        if let Some(mss) = mss {
            self.segments.heard(now, &packet, mss);
        }
        match self.acks.heard(now, packet) {
            Mended::Deliver(packet) if self.is_silent_to(&packet) => {}
            Mended::Deliver(packet) => self.guard.deliver(packet),
            Mended::Both(packets) => packets.into_iter().for_each(|packet| self.guard.deliver(packet)),
            // It leaves with what the stack itself says next.
            Mended::Answer(ack) => self.leaving.push(ack),
        }
    }

    /// Nodes ask those with whom they have silent connections (the API servers) whether they live, as kernels do.
    pub(super) fn doubt(&mut self, now: Duration) {
        let (layout, stacks) = (&self.layout, &self.stacks);
        let is_node = |own| {
            let owner = stack_of(own).and_then(|(stack, _)| stacks.get(stack.0)).map(|stack| stack.owner);
            matches!(owner, Some(Owner::Host(host)) if layout.host(host).is_some_and(|host| host.node.is_some()))
        };
        let Doubts { questions, resets } = self.acks.doubt(now, is_node);
        self.leaving.extend(questions);
        resets.into_iter().for_each(|reset| self.guard.deliver(reset));
    }

    /// From now on a stack answers as a host does (a connection to a port without a listener is refused), or not at all. It
    /// goes on with the connections it has.
    pub(super) fn set_silent(&mut self, stack: StackId, silent: bool) {
        if silent {
            self.silent.insert(stack);
        } else {
            self.silent.remove(&stack);
        }
    }

    fn is_silent_to(&self, packet: &turmoil_net::Packet) -> bool {
        if !stack_of(packet.dst).is_some_and(|(stack, _)| self.silent.contains(&stack)) {
            return false;
        }
        let (transport, _) = header(&packet.payload);
        let (Transport::Udp { source, .. } | Transport::Tcp { source, .. }) = transport;
        let peer = SocketAddr::new(packet.src, source);
        !netstat(packet.dst).entries.iter().any(|entry| entry.peer == Some(peer))
    }

    /// Lets a stack forget all connections, when its processes are gone with the power or others are to take their place.
    pub(super) fn forget(&mut self, stack: StackId) {
        let v4 = IpAddr::V4(self.v4(stack));
        for entry in netstat(v4).entries {
            let Some(peer) = entry.peer else { continue };
            self.guard.deliver(reset((entry.local, peer)));
        }
        self.acks.forget(v4);
        self.segments.forget(v4);
    }

    /// How many connections a stack has, open or half open.
    #[cfg(test)]
    pub(super) fn connections(&self, stack: StackId) -> usize {
        let tcp = |entry: &&turmoil_net::NetstatEntry| entry.proto == turmoil_net::Proto::Tcp && entry.peer.is_some();
        netstat(IpAddr::V4(self.v4(stack))).entries.iter().filter(tcp).count()
    }
}

const fn lowest() -> IpAddr {
    IpAddr::V4(Ipv4Addr::UNSPECIFIED)
}

/// The first IPv4 fabric address of stacks: 198.18.0.0/15 is for such use (RFC 2544).
const STACKS: u32 = Ipv4Addr::new(198, 18, 0, 0).to_bits();
/// The first IPv4 fabric address of sockets that are bound to an uplink.
const UPLINKS: u32 = Ipv4Addr::new(198, 19, 0, 0).to_bits();

/// The IPv4 fabric address of a stack.
fn v4_address(stack: StackId) -> Ipv4Addr {
    let number = u32::try_from(stack.0).unwrap_or(u32::MAX);
    Ipv4Addr::from(STACKS.saturating_add(number))
}

/// The fabric address of sockets bound to one of a node's links: 2001:2::/48 is for such use (RFC 5180).
pub(super) fn link_address(stack: StackId, link: usize) -> Ipv6Addr {
    let part = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    Ipv6Addr::new(0x2001, 2, 0, 0, 0, part(stack.0 >> 16), part(stack.0 & 0xffff), part(link))
}

/// The fabric address of a socket bound to a node's uplink.
pub(super) fn uplink_address(stack: StackId) -> Ipv4Addr {
    Ipv4Addr::from(UPLINKS.saturating_add(u32::try_from(stack.0).unwrap_or(u32::MAX)))
}

/// To which link a socket is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    Nowhere,
    Uplink,
    /// One of those that hellos use.
    Link(usize),
}

/// Whose fabric address this is, and to which link its sockets are bound.
fn stack_of(address: IpAddr) -> Option<(StackId, Bound)> {
    match address {
        IpAddr::V4(v4) => {
            let v4 = u32::from(v4);
            let (first, bound) = if v4 < UPLINKS { (STACKS, Bound::Nowhere) } else { (UPLINKS, Bound::Uplink) };
            Some((StackId(usize::try_from(v4.checked_sub(first)?).ok()?), bound))
        }
        IpAddr::V6(v6) => {
            let [.., high, low, link] = v6.segments();
            Some((StackId((usize::from(high) << 16) | usize::from(low)), Bound::Link(usize::from(link))))
        }
    }
}

/// Number of a link among those that hellos use.
pub(super) fn link_number(via: Via) -> usize {
    match via {
        Via::Overlay => 0,
        Via::Cable(rank) => usize::from(rank.get()),
    }
}

/// All links that hellos use, in order of their numbers.
pub(super) fn hello_links() -> [Via; HELLO_LINKS] {
    let [one, two, three, four] = Slot::all();
    [Via::Overlay, Via::Cable(one), Via::Cable(two), Via::Cable(three), Via::Cable(four)]
}

fn link_name(link: usize) -> String {
    if link == 0 { OVERLAY_LINK.into() } else { format!("{CABLE_LINK_PREFIX}{link}") }
}

/// The header as nodes see it, and the destination port.
const fn header(load: &Load) -> (Transport, u16) {
    match load {
        Load::Udp(datagram) => {
            (Transport::Udp { source: datagram.src_port, destination: datagram.dst_port }, datagram.dst_port)
        }
        Load::Tcp(segment) => {
            let TcpFlags { syn, ack, fin, rst, .. } = segment.flags;
            let flags = Flags { syn, ack, fin, rst };
            (Transport::Tcp { source: segment.src_port, destination: segment.dst_port, flags }, segment.dst_port)
        }
    }
}

/// Whether this opens a connection.
const fn opens(transport: Transport) -> bool {
    matches!(transport, Transport::Tcp { flags: Flags { syn: true, .. }, .. })
}

/// The load with the ports that it has after all translations.
fn with_ports(mut load: Load, transport: Transport) -> Load {
    let (Transport::Udp { source, destination } | Transport::Tcp { source, destination, .. }) = transport;
    match &mut load {
        Load::Udp(datagram) => (datagram.src_port, datagram.dst_port) = (source, destination),
        Load::Tcp(segment) => (segment.src_port, segment.dst_port) = (source, destination),
    }
    load
}
