//! Whether a cluster may join, and with which global range.

use super::overlap::{Conflict, conflicts, own_conflicts};
use crate::base::{Cidr, ClusterId, Epoch};
use crate::model::{Claim, Claims, Purpose, Ranges};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// Which global range a cluster wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GlobalWish {
    /// None: its pods and services are reached by their own addresses.
    None,
    /// This one.
    This {
        /// The range.
        range: Cidr,
    },
    /// The first free one of so many addresses, rounded up to a power of two.
    Any {
        /// The range of the clusterset, in which the cluster's lies.
        within: Cidr,
        /// How many addresses.
        size: u64,
    },
}

/// A cluster that wants to join.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Application {
    /// Its id.
    pub cluster: ClusterId,
    /// Which cluster it is: the UID of its namespace `kube-system`.
    pub identity: String,
    /// What it uses. Its global range is not in it.
    pub ranges: Ranges,
    /// The global range.
    pub global: GlobalWish,
    /// The epoch of the gateway that asks.
    pub epoch: Epoch,
}

/// A claim that may be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// What the cluster has.
    pub claim: Claim,
    /// What all have then. The same as before, if nothing has to be written.
    pub claims: Claims,
}

/// Why a cluster may not join like this.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// Another cluster joined under this id.
    #[error(
        "the id {cluster} belongs to another cluster (its kube-system has the UID {owner}, here it is {applicant}): \
         choose another id, or remove the other cluster first"
    )]
    IdTaken {
        /// The id.
        cluster: ClusterId,
        /// Who has it.
        owner: String,
        /// Who wants it.
        applicant: String,
    },
    /// A range that no packet may be routed by.
    #[error("{range} for {purpose} is special ({special}) and cannot be used")]
    Special {
        /// What it was to be for.
        purpose: Purpose,
        /// The range.
        range: Cidr,
        /// The special one that it meets.
        special: Cidr,
    },
    /// Ranges meet.
    #[error("ranges overlap: {}", listed(.0))]
    Overlap(Vec<Conflict>),
    /// It has one, and it may be in use.
    #[error("{cluster} has the global range {has} already: leave and join again to get {wanted}")]
    HasGlobal {
        /// The cluster.
        cluster: ClusterId,
        /// Its range.
        has: Cidr,
        /// What it wants now.
        wanted: Cidr,
    },
    /// No range is so large.
    #[error("a global range of {size} addresses is not to be had in {within}: at least 1, and at most half of it")]
    Size {
        /// What was wanted.
        size: u64,
        /// The clusterset's range.
        within: Cidr,
    },
    /// All is taken.
    #[error("no {size} neighbouring addresses are free in {within}: the members have {}", names(.taken))]
    Full {
        /// What was wanted.
        size: u64,
        /// The clusterset's range.
        within: Cidr,
        /// What lies in it.
        taken: Vec<Cidr>,
    },
}

fn listed(conflicts: &[Conflict]) -> String {
    join(conflicts.iter(), "; ")
}

fn names(ranges: &[Cidr]) -> String {
    join(ranges.iter(), ", ")
}

fn join<T: alloc::string::ToString>(items: impl Iterator<Item = T>, between: &str) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(between)
}

impl Claim {
    /// Whether it gives the applicant all that it would announce: then there is nothing to decide, and nothing to write.
    #[must_use]
    pub fn grants(&self, application: &Application) -> bool {
        let Application { cluster: _, identity, ranges, global, epoch: _ } = application;
        let within = |ranges: &[Cidr], claimed: &[Cidr]| ranges.iter().all(|r| claimed.iter().any(|c| c.covers(r)));
        let global = match global {
            GlobalWish::None => true,
            GlobalWish::This { range } => self.ranges.global.contains(range),
            GlobalWish::Any { .. } => !self.ranges.global.is_empty(),
        };
        let Ranges { pods, services, .. } = &self.ranges;
        self.identity == *identity && global && within(&ranges.pods, pods) && within(&ranges.services, services)
    }
}

/// Decides whether `application` may join beside `claims`, and beside those without a claim of whom `records` tell what they
/// announce: plain Submariner's members. A claim that [grants](Claim::grants) all stands, whoever came after it. A cluster
/// that has joined before keeps its global range (B34), and may change what else it uses. Nothing is decided by the order
/// of members.
///
/// # Errors
/// A [`Refusal`] that names who and what is in the way.
pub fn admit(
    claims: &Claims,
    records: &BTreeMap<ClusterId, Ranges>,
    application: &Application,
) -> Result<Admitted, Refusal> {
    let Application { cluster, identity, ranges, global, epoch } = application;
    let before = claims.members.get(cluster);
    if let Some(before) = before.filter(|before| before.identity != *identity) {
        let (owner, applicant) = (before.identity.clone(), identity.clone());
        return Err(Refusal::IdTaken { cluster: cluster.clone(), owner, applicant });
    }
    if let Some(claim) = before.filter(|before| before.grants(application)) {
        return Ok(Admitted { claim: claim.clone(), claims: claims.clone() });
    }
    let mut ranges = Ranges { global: Vec::new(), ..ranges.clone() };
    let claimed = claims.members.iter().map(|(id, claim)| (id, &claim.ranges));
    let announced = records.iter().filter(|(id, _)| !claims.members.contains_key(*id));
    let others: Vec<_> = claimed.chain(announced).filter(|(id, _)| *id != cluster).collect();
    let has = before.and_then(|before| before.ranges.global.first().copied());
    ranges.global.extend(match (*global, has) {
        (GlobalWish::None, _) => None,
        (GlobalWish::This { range }, Some(has)) if has != range => {
            return Err(Refusal::HasGlobal { cluster: cluster.clone(), has, wanted: range });
        }
        (GlobalWish::This { range }, _) => Some(range),
        (GlobalWish::Any { .. }, Some(has)) => Some(has),
        (GlobalWish::Any { within, size }, None) => {
            let taken = others.iter().flat_map(|(_, ranges)| ranges.all()).chain(ranges.all());
            Some(first_free(within, size, taken.map(|(_, range)| range).collect())?)
        }
    });
    refuse_special(&ranges)?;
    let mut met = own_conflicts(cluster, &ranges);
    met.extend(others.into_iter().flat_map(|other| conflicts((cluster, &ranges), other)));
    if !met.is_empty() {
        return Err(Refusal::Overlap(met));
    }
    let claim = Claim { identity: identity.clone(), ranges, epoch: *epoch };
    let mut claims = claims.clone();
    claims.members.insert(cluster.clone(), claim.clone());
    Ok(Admitted { claim, claims })
}

/// The first range of at least `size` addresses in `within` that meets none of `taken`.
fn first_free(within: Cidr, size: u64, taken: Vec<Cidr>) -> Result<Cidr, Refusal> {
    let width: u8 = if within.is_ipv4() { 32 } else { 128 };
    let bits = u8::try_from(size.checked_next_power_of_two().map_or(64, u64::trailing_zeros)).unwrap_or(64);
    let length = width.checked_sub(bits).filter(|length| size > 0 && *length > within.prefix_len());
    let Some(length) = length else { return Err(Refusal::Size { size, within }) };
    let mut taken: Vec<Cidr> = taken.into_iter().filter(|range| range.overlaps(&within)).collect();
    taken.sort_unstable_by_key(|range| (range.network(), range.prefix_len()));
    let mut candidate = Cidr::holding(within.network(), length);
    for range in &taken {
        // Ranges nest or are disjoint, so in ascending order one look at each is enough.
        if let Some(free) = candidate.filter(|free| free.overlaps(range)) {
            candidate = after(free.last().max(range.last()), within, length);
        }
    }
    candidate.ok_or(Refusal::Full { size, within, taken })
}

/// The range of this length that begins right behind `last`, which ends one.
fn after(last: IpAddr, within: Cidr, length: u8) -> Option<Cidr> {
    let next = match last {
        IpAddr::V4(last) => IpAddr::from(u32::from(last).checked_add(1)?.to_be_bytes()),
        IpAddr::V6(last) => IpAddr::from(u128::from(last).checked_add(1)?.to_be_bytes()),
    };
    Cidr::holding(next, length).filter(|range| within.covers(range))
}

/// Ranges that mean something else to every host.
const SPECIAL: [&str; 8] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "::/127",
    "fe80::/10",
    "ff00::/8",
];

fn refuse_special(ranges: &Ranges) -> Result<(), Refusal> {
    let special: Vec<Cidr> = SPECIAL.iter().filter_map(|text| text.parse().ok()).collect();
    for (purpose, range) in ranges.all() {
        if let Some(special) = special.iter().find(|special| special.overlaps(&range)) {
            return Err(Refusal::Special { purpose, range, special: *special });
        }
    }
    Ok(())
}
