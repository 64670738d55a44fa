//! What a lease holder announces for its cluster.

use super::addresses::probe_address;
use super::node_side::NodeConfig;
use crate::base::{Epoch, NodeName, Slot};
use crate::model::{Candidate, Candidates, Endpoint, Gateway as Card};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use core::net::IpAddr;

/// The holder's own Endpoint.
pub(super) fn endpoint(config: &NodeConfig, epoch: Epoch, address: IpAddr) -> Endpoint {
    let dashed = address.to_string().replace(['.', ':'], "-");
    Endpoint {
        cluster: config.cluster.clone(),
        cable_name: format!("submariner-cable-{}-{dashed}", config.cluster),
        node: config.node.clone(),
        private_ip: address,
        public_ip: None,
        subnets: config.services.iter().chain(&config.pods).copied().collect(),
        driver: config.driver,
        epoch,
    }
}

/// Gives each candidate a slot: who has one keeps it, powered off or not, as long as its card is there; free slots go
/// to the holder first, then in order of node names. More than four candidates: the rest has none.
pub(super) fn assign_slots(
    config: &NodeConfig,
    epoch: Epoch,
    before: Option<&Candidates>,
    cards: &[&Card],
) -> Candidates {
    let card_of = |node: &NodeName| cards.iter().find(|card| card.node == *node).copied();
    let mut taken: BTreeMap<Slot, &Card> = BTreeMap::new();
    for (slot, candidate) in before.into_iter().flat_map(|before| &before.by_slot) {
        if let Some(card) = card_of(&candidate.node) {
            taken.insert(*slot, card);
        }
    }
    let mut waiting: alloc::vec::Vec<&Card> =
        cards.iter().copied().filter(|card| taken.values().all(|has| has.node != card.node)).collect();
    waiting.sort_by_key(|card| (card.node != config.node, card.node.clone()));
    let free = Slot::all().into_iter().filter(|slot| !taken.contains_key(slot)).collect::<alloc::vec::Vec<_>>();
    taken.extend(free.into_iter().zip(waiting));
    let by_slot = taken
        .into_iter()
        .map(|(slot, card)| {
            let candidate = Candidate {
                node: card.node.clone(),
                address: card.address,
                keys: card.keys.clone(),
                probe: probe_address(&config.cluster, slot),
            };
            (slot, candidate)
        })
        .collect();
    Candidates { cluster: config.cluster.clone(), epoch, by_slot }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{ClusterId, Instant};
    use crate::model::CableDriver;
    use alloc::vec;
    use alloc::vec::Vec;

    fn config(node: &str) -> NodeConfig {
        NodeConfig {
            cluster: ClusterId::new("west").unwrap(),
            node: NodeName::new(node).unwrap(),
            pods: vec!["10.1.0.0/16".parse().unwrap()],
            services: vec!["10.101.0.0/16".parse().unwrap()],
            driver: CableDriver::Wireguard,
            seed: 0,
            boot: Instant::ZERO,
        }
    }

    fn card(node: &str) -> Card {
        Card {
            node: NodeName::new(node).unwrap(),
            address: IpAddr::from([172, 16, 1, 10]),
            keys: vec![],
            active: None,
            reach: BTreeMap::new(),
        }
    }

    fn slots(candidates: &Candidates) -> Vec<(u8, &str)> {
        candidates.by_slot.iter().map(|(slot, c)| (slot.get(), c.node.as_str())).collect()
    }

    #[test]
    fn the_holder_gets_the_first_free_slot_and_the_others_follow_by_name() {
        let (a, b, c) = (card("a"), card("b"), card("c"));
        let given = assign_slots(&config("b"), Epoch(1), None, &[&a, &b, &c]);
        assert_eq!(slots(&given), [(1, "b"), (2, "a"), (3, "c")]);
    }

    #[test]
    fn slots_stay_when_the_holder_changes_or_a_candidate_goes() {
        let (a, b, c) = (card("a"), card("b"), card("c"));
        let first = assign_slots(&config("b"), Epoch(1), None, &[&a, &b, &c]);
        let second = assign_slots(&config("c"), Epoch(2), Some(&first), &[&a, &c]);
        assert_eq!(slots(&second), [(2, "a"), (3, "c")]);
        let third = assign_slots(&config("c"), Epoch(3), Some(&second), &[&a, &c, &card("d")]);
        assert_eq!(slots(&third), [(1, "d"), (2, "a"), (3, "c")]);
    }

    #[test]
    fn a_fifth_candidate_has_no_slot() {
        let cards: Vec<Card> = ["a", "b", "c", "d", "e"].map(card).into();
        let given = assign_slots(&config("e"), Epoch(1), None, &cards.iter().collect::<Vec<_>>());
        assert_eq!(slots(&given), [(1, "e"), (2, "a"), (3, "b"), (4, "c")]);
    }
}
