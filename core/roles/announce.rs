//! What a lease holder announces for its cluster.

use super::addresses::probe_address;
use super::node_side::NodeConfig;
use crate::base::{ClusterId, Epoch, NodeName, Slot};
use crate::model::{Candidate, Candidates, Endpoint, Gateway as Card};
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

/// The name of a gateway's cable, which is also its name in NAT discovery.
pub(super) fn cable_name(cluster: &ClusterId, address: IpAddr) -> String {
    format!("submariner-cable-{cluster}-{}", address.to_string().replace(['.', ':'], "-"))
}

/// The holder's own Endpoint, from its card.
pub(super) fn endpoint(config: &NodeConfig, epoch: Epoch, card: &Card) -> Endpoint {
    Endpoint {
        cluster: config.cluster.clone(),
        cable_name: cable_name(&config.cluster, card.address),
        node: config.node.clone(),
        private_ip: card.address,
        public_ip: card.public,
        nat_enabled: card.public.is_some(),
        discovery_port: card.discovery_port,
        subnets: config.services.iter().chain(&config.pods).copied().collect(),
        driver: config.driver,
        epoch,
    }
}

/// Gives each candidate a slot. Who has one keeps it for as long as its node may be a gateway, whether it is powered or not
/// and whether its card is there or not. Free slots go to the holder first, then in order of node names, to those with a
/// card. More than four: who has no card makes room, and the rest has none.
pub(super) fn assign_slots(
    config: &NodeConfig,
    epoch: Epoch,
    before: Option<&Candidates>,
    gateways: &BTreeMap<&NodeName, Option<Cow<'_, Card>>>,
) -> Candidates {
    let card_of = |node: &NodeName| gateways.get(node).and_then(|card| card.as_deref());
    let mut by_slot: BTreeMap<Slot, Candidate> = before
        .into_iter()
        .flat_map(|before| &before.by_slot)
        .filter(|(_, candidate)| gateways.contains_key(&candidate.node))
        .map(|(slot, known)| (*slot, card_of(&known.node).map_or(known.clone(), |card| candidate(config, *slot, card))))
        .collect();
    let has_slot = |node: &NodeName| by_slot.values().any(|candidate| candidate.node == *node);
    let mut waiting: Vec<&Card> =
        gateways.values().filter_map(|card| card.as_deref()).filter(|card| !has_slot(&card.node)).collect();
    waiting.sort_by_key(|card| (card.node != config.node, card.node.clone()));
    for card in waiting {
        let free = Slot::all().into_iter().find(|slot| !by_slot.contains_key(slot));
        let idle = || by_slot.iter().rev().find(|(_, has)| card_of(&has.node).is_none()).map(|(slot, _)| *slot);
        let Some(slot) = free.or_else(idle) else { break };
        by_slot.insert(slot, candidate(config, slot, card));
    }
    Candidates { cluster: config.cluster.clone(), epoch, by_slot }
}

fn candidate(config: &NodeConfig, slot: Slot, card: &Card) -> Candidate {
    Candidate {
        node: card.node.clone(),
        address: card.address,
        public: card.public,
        discovery_port: card.discovery_port,
        keys: card.keys.clone(),
        probe: probe_address(&config.cluster, slot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Instant;
    use crate::model::CableDriver;
    use alloc::vec;

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
            public: None,
            discovery_port: None,
            keys: vec![],
            active: None,
            reach: BTreeMap::new(),
            remarks: BTreeMap::new(),
        }
    }

    /// Slots that node `holder` gives to the nodes, of which those in brackets have no card.
    fn given(holder: &str, before: Option<&Candidates>, nodes: &[&str]) -> Candidates {
        let bare = |node: &&str| node.trim_matches(['(', ')']).to_string();
        let names: Vec<NodeName> = nodes.iter().map(|node| NodeName::new(&bare(node)).unwrap()).collect();
        let cards = nodes.iter().map(|node| (!node.starts_with('(')).then(|| Cow::Owned(card(&bare(node)))));
        assign_slots(&config(holder), Epoch(1), before, &names.iter().zip(cards).collect())
    }

    fn slots(candidates: &Candidates) -> Vec<(u8, &str)> {
        candidates.by_slot.iter().map(|(slot, c)| (slot.get(), c.node.as_str())).collect()
    }

    #[test]
    fn the_holder_gets_the_first_free_slot_and_the_others_follow_by_name() {
        assert_eq!(slots(&given("b", None, &["a", "b", "c"])), [(1, "b"), (2, "a"), (3, "c")]);
    }

    #[test]
    fn slots_stay_when_the_holder_changes_or_a_candidate_goes() {
        let first = given("b", None, &["a", "b", "c"]);
        let second = given("c", Some(&first), &["a", "c"]);
        assert_eq!(slots(&second), [(2, "a"), (3, "c")]);
        let third = given("c", Some(&second), &["a", "c", "d"]);
        assert_eq!(slots(&third), [(1, "d"), (2, "a"), (3, "c")]);
    }

    #[test]
    fn a_slot_stays_while_the_card_of_its_node_is_missing() {
        let first = given("b", None, &["a", "b", "c"]);
        let second = given("c", Some(&first), &["(a)", "(b)", "c"]);
        assert_eq!(second, first);
    }

    #[test]
    fn who_has_no_card_makes_room_for_one_more_candidate() {
        let first = given("a", None, &["a", "b", "c", "d"]);
        let second = given("a", Some(&first), &["a", "(b)", "(c)", "d", "e"]);
        assert_eq!(slots(&second), [(1, "a"), (2, "b"), (3, "e"), (4, "d")]);
    }

    #[test]
    fn a_fifth_candidate_has_no_slot() {
        assert_eq!(slots(&given("e", None, &["a", "b", "c", "d", "e"])), [(1, "e"), (2, "a"), (3, "b"), (4, "c")]);
    }
}
