//! How long it takes until all agree again: the directed cases of `spec/failover.md` 9 against the times of G1.
//! Three candidates and two workers on each side, no loss; time counts from the fault to the last change of anybody's
//! belief.

use super::judge::{Verdict, judge};
use super::long;
use super::world::{Shape, World};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

struct Case {
    name: &'static str,
    /// What stands before the fault; `a` and `b` are the ends in use.
    before: fn(&mut World, a: &str, b: &str),
    fault: fn(&mut World, a: &str, b: &str),
    /// Milliseconds promised at 60 ms and at 5 ms links.
    promised: (u64, u64),
}

const fn nothing(_: &mut World, _: &str, _: &str) {}

/// A candidate beside the ends in use, in both clusters.
fn standby(a: &str, b: &str) -> (String, String) {
    let free = |name: &str| (1..=3).map(|n| format!("{}{n}", &name[..1])).filter(|n| n != name).collect::<Vec<_>>();
    (free(a)[0].clone(), free(b)[0].clone())
}

const CASES: [Case; 11] = [
    Case {
        name: "a gateway loses power",
        before: nothing,
        fault: |world, a, _| world.power_off(a),
        promised: (550, 700),
    },
    Case {
        name: "both ends lose power",
        before: nothing,
        fault: |world, a, b| {
            world.power_off(a);
            world.power_off(b);
        },
        promised: (650, 700),
    },
    Case { name: "WAN cut", before: nothing, fault: |world, a, _| world.cut_wan(a), promised: (550, 700) },
    Case { name: "a cable one way", before: nothing, fault: |world, a, b| world.cut(a, b), promised: (550, 700) },
    Case { name: "overlay cut", before: nothing, fault: |world, a, _| world.cut_overlay(a), promised: (700, 700) },
    Case {
        name: "gateway to workers cut",
        before: nothing,
        fault: |world, a, _| world.cut_to_workers(a),
        promised: (700, 700),
    },
    Case {
        name: "workers to gateway cut",
        before: nothing,
        fault: |world, a, _| world.cut_from_workers(a),
        promised: (810, 700),
    },
    Case {
        name: "only a standby pair left",
        before: nothing,
        fault: |world, a, b| {
            let (spare_a, spare_b) = standby(a, b);
            for left in ["a1", "a2", "a3"] {
                for right in ["b1", "b2", "b3"] {
                    if (left, right) != (&spare_a, &spare_b) {
                        world.cut_both(left, right);
                    }
                }
            }
        },
        promised: (650, 700),
    },
    Case {
        name: "the second of three after 1 s",
        before: |world, a, _| {
            world.power_off(a);
            world.run_ms(1_000);
        },
        fault: |world, _, _| {
            let (second, _) = world.ends();
            world.power_off(&second);
        },
        promised: (565, 700),
    },
    Case {
        name: "candidates deaf to each other",
        before: |world, _, _| {
            world.keep_only_equal_ranks();
            for cluster in ["a", "b"] {
                for one in 1..=3 {
                    for other in 1..one {
                        world.cut_both(&format!("{cluster}{one}"), &format!("{cluster}{other}"));
                    }
                }
            }
            world.run_ms(2_000);
        },
        fault: |world, _, _| {
            let (a, b) = world.ends();
            world.cut_both(&a, &b);
        },
        promised: (950, 700),
    },
    Case {
        name: "all cables back after 5 s",
        before: |world, _, _| {
            for name in ["a1", "a2", "a3"] {
                world.cut_wan(name);
            }
            world.run_ms(5_000);
        },
        fault: |world, _, _| world.heal_all(),
        promised: (300, 100),
    },
];

/// Milliseconds until all agree, or what is wrong.
fn converge(settled: &World, case: &Case) -> Result<u64, String> {
    let mut world = settled.clone();
    let (a, b) = world.ends();
    (case.before)(&mut world, &a, &b);
    let phase = world.draw(100);
    world.run_ms(phase);
    let start = world.now_ms();
    (case.fault)(&mut world, &a, &b);
    world.run_ms(1_000);
    let (verdict, last) = (judge(&world, (0, 1)), world.last_change_ms((0, 1)));
    if matches!(verdict, Verdict::Right(_)) && last >= start {
        Ok(last - start)
    } else {
        Err(format!("{verdict:?}, fault at {start} ms, last change at {last} ms"))
    }
}

fn check(latency_ms: u64, promised: fn(&Case) -> u64) {
    let mut took = CASES.each_ref().map(|_| Vec::new());
    for seed in 0..2 * long() {
        let settled = World::settled(Shape::new(&[(3, 2), (3, 2)], seed).latency_ms(latency_ms));
        for (case, took) in CASES.iter().zip(&mut took) {
            let ms = converge(&settled, case).unwrap_or_else(|why| panic!("{}, seed {seed}: {why}", case.name));
            took.push(ms);
        }
    }
    let mut late = Vec::new();
    for (case, mut took) in CASES.iter().zip(took) {
        took.sort_unstable();
        let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
        std::println!("{:<32} {median:>5} {most:>5} of {}", case.name, promised(case));
        if most > promised(case) {
            late.push(format!("{}: {most} ms", case.name));
        }
    }
    assert!(late.is_empty(), "late at {latency_ms} ms links: {late:?}");
}

#[test]
fn at_60_ms_links_all_agree_again_in_the_promised_time() {
    check(60, |case| case.promised.0);
}

#[test]
fn at_5_ms_links_all_agree_again_in_the_promised_time() {
    check(5, |case| case.promised.1);
}

#[test]
fn a_cold_start_finds_the_best_pair_in_700_ms() {
    let mut best = 0;
    let seeds = 5 * long();
    for seed in 0..seeds {
        let mut world = World::new(Shape::new(&[(3, 2), (3, 2)], seed).latency_ms(60));
        world.run_ms(1_500);
        best += u64::from(world.path() == (1, 1));
        let took = world.last_change_ms((0, 1));
        assert!(took <= 710, "seed {seed}: {took} ms");
    }
    // A lost race to another pair is allowed: it is rare, and such a path serves as well.
    assert!(best * 100 >= seeds * 97 || seeds - best <= 1, "best pair in {best} of {seeds}");
}
