//! **No flap.** With nothing done for long, nothing moves: no plan step, no election, no other path, no process that ends,
//! and no write but lease renewals and the heartbeat of Gateway objects.
//!
//! While an API is in trouble, leases may be lost again and again, and lossy links cost a needless change about once an
//! hour (`spec/failover.md` 11): then it does not watch.

use super::{Invariant, Violation};
use crate::bounds::{ADDRESS_KNOWN_WITHIN, CALM_AFTER, CONVERGED_WITHIN, LEASE_TAKEN_WITHIN};
use crate::membership::Membership;
use crate::stillness::Stillness;
use crate::trouble::Trouble;
use crate::{Fact, Place, Scenario, Verb, What, trace};
use core::time::Duration;
use tombolo_core::paths::timing::STAND_IN;
use tombolo_core::roles::Event;

const NAME: &str = "No flap";

/// See the module.
pub(super) struct NoFlap {
    trouble: Trouble,
    membership: Membership,
    stillness: Stillness,
    lossy: bool,
    /// Some are behind NAT boxes.
    boxes: bool,
    /// When NAT boxes get other addresses.
    renumbered: Vec<Duration>,
    /// When the clusters themselves last changed something that is theirs, as when pods of a dead node are found unready.
    stirred: Option<Duration>,
}

impl NoFlap {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let changes = scenario.timeline.iter().filter(|act| matches!(act.verb, Verb::ChangeAddress(_)));
        Self {
            trouble: Trouble::of(scenario),
            membership: Membership::of(scenario),
            stillness: Stillness::default(),
            lossy: scenario.links.lose_packets(),
            boxes: scenario.clusters.values().any(|cluster| cluster.nat.is_some()),
            renumbered: changes.map(|act| act.at).collect(),
            stirred: None,
        }
    }

    /// Whether a gateway may yet have to find out under which address it is seen.
    fn renumbers(&self, at: Duration) -> bool {
        self.renumbered.iter().any(|changed| (*changed..*changed + ADDRESS_KNOWN_WITHIN).contains(&at))
    }

    /// When all should be still: where a lease had to be waited for in an API that lost it, whoever holds it then has yet to
    /// find out what is gone; and a cable that is silent stands in for others as long as it may still carry.
    fn calm_after(&self, at: Duration) -> Duration {
        let longest = CALM_AFTER + LEASE_TAKEN_WITHIN;
        if self.trouble.emptied_lately(at, longest) {
            longest
        } else if self.trouble.says_beyond_apis().is_some() {
            CALM_AFTER.max(STAND_IN + CONVERGED_WITHIN)
        } else {
            CALM_AFTER
        }
    }

    /// Whether it is another address that is dialled: that a gateway behind a NAT box answers no more shows when it is tested
    /// again, which is as rare as looking up one's own.
    fn redials(&self, fact: &Fact, still: Duration) -> bool {
        let What::Applied { steps, .. } = &fact.what else { return false };
        self.boxes && still < ADDRESS_KNOWN_WITHIN && steps.iter().all(|step| step.starts_with("~ peer "))
    }

    /// Whether it may be what daemons make of a change that a cluster itself made.
    fn follows(&self, at: Duration) -> bool {
        self.stirred.is_some_and(|stirred| at.saturating_sub(stirred) < CONVERGED_WITHIN)
    }

    fn moves(&mut self, fact: &Fact) -> Option<String> {
        let stir = self.stillness.stir(fact);
        match &fact.what {
            // It ends because nothing is left.
            What::Process(_) if matches!(&fact.place, Place::Daemon(of, ..) if self.membership.has_left(of, fact.at)) => {
                None
            }
            What::Told(
                Event::Elected(_) | Event::StoodDown { .. } | Event::PathChosen { .. } | Event::PathDead { .. },
            )
            | What::Process(_) => Some(trace::what(&fact.what)),
            What::Wrote { by: Place::World, .. } => None,
            What::Wrote { .. } | What::Applied { .. } => stir,
            What::Act(_)
            | What::Power(_)
            | What::Told(
                // What it dials moves as a step of a plan, if it moves.
                Event::Dials { .. }
                // What it carries moves as a step of a plan too.
                | Event::Carries { .. }
                | Event::Unanswered { .. }
                | Event::Public(_)
                | Event::Refused { .. }
                | Event::Left
                | Event::Contested { .. }
                | Event::Ignored { .. },
            )
            | What::Table { .. }
            | What::Probed { .. } => None,
        }
    }
}

impl Invariant for NoFlap {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F6 F7: kilo#34 (B15), submariner#868 (B21), submariner#2747 (B01), linkerd2#10635 (B63)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        self.trouble.watch(fact);
        if matches!(fact.what, What::Wrote { by: Place::World, .. }) {
            self.stirred = Some(fact.at);
        }
        let moved = self.moves(fact)?;
        let still = self.trouble.still_for(fact.at);
        let excused = self.lossy || self.trouble.apis_in_force() || self.renumbers(fact.at) || self.follows(fact.at);
        let excused = excused || self.redials(fact, still);
        if excused || still < self.calm_after(fact.at) {
            return None;
        }
        let text = format!("nothing was done for {}, yet {}: {moved}", crate::wording::seconds(still), fact.place);
        Some(Violation { invariant: NAME, at: fact.at, text })
    }

    fn excuse(&mut self, at: Duration) -> Option<String> {
        self.trouble.advance(at);
        if self.lossy {
            return Some("links lose packets".into());
        }
        let within = crate::wording::brief(ADDRESS_KNOWN_WITHIN);
        let renumbers = || self.renumbers(at).then(|| format!("less than {within} since a public address changed"));
        let within = crate::wording::brief(CONVERGED_WITHIN);
        let follows = || self.follows(at).then(|| format!("less than {within} since a cluster changed by itself"));
        let lately = self.trouble.says_of_apis().or_else(|| self.trouble.says_lately(at, self.calm_after(at)));
        lately.or_else(renumbers).or_else(follows)
    }

    fn end(&mut self, _: Duration) -> Vec<Violation> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{
        act, applied, at, broken, cluster, elected, fact, gateway, lease, path, scenario, secs, wrote,
    };
    use crate::{Act, ApiFault, ApiRef, Change};
    use tombolo_core::nat::boxes::{Behaviour, Dependence};

    const A: &str = "west/gw-a gateway";

    #[test]
    fn behind_a_nat_box_another_address_may_be_dialled_for_as_long_as_one_is_not_tested() {
        let mut scene = scenario(vec![], vec![]);
        let facts = |at, step: &str| [fact(secs(at), "west/gw-a", applied(&[step]))];
        let seen = |scene: &Scenario, facts: &[Fact]| broken(&mut NoFlap::of(scene), facts, secs(90)).len();
        let (peer, route) = ("~ peer b… at 198.18.1.1:4511", "~ route 10.2.0.0/16 dev tb-cable-1 table 7403");
        assert_eq!(seen(&scene, &facts(60, peer)), 1);
        let nat = Behaviour { mapping: Dependence::Nothing, filtering: Dependence::Nothing, keeps_ports: true };
        scene.clusters.get_mut(&cluster("east")).unwrap().nat = Some(nat);
        assert_eq!([(60, peer), (71, peer), (60, route)].map(|(at, step)| seen(&scene, &facts(at, step))), [0, 1, 1]);
    }

    #[test]
    fn while_a_node_is_cut_off_its_cables_stand_in_for_each_other() {
        let side = |of: &str| crate::Side::Cluster(cluster(of));
        let cut = || vec![act(5, Verb::Cut { from: side("west"), to: side("east"), one_way: false })];
        let moved = |at| fact(secs(at), "west/gw-a", applied(&["~ route 10.2.0.0/16 dev tb-cable-2 table 7402"]));
        assert_eq!(watch(cut(), &[moved(36)]), [""; 0]);
        assert_eq!(watch(cut(), &[moved(51)]).len(), 1);
    }

    #[test]
    fn where_an_api_lost_a_lease_all_is_still_that_much_later() {
        let emptied = || vec![act(5, Verb::Api(ApiRef::Cluster(cluster("west")), ApiFault::RestartedEmpty))];
        let moved = |at| fact(secs(at), A, path("east", 2, 2, 1));
        assert_eq!(watch(emptied(), &[moved(46)]), [""; 0]);
        assert_eq!(watch(emptied(), &[moved(48)]).len(), 1);
    }

    fn watch(timeline: Vec<Act>, facts: &[Fact]) -> Vec<String> {
        broken(&mut NoFlap::of(&scenario(timeline, vec![])), facts, secs(90))
    }

    /// A start, and a heartbeat every ten seconds.
    fn life() -> Vec<Fact> {
        let mut facts = vec![
            fact(secs(1), "west/gw-a", applied(&["+ route 10.2.0.0/16 dev tb-cable-1 table 7403"])),
            fact(secs(1), A, elected(5)),
            fact(secs(1), "west api", wrote(A, Change::Created, lease("gw-a", 5, 1))),
            fact(secs(1), "west api", wrote(A, Change::Created, gateway("gw-a", Some(5), &[]))),
        ];
        for beat in [10, 20, 30, 40, 50, 60] {
            facts.push(fact(secs(beat), "west api", wrote(A, Change::Replaced, lease("gw-a", 5, beat))));
            facts.push(fact(secs(beat), "west api", wrote(A, Change::Replaced, gateway("gw-a", Some(5), &[]))));
        }
        facts
    }

    #[test]
    fn renewals_and_heartbeats_are_no_movement() {
        assert_eq!(watch(vec![], &life()), [""; 0]);
    }

    #[test]
    fn a_takeover_after_a_power_loss_has_its_time() {
        let mut facts = life();
        facts.push(fact(secs(77), "west/gw-b gateway", elected(6)));
        facts.push(fact(secs(77), "west api", wrote("west/gw-b gateway", Change::Replaced, lease("gw-b", 6, 77))));
        assert_eq!(watch(vec![act(60, Verb::PowerOff(at("west/gw-a")))], &facts), [""; 0]);
        assert_eq!(watch(vec![], &facts).len(), 2);
    }

    #[test]
    fn each_movement_out_of_the_blue_is_caught() {
        for (place, what) in [
            ("west/gw-a", applied(&["~ peer 0102… at 192.0.2.9:41000"])),
            ("west api", wrote(A, Change::Replaced, gateway("gw-a", None, &[]))),
            (A, path("east", 2, 2, 1)),
            (A, What::Process(false)),
        ] {
            let mut facts = life();
            facts.push(fact(secs(61), place, what));
            let found = watch(vec![], &facts);
            assert_eq!(found.len(), 1);
            assert!(found[0].starts_with(&format!("nothing was done for 61.000s, yet {place}: ")), "{}", found[0]);
        }
    }

    #[test]
    fn a_new_public_address_is_found_out_within_its_time() {
        let found_at = |at| {
            let mut facts = life();
            facts.push(fact(secs(at), "west api", wrote(A, Change::Replaced, gateway("gw-a", None, &[]))));
            watch(vec![act(15, Verb::ChangeAddress(cluster("west")))], &facts)
        };
        assert_eq!(found_at(84), [""; 0]);
        assert_eq!(found_at(86).len(), 1);
    }

    #[test]
    fn a_lossy_link_may_cost_a_change() {
        let mut lossy = scenario(vec![], vec![]);
        lossy.links.default.loss_millionths = 200_000;
        let mut facts = life();
        facts.push(fact(secs(61), A, path("east", 2, 2, 1)));
        assert_eq!(broken(&mut NoFlap::of(&lossy), &facts, secs(90)), [""; 0]);
    }

    #[test]
    fn leases_may_be_lost_while_an_api_is_slow() {
        let slow = act(20, Verb::Api(ApiRef::Cluster(cluster("west")), ApiFault::Slow(secs(6))));
        let mut facts = life();
        facts.push(fact(secs(61), A, crate::rehearsal::stood_down(5)));
        assert_eq!(watch(vec![slow], &facts), [""; 0]);
    }

    #[test]
    fn it_says_when_it_does_not_watch() {
        let api = |at, fault| act(at, Verb::Api(ApiRef::Cluster(cluster("west")), fault));
        let timeline = vec![api(40, ApiFault::Slow(secs(6))), api(50, ApiFault::Healthy)];
        assert_eq!(
            crate::rehearsal::excused(&mut NoFlap::of(&scenario(timeline, vec![])), &life(), secs(90)),
            [
                "0.000s..25.000s: less than 25s since the start",
                "40.000s..75.000s: west api slow by 6s, beyond the 5s after which a request is given up; less than 25s since the last act",
            ]
        );
    }

    #[test]
    fn what_follows_a_change_of_the_clusters_own_is_no_flap_for_a_while() {
        let unready = fact(secs(60), "west api", wrote("world", Change::Replaced, crate::rehearsal::web_record()));
        let step = |at| fact(secs(at), "west/gw-a", applied(&["~ dnat tcp 10.102.0.10:80 to nothing: drop"]));
        let moved_at = |at| {
            let facts = life().into_iter().chain([unready.clone(), step(at)]);
            let mut facts = facts.collect::<Vec<_>>();
            facts.sort_by_key(|fact| fact.at);
            watch(vec![], &facts).len()
        };
        assert_eq!([59, 61, 71].map(moved_at), [1, 0, 1]);
    }
}
