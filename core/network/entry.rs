//! One item of a [`Network`] together with its value: what a step of a plan carries, and how it reads.
//!
//! The text follows `ip` and `nft` where they have words for it, without our own defaults.

use super::{
    Allowance, AllowanceId, Item, Link, LinkKind, LinkName, Neighbour, Network, Peer, PeerId, Route, RouteId,
    RouteKind, Rule, Table, Translation, TranslationId,
};
use crate::base::Cidr;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Serialize};

/// An item with its value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Entry {
    /// A link.
    Link(LinkName, Link),
    /// An address with its prefix length.
    Address(LinkName, IpAddr, u8),
    /// A permanent neighbour.
    Neighbour(LinkName, IpAddr, Neighbour),
    /// A route.
    Route(RouteId, Route),
    /// A rule with its priority.
    Rule(u32, Rule),
    /// A translation.
    Translation(TranslationId, Translation),
    /// A filter.
    Filter(AllowanceId, Allowance),
    /// A cable peer.
    Peer(PeerId, Peer),
    /// A kernel parameter and its value.
    Sysctl(String, String),
}

impl Entry {
    /// Its identity.
    #[must_use]
    pub fn item(&self) -> Item {
        match self {
            Self::Link(name, _) => Item::Link(name.clone()),
            Self::Address(link, address, _) => Item::Address(link.clone(), *address),
            Self::Neighbour(link, address, _) => Item::Neighbour(link.clone(), *address),
            Self::Route(id, _) => Item::Route(*id),
            Self::Rule(priority, _) => Item::Rule(*priority),
            Self::Translation(id, _) => Item::Translation(id.clone()),
            Self::Filter(id, _) => Item::Filter(id.clone()),
            Self::Peer(id, _) => Item::Peer(id.clone()),
            Self::Sysctl(key, _) => Item::Sysctl(key.clone()),
        }
    }
}

impl Network {
    /// Both together; where both have an item, that of this one.
    #[must_use]
    pub fn over(self, below: &Self) -> Self {
        let mut whole = below.clone();
        let Self { links, addresses, neighbours, routes, rules, translations, filters, peers, sysctls } = self;
        whole.links.extend(links);
        whole.addresses.extend(addresses);
        whole.neighbours.extend(neighbours);
        whole.routes.extend(routes);
        whole.rules.extend(rules);
        whole.translations.extend(translations);
        whole.filters.extend(filters);
        whole.peers.extend(peers);
        whole.sysctls.extend(sysctls);
        whole
    }

    /// The item with its value, if it is there.
    #[must_use]
    pub fn entry(&self, item: &Item) -> Option<Entry> {
        match item {
            Item::Link(name) => self.links.get(name).map(|v| Entry::Link(name.clone(), v.clone())),
            Item::Address(link, address) => {
                let length = self.addresses.get(&(link.clone(), *address))?;
                Some(Entry::Address(link.clone(), *address, *length))
            }
            Item::Neighbour(link, address) => {
                let neighbour = self.neighbours.get(&(link.clone(), *address))?;
                Some(Entry::Neighbour(link.clone(), *address, neighbour.clone()))
            }
            Item::Route(id) => self.routes.get(id).map(|v| Entry::Route(*id, v.clone())),
            Item::Rule(priority) => self.rules.get(priority).map(|v| Entry::Rule(*priority, v.clone())),
            Item::Translation(id) => self.translations.get(id).map(|v| Entry::Translation(id.clone(), v.clone())),
            Item::Filter(id) => self.filters.get(id).map(|v| Entry::Filter(id.clone(), v.clone())),
            Item::Peer(id) => self.peers.get(id).map(|v| Entry::Peer(id.clone(), v.clone())),
            Item::Sysctl(key) => self.sysctls.get(key).map(|v| Entry::Sysctl(key.clone(), v.clone())),
        }
    }

    /// All items with their values.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        let filters = self.filters.iter().map(|(id, v)| Entry::Filter(id.clone(), v.clone()));
        let links = self.links.iter().map(|(name, v)| Entry::Link(name.clone(), v.clone()));
        let sysctls = self.sysctls.iter().map(|(key, v)| Entry::Sysctl(key.clone(), v.clone()));
        let translations = self.translations.iter().map(|(id, v)| Entry::Translation(id.clone(), v.clone()));
        let addresses = self.addresses.iter().map(|((link, a), v)| Entry::Address(link.clone(), *a, *v));
        let neighbours = self.neighbours.iter().map(|((link, a), v)| Entry::Neighbour(link.clone(), *a, v.clone()));
        let peers = self.peers.iter().map(|(id, v)| Entry::Peer(id.clone(), v.clone()));
        let routes = self.routes.iter().map(|(id, v)| Entry::Route(*id, v.clone()));
        let rules = self.rules.iter().map(|(priority, v)| Entry::Rule(*priority, v.clone()));
        let fabric = filters.chain(links).chain(sysctls).chain(translations);
        fabric.chain(addresses).chain(neighbours).chain(peers).chain(routes).chain(rules)
    }

    /// Adds the entry, or gives its item this value.
    pub fn put(&mut self, entry: Entry) {
        match entry {
            Entry::Link(name, link) => drop(self.links.insert(name, link)),
            Entry::Address(link, address, length) => drop(self.addresses.insert((link, address), length)),
            Entry::Neighbour(link, address, v) => drop(self.neighbours.insert((link, address), v)),
            Entry::Route(id, route) => drop(self.routes.insert(id, route)),
            Entry::Rule(priority, rule) => drop(self.rules.insert(priority, rule)),
            Entry::Translation(id, v) => drop(self.translations.insert(id, v)),
            Entry::Filter(id, allowance) => drop(self.filters.insert(id, allowance)),
            Entry::Peer(id, peer) => drop(self.peers.insert(id, peer)),
            Entry::Sysctl(key, value) => drop(self.sysctls.insert(key, value)),
        }
    }

    /// Takes the item away, if it is there.
    pub fn take(&mut self, item: &Item) {
        match item {
            Item::Link(name) => drop(self.links.remove(name)),
            Item::Address(link, address) => drop(self.addresses.remove(&(link.clone(), *address))),
            Item::Neighbour(link, address) => drop(self.neighbours.remove(&(link.clone(), *address))),
            Item::Route(id) => drop(self.routes.remove(id)),
            Item::Rule(priority) => drop(self.rules.remove(priority)),
            Item::Translation(id) => drop(self.translations.remove(id)),
            Item::Filter(id) => drop(self.filters.remove(id)),
            Item::Peer(id) => drop(self.peers.remove(id)),
            Item::Sysctl(key) => drop(self.sysctls.remove(key)),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(name, link) => write_link(f, name, link),
            Self::Address(link, address, length) => write!(f, "address {address}/{length} dev {link}"),
            Self::Neighbour(link, address, Neighbour { mac, outer }) => {
                write!(f, "neighbour {address} lladdr {mac} outer {outer} dev {link}")
            }
            Self::Route(id, route) => write_route(f, *id, route),
            Self::Rule(priority, Rule { from_link: Some(link), table }) => {
                write!(f, "rule {priority} iif {link} lookup {table}")
            }
            Self::Rule(priority, Rule { from_link: None, table }) => write!(f, "rule {priority} lookup {table}"),
            Self::Translation(id, translation) => write_translation(f, id, translation),
            Self::Filter(id, allowance) => write_filter(f, id, allowance),
            Self::Peer(PeerId { link, key }, Peer { endpoint, allowed }) => {
                write!(f, "peer {key} at {endpoint} allowed {} dev {link}", Braced(allowed))
            }
            Self::Sysctl(key, value) => write!(f, "sysctl {key} = {value}"),
        }
    }
}

fn write_link(f: &mut fmt::Formatter<'_>, name: &LinkName, Link { kind, mtu }: &Link) -> fmt::Result {
    write!(f, "link {name} ")?;
    match kind {
        LinkKind::Uplink => f.write_str("uplink")?,
        LinkKind::Pods => f.write_str("pods")?,
        LinkKind::Overlay { vni, port, local, mac } => {
            write!(f, "vxlan id {vni} local {local} port {port} lladdr {mac}")?;
        }
        LinkKind::Cable { driver, rank, port, key } => write!(f, "{driver} rank {rank} port {port} key {key}")?,
    }
    write!(f, " mtu {mtu}")
}

fn write_route(f: &mut fmt::Formatter<'_>, RouteId { table, to }: RouteId, route: &Route) -> fmt::Result {
    match &route.kind {
        RouteKind::Blackhole => write!(f, "blackhole {to}")?,
        RouteKind::Out { link, via } => {
            write!(f, "route {to} ")?;
            match via {
                Some(via @ IpAddr::V6(_)) if to.is_ipv4() => write!(f, "via inet6 {via} ")?,
                Some(via) => write!(f, "via {via} ")?,
                None => {}
            }
            write!(f, "dev {link}")?;
        }
    }
    if let Some(source) = route.source {
        write!(f, " src {source}")?;
    }
    if let Some(mtu) = route.mtu {
        write!(f, " mtu {mtu}")?;
    }
    if table == Table::MAIN { Ok(()) } else { write!(f, " table {table}") }
}

fn write_translation(f: &mut fmt::Formatter<'_>, id: &TranslationId, translation: &Translation) -> fmt::Result {
    match id {
        TranslationId::Service { address, protocol, port } => {
            write!(f, "dnat {protocol} {} to ", SocketAddr::new(*address, *port))?;
        }
        TranslationId::KeepSource { from, to } => write!(f, "snat {from} to {to} keeps its source")?,
        TranslationId::ClampMss { link } => write!(f, "clamp mss through {link}")?,
        TranslationId::Untracked { from, to } => write!(f, "notrack from {from} to {to}")?,
        TranslationId::Masquerade { from, except } => write!(f, "masquerade {from} except to {except}")?,
    }
    match translation {
        Translation::Service { backends, .. } if backends.is_empty() => f.write_str("nothing: drop"),
        Translation::Service { backends, by_source } => {
            let mut slots = BTreeMap::<_, usize>::new();
            for backend in backends {
                *slots.entry(*backend).or_default() += 1;
            }
            for (i, ((address, port), count)) in slots.into_iter().enumerate() {
                let comma = if i == 0 { "" } else { ", " };
                write!(f, "{comma}{} ({count}/{})", SocketAddr::new(address, port), backends.len())?;
            }
            f.write_str(if *by_source { " by source" } else { " by flow" })
        }
        Translation::KeepSource | Translation::ClampMss | Translation::Untracked | Translation::Masquerade => Ok(()),
    }
}

fn write_filter(f: &mut fmt::Formatter<'_>, id: &AllowanceId, Allowance { from, to }: &Allowance) -> fmt::Result {
    match id {
        AllowanceId::Inner(link) => write!(f, "filter from {link} ")?,
        AllowanceId::Outer { port } => write!(f, "filter udp port {port} ")?,
    }
    write!(f, "saddr {} ", Braced(from))?;
    if !to.is_empty() {
        write!(f, "daddr {} ", Braced(to))?;
    }
    f.write_str("accept, else drop")
}

/// Ranges as nft writes a set.
struct Braced<'a>(&'a BTreeSet<Cidr>);

impl fmt::Display for Braced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, range) in self.0.iter().enumerate() {
            write!(f, "{} {range}", if i == 0 { "" } else { "," })?;
        }
        f.write_str(" }")
    }
}
