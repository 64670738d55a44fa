//! Which faults are in force, and since when nothing was done: the measure of what an invariant may expect.
//!
//! Cuts and APIs are read from the timeline, nodes and daemons from the facts, since the timeline may name them by role.

use crate::bounds::REQUEST_DEADLINE;
use crate::{Act, ApiFault, ApiRef, Broker, Daemon, Fact, Place, Scenario, Side, Verb, What, wording};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tombolo_core::base::{ClusterId, NodeName};
use tombolo_core::roles::Event;

/// See the module. Must be shown every fact, in order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Trouble {
    coming: VecDeque<Act>,
    off: BTreeSet<(ClusterId, NodeName)>,
    dead: BTreeSet<(ClusterId, NodeName, Daemon)>,
    /// Daemons that have told that nothing of theirs is left.
    left: BTreeSet<(ClusterId, NodeName, Daemon)>,
    cuts: Vec<(Side, Side)>,
    apis: BTreeMap<ApiRef, ApiFault>,
    /// When the last act was.
    last: Duration,
    /// When a node or a daemon came or went, or an act was about more than an API.
    last_beyond_apis: Option<Duration>,
    last_of_apis: Option<Duration>,
    /// When nothing was broken and nothing happened, up to the last time that something did. Each is half open.
    calm: Vec<(Duration, Duration)>,
    /// Since when nothing has been broken and nothing has happened, if nothing is.
    calm_since: Option<Duration>,
    emptied: BTreeMap<ApiRef, Duration>,
    /// When each API last got old data back.
    restored: BTreeMap<ApiRef, Duration>,
    broker: Broker,
}

impl Trouble {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        Self {
            coming: scenario.timeline.iter().cloned().collect(),
            off: BTreeSet::new(),
            dead: BTreeSet::new(),
            left: BTreeSet::new(),
            cuts: Vec::new(),
            apis: BTreeMap::new(),
            last: Duration::ZERO,
            last_beyond_apis: None,
            last_of_apis: None,
            calm: Vec::new(),
            calm_since: Some(Duration::ZERO),
            emptied: BTreeMap::new(),
            restored: BTreeMap::new(),
            broker: scenario.broker.clone(),
        }
    }

    /// Takes note of a fact, and of the acts that came before it.
    pub(crate) fn watch(&mut self, fact: &Fact) {
        self.advance(fact.at);
        match (&fact.what, &fact.place) {
            (What::Power(on), Place::Node(cluster, node)) => {
                self.stir(fact.at);
                self.dead.retain(|(c, n, _)| (c, n) != (cluster, node));
                let key = (cluster.clone(), node.clone());
                if *on {
                    self.off.remove(&key);
                } else {
                    self.off.insert(key);
                }
                self.last_beyond_apis = Some(fact.at);
                self.rest(fact.at);
            }
            (What::Process(runs), Place::Daemon(cluster, node, daemon)) => {
                self.stir(fact.at);
                let key = (cluster.clone(), node.clone(), *daemon);
                if *runs {
                    self.dead.remove(&key);
                } else if !self.off.contains(&(cluster.clone(), node.clone())) && !self.left.contains(&key) {
                    self.dead.insert(key);
                }
                self.last_beyond_apis = Some(fact.at);
                self.rest(fact.at);
            }
            // That it ends is no trouble.
            (What::Told(Event::Left), Place::Daemon(cluster, node, daemon)) => {
                self.left.insert((cluster.clone(), node.clone(), *daemon));
            }
            _ => {}
        }
    }

    /// Takes note of the acts until then.
    pub(crate) fn advance(&mut self, now: Duration) {
        while let Some(act) = self.coming.pop_front_if(|act| act.at <= now) {
            self.stir(act.at);
            self.act(&act);
            self.rest(act.at);
        }
    }

    /// Whether anything is broken.
    pub(crate) fn in_force(&self) -> bool {
        !self.off.is_empty() || !self.dead.is_empty() || !self.cuts.is_empty() || !self.apis.is_empty()
    }

    /// Whether an API is slow, faulty, down or cut off.
    pub(crate) fn apis_in_force(&self) -> bool {
        !self.apis.is_empty() || self.cuts.iter().any(is_of_api)
    }

    /// Whether an API is, or was within `within`, in trouble.
    pub(crate) fn apis_lately(&self, now: Duration, within: Duration) -> bool {
        self.apis_in_force() || self.last_of_apis.is_some_and(|last| now.saturating_sub(last) <= within)
    }

    /// Whether for so long without a break, at some time from `from` to `to`, nothing was broken and nothing happened.
    pub(crate) fn was_calm(&self, from: Duration, to: Duration, long: Duration) -> bool {
        let now = self.calm_since.map(|since| (since, Duration::MAX));
        let mut spans = self.calm.iter().copied().chain(now);
        spans.any(|(begin, end)| begin.max(from).saturating_add(long) <= end.min(to))
    }

    /// Something happens.
    fn stir(&mut self, at: Duration) {
        self.calm.extend(self.calm_since.take().map(|since| (since, at)));
    }

    /// It has happened.
    fn rest(&mut self, at: Duration) {
        self.calm_since = (!self.in_force()).then_some(at);
    }

    /// Whether anything but APIs is, or was within `within`, in trouble.
    pub(crate) fn beyond_apis_lately(&self, now: Duration, within: Duration) -> bool {
        let broken = !self.off.is_empty() || !self.dead.is_empty() || !self.cuts.iter().all(is_of_api);
        broken || self.last_beyond_apis.is_some_and(|last| now.saturating_sub(last) <= within)
    }

    /// Whether an API restarted with nothing stored, `within` ago at most.
    pub(crate) fn emptied_lately(&self, now: Duration, within: Duration) -> bool {
        self.emptied.values().any(|at| now.saturating_sub(*at) <= within)
    }

    /// When an API last got old data back.
    pub(crate) fn restored(&self) -> Option<Duration> {
        self.restored.values().max().copied()
    }

    /// Whether the broker or the cluster's own API got old data back since then: nobody but the cluster's daemons takes away
    /// what comes back there.
    pub(crate) fn restored_since(&self, cluster: &ClusterId, at: Duration) -> bool {
        let is_one = |api: &ApiRef| match (api, &self.broker) {
            (ApiRef::Broker, _) => true,
            (ApiRef::Cluster(of), Broker::Member(member)) => of == cluster || of == member,
            (ApiRef::Cluster(of), Broker::Own) => of == cluster,
        };
        self.restored.iter().any(|(api, restored)| is_one(api) && *restored >= at)
    }

    /// For how long nothing was done; zero while anything is broken.
    pub(crate) fn calm_for(&self, now: Duration) -> Duration {
        if self.in_force() { Duration::ZERO } else { self.still_for(now) }
    }

    /// Whether a node of the cluster is off, or a daemon of it does not run.
    pub(crate) fn lacks_machines(&self, cluster: &ClusterId) -> bool {
        self.off.iter().any(|(of, _)| of == cluster) || self.dead.iter().any(|(of, ..)| of == cluster)
    }

    /// For how long nothing was done, whether or not something stays broken.
    pub(crate) fn still_for(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last)
    }

    /// What is broken, in words.
    pub(crate) fn says(&self) -> Option<String> {
        let all = self.of_machines().chain(self.of_cuts(|_| true)).chain(self.of_apis_themselves()).collect::<Vec<_>>();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Which APIs are in trouble, in words.
    pub(crate) fn says_of_apis(&self) -> Option<String> {
        let all = self.of_cuts(is_of_api).chain(self.of_apis_themselves()).collect::<Vec<_>>();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// What is broken beyond APIs, in words.
    pub(crate) fn says_beyond_apis(&self) -> Option<String> {
        let all = self.of_machines().chain(self.of_cuts(|cut| !is_of_api(cut))).collect::<Vec<_>>();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// That something was done too lately, in words, if it was.
    pub(crate) fn says_lately(&self, now: Duration, within: Duration) -> Option<String> {
        let since = if self.last.is_zero() { "the start" } else { "the last act" };
        (self.still_for(now) < within).then(|| format!("less than {} since {since}", wording::brief(within)))
    }

    fn of_machines(&self) -> impl Iterator<Item = String> {
        let off = self.off.iter().map(|(cluster, node)| format!("{cluster}/{node} is off"));
        let dead = self.dead.iter().filter(|(cluster, node, _)| !self.off.contains(&(cluster.clone(), node.clone())));
        off.chain(dead.map(|(cluster, node, daemon)| format!("{cluster}/{node} {daemon} does not run")))
    }

    fn of_cuts(&self, which: impl Fn(&(Side, Side)) -> bool) -> impl Iterator<Item = String> {
        let between = |(a, b): &(Side, Side)| format!("{} and {} are cut", wording::side(a), wording::side(b));
        self.cuts.iter().filter(move |cut| which(cut)).map(between)
    }

    fn of_apis_themselves(&self) -> impl Iterator<Item = String> {
        self.apis.iter().map(|(api, fault)| {
            let beyond = if matches!(fault, ApiFault::Slow(by) if *by >= REQUEST_DEADLINE) {
                format!(", beyond the {} after which a request is given up", wording::brief(REQUEST_DEADLINE))
            } else {
                String::new()
            };
            format!("{api} api {}{beyond}", wording::api_fault(fault))
        })
    }

    fn beyond_apis(&mut self, at: Duration) {
        self.last = self.last.max(at);
        self.last_beyond_apis = Some(at);
    }

    fn of_apis(&mut self, at: Duration) {
        self.last = self.last.max(at);
        self.last_of_apis = Some(at);
    }

    fn act(&mut self, Act { at, verb }: &Act) {
        match verb {
            Verb::Cut { from, to, .. } => {
                let cut = (from.clone(), to.clone());
                if is_of_api(&cut) {
                    self.of_apis(*at)
                } else {
                    self.beyond_apis(*at)
                }
                self.cuts.push(cut);
            }
            Verb::Heal { from, to } => {
                let (healed, left) = self.cuts.iter().cloned().partition::<Vec<_>, _>(|(a, b)| {
                    (covers(from, a) && covers(to, b)) || (covers(from, b) && covers(to, a))
                });
                if healed.iter().all(is_of_api) {
                    self.of_apis(*at)
                } else {
                    self.beyond_apis(*at)
                }
                self.cuts = left;
            }
            Verb::Api(api, fault) => {
                self.of_apis(*at);
                match fault {
                    ApiFault::Healthy => drop(self.apis.remove(api)),
                    ApiFault::Slow(_) | ApiFault::SlowDeletes(_) | ApiFault::Erroring | ApiFault::Down => {
                        self.apis.insert(api.clone(), fault.clone());
                    }
                    ApiFault::RestartedEmpty | ApiFault::Restored => {
                        self.apis.remove(api);
                        self.emptied.insert(api.clone(), *at);
                        if *fault == ApiFault::Restored {
                            self.restored.insert(api.clone(), *at);
                        }
                    }
                    ApiFault::HistoryExpired | ApiFault::BackedUp => {}
                }
            }
            Verb::PowerOff(_)
            | Verb::PowerOn(_)
            | Verb::Crash(..)
            | Verb::Start(..)
            | Verb::NatRemap(_)
            | Verb::ChangeAddress(_)
            | Verb::Leave(_)
            | Verb::Rebuild(_) => self.beyond_apis(*at),
            Verb::Join(cluster) => {
                self.left.retain(|(of, ..)| of != cluster);
                self.beyond_apis(*at);
            }
            // Not a fault, but things move.
            Verb::Export(..) | Verb::Unexport(..) | Verb::Ready(..) | Verb::Unready(..) | Verb::Reslice(..) => {
                self.last = self.last.max(*at)
            }
            // Clocks may be off: nothing is excused by them.
            Verb::ClockSkew(..) | Verb::ClockRate(..) => {}
        }
    }
}

fn is_of_api(cut: &(Side, Side)) -> bool {
    matches!(cut, (Side::Api(_), _) | (_, Side::Api(_)))
}

/// Whether all hosts of `part` are hosts of `whole`.
fn covers(whole: &Side, part: &Side) -> bool {
    whole == part || matches!((whole, part), (Side::Cluster(cluster), Side::Node(at)) if at.cluster == *cluster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{act, at, cluster, fact, scenario, secs};

    fn after(timeline: Vec<Act>, facts: &[Fact], now: u64) -> Trouble {
        let mut trouble = Trouble::of(&scenario(timeline, vec![]));
        facts.iter().for_each(|fact| trouble.watch(fact));
        trouble.advance(secs(now));
        trouble
    }

    fn broker_cut(from: u64) -> Act {
        let (from_side, to) = (Side::Cluster(cluster("west")), Side::Api(ApiRef::Broker));
        act(from, Verb::Cut { from: from_side, to, one_way: false })
    }

    #[test]
    fn a_node_is_in_trouble_from_power_loss_to_power() {
        let off = fact(secs(5), "west/gw-a", What::Power(false));
        let died = fact(secs(5), "west/gw-a gateway", What::Process(false));
        let on = fact(secs(9), "west/gw-a", What::Power(true));
        let acts = vec![act(5, Verb::PowerOff(at("west/gw-a"))), act(9, Verb::PowerOn(at("west/gw-a")))];
        assert!(after(vec![], &[off.clone(), died.clone()], 6).in_force());
        // A world may kill the daemons before it takes the power, or after.
        let healed = after(acts, &[died.clone(), off, died, on], 12);
        assert!(!healed.in_force());
        assert_eq!(healed.calm_for(secs(12)), secs(3));
    }

    #[test]
    fn a_dead_daemon_is_trouble_until_it_runs_again() {
        let died = fact(secs(5), "west/gw-a gateway", What::Process(false));
        let runs = fact(secs(7), "west/gw-a gateway", What::Process(true));
        assert!(after(vec![], std::slice::from_ref(&died), 6).in_force());
        assert!(!after(vec![], &[died, runs], 7).in_force());
    }

    #[test]
    fn a_daemon_that_has_left_may_end_and_one_that_died_before_is_trouble() {
        let leave = || vec![act(5, Verb::Leave(cluster("west")))];
        let died = fact(secs(6), "west/gw-a gateway", What::Process(false));
        assert!(after(leave(), std::slice::from_ref(&died), 7).in_force());
        let left = fact(secs(6), "west/gw-a gateway", What::Told(Event::Left));
        assert!(!after(leave(), &[left, died], 7).in_force());
    }

    #[test]
    fn calm_is_what_lies_between_troubles() {
        let api = |at, fault| act(at, Verb::Api(ApiRef::Broker, fault));
        let heal = Verb::Heal { from: Side::Cluster(cluster("west")), to: Side::Api(ApiRef::Broker) };
        let timeline = vec![
            broker_cut(5),
            act(20, heal),
            api(28, ApiFault::HistoryExpired),
            api(35, ApiFault::Down),
            api(36, ApiFault::Slow(secs(1))),
            api(40, ApiFault::Healthy),
        ];
        let calm = |from, to| after(timeline.clone(), &[], to).was_calm(secs(from), secs(to), secs(8));
        assert!(!calm(0, 4) && !calm(0, 20) && !calm(0, 27));
        assert!(calm(0, 28) && calm(20, 30) && !calm(21, 47) && calm(21, 48) && !calm(41, 48));
        assert!(after(vec![], &[], 8).was_calm(secs(0), secs(8), secs(8)));
    }

    #[test]
    fn a_cut_from_an_api_is_no_trouble_beyond_apis() {
        let trouble = after(vec![broker_cut(5)], &[], 6);
        assert!(trouble.in_force() && trouble.apis_in_force());
        assert!(!trouble.beyond_apis_lately(secs(6), secs(10)));
        let wan = Verb::Cut { from: Side::Node(at("west/gw-a")), to: Side::Cluster(cluster("east")), one_way: true };
        let trouble = after(vec![broker_cut(5), act(6, wan)], &[], 7);
        assert!(trouble.beyond_apis_lately(secs(7), secs(10)));
    }

    #[test]
    fn healing_a_cluster_heals_the_cuts_of_its_nodes_in_either_order() {
        let east = Side::Cluster(cluster("east"));
        let cut = Verb::Cut { from: Side::Node(at("west/gw-a")), to: east.clone(), one_way: true };
        let heal = Verb::Heal { from: east, to: Side::Cluster(cluster("west")) };
        assert!(after(vec![act(1, cut.clone())], &[], 2).in_force());
        assert!(!after(vec![act(1, cut), act(2, heal)], &[], 2).in_force());
    }

    #[test]
    fn trouble_is_told_in_words() {
        let slow = |by| act(1, Verb::Api(ApiRef::Cluster(cluster("west")), ApiFault::Slow(secs(by))));
        assert_eq!(
            after(vec![slow(6)], &[], 2).says_of_apis().as_deref(),
            Some("west api slow by 6s, beyond the 5s after which a request is given up")
        );
        assert_eq!(after(vec![slow(4)], &[], 2).says().as_deref(), Some("west api slow by 4s"));
        let off = fact(secs(5), "west/gw-a", What::Power(false));
        let both = after(vec![broker_cut(5)], &[fact(secs(5), "west/gw-a gateway", What::Process(false)), off], 6);
        assert_eq!(both.says().as_deref(), Some("west/gw-a is off, west and broker api are cut"));
        assert_eq!(both.says_beyond_apis().as_deref(), Some("west/gw-a is off"));
        assert_eq!(both.says_of_apis().as_deref(), Some("west and broker api are cut"));
        assert_eq!(both.says_lately(secs(7), secs(10)).as_deref(), Some("less than 10s since the last act"));
        assert_eq!(both.says_lately(secs(15), secs(10)), None);
        assert_eq!(
            after(vec![], &[], 3).says_lately(secs(3), secs(10)).as_deref(),
            Some("less than 10s since the start")
        );
    }

    #[test]
    fn an_api_is_in_trouble_until_it_is_healthy_or_restarts() {
        let api = || ApiRef::Cluster(cluster("west"));
        let slow = act(1, Verb::Api(api(), ApiFault::Slow(secs(6))));
        assert!(after(vec![slow.clone()], &[], 2).apis_in_force());
        for ends in [ApiFault::Healthy, ApiFault::RestartedEmpty] {
            let trouble = after(vec![slow.clone(), act(3, Verb::Api(api(), ends))], &[], 4);
            assert!(!trouble.in_force());
            assert!(trouble.apis_lately(secs(4), secs(2)) && !trouble.apis_lately(secs(6), secs(2)));
        }
    }
}
