//! The typed state of one node's network.
//!
//! Desired and observed state are one type, [`Network`]: maps keyed by identity, so that their difference is a plan.
//! Why an item is wanted stands beside it, in [`Wanted`], and takes no part in the comparison.

use crate::base::{Cidr, Slot};
use crate::model::{CableDriver, CableKey, Protocol};
use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Serialize};

/// Name of a link (interface), at most 15 bytes on Linux.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LinkName(pub Arc<str>);

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A link-layer address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What a link is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LinkKind {
    /// The way out of the node. Never ours.
    Uplink,
    /// Where the node's own pods are. Never ours.
    Pods,
    /// Our VXLAN between the nodes of a cluster, static FDB, no learning.
    Overlay {
        /// VXLAN network identifier.
        vni: u32,
        /// UDP port.
        port: u16,
        /// Own outer address.
        local: IpAddr,
        /// Own MAC, unique and stable.
        mac: Mac,
    },
    /// A cable device: it has one peer for each remote cluster, the candidate of rank `rank` there.
    Cable {
        /// How it carries packets.
        driver: CableDriver,
        /// Rank of the remote candidates.
        rank: Slot,
        /// Own UDP port.
        port: u16,
        /// Own public key.
        key: CableKey,
    },
}

/// A link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Link {
    /// What it is.
    pub kind: LinkKind,
    /// Largest IP packet in bytes.
    pub mtu: u16,
}

/// A permanent neighbour on the overlay and the FDB entry that goes with it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its MAC.
    pub mac: Mac,
    /// Its outer address.
    pub outer: IpAddr,
}

/// A routing table by number. [`Table::MAIN`] is the host's own and never ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Table(pub u32);

impl Table {
    /// The host's main table.
    pub const MAIN: Self = Self(254);
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAIN { f.pad("main") } else { self.0.fmt(f) }
    }
}

/// Identity of a route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RouteId {
    /// Its table.
    pub table: Table,
    /// Destination.
    pub to: Cidr,
}

/// Where a route leads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RouteKind {
    /// Out of a link, to `via` or, without it, to the destination itself.
    Out {
        /// The link.
        link: LinkName,
        /// Next hop; IPv4 over an IPv6 next hop is allowed.
        via: Option<IpAddr>,
    },
    /// Nowhere: drop, and look no further.
    Blackhole,
}

/// A route.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Route {
    /// Where it leads.
    pub kind: RouteKind,
    /// Source for what the host itself sends, ICMP errors too.
    pub source: Option<IpAddr>,
    /// Bytes of the longest packet that this way takes, where that is less than what the link takes. Who sends a longer one is
    /// told so.
    pub mtu: Option<u16>,
}

/// A policy rule: packets that match look in `table`; if that has no route, the next rule is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// Only what came in here; `None` = everything, local packets too.
    pub from_link: Option<LinkName>,
    /// The table to look in.
    pub table: Table,
}

/// Identity of a translation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum TranslationId {
    /// What comes **from a cable** for this service goes straight to a ready backend, and the mirror rule: what a
    /// backend sends into a cable outside of a known flow leaves under the service's address.
    Service {
        /// Cluster IP.
        address: IpAddr,
        /// Protocol.
        protocol: Protocol,
        /// Service port.
        port: u16,
    },
    /// Packets between these ranges keep their source (identity source translation before any masquerade).
    KeepSource {
        /// Source range.
        from: Cidr,
        /// Destination range.
        to: Cidr,
    },
    /// TCP connections through this link open with segments that the ways of both their directions take: the option of SYN
    /// and SYN-ACK is lowered to the least MTU of the routes there and back (B28).
    ClampMss {
        /// The link, in or out.
        link: LinkName,
    },
    /// Transit from one of our links to another is not tracked, unless it is for a translated service.
    Untracked {
        /// In.
        from: LinkName,
        /// Out.
        to: LinkName,
    },
    /// What these send anywhere but into `except` leaves under an address of the node. The host's own, never ours: it
    /// is what [`Self::KeepSource`] keeps away.
    Masquerade {
        /// Source range.
        from: Cidr,
        /// Destinations that are spared.
        except: Cidr,
    },
}

/// What a translation does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Translation {
    /// To one of these, chosen by a hash of the flow with a fixed seed: the same on every gateway of the cluster.
    Service {
        /// The slot table, filled by rendezvous hashing. Empty: no backend is ready, drop.
        backends: Vec<(IpAddr, u16)>,
        /// ClientIP affinity: hash the source address alone.
        by_source: bool,
    },
    /// See [`TranslationId::KeepSource`].
    KeepSource,
    /// See [`TranslationId::ClampMss`].
    ClampMss,
    /// See [`TranslationId::Untracked`].
    Untracked,
    /// See [`TranslationId::Masquerade`].
    Masquerade,
}

/// Identity of an allowance.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum AllowanceId {
    /// Checked on the inner addresses of what comes in from a link of ours.
    Inner(LinkName),
    /// Checked on the outer source of UDP to one of our ports on the uplink.
    Outer {
        /// UDP port.
        port: u16,
    },
}

/// What may pass; everything else is dropped.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Allowance {
    /// Allowed sources.
    pub from: BTreeSet<Cidr>,
    /// Allowed destinations; empty = any.
    pub to: BTreeSet<Cidr>,
}

/// Identity of a cable peer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct PeerId {
    /// The cable device.
    pub link: LinkName,
    /// The peer's public key.
    pub key: CableKey,
}

/// A cable peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Where it is dialled.
    pub endpoint: SocketAddr,
    /// What may come from it, and what is sent to it.
    pub allowed: BTreeSet<Cidr>,
}

/// The network of one node: everything in it that is ours (or, for [`super::forward`], all of it).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Network {
    /// Links.
    pub links: BTreeMap<LinkName, Link>,
    /// Addresses, each with its prefix length.
    pub addresses: BTreeMap<(LinkName, IpAddr), u8>,
    /// Permanent neighbours of the overlay.
    pub neighbours: BTreeMap<(LinkName, IpAddr), Neighbour>,
    /// Routes.
    pub routes: BTreeMap<RouteId, Route>,
    /// Policy rules by priority; lower is asked first. The main table is asked at 32766.
    pub rules: BTreeMap<u32, Rule>,
    /// Translations.
    pub translations: BTreeMap<TranslationId, Translation>,
    /// Filters.
    pub filters: BTreeMap<AllowanceId, Allowance>,
    /// Cable peers.
    pub peers: BTreeMap<PeerId, Peer>,
    /// `net.*` kernel parameters.
    pub sysctls: BTreeMap<String, String>,
}

/// Identity of anything in a [`Network`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Item {
    /// A link.
    Link(LinkName),
    /// An address.
    Address(LinkName, IpAddr),
    /// A neighbour.
    Neighbour(LinkName, IpAddr),
    /// A route.
    Route(RouteId),
    /// A rule.
    Rule(u32),
    /// A translation.
    Translation(TranslationId),
    /// A filter.
    Filter(AllowanceId),
    /// A cable peer.
    Peer(PeerId),
    /// A kernel parameter.
    Sysctl(String),
}

/// A desired network, with the reason for each item.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// What should be.
    pub network: Network,
    /// Why, in a few words that end a sentence begun with "because".
    pub because: BTreeMap<Item, String>,
    /// The daemon has just started and does not know all yet: what its former self left and this lacks stays.
    pub adopting: bool,
    /// Items about which nothing is known yet: what is there under the same identity stays as it is.
    pub undecided: BTreeSet<Item>,
    /// Routes of which nobody knows yet how long their packets may be: what is there and leads the same way keeps its MTU.
    pub unmeasured: BTreeSet<RouteId>,
    /// Peers that may be right where they are dialled now.
    pub stays: BTreeMap<PeerId, Stay>,
}

/// When a peer goes on being dialled where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Stay {
    /// If it is dialled at this other place: it is not known yet at which of the two it is.
    At(SocketAddr),
    /// Wherever it is: it is heard there, or it is not known yet whether it is.
    Anywhere,
}

impl Wanted {
    /// What should be where `observed` is.
    #[must_use]
    pub fn target(&self, observed: &Network) -> Cow<'_, Network> {
        if !self.adopting && self.undecided.is_empty() && self.unmeasured.is_empty() && self.stays.is_empty() {
            return Cow::Borrowed(&self.network);
        }
        let wanted = self.network.clone();
        let mut target = if self.adopting { wanted.over(observed) } else { wanted };
        self.undecided.iter().filter_map(|item| observed.entry(item)).for_each(|entry| target.put(entry));
        for id in &self.unmeasured {
            let there =
                observed.routes.get(id).filter(|there| target.routes.get(id).is_some_and(|r| r.kind == there.kind));
            if let Some((route, there)) = target.routes.get_mut(id).zip(there) {
                route.mtu = there.mtu;
            }
        }
        for (id, stay) in &self.stays {
            let there = observed.peers.get(id).map(|peer| peer.endpoint);
            let there = there.filter(|there| *stay == Stay::Anywhere || *stay == Stay::At(*there));
            if let Some((peer, there)) = target.peers.get_mut(id).zip(there) {
                peer.endpoint = there;
            }
        }
        Cow::Owned(target)
    }
}
