//! Random faults against the guarantees G1 (a good pair for all) and G2 (no needless change), as in
//! `spec/failover.md` 9: one to four phases of one to three faults within 1.4 s, then time to settle.

use super::judge::{Verdict, ends, is_good, judge};
use super::long;
use super::world::{Id, Shape, World};
use crate::base::Rng;
use crate::paths::rules::Rules;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What many schedules showed.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) judged: u64,
    pub(super) unpromised: u64,
    pub(super) undisturbed: u64,
    pub(super) wrong: Vec<String>,
    pub(super) moved: Vec<String>,
}

/// Lives one schedule and adds what it showed.
pub(super) fn live(seed: u64, loss_percent: u64, rules: Rules, watch_ms: u64, tally: &mut Tally) {
    let mut rng = Rng::stream(seed, "schedule");
    let count = 2 + u64::from(rng.chance(200_000)) + u64::from(rng.chance(100_000));
    let clusters: Vec<_> = (0..count).map(|_| (1 + below(&mut rng, 4), 1 + below(&mut rng, 3))).collect();
    let shape = Shape::new(&clusters, seed).latency_ms(rng.below(61)).loss_percent(loss_percent).rules(rules);
    let mut world = World::new(shape);
    world.traced = std::env::var("TOMBOLO_SEED").is_ok();
    world.run_ms(3_000);
    for phase in 0..=rng.below(4) {
        let before = beliefs(&world);
        let mut calm = before.clone();
        let mut times: Vec<u64> = (0..=rng.below(3)).map(|_| rng.below(1_400)).collect();
        times.sort_unstable();
        let start = world.now_ms();
        // Daemons that restart are back within 2 s of the last fault.
        for ms in 0..3_400 / STEP_MS {
            while times.first().is_some_and(|at| *at <= ms * STEP_MS) {
                times.remove(0);
                hurt(&mut world, &mut rng);
            }
            calm.retain(|(clusters, belief)| {
                ends(&world, *clusters, belief.pair).is_some_and(|(left, right)| is_good(&world, left, right))
            });
            world.run_ms(STEP_MS);
        }
        world.run_ms(watch_ms);
        for clusters in pairs(&world) {
            let place = || format!("seed {seed} phase {phase} from {start} ms, clusters {clusters:?}");
            match judge(&world, clusters) {
                Verdict::NothingPromised => tally.unpromised += 1,
                Verdict::Wrong(why) => {
                    tally.judged += 1;
                    tally.wrong.push(format!("{}: {why}", place()));
                }
                Verdict::Right(belief) => {
                    tally.judged += 1;
                    if let Some((_, old)) = calm.iter().find(|(calm, _)| *calm == clusters) {
                        tally.undisturbed += 1;
                        if old.version != belief.version {
                            tally.moved.push(format!("{}: {old:?} to {belief:?}", place()));
                        }
                    }
                }
            }
        }
    }
}

const STEP_MS: u64 = 20;

fn below(rng: &mut Rng, bound: u8) -> u8 {
    u8::try_from(rng.below(u64::from(bound))).unwrap()
}

fn pairs(world: &World) -> Vec<(usize, usize)> {
    world.clusters().flat_map(|a| (a + 1..world.clusters().end).map(move |b| (a, b))).collect()
}

fn beliefs(world: &World) -> Vec<((usize, usize), super::world::Belief)> {
    let right = |clusters| match judge(world, clusters) {
        Verdict::Right(belief) => Some((clusters, belief)),
        Verdict::NothingPromised | Verdict::Wrong(_) => None,
    };
    pairs(world).into_iter().filter_map(right).collect()
}

/// One fault, or the end of some.
fn hurt(world: &mut World, rng: &mut Rng) {
    let ids = world.ids();
    let pick = |rng: &mut Rng, candidate: bool| {
        let fits: Vec<Id> = ids.iter().copied().filter(|id| candidate == world.slot(*id).is_some()).collect();
        fits[usize::try_from(rng.below(fits.len() as u64)).unwrap()]
    };
    let candidate = pick(rng, true);
    let worker = pick(rng, false);
    match rng.below(10) {
        0 if world.is_powered(candidate) => world.power_off_id(candidate),
        0 | 1 => world.power_on_id(candidate),
        2 | 3 => {
            let ms = 30 + rng.below(1_970);
            world.restart_id(candidate, ms);
        }
        4 => {
            let ms = 30 + rng.below(500);
            world.restart_id(worker, ms);
        }
        5 => {
            let others = world.sessions(candidate).into_iter();
            let cables = others.filter(|other| world.cluster(*other) != world.cluster(candidate)).collect::<Vec<_>>();
            sever(world, rng, candidate, &cables);
        }
        6 => {
            let others = world.sessions(candidate).into_iter();
            let overlay = others.filter(|other| world.cluster(*other) == world.cluster(candidate)).collect::<Vec<_>>();
            sever(world, rng, candidate, &overlay);
        }
        7 => {
            let sessions = world.sessions(candidate);
            let one = sessions[usize::try_from(rng.below(sessions.len() as u64)).unwrap()];
            sever(world, rng, candidate, &[one]);
        }
        8 => {
            let sessions = world.sessions(worker);
            let one = sessions[usize::try_from(rng.below(sessions.len() as u64)).unwrap()];
            let all = rng.chance(300_000);
            sever(world, rng, worker, if all { &sessions } else { core::slice::from_ref(&one) });
        }
        _ => {
            world.heal_all();
            if rng.chance(500_000) {
                for id in ids {
                    world.power_on_id(id);
                }
            }
        }
    }
}

/// Cuts links both ways or one way.
fn sever(world: &mut World, rng: &mut Rng, id: Id, others: &[Id]) {
    let way = rng.below(4);
    for other in others {
        if way != 0 {
            world.cut_ids(id, *other);
        }
        if way != 1 {
            world.cut_ids(*other, id);
        }
    }
}

/// Lives schedules `from..from + count`.
pub(super) fn tally(from: u64, count: u64, loss_percent: u64, rules: Rules) -> Tally {
    let mut tally = Tally::default();
    for seed in from..from + count {
        live(seed, loss_percent, rules, 3_000, &mut tally);
    }
    tally
}

fn summary(tally: &Tally) -> String {
    let Tally { judged, unpromised, undisturbed, wrong, moved } = tally;
    format!(
        "{judged} judged, {} wrong, {unpromised} without a promise, {undisturbed} undisturbed, {} moved\n{}",
        wrong.len(),
        moved.len(),
        wrong.iter().chain(moved).cloned().collect::<Vec<_>>().join("\n")
    )
}

/// Replays one schedule with a trace: `TOMBOLO_SEED=51 TOMBOLO_LOSS=0 cargo test … replay -- --nocapture`.
#[test]
fn replay() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("TOMBOLO_SEED") {
        let mut tally = Tally::default();
        live(seed, number("TOMBOLO_LOSS").unwrap_or(0), Rules::ALL, 3_000, &mut tally);
        std::println!("{}", summary(&tally));
    }
}

#[test]
fn without_loss_a_good_pair_is_chosen_by_all_and_kept() {
    let tally = tally(0, 3 * long(), 0, Rules::ALL);
    std::println!("{}", summary(&tally));
    assert!(tally.wrong.is_empty() && tally.moved.is_empty(), "{}", summary(&tally));
    assert!(tally.judged > 5 && tally.undisturbed > 2, "{}", summary(&tally));
}

#[test]
fn with_loss_a_good_pair_is_still_chosen_by_all() {
    let tally = tally(1_000_000, long(), 5, Rules::ALL);
    std::println!("{}", summary(&tally));
    assert!(tally.wrong.is_empty(), "{}", summary(&tally));
}
