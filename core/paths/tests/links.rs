//! Small worlds in any state of their links: two candidates and one worker a side, each directed link up or cut from
//! the start or from a settled path on, then one link flips or one daemon restarts (`spec/failover.md` 9).

use super::judge::{Verdict, ends, is_good, judge};
use super::long;
use super::world::{Id, Shape, World};
use crate::base::Rng;
use alloc::vec::Vec;

/// All directed links, between candidates alone or with the workers' too.
fn links(world: &World, workers: bool) -> Vec<(Id, Id)> {
    let mut links = Vec::new();
    for one in world.ids() {
        for other in world.sessions(one) {
            if workers || world.slot(one).is_some() && world.slot(other).is_some() {
                links.push((one, other));
            }
        }
    }
    links
}

fn pick<T: Copy>(items: &[T], rng: &mut Rng) -> T {
    items[usize::try_from(rng.below(items.len() as u64)).unwrap()]
}

/// What a right path is for: the workers reach each other, as far as their daemons run.
fn carries(world: &World) -> bool {
    ["aw1", "bw1"]
        .into_iter()
        .zip(["bw1", "aw1"])
        .all(|(from, to)| !world.runs(world.id(from)) || !world.runs(world.id(to)) || world.carries(from, to))
}

/// Lives one of the worlds. True if something was promised at its end.
fn live(seed: u64, workers: bool) -> bool {
    let mut rng = Rng::stream(seed, "links");
    let shape = Shape::new(&[(2, 1), (2, 1)], seed).latency_ms(rng.below(61));
    let mut world = if rng.chance(500_000) { World::new(shape) } else { World::settled(shape) };
    world.traced = std::env::var("TOMBOLO_LINKS_SEED").is_ok();
    let links = links(&world, workers);
    // Cuts are rare in some worlds and the rule in others.
    let millionths = 100_000 + u32::try_from(rng.below(500_000)).unwrap();
    for (from, to) in &links {
        if rng.chance(millionths) {
            world.cut_ids(*from, *to);
        }
    }
    world.run_ms(4_000);
    let first = judge(&world, (0, 1));
    assert!(!matches!(first, Verdict::Wrong(_)), "seed {seed}, before: {first:?}");
    assert!(!matches!(first, Verdict::Right(_)) || carries(&world), "seed {seed}: a right path that carries nothing");
    if rng.chance(700_000) {
        let (from, to) = pick(&links, &mut rng);
        if world.works(from, to) {
            world.cut_ids(from, to);
        } else {
            world.heal_ids(from, to);
        }
    } else {
        let all = world.ids();
        world.kill_id(pick(&all, &mut rng));
    }
    world.run_ms(100);
    let stays = matches!(first, Verdict::Right(belief)
        if ends(&world, (0, 1), belief.pair).is_some_and(|(left, right)| is_good(&world, left, right)));
    world.run_ms(3_900);
    let second = judge(&world, (0, 1));
    assert!(!matches!(second, Verdict::Right(_)) || carries(&world), "seed {seed}: a right path that carries nothing");
    match (first, second) {
        (_, Verdict::Wrong(why)) => panic!("seed {seed}, after: {why}"),
        (Verdict::Right(before), Verdict::Right(after)) => {
            assert!(!stays || before.version == after.version, "seed {seed}: moved from {before:?} to {after:?}");
            true
        }
        (_, verdict) => verdict != Verdict::NothingPromised,
    }
}

fn live_many(from: u64, workers: bool) {
    let worlds = 6 * long();
    let promised = (from..from + worlds).filter(|seed| live(*seed, workers)).count() as u64;
    assert!(promised * 10 > worlds, "something was promised in {promised} of {worlds} worlds");
}

/// Replays one world with a trace: `TOMBOLO_LINKS_SEED=1000098 cargo test … links::replay -- --nocapture`. Seeds from
/// 1,000,000 on cut workers' links too.
#[test]
fn replay() {
    let seed = std::env::var("TOMBOLO_LINKS_SEED").ok().and_then(|text| text.parse().ok());
    if let Some(seed) = seed {
        live(seed, seed >= 1_000_000);
    }
}

#[test]
fn any_links_between_candidates() {
    live_many(0, false);
}

#[test]
fn any_links_with_those_of_workers() {
    live_many(1_000_000, true);
}
