//! What the table says to a query.

use super::name::NameError;
use super::table::{Found, Owner, Table};
use crate::base::Rng;
use crate::model::ServiceKey;
use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::collections::btree_map::Entry;
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data {
    /// A or AAAA.
    Address(IpAddr),
    /// TXT: the version of the MCS DNS specification that the zone follows.
    Version,
    /// SOA of the zone.
    Soa,
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
    turns: BTreeMap<(ServiceKey, RecordKind), u64>,
}

impl Picks {
    /// `seed` decides who is first for each name, so that not all sockets begin with the same cluster.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, turns: BTreeMap::new() }
    }

    /// A number that grows by one each time it is asked for.
    fn turn(&mut self, service: &ServiceKey, kind: RecordKind) -> u64 {
        let turn = match self.turns.entry((service.clone(), kind)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Rng::stream(self.seed, &service.to_string()).bits()),
        };
        let now = *turn;
        *turn = turn.wrapping_add(1);
        now
    }
}

/// What `table` says to `query`. Only addresses of services take turns.
#[must_use]
pub fn answer(table: &Table, query: &Query, picks: &mut Picks) -> Answer {
    let found = table.find(&query.name);
    if query.kind == RecordKind::Transfer {
        return Answer::Refused;
    }
    match found {
        Found::Elsewhere => Answer::Refused,
        Found::NotReady => Answer::NotReady,
        Found::Nothing => Answer::NoSuchName,
        Found::Between => Answer::NoData,
        Found::Apex => only(Data::Soa, RecordKind::Soa, query.kind),
        Found::Version => only(Data::Version, RecordKind::Txt, query.kind),
        Found::Cluster(owner, addresses) => given(owner, addresses.is_empty(), query.kind, |kind| {
            addresses.iter().copied().filter(family(kind)).collect()
        }),
        Found::Service(service, owner) => {
            let nothing = owner.clusters.values().all(Vec::is_empty);
            given(owner, nothing, query.kind, |kind| {
                let candidates = candidates(owner, kind);
                // A name that has nothing of this family takes no turn: memory is not spent on it.
                let turn = if candidates.is_empty() { 0 } else { picks.turn(&service, kind) };
                choose(owner, &candidates, turn)
            })
        }
    }
}

/// The answer of a name that has one record.
fn only(data: Data, of: RecordKind, asked: RecordKind) -> Answer {
    if asked == of || asked == RecordKind::Any { Answer::Records([data].into()) } else { Answer::NoData }
}

/// The answer of a name that has addresses, if `nothing` is not the case.
fn given(owner: &Owner, nothing: bool, asked: RecordKind, mut of: impl FnMut(RecordKind) -> Vec<IpAddr>) -> Answer {
    if nothing && owner.headless {
        return Answer::NoSuchName;
    }
    let addresses = match asked {
        RecordKind::A | RecordKind::Aaaa => of(asked),
        RecordKind::Any => Some(of(RecordKind::A)).filter(|v4| !v4.is_empty()).unwrap_or_else(|| of(RecordKind::Aaaa)),
        RecordKind::Txt | RecordKind::Soa | RecordKind::Transfer | RecordKind::Other(_) => Vec::new(),
    };
    if addresses.is_empty() {
        Answer::NoData
    } else {
        Answer::Records(addresses.into_iter().map(Data::Address).collect())
    }
}

/// The addresses of the family that may be answered, by cluster. If the own cluster is offered, it is the only one, for
/// both families: a client must not leave it because of another family.
fn candidates(owner: &Owner, kind: RecordKind) -> Vec<Vec<IpAddr>> {
    owner
        .clusters
        .iter()
        .filter(|(cluster, _)| owner.headless || owner.preferred.as_ref().is_none_or(|preferred| preferred == *cluster))
        .map(|(_, addresses)| addresses.iter().copied().filter(family(kind)).collect::<Vec<_>>())
        .filter(|addresses| !addresses.is_empty())
        .collect()
}

/// Headless: all, each once, another one first at each turn. Else those of the cluster whose turn it is.
fn choose(owner: &Owner, candidates: &[Vec<IpAddr>], turn: u64) -> Vec<IpAddr> {
    let at = |len: usize| usize::try_from(turn % (len.max(1) as u64)).unwrap_or(0);
    if owner.headless {
        let mut all: Vec<IpAddr> = candidates.iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let first = at(all.len());
        all.rotate_left(first);
        all
    } else {
        candidates.get(at(candidates.len())).cloned().unwrap_or_default()
    }
}

fn family(kind: RecordKind) -> impl Fn(&IpAddr) -> bool {
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
            RecordKind::Any => Self::ANY,
            RecordKind::Transfer => Self::AXFR,
            RecordKind::Other(number) => Self::from(number),
        }
    }
}
