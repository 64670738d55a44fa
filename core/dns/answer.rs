//! What the table says to a query.

use super::name::{NameError, Room, ServiceName};
use super::table::{Found, HostShare, Knows, Owner, Share, Table};
use crate::base::{ClusterId, Label, Rng};
use crate::model::Port;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;
use hickory_proto::rr::{Name, RecordType};

/// The type of record that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordKind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Text.
    Txt,
    /// Services: host and port (RFC 2782).
    Srv,
    /// Name servers.
    Ns,
    /// Start of authority.
    Soa,
    /// Any type: one of those that exist (RFC 8482).
    Any,
    /// The whole zone (AXFR, IXFR).
    Transfer,
    /// Any other type, by number. No name has records of it.
    Other(u16),
}

/// One query of class IN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    pub(super) name: Name,
    /// What is asked for.
    pub kind: RecordKind,
}

impl Query {
    /// The query for records of `name`.
    ///
    /// # Errors
    /// [`NameError::Name`].
    pub fn new(name: &str, kind: RecordKind) -> Result<Self, NameError> {
        match Name::from_ascii(name) {
            Ok(parsed) => Ok(Self { name: parsed, kind }),
            Err(error) => Err(NameError::Name { name: name.into(), because: error.to_string() }),
        }
    }
}

/// What a record holds. Its owner is the name that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// A or AAAA.
    Address(IpAddr),
    /// SRV.
    Srv(Srv),
    /// TXT: the version of the MCS DNS specification that the zone follows.
    Version,
    /// SOA of the zone.
    Soa,
    /// NS of the zone.
    Ns,
}

/// What an SRV record holds. All have the same priority.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Srv {
    /// Its share among the records of the answer.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The name to ask for the address.
    pub target: Target,
    /// What that name gives now, of both families.
    pub addresses: Vec<IpAddr>,
}

/// A name that SRV records point to, of the service that was asked for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    /// `<svc>.<ns>.svc.Z`
    Service,
    /// `<cluster>.<svc>.<ns>.svc.Z`
    Cluster(ClusterId),
    /// `<host>.<cluster>.<svc>.<ns>.svc.Z`
    Host(Label, ClusterId),
}

/// What the table says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// NOERROR, with these records.
    Records(Vec<Data>),
    /// NOERROR and empty: the name exists, records of that type do not, or none is healthy.
    NoData,
    /// NXDOMAIN: neither the name nor any below it exists.
    NoSuchName,
    /// SERVFAIL: nothing can be said yet.
    NotReady,
    /// REFUSED: not ours to say.
    Refused,
}

/// Whose turn it is. Each socket keeps its own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Picks {
    seed: u64,
    /// By the hash of the service: two that share one take turns together, which nobody sees.
    turns: BTreeMap<(u64, RecordKind), u64>,
}

impl Picks {
    /// `seed` decides who is first for each name, so that not all sockets begin with the same cluster.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, turns: BTreeMap::new() }
    }

    /// A number that grows by one each time it is asked for.
    fn turn(&mut self, owner: &Owner, kind: RecordKind) -> u64 {
        let hash = ServiceName::from(owner.key()).hash();
        let turn = self.turns.entry((hash, kind)).or_insert_with(|| Rng::new(self.seed ^ hash).bits());
        let now = *turn;
        *turn = turn.wrapping_add(1);
        now
    }
}

/// What `table` says to `query`. Only names of services take turns.
#[must_use]
pub fn answer(table: &Table, query: &Query, picks: &mut Picks) -> Answer {
    let answer = found(table, query, picks);
    if answer == Answer::NoSuchName && table.knows() != Knows::All { Answer::NotReady } else { answer }
}

fn found(table: &Table, query: &Query, picks: &mut Picks) -> Answer {
    let mut room = Room::default();
    let found = table.find(&query.name, &mut room);
    if query.kind == RecordKind::Transfer {
        return Answer::Refused;
    }
    match found {
        Found::Elsewhere => Answer::Refused,
        Found::NotReady => Answer::NotReady,
        Found::Nothing => Answer::NoSuchName,
        Found::Between => Answer::NoData,
        Found::Apex if query.kind == RecordKind::Ns => Answer::Records([Data::Ns].into()),
        Found::Apex => only(Data::Soa, RecordKind::Soa, query.kind),
        Found::Version => only(Data::Version, RecordKind::Txt, query.kind),
        Found::Server => addresses(query.kind, |kind| of_family(table.servers(), kind).collect()),
        Found::Host(host) => addresses(query.kind, |kind| of_family(&host.addresses, kind).collect()),
        Found::Cluster(owner, cluster, share) => {
            if owner.headless && share.addresses.is_empty() {
                return Answer::NoSuchName;
            }
            if query.kind == RecordKind::Srv {
                return services(of_cluster(owner, cluster, share, |_| true));
            }
            addresses(query.kind, |kind| of_family(&share.addresses, kind).collect())
        }
        Found::Service(owner) => {
            if owner.headless && owner.clusters().all(|(_, share)| share.addresses.is_empty()) {
                return Answer::NoSuchName;
            }
            if query.kind == RecordKind::Srv {
                return services(of_service(owner, |_| true, || picks.turn(owner, RecordKind::Srv)));
            }
            addresses(query.kind, |kind| choose(owner, kind, || picks.turn(owner, kind)))
        }
        Found::Port(owner, cluster, port) if asks_for_services(query.kind) => services(match cluster {
            None => of_service(owner, |one| port.is(one), || picks.turn(owner, RecordKind::Srv)),
            Some(cluster) => {
                let of_cluster = |(id, share)| of_cluster(owner, id, share, |one| port.is(one));
                owner.cluster(cluster).map_or_else(Vec::new, of_cluster)
            }
        }),
        Found::Port(..) => Answer::NoData,
    }
}

/// The answer of a name that has one record.
fn only(data: Data, of: RecordKind, asked: RecordKind) -> Answer {
    if asked == of || asked == RecordKind::Any { Answer::Records([data].into()) } else { Answer::NoData }
}

fn asks_for_services(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Srv | RecordKind::Any)
}

/// The answer of a name that has addresses.
fn addresses(asked: RecordKind, mut of: impl FnMut(RecordKind) -> Vec<Data>) -> Answer {
    let addresses = match asked {
        RecordKind::A | RecordKind::Aaaa => of(asked),
        RecordKind::Any => Some(of(RecordKind::A)).filter(|v4| !v4.is_empty()).unwrap_or_else(|| of(RecordKind::Aaaa)),
        RecordKind::Txt
        | RecordKind::Soa
        | RecordKind::Srv
        | RecordKind::Ns
        | RecordKind::Transfer
        | RecordKind::Other(_) => Vec::new(),
    };
    if addresses.is_empty() { Answer::NoData } else { Answer::Records(addresses) }
}

/// The answer with these SRV records, each with an equal share.
fn services(mut records: Vec<Srv>) -> Answer {
    let weight = u16::try_from(100 / records.len().max(1)).unwrap_or(1).max(1);
    records.iter_mut().for_each(|record| record.weight = weight);
    if records.is_empty() { Answer::NoData } else { Answer::Records(records.into_iter().map(Data::Srv).collect()) }
}

/// The SRV records of one cluster's ports.
fn of_cluster(owner: &Owner, cluster: &ClusterId, share: &Share, wanted: impl Fn(&Port) -> bool) -> Vec<Srv> {
    if owner.headless {
        return of_hosts(cluster, share, wanted);
    }
    if share.addresses.is_empty() {
        return Vec::new();
    }
    let target = Target::Cluster(cluster.clone());
    share.ports.iter().filter(|port| wanted(port)).map(|port| srv(port, &target, &share.addresses)).collect()
}

/// The SRV records of all hosts of one cluster.
fn of_hosts(cluster: &ClusterId, share: &Share, wanted: impl Fn(&Port) -> bool) -> Vec<Srv> {
    let mut records = Vec::new();
    for (name, HostShare { addresses, ports }) in share.hosts.iter() {
        let target = Target::Host(name.clone(), cluster.clone());
        records.extend(ports.iter().filter(|port| wanted(port)).map(|port| srv(port, &target, addresses)));
    }
    records
}

/// The SRV records of a service. Headless: of all hosts, another one first at each turn. Else one a port, as the import has
/// them, with the address of a cluster that listens there: the own one, or the one whose turn it is.
fn of_service(owner: &Owner, wanted: impl Fn(&Port) -> bool, turn: impl FnOnce() -> u64) -> Vec<Srv> {
    if owner.headless {
        let hosts = owner.clusters().flat_map(|(cluster, share)| of_hosts(cluster, share, &wanted));
        let mut records: Vec<Srv> = hosts.collect();
        if !records.is_empty() {
            let first = at(turn(), records.len());
            records.rotate_left(first);
        }
        return records;
    }
    let offered: Vec<&Share> = chosen_from(owner).map(|(_, share)| share).collect();
    if offered.is_empty() {
        return Vec::new();
    }
    let turn = turn();
    let mut records = Vec::new();
    for port in owner.ports().iter().filter(|port| wanted(port)) {
        let has =
            |share: &&&Share| share.ports.iter().any(|one| (one.protocol, one.port) == (port.protocol, port.port));
        let listening: Vec<&&Share> = offered.iter().filter(has).collect();
        if let Some(share) = listening.get(at(turn, listening.len())) {
            records.push(srv(port, &Target::Service, &share.addresses));
        }
    }
    records
}

fn srv(port: &Port, target: &Target, addresses: &[IpAddr]) -> Srv {
    Srv { weight: 0, port: port.port, target: target.clone(), addresses: addresses.to_vec() }
}

/// The clusters that may be chosen from. If the own cluster is offered, it is the only one, for both families: a client
/// must not leave it because of another family.
fn chosen_from(owner: &Owner) -> impl Iterator<Item = (&ClusterId, &Share)> {
    let is_allowed = |at: usize| owner.headless || owner.prefers(at).unwrap_or(true);
    let allowed = owner.clusters().enumerate().filter(move |(at, _)| is_allowed(*at));
    allowed.map(|(_, offer)| offer).filter(|(_, share)| !share.addresses.is_empty())
}

/// The addresses of the family that may be answered. Headless: all, each once, another one first at each turn. Else those
/// of the cluster whose turn it is. A name that has none takes no turn: memory is not spent on it.
fn choose(owner: &Owner, kind: RecordKind, turn: impl FnOnce() -> u64) -> Vec<Data> {
    let has_some = |share: &&Share| of_family(&share.addresses, kind).next().is_some();
    let candidates = || chosen_from(owner).map(|(_, share)| share).filter(has_some);
    let count = candidates().count();
    if count == 0 {
        return Vec::new();
    }
    if !owner.headless {
        // Where one is all there is, nobody takes turns.
        let turn = if count == 1 { 0 } else { turn() };
        let chosen = candidates().nth(at(turn, count));
        return chosen.into_iter().flat_map(|share| of_family(&share.addresses, kind)).collect();
    }
    let mut all: Vec<IpAddr> = candidates().flat_map(|share| &share.addresses).copied().filter(is_of(kind)).collect();
    all.sort_unstable();
    all.dedup();
    let first = at(turn(), all.len());
    all.rotate_left(first);
    all.into_iter().map(Data::Address).collect()
}

/// Whose turn it is among `len`.
fn at(turn: u64, len: usize) -> usize {
    usize::try_from(turn % (len.max(1) as u64)).unwrap_or(0)
}

fn of_family(addresses: &[IpAddr], kind: RecordKind) -> impl Iterator<Item = Data> {
    addresses.iter().copied().filter(is_of(kind)).map(Data::Address)
}

fn is_of(kind: RecordKind) -> impl Fn(&IpAddr) -> bool {
    move |address| address.is_ipv4() == (kind == RecordKind::A)
}

impl From<RecordType> for RecordKind {
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other types are alike to us")]
    fn from(kind: RecordType) -> Self {
        match kind {
            RecordType::A => Self::A,
            RecordType::AAAA => Self::Aaaa,
            RecordType::TXT => Self::Txt,
            RecordType::SOA => Self::Soa,
            RecordType::SRV => Self::Srv,
            RecordType::NS => Self::Ns,
            RecordType::ANY => Self::Any,
            RecordType::AXFR | RecordType::IXFR => Self::Transfer,
            other => Self::Other(other.into()),
        }
    }
}

impl From<RecordKind> for RecordType {
    fn from(kind: RecordKind) -> Self {
        match kind {
            RecordKind::A => Self::A,
            RecordKind::Aaaa => Self::AAAA,
            RecordKind::Txt => Self::TXT,
            RecordKind::Soa => Self::SOA,
            RecordKind::Srv => Self::SRV,
            RecordKind::Ns => Self::NS,
            RecordKind::Any => Self::ANY,
            RecordKind::Transfer => Self::AXFR,
            RecordKind::Other(number) => Self::from(number),
        }
    }
}
