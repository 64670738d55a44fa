//! Which service is exported when, as the scenario has it, which is only where its cluster is a member: the truth that records, imports and answers are held against.

use crate::bounds::CONVERGED_WITHIN;
use crate::membership::Membership;
use crate::{Scenario, Verb};
use core::time::Duration;
use std::collections::BTreeMap;
use tombolo_core::base::ClusterId;
use tombolo_core::model::ServiceKey;

/// A service of one cluster, and the time in which it is exported.
type Spans = BTreeMap<(ClusterId, ServiceKey), Vec<(Duration, Duration)>>;

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Exports {
    /// Each span is half open.
    spans: Spans,
    /// When no pod of it is ready.
    unready: Spans,
}

impl Exports {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let mut spans = Spans::new();
        for workload in scenario.workloads.iter().filter(|workload| workload.exported) {
            let owner = (workload.cluster.clone(), workload.service.clone());
            spans.insert(owner, vec![(Duration::ZERO, Duration::MAX)]);
        }
        let mut unready = Spans::new();
        for act in &scenario.timeline {
            match &act.verb {
                Verb::Export(cluster, key) => {
                    let spans = spans.entry((cluster.clone(), key.clone())).or_default();
                    if spans.last().is_none_or(|(_, to)| *to != Duration::MAX) {
                        spans.push((act.at, Duration::MAX));
                    }
                }
                Verb::Unexport(cluster, key) => {
                    let spans = spans.entry((cluster.clone(), key.clone())).or_default();
                    if let Some((_, to)) = spans.last_mut() {
                        *to = act.at.min(*to);
                    }
                }
                Verb::PowerOff(_)
                | Verb::PowerOn(_)
                | Verb::Crash(..)
                | Verb::Start(..)
                | Verb::Cut { .. }
                | Verb::Heal { .. }
                | Verb::Api(..)
                | Verb::ClockSkew(..)
                | Verb::ClockRate(..)
                | Verb::NatRemap(_)
                | Verb::ChangeAddress(_)
                | Verb::Join(_)
                | Verb::Leave(_)
                | Verb::Rebuild(_)
                | Verb::Reslice(..) => {}
                Verb::Unready(cluster, key) => {
                    let spans = unready.entry((cluster.clone(), key.clone())).or_default();
                    if spans.last().is_none_or(|(_, to)| *to != Duration::MAX) {
                        spans.push((act.at, Duration::MAX));
                    }
                }
                Verb::Ready(cluster, key) => {
                    let last = unready.get_mut(&(cluster.clone(), key.clone())).and_then(|spans| spans.last_mut());
                    if let Some((_, to)) = last {
                        *to = act.at.min(*to);
                    }
                }
            }
        }
        let membership = Membership::of(scenario);
        for ((cluster, _), spans) in &mut spans {
            *spans = membership.within(cluster, spans);
        }
        Self { spans, unready }
    }

    /// Whether the cluster exports the service at that moment.
    pub(crate) fn at(&self, cluster: &ClusterId, key: &ServiceKey, at: Duration) -> bool {
        self.spans(cluster, key).iter().any(|(from, to)| *from <= at && at < *to)
    }

    /// Whether it did at some moment from `from` to `to`.
    pub(crate) fn within(&self, cluster: &ClusterId, key: &ServiceKey, from: Duration, to: Duration) -> bool {
        self.spans(cluster, key).iter().any(|(begin, end)| *begin <= to && from < *end)
    }

    /// Whether it has been exported from the start, or for so long without a break that the deletes of an earlier end
    /// must have arrived.
    pub(crate) fn firmly(&self, cluster: &ClusterId, key: &ServiceKey, at: Duration) -> bool {
        let current = self.spans(cluster, key).iter().find(|(from, to)| *from <= at && at < *to);
        current.is_some_and(|(from, _)| *from == Duration::ZERO || *from + CONVERGED_WITHIN <= at)
    }

    /// Whether its pods have been ready for so long that everybody must know, as far as the timeline says.
    pub(crate) fn is_ready(&self, cluster: &ClusterId, key: &ServiceKey, at: Duration) -> bool {
        let unready = self.unready.get(&(cluster.clone(), key.clone())).into_iter().flatten();
        unready.copied().all(|(from, to)| at < from || at >= to.saturating_add(CONVERGED_WITHIN))
    }

    /// Since when it has been exported without a break.
    pub(crate) fn since(&self, cluster: &ClusterId, key: &ServiceKey, at: Duration) -> Option<Duration> {
        self.spans(cluster, key).iter().find(|(from, to)| *from <= at && at < *to).map(|(from, _)| *from)
    }

    /// The clusters that ever export the service.
    pub(crate) fn exporters<'a>(&'a self, key: &'a ServiceKey) -> impl Iterator<Item = &'a ClusterId> {
        self.spans.keys().filter(move |(_, of)| of == key).map(|(cluster, _)| cluster)
    }

    /// What is exported no longer at that moment, and since when.
    pub(crate) fn ended(&self, at: Duration) -> Vec<(&ClusterId, &ServiceKey, Duration)> {
        let ended = self.spans.iter().filter(|((cluster, key), _)| !self.at(cluster, key, at));
        ended
            .filter_map(|((cluster, key), spans)| {
                let last = spans.iter().map(|(_, to)| *to).filter(|to| *to <= at).max()?;
                Some((cluster, key, last))
            })
            .collect()
    }

    /// How many exports have ended whose end may only now be noticed: those that are exported no longer, and those that
    /// are again, but not [firmly](Self::firmly).
    pub(crate) fn gone_or_renewed(&self, at: Duration) -> usize {
        let ended = |spans: &[(Duration, Duration)]| spans.iter().any(|(_, to)| *to <= at);
        self.spans.iter().filter(|((cluster, key), spans)| ended(spans) && !self.firmly(cluster, key, at)).count()
    }

    fn spans(&self, cluster: &ClusterId, key: &ServiceKey) -> &[(Duration, Duration)] {
        self.spans.get(&(cluster.clone(), key.clone())).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{act, cluster, scenario, secs, web};

    #[test]
    fn pods_count_as_ready_again_once_everybody_must_know() {
        let east = cluster("east");
        let timeline = vec![act(10, Verb::Unready(east.clone(), web())), act(20, Verb::Ready(east.clone(), web()))];
        let exports = Exports::of(&scenario(timeline, vec![]));
        let at = |time| exports.is_ready(&east, &web(), secs(time));
        assert_eq!([0, 9, 10, 20, 29, 30].map(at), [true, true, false, false, false, true]);
    }

    #[test]
    fn exports_follow_the_timeline() {
        let east = cluster("east");
        let timeline = vec![act(10, Verb::Unexport(east.clone(), web())), act(20, Verb::Export(east.clone(), web()))];
        let exports = Exports::of(&scenario(timeline, vec![]));
        let at = |time| exports.at(&east, &web(), secs(time));
        assert_eq!([0, 9, 10, 19, 20, 99].map(at), [true, true, false, false, true, true]);
        assert!(exports.within(&east, &web(), secs(9), secs(15)));
        assert!(!exports.within(&east, &web(), secs(10), secs(15)));
        assert_eq!([5, 15, 25, 30].map(|time| exports.firmly(&east, &web(), secs(time))), [true, false, false, true]);
        assert_eq!(exports.since(&east, &web(), secs(30)), Some(secs(20)));
        assert_eq!(exports.ended(secs(15)), [(&east, &web(), secs(10))]);
        assert_eq!(exports.ended(secs(25)), []);
        assert_eq!([5, 15, 25, 30].map(|time| exports.gone_or_renewed(secs(time))), [0, 1, 1, 0]);
        assert_eq!(exports.exporters(&web()).collect::<Vec<_>>(), [&east]);
    }

    #[test]
    fn an_export_that_ends_as_it_begins_has_ended() {
        let east = cluster("east");
        let timeline = vec![
            act(10, Verb::Unexport(east.clone(), web())),
            act(20, Verb::Export(east.clone(), web())),
            act(20, Verb::Unexport(east.clone(), web())),
        ];
        let exports = Exports::of(&scenario(timeline, vec![]));
        assert_eq!(exports.ended(secs(21)), [(&east, &web(), secs(20))]);
        assert_eq!([15, 21].map(|time| exports.at(&east, &web(), secs(time))), [false, false]);
    }
}
