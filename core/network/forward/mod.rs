//! What one node does to one packet: the single model, used by the simulator for every packet, by the lab to judge the
//! real kernel, and by `tombolo explain` to walk a path.
//!
//! The [`Network`] given here is the *whole* node: the host's own links, addresses and routes beside ours.
//!
//! ```text
//!  uplink ──┐                      pods, host ──┐
//!           ▼                                   ▼
//!     receive: outer filter,             reverse path,
//!     which device, which peer ─────────▶ inner filter ─▶ track: notrack? known, new, invalid
//!                                                            │
//!        ┌── host ◀── route ◀── destination: known flow, or slot table ◀┘
//!        │              │
//!        │              ▼ hop limit, MTU of the route, clamp
//!        │          source: known flow, mirror rule, keep source, masquerade
//!        │              │
//!        ▼              ▼
//!    DeliverHost    DeliverPod, or wrap for the overlay or a cable ─▶ route the outer packet ─▶ Send
//! ```
//!
//! The answer is a **set**: more than one [`Outcome`], or one with a free source port, where the kernel chooses freely.
//!
//! Not modelled, since nothing here depends on it: fragments, ICMP (who sends a packet that is too long is told so), the outer source port of the overlay (any), a
//! WireGuard endpoint that moved by itself, and connection tracking of the host's own untranslated traffic.

mod receive;
mod refusal;
mod route;
mod send;
mod translate;

use super::conntrack::{Conntrack, Learned};
use super::{Arrival, Link, LinkName, Network, Packet, Transport, Verdict};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use refusal::Refusal;
use route::Way;
use serde::{Deserialize, Serialize};

/// One thing that may become of a packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// What becomes of it.
    pub verdict: Verdict,
    /// What connection tracking learns, to be written by [`Conntrack::commit`].
    pub learned: Option<Learned>,
    /// The source port clashed with another flow's and the kernel draws one of these which is free; `verdict` and
    /// `learned` show the lowest. [`Outcome::with_source_port`] gives the others.
    pub drawn: Option<RangeInclusive<u16>>,
}

impl Outcome {
    /// The same outcome, had the kernel drawn this source port. `None` if it could not have.
    #[must_use]
    pub fn with_source_port(&self, port: u16, conntrack: &Conntrack) -> Option<Self> {
        let range = self.drawn.as_ref()?;
        let Some(Learned::Opened { original, mut reply, picked_up }) = self.learned else { return None };
        reply.destination_port = port;
        if !range.contains(&port) || conntrack.taken(&original, &reply) {
            return None;
        }
        let mut outcome = self.clone();
        outcome.learned = Some(Learned::Opened { original, reply, picked_up });
        match &mut outcome.verdict {
            Verdict::DeliverHost { packet, .. } | Verdict::DeliverPod { packet } | Verdict::Send { packet, .. } => {
                packet.transport = with_ports(packet.transport, port, destination_port(packet.transport));
            }
            Verdict::Drop { .. } => {}
        }
        Some(outcome)
    }
}

/// What may become of `packet`. Never empty.
#[must_use]
pub fn forward(network: &Network, conntrack: &Conntrack, arrival: &Arrival, packet: &Packet) -> Vec<Outcome> {
    let node = Node { network, conntrack };
    node.walk(arrival, *packet).unwrap_or_else(|refusal| {
        vec![Outcome { verdict: Verdict::Drop { because: refusal.to_string() }, learned: None, drawn: None }]
    })
}

/// The node that is asked.
#[derive(Clone, Copy)]
struct Node<'a> {
    network: &'a Network,
    conntrack: &'a Conntrack,
}

/// Where a packet stands before it is routed.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// The host sends it, from a socket bound to this link or to none.
    Host { bound: Option<&'a LinkName> },
    /// It came in on this link; for an unpacked one, the overlay or the cable.
    Link { name: &'a LinkName, link: &'a Link },
}

impl<'a> Origin<'a> {
    const fn link_name(self) -> Option<&'a LinkName> {
        match self {
            Self::Host { .. } => None,
            Self::Link { name, .. } => Some(name),
        }
    }
}

impl<'a> Node<'a> {
    fn walk(self, arrival: &Arrival, packet: Packet) -> Result<Vec<Outcome>, Refusal> {
        let (origin, mut packet) = self.receive(arrival, packet)?;
        let (tracking, early) = self.track(origin, &packet)?;
        self.translate_destination(origin, &tracking, &mut packet)?;
        let way = match early {
            Some(way) => way,
            None => self.route(origin, packet.destination)?,
        };
        match way {
            Way::Here => {
                let drawn = self.settle_clash(&tracking, &mut packet)?;
                let learned = tracking.learned_here(&packet);
                let verdict = Verdict::DeliverHost { link: origin.link_name().cloned(), packet };
                Ok(vec![Outcome { verdict, learned, drawn }])
            }
            Way::Out(out) => {
                if let Origin::Link { .. } = origin {
                    self.age(&mut packet)?;
                }
                out.fits(&packet)?;
                self.clamp(origin, &out, &mut packet);
                self.translate_source(&out, &tracking, &mut packet)?;
                let drawn = self.settle_clash(&tracking, &mut packet)?;
                let learned = tracking.learned_out(origin, &packet);
                let mut outcomes = Vec::with_capacity(1);
                self.send(&out, &packet, |verdict| {
                    outcomes.push(Outcome { verdict, learned, drawn: drawn.clone() });
                })?;
                Ok(outcomes)
            }
        }
    }

    fn age(self, packet: &mut Packet) -> Result<(), Refusal> {
        let switch = if packet.destination.is_ipv4() { "net.ipv4.ip_forward" } else { "net.ipv6.conf.all.forwarding" };
        if self.sysctl(switch) == Some("0") {
            return Err(Refusal::ForwardingOff);
        }
        packet.ttl = packet.ttl.checked_sub(1).filter(|ttl| *ttl > 0).ok_or(Refusal::Expired)?;
        Ok(())
    }

    fn sysctl(self, key: &str) -> Option<&'a str> {
        if self.network.sysctls.is_empty() {
            return None;
        }
        self.network.sysctls.get(key).map(|value| value.trim())
    }
}

const fn source_port(transport: Transport) -> u16 {
    match transport {
        Transport::Tcp { source, .. } | Transport::Udp { source, .. } => source,
    }
}

const fn destination_port(transport: Transport) -> u16 {
    match transport {
        Transport::Tcp { destination, .. } | Transport::Udp { destination, .. } => destination,
    }
}

const fn with_ports(transport: Transport, source: u16, destination: u16) -> Transport {
    match transport {
        Transport::Tcp { flags, .. } => Transport::Tcp { source, destination, flags },
        Transport::Udp { .. } => Transport::Udp { source, destination },
    }
}
