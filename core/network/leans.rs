//! What an item leans on: what must be there, as it should be, for as long as the item is.
//!
//! ```text
//!   filter ◀── link ──▶ rule ──▶ blackhole routes of its table
//!                ▲        └────▶ notrack, clamp
//!      ┌─────────┼─────────┬──────────┐
//!   sysctl    address   neighbour   peer
//!      ▲         ▲         ▲          ▲
//!      │         └─────────┼──────────┘
//!   service              route ──▶ keep source, notrack, clamp
//! ```
//!
//! So a link of ours never stands without the filter on what comes out of it and the rule that says where that may go;
//! a rule never without the blackholes that end what must not fall through to the host's own routes; and a route never
//! without its link, neighbour, peer, source address and the translations of what it carries.
//!
//! Only items of the given network count: the uplink that a route leaves by is the host's and stands without us.

use super::{
    AllowanceId, Entry, Item, Link, LinkKind, LinkName, Network, PeerId, Route, RouteId, RouteKind, Rule, TranslationId,
};
use crate::base::Cidr;
use crate::model::CableKey;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Kernel parameters that every route between links needs.
const FORWARDING: [&str; 2] = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];
/// What lets a service's flow be picked up in the middle, after a change of gateways.
const LOOSE: &str = "net.netfilter.nf_conntrack_tcp_loose";

/// The items of `network` that `entry` leans on. An item that is there with a value which does not serve `entry` (a
/// peer that is not allowed the route's destination) is not among them.
#[must_use]
pub fn leans_on(entry: &Entry, network: &Network) -> Vec<Item> {
    let mut found = Leanings { network, items: Vec::new() };
    match entry {
        Entry::Filter(..) => {}
        Entry::Link(name, Link { kind, .. }) => found.of_link(name, kind),
        Entry::Address(link, ..) | Entry::Neighbour(link, ..) | Entry::Peer(PeerId { link, .. }, _) => {
            found.on_link(link);
        }
        Entry::Sysctl(key, _) => {
            network.links.keys().filter(|link| concerns(key, link)).for_each(|link| found.on_link(link));
        }
        Entry::Translation(TranslationId::Service { .. }, _) => found.on(Item::Sysctl(LOOSE.into())),
        Entry::Translation(..) => {}
        Entry::Rule(_, Rule { from_link, table }) => {
            let blackhole = |(_, route): &(&RouteId, &Route)| matches!(route.kind, RouteKind::Blackhole);
            let routes = network.routes.iter().filter(|(id, _)| id.table == *table).filter(blackhole);
            found.items.extend(routes.map(|(id, _)| Item::Route(*id)));
            found.on_untracked(|from, _| Some(from) == from_link.as_ref());
            from_link.iter().for_each(|link| found.on(clamp(link)));
        }
        Entry::Route(_, Route { kind: RouteKind::Blackhole, .. }) => {}
        Entry::Route(RouteId { to, .. }, Route { kind: RouteKind::Out { link, via }, source, .. }) => {
            found.of_route(*to, link, *via, *source);
        }
    }
    found.items
}

/// The rank that nothing leans on: of routes out of a link.
pub(super) const RANK_TOP: u8 = 10;

/// How high an entry stands: it leans only on entries of a lower rank.
pub(super) const fn rank(entry: &Entry) -> u8 {
    match entry {
        Entry::Filter(..) => 0,
        Entry::Route(_, Route { kind: RouteKind::Blackhole, .. }) => 2,
        Entry::Rule(..) => 3,
        Entry::Link(..) => 4,
        Entry::Sysctl(..) => 5,
        Entry::Translation(TranslationId::Service { .. }, _) => 6,
        Entry::Translation(..) => 1,
        Entry::Address(..) => 7,
        Entry::Neighbour(..) => 8,
        Entry::Peer(..) => 9,
        Entry::Route(_, Route { kind: RouteKind::Out { .. }, .. }) => RANK_TOP,
    }
}

struct Leanings<'a> {
    network: &'a Network,
    items: Vec<Item>,
}

impl<'a> Leanings<'a> {
    fn on(&mut self, item: Item) {
        let there = match &item {
            Item::Link(name) => self.network.links.contains_key(name),
            Item::Address(link, address) => self.network.addresses.contains_key(&(link.clone(), *address)),
            Item::Neighbour(link, address) => self.network.neighbours.contains_key(&(link.clone(), *address)),
            Item::Route(id) => self.network.routes.contains_key(id),
            Item::Rule(priority) => self.network.rules.contains_key(priority),
            Item::Translation(id) => self.network.translations.contains_key(id),
            Item::Filter(id) => self.network.filters.contains_key(id),
            Item::Peer(id) => self.network.peers.contains_key(id),
            Item::Sysctl(key) => self.network.sysctls.contains_key(key),
        };
        if there {
            self.items.push(item);
        }
    }

    fn on_link(&mut self, link: &LinkName) {
        self.on(Item::Link(link.clone()));
    }

    fn on_untracked(&mut self, concerned: impl Fn(&LinkName, &LinkName) -> bool) {
        let ids = self
            .beside_services()
            .filter(|id| matches!(id, TranslationId::Untracked { from, to } if concerned(from, to)));
        self.items.extend(ids.map(|id| Item::Translation(id.clone())));
    }

    /// All translations but those of services, which are many and sort first.
    fn beside_services(&self) -> impl Iterator<Item = &'a TranslationId> + use<'a> {
        self.network.translations.keys().rev().take_while(|id| !matches!(id, TranslationId::Service { .. }))
    }

    fn of_link(&mut self, name: &LinkName, kind: &LinkKind) {
        self.on(Item::Filter(AllowanceId::Inner(name.clone())));
        match kind {
            LinkKind::Overlay { port, .. } | LinkKind::Cable { port, .. } => {
                self.on(Item::Filter(AllowanceId::Outer { port: *port }));
            }
            LinkKind::Uplink | LinkKind::Pods => {}
        }
        let rules = self.network.rules.iter().filter(|(_, rule)| rule.from_link.as_ref() == Some(name));
        self.items.extend(rules.map(|(priority, _)| Item::Rule(*priority)));
    }

    fn of_route(&mut self, to: Cidr, link: &LinkName, via: Option<IpAddr>, source: Option<IpAddr>) {
        self.on_link(link);
        if let Some(via) = via {
            self.on(Item::Neighbour(link.clone(), via));
        }
        if let Some(source) = source {
            let own = self.network.addresses.keys().filter(|(_, address)| *address == source);
            self.items.extend(own.map(|(link, address)| Item::Address(link.clone(), *address)));
        }
        let first = PeerId { link: link.clone(), key: CableKey([0; 32]) };
        let peers = self.network.peers.range(first..).take_while(|(id, _)| id.link == *link);
        let peers = peers.filter(|(_, peer)| peer.allowed.iter().any(|range| range.overlaps(&to)));
        self.items.extend(peers.map(|(id, _)| Item::Peer(id.clone())));
        let kept = self.beside_services().filter(|id| match id {
            TranslationId::KeepSource { to: kept, .. } => kept.overlaps(&to),
            TranslationId::Service { .. }
            | TranslationId::ClampMss { .. }
            | TranslationId::Untracked { .. }
            | TranslationId::Masquerade { .. } => false,
        });
        self.items.extend(kept.map(|id| Item::Translation(id.clone())));
        self.on_untracked(|_, out| out == link);
        self.on(clamp(link));
        for key in FORWARDING {
            self.on(Item::Sysctl(key.into()));
        }
        let keys = self.network.sysctls.keys().filter(|key| concerns(key, link));
        self.items.extend(keys.map(|key| Item::Sysctl(key.clone())));
    }
}

fn clamp(link: &LinkName) -> Item {
    Item::Translation(TranslationId::ClampMss { link: link.clone() })
}

/// Whether a kernel parameter is one of this link: `net.ipv4.conf.<link>.rp_filter`.
fn concerns(key: &str, link: &LinkName) -> bool {
    let of_link = key.strip_prefix("net.ipv4.conf.").or_else(|| key.strip_prefix("net.ipv6.conf."));
    of_link.and_then(|rest| rest.rsplit_once('.')).is_some_and(|(name, _)| name == &*link.0)
}
