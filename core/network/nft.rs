//! Our whole nft table as the script that makes it.
//!
//! ```text
//!  prerouting   -310  filters        what may come from our links and to our ports
//!               -300  tracking       transit is not tracked
//!               -110  destinations   exported services from a cable (runs at -100's point, before kube-proxy's)
//!  forward      -150  clamp          segments of TCP connections through a cable, by the MTU of the routes both ways
//!  postrouting    90  sources        the mirror rule; sources that are kept (before any masquerade at 100)
//! ```
//!
//! The script replaces the table in one transaction: it is declared (so that it exists), deleted, and defined. A network
//! with nothing for nft gives a script that leaves no table. Ranges stand in sets by length, under a mask, and never in sets
//! of intervals: the kernel fills such a set only after it has switched to the rules that ask it, and in between a packet
//! finds it empty (tried: pings were lost; `daemons/linux/tests/packets.rs`). Tried with nft 1.0.6 on Linux 6.18 between namespaces: each
//! flow went to the backend that [`forward`](super::forward()) says, and established flows survived a flush of connection
//! tracking whichever side spoke next, beside a masquerade and a drop of invalid packets.
//!
//! The model looks up where a packet would go before it decides on tracking; a raw hook cannot, so here transit is told
//! by destination: the ranges that the tables asked for that link lead out of the other. Nor can it ask for the flow of a
//! packet, so the backends of flows that outlived their translation are given by name.

use super::constants::{HASH_SEED, NFT_TABLE};
use super::{Allowance, AllowanceId, LinkKind, LinkName, Network, RouteKind, Translation, TranslationId};
use crate::base::Cidr;
use crate::model::Protocol;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

/// The script for what `network` has in translations and filters. What is the host's own is left out. `outlived` is what
/// [`Conntrack::outlived`](super::Conntrack::outlived) says of this network and the flows there are.
#[must_use]
pub fn script(network: &Network, outlived: &BTreeSet<Socket>) -> String {
    Script::of(network, outlived).to_string()
}

/// An address with protocol and port, as nft concatenates them.
pub type Socket = (IpAddr, Protocol, u16);

/// A service: its slot table, and whether the source alone is hashed.
type Slots<'a> = (&'a [(IpAddr, u16)], bool);

/// What the script is made of.
struct Script<'a> {
    network: &'a Network,
    services: BTreeMap<Socket, Slots<'a>>,
    /// By backend, the first service that has it.
    mirrors: BTreeMap<Socket, (IpAddr, u16)>,
    /// All that has flows of a service: the backends there are, and those that flows outlived.
    backends: BTreeSet<Socket>,
    cables: Vec<&'a LinkName>,
}

impl<'a> Script<'a> {
    fn of(network: &'a Network, outlived: &BTreeSet<Socket>) -> Self {
        let mut services = BTreeMap::new();
        let mut mirrors = BTreeMap::new();
        for (id, translation) in &network.translations {
            if let TranslationId::Service { address, protocol, port } = id
                && let Translation::Service { backends, by_source } = translation
            {
                services.insert((*address, *protocol, *port), (&**backends, *by_source));
                for backend in backends {
                    mirrors.entry((backend.0, *protocol, backend.1)).or_insert((*address, *port));
                }
            }
        }
        let cables = network.links.iter().filter(|(_, link)| matches!(link.kind, LinkKind::Cable { .. }));
        let backends = mirrors.keys().chain(outlived).copied().collect();
        Self { network, services, mirrors, backends, cables: cables.map(|(name, _)| name).collect() }
    }

    fn pairs(&self) -> impl Iterator<Item = (&'a LinkName, &'a LinkName)> {
        self.network.translations.keys().filter_map(|id| match id {
            TranslationId::Untracked { from, to } => Some((from, to)),
            TranslationId::Service { .. }
            | TranslationId::KeepSource { .. }
            | TranslationId::ClampMss { .. }
            | TranslationId::Masquerade { .. } => None,
        })
    }

    fn clamped(&self) -> impl Iterator<Item = &'a LinkName> {
        self.network.translations.keys().filter_map(|id| match id {
            TranslationId::ClampMss { link } => Some(link),
            TranslationId::Service { .. }
            | TranslationId::KeepSource { .. }
            | TranslationId::Untracked { .. }
            | TranslationId::Masquerade { .. } => None,
        })
    }

    fn kept(&self) -> impl Iterator<Item = (&'a Cidr, &'a Cidr)> {
        self.network.translations.keys().filter_map(|id| match id {
            TranslationId::KeepSource { from, to } => Some((from, to)),
            TranslationId::Service { .. }
            | TranslationId::ClampMss { .. }
            | TranslationId::Untracked { .. }
            | TranslationId::Masquerade { .. } => None,
        })
    }

    fn is_empty(&self) -> bool {
        let nothing = self.services.is_empty() && self.network.filters.is_empty();
        let nothing = nothing && self.pairs().next().is_none() && self.kept().next().is_none();
        nothing && self.clamped().next().is_none()
    }

    fn sets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for family in Family::BOTH {
            let of = |socket: &&Socket| family.has(socket.0);
            let (n, kind) = (family.number(), family.key());
            let services: Vec<_> = self.services.keys().filter(of).collect();
            let backends: Vec<_> = self.backends.iter().filter(of).collect();
            let tracked: BTreeSet<_> = services.iter().chain(&backends).collect();
            block(f, &format!("set tracked{n}"), kind, "", tracked.into_iter().map(|socket| joined(socket)))?;
            let to = services.iter().map(|socket| format!("{} : goto {}", joined(socket), chain_name(socket)));
            block(f, &format!("map services{n}"), kind, " : verdict", to)?;
            block(f, &format!("set backends{n}"), kind, "", backends.iter().map(|socket| joined(socket)))?;
            let back = self.mirrors.iter().filter(|(socket, _)| family.has(socket.0));
            let back = back.map(|(socket, (address, port))| format!("{} : {address} . {port}", joined(socket)));
            block(f, &format!("map mirrors{n}"), kind, &format!(" : {} . inet_service", family.address()), back)?;
        }
        Ok(())
    }

    fn service_chains(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (socket @ (address, protocol, _), (backends, by_source)) in &self.services {
            writeln!(f, "\tchain {} {{", chain_name(socket))?;
            let family = Family::of(*address);
            let same_family = backends.iter().all(|(backend, _)| family.has(*backend));
            if backends.is_empty() || !same_family {
                writeln!(f, "\t\tdrop\n\t}}")?;
                continue;
            }
            let ip = family.header();
            let flow = format!("{ip} saddr . {protocol} sport . {ip} daddr . {protocol} dport");
            let hashed = if *by_source { format!("{ip} saddr") } else { flow };
            let count = backends.len();
            writeln!(
                f,
                "\t\tmeta l4proto {protocol} dnat {ip} to jhash {hashed} mod {count} seed {HASH_SEED:#x} map {{"
            )?;
            let slots =
                backends.iter().enumerate().map(|(slot, (address, port))| format!("{slot} : {address} . {port}"));
            elements(f, "\t\t\t", slots)?;
            writeln!(f, "\t\t}}\n\t}}")?;
        }
        Ok(())
    }

    fn filters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.network.filters.is_empty() {
            return Ok(());
        }
        for (id, allowance) in &self.network.filters {
            let Allowance { from, to } = allowance;
            let name = filter_name(id);
            if to.is_empty() {
                choice(f, &name, "saddr", from, "return")?;
            } else {
                choice(f, &format!("{name}-to"), "daddr", to, "return")?;
                choice(f, &name, "saddr", from, &format!("goto {name}-to"))?;
            }
        }
        writeln!(f, "\tchain filters {{\n\t\ttype filter hook prerouting priority -310; policy accept;")?;
        for id in self.network.filters.keys() {
            let which = match id {
                AllowanceId::Inner(link) => format!("iifname \"{link}\""),
                AllowanceId::Outer { port } => format!("udp dport {port}"),
            };
            writeln!(f, "\t\t{which} jump {}", filter_name(id))?;
        }
        writeln!(f, "\t}}")
    }

    fn tracking(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pairs().next().is_none() {
            return Ok(());
        }
        writeln!(f, "\tchain tracking {{\n\t\ttype filter hook prerouting priority raw; policy accept;")?;
        let from: BTreeSet<_> = self.pairs().map(|(from, _)| from).collect();
        for from in from {
            let (end, port, set, sockets) = if self.cables.contains(&from) {
                ("daddr", "dport", "tracked", self.services.keys().chain(&self.backends).collect::<Vec<_>>())
            } else {
                ("saddr", "sport", "backends", self.backends.iter().collect())
            };
            for family in Family::BOTH.into_iter().filter(|family| sockets.iter().any(|s| family.has(s.0))) {
                let (ip, n) = (family.header(), family.number());
                writeln!(f, "\t\tiifname \"{from}\" {ip} {end} . meta l4proto . th {port} @{set}{n} accept")?;
            }
        }
        for (from, to) in self.pairs() {
            let ranges = self.led(from, to);
            // Says which pair this is to whoever reads the table back; no packet cares.
            writeln!(f, "\t\tiifname \"{from}\" continue comment \"to {to}\"")?;
            for within in within("daddr", &ranges) {
                writeln!(f, "\t\tiifname \"{from}\" {within} notrack")?;
            }
        }
        writeln!(f, "\t}}")
    }

    /// The destinations that what comes from one link has routes for out of the other.
    fn led(&self, from: &LinkName, to: &LinkName) -> BTreeSet<Cidr> {
        let rules = self.network.rules.values();
        let asked: BTreeSet<_> = rules
            .filter(|rule| rule.from_link.as_ref().is_none_or(|link| link == from))
            .map(|rule| rule.table)
            .collect();
        let leads = self.network.routes.iter().filter(|(id, route)| {
            asked.contains(&id.table) && matches!(&route.kind, RouteKind::Out { link, .. } if link == to)
        });
        leads.map(|(id, _)| id.to).collect()
    }

    fn destinations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(cables) = self.cable_names().filter(|_| !self.services.is_empty()) else { return Ok(()) };
        writeln!(f, "\tchain destinations {{\n\t\ttype nat hook prerouting priority -110; policy accept;")?;
        for family in Family::BOTH.into_iter().filter(|family| self.services.keys().any(|s| family.has(s.0))) {
            let (ip, n) = (family.header(), family.number());
            writeln!(f, "\t\tiifname {cables} {ip} daddr . meta l4proto . th dport vmap @services{n}")?;
        }
        writeln!(f, "\t}}")
    }

    /// The kernel takes the lesser MTU of the route that the packet follows and of the one back to its sender, and raises
    /// nothing.
    fn clamp(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clamped().next().is_none() {
            return Ok(());
        }
        writeln!(f, "\tchain clamp {{\n\t\ttype filter hook forward priority mangle; policy accept;")?;
        for link in self.clamped() {
            for way in ["iifname", "oifname"] {
                let opens = "tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu";
                writeln!(f, "\t\t{way} \"{link}\" {opens}")?;
            }
        }
        writeln!(f, "\t}}")
    }

    fn sources(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cables = self.cable_names().filter(|_| !self.mirrors.is_empty());
        if cables.is_none() && self.kept().next().is_none() {
            return Ok(());
        }
        writeln!(f, "\tchain sources {{\n\t\ttype nat hook postrouting priority 90; policy accept;")?;
        for family in Family::BOTH.into_iter().filter(|family| self.mirrors.keys().any(|s| family.has(s.0))) {
            let (ip, n) = (family.header(), family.number());
            if let Some(cables) = &cables {
                let key = format!("{ip} saddr . meta l4proto . th sport");
                writeln!(f, "\t\toifname {cables} snat {ip} addr . port to {key} map @mirrors{n}")?;
            }
        }
        for (from, to) in self.kept().filter(|(from, to)| from.is_ipv4() == to.is_ipv4()) {
            let ip = Family::of(from.network()).header();
            writeln!(f, "\t\t{ip} saddr {from} {ip} daddr {to} snat {ip} to {ip} saddr")?;
        }
        writeln!(f, "\t}}")
    }

    fn cable_names(&self) -> Option<String> {
        let names: Vec<_> = self.cables.iter().map(|name| format!("\"{name}\"")).collect();
        (!names.is_empty()).then(|| format!("{{ {} }}", names.join(", ")))
    }
}

impl fmt::Display for Script<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "table inet {NFT_TABLE}\ndelete table inet {NFT_TABLE}")?;
        if self.is_empty() {
            return Ok(());
        }
        writeln!(f, "table inet {NFT_TABLE} {{")?;
        self.sets(f)?;
        self.service_chains(f)?;
        self.filters(f)?;
        self.tracking(f)?;
        self.destinations(f)?;
        self.clamp(f)?;
        self.sources(f)?;
        writeln!(f, "}}")
    }
}

/// An address family, in nft's words.
#[derive(Clone, Copy)]
enum Family {
    V4,
    V6,
}

impl Family {
    const BOTH: [Self; 2] = [Self::V4, Self::V6];

    const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    const fn has(self, address: IpAddr) -> bool {
        matches!((self, address), (Self::V4, IpAddr::V4(_)) | (Self::V6, IpAddr::V6(_)))
    }

    const fn number(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }

    const fn header(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    const fn address(self) -> &'static str {
        match self {
            Self::V4 => "ipv4_addr",
            Self::V6 => "ipv6_addr",
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::V4 => "ipv4_addr . inet_proto . inet_service",
            Self::V6 => "ipv6_addr . inet_proto . inet_service",
        }
    }
}

/// Matches that together ask whether this address lies in one of the ranges: one for each length of a prefix, a lookup of
/// what is left of the address under its mask.
fn within(field: &str, ranges: &BTreeSet<Cidr>) -> Vec<String> {
    let mut by_length = BTreeMap::<_, Vec<_>>::new();
    for range in ranges {
        by_length.entry((!range.is_ipv4(), range.prefix_len())).or_default().push(range.network().to_string());
    }
    let written = |((is_ipv6, length), networks): ((bool, u8), Vec<String>)| {
        let (ip, word, bits) = if is_ipv6 { ("ip6", "ipv6", 128) } else { ("ip", "ipv4", 32) };
        let set = format!("{{ {} }}", networks.join(", "));
        match length {
            0 => format!("meta nfproto {word}"),
            _ if length == bits => format!("{ip} {field} {set}"),
            _ => format!("{ip} {field} & {} {set}", mask(is_ipv6, length)),
        }
    };
    by_length.into_iter().map(written).collect()
}

fn mask(is_ipv6: bool, length: u8) -> IpAddr {
    if is_ipv6 {
        IpAddr::from((u128::MAX << (128 - u32::from(length.clamp(1, 128)))).to_be_bytes())
    } else {
        IpAddr::from((u32::MAX << (32 - u32::from(length.clamp(1, 32)))).to_be_bytes())
    }
}

/// A chain with a verdict for what lies in one of the ranges, and a drop for all else.
fn choice(f: &mut fmt::Formatter<'_>, name: &str, field: &str, ranges: &BTreeSet<Cidr>, verdict: &str) -> fmt::Result {
    writeln!(f, "\tchain {name} {{")?;
    within(field, ranges).into_iter().try_for_each(|within| writeln!(f, "\t\t{within} {verdict}"))?;
    writeln!(f, "\t\tdrop\n\t}}")
}

fn filter_name(id: &AllowanceId) -> String {
    match id {
        AllowanceId::Inner(link) => format!("from-{link}"),
        AllowanceId::Outer { port } => format!("udp-{port}"),
    }
}

fn chain_name((address, protocol, port): &Socket) -> String {
    format!("to-{}-{protocol}-{port}", address.to_string().replace(':', "_"))
}

fn joined((address, protocol, port): &Socket) -> String {
    format!("{address} . {protocol} . {port}")
}

/// A set or map; nothing if it has no elements.
fn block(
    f: &mut fmt::Formatter<'_>,
    head: &str,
    key: &str,
    value: &str,
    contents: impl Iterator<Item = String>,
) -> fmt::Result {
    let mut contents = contents.peekable();
    if contents.peek().is_none() {
        return Ok(());
    }
    writeln!(f, "\t{head} {{\n\t\ttype {key}{value}\n\t\telements = {{")?;
    elements(f, "\t\t\t", contents)?;
    writeln!(f, "\t\t}}\n\t}}")
}

/// Elements, four a line.
fn elements(f: &mut fmt::Formatter<'_>, indent: &str, contents: impl Iterator<Item = String>) -> fmt::Result {
    let contents: Vec<_> = contents.collect();
    for line in contents.chunks(4) {
        writeln!(f, "{indent}{},", line.join(", "))?;
    }
    Ok(())
}
