//! A scripted stage is played; what is asked of it, and what is made of what it says.

use crate::rehearsal::{
    Rehearsal, act, at, candidates, cluster, connects, elected, fact, failed, fetched, millis, node, outage, path,
    path_dead, probed, refused, resolved, resolves, scenario, secs, stood_down, to_web, web, web_service, wrote,
};
use crate::{
    Ability, ApiFault, ApiRef, Change, Daemon, Daemons, Expectation, Fact, Fault, Flow, Host, Judgement, Options,
    Report, Scenario, Side, Verb, Watched, What, When, judge, run,
};
use core::time::Duration;

fn play(scenario: &Scenario, stage: &mut Rehearsal) -> Report {
    run(scenario, stage, &Options { seed: 7 })
}

/// Plays with nothing but these expectations and gives the first verdict.
fn verdict(expect: Vec<Expectation>, mut stage: Rehearsal) -> crate::Verdict {
    play(&scenario(Vec::new(), expect), &mut stage).verdicts.remove(0)
}

fn leading() -> Vec<Fact> {
    vec![
        fact(secs(1), "west/gw-a gateway", elected(5)),
        fact(
            secs(1),
            "west api",
            wrote("west/gw-a gateway", Change::Created, candidates("west", 5, &["gw-a", "gw-b"])),
        ),
        fact(secs(2), "west/worker route-agent", path("east", 1, 1, 1)),
    ]
}

#[test]
fn active_gateway_is_the_last_one_elected_that_still_leads() {
    let off = |at| act(at, Verb::PowerOff(super::tests::at("west/active-gateway")));
    let mut script = leading();
    script.push(fact(secs(11), "west/gw-b gateway", elected(6)));
    script.push(fact(secs(11) + millis(1), "west/gw-a gateway", stood_down(5)));
    let mut stage = Rehearsal::new(script);
    let report = play(&scenario(vec![off(10), off(12)], vec![connects(When::By(secs(5)))]), &mut stage);
    assert_eq!(report.failures, []);
    assert_eq!(
        stage.acts,
        [
            (secs(10), Fault::PowerOff(cluster("west"), node("gw-a"))),
            (secs(12), Fault::PowerOff(cluster("west"), node("gw-b"))),
        ]
    );
}

#[test]
fn an_election_of_an_older_epoch_that_is_told_late_changes_nothing() {
    let mut script = leading();
    script.push(fact(secs(3), "west/gw-b gateway", elected(4)));
    let mut stage = Rehearsal::new(script);
    play(&scenario(vec![act(10, Verb::PowerOff(at("west/active-gateway")))], vec![]), &mut stage);
    assert_eq!(stage.acts, [(secs(10), Fault::PowerOff(cluster("west"), node("gw-a")))]);
}

#[test]
fn a_broken_invariant_fails_the_run_whatever_the_verdicts_say() {
    let mut script = leading();
    script.push(fact(secs(3), "west/gw-b gateway", elected(5)));
    let report = play(&scenario(vec![], vec![connects(When::By(secs(5)))]), &mut Rehearsal::new(script));
    assert_eq!(report.verdicts[0].judgement, Judgement::Met);
    assert_eq!(report.judgement(), Judgement::Failed);
    assert_eq!(report.watches[0].broken, 1);
    assert!(report.table().contains(
        "broken  One announcer at 3.000s: west/gw-a gateway and west/gw-b gateway both announce west in epoch 5"
    ));
}

#[test]
fn a_gateway_that_stood_down_or_died_is_not_active() {
    for (place, ends) in [
        ("west/gw-a gateway", stood_down(5)),
        ("west/gw-a gateway", What::Process(false)),
        ("west/gw-a", What::Power(false)),
    ] {
        let mut script = leading();
        script.push(fact(secs(3), place, ends));
        let mut stage = Rehearsal::new(script);
        let report = play(&scenario(vec![act(10, Verb::PowerOff(at("west/active-gateway")))], vec![]), &mut stage);
        assert!(stage.acts.is_empty());
        let failure = &report.failures[0];
        assert_eq!(failure.at, secs(10));
        assert_eq!(failure.text, "could not power off west/active-gateway: west has no active gateway at this moment");
        assert_eq!(report.judgement(), Judgement::Failed);
    }
}

#[test]
fn gateway_to_a_cluster_is_the_local_end_of_the_newest_path() {
    let mut script = leading();
    script.push(fact(secs(5), "west/gw-b gateway", path("east", 2, 2, 1)));
    // A worker that lags behind does not bring the old path back.
    script.push(fact(secs(6), "west/worker route-agent", path("east", 1, 1, 1)));
    let crash = Verb::Crash(at("west/gateway-to-east"), Daemons::One(Daemon::Gateway));
    let start = Verb::Start(at("west/last-crashed"), Daemons::One(Daemon::Gateway));
    let mut stage = Rehearsal::new(script);
    let report = play(&scenario(vec![act(10, crash), act(12, start)], vec![]), &mut stage);
    assert_eq!(report.failures, []);
    assert_eq!(
        stage.acts,
        [
            (secs(10), Fault::Crash(cluster("west"), node("gw-b"), Daemons::One(Daemon::Gateway))),
            (secs(12), Fault::Start(cluster("west"), node("gw-b"), Daemons::One(Daemon::Gateway))),
        ]
    );
}

#[test]
fn last_powered_off_is_remembered_for_each_cluster() {
    let timeline = vec![
        act(1, Verb::PowerOff(at("west/gw-b"))),
        act(2, Verb::PowerOff(at("east/gw-a"))),
        act(3, Verb::PowerOn(at("west/last-powered-off"))),
    ];
    let mut stage = Rehearsal::new(vec![]);
    play(&scenario(timeline, vec![]), &mut stage);
    assert_eq!(stage.acts[2], (secs(3), Fault::PowerOn(cluster("west"), node("gw-b"))));
}

#[test]
fn healing_a_cut_between_roles_heals_the_hosts_that_were_cut() {
    let sides = (Side::Node(at("west/active-gateway")), Side::Cluster(cluster("east")));
    let cut = Verb::Cut { from: sides.0.clone(), to: sides.1.clone(), one_way: false };
    let heal = Verb::Heal { from: sides.1, to: sides.0 };
    let mut script = leading();
    script.push(fact(secs(12), "west/gw-b gateway", elected(6)));
    let mut stage = Rehearsal::new(script);
    play(&scenario(vec![act(10, cut), act(20, heal)], vec![]), &mut stage);
    let west = vec![Host::Node(cluster("west"), node("gw-a"))];
    let east = vec![Host::Node(cluster("east"), node("gw-a")), Host::Node(cluster("east"), node("worker"))];
    assert_eq!(stage.acts[0].1, Fault::Cut { from: west.clone(), to: east.clone(), one_way: false });
    assert_eq!(stage.acts[1].1, Fault::Heal { from: west, to: east });
}

#[test]
fn expectations_on_the_same_flow_share_their_probes() {
    let mut stage = Rehearsal::new(vec![]);
    play(&scenario(vec![], vec![connects(When::By(secs(2))), outage(0, 2, secs(1))]), &mut stage);
    // Every 50 ms from 0 to 5.5 s: 7 s in all, less the timeout and its grace.
    assert_eq!(stage.probes.len(), 111);
    assert!(stage.probes.iter().all(|(at, _, _)| at.as_millis() % 50 == 0));
}

#[test]
fn by_is_met_at_the_start_of_the_last_unbroken_run() {
    let met =
        verdict(vec![connects(When::By(secs(5)))], Rehearsal::new(vec![]).with_outages(&[(0, 1_000), (2_000, 2_100)]));
    assert_eq!((met.judgement, met.at), (Judgement::Met, Some(millis(2_100))));

    let late = verdict(vec![connects(When::By(secs(5)))], Rehearsal::new(vec![]).with_outages(&[(6_000, 6_100)]));
    assert_eq!((late.judgement, late.at), (Judgement::Failed, Some(millis(6_100))));
    assert_eq!(late.detail, "too late; before: no answer");

    let ends = verdict(vec![connects(When::By(secs(5)))], Rehearsal::new(vec![]).with_outages(&[(8_400, 9_999)]));
    assert_eq!((ends.judgement, ends.at), (Judgement::Failed, Some(millis(8_400))));
}

#[test]
fn by_watches_up_to_the_next_act_only() {
    let power_off = act(8, Verb::PowerOff(at("west/gw-b")));
    // The act breaks what is under way, and what comes after it.
    let mut stage = Rehearsal::new(vec![]).with_outages(&[(7_900, 8_600)]);
    let report = play(&scenario(vec![power_off], vec![connects(When::By(secs(5)))]), &mut stage);
    assert_eq!((report.verdicts[0].judgement, report.verdicts[0].at), (Judgement::Met, Some(Duration::ZERO)));
    // A probe of that very moment comes after the act, and may fail at once: not even its source is there.
    let facts = [
        fact(Duration::ZERO, "west/worker", probed(0, 0, Duration::ZERO, fetched())),
        fact(secs(8), "west/worker", probed(0, 1, secs(8), failed("not probed"))),
    ];
    let power_off = act(8, Verb::PowerOff(at("west/gw-b")));
    let verdicts = judge(&scenario(vec![power_off], vec![connects(When::By(secs(5)))]), &facts, secs(20));
    assert_eq!(verdicts[0].judgement, Judgement::Met);
    // What breaks by itself before the act is not forgiven.
    let mut stage = Rehearsal::new(vec![]).with_outages(&[(6_000, 6_100)]);
    let power_off = act(8, Verb::PowerOff(at("west/gw-b")));
    let report = play(&scenario(vec![power_off], vec![connects(When::By(secs(5)))]), &mut stage);
    assert_eq!(report.verdicts[0].judgement, Judgement::Failed);
}

#[test]
fn during_takes_every_probe_that_begins_in_it() {
    let stage = || Rehearsal::new(vec![]).with_outages(&[(2_000, 2_050)]);
    let expect = |from, to| vec![connects(When::During(secs(from), secs(to)))];
    assert_eq!(verdict(expect(3, 5), stage()).judgement, Judgement::Met);
    let broken = verdict(expect(2, 5), stage());
    assert_eq!((broken.judgement, broken.at), (Judgement::Failed, Some(secs(2))));
    assert_eq!(verdict(vec![connects(When::Always)], stage()).judgement, Judgement::Failed);
}

#[test]
fn an_outage_is_the_longest_time_in_which_no_answer_arrives() {
    let met =
        verdict(vec![outage(2, 8, secs(1))], Rehearsal::new(vec![]).with_outages(&[(3_000, 3_600), (5_000, 5_200)]));
    // Last answer at 2.960 s, next one at 3.610 s.
    assert_eq!((met.judgement, met.measured, met.at), (Judgement::Met, Some(millis(650)), Some(millis(2_960))));
    let long = verdict(vec![outage(2, 8, secs(1))], Rehearsal::new(vec![]).with_outages(&[(3_000, 4_000)]));
    assert_eq!((long.judgement, long.measured), (Judgement::Failed, Some(millis(1_050))));
    assert_eq!(long.detail, "no answer");
}

#[test]
fn an_outage_over_an_edge_of_the_window_is_measured_as_far_as_it_lies_in_it() {
    let before = verdict(vec![outage(2, 8, secs(1))], Rehearsal::new(vec![]).with_outages(&[(0, 2_500)]));
    assert_eq!((before.judgement, before.measured), (Judgement::Met, Some(millis(510))));
    let after = verdict(vec![outage(2, 8, secs(1))], Rehearsal::new(vec![]).with_outages(&[(7_000, 99_000)]));
    assert_eq!((after.judgement, after.measured), (Judgement::Failed, Some(millis(1_040))));
}

#[test]
fn answers_that_come_late_do_not_hide_an_outage() {
    // As a retransmission would: all that begins in the gap is answered when it ends.
    let stage = Rehearsal::new(vec![]).answering(|at, _| {
        let stalled = (millis(3_000)..millis(3_800)).contains(&at);
        Some((if stalled { millis(3_800) - at } else { millis(10) }, fetched()))
    });
    assert_eq!(verdict(vec![outage(2, 8, secs(1))], stage).measured, Some(millis(840)));
}

#[test]
fn no_answer_at_all_is_no_short_outage() {
    let never = verdict(vec![outage(2, 3, secs(5))], Rehearsal::new(vec![]).with_outages(&[(0, 99_000)]));
    assert_eq!(never.judgement, Judgement::Failed);
    assert_eq!(never.detail, "no answer at all: no answer");
}

#[test]
fn refuse_wants_an_attempt_that_fails() {
    let met = verdict(vec![refused(When::By(secs(2)))], Rehearsal::new(vec![]).with_outages(&[(1_000, 99_000)]));
    assert_eq!((met.judgement, met.at), (Judgement::Met, Some(secs(1))));
    let open = verdict(vec![refused(When::Always)], Rehearsal::new(vec![]));
    assert_eq!(open.judgement, Judgement::Failed);
    // A source without power refuses nothing.
    let mut stage = Rehearsal::new(vec![fact(secs(0), "west/worker", What::Power(false))]);
    let report = play(&scenario(vec![], vec![refused(When::By(secs(2)))]), &mut stage);
    assert_eq!(report.verdicts[0].judgement, Judgement::Failed);
    assert_eq!(report.verdicts[0].detail, "not probed: west/worker is powered off");
}

#[test]
fn dns_wants_the_code_and_addresses_of_exactly_one_service() {
    let known = || vec![fact(secs(0), "east api", wrote("world", Change::Created, web_service()))];
    let answering =
        |outcome: crate::Outcome| Rehearsal::new(known()).answering(move |_, _| Some((millis(2), outcome.clone())));
    let east = vec![(cluster("east"), web())];
    let judged = |rcode, any_of: &[_], outcome| {
        verdict(vec![resolves(When::Always, rcode, any_of.to_vec())], answering(outcome)).judgement
    };
    assert_eq!(judged("NOERROR", &east, resolved("NOERROR", &["10.102.0.10"])), Judgement::Met);
    assert_eq!(judged("NOERROR", &east, resolved("NOERROR", &["10.102.0.11"])), Judgement::Failed);
    assert_eq!(judged("NOERROR", &east, resolved("NOERROR", &["10.102.0.10", "10.1.0.1"])), Judgement::Failed);
    assert_eq!(judged("NOERROR", &east, resolved("NOERROR", &[])), Judgement::Failed);
    assert_eq!(judged("NOERROR", &[], resolved("NOERROR", &[])), Judgement::Met);
    assert_eq!(judged("NXDOMAIN", &[], resolved("NXDOMAIN", &[])), Judgement::Met);
    assert_eq!(judged("NXDOMAIN", &[], resolved("SERVFAIL", &[])), Judgement::Failed);
    assert_eq!(judged("NXDOMAIN", &[], failed("no answer")), Judgement::Failed);
}

#[test]
fn unchanged_watches_the_leader_and_the_path() {
    let leader = Expectation::Unchanged {
        during: When::During(secs(3), secs(9)),
        what: Watched::ActiveGateway(cluster("west")),
    };
    let way = Expectation::Unchanged {
        during: When::During(secs(3), secs(9)),
        what: Watched::PathTo(cluster("west"), cluster("east")),
    };
    let both = vec![leader, way];
    let judged = |more: Vec<Fact>| {
        let mut script = leading();
        script.extend(more);
        let report = play(&scenario(vec![], both.clone()), &mut Rehearsal::new(script));
        report.verdicts.into_iter().map(|v| (v.judgement, v.detail)).collect::<Vec<_>>()
    };
    let (ok, bad) = (Judgement::Met, Judgement::Failed);
    assert_eq!(judged(vec![]), [(ok, "gw-a".into()), (ok, "gw-a - slot 1".into())]);
    let moved = judged(vec![
        fact(secs(5), "west/gw-b gateway", elected(6)),
        fact(secs(6), "west/gw-b gateway", path("east", 2, 2, 1)),
    ]);
    assert_eq!(
        moved,
        [(bad, "gw-a before, then gw-b".into()), (bad, "gw-a - slot 1 before, then gw-b - slot 1".into())]
    );
    let after = judged(vec![fact(secs(10), "west/gw-b gateway", elected(6))]);
    assert_eq!(after[0].0, ok);
}

#[test]
fn a_path_that_died_and_came_back_the_same_is_not_unchanged() {
    let judged = |more: Vec<Fact>| {
        let during = When::During(secs(3), secs(9));
        let way = Expectation::Unchanged { during, what: Watched::PathTo(cluster("west"), cluster("east")) };
        let mut script = leading();
        script.extend(more);
        let verdict = verdict(vec![way], Rehearsal::new(script));
        (verdict.judgement, verdict.at, verdict.detail)
    };
    let by = "west/worker route-agent";
    let back = fact(secs(6), by, path("east", 1, 1, 1));
    assert_eq!(
        judged(vec![fact(secs(5), by, path_dead("east", 1)), back.clone()]),
        (Judgement::Failed, Some(secs(5)), "gw-a - slot 1 before, then dead".into())
    );
    // Dead and back before the window, or a version that nobody uses any more: nothing changed within it.
    let before = vec![fact(millis(2_500), by, path_dead("east", 1)), fact(millis(2_600), by, path("east", 1, 1, 1))];
    assert_eq!(judged(before).0, Judgement::Met);
    assert_eq!(judged(vec![fact(secs(5), "west/gw-b gateway", path_dead("east", 0)), back]).0, Judgement::Met);
    let still_dead = judged(vec![fact(millis(2_500), by, path_dead("east", 1))]);
    assert_eq!(still_dead, (Judgement::Failed, Some(secs(3)), "nothing to watch: west/path-to-east is dead".into()));
}

#[test]
fn unchanged_needs_something_to_watch() {
    let nobody = Expectation::Unchanged { during: When::Always, what: Watched::ActiveGateway(cluster("west")) };
    let verdict = verdict(vec![nobody], Rehearsal::new(vec![]));
    assert_eq!(verdict.judgement, Judgement::Failed);
    assert_eq!(verdict.detail, "nothing to watch: west/active-gateway is nobody");
}

#[test]
fn settled_forgives_renewals_and_heartbeats_only() {
    use crate::rehearsal::{applied, gateway, lease};
    let settled = || vec![Expectation::Settled { when: When::By(secs(5)) }];
    let by = "west/gw-a gateway";
    let mut script = vec![
        fact(secs(1), "west/gw-a", applied(&["+ route 10.2.0.0/16 dev vx-tombolo"])),
        fact(secs(2), "west api", wrote(by, Change::Created, lease("gw-a", 5, 2))),
        fact(secs(2), "west api", wrote(by, Change::Created, gateway("gw-a", Some(5), &[]))),
        fact(secs(7), "west api", wrote(by, Change::Replaced, lease("gw-a", 5, 7))),
        fact(secs(7), "west api", wrote(by, Change::Replaced, gateway("gw-a", Some(5), &[]))),
    ];
    let met = verdict(settled(), Rehearsal::new(script.clone()));
    assert_eq!((met.judgement, met.at), (Judgement::Met, Some(secs(2))));
    // Written anew after an API lost all, the same words are a write.
    let mut anew = script.clone();
    anew.push(fact(secs(8), "west api", wrote(by, Change::Created, gateway("gw-a", Some(5), &[]))));
    assert_eq!(verdict(settled(), Rehearsal::new(anew)).judgement, Judgement::Failed);
    script.push(fact(secs(8), "west api", wrote(by, Change::Replaced, lease("gw-b", 6, 8))));
    let moved = verdict(settled(), Rehearsal::new(script));
    assert_eq!((moved.judgement, moved.at), (Judgement::Failed, Some(secs(8))));
    assert!(moved.detail.starts_with("still at 8.000s: west api: * Lease tombolo-gateway"), "{}", moved.detail);
    assert_eq!(verdict(settled(), Rehearsal::new(vec![])).detail, "nothing was ever applied or written");
}

#[test]
fn a_scenario_is_skipped_with_the_reason_if_the_world_lacks_what_it_needs() {
    let mut needy = scenario(vec![act(1, Verb::PowerOff(at("west/gw-a")))], vec![connects(When::By(secs(2)))]);
    needy.needs.insert(Ability::Loss);
    let mut stage = Rehearsal::new(vec![]).lacking(Ability::Loss, "no packets here");
    let report = play(&needy, &mut stage);
    assert_eq!(report.judgement(), Judgement::Skipped);
    assert_eq!(report.skipped.as_deref(), Some("needs loss: no packets here"));
    assert!(stage.acts.is_empty() && stage.probes.is_empty());
}

#[test]
fn an_expectation_on_a_held_flow_is_skipped_alone() {
    let held = Expectation::Outage {
        during: When::During(secs(1), secs(2)),
        from: at("west/worker"),
        to: to_web(),
        at_most: secs(1),
        flow: Flow::Held,
    };
    let mut stage = Rehearsal::new(vec![]).lacking(Ability::HeldFlows, "flows end with their probe");
    let report = play(&scenario(vec![], vec![held, connects(When::By(secs(2)))]), &mut stage);
    let judgements = report.verdicts.iter().map(|v| v.judgement).collect::<Vec<_>>();
    assert_eq!(judgements, [Judgement::Skipped, Judgement::Met]);
    assert_eq!(report.judgement(), Judgement::Met);
    assert!(stage.probes.iter().all(|(_, _, probe)| !probe.held));
}

#[test]
fn what_was_never_looked_at_does_not_pass() {
    // A source that cannot be found is not probed.
    let lost = Expectation::Connect { when: When::By(secs(2)), from: at("west/active-gateway"), to: to_web() };
    let report = play(&scenario(vec![], vec![lost]), &mut Rehearsal::new(vec![]));
    assert_eq!(report.judgement(), Judgement::Failed);
    assert_eq!(report.verdicts[0].detail, "not probed: west has no active gateway at this moment");
    // A window too short for the cadence.
    let gap = Expectation::Connect {
        when: When::During(millis(1_010), millis(1_020)),
        from: at("west/worker"),
        to: to_web(),
    };
    assert_eq!(verdict(vec![gap], Rehearsal::new(vec![])).detail, "nothing was probed");
}

#[test]
fn an_outcome_that_never_comes_is_a_failure_of_the_run() {
    let mut stage = Rehearsal::new(vec![]).answering(|at, _| (at != secs(1)).then(|| (millis(10), fetched())));
    let report = play(&scenario(vec![], vec![connects(When::By(secs(2)))]), &mut stage);
    assert_eq!(report.failures[0].text, "1 probes began and their outcome never came");
    assert_eq!(report.judgement(), Judgement::Failed);
}

#[test]
fn the_same_script_gives_the_same_hash_and_another_one_another() {
    let hash = |outages| {
        let mut stage = Rehearsal::new(leading()).with_outages(outages);
        play(
            &scenario(vec![act(3, Verb::Api(ApiRef::Broker, ApiFault::Down))], vec![outage(1, 5, secs(1))]),
            &mut stage,
        )
        .hash
    };
    assert_eq!(hash(&[]), hash(&[]));
    assert_ne!(hash(&[]), hash(&[(2_000, 2_050)]));
    // The number itself is part of the promise: a replay line from last year still means the same.
    let facts =
        [fact(secs(1), "west/gw-a gateway", elected(5)), fact(secs(2), "world", probed(0, 1, secs(1), fetched()))];
    insta::assert_snapshot!(crate::TraceHash::of(&facts), @"c0a9e8ad149df930");
}

#[test]
fn facts_that_were_recorded_are_judged_as_the_run_judged_them() {
    let mut stage = Rehearsal::new(leading()).with_outages(&[(0, 1_500), (20_000, 21_200)]);
    let scenario = scenario(vec![], vec![connects(When::By(secs(10))), outage(15, 30, secs(1)), refused(When::Always)]);
    let report = play(&scenario, &mut stage);
    assert_eq!(crate::judge(&scenario, &report.facts, report.ended), report.verdicts);
}

#[test]
fn the_report_reads_as_a_table_and_as_json() {
    let mut stage = Rehearsal::new(leading()).with_outages(&[(0, 1_500), (20_000, 21_200)]);
    let timeline = vec![act(20, Verb::PowerOff(at("west/active-gateway")))];
    let mut asked = scenario(timeline, vec![connects(When::By(secs(10))), outage(15, 30, secs(1))]);
    asked.expect.push(Expectation::Unchanged {
        during: When::During(secs(3), secs(9)),
        what: Watched::ActiveGateway(cluster("west")),
    });
    let mut report = play(&asked, &mut stage);
    report.watches.clear();
    report.violations.clear();
    insta::assert_snapshot!(report.table());
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap());
}

#[test]
fn the_table_says_when_an_invariant_did_not_watch() {
    let mut stage = Rehearsal::new(leading());
    let api = |at, fault| act(at, Verb::Api(ApiRef::Cluster(cluster("west")), fault));
    let timeline = vec![api(30, ApiFault::Slow(secs(6))), api(40, ApiFault::Healthy)];
    let mut report = play(&scenario(timeline, vec![connects(When::By(secs(10)))]), &mut stage);
    insta::assert_snapshot!(report.table());
    report.watches.retain(|watch| watch.invariant == "Converges");
    insta::assert_snapshot!(serde_json::to_string_pretty(&report.watches).unwrap());
}

#[test]
fn a_scenario_that_expects_nothing_is_judged_by_the_invariants() {
    let report = play(&scenario(vec![], vec![]), &mut Rehearsal::new(leading()));
    assert_eq!(report.judgement(), Judgement::Met, "{}", report.table());
    let mut two = leading();
    two.push(fact(secs(3), "west/gw-b gateway", elected(5)));
    let report = play(&scenario(vec![], vec![]), &mut Rehearsal::new(two));
    assert_eq!(report.judgement(), Judgement::Failed, "{}", report.table());
}
