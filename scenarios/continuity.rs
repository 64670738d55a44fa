//! What became of each flow: when it was first answered, when it was cut, and when it was back.
//!
//! ```text
//! probes   |    |    |    |    |    |    |    |      one begins every PROBE_EVERY
//! answers   |    |    |                   |    |
//!                     |<- MISSING ->| cut |
//!                     |<------ gap ------>| back
//! ```
//! Told is what could be observed, at the moment at which it could. That a probe failed is known only when its time is
//! over, long after traffic may flow again, and its beginning may lie before the cause. So a flow counts as cut when no
//! answer came for [`MISSING`], and as back with the next answer; the gap is the time between the two answers, as
//! `outage` measures it. A held flow is told alike: its probes may all be answered, late, and still there was a gap.
//! Where links lose packets by chance, short gaps are told together in one line, so that the others can be seen.

use crate::bounds::PROBE_EVERY;
use crate::probing::{stream_of_probe, streams};
use crate::wording::{seconds, stream};
use crate::{Fact, Outcome, Scenario, What, trace};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Without an answer for this long, one is missing: the time of two probes, so that jitter alone cuts nothing.
pub(crate) const MISSING: Duration = PROBE_EVERY.saturating_mul(2);

/// Where links lose packets by chance, shorter gaps are told together.
const BY_CHANCE: Duration = PROBE_EVERY.saturating_mul(6);

/// DNS answers that come again within this time are given in turn.
const IN_TURN: Duration = Duration::from_secs(2);

/// A probe and what came of it.
struct Probed<'a> {
    began: Duration,
    ended: Duration,
    outcome: &'a Outcome,
}

/// An answer.
struct Answer {
    began: Duration,
    ended: Duration,
    /// What the DNS said; of a fetch, nothing.
    gives: Option<String>,
}

impl Answer {
    fn words(&self) -> String {
        self.gives.as_ref().map_or("works".into(), |gives| format!("gives {gives}"))
    }
}

/// What is told of each flow, with the moment at which it was observed.
pub(crate) fn of_flows(scenario: &Scenario, facts: &[Fact]) -> Vec<(Duration, String)> {
    let mut probes = BTreeMap::new();
    for fact in facts {
        if let What::Probed { id, began, outcome } = &fact.what {
            probes.insert(*id, Probed { began: *began, ended: fact.at, outcome });
        }
    }
    let mut told = Vec::new();
    for (index, flow) in streams(scenario).iter().enumerate() {
        let mine = probes.iter().filter(|(id, _)| stream_of_probe(**id) == index).map(|(_, probed)| probed);
        let mine = mine.collect::<Vec<_>>();
        // Between two windows nobody looks: that is no gap.
        for watch in mine.chunk_by(|left, right| right.began.saturating_sub(left.began) <= PROBE_EVERY) {
            let lossy = scenario.links.lose_packets();
            let mut teller =
                Teller { flow: stream(flow), lossy, short: None, turns: Turns::default(), told: &mut told };
            teller.tell(watch);
        }
    }
    told
}

/// Short gaps in a row.
struct Short {
    gaps: usize,
    failed: usize,
    longest: Duration,
    first: Duration,
    last: Duration,
}

struct Teller<'t> {
    flow: String,
    /// Links lose packets by chance.
    lossy: bool,
    /// What is to be told of short gaps.
    short: Option<Short>,
    turns: Turns,
    told: &'t mut Vec<(Duration, String)>,
}

impl Teller<'_> {
    fn tell(&mut self, probes: &[&Probed<'_>]) {
        let mut answers = probes.iter().filter_map(|probed| answer(probed)).collect::<Vec<_>>();
        answers.sort_by_key(|answer| (answer.ended, answer.began));
        let mut failures = probes.iter().filter_map(|probed| failure(probed)).collect::<VecDeque<_>>();
        let (Some(first), Some(last)) = (answers.first(), answers.last()) else {
            return self.never(probes, &failures);
        };
        let before = drain_until(&mut failures, first.began);
        let before = reason(&before).map(|because| format!("; before, {} failed: {because}", count(before.len())));
        self.say(first.ended, &format!("{}{}", first.words(), before.unwrap_or_default()));
        self.turns.next(first);
        for pair in answers.windows(2) {
            let [left, right] = pair else { continue };
            let failed = drain_until(&mut failures, right.began);
            let gap = right.ended.saturating_sub(left.ended);
            let gives = self.turns.next(right);
            if failed.is_empty() && gap < MISSING {
                gives.into_iter().for_each(|gives| self.say(right.ended, &gives));
                continue;
            }
            if self.lossy && gap < BY_CHANCE && gives.is_none() {
                self.short_gap(left.ended, right.ended, failed.len());
                continue;
            }
            self.tell_short_gaps();
            self.cut(left, reason(&failed), right.ended);
            let lost = if failed.is_empty() {
                "no probe failed, the answers came late".into()
            } else {
                format!("{} failed", count(failed.len()))
            };
            let gives = gives.map(|gives| format!(", and {gives}")).unwrap_or_default();
            self.say(right.ended, &format!("is back after {}{gives}; {lost}", seconds(gap)));
        }
        self.tell_short_gaps();
        if !failures.is_empty() {
            let because = format!("{}; not back until the end, {} failed", reasons(&failures), count(failures.len()));
            self.cut(last, Some(&because), Duration::MAX);
        }
    }

    fn short_gap(&mut self, from: Duration, to: Duration, failed: usize) {
        let gap = to.saturating_sub(from);
        let short = self.short.get_or_insert(Short { gaps: 0, failed: 0, longest: gap, first: to, last: to });
        short.gaps += 1;
        short.failed += failed;
        short.longest = short.longest.max(gap);
        short.last = to;
    }

    /// Told at the end of the first of them.
    fn tell_short_gaps(&mut self) {
        let Some(Short { gaps, failed, longest, first, last }) = self.short.take() else { return };
        let (many, failed) = (if gaps == 1 { "" } else { "s" }, count(failed));
        let until = format!("until {}, the longest {}", seconds(last), seconds(longest));
        self.say(first, &format!("has {gaps} short gap{many} {until}, on links that lose packets; {failed} failed"));
    }

    fn never(&mut self, probes: &[&Probed<'_>], failures: &VecDeque<(Duration, &str)>) {
        let seen = probes.iter().map(|probed| probed.ended).min().unwrap_or_default();
        self.say(seen, &format!("is never answered, {} failed: {}", count(failures.len()), reasons(failures)));
    }

    /// Where an answer was missing, but not after the one that ended it.
    fn cut(&mut self, last: &Answer, because: Option<&str>, back: Duration) {
        let because = because.map(|because| format!(": {because}")).unwrap_or_default();
        self.say(
            (last.ended + MISSING).min(back),
            &format!("is cut, no answer since {}{because}", seconds(last.ended)),
        );
    }

    fn say(&mut self, at: Duration, what: &str) {
        self.told.push((at, format!("{} {what}", self.flow)));
    }
}

/// Follows what a flow gives; a DNS server may give several answers in turn.
#[derive(Default)]
struct Turns {
    /// When each answer was last given, if lately.
    lately: BTreeMap<String, Duration>,
    /// What was told last.
    told: BTreeSet<String>,
}

impl Turns {
    /// Takes note of the next answer. What is to be told, if that is something new.
    fn next(&mut self, answer: &Answer) -> Option<String> {
        let gives = answer.gives.as_ref()?;
        self.lately.retain(|_, last| answer.ended.saturating_sub(*last) <= IN_TURN);
        let again = self.lately.insert(gives.clone(), answer.ended).is_some();
        let in_turn = self.told.len() > 1 || (again && !self.told.contains(gives));
        let now = if in_turn { self.lately.keys().cloned().collect() } else { BTreeSet::from([gives.clone()]) };
        if now == self.told {
            return None;
        }
        let text = now.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
        let turns = if now.len() > 1 { " in turn" } else { "" };
        self.told = now;
        Some(format!("now gives {text}{turns}"))
    }
}

fn answer(probed: &Probed<'_>) -> Option<Answer> {
    let gives = match probed.outcome {
        Outcome::Fetched { .. } => None,
        Outcome::Resolved { .. } => Some(trace::outcome(probed.outcome)),
        Outcome::Failed { .. } => return None,
    };
    Some(Answer { began: probed.began, ended: probed.ended, gives })
}

fn failure<'a>(probed: &Probed<'a>) -> Option<(Duration, &'a str)> {
    match probed.outcome {
        Outcome::Failed { because } => Some((probed.began, because)),
        Outcome::Fetched { .. } | Outcome::Resolved { .. } => None,
    }
}

/// Those that began before then.
fn drain_until<'a>(failures: &mut VecDeque<(Duration, &'a str)>, until: Duration) -> Vec<(Duration, &'a str)> {
    let before = failures.iter().take_while(|(began, _)| *began < until).count();
    failures.drain(..before).collect()
}

fn reason<'a>(failures: &[(Duration, &'a str)]) -> Option<&'a str> {
    failures.first().map(|(_, because)| *because)
}

/// Each reason, the most frequent first, and how often it was given if there are several.
fn reasons(failures: &VecDeque<(Duration, &str)>) -> String {
    const TOLD: usize = 3;
    let mut times = BTreeMap::<&str, usize>::new();
    failures.iter().for_each(|(_, because)| *times.entry(*because).or_default() += 1);
    let mut times = times.into_iter().collect::<Vec<_>>();
    times.sort_by_key(|(_, times)| core::cmp::Reverse(*times));
    match times.as_slice() {
        [(because, _)] => (*because).into(),
        several => {
            let told = several.iter().take(TOLD).map(|(because, times)| format!("{times} times {because}"));
            told.collect::<Vec<_>>().join(", ")
        }
    }
}

fn count(probes: usize) -> String {
    format!("{probes} probe{}", if probes == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{at, connects, failed, fetched, millis, probed, resolved, resolves, scenario, secs, to_web};
    use crate::{Expectation, Flow, When};

    const FAILS: Option<u64> = None;

    /// A probe every 50 ms from `from`: each is answered after so many milliseconds, or fails after a second.
    fn fetches(from: u64, answers: &[Option<u64>]) -> Vec<Fact> {
        let probe = |(nth, after): (u32, &Option<u64>)| {
            let began = millis(from) + PROBE_EVERY * nth;
            let outcome = if after.is_some() { fetched() } else { failed("no answer") };
            let id = u32::try_from(from).unwrap() + nth;
            fact_at(began + millis(after.unwrap_or(1_000)), probed(0, id, began, outcome))
        };
        let mut facts = (0..).zip(answers).map(probe).collect::<Vec<_>>();
        facts.sort_by_key(|fact| fact.at);
        facts
    }

    fn fact_at(at: Duration, what: What) -> Fact {
        crate::rehearsal::fact(at, "west/worker", what)
    }

    fn told(expectation: Expectation, facts: &[Fact]) -> Vec<String> {
        let lines = of_flows(&scenario(vec![], vec![expectation]), facts);
        let short = |line: String| line.replace("west/worker to web.shop.svc.clusterset.local:80", "web");
        lines.into_iter().map(|(at, line)| format!("{} {}", seconds(at), short(line))).collect()
    }

    fn held() -> Expectation {
        let during = When::During(secs(0), secs(60));
        Expectation::Outage { during, from: at("west/worker"), to: to_web(), at_most: secs(1), flow: Flow::Held }
    }

    #[test]
    fn a_flow_is_cut_after_its_cause_even_if_the_lost_probe_began_before_it() {
        // With 120 ms to an answer, a power loss at 0.310 s hits what began at 0.200 s.
        let mut answers = vec![Some(120); 4];
        answers.extend([FAILS; 6]);
        answers.extend([Some(120); 3]);
        assert_eq!(
            told(connects(When::By(secs(5))), &fetches(0, &answers)),
            [
                "0.120s web works",
                "0.370s web is cut, no answer since 0.270s: no answer",
                "0.620s web is back after 0.350s; 6 probes failed",
            ]
        );
    }

    #[test]
    fn a_held_flow_has_a_gap_though_all_its_probes_are_answered() {
        // What TCP holds back for 600 ms arrives at once.
        let stalled = (0..12).map(|nth| 600 - 50 * nth);
        let answers = [22; 3].into_iter().chain(stalled).chain([22; 2]).map(Some).collect::<Vec<_>>();
        assert_eq!(
            told(held(), &fetches(0, &answers)),
            [
                "0.022s web (held flow) works",
                "0.222s web (held flow) is cut, no answer since 0.122s",
                "0.750s web (held flow) is back after 0.628s; no probe failed, the answers came late",
            ]
        );
    }

    #[test]
    fn a_flow_that_was_reset_is_cut_until_the_end() {
        let mut facts = fetches(0, &[Some(22), Some(22)]);
        facts.extend([100, 150].map(|at| {
            fact_at(millis(at), probed(0, u32::try_from(at).unwrap(), millis(at), failed("the flow was reset")))
        }));
        assert_eq!(
            told(held(), &facts),
            [
                "0.022s web (held flow) works",
                "0.172s web (held flow) is cut, no answer since 0.072s: the flow was reset; not back until the end, 2 probes failed",
            ]
        );
    }

    #[test]
    fn jitter_alone_cuts_nothing_and_one_lost_probe_does() {
        let jitter = [10, 50, 12, 45, 10].map(Some);
        assert_eq!(told(connects(When::Always), &fetches(0, &jitter)), ["0.010s web works"]);
        let lost = [Some(50), FAILS, Some(10)];
        assert_eq!(
            told(connects(When::Always), &fetches(0, &lost)),
            [
                "0.050s web works",
                "0.110s web is cut, no answer since 0.050s: no answer",
                "0.110s web is back after 0.060s; 1 probe failed",
            ]
        );
    }

    #[test]
    fn where_links_lose_packets_short_gaps_are_told_together() {
        let mut answers = [Some(20), FAILS].repeat(4);
        answers.extend([Some(20), FAILS, FAILS, FAILS, FAILS, FAILS, FAILS, Some(20), FAILS, Some(20)]);
        let mut lossy = scenario(vec![], vec![connects(When::Always)]);
        lossy.links.default.loss_millionths = 50_000;
        let lines = of_flows(&lossy, &fetches(0, &answers)).into_iter();
        let short = |line: String| line.replace("west/worker to web.shop.svc.clusterset.local:80", "web");
        assert_eq!(
            lines.map(|(at, line)| format!("{} {}", seconds(at), short(line))).collect::<Vec<_>>(),
            [
                "0.020s web works",
                "0.120s web has 4 short gaps until 0.420s, the longest 0.100s, on links that lose packets; 4 probes failed",
                "0.520s web is cut, no answer since 0.420s: no answer",
                "0.770s web is back after 0.350s; 6 probes failed",
                "0.870s web has 1 short gap until 0.870s, the longest 0.100s, on links that lose packets; 1 probe failed",
            ]
        );
    }

    #[test]
    fn what_fails_before_the_first_answer_is_told_with_it() {
        assert_eq!(
            told(connects(When::Always), &fetches(0, &[FAILS, FAILS, Some(22)])),
            ["0.122s web works; before, 2 probes failed: no answer"]
        );
        assert_eq!(
            told(connects(When::Always), &fetches(0, &[FAILS, FAILS])),
            ["1.000s web is never answered, 2 probes failed: no answer"]
        );
    }

    #[test]
    fn nobody_looks_between_two_windows() {
        let mut facts = fetches(0, &[Some(22), Some(22)]);
        facts.extend(fetches(9_000, &[Some(22)]));
        assert_eq!(told(connects(When::Always), &facts), ["0.022s web works", "9.022s web works"]);
    }

    #[test]
    fn answers_that_a_server_gives_in_turn_are_told_once() {
        let (one, two) = (["10.102.0.10"], ["10.103.0.10"]);
        let asks = |given: &[&[&str]]| {
            let ask = |(nth, given): (u32, &&[&str])| {
                fact_at(PROBE_EVERY * nth, probed(0, nth, PROBE_EVERY * nth, resolved("NOERROR", given)))
            };
            let facts = (0..).zip(given).map(ask).collect::<Vec<_>>();
            let lines = of_flows(&scenario(vec![], vec![resolves(When::Always, "NOERROR", vec![])]), &facts);
            let short = |line: String| line.replace("west/worker to dns web.shop.svc.clusterset.local ", "");
            lines.into_iter().map(|(at, line)| format!("{} {}", seconds(at), short(line))).collect::<Vec<_>>()
        };
        let mut changes: Vec<&[&str]> = vec![&one; 3];
        changes.extend([&two[..]; 60]);
        assert_eq!(asks(&changes), ["0.000s gives NOERROR 10.102.0.10", "0.150s now gives NOERROR 10.103.0.10"]);

        let mut turns: Vec<&[&str]> = [&one[..], &two].repeat(40);
        turns.extend([&two[..]; 60]);
        assert_eq!(
            asks(&turns),
            [
                "0.000s gives NOERROR 10.102.0.10",
                "0.050s now gives NOERROR 10.103.0.10",
                "0.100s now gives NOERROR 10.102.0.10 and NOERROR 10.103.0.10 in turn",
                "5.950s now gives NOERROR 10.103.0.10",
            ]
        );
    }
}
