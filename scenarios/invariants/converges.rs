//! **Converges.** When all faults have ended and nothing was done for the bound, every probe that should pass passes,
//! until the end, whatever the order of events was.
//!
//! Watched are the flows that an expectation wants to connect and none wants refused, towards a service that is exported.
//! Where links lose packets, single probes may fail; then a flow must not fail without a break for longer than chance can
//! explain; where a link is hopeless, no flow over it is watched (`hopeless.rs`). Held flows are not watched: whether one
//! outlives a gateway depends on its kind (`spec/data-plane.md` 5).

use super::{Invariant, Violation};
use crate::bounds::{CHANCE_FORGIVEN, CONVERGED_WITHIN, GONE_WITHIN, LEASE_TAKEN_WITHIN};
use crate::exports::Exports;
use crate::hopeless::hopeless;
use crate::membership::Membership;
use crate::probing::{Stream, stream_of, stream_of_probe, streams};
use crate::trouble::Trouble;
use crate::verdict::NOT_PROBED;
use crate::wording::{self, named_by, seconds};
use crate::{Expectation, Fact, Outcome, Scenario, Verb, What, Workload};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "Converges";

/// See the module.
pub(super) struct Converges {
    workloads: Vec<Workload>,
    streams: Vec<Stream>,
    /// Places of the streams that are watched.
    watched: BTreeSet<usize>,
    /// Why others are not: their links are hopeless.
    hopeless: BTreeSet<String>,
    trouble: Trouble,
    exports: Exports,
    exports_end: bool,
    membership: Membership,
    /// How long a flow may fail by chance.
    forgiven: Duration,
    /// Streams whose last probe failed when it should not have, and since when.
    failing: BTreeMap<usize, Duration>,
    /// Those of them that were told: a run of failures is one violation.
    told: BTreeSet<usize>,
}

impl Converges {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let streams = streams(scenario);
        let mut watched = BTreeSet::new();
        let mut refused = BTreeSet::new();
        for expectation in &scenario.expect {
            let Some(stream) = stream_of(&streams, expectation) else { continue };
            match expectation {
                Expectation::Connect { .. } | Expectation::Outage { .. } => drop(watched.insert(stream)),
                Expectation::Refuse { .. } => drop(refused.insert(stream)),
                Expectation::Dns { .. }
                | Expectation::Unchanged { .. }
                | Expectation::Refused { .. }
                | Expectation::Settled { .. } => {}
            }
        }
        watched.retain(|index| !refused.contains(index) && streams.get(*index).is_some_and(|stream| !stream.held));
        let mut reasons = BTreeSet::new();
        watched.retain(|index| {
            let reason = streams.get(*index).and_then(|stream| hopeless(scenario, stream));
            let hopeful = reason.is_none();
            reasons.extend(reason);
            hopeful
        });
        Self {
            workloads: scenario.workloads.clone(),
            streams,
            watched,
            hopeless: reasons,
            trouble: Trouble::of(scenario),
            exports: Exports::of(scenario),
            membership: Membership::of(scenario),
            exports_end: scenario
                .timeline
                .iter()
                .any(|act| matches!(act.verb, Verb::Unexport(..) | Verb::Unready(..) | Verb::Leave(_))),
            forgiven: if scenario.links.lose_packets() { CHANCE_FORGIVEN } else { Duration::ZERO },
            failing: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// Whether what the stream aims at is there, for who is a member.
    fn reachable(&self, stream: &Stream, at: Duration) -> bool {
        if !self.membership.at(&stream.from.cluster, at) {
            return false;
        }
        let Some(name) = stream.name() else { return !self.exports_end };
        let Some((key, of)) = named_by(name, &self.workloads) else { return false };
        // The name may give a cluster whose service has other ports.
        let answers =
            |workload: &&Workload| workload.service == key && of.as_ref().is_none_or(|of| *of == workload.cluster);
        let serves = |workload: &Workload| stream.port().is_none_or(|port| workload.ports.contains(&port));
        if !self.workloads.iter().filter(answers).all(serves) {
            return false;
        }
        self.exports
            .exporters(&key)
            .filter(|cluster| of.as_ref().is_none_or(|of| of == *cluster))
            .any(|cluster| self.exports.firmly(cluster, &key, at) && self.exports.is_ready(cluster, &key, at))
    }
}

impl Invariant for Converges {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F1 F2: submariner#1544 (B03), antrea#3593 (B09), lighthouse#685 (B41), submariner#346 (B22)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        self.trouble.watch(fact);
        let What::Probed { id, began, outcome } = &fact.what else { return None };
        let index = stream_of_probe(*id);
        let stream = self.streams.get(index).filter(|_| self.watched.contains(&index))?;
        let because = match outcome {
            Outcome::Failed { because } if !because.starts_with(NOT_PROBED) => because,
            Outcome::Failed { .. } => return None,
            Outcome::Fetched { .. } | Outcome::Resolved { .. } => {
                self.failing.remove(&index);
                self.told.remove(&index);
                return None;
            }
        };
        // Who starts in an API that lost its data learns of other clusters from a holder, and a lost lease has to be waited for.
        let lost = self.trouble.emptied_lately(*began, CONVERGED_WITHIN + LEASE_TAKEN_WITHIN);
        let lease = if lost { LEASE_TAKEN_WITHIN } else { Duration::ZERO };
        // An answer may yet name who exports it no longer.
        let key = stream.name().and_then(|name| named_by(name, &self.workloads)).map(|(key, _)| key);
        let ended = self.exports.ended(*began).iter().any(|(_, of, _)| Some(*of) == key.as_ref());
        let known = if ended { GONE_WITHIN } else { CONVERGED_WITHIN };
        let due = known + lease + fact.at.saturating_sub(*began);
        if self.trouble.calm_for(fact.at) < due || !self.reachable(stream, *began) {
            return None;
        }
        let since = *self.failing.entry(index).or_insert(*began);
        if began.saturating_sub(since) < self.forgiven || !self.told.insert(index) {
            return None;
        }
        let (from, to) = (wording::node(&stream.from), wording::probe(&stream.to));
        let text = format!("{from} did not reach {to} at {}, long after the last fault: {because}", seconds(*began));
        Some(Violation { invariant: NAME, at: fact.at, text })
    }

    fn excuse(&mut self, at: Duration) -> Option<String> {
        self.trouble.advance(at);
        if self.watched.is_empty() && self.hopeless.is_empty() {
            return Some("no flow is expected to connect".into());
        }
        let hopeless = self.hopeless.iter().cloned().collect::<Vec<_>>().join(", ");
        if self.watched.is_empty() {
            return Some(hopeless);
        }
        let for_now = self.trouble.says().or_else(|| self.trouble.says_lately(at, CONVERGED_WITHIN));
        for_now.or_else(|| (!hopeless.is_empty()).then(|| format!("of some flows: {hopeless}")))
    }

    fn end(&mut self, _: Duration) -> Vec<Violation> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{
        act, at, broken, cluster, connects, fact, failed, fetched, probed, refused, scenario, secs, web,
    };
    use crate::{Act, When};
    use tombolo_core::model::Protocol;

    fn watch(timeline: Vec<Act>, expect: Vec<Expectation>, facts: &[Fact]) -> Vec<String> {
        broken(&mut Converges::of(&scenario(timeline, expect)), facts, secs(60))
    }

    fn tried(at: u64, outcome: Outcome) -> Fact {
        fact(secs(at), "west/worker", probed(0, u32::try_from(at).unwrap(), secs(at), outcome))
    }

    fn power(at: u64, on: bool) -> Fact {
        fact(secs(at), "west/gw-a", What::Power(on))
    }

    fn repaired() -> Vec<Act> {
        vec![act(20, Verb::PowerOff(at("west/gw-a"))), act(30, Verb::PowerOn(at("west/gw-a")))]
    }

    #[test]
    fn what_fails_while_a_fault_is_in_force_or_just_over_is_forgiven() {
        let facts = [
            tried(19, fetched()),
            power(20, false),
            tried(29, failed("no answer")),
            power(30, true),
            tried(39, failed("no answer")),
            tried(41, fetched()),
        ];
        assert_eq!(watch(repaired(), vec![connects(When::By(secs(10)))], &facts), [""; 0]);
    }

    #[test]
    fn a_probe_that_fails_long_after_the_last_fault_is_caught_once() {
        let facts = [
            power(20, false),
            power(30, true),
            tried(41, failed("no answer")),
            tried(42, failed("no answer")),
            tried(43, fetched()),
        ];
        assert_eq!(
            watch(repaired(), vec![connects(When::By(secs(10)))], &facts),
            [
                "west/worker did not reach web.shop.svc.clusterset.local:80 at 41.000s, long after the last fault: no answer"
            ]
        );
    }

    #[test]
    fn where_packets_are_lost_single_probes_may_fail_but_no_flow_for_long() {
        let mut lossy = scenario(vec![], vec![connects(When::By(secs(10)))]);
        lossy.links.default.loss_millionths = 50_000;
        let mut facts =
            vec![tried(20, failed("lost")), tried(21, failed("lost")), tried(22, fetched()), tried(23, failed("lost"))];
        assert_eq!(broken(&mut Converges::of(&lossy), &facts, secs(60)), [""; 0]);
        facts.extend([tried(24, failed("lost")), tried(25, failed("lost"))]);
        assert_eq!(broken(&mut Converges::of(&lossy), &facts, secs(60)).len(), 1);
    }

    #[test]
    fn a_flow_over_a_link_that_lets_nothing_through_is_not_watched() {
        let mut dead = scenario(vec![], vec![connects(When::By(secs(10)))]);
        dead.links.default.loss_millionths = 1_000_000;
        let facts = (20..30).map(|at| tried(at, failed("no answer"))).collect::<Vec<_>>();
        assert_eq!(broken(&mut Converges::of(&dead), &facts, secs(60)), [""; 0]);
        let excuses = |scenario: &Scenario| crate::rehearsal::excused(&mut Converges::of(scenario), &facts, secs(60));
        assert_eq!(excuses(&dead), ["0.000s..60.000s: the link between west and east loses every packet"]);
        // Another flow is watched all the same.
        let mut other = connects(When::By(secs(10)));
        if let Expectation::Connect { to, .. } = &mut other {
            *to = crate::Target::Address("10.1.2.10".parse().unwrap(), 80, tombolo_core::model::Protocol::Tcp);
        }
        dead.expect.push(other);
        assert_eq!(
            excuses(&dead),
            ["0.000s..60.000s: less than 10s since the start; \
                 of some flows: the link between west and east loses every packet"]
        );
        let facts = (20..30).map(|at| fact(secs(at), "west/worker", probed(1, 0, secs(at), failed("no answer"))));
        assert_eq!(broken(&mut Converges::of(&dead), &facts.collect::<Vec<_>>(), secs(60)).len(), 1);
    }

    #[test]
    fn it_says_when_it_does_not_watch() {
        let facts = [power(20, false), power(30, true), tried(41, fetched())];
        let excuses =
            |expect| crate::rehearsal::excused(&mut Converges::of(&scenario(repaired(), expect)), &facts, secs(60));
        assert_eq!(
            excuses(vec![connects(When::By(secs(10)))]),
            [
                "0.000s..10.000s: less than 10s since the start",
                "20.000s..40.000s: west/gw-a is off; less than 10s since the last act",
            ]
        );
        assert_eq!(excuses(vec![]), ["0.000s..60.000s: no flow is expected to connect"]);
    }

    #[test]
    fn a_fault_that_stays_forgives() {
        let facts = [power(20, false), tried(50, failed("no answer"))];
        let power_off = vec![act(20, Verb::PowerOff(at("west/gw-a")))];
        assert_eq!(watch(power_off, vec![connects(When::By(secs(10)))], &facts), [""; 0]);
    }

    #[test]
    fn a_flow_that_connects_first_and_is_refused_later_may_fail() {
        let facts = [tried(50, failed("no answer"))];
        let expect = vec![connects(When::By(secs(10))), refused(When::During(secs(40), secs(50)))];
        assert_eq!(watch(vec![], expect, &facts), [""; 0]);
    }

    #[test]
    fn a_port_that_not_all_who_answer_to_the_name_have_may_fail() {
        let mut scene = scenario(vec![], vec![connects(When::By(secs(10)))]);
        let other = |ports| Workload { cluster: cluster("west"), ports, ..scene.workloads[0].clone() };
        let (like, unlike) = (other(scene.workloads[0].ports.clone()), other(vec![(1, Protocol::Tcp)]));
        let failed =
            |scene: &Scenario| broken(&mut Converges::of(scene), &[tried(50, failed("refused"))], secs(60)).len();
        scene.workloads.push(like);
        assert_eq!(failed(&scene), 1);
        scene.workloads.push(unlike);
        assert_eq!(failed(&scene), 0);
    }

    #[test]
    fn a_flow_that_should_be_refused_or_whose_service_is_gone_may_fail() {
        let facts = [tried(50, failed("no such name"))];
        assert_eq!(watch(vec![], vec![refused(When::By(secs(10)))], &facts), [""; 0]);
        let unexport = vec![act(20, Verb::Unexport(cluster("east"), web()))];
        assert_eq!(watch(unexport, vec![connects(When::By(secs(10)))], &facts), [""; 0]);
        assert_eq!(watch(vec![], vec![connects(When::By(secs(10)))], &facts).len(), 1);
    }

    #[test]
    fn who_may_wait_for_a_lease_that_its_api_lost_has_longer() {
        let emptied =
            || vec![act(20, Verb::Api(crate::ApiRef::Cluster(cluster("west")), crate::ApiFault::RestartedEmpty))];
        let expect = || vec![connects(When::By(secs(10)))];
        assert_eq!(watch(emptied(), expect(), &[tried(46, failed("no such name"))]), [""; 0]);
        assert_eq!(watch(emptied(), expect(), &[tried(48, failed("no such name"))]).len(), 1);
    }

    #[test]
    fn while_answers_may_name_who_exports_no_longer_a_probe_may_meet_it() {
        let mut scene =
            scenario(vec![act(20, Verb::Unexport(cluster("west"), web()))], vec![connects(When::By(secs(10)))]);
        let west = Workload { cluster: cluster("west"), ..scene.workloads[0].clone() };
        scene.workloads.push(west);
        let failed_at = |at| broken(&mut Converges::of(&scene), &[tried(at, failed("nobody"))], secs(60)).len();
        assert_eq!([19, 35, 39, 41].map(failed_at), [1, 0, 0, 1]);
    }
}
