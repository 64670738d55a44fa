//! **One announcer.** At most one gateway of a cluster announces in one epoch (its fellows may give back to an API that lost
//! its data, word for word, what was announced), and what an older epoch still does never undoes what a newer one did: no older record replaces a newer one at any API, and nobody deletes a record of a
//! term later than its own. A cluster that leaves takes all away and begins anew.

use super::{Invariant, Violation};
use crate::membership::Membership;
use crate::trouble::Trouble;
use crate::{ApiFault, ApiRef, Broker, Change, Daemon, Fact, Place, Scenario, Verb, What};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use tombolo_core::base::{ClusterId, Epoch};
use tombolo_core::model::{Key, Kind, Object};
use tombolo_core::roles::Event;

const NAME: &str = "One announcer";

/// See the module.
pub(super) struct OneAnnouncer {
    trouble: Trouble,
    membership: Membership,
    /// APIs that lose all they hold, in order of time.
    emptied: VecDeque<(Duration, ApiRef)>,
    /// Who announces in which epoch.
    announcers: BTreeMap<(ClusterId, Epoch), Place>,
    /// What was announced in the latest epoch, the last word last.
    announced: BTreeMap<Key, Vec<Object>>,
    /// The last term of each daemon.
    terms: BTreeMap<Place, Epoch>,
    /// The newest epoch at each API.
    newest: BTreeMap<(ApiRef, Kind, ClusterId), Epoch>,
}

impl OneAnnouncer {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self {
            trouble: Trouble::of(scenario),
            membership: Membership::of(scenario),
            emptied: emptied(scenario),
            announcers: BTreeMap::new(),
            announced: BTreeMap::new(),
            terms: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }
}

impl Invariant for OneAnnouncer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F1 F4: submariner#2747 (B01), submariner#1544 (B03), submariner#1244 (B04)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        self.trouble.watch(fact);
        while let Some((_, api)) = self.emptied.pop_front_if(|(at, _)| *at <= fact.at) {
            self.newest.retain(|(of, ..), _| *of != api);
        }
        let text = match (&fact.what, &fact.place) {
            (What::Told(Event::Elected(epoch)), Place::Daemon(cluster, ..)) => {
                self.terms.insert(fact.place.clone(), *epoch);
                self.announces(cluster, *epoch, &fact.place)
            }
            (What::Told(Event::Left), Place::Daemon(cluster, _, Daemon::Gateway)) => {
                // Nothing of what it announced is left to be mistaken for what it announces next.
                self.announcers.retain(|(of, _), _| of != cluster);
                None
            }
            (What::Wrote { by, change, key, object }, Place::Api(api)) => {
                let (cluster, epoch) = object.announced()?;
                if *change == Change::Deleted && self.membership.was_leaving(cluster, fact.at, &self.trouble) {
                    self.newest.remove(&(api.clone(), key.kind, cluster.clone()));
                }
                match change {
                    Change::Created | Change::Replaced => {
                        let again = self.was_said(key, object, epoch, *change)
                            || self.membership.was_leaving(cluster, fact.at, &self.trouble);
                        self.wrote(api, by, key, cluster, epoch, again)
                    }
                    // What a fellow gave back it takes away as the cluster leaves.
                    Change::Deleted if self.membership.was_leaving(cluster, fact.at, &self.trouble) => None,
                    Change::Deleted => self.deleted(api, by, key, cluster, epoch),
                }
            }
            _ => None,
        };
        Some(Violation { invariant: NAME, at: fact.at, text: text? })
    }

    fn excuse(&mut self, _: Duration) -> Option<String> {
        None
    }

    fn end(&mut self, _: Duration) -> Vec<Violation> {
        Vec::new()
    }
}

/// Who has nothing shows nothing that is undone. A member that is the broker is emptied as both.
fn emptied(scenario: &Scenario) -> VecDeque<(Duration, ApiRef)> {
    let mut emptied = VecDeque::new();
    for act in &scenario.timeline {
        let Verb::Api(api, ApiFault::RestartedEmpty) = &act.verb else { continue };
        emptied.push_back((act.at, api.clone()));
        let is_broker =
            |of: &Broker| matches!((api, of), (ApiRef::Cluster(id), Broker::Member(member)) if id == member);
        if is_broker(&scenario.broker) {
            emptied.push_back((act.at, ApiRef::Broker));
        }
    }
    emptied
}

impl OneAnnouncer {
    fn announces(&mut self, cluster: &ClusterId, epoch: Epoch, who: &Place) -> Option<String> {
        let first = self.announcers.entry((cluster.clone(), epoch)).or_insert_with(|| who.clone());
        (first != who).then(|| format!("{first} and {who} both announce {cluster} in epoch {epoch}"))
    }

    /// Whether it was announced before, word for word. Who gives back where nothing is may not have heard the last word.
    fn was_said(&mut self, key: &Key, object: &Object, epoch: Epoch, change: Change) -> bool {
        let words = self.announced.entry(key.clone()).or_default();
        words.retain(|word| word.announced().is_some_and(|(_, of)| of >= epoch));
        let said = words.iter().position(|word| word == object);
        let is_last = said.is_some_and(|at| at + 1 == words.len());
        if said.is_none() {
            words.push(object.clone());
        }
        is_last || said.is_some() && change == Change::Created
    }

    fn wrote(
        &mut self,
        api: &ApiRef,
        by: &Place,
        key: &Key,
        cluster: &ClusterId,
        epoch: Epoch,
        again: bool,
    ) -> Option<String> {
        let newest = self.newest.entry((api.clone(), key.kind, cluster.clone())).or_default();
        if epoch < *newest {
            return Some(format!("{by} wrote {key} of epoch {epoch} at the {api} api, over epoch {newest}"));
        }
        *newest = epoch;
        // Whoever writes what its own cluster announces is the announcer; others copy.
        match by {
            Place::Daemon(own, _, Daemon::Gateway) if own == cluster && !again => self.announces(cluster, epoch, by),
            Place::Daemon(..) | Place::World | Place::Api(_) | Place::Node(..) => None,
        }
    }

    fn deleted(&self, api: &ApiRef, by: &Place, key: &Key, cluster: &ClusterId, epoch: Epoch) -> Option<String> {
        let Place::Daemon(own, _, Daemon::Gateway) = by else { return None };
        if own != cluster {
            return None;
        }
        match self.terms.get(by) {
            None => Some(format!("{by} deleted {key} of epoch {epoch} at the {api} api, and never announced")),
            Some(term) if *term < epoch => {
                Some(format!("{by}, whose term was epoch {term}, deleted {key} of epoch {epoch} at the {api} api"))
            }
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{broken, elected, endpoint, fact, scenario, secs, stood_down, wrote};
    use std::sync::Arc;
    use tombolo_core::model::Endpoint;

    const A: &str = "west/gw-a gateway";
    const B: &str = "west/gw-b gateway";

    fn watch(facts: &[Fact]) -> Vec<String> {
        broken(&mut OneAnnouncer::of(&scenario(vec![], vec![])), facts, secs(60))
    }

    #[test]
    fn a_fellow_may_give_back_what_was_announced_and_nothing_else() {
        let mut facts = vec![
            fact(secs(1), A, elected(5)),
            writes(2, "west api", A, Change::Created, "gw-a", 5),
            writes(30, "west api", B, Change::Created, "gw-a", 5),
        ];
        assert_eq!(watch(&facts), [""; 0]);
        // It had not heard the holder's last word.
        let word = |port| {
            let Object::Endpoint(endpoint) = endpoint("west", "gw-c", 5) else { panic!("no Endpoint") };
            Object::from(Endpoint { discovery_port: port, ..Arc::unwrap_or_clone(endpoint) })
        };
        let says = |at, by, change, port| fact(secs(at), "west api", wrote(by, change, word(port)));
        facts.push(says(30, A, Change::Created, Some(1)));
        facts.push(says(30, A, Change::Replaced, Some(2)));
        facts.push(says(31, B, Change::Created, Some(1)));
        assert_eq!(watch(&facts), [""; 0]);
        // Where something is nothing is missing.
        facts.push(says(32, B, Change::Replaced, Some(1)));
        assert_eq!(watch(&facts), ["west/gw-a gateway and west/gw-b gateway both announce west in epoch 5"]);
        facts.pop();
        facts.push(writes(31, "west api", B, Change::Replaced, "gw-b", 5));
        assert_eq!(watch(&facts), ["west/gw-a gateway and west/gw-b gateway both announce west in epoch 5"]);
    }

    fn writes(at: u64, api: &str, by: &str, change: Change, on: &str, epoch: u64) -> Fact {
        fact(secs(at), api, wrote(by, change, endpoint("west", on, epoch)))
    }

    /// gw-a announces, loses the lease, gw-b takes over and clears up; the copies follow.
    fn takeover() -> Vec<Fact> {
        vec![
            fact(secs(1), A, elected(5)),
            writes(2, "west api", A, Change::Created, "gw-a", 5),
            writes(2, "broker api", A, Change::Created, "gw-a", 5),
            fact(secs(20), A, stood_down(5)),
            fact(secs(21), B, elected(6)),
            writes(22, "west api", B, Change::Created, "gw-b", 6),
            writes(22, "west api", B, Change::Deleted, "gw-a", 5),
            writes(22, "broker api", B, Change::Created, "gw-b", 6),
            writes(22, "broker api", B, Change::Deleted, "gw-a", 5),
        ]
    }

    #[test]
    fn a_takeover_with_late_copies_is_fine() {
        let mut facts = takeover();
        // Another cluster copies late, and an old holder's slow delete of its own record lands at last.
        facts.push(writes(23, "east api", "east/gw-a gateway", Change::Created, "gw-a", 5));
        facts.push(writes(24, "east api", "east/gw-a gateway", Change::Created, "gw-b", 6));
        facts.push(writes(24, "east api", "east/gw-a gateway", Change::Deleted, "gw-a", 5));
        facts.push(writes(25, "west api", A, Change::Deleted, "gw-a", 5));
        assert_eq!(watch(&facts), [""; 0]);
    }

    #[test]
    fn a_cluster_that_left_begins_anew_and_one_that_did_not_may_not() {
        let left =
            vec![crate::rehearsal::act(10, crate::Verb::Leave(tombolo_core::base::ClusterId::new("west").unwrap()))];
        let facts = [
            fact(secs(1), A, elected(5)),
            writes(2, "west api", A, Change::Created, "gw-a", 5),
            writes(11, "west api", A, Change::Deleted, "gw-a", 5),
            fact(secs(11), A, What::Told(Event::Left)),
            fact(secs(20), B, elected(5)),
            writes(20, "west api", B, Change::Created, "gw-b", 5),
        ];
        let watch = |timeline| broken(&mut OneAnnouncer::of(&scenario(timeline, vec![])), &facts, secs(60));
        assert_eq!(watch(left), [""; 0]);
        let stayed = &facts[..3].iter().chain(&facts[4..]).cloned().collect::<Vec<_>>();
        assert_eq!(broken(&mut OneAnnouncer::of(&scenario(vec![], vec![])), stayed, secs(60)).len(), 2);
    }

    #[test]
    fn two_gateways_elected_in_one_epoch_are_caught() {
        let mut facts = takeover();
        facts.push(fact(secs(30), A, elected(6)));
        assert_eq!(watch(&facts), ["west/gw-b gateway and west/gw-a gateway both announce west in epoch 6"]);
    }

    #[test]
    fn a_gateway_that_announces_in_the_epoch_of_another_is_caught() {
        let mut facts = takeover();
        facts.push(writes(30, "west api", A, Change::Created, "gw-a", 6));
        assert_eq!(watch(&facts), ["west/gw-b gateway and west/gw-a gateway both announce west in epoch 6"]);
    }

    #[test]
    fn an_old_write_that_lands_after_a_newer_one_is_caught() {
        let mut facts = takeover();
        facts.push(writes(30, "broker api", A, Change::Created, "gw-a", 5));
        assert_eq!(
            watch(&facts),
            [
                "west/gw-a gateway wrote Endpoint west-submariner-cable-west-gw-a of epoch 5 at the broker api, over epoch 6"
            ]
        );
    }

    #[test]
    fn a_cleanup_of_an_older_term_that_takes_a_newer_record_is_caught() {
        let mut facts = takeover();
        facts.push(writes(30, "west api", A, Change::Deleted, "gw-b", 6));
        assert_eq!(
            watch(&facts),
            [
                "west/gw-a gateway, whose term was epoch 5, deleted Endpoint west-submariner-cable-west-gw-b of epoch 6 at the west api"
            ]
        );
    }

    #[test]
    fn a_cleanup_by_one_that_never_announced_is_caught() {
        let facts = [writes(30, "west api", B, Change::Deleted, "gw-a", 5)];
        assert_eq!(
            watch(&facts),
            [
                "west/gw-b gateway deleted Endpoint west-submariner-cable-west-gw-a of epoch 5 at the west api, and never announced"
            ]
        );
    }

    #[test]
    fn who_gave_back_an_announcement_may_take_it_away_as_its_cluster_leaves_and_not_else() {
        let facts = [
            fact(secs(1), A, elected(5)),
            writes(2, "west api", A, Change::Created, "gw-a", 5),
            writes(30, "west api", B, Change::Created, "gw-a", 5),
            writes(32, "west api", B, Change::Deleted, "gw-a", 5),
        ];
        let leave = crate::rehearsal::act(31, Verb::Leave(crate::rehearsal::cluster("west")));
        let after = |timeline| broken(&mut OneAnnouncer::of(&scenario(timeline, vec![])), &facts, secs(60)).len();
        assert_eq!((after(vec![leave]), after(vec![])), (0, 1));
    }
}
