//! Which cluster is a member when, as the scenario has it. A cluster that joins with ranges that meet a member's is none,
//! for as long as that one is. A cluster that leaves is none from when it is told to.

use crate::bounds::CONVERGED_WITHIN;
use crate::trouble::Trouble;
use crate::{Scenario, Verb};
use core::time::Duration;
use std::collections::BTreeMap;
use tombolo_core::base::{Cidr, ClusterId};

/// See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Membership {
    /// When it is one.
    spans: Spans,
    /// From when it was told to leave until it joins again.
    left: Spans,
}

/// Spans of clusters, in order of time, each half open.
type Spans = BTreeMap<ClusterId, Vec<(Duration, Duration)>>;

impl Membership {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let mut membership = Self::default();
        let mut waiting: Vec<&ClusterId> =
            scenario.clusters.keys().filter(|id| !scenario.clusters[*id].apart).collect();
        membership.admit(scenario, &mut waiting, Duration::ZERO);
        for act in &scenario.timeline {
            if let Verb::Join(cluster) = &act.verb {
                waiting.push(cluster);
                membership.end(cluster, act.at, |membership| &mut membership.left);
            } else if let Verb::Leave(cluster) = &act.verb {
                waiting.retain(|id| *id != cluster);
                membership.end(cluster, act.at, |membership| &mut membership.spans);
                membership.left.entry(cluster.clone()).or_default().push((act.at, Duration::MAX));
            } else {
                continue;
            }
            membership.admit(scenario, &mut waiting, act.at);
        }
        membership
    }

    /// Ends the last span of the cluster, if it goes on.
    fn end(&mut self, cluster: &ClusterId, at: Duration, spans: impl Fn(&mut Self) -> &mut Spans) {
        if let Some((_, to)) = spans(self).get_mut(cluster).and_then(|spans| spans.last_mut()) {
            *to = at.min(*to);
        }
    }

    /// Takes in those who wait and meet no member, in the order in which they came.
    fn admit(&mut self, scenario: &Scenario, waiting: &mut Vec<&ClusterId>, at: Duration) {
        waiting.retain(|id| {
            let ranges =
                |of| scenario.ranges_of(of).take_while(|(from, _)| *from <= at).last().map(|(_, ranges)| ranges);
            let Some(new) = ranges(*id) else { return false };
            let members = scenario.clusters.keys().filter(|other| other != id && self.at(other, at));
            let met = members.filter_map(ranges).any(|member| meet(new, member));
            if !met {
                self.spans.entry((*id).clone()).or_default().push((at, Duration::MAX));
            }
            met
        });
    }

    /// Whether it has been told to leave by then, and has not joined again since.
    pub(crate) fn has_left(&self, cluster: &ClusterId, at: Duration) -> bool {
        self.left_since(cluster, at).is_some()
    }

    /// Whether a daemon that was told to leave may still be heard of: its cluster has not joined again since, or it was not calm
    /// for long enough since then that all writes of before must have been carried out, and the news of them have come.
    pub(crate) fn was_leaving(&self, cluster: &ClusterId, at: Duration, trouble: &Trouble) -> bool {
        let mut left = self.left.get(cluster).into_iter().flatten();
        left.any(|(from, to)| *from <= at && !trouble.was_calm(*to, at, CONVERGED_WITHIN))
    }

    /// When it was told to leave, if it has not joined again since.
    pub(crate) fn left_since(&self, cluster: &ClusterId, at: Duration) -> Option<Duration> {
        begun(&self.left, cluster, at)
    }

    /// Since when it has been a member without a break.
    pub(crate) fn since(&self, cluster: &ClusterId, at: Duration) -> Option<Duration> {
        begun(&self.spans, cluster, at)
    }

    /// Whether the cluster is a member at that moment.
    pub(crate) fn at(&self, cluster: &ClusterId, at: Duration) -> bool {
        self.since(cluster, at).is_some()
    }

    /// Those parts of `spans` in which the cluster is a member.
    pub(crate) fn within(&self, cluster: &ClusterId, spans: &[(Duration, Duration)]) -> Vec<(Duration, Duration)> {
        let member = self.spans.get(cluster).into_iter().flatten();
        let cut = |(from, to): &(Duration, Duration), (begin, end): &(Duration, Duration)| {
            let (first, last) = (*from.max(begin), *to.min(end));
            // What began and ended at once was there for a moment.
            (first < last || begin == end && from <= begin && end < to).then_some((first, last))
        };
        member.flat_map(|span| spans.iter().filter_map(move |other| cut(span, other))).collect()
    }
}

/// When the span of the cluster began that holds this moment.
fn begun(spans: &Spans, cluster: &ClusterId, at: Duration) -> Option<Duration> {
    let mut spans = spans.get(cluster).into_iter().flatten();
    spans.find(|(from, to)| *from <= at && at < *to).map(|(from, _)| *from)
}

fn meet(one: [Cidr; 2], other: [Cidr; 2]) -> bool {
    one.iter().any(|range| other.iter().any(|theirs| theirs.overlaps(range)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{act, cluster, scenario, secs};
    use crate::{Cluster, Rebuilt};

    #[test]
    fn who_stands_apart_is_a_member_from_when_it_joins_unless_it_meets_one() {
        let mut apart =
            scenario(vec![act(10, Verb::Join(cluster("north"))), act(20, Verb::Join(cluster("south")))], vec![]);
        let of = |number: u8| Cluster {
            pods: format!("10.{number}.0.0/16").parse().unwrap(),
            services: format!("10.{}.0.0/16", 100 + number).parse().unwrap(),
            nodes: vec![],
            nat: None,
            apart: true,
        };
        apart.clusters.insert(cluster("north"), of(3));
        apart.clusters.insert(cluster("south"), of(2));
        let membership = Membership::of(&apart);
        let at = |name: &str| [9, 10, 20, 99].map(|time| membership.at(&cluster(name), secs(time)));
        assert_eq!(at("west"), [true; 4]);
        assert_eq!(at("north"), [false, true, true, true]);
        assert_eq!(at("south"), [false; 4], "east has its range");
        let all = [(secs(0), secs(15))];
        assert_eq!(membership.within(&cluster("north"), &all), [(secs(10), secs(15))]);
        assert_eq!(membership.within(&cluster("south"), &all), []);
    }

    #[test]
    fn who_leaves_is_a_member_until_then_and_makes_room_for_who_was_in_its_way() {
        let mut apart = scenario(
            vec![
                act(10, Verb::Join(cluster("south"))),
                act(20, Verb::Leave(cluster("east"))),
                act(30, Verb::Join(cluster("east"))),
                act(40, Verb::Leave(cluster("east"))),
                act(40, Verb::Rebuild(rebuilt("east", 7))),
                act(50, Verb::Join(cluster("east"))),
                act(60, Verb::Leave(cluster("south"))),
            ],
            vec![],
        );
        // It has the ranges of east.
        let south = Cluster { apart: true, ..apart.clusters[&cluster("east")].clone() };
        apart.clusters.insert(cluster("south"), south);
        let membership = Membership::of(&apart);
        let at = |name: &str| [9, 19, 20, 30, 40, 50, 60].map(|time| membership.at(&cluster(name), secs(time)));
        assert_eq!(at("east"), [true, true, false, false, false, true, true]);
        assert_eq!(at("south"), [false, false, true, true, true, true, false]);
        let left = |name: &str| [19, 20, 30, 40, 50, 60].map(|time| membership.has_left(&cluster(name), secs(time)));
        assert_eq!(left("east"), [false, true, false, true, false, false]);
        assert_eq!(left("south"), [false, false, false, false, false, true]);
        assert_eq!(membership.since(&cluster("south"), secs(59)), Some(secs(20)));
    }

    fn rebuilt(name: &str, number: u8) -> Rebuilt {
        Rebuilt {
            cluster: cluster(name),
            pods: format!("10.{number}.0.0/16").parse().unwrap(),
            services: format!("10.{}.0.0/16", 100 + number).parse().unwrap(),
        }
    }

    #[test]
    fn of_a_cluster_that_joined_again_news_may_come_until_all_has_been_calm() {
        let west = cluster("west");
        let api = |at, fault| act(at, Verb::Api(crate::ApiRef::Broker, fault));
        let timeline = vec![
            act(10, Verb::Leave(west.clone())),
            act(12, Verb::Join(west.clone())),
            api(15, crate::ApiFault::Down),
            api(40, crate::ApiFault::Healthy),
        ];
        let scenario = scenario(timeline, vec![]);
        let membership = Membership::of(&scenario);
        let was_leaving = |at| {
            let mut trouble = Trouble::of(&scenario);
            trouble.advance(secs(at));
            membership.was_leaving(&west, secs(at), &trouble)
        };
        assert_eq!([9, 10, 23, 45, 50].map(was_leaving), [false, true, true, true, false]);
    }
}
