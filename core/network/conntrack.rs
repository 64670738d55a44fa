//! A small model of connection tracking: as much of it as decides where a packet goes.
//!
//! A flow has two tuples: `original`, as its first packet came, and `reply`, as its answers come. Where the two are not
//! each other's mirror image, the flow is translated. [`forward`](super::forward) only reads the table; what it would
//! change is handed out as [`Learned`] and written by [`Conntrack::commit`], so that one packet can be asked about
//! without a trace.
//!
//! States and timeouts follow Linux' defaults (`Documentation/networking/nf_conntrack-sysctl.rst`), with the TCP states
//! cut down to the four that matter here.

use super::{Flags, Network, Packet, Translation, TranslationId, Transport};
use crate::base::Instant;
use crate::model::Protocol;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// One direction of a flow. Ports come first: by them most tuples differ, and they are compared fastest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Tuple {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
}

impl Tuple {
    /// That of a packet (its inner header).
    #[must_use]
    pub const fn of(packet: &Packet) -> Self {
        let (protocol, source_port, destination_port) = match packet.transport {
            Transport::Tcp { source, destination, .. } => (Protocol::Tcp, source, destination),
            Transport::Udp { source, destination } => (Protocol::Udp, source, destination),
        };
        Self { protocol, source: packet.source, source_port, destination: packet.destination, destination_port }
    }

    /// That of an untranslated answer.
    #[must_use]
    pub const fn inverse(self) -> Self {
        Self {
            protocol: self.protocol,
            source: self.destination,
            source_port: self.destination_port,
            destination: self.source,
            destination_port: self.source_port,
        }
    }
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = SocketAddr::new(self.source, self.source_port);
        let destination = SocketAddr::new(self.destination, self.destination_port);
        write!(f, "{} {source} > {destination}", self.protocol)
    }
}

/// Which way a packet of a known flow goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Direction {
    /// As the first packet.
    Original,
    /// Against it.
    Reply,
}

/// How far a flow is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Stage {
    /// No answer seen.
    Opening,
    /// Both directions seen, or picked up in the middle.
    Open,
    /// One side said FIN.
    Closing,
    /// One side said RST.
    Closed,
}

/// A flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// As its first packet came.
    pub original: Tuple,
    /// As its answers come.
    pub reply: Tuple,
    /// How far it is.
    pub stage: Stage,
    /// When it is forgotten, if nothing more comes.
    pub expires: Instant,
}

impl Flow {
    /// Whether its packets leave otherwise than they came.
    #[must_use]
    pub fn is_translated(&self) -> bool {
        self.reply != self.original.inverse()
    }

    /// What a packet that goes `direction` leaves as.
    #[must_use]
    pub const fn leaves_as(&self, direction: Direction) -> Tuple {
        match direction {
            Direction::Original => self.reply.inverse(),
            Direction::Reply => self.original.inverse(),
        }
    }
}

/// What a packet teaches connection tracking.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Learned {
    /// A flow that was not known.
    Opened {
        /// As its first packet came.
        original: Tuple,
        /// As its answers will come.
        reply: Tuple,
        /// It is a TCP flow that was met in the middle.
        picked_up: bool,
    },
    /// One more packet of a known flow.
    Seen {
        /// Which flow.
        original: Tuple,
        /// Which way.
        direction: Direction,
        /// TCP flags.
        flags: Option<Flags>,
    },
}

/// What connection tracking says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class<'a> {
    /// Part of this flow.
    Known(&'a Flow, Direction),
    /// The first of a flow.
    New {
        /// It is TCP and not a SYN.
        picked_up: bool,
    },
    /// It can open no flow: it passes untranslated.
    Invalid,
}

/// The table of flows of one node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conntrack {
    flows: BTreeMap<Tuple, Flow>,
    replies: BTreeMap<Tuple, Tuple>,
    /// When each flow is to be looked at again: no later than it expires. One that was deleted may still stand here.
    looks: BTreeMap<Instant, Vec<Tuple>>,
}

impl Conntrack {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All flows, by original tuple.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values()
    }

    /// The flow that `tuple` belongs to, and which way it goes.
    #[must_use]
    pub fn lookup(&self, tuple: &Tuple) -> Option<(&Flow, Direction)> {
        if let Some(flow) = self.flows.get(tuple) {
            return Some((flow, Direction::Original));
        }
        let original = self.replies.get(tuple)?;
        self.flows.get(original).map(|flow| (flow, Direction::Reply))
    }

    /// Whether a flow other than that of `original` already uses `reply`.
    #[must_use]
    pub fn taken(&self, original: &Tuple, reply: &Tuple) -> bool {
        self.lookup(reply).is_some_and(|(flow, _)| flow.original != *original)
    }

    /// What it says of a packet with this tuple. `loose` is `net.netfilter.nf_conntrack_tcp_loose`: whether a TCP flow
    /// may be picked up in the middle.
    #[must_use]
    pub fn classify(&self, tuple: &Tuple, transport: &Transport, loose: bool) -> Class<'_> {
        let known = self.lookup(tuple);
        let Transport::Tcp { flags, .. } = transport else {
            return known.map_or(Class::New { picked_up: false }, |(flow, way)| Class::Known(flow, way));
        };
        let opens = flags.syn && !flags.ack && !flags.rst;
        match known {
            // A finished flow whose ports are used again is a new flow.
            Some((flow, _)) if opens && matches!(flow.stage, Stage::Closing | Stage::Closed) => {
                Class::New { picked_up: false }
            }
            Some((flow, way)) => Class::Known(flow, way),
            None if opens => Class::New { picked_up: false },
            // Of all else only a plain ACK is picked up (Linux' state table: SYN-ACK, FIN and RST are invalid).
            None if loose && flags.ack && !flags.syn && !flags.fin && !flags.rst => Class::New { picked_up: true },
            None => Class::Invalid,
        }
    }

    /// Writes what a packet taught.
    pub fn commit(&mut self, learned: Learned, now: Instant) {
        self.expire(now);
        match learned {
            Learned::Opened { original, reply, picked_up } => {
                self.delete(&original);
                self.delete(&reply);
                let stage = if picked_up { Stage::Open } else { Stage::Opening };
                let expires = now + timeout(original.protocol, stage);
                self.looks.entry(expires).or_default().push(original);
                self.replies.insert(reply, original);
                self.flows.insert(original, Flow { original, reply, stage, expires });
            }
            Learned::Seen { original, direction, flags } => {
                let Some(flow) = self.flows.get_mut(&original) else { return };
                flow.stage = after(flow.stage, direction, flags);
                let (was, expires) = (flow.expires, now + timeout(original.protocol, flow.stage));
                flow.expires = expires;
                if expires < was {
                    self.looks.entry(expires).or_default().push(original);
                }
            }
        }
    }

    /// Forgets every flow whose time is over. [`Self::commit`] does it too.
    pub fn expire(&mut self, now: Instant) {
        while let Some(due) = self.looks.first_entry().filter(|due| *due.key() <= now) {
            for original in due.remove() {
                match self.flows.get(&original).map(|flow| flow.expires) {
                    Some(expires) if expires <= now => drop(self.delete(&original)),
                    Some(later) => self.looks.entry(later).or_default().push(original),
                    None => {}
                }
            }
        }
    }

    /// Deletes the flow that one direction of is `tuple`; tells whether there was one.
    pub fn delete(&mut self, tuple: &Tuple) -> bool {
        let original = self.replies.get(tuple).copied().unwrap_or(*tuple);
        let Some(flow) = self.flows.remove(&original) else { return false };
        self.replies.remove(&flow.reply);
        true
    }

    /// UDP flows of a service with a backend which `network` no longer has for it: to be deleted **after** the translations
    /// changed, or a packet in between would bring them back. TCP flows are left to their pods, see [`Self::outlived`].
    #[must_use]
    pub fn orphans(&self, network: &Network) -> Vec<Tuple> {
        self.unserved(network, Protocol::Udp).map(|(flow, _)| flow.original).collect()
    }

    /// Backends that TCP flows still go to, or come from under their service's address, though `network` no longer has them
    /// for it. What comes from them is to be tracked all the same: as untracked transit it would leave under the backend's
    /// own address.
    #[must_use]
    pub fn outlived(&self, network: &Network) -> BTreeSet<(IpAddr, Protocol, u16)> {
        let backends = self.unserved(network, Protocol::Tcp);
        backends.map(|(flow, (address, port))| (address, flow.original.protocol, port)).collect()
    }

    /// Flows between a service and a backend that `network` no longer has for it, with that backend: flows to the service,
    /// whose destination was translated, and flows that the backend began (the mirror rule), whose source was. Where the
    /// source became an address of the node, it was the host's masquerade.
    fn unserved<'a>(
        &'a self,
        network: &'a Network,
        of: Protocol,
    ) -> impl Iterator<Item = (&'a Flow, (IpAddr, u16))> + use<'a> {
        let lacks = move |(address, port): (IpAddr, u16), backend: (IpAddr, u16)| match network
            .translations
            .get(&TranslationId::Service { address, protocol: of, port })
        {
            Some(Translation::Service { backends, .. }) => !backends.contains(&backend),
            Some(
                Translation::KeepSource | Translation::ClampMss | Translation::Untracked | Translation::Masquerade,
            )
            | None => true,
        };
        let of_node = move |address: IpAddr| network.addresses.keys().any(|(_, own)| *own == address);
        self.flows.values().filter(move |flow| flow.original.protocol == of).filter_map(move |flow| {
            let Flow { original, reply, .. } = flow;
            let called = (original.destination, original.destination_port);
            let answers = (reply.source, reply.source_port);
            if called != answers && lacks(called, answers) {
                return Some((flow, answers));
            }
            let (calls, began) = ((reply.destination, reply.destination_port), (original.source, original.source_port));
            let mirrored = calls.0 != began.0 && !of_node(calls.0);
            (mirrored && lacks(calls, began)).then_some((flow, began))
        })
    }
}

const fn after(stage: Stage, direction: Direction, flags: Option<Flags>) -> Stage {
    match (flags, stage, direction) {
        (Some(Flags { rst: true, .. }), _, _) | (_, Stage::Closed, _) => Stage::Closed,
        (Some(Flags { fin: true, .. }), _, _) | (_, Stage::Closing, _) => Stage::Closing,
        (_, Stage::Open, _) | (_, Stage::Opening, Direction::Reply) => Stage::Open,
        (_, Stage::Opening, Direction::Original) => Stage::Opening,
    }
}

const fn timeout(protocol: Protocol, stage: Stage) -> Duration {
    Duration::from_secs(match (protocol, stage) {
        (Protocol::Tcp, Stage::Open) => 5 * 24 * 3600,
        (Protocol::Tcp, Stage::Closed) => 10,
        (Protocol::Udp, Stage::Opening) => 30,
        (Protocol::Tcp, Stage::Opening | Stage::Closing)
        | (Protocol::Udp, Stage::Open | Stage::Closing | Stage::Closed) => 120,
    })
}
