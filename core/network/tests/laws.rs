//! The laws of plans.

use super::drawn::{cases, network};
use crate::network::{Entry, Item, Network, Stay, Wanted, leans_on, plan};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use proptest::prelude::*;

fn wanted(network: Network) -> Wanted {
    let because = network.entries().map(|entry| (entry.item(), format!("{entry} is tested"))).collect();
    Wanted { network, because, ..Wanted::default() }
}

/// What `entry`, which stands in `now`, leans on and does not find there as it should be.
fn unheld(entry: &Entry, now: &Network, desired: &Network, observed: &Network) -> Vec<Item> {
    let item = entry.item();
    let wanted = desired.entry(&item).as_ref() == Some(entry);
    let was = observed.entry(&item).as_ref() == Some(entry);
    let (after, before) = (leans_on(entry, desired), leans_on(entry, observed));
    let needed: Vec<_> = match (wanted, was) {
        (true, true) => after.into_iter().filter(|item| before.contains(item)).collect(),
        (true, false) => after,
        (false, true) => before,
        (false, false) => panic!("{entry} is in neither network"),
    };
    let held = leans_on(entry, now);
    needed.into_iter().filter(|item| !held.contains(item)).collect()
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_plan_to_what_is_already_there_is_empty(there in network()) {
        prop_assert!(plan(&wanted(there.clone()), &there).is_empty());
    }

    #[test]
    fn an_applied_plan_gives_what_is_desired(desired in network(), observed in network()) {
        let mut now = observed.clone();
        plan(&wanted(desired.clone()), &observed).apply(&mut now);
        prop_assert_eq!(now, desired);
    }

    #[test]
    fn adopting_takes_nothing_away_and_leaves_what_is_undecided(
        desired in network(), observed in network(), undecided: u64, adopting: bool
    ) {
        let items = desired.entries().chain(observed.entries()).map(|entry| entry.item()).enumerate();
        let undecided = items.filter(|(i, _)| undecided >> (i % 64) & 1 == 1).map(|(_, item)| item).collect();
        let wanted = Wanted { adopting, undecided, ..wanted(desired.clone()) };
        let mut now = observed.clone();
        plan(&wanted, &observed).apply(&mut now);
        for entry in observed.entries().chain(desired.entries()) {
            let item = entry.item();
            let (was, wish) = (observed.entry(&item), desired.entry(&item));
            let expected = match (wanted.undecided.contains(&item), adopting) {
                (true, _) => was.or(wish),
                (false, true) => wish.or(was),
                (false, false) => wish,
            };
            prop_assert_eq!(now.entry(&item), expected);
        }
        prop_assert!(plan(&wanted, &now).is_empty());
    }

    #[test]
    fn a_peer_that_may_be_right_where_it_is_stays_there_and_nothing_else_does(
        desired in network(), observed in network(), staying: u64, anywhere: u64
    ) {
        let ids = desired.peers.keys().chain(observed.peers.keys()).enumerate();
        let staying = ids.filter(|(i, _)| staying >> (i % 64) & 1 == 1).map(|(i, id)| {
            let other = observed.peers.values().nth(i % 2).map(|peer| Stay::At(peer.endpoint));
            (id.clone(), if anywhere >> (i % 64) & 1 == 1 { Stay::Anywhere } else { other.unwrap_or(Stay::Anywhere) })
        });
        let wanted = Wanted { stays: staying.collect(), ..wanted(desired.clone()) };
        let mut now = observed.clone();
        plan(&wanted, &observed).apply(&mut now);
        for (id, peer) in &mut now.peers {
            let there = observed.peers.get(id).map(|peer| peer.endpoint);
            match (wanted.stays.get(id), there) {
                (Some(Stay::Anywhere), Some(there)) => prop_assert_eq!(peer.endpoint, there),
                (Some(Stay::At(at)), Some(there)) if *at == there => prop_assert_eq!(peer.endpoint, there),
                (Some(_) | None, _) => prop_assert_eq!(peer.endpoint, desired.peers[id].endpoint),
            }
            peer.endpoint = desired.peers[id].endpoint;
        }
        prop_assert_eq!(&now, &desired);
    }

    #[test]
    fn after_no_step_does_an_item_lack_what_it_leans_on(desired in network(), observed in network()) {
        let plan = plan(&wanted(desired.clone()), &observed);
        let mut now = observed.clone();
        for (i, step) in plan.steps().iter().enumerate() {
            step.apply(&mut now);
            for entry in now.entries() {
                let unheld = unheld(&entry, &now, &desired, &observed);
                prop_assert!(unheld.is_empty(), "after step {}: {entry} lacks {unheld:?}\n{plan}", i + 1);
            }
        }
    }

    #[test]
    fn the_order_of_events_does_not_matter(desired in network(), observed in network(), seed in any::<u64>()) {
        let mut entries: Vec<_> = desired.entries().collect();
        let mut rng = crate::base::Rng::new(seed);
        entries.sort_by_cached_key(|_| rng.bits());
        let mut shuffled = Network::default();
        entries.into_iter().for_each(|entry| shuffled.put(entry));
        let left = plan(&wanted(desired), &observed);
        prop_assert_eq!(left.to_string(), plan(&wanted(shuffled), &observed).to_string());
    }

    #[test]
    fn a_plan_touches_each_item_once_unless_it_is_made_anew(desired in network(), observed in network()) {
        let plan = plan(&wanted(desired), &observed);
        let mut touched = BTreeMap::<_, usize>::new();
        for step in plan.steps() {
            *touched.entry(step.action.entry().item()).or_default() += 1;
        }
        let anew = plan.steps().iter().filter(|step| step.because == "it is made anew").count();
        prop_assert_eq!(touched.values().filter(|times| **times == 2).count(), anew);
        prop_assert!(touched.values().all(|times| *times <= 2));
    }
}
