//! Which clusters the card says are reached.
//!
//! A path that is dead just now may be about to move, and a daemon that has just started has not heard of all yet: only what
//! has lasted is told. A cluster of whose paths nothing was ever heard is lost after a while, too. DNS hides a cluster that the active gateway's card calls lost.

use super::cards;
use crate::base::{ClusterId, Instant, Lasting};
use crate::model::Reach;
use crate::paths::Way;
use crate::paths::carried::LONGEST;
use crate::sync::Index;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use core::time::Duration;

/// How long no path to a cluster lives before its card calls it lost and DNS hides it. A change of path takes well under a
/// second; the promise is three (ARCHITECTURE, time bounds).
const LOSS: Duration = Duration::from_secs(1);

/// A gateway that has just started calls a cluster lost that it never heard of only after this: the others may be starting
/// again as well, and kernels forward meanwhile (F4). As long as a lease, in which others would not know more.
const LOSS_AT_START: Duration = Duration::from_secs(15);

/// What is known of the paths to other clusters.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reached {
    /// Clusters to which no path lives.
    lost: Lasting<ClusterId>,
    /// Clusters of whose paths nothing is known.
    unheard: Lasting<ClusterId>,
    /// Clusters to which one does.
    living: Lasting<ClusterId>,
    /// Clusters to which one has lived in this process's time.
    lived: BTreeSet<ClusterId>,
    /// Until then, loss is not told of the others.
    starts_until: Option<Instant>,
}

impl Reached {
    pub(super) fn new(boot: Instant) -> Self {
        Self {
            lost: Lasting::new(LOSS),
            living: Lasting::new(LOSS),
            unheard: Lasting::new(LOSS_AT_START),
            lived: BTreeSet::new(),
            starts_until: Some(boot + LOSS_AT_START),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let lasting = [&self.lost, &self.living, &self.unheard].map(Lasting::poll_timeout);
        lasting.into_iter().chain([self.starts_until]).flatten().min()
    }

    /// Whether something has lasted just now, or the start is over: what is told may be another.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let states = [&mut self.lost, &mut self.living, &mut self.unheard];
        let [lost, living, unheard] = states.map(|states| !states.due(now).is_empty());
        lost | living | unheard | self.starts_until.take_if(|until| *until <= now).is_some()
    }

    /// What to tell, of these paths. Of what it has not seen itself, a process that has just started believes only what its
    /// former self lost.
    pub(super) fn tell(
        &mut self,
        ways: &BTreeMap<ClusterId, Way>,
        lost_before: &BTreeSet<&ClusterId>,
        now: Instant,
    ) -> BTreeMap<ClusterId, Reach> {
        let starting = self.starts_until.is_some();
        let mut told = BTreeMap::new();
        for (cluster, way) in ways {
            let states = [
                (Reach::Lost, &mut self.lost),
                (Reach::Connected, &mut self.living),
                (Reach::Unknown, &mut self.unheard),
            ];
            for (state, lasting) in states {
                if way.reach == state {
                    lasting.note(cluster, now);
                } else {
                    lasting.clear(cluster);
                }
            }
            if self.living.lasted(cluster) {
                self.lived.insert(cluster.clone());
            }
            let is_news = !self.lived.contains(cluster) && !lost_before.contains(cluster);
            let reach = match way.reach {
                Reach::Lost if starting && is_news => Reach::Unknown,
                Reach::Lost if !self.lost.lasted(cluster) => Reach::Connected,
                // A firewall that lets nothing through from the first day is no reason to answer for ever (B64).
                Reach::Unknown if lost_before.contains(cluster) || self.unheard.lasted(cluster) => Reach::Lost,
                told @ (Reach::Lost | Reach::Connected | Reach::Unknown) => told,
            };
            told.insert(cluster.clone(), reach);
        }
        told
    }
}

/// What people should know of the connections: that the cable in use does not carry all that its link takes.
pub(super) fn remarks(ways: &BTreeMap<ClusterId, Way>) -> BTreeMap<ClusterId, String> {
    let remark = |way: &Way| {
        let carried = way.carried.get(way.from_overlay?);
        carried.longest().filter(|longest| *longest < LONGEST).map(|_| format!("the cable carries {carried}"))
    };
    ways.iter().filter_map(|(cluster, way)| Some((cluster.clone(), remark(way)?))).collect()
}

/// What the own card calls lost.
pub(super) fn lost_before<'a>(index: &'a Index, own: &crate::base::NodeName) -> BTreeSet<&'a ClusterId> {
    let card = cards(index).find(|card| card.node == *own);
    let lost = card.into_iter().flat_map(|card| &card.reach).filter(|(_, reach)| **reach == Reach::Lost);
    lost.map(|(cluster, _)| cluster).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::{Carried, Way};

    fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    fn east() -> ClusterId {
        ClusterId::new("east").unwrap()
    }

    fn ways(reach: Reach) -> BTreeMap<ClusterId, Way> {
        let way = Way { reach, ..Way::UNKNOWN };
        [(east(), way)].into()
    }

    /// What is told of east after each of these times, in a process that started at 0.
    fn told(steps: &[(u64, Reach)], lost_before: bool) -> alloc::vec::Vec<Reach> {
        let (east, mut reached) = (east(), Reached::new(at(0)));
        let lost_before = [&east].into_iter().filter(|_| lost_before).collect();
        let mut step = |(secs, reach): &(u64, Reach)| {
            reached.is_due(at(*secs));
            reached.tell(&ways(*reach), &lost_before, at(*secs));
            reached.is_due(at(*secs));
            reached.tell(&ways(*reach), &lost_before, at(*secs))[&east]
        };
        steps.iter().map(&mut step).collect()
    }

    #[test]
    fn a_loss_is_told_once_it_has_lasted() {
        let steps = [(1, Reach::Connected), (3, Reach::Connected), (4, Reach::Lost), (5, Reach::Lost)];
        assert_eq!(told(&steps, false), [Reach::Connected, Reach::Connected, Reach::Connected, Reach::Lost]);
    }

    #[test]
    fn who_has_just_started_calls_nobody_lost_that_it_never_heard_until_others_have_had_time_to_start_too() {
        let steps = [(1, Reach::Lost), (5, Reach::Lost), (14, Reach::Lost), (15, Reach::Lost)];
        assert_eq!(told(&steps, false), [Reach::Unknown, Reach::Unknown, Reach::Unknown, Reach::Lost]);
    }

    #[test]
    fn a_path_that_was_only_told_of_for_a_moment_has_not_lived() {
        let steps = [(1, Reach::Connected), (1, Reach::Lost), (9, Reach::Lost)];
        assert_eq!(told(&steps, false), [Reach::Connected, Reach::Unknown, Reach::Unknown]);
    }

    #[test]
    fn a_cluster_that_is_never_heard_is_lost_at_last_b64() {
        let steps = [(1, Reach::Unknown), (15, Reach::Unknown), (16, Reach::Unknown), (17, Reach::Connected)];
        let told = told(&steps, false);
        assert_eq!(told, [Reach::Unknown, Reach::Unknown, Reach::Lost, Reach::Connected]);
    }

    #[test]
    fn what_the_former_self_had_lost_stays_lost_until_it_is_reached() {
        let steps = [(1, Reach::Unknown), (2, Reach::Connected)];
        assert_eq!(told(&steps, true), [Reach::Lost, Reach::Connected]);
        assert_eq!(told(&[(1, Reach::Lost), (2, Reach::Lost)], true), [Reach::Connected, Reach::Lost]);
    }

    #[test]
    fn a_cable_that_carries_less_than_all_is_remarked_and_one_that_carries_nothing_has_no_effective_clamp() {
        let slot = crate::base::Slot::all()[1];
        let remark = |carried, from_overlay| {
            let mut way = Way { from_overlay, ..Way::UNKNOWN };
            way.carried.set(slot, carried);
            remarks(&[(east(), way)].into()).remove(&east())
        };
        for carried in [Carried::Unknown, Carried::UpTo(LONGEST)] {
            assert_eq!(remark(carried, Some(slot)), None);
        }
        let said = remark(Carried::UpTo(1_300), Some(slot)).unwrap();
        assert_eq!(said, "the cable carries packets of 1300 bytes");
        let said = remark(Carried::Nothing, Some(slot)).unwrap();
        assert_eq!(said, "the cable carries hellos, but not packets of 576 bytes: the clamp is not effective");
        assert_eq!(remark(Carried::UpTo(1_300), None), None, "this node has no such cable");
    }
}
