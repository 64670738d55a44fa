//! Probes: what a pod does that wants something from another cluster, and the pods that serve it.
//!
//! ```text
//!  probe pod ──A?──> dns daemon ──> address ──SYN──> … <──SYN-ACK── ──request──> … <──answer: my node's name── ──FIN──>
//! ```
//! Every arrow is packets that travel hop by hop, and over TCP request and answer are segments as long as the other side's SYN
//! or SYN-ACK asked for when it arrived (nobody hears that a packet was too long, B28). A client that hears nothing says its last word again, as TCP and
//! resolvers do, until the probe's time is over. A held flow keeps its ports over many probes; once it was reset, it
//! stays dead. Names of `cluster.local` are answered by the cluster itself, without a packet.

use super::{CoreSpeed, Event};
use crate::world::{HostId, Layout, ServiceLayout, ports};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use tombolo_core::base::Rng;
use tombolo_core::dns::{RecordKind, question, reading, respond};
use tombolo_core::model::Protocol;
use tombolo_core::network::{Arrival, Flags, Packet, Transport};
use tombolo_scenarios::{Daemon, Outcome, Place, Probe, ProbeId, ProbeTarget, Target, What};

/// Port of DNS.
const DNS_PORT: u16 = 53;
/// First wait before a query or a SYN is said again (RFC 6298: 1 s).
const REPEAT_OPENING: Duration = Duration::from_secs(1);
/// First wait before data is said again (Linux' smallest).
const REPEAT_DATA: Duration = Duration::from_millis(200);
/// The ports that clients use (`net.ipv4.ip_local_port_range`).
const PORTS: (u16, u16) = (32_768, 60_999);
/// Bytes of an IP packet without payload, about.
const HEADERS: u16 = 60;
/// Bytes of headers of a TCP segment over IPv4.
const SEGMENT_HEADERS: u16 = 40;
/// The longest segment that a pod wants to get, and sends: what its link takes.
const SEGMENT: u16 = 1500 - SEGMENT_HEADERS;
/// Names below are the cluster's own to answer.
const CLUSTER_ZONE: &str = "svc.cluster.local";

/// What a packet carries.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Hello(Vec<u8>),
    /// A datagram of NAT discovery.
    Nat(Vec<u8>),
    /// A DNS message, of this probe.
    Dns {
        by: ProbeId,
        bytes: Vec<u8>,
    },
    /// A segment or datagram, of this probe.
    Segment {
        by: ProbeId,
        what: Segment,
    },
}

/// What one side of a flow says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Segment {
    Syn,
    SynAck,
    Request,
    /// The node of the pod that answers.
    Answer(String),
    Fin,
    Reset,
}

/// An address and a port.
type End = (IpAddr, u16);

/// A flow as its client sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Flow {
    client: (IpAddr, u16),
    server: (IpAddr, u16),
    protocol: Protocol,
}

/// What a probe waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Wait {
    /// The answer of the DNS server to query `id`.
    Name {
        query: Vec<u8>,
        id: u16,
        flow: Flow,
    },
    SynAck(Flow),
    Answer(Flow),
}

/// A probe under way.
#[derive(Clone, Debug)]
struct Attempt {
    host: HostId,
    began: Duration,
    target: ProbeTarget,
    wait: Wait,
    /// How often it said something.
    tries: u32,
    /// How often it said its last word.
    repeats: u32,
    /// What happened to the last packet that was lost.
    loss: Option<String>,
    held: Option<Held>,
}

/// Which long flow a probe belongs to.
type Held = (HostId, Target);

/// A long flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Long {
    Open(Flow),
    /// It was reset: it does not come back.
    Reset,
}

/// All clients and servers.
#[derive(Debug)]
pub(super) struct Flows {
    attempts: BTreeMap<ProbeId, Attempt>,
    long: BTreeMap<Held, Long>,
    /// Next source port, by number of the host.
    next_port: Vec<u16>,
    /// Open connections of serving pods: node, and the flow as the pod sees it.
    served: BTreeSet<(HostId, Flow)>,
    /// By node, own end and the other's: the longest segment that the other end takes.
    segments: BTreeMap<(HostId, End, End), u16>,
    chance: Rng,
}

impl Flows {
    pub(super) fn new(layout: &Layout, seed: u64) -> Self {
        let mut chance = Rng::stream(seed, "flows");
        let span = u64::from(PORTS.1 - PORTS.0) + 1;
        let first = |_| PORTS.0 + u16::try_from(chance.below(span)).unwrap_or(0);
        let next_port = layout.hosts().iter().map(first).collect();
        let (attempts, long, served) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { attempts, long, next_port, served, segments: BTreeMap::new(), chance }
    }

    /// A packet of a probe was lost: it is told if the probe fails.
    pub(super) fn lost(&mut self, by: ProbeId, told: String) {
        if let Some(attempt) = self.attempts.get_mut(&by) {
            attempt.loss = Some(told);
        }
    }

    /// The pods of a node are gone.
    pub(super) fn power_off(&mut self, host: HostId) {
        self.served.retain(|(node, _)| *node != host);
        self.long.retain(|(node, _), _| *node != host);
        self.segments.retain(|(node, ..), _| *node != host);
    }

    /// A source port that no long flow of the host uses.
    fn port(&mut self, host: HostId) -> u16 {
        let used: BTreeSet<u16> = self
            .long
            .iter()
            .filter(|((node, _), _)| *node == host)
            .filter_map(|(_, long)| match long {
                Long::Open(flow) => Some(flow.client.1),
                Long::Reset => None,
            })
            .collect();
        let Some(next) = self.next_port.get_mut(host.0) else { return PORTS.0 };
        loop {
            let port = *next;
            *next = if port == PORTS.1 { PORTS.0 } else { port + 1 };
            if !used.contains(&port) {
                return port;
            }
        }
    }
}

impl CoreSpeed {
    /// Begins a probe on a node.
    pub(super) fn begin_probe(&mut self, id: ProbeId, host: HostId, probe: &Probe) {
        let began = self.now;
        let layout = Arc::clone(&self.layout);
        let Some(pod) = layout.host(host).and_then(|host| host.node.as_ref()).map(|node| node.probe_pod) else {
            return;
        };
        let fail = |because: String| Outcome::Failed { because };
        if !self.fabric.has_power(host) {
            let because = format!("{} has no power", self.node_place(host));
            return self.probed(id, host, began, fail(because));
        }
        let held = match &probe.to {
            ProbeTarget::Fetch(target) if probe.held => Some((host, target.clone())),
            ProbeTarget::Fetch(_) | ProbeTarget::Resolve(_) => None,
        };
        let wait = match held.as_ref().and_then(|held| self.flows.long.get(held)) {
            Some(Long::Reset) => return self.probed(id, host, began, fail("the flow was reset".into())),
            Some(Long::Open(flow)) => Ok(Wait::Answer(*flow)),
            None => self.first_wait(host, pod, &probe.to),
        };
        let wait = match wait {
            Ok(wait) => wait,
            Err(outcome) => return self.probed(id, host, began, outcome),
        };
        let attempt = Attempt { host, began, target: probe.to.clone(), wait, tries: 0, repeats: 0, loss: None, held };
        self.flows.attempts.insert(id, attempt);
        self.later(probe.timeout, Event::ProbeDue(id));
        self.say(id);
    }

    /// What a fresh probe waits for first; or its outcome, where no packet is needed for that.
    fn first_wait(&mut self, host: HostId, pod: IpAddr, target: &ProbeTarget) -> Result<Wait, Outcome> {
        let (name, then) = match target {
            ProbeTarget::Fetch(Target::Address(address, port, protocol)) => {
                return Ok(self.open(host, pod, (*address, *port), *protocol));
            }
            ProbeTarget::Fetch(Target::Name(name, port, protocol)) => (name, Some((*port, *protocol))),
            ProbeTarget::Resolve(name) => (name, None),
        };
        if let Some(found) = self.cluster_zone(host, name) {
            return match (found, then) {
                (Some(address), Some((port, protocol))) => Ok(self.open(host, pod, (address, port), protocol)),
                (None, Some(_)) => Err(Outcome::Failed { because: format!("{name}: NXDOMAIN") }),
                (found, None) => Err(Outcome::Resolved {
                    rcode: if found.is_some() { "NOERROR" } else { "NXDOMAIN" }.into(),
                    addresses: found.into_iter().collect(),
                }),
            };
        }
        let id = u16::try_from(self.flows.chance.below(65_536)).unwrap_or(0);
        let query =
            question(id, name, RecordKind::A).map_err(|error| Outcome::Failed { because: error.to_string() })?;
        let server = self.dns_server(host).ok_or_else(|| Outcome::Failed { because: "no DNS server".into() })?;
        let client = (pod, self.flows.port(host));
        Ok(Wait::Name { query, id, flow: Flow { client, server: (server, DNS_PORT), protocol: Protocol::Udp } })
    }

    /// The answer of the cluster's own DNS, if the name is in its zone.
    fn cluster_zone(&self, host: HostId, name: &str) -> Option<Option<IpAddr>> {
        let inside = name.trim_end_matches('.').strip_suffix(CLUSTER_ZONE)?.strip_suffix('.')?;
        let cluster = &self.layout.host(host)?.node.as_ref()?.cluster;
        let named = |service: &&ServiceLayout| {
            service.cluster == *cluster
                && !service.headless
                && inside.split('.').eq([service.key.name.as_str(), service.key.namespace.as_str()])
        };
        Some(self.layout.services().iter().find(named).map(|service| service.cluster_ip))
    }

    /// The address of the cluster's clusterset DNS server.
    fn dns_server(&self, host: HostId) -> Option<IpAddr> {
        let cluster = &self.layout.host(host)?.node.as_ref()?.cluster;
        self.layout.host(self.layout.home_of_singletons(cluster)?).map(|host| host.address)
    }

    fn open(&mut self, host: HostId, pod: IpAddr, server: (IpAddr, u16), protocol: Protocol) -> Wait {
        let flow = Flow { client: (pod, self.flows.port(host)), server, protocol };
        match protocol {
            Protocol::Tcp => Wait::SynAck(flow),
            Protocol::Udp => Wait::Answer(flow),
        }
    }

    /// Says what the probe has to say now, and again later if nothing is heard.
    fn say(&mut self, id: ProbeId) {
        let Some(attempt) = self.flows.attempts.get_mut(&id) else { return };
        attempt.tries += 1;
        attempt.repeats += 1;
        let (host, tries, repeats) = (attempt.host, attempt.tries, attempt.repeats);
        let (flow, payload, first) = match &attempt.wait {
            Wait::Name { query, flow, .. } => (*flow, Payload::Dns { by: id, bytes: query.clone() }, REPEAT_OPENING),
            Wait::SynAck(flow) => (*flow, Payload::Segment { by: id, what: Segment::Syn }, REPEAT_OPENING),
            Wait::Answer(flow) => (*flow, Payload::Segment { by: id, what: Segment::Request }, REPEAT_DATA),
        };
        self.pod_sends(host, flow.client, flow.server, flow.protocol, payload);
        let wait = first.saturating_mul(1 << (repeats - 1).min(6));
        self.later(wait, Event::Repeat(id, tries));
    }

    /// Nothing was heard since the last word, if that is still the last one.
    pub(super) fn repeat(&mut self, id: ProbeId, tries: u32) {
        if self.flows.attempts.get(&id).is_some_and(|attempt| attempt.tries == tries) {
            self.say(id);
        }
    }

    fn goes_on(&mut self, id: ProbeId, wait: Wait) {
        if let Some(attempt) = self.flows.attempts.get_mut(&id) {
            attempt.wait = wait;
            attempt.repeats = 0;
            self.say(id);
        }
    }

    fn pod_sends(
        &mut self,
        host: HostId,
        from: (IpAddr, u16),
        to: (IpAddr, u16),
        protocol: Protocol,
        payload: Payload,
    ) {
        let Some(pods) = self.fabric.kernel(host).map(crate::world::Kernel::pods_link) else { return };
        let mut packet = packet(from, to, protocol, &payload);
        if let (Protocol::Tcp, Payload::Segment { what, .. }) = (protocol, &payload) {
            match what {
                Segment::Syn | Segment::SynAck => packet.mss = Some(SEGMENT),
                Segment::Request | Segment::Answer(_) => {
                    let most = self.flows.segments.get(&(host, from, to)).copied().unwrap_or(SEGMENT);
                    packet.length = SEGMENT_HEADERS + most.min(SEGMENT);
                }
                Segment::Fin | Segment::Reset => drop(self.flows.segments.remove(&(host, from, to))),
            }
        }
        self.fabric.send(self.now, host, Arrival::Link(pods), packet, payload);
    }

    /// A DNS query reached a host: its daemon's socket answers, if one is there.
    pub(super) fn question(&mut self, host: HostId, packet: &Packet, by: ProbeId, query: &[u8]) {
        let (protocol, source, destination) = ports(packet);
        if (protocol, destination) != (Protocol::Udp, DNS_PORT) {
            return;
        }
        let process = self.find_daemon(host, Daemon::Dns).and_then(|id| self.processes.get_mut(id.0));
        let answer = process.and_then(|process| process.running.as_mut()).and_then(|running| {
            let table = running.table.as_ref()?;
            respond(table, query, &mut running.picks)
        });
        let Some(bytes) = answer else {
            let told = format!("{}: nobody answers on port {DNS_PORT}", self.node_place(host));
            return self.flows.lost(by, told);
        };
        let payload = Payload::Dns { by, bytes };
        let (from, to) = ((packet.destination, destination), (packet.source, source));
        let reply = self::packet(from, to, Protocol::Udp, &payload);
        self.fabric.send(self.now, host, Arrival::Local { link: None }, reply, payload);
    }

    /// A packet reached a pod.
    pub(super) fn at_pod(&mut self, node: HostId, packet: &Packet, payload: Payload) {
        let (protocol, source, destination) = ports(packet);
        let to_client = Flow { client: (packet.destination, destination), server: (packet.source, source), protocol };
        if let Some(mss) = packet.mss {
            self.flows.segments.insert((node, to_client.client, to_client.server), mss);
        }
        match payload {
            Payload::Hello(_) | Payload::Nat(_) => {}
            Payload::Dns { by, bytes } => self.name_answered(node, by, to_client, &bytes),
            Payload::Segment { by, what } => match what {
                Segment::SynAck | Segment::Answer(_) | Segment::Reset => self.at_client(node, by, to_client, what),
                Segment::Syn | Segment::Request | Segment::Fin => {
                    let flow =
                        Flow { client: (packet.source, source), server: (packet.destination, destination), protocol };
                    self.at_server(node, by, flow, &what);
                }
            },
        }
    }

    /// Whether the packet is what the probe's socket takes: it came to its pod and port, from where it was sent to.
    fn is_mine(&mut self, node: HostId, by: ProbeId, heard: Flow) -> Option<&Attempt> {
        let attempt = self.flows.attempts.get_mut(&by).filter(|attempt| attempt.host == node)?;
        let flow = match &attempt.wait {
            Wait::Name { flow, .. } | Wait::SynAck(flow) | Wait::Answer(flow) => *flow,
        };
        if flow == heard {
            return Some(attempt);
        }
        let ((address, port), (wanted, wanted_port)) = (heard.server, flow.server);
        attempt.loss = Some(format!("an answer came from {address}:{port} and not from {wanted}:{wanted_port}"));
        None
    }

    fn name_answered(&mut self, node: HostId, by: ProbeId, heard: Flow, reply: &[u8]) {
        let Some(Attempt { wait: Wait::Name { id, .. }, host, began, target, .. }) = self.is_mine(node, by, heard)
        else {
            return;
        };
        let (id, host, began, target) = (*id, *host, *began, target.clone());
        let reading = match reading(reply) {
            Ok(reading) if reading.id == id => reading,
            Ok(_) => return,
            Err(error) => return self.flows.lost(by, error.to_string()),
        };
        let mut addresses = reading.addresses;
        let (port, protocol, name) = match target {
            ProbeTarget::Fetch(Target::Name(name, port, protocol)) => (port, protocol, name),
            ProbeTarget::Fetch(Target::Address(..)) => return,
            ProbeTarget::Resolve(_) => {
                self.flows.attempts.remove(&by);
                addresses.sort_unstable();
                return self.probed(by, host, began, Outcome::Resolved { rcode: reading.rcode, addresses });
            }
        };
        if let Some(address) = addresses.first() {
            let wait = self.open(host, heard.client.0, (*address, port), protocol);
            self.goes_on(by, wait);
        } else {
            self.flows.attempts.remove(&by);
            let because = format!("{name}: {}, no address", reading.rcode);
            self.probed(by, host, began, Outcome::Failed { because });
        }
    }

    fn at_client(&mut self, node: HostId, by: ProbeId, heard: Flow, what: Segment) {
        let Some(attempt) = self.is_mine(node, by, heard) else { return };
        let (wait, host, began, held) = (attempt.wait.clone(), attempt.host, attempt.began, attempt.held.clone());
        match (wait, what) {
            (Wait::SynAck(flow), Segment::SynAck) => self.goes_on(by, Wait::Answer(flow)),
            (Wait::Answer(flow), Segment::Answer(server)) => {
                self.flows.attempts.remove(&by);
                match held {
                    Some(held) => drop(self.flows.long.insert(held, Long::Open(flow))),
                    None if flow.protocol == Protocol::Tcp => {
                        let payload = Payload::Segment { by, what: Segment::Fin };
                        self.pod_sends(host, flow.client, flow.server, flow.protocol, payload);
                    }
                    None => {}
                }
                self.probed(by, host, began, Outcome::Fetched { address: flow.server.0, server });
            }
            (Wait::SynAck(flow) | Wait::Answer(flow), Segment::Reset) => {
                self.flows.attempts.remove(&by);
                let known = held.filter(|held| self.flows.long.contains_key(held));
                if let Some(held) = known {
                    self.flows.long.insert(held, Long::Reset);
                }
                let because = format!("{}:{} reset the flow", flow.server.0, flow.server.1);
                self.probed(by, host, began, Outcome::Failed { because });
            }
            (Wait::Name { .. } | Wait::SynAck(_) | Wait::Answer(_), _) => {}
        }
    }

    /// A pod that serves, or one that does not, hears something.
    fn at_server(&mut self, node: HostId, by: ProbeId, flow: Flow, what: &Segment) {
        let listens = self.listens(node, flow.server, flow.protocol);
        let reply = match (what, listens) {
            (_, None) => {
                let told = format!("{}: no pod has {}", self.node_place(node), flow.server.0);
                return self.flows.lost(by, told);
            }
            (Segment::Syn, Some(true)) => {
                self.flows.served.insert((node, flow));
                Segment::SynAck
            }
            (Segment::Request, Some(true))
                if flow.protocol == Protocol::Udp || self.flows.served.contains(&(node, flow)) =>
            {
                Segment::Answer(self.node_name(node))
            }
            (Segment::Fin, _) => {
                self.flows.segments.remove(&(node, flow.server, flow.client));
                self.flows.served.remove(&(node, flow));
                return;
            }
            (_, Some(_)) if flow.protocol == Protocol::Tcp => Segment::Reset,
            (_, Some(_)) => return,
        };
        let payload = Payload::Segment { by, what: reply };
        self.pod_sends(node, flow.server, flow.client, flow.protocol, payload);
    }

    /// Whether a pod of the node with that address listens on that port; none: there is no such pod.
    fn listens(&self, node: HostId, (address, port): (IpAddr, u16), protocol: Protocol) -> Option<bool> {
        let mut found = None;
        for service in self.layout.services() {
            if service.pods.iter().any(|pod| pod.node == node && pod.address == address) {
                found = Some(service.ports.contains(&(port, protocol)));
            }
        }
        let probe_pod = self.layout.host(node).and_then(|host| host.node.as_ref()).map(|node| node.probe_pod);
        found.or_else(|| (probe_pod == Some(address)).then_some(false))
    }

    fn node_name(&self, host: HostId) -> String {
        match self.node_place(host) {
            Place::Node(_, node) => node.to_string(),
            place @ (Place::World | Place::Api(_) | Place::Daemon(..)) => place.to_string(),
        }
    }

    /// A probe's time is over.
    pub(super) fn probe_due(&mut self, id: ProbeId) {
        let Some(attempt) = self.flows.attempts.remove(&id) else { return };
        let what = match &attempt.wait {
            Wait::Name { flow, .. } => format!("no answer from the DNS server {}", flow.server.0),
            Wait::SynAck(flow) => format!("no connection to {}:{}", flow.server.0, flow.server.1),
            Wait::Answer(flow) => format!("no answer from {}:{}", flow.server.0, flow.server.1),
        };
        let because = match attempt.loss {
            Some(loss) => format!("{what} ({loss})"),
            None => what,
        };
        self.probed(id, attempt.host, attempt.began, Outcome::Failed { because });
    }

    fn probed(&mut self, id: ProbeId, host: HostId, began: Duration, outcome: Outcome) {
        self.tell(self.node_place(host), What::Probed { id, began, outcome });
    }
}

fn packet(from: (IpAddr, u16), to: (IpAddr, u16), protocol: Protocol, payload: &Payload) -> Packet {
    let (source, destination) = (from.1, to.1);
    let transport = match protocol {
        Protocol::Udp => Transport::Udp { source, destination },
        Protocol::Tcp => Transport::Tcp { source, destination, flags: flags(payload) },
    };
    Packet {
        source: from.0,
        destination: to.0,
        transport,
        ttl: 64,
        length: HEADERS + length(payload),
        mss: None,
        outer: None,
    }
}

fn length(payload: &Payload) -> u16 {
    let bytes = match payload {
        Payload::Hello(bytes) | Payload::Nat(bytes) | Payload::Dns { bytes, .. } => bytes.len(),
        Payload::Segment { what, .. } => match what {
            Segment::Syn | Segment::SynAck | Segment::Fin | Segment::Reset => 0,
            // Of UDP; over TCP they are longer.
            Segment::Request => 100,
            Segment::Answer(node) => 100 + node.len(),
        },
    };
    u16::try_from(bytes).unwrap_or(u16::MAX - HEADERS)
}

const fn flags(payload: &Payload) -> Flags {
    let none = Flags { syn: false, ack: false, fin: false, rst: false };
    match payload {
        Payload::Hello(_) | Payload::Nat(_) | Payload::Dns { .. } => none,
        Payload::Segment { what, .. } => match what {
            Segment::Syn => Flags { syn: true, ..none },
            Segment::SynAck => Flags { syn: true, ack: true, ..none },
            Segment::Request | Segment::Answer(_) => Flags { ack: true, ..none },
            Segment::Fin => Flags { fin: true, ack: true, ..none },
            Segment::Reset => Flags { rst: true, ..none },
        },
    }
}

#[cfg(test)]
impl Flows {
    /// How many connections serving pods have open.
    pub(super) fn served_len(&self) -> usize {
        self.served.len()
    }
}
