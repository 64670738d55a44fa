//! What the acts so far have broken, and what would repair it: the bookkeeping that makes a timeline fair.

use crate::{Act, ApiFault, Daemons, NodeRef, Scenario, Verb};
use core::time::Duration;
use std::collections::BTreeSet;
use tombolo_core::base::ClusterId;
use tombolo_core::model::ServiceKey;

/// See the module. Nodes are those that are named: a role means another node later.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Broken {
    /// The act that repairs each thing that is broken.
    cures: Vec<Verb>,
    exported: Vec<(ClusterId, ServiceKey)>,
    /// Clusters that have not joined, or have left.
    apart: BTreeSet<ClusterId>,
}

impl Broken {
    /// Before anything happens.
    pub(super) fn of(scenario: &Scenario) -> Self {
        let exported = scenario.workloads.iter().filter(|workload| workload.exported);
        let exported = exported.map(|workload| (workload.cluster.clone(), workload.service.clone())).collect();
        let apart = scenario.clusters.iter().filter(|(_, cluster)| cluster.apart).map(|(id, _)| id.clone());
        Self { cures: Vec::new(), exported, apart: apart.collect() }
    }

    /// What repairs all that is broken now.
    pub(super) fn cures(&self) -> &[Verb] {
        &self.cures
    }

    /// Whether the cluster exports the service now.
    pub(super) fn exports(&self, cluster: &ClusterId, key: &ServiceKey) -> bool {
        self.exported.iter().any(|(of, exported)| of == cluster && exported == key)
    }

    /// Takes note of an act. Whether it changes anything: what is off cannot be crashed, what runs need not be started.
    pub(super) fn act(&mut self, verb: &Verb) -> bool {
        match verb {
            Verb::PowerOff(node) => {
                let changes = !self.is_off(node);
                if changes {
                    self.cures.retain(|cure| !matches!(cure, Verb::Start(at, _) if at == node));
                    self.cures.push(Verb::PowerOn(node.clone()));
                }
                changes
            }
            Verb::PowerOn(_) | Verb::Heal { .. } => self.cured(|cure| cure == verb),
            Verb::Crash(node, which) => {
                let starts = |cure: &Verb| matches!(cure, Verb::Start(at, of) if at == node && covers(*of, *which));
                let changes = !self.is_off(node) && !self.cures.iter().any(starts);
                if changes {
                    self.cured(|cure| matches!(cure, Verb::Start(at, of) if at == node && covers(*which, *of)));
                    self.cures.push(Verb::Start(node.clone(), *which));
                }
                changes
            }
            Verb::Start(node, which) => {
                self.cured(|cure| matches!(cure, Verb::Start(at, of) if at == node && covers(*which, *of)))
            }
            Verb::Cut { from, to, .. } => {
                let cure = Verb::Heal { from: from.clone(), to: to.clone() };
                let changes = !self.cures.contains(&cure);
                if changes {
                    self.cures.push(cure);
                }
                changes
            }
            Verb::Api(api, fault) => {
                let ended = self.cured(|cure| matches!(cure, Verb::Api(of, _) if of == api));
                match fault {
                    ApiFault::Healthy => ended,
                    ApiFault::RestartedEmpty | ApiFault::Restored => true,
                    ApiFault::HistoryExpired | ApiFault::BackedUp => {
                        // It is a moment, not a state: what else is wrong with the API stays wrong.
                        if ended {
                            self.cures.push(Verb::Api(api.clone(), ApiFault::Healthy));
                        } else if *fault == ApiFault::BackedUp {
                            // Of no use unless it is restored some day.
                            self.cures.push(Verb::Api(api.clone(), ApiFault::Restored));
                        }
                        true
                    }
                    ApiFault::Slow(_) | ApiFault::SlowDeletes(_) | ApiFault::Erroring | ApiFault::Down => {
                        self.cures.push(Verb::Api(api.clone(), ApiFault::Healthy));
                        true
                    }
                }
            }
            Verb::Export(cluster, key) => {
                let changes = !self.exports(cluster, key);
                if changes {
                    self.exported.push((cluster.clone(), key.clone()));
                }
                changes
            }
            Verb::Unexport(cluster, key) => {
                let before = self.exported.len();
                self.exported.retain(|(of, exported)| of != cluster || exported != key);
                self.exported.len() < before
            }
            // Nothing is broken by them.
            Verb::ClockSkew(..)
            | Verb::ClockRate(..)
            | Verb::NatRemap(_)
            | Verb::ChangeAddress(_)
            | Verb::Reslice(..) => true,
            Verb::Join(cluster) => {
                self.cured(|cure| cure == verb);
                self.apart.remove(cluster)
            }
            Verb::Leave(cluster) => {
                let changes = self.apart.insert(cluster.clone());
                if changes {
                    self.cures.push(Verb::Join(cluster.clone()));
                }
                changes
            }
            Verb::Rebuild(rebuilt) => self.apart.contains(&rebuilt.cluster),
            Verb::Unready(cluster, key) => {
                let cure = Verb::Ready(cluster.clone(), key.clone());
                let changes = !self.cures.contains(&cure);
                if changes {
                    self.cures.push(cure);
                }
                changes
            }
            Verb::Ready(..) => self.cured(|cure| cure == verb),
        }
    }

    /// Whether nothing is broken that might keep a cluster from leaving.
    fn lets_leave(&self) -> bool {
        self.cures.iter().all(|cure| matches!(cure, Verb::Join(_) | Verb::Api(_, ApiFault::Restored)))
    }

    fn is_off(&self, node: &NodeRef) -> bool {
        self.cures.iter().any(|cure| matches!(cure, Verb::PowerOn(at) if at == node))
    }

    /// Whether such cures were due. They are no longer.
    fn cured(&mut self, which: impl Fn(&Verb) -> bool) -> bool {
        let before = self.cures.len();
        self.cures.retain(|cure| !which(cure));
        self.cures.len() < before
    }
}

/// A cluster has left within this, if nothing is broken. To build it anew before is to lose it: then nobody is there any more
/// who would take away what it has elsewhere.
const LEFT_WITHIN: Duration = Duration::from_secs(20);

/// Drops the acts that change nothing, and those that are not fair. What is broken in the end, and exported.
pub(super) fn effective(scenario: &mut Scenario) -> Broken {
    let mut broken = Broken::of(scenario);
    let mut last = Duration::ZERO;
    scenario.timeline.retain(|Act { at, verb }| {
        let calm = *at >= last + LEFT_WITHIN && broken.lets_leave();
        let kept = (calm || !matches!(verb, Verb::Rebuild(_))) && broken.act(verb);
        if kept {
            last = *at;
        }
        kept
    });
    broken
}

fn covers(all: Daemons, some: Daemons) -> bool {
    all == Daemons::All || all == some
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{act, at, cluster, scenario, web};
    use crate::{ApiRef, Daemon, Rebuilt, Side};

    fn left(verbs: Vec<Verb>) -> (Vec<Verb>, Vec<Verb>) {
        let mut scenario = scenario((1..).zip(verbs).map(|(at, verb)| act(at, verb)).collect(), vec![]);
        let broken = effective(&mut scenario);
        (scenario.timeline.into_iter().map(|act| act.verb).collect(), broken.cures().to_vec())
    }

    const ONE: Daemons = Daemons::One(Daemon::Gateway);

    #[test]
    fn what_is_off_cannot_be_crashed_and_comes_back_with_all_its_daemons() {
        let gw = || at("west/gw-a");
        let verbs = vec![Verb::Crash(gw(), ONE), Verb::PowerOff(gw()), Verb::Crash(gw(), Daemons::All)];
        let (kept, cures) = left([verbs, vec![Verb::Start(gw(), ONE), Verb::PowerOff(gw())]].concat());
        assert_eq!(kept, [Verb::Crash(gw(), ONE), Verb::PowerOff(gw())]);
        assert_eq!(cures, [Verb::PowerOn(gw())]);
    }

    #[test]
    fn all_daemons_are_more_than_one() {
        let gw = || at("west/gw-a");
        let (_, cures) = left(vec![Verb::Crash(gw(), ONE), Verb::Crash(gw(), Daemons::All)]);
        assert_eq!(cures, [Verb::Start(gw(), Daemons::All)]);
        let (kept, cures) = left(vec![Verb::Crash(gw(), Daemons::All), Verb::Start(gw(), ONE)]);
        assert_eq!((kept.len(), cures.len()), (1, 1));
        let (kept, cures) = left(vec![Verb::Crash(gw(), ONE), Verb::Start(gw(), Daemons::All)]);
        assert_eq!((kept.len(), cures.len()), (2, 0));
    }

    #[test]
    fn a_cut_ends_with_the_heal_of_its_own_sides() {
        let sides = || (Side::Cluster(cluster("west")), Side::Cluster(cluster("east")));
        let cut = |one_way| Verb::Cut { from: sides().0, to: sides().1, one_way };
        let heal = || Verb::Heal { from: sides().0, to: sides().1 };
        assert_eq!(left(vec![heal(), cut(true), cut(false)]), (vec![cut(true)], vec![heal()]));
        assert_eq!(left(vec![cut(true), heal()]).1, []);
    }

    #[test]
    fn an_api_is_broken_until_it_is_healthy_or_restarts() {
        let api = |fault| Verb::Api(ApiRef::Broker, fault);
        let healthy = || api(ApiFault::Healthy);
        assert_eq!(left(vec![healthy(), api(ApiFault::Down)]).1, [healthy()]);
        assert_eq!(left(vec![api(ApiFault::Down), api(ApiFault::Erroring)]).1, [healthy()]);
        assert_eq!(left(vec![api(ApiFault::Down), api(ApiFault::RestartedEmpty)]).1, []);
        assert_eq!(left(vec![api(ApiFault::Down), api(ApiFault::HistoryExpired)]).1, [healthy()]);
        assert_eq!(left(vec![api(ApiFault::HistoryExpired), healthy()]).0.len(), 1);
    }

    #[test]
    fn a_cluster_is_built_anew_once_it_has_had_the_time_to_leave() {
        let west = || cluster("west");
        let rebuild = |at_s| {
            let ranges = || "10.9.0.0/16".parse().unwrap();
            act(at_s, Verb::Rebuild(Rebuilt { cluster: west(), pods: ranges(), services: ranges() }))
        };
        let kept = |timeline: Vec<Act>| {
            let mut scenario = scenario(timeline, vec![]);
            effective(&mut scenario);
            scenario.timeline.iter().any(|act| matches!(act.verb, Verb::Rebuild(_)))
        };
        let leave = || act(10, Verb::Leave(west()));
        assert!(kept(vec![leave(), rebuild(30)]));
        assert!(!kept(vec![leave(), rebuild(29)]));
        assert!(!kept(vec![rebuild(30)]), "it has not left");
        assert!(!kept(vec![act(5, Verb::Api(ApiRef::Broker, ApiFault::Down)), leave(), rebuild(30)]));
    }

    #[test]
    fn exports_are_no_faults_and_change_only_once() {
        let east = || cluster("east");
        let (kept, cures) = left(vec![
            Verb::Export(east(), web()),
            Verb::Unexport(east(), web()),
            Verb::Unexport(east(), web()),
            Verb::Export(east(), web()),
        ]);
        assert_eq!(kept, [Verb::Unexport(east(), web()), Verb::Export(east(), web())]);
        assert_eq!(cures, []);
    }
}
