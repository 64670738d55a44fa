//! Which cluster is a member when, as the scenario has it. A cluster that joins with ranges that meet a member's is none,
//! for as long as that one is.

use crate::{Cluster, Scenario, Verb};
use core::time::Duration;
use std::collections::BTreeMap;
use tombolo_core::base::ClusterId;

/// See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Membership {
    /// Each span is half open.
    spans: BTreeMap<ClusterId, Vec<(Duration, Duration)>>,
}

impl Membership {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let mut membership = Self::default();
        let mut waiting: Vec<&ClusterId> =
            scenario.clusters.keys().filter(|id| !scenario.clusters[*id].apart).collect();
        membership.admit(scenario, &mut waiting, Duration::ZERO);
        for act in &scenario.timeline {
            if let Verb::Join(cluster) = &act.verb {
                waiting.push(cluster);
                membership.admit(scenario, &mut waiting, act.at);
            }
        }
        membership
    }

    /// Takes in those who wait and meet no member, in the order in which they came.
    fn admit(&mut self, scenario: &Scenario, waiting: &mut Vec<&ClusterId>, at: Duration) {
        waiting.retain(|id| {
            let Some(new) = scenario.clusters.get(*id) else { return false };
            let members = scenario.clusters.iter().filter(|(other, _)| *other != *id && self.at(other, at));
            let met = members.into_iter().any(|(_, member)| meet(new, member));
            if !met {
                self.spans.entry((*id).clone()).or_default().push((at, Duration::MAX));
            }
            met
        });
    }

    /// Whether the cluster is a member at that moment.
    pub(crate) fn at(&self, cluster: &ClusterId, at: Duration) -> bool {
        self.spans.get(cluster).into_iter().flatten().any(|(from, to)| *from <= at && at < *to)
    }

    /// Those parts of `spans` in which the cluster is a member.
    pub(crate) fn within(&self, cluster: &ClusterId, spans: &[(Duration, Duration)]) -> Vec<(Duration, Duration)> {
        let member = self.spans.get(cluster).into_iter().flatten();
        let cut =
            |(from, to): &(Duration, Duration), (begin, end): &(Duration, Duration)| (*from.max(begin), *to.min(end));
        member.flat_map(|span| spans.iter().map(move |other| cut(span, other))).filter(|(from, to)| from < to).collect()
    }
}

fn meet(one: &Cluster, other: &Cluster) -> bool {
    [one.pods, one.services]
        .iter()
        .any(|range| [other.pods, other.services].iter().any(|theirs| theirs.overlaps(range)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{act, cluster, scenario, secs};

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
}
