//! Policy rules. One of ours is two to the kernel, one for each family of addresses.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kernel's vocabulary is open, and much larger than ours")]

use crate::routes;
use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::BTreeMap;
use tombolo_core::network::constants::{ROUTE_PROTOCOL, RULE_FROM_CABLE, RULE_OUT};
use tombolo_core::network::{LinkName, Rule, Table};

const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];

/// Asks for all rules of both families.
pub(crate) fn list() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetRule(RuleMessage::default())
}

/// Our rules by priority; and what removes the copies, and those that are ours and say something else than the others of
/// their priority. Ours are those that bear our protocol number, and those that lead into our tables at our priorities,
/// whoever added them (B21).
pub(crate) fn read(listing: &[RouteNetlinkMessage]) -> (BTreeMap<u32, Rule>, Vec<RouteNetlinkMessage>) {
    let mut found = BTreeMap::<u32, [Vec<(Option<Rule>, &RuleMessage)>; 2]>::new();
    for message in listing {
        let RouteNetlinkMessage::NewRule(message) = message else { continue };
        let Some(family) = FAMILIES.iter().position(|family| *family == message.header.family) else { continue };
        let (priority, rule) = parse(message);
        if is_ours(message, priority, rule.as_ref()) {
            found.entry(priority).or_default()[family].push((rule, message));
        }
    }
    let (mut rules, mut surplus) = (BTreeMap::new(), Vec::new());
    for (priority, families) in found {
        let [v4, v6] = &families;
        let in_both = |rule: &&Rule| v6.iter().any(|(other, _)| other.as_ref() == Some(*rule));
        let rule = v4.iter().filter_map(|(rule, _)| rule.as_ref()).find(in_both).cloned();
        for family in &families {
            let mut kept = false;
            for (one, message) in family {
                if !kept && one.is_some() && *one == rule {
                    kept = true;
                } else {
                    surplus.push(RouteNetlinkMessage::DelRule(bare(message)));
                }
            }
        }
        rules.extend(rule.map(|rule| (priority, rule)));
    }
    (rules, surplus)
}

/// Priority, and the rule if it is one that we could have made.
fn parse(message: &RuleMessage) -> (u32, Option<Rule>) {
    let mut priority = 0;
    let mut rule = Rule { from_link: None, table: Table(message.header.table.into()) };
    let mut plain = message.header.action == RuleAction::ToTable;
    plain &= message.header.src_len == 0 && message.header.dst_len == 0 && message.header.tos == 0;
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Table(number) => rule.table = Table(*number),
            RuleAttribute::Iifname(name) => rule.from_link = Some(LinkName(name.as_str().into())),
            RuleAttribute::SuppressPrefixLen(u32::MAX) | RuleAttribute::Protocol(_) => {}
            _ => plain = false,
        }
    }
    (priority, plain.then_some(rule))
}

fn is_ours(message: &RuleMessage, priority: u32, rule: Option<&Rule>) -> bool {
    let ours = |rule: &Rule| routes::owned(rule.table);
    let marked = message.attributes.contains(&RuleAttribute::Protocol(RouteProtocol::Other(ROUTE_PROTOCOL)));
    marked || (RULE_FROM_CABLE..=RULE_OUT).contains(&priority) && rule.is_some_and(ours)
}

/// What a listing adds to a rule and a request may not say.
fn bare(message: &RuleMessage) -> RuleMessage {
    let mut message = message.clone();
    message.attributes.retain(|attribute| *attribute != RuleAttribute::SuppressPrefixLen(u32::MAX));
    message
}

/// Adds a rule, in both families.
pub(crate) fn add(priority: u32, rule: &Rule) -> [RouteNetlinkMessage; 2] {
    FAMILIES.map(|family| RouteNetlinkMessage::NewRule(about(family, priority, rule)))
}

/// Removes one; if it leads into a table of ours, whoever added it.
pub(crate) fn remove(priority: u32, rule: &Rule) -> [RouteNetlinkMessage; 2] {
    FAMILIES.map(|family| {
        let mut message = about(family, priority, rule);
        if routes::owned(rule.table) {
            message.attributes.retain(|attribute| !matches!(attribute, RuleAttribute::Protocol(_)));
        }
        RouteNetlinkMessage::DelRule(message)
    })
}

fn about(family: AddressFamily, priority: u32, rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    (message.header.family, message.header.action) = (family, RuleAction::ToTable);
    message.attributes = vec![
        RuleAttribute::Priority(priority),
        RuleAttribute::Table(rule.table.0),
        RuleAttribute::Protocol(RouteProtocol::Other(ROUTE_PROTOCOL)),
    ];
    message.attributes.extend(rule.from_link.as_ref().map(|link| RuleAttribute::Iifname(link.to_string())));
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_core::network::constants::{TABLE_FROM_CABLE, TABLE_OUT};

    fn as_listed(messages: impl IntoIterator<Item = RouteNetlinkMessage>) -> Vec<RouteNetlinkMessage> {
        let listed = |message| {
            let RouteNetlinkMessage::NewRule(mut message) = message else { panic!("{message:?}") };
            message.attributes.push(RuleAttribute::SuppressPrefixLen(u32::MAX));
            RouteNetlinkMessage::NewRule(message)
        };
        messages.into_iter().map(listed).collect()
    }

    fn out() -> Rule {
        Rule { from_link: None, table: TABLE_OUT }
    }

    fn by_hand(family: AddressFamily, rule: &Rule, priority: u32) -> RouteNetlinkMessage {
        let mut message = about(family, priority, rule);
        message.attributes.retain(|attribute| !matches!(attribute, RuleAttribute::Protocol(_)));
        RouteNetlinkMessage::NewRule(message)
    }

    #[test]
    fn a_rule_is_read_as_it_is_added() {
        let from = Rule { from_link: Some(LinkName("tb-cable-1".into())), table: TABLE_FROM_CABLE };
        let listing = as_listed([add(7411, &from), add(7430, &out())].concat());
        assert_eq!(read(&listing), ([(7411, from), (7430, out())].into(), vec![]));
    }

    #[test]
    fn copies_are_surplus_whoever_made_them() {
        let mut listing = as_listed([add(7430, &out()), add(7430, &out())].concat());
        listing.push(by_hand(AddressFamily::Inet, &out(), 7430));
        let (rules, surplus) = read(&listing);
        assert_eq!(rules, [(7430, out())].into());
        assert_eq!(surplus.len(), 3);
    }

    #[test]
    fn a_rule_in_one_family_alone_counts_as_missing_and_another_of_its_priority_is_surplus() {
        let other = Rule { from_link: None, table: Table(7499) };
        let [v4, _] = add(7430, &out());
        let [other_v4, other_v6] = add(7430, &other);
        assert_eq!(read(&as_listed([v4.clone()])).0, [].into());
        let (rules, surplus) = read(&as_listed([v4, other_v4, other_v6]));
        assert_eq!(rules, [(7430, other)].into());
        assert_eq!(surplus.len(), 1);
    }

    #[test]
    fn rules_of_others_are_not_read() {
        let main = Rule { from_link: None, table: Table::MAIN };
        let listing = [
            by_hand(AddressFamily::Inet, &main, 32_766),
            by_hand(AddressFamily::Inet, &main, 7430),
            by_hand(AddressFamily::Inet, &out(), 100),
            by_hand(AddressFamily::Unspec, &out(), 7430),
        ];
        assert_eq!(read(&listing), ([].into(), vec![]));
    }
}
