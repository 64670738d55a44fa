//! What the guarantees of `spec/failover.md` 2 say of a world, from its links and daemons alone.

use super::world::{Belief, Id, World};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// G1 for one pair of clusters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Nothing is promised: no good pair, or no worker on a side.
    NothingPromised,
    /// All who should use one good pair.
    Right(Belief),
    /// Somebody does not.
    Wrong(String),
}

/// Candidates or workers of a cluster whose daemon runs.
fn running(world: &World, cluster: usize, candidates: bool) -> Vec<Id> {
    let fits = |id: &Id| world.cluster(*id) == cluster && world.slot(*id).is_some() == candidates && world.runs(*id);
    world.ids().into_iter().filter(fits).collect()
}

fn both_ways(world: &World, one: Id, other: Id) -> bool {
    world.works(one, other) && world.works(other, one)
}

/// Workers that work both ways with some candidate of their cluster.
fn reached_workers(world: &World, cluster: usize) -> Vec<Id> {
    let candidates = running(world, cluster, true);
    let reached = |worker: &Id| candidates.iter().any(|candidate| both_ways(world, *worker, *candidate));
    running(world, cluster, false).into_iter().filter(reached).collect()
}

fn is_good_end(world: &World, end: Id) -> bool {
    let workers = reached_workers(world, world.cluster(end));
    world.runs(end) && workers.iter().all(|worker| both_ways(world, end, *worker))
}

/// Section 2: a good pair.
pub(super) fn is_good(world: &World, left: Id, right: Id) -> bool {
    both_ways(world, left, right) && is_good_end(world, left) && is_good_end(world, right)
}

fn good_pairs(world: &World, (a, b): (usize, usize)) -> Vec<(Id, Id)> {
    let (lefts, rights) = (running(world, a, true), running(world, b, true));
    let pairs = lefts.iter().flat_map(|left| rights.iter().map(move |right| (*left, *right)));
    pairs.filter(|(left, right)| is_good(world, *left, *right)).collect()
}

/// Nodes of both clusters that `from` can make hear something, itself included; or that can make it hear.
fn connected(world: &World, (a, b): (usize, usize), from: Id, forward: bool) -> BTreeSet<Id> {
    let mut seen = BTreeSet::from([from]);
    let mut open = Vec::from([from]);
    while let Some(at) = open.pop() {
        for next in world.sessions(at) {
            let (sender, receiver) = if forward { (at, next) } else { (next, at) };
            let inside = [a, b].contains(&world.cluster(next)) && world.runs(next);
            if inside && world.works(sender, receiver) && seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

/// Whether `node` may hear a pair that is heard by nobody in `core`: such a *mute* pair may keep a choice of its own.
fn may_follow_the_mute(world: &World, clusters: (usize, usize), core: &BTreeSet<Id>, node: Id) -> bool {
    let heard = connected(world, clusters, node, false);
    let outside: Vec<Id> = heard.difference(core).copied().filter(|id| world.slot(*id).is_some()).collect();
    outside.iter().any(|one| {
        outside.iter().any(|other| world.cluster(*one) != world.cluster(*other) && both_ways(world, *one, *other))
    })
}

/// Judges G1 for a pair of clusters, the one with the smaller id first.
pub(super) fn judge(world: &World, clusters: (usize, usize)) -> Verdict {
    let (a, b) = clusters;
    let goods = good_pairs(world, clusters);
    let has_workers = |cluster| world.ids().iter().any(|id| world.cluster(*id) == cluster && world.slot(*id).is_none());
    let unreached = |cluster| has_workers(cluster) && reached_workers(world, cluster).is_empty();
    if goods.is_empty() || unreached(a) || unreached(b) {
        return Verdict::NothingPromised;
    }
    let slot = |id: Id| world.slot(id).unwrap_or(0);
    let mut right = None;
    for (left, _) in &goods {
        let heard = connected(world, clusters, *left, true);
        let core: BTreeSet<Id> = heard.intersection(&connected(world, clusters, *left, false)).copied().collect();
        let mut agreed: Option<Belief> = None;
        for node in heard {
            if !core.contains(&node) && may_follow_the_mute(world, clusters, &core, node) {
                continue;
            }
            let there = if world.cluster(node) == a { b } else { a };
            let belief = world.belief(node, there);
            // A candidate that hears others in slow cables only knows the choice, but hears its ends' beats too rarely to
            // see that they live. Workers hear on the overlay, which is fast.
            let slow = world.slot(node).is_some();
            let is_good_pair = |pair| goods.iter().any(|(l, r)| (slot(*l), slot(*r)) == pair);
            let good = |belief: &Belief| (belief.alive || slow) && is_good_pair(belief.pair);
            match belief.filter(good) {
                Some(belief) if agreed.is_none_or(|agreed| same(agreed, belief)) => agreed = agreed.or(Some(belief)),
                Some(_) | None => {
                    let name = world.name(node);
                    return Verdict::Wrong(format!("{name} believes {belief:?}, others {agreed:?}"));
                }
            }
        }
        right = right.or(agreed);
    }
    right.map_or(Verdict::NothingPromised, Verdict::Right)
}

fn same(one: Belief, other: Belief) -> bool {
    (one.version, one.pair) == (other.version, other.pair)
}

/// The candidates of a pair of slots.
pub(super) fn ends(world: &World, (a, b): (usize, usize), pair: (u8, u8)) -> Option<(Id, Id)> {
    let find = |cluster, slot| {
        world.ids().into_iter().find(|id| world.cluster(*id) == cluster && world.slot(*id) == Some(slot))
    };
    Some((find(a, pair.0)?, find(b, pair.1)?))
}
