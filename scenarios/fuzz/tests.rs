//! What is drawn is fair and of every kind, and what is shrunk still fails alike.

use super::broken::effective;
use super::*;
use crate::bounds::{CALM_AFTER, GONE_WITHIN};
use crate::format::{act_words, is_called, written};
use crate::hopeless::hopeless;
use crate::probing::{end_of, streams};
use crate::{Act, ApiFault, ApiRef, Daemons, Verb, When};
use core::time::Duration;
use std::collections::BTreeMap;

fn draw(seed: u64) -> Scenario {
    super::draw(seed, &[])
}

const SEEDS: core::ops::Range<u64> = 0..400;

#[test]
fn the_same_seed_draws_the_same_scenario_and_another_seed_another() {
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7).clusters, draw(8).clusters);
}

#[test]
fn whatever_is_broken_is_repaired_and_then_it_is_quiet() {
    for seed in SEEDS {
        let mut scenario = draw(seed);
        let drawn = scenario.clone();
        assert_eq!(effective(&mut scenario).cures(), [], "seed {seed}");
        assert_eq!(scenario, drawn, "seed {seed} has acts that change nothing");
        let last = scenario.timeline.last().unwrap().at;
        assert!(scenario.timeline.is_sorted_by_key(|act| act.at));
        let lossy = scenario.links.lose_packets();
        assert!(end_of(&scenario) >= last + if lossy { GONE_WITHIN } else { CALM_AFTER + GONE_WITHIN }, "seed {seed}");
        for expectation in &scenario.expect {
            let asked = match crate::probing::when(expectation) {
                When::By(at) | When::During(at, _) => at,
                When::Always => Duration::ZERO,
            };
            assert!(asked > last, "seed {seed} asks for something before all is repaired");
        }
    }
}

#[test]
fn no_link_is_hopeless() {
    for seed in SEEDS {
        let scenario = draw(seed);
        for stream in streams(&scenario) {
            assert_eq!(hopeless(&scenario, &stream), None, "seed {seed}");
        }
    }
}

/// How many of the drawn scenarios have this in their file.
fn share(text: &str) -> usize {
    SEEDS.filter(|seed| written(&draw(*seed)).unwrap().contains(text)).count()
}

#[test]
fn every_verb_and_every_state_of_an_api_is_drawn() {
    // A cluster that is built anew before it has left is another one under a name that is taken, and refused for good.
    for word in act_words().filter(|word| *word != "rebuild") {
        let drawn = SEEDS.filter(|seed| draw(*seed).timeline.iter().any(|act| is_called(&act.verb, word)));
        assert!(drawn.count() >= 20, "{word}");
    }
    for daemon in ["gateway", "route-agent", "discovery", "dns", "all"] {
        assert!(share(&format!("daemon: {daemon}")) >= 10, "{daemon}");
    }
    for word in ["one_way: true", "broker: own", "loss:", "jitter:", "cable: vxlan", "53/udp", "NXDOMAIN", "of: broker"]
    {
        assert!(share(word) >= 10, "{word}");
    }
}

#[test]
fn what_is_left_out_does_not_happen_and_the_rest_is_fair_all_the_same() {
    let without = ["power_off", "restarted-empty"].map(str::to_owned);
    for seed in SEEDS {
        let mut scenario = super::draw(seed, &without);
        assert!(!scenario.timeline.is_empty());
        assert!(!scenario.timeline.iter().any(|act| without.iter().any(|word| is_called(&act.verb, word))));
        assert_eq!(effective(&mut scenario).cures(), [], "seed {seed}");
    }
    let all = act_words().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(super::draw(1, &all).timeline, []);
}

#[test]
fn two_faults_often_come_within_two_seconds() {
    let close = |seed: &u64| {
        let faults = draw(*seed).timeline.into_iter().filter(|act| is_fault(&act.verb)).collect::<Vec<_>>();
        faults.windows(2).any(|pair| pair[1].at - pair[0].at <= Duration::from_secs(2))
    };
    assert!(SEEDS.filter(close).count() > 200);
}

fn is_fault(verb: &Verb) -> bool {
    match verb {
        Verb::PowerOff(_) | Verb::Crash(..) | Verb::Cut { .. } | Verb::Unexport(..) | Verb::Unready(..) => true,
        Verb::Api(_, fault) => *fault != ApiFault::Healthy,
        Verb::PowerOn(_) | Verb::Start(..) | Verb::Heal { .. } | Verb::Export(..) | Verb::Ready(..) => false,
        Verb::Leave(_) => true,
        Verb::ClockSkew(..) | Verb::ClockRate(..) | Verb::NatRemap(_) | Verb::ChangeAddress(_) => false,
        Verb::Join(_) | Verb::Rebuild(_) | Verb::Reslice(..) => false,
    }
}

/// Fails where a gateway daemon is down while an API is.
fn has_the_conjunction(scenario: &Scenario) -> bool {
    let mut down: BTreeMap<ApiRef, Duration> = BTreeMap::new();
    for Act { at, verb } in &scenario.timeline {
        match verb {
            Verb::Api(api, ApiFault::Down) => drop(down.insert(api.clone(), *at)),
            Verb::Api(api, _) => drop(down.remove(api)),
            Verb::Crash(_, Daemons::All | Daemons::One(crate::Daemon::Gateway)) if !down.is_empty() => return true,
            Verb::Crash(..)
            | Verb::PowerOff(_)
            | Verb::PowerOn(_)
            | Verb::Start(..)
            | Verb::Cut { .. }
            | Verb::Heal { .. }
            | Verb::Export(..)
            | Verb::Unexport(..)
            | Verb::Ready(..)
            | Verb::Unready(..)
            | Verb::ClockSkew(..)
            | Verb::ClockRate(..)
            | Verb::NatRemap(_)
            | Verb::ChangeAddress(_)
            | Verb::Join(_)
            | Verb::Leave(_)
            | Verb::Rebuild(_)
            | Verb::Reslice(..) => {}
        }
    }
    false
}

#[test]
fn what_fails_shrinks_to_the_two_faults_that_matter_and_their_cures() {
    let seeds = SEEDS.filter(|seed| has_the_conjunction(&draw(*seed))).collect::<Vec<_>>();
    assert!(seeds.len() >= 5, "the conjunction is too rare: {seeds:?}");
    for seed in seeds {
        let shrunk = shrink(&draw(seed), 2_000, &mut |candidate| Some(has_the_conjunction(candidate)));
        let text = written(&shrunk.scenario).unwrap();
        assert!(has_the_conjunction(&shrunk.scenario), "{text}");
        assert_eq!(shrunk.scenario.timeline.len(), 4, "{text}");
        assert!(shrunk.scenario.timeline[3].at <= Duration::from_secs(15), "{text}");
        assert_eq!(shrunk.scenario.expect, [], "{text}");
        assert_eq!(shrunk.scenario.workloads, [], "{text}");
        assert!(shrunk.scenario.clusters.len() <= 2, "{text}");
        assert_eq!(shrunk.scenario.links, crate::Links::default(), "{text}");
        assert_eq!(effective(&mut shrunk.scenario.clone()).cures(), [], "{text}");
    }
}

#[test]
fn shrinking_ends_with_its_runs_or_its_time_and_keeps_what_it_has() {
    let seed = SEEDS.into_iter().find(|seed| has_the_conjunction(&draw(*seed))).unwrap();
    let mut played = 0;
    let shrunk = shrink(&draw(seed), 5, &mut |candidate| {
        played += 1;
        Some(has_the_conjunction(candidate))
    });
    assert_eq!((shrunk.runs, played), (5, 5));
    assert!(has_the_conjunction(&shrunk.scenario));
    let over = shrink(&draw(seed), 5, &mut |_| None);
    assert_eq!((over.scenario, over.runs), (draw(seed), 1));
    let never = shrink(&draw(seed), 100, &mut |_| Some(false));
    assert_eq!(never.scenario, draw(seed));
}

/// As if such a run had broken this.
fn blamed_for_the_conjunction(scenario: &Scenario) -> Vec<Fault> {
    let at = Duration::from_secs(1);
    let fault = |blame| Fault { blame, at, text: "seen".into() };
    let other = fault(Blame::Invariant("No flap"));
    if has_the_conjunction(scenario) { vec![other, fault(Blame::Run)] } else { Vec::new() }
}

#[test]
fn the_smallest_is_proved_from_the_text_that_is_kept() {
    let drawn = draw(SEEDS.into_iter().find(|seed| has_the_conjunction(&draw(*seed))).unwrap());
    let kept = smallest(&drawn, Blame::Run, 2_000, &|| false, &blamed_for_the_conjunction).unwrap();
    assert_eq!((kept.fault.blame, kept.scenario.timeline.len()), (Blame::Run, 4));
    assert_eq!(crate::parse("kept.yaml", &kept.text).unwrap(), kept.scenario);
    // When the time is over, the drawn one is kept as it is.
    let kept = smallest(&drawn, Blame::Run, 2_000, &|| true, &blamed_for_the_conjunction).unwrap();
    assert_eq!(kept.scenario, drawn);
    // What fails otherwise does not fail alike.
    assert_eq!(smallest(&drawn, Blame::Expectation("dns"), 10, &|| false, &blamed_for_the_conjunction), None);
}
