//! What names give.

use super::*;
use hickory_proto::op::{self, Message, MessageType, OpCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};

#[test]
fn the_own_clusters_address_comes_first_while_it_is_ready() {
    insta::assert_snapshot!(world("east").dig(WEB, RecordKind::A));
    assert_eq!(world("east").ask(WEB, RecordKind::A, 3), ["10.102.0.10"; 3]);
}

#[test]
fn an_own_cluster_that_is_not_ready_gives_way_to_ready_ones_b56() {
    let mut world = world("east");
    world.source_mut("east").ready = false;
    let asked: BTreeSet<String> = world.ask(WEB, RecordKind::A, 4).into_iter().collect();
    assert_eq!(asked, ["10.101.0.10".to_string(), "10.103.0.10".to_string()].into());
    world.source_mut("east").ready = true;
    assert_eq!(world.ask(WEB, RecordKind::A, 1), ["10.102.0.10"]);
}

#[test]
fn other_clusters_take_turns() {
    let asked = world("south").ask(WEB, RecordKind::A, 6);
    assert_eq!(asked[..3], asked[3..], "the same order again");
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), 3, "each once in three");
}

#[test]
fn sockets_begin_at_different_clusters() {
    let table = world("south").table();
    let query = Query::new(WEB, RecordKind::A).unwrap();
    let firsts: BTreeSet<String> =
        (0..20).map(|seed| format!("{:?}", answer(&table, &query, &mut Picks::new(seed)))).collect();
    assert_eq!(firsts.len(), 3);
}

#[test]
fn a_lost_cluster_is_hidden_but_an_unknown_one_is_not() {
    let mut world = world("south").lost("west");
    world.reach.insert(cluster("east"), Reach::Unknown);
    world.reach.insert(cluster("north.eu"), Reach::Connected);
    let asked: BTreeSet<String> = world.ask(WEB, RecordKind::A, 4).into_iter().collect();
    assert_eq!(asked, ["10.102.0.10".to_string(), "10.103.0.10".to_string()].into());
}

#[test]
fn the_own_cluster_is_never_lost_to_itself() {
    assert_eq!(world("east").lost("east").ask(WEB, RecordKind::A, 1), ["10.102.0.10"]);
}

#[test]
fn a_name_with_nothing_healthy_is_there_but_empty() {
    let mut world = world("south").lost("west").lost("north.eu");
    world.source_mut("east").ready = false;
    insta::assert_snapshot!(world.dig(WEB, RecordKind::A));
}

#[test]
fn a_cluster_can_be_asked_by_its_id_of_one_label_or_two() {
    let world = world("east").lost("west");
    insta::assert_snapshot!(
        ["east", "north.eu", "eu", "west", "south", "north"]
            .map(|id| world.dig(&format!("{id}.{WEB}"), RecordKind::A))
            .join("\n")
    );
}

#[test]
fn an_unknown_service_or_namespace_does_not_exist() {
    insta::assert_snapshot!(
        ["api.shop.svc", "web.store.svc", "store.svc", "web.shop.pod", "shop"]
            .map(|name| world("east").dig(&format!("{name}.clusterset.local"), RecordKind::A))
            .join("\n")
    );
}

#[test]
fn a_name_above_existing_names_is_there_but_empty_b61() {
    insta::assert_snapshot!(
        ["shop.svc.clusterset.local", "svc.clusterset.local", "clusterset.local"]
            .map(|name| world("east").dig(name, RecordKind::A))
            .join("\n")
    );
}

#[test]
fn another_family_or_type_is_empty_and_never_a_denial_b61() {
    let mx = RecordKind::Other(15);
    insta::assert_snapshot!(
        [RecordKind::Aaaa, RecordKind::Txt, mx].map(|kind| world("east").dig(WEB, kind)).join("\n")
    );
}

#[test]
fn both_families_are_answered_from_the_same_cluster() {
    let mut world = world("east");
    world.source_mut("east").addresses.push("fd00:102::10".parse().unwrap());
    assert_eq!(world.ask(WEB, RecordKind::A, 1), ["10.102.0.10"]);
    assert_eq!(world.ask(WEB, RecordKind::Aaaa, 1), ["fd00:102::10"]);
    world.source_mut("west").addresses.push("fd00:101::10".parse().unwrap());
    world.source_mut("east").addresses.pop();
    assert_eq!(world.ask(WEB, RecordKind::Aaaa, 1), ["NoData"], "no client is drawn away by the other family");
}

#[test]
fn a_turn_is_not_spent_on_a_cluster_without_that_family() {
    let mut world = world("south");
    world.source_mut("west").addresses = vec!["fd00:101::10".parse().unwrap()];
    assert_eq!(world.ask(WEB, RecordKind::Aaaa, 3), ["fd00:101::10"; 3]);
    assert!(world.ask(WEB, RecordKind::A, 4).iter().all(|a| a.starts_with("10.")));
}

#[test]
fn any_gives_one_of_the_types_that_exist() {
    assert_eq!(world("east").ask(WEB, RecordKind::Any, 1), ["10.102.0.10"]);
    assert_eq!(world("east").ask("clusterset.local", RecordKind::Any, 1), ["Soa"]);
}

#[test]
fn the_zone_tells_its_version_and_authority() {
    insta::assert_snapshot!(
        [("dns-version.clusterset.local", RecordKind::Txt), ("clusterset.local", RecordKind::Soa)]
            .map(|(name, kind)| world("east").dig(name, kind))
            .join("\n")
    );
}

#[test]
fn before_all_views_were_complete_nothing_is_denied_b54() {
    let mut world = world("east");
    world.synced = false;
    insta::assert_snapshot!(
        [WEB, "api.shop.svc.clusterset.local", "example.com"].map(|n| world.dig(n, RecordKind::A)).join("\n")
    );
    assert_eq!(
        answer(&Table::default(), &Query::new(WEB, RecordKind::A).unwrap(), &mut Picks::default()),
        Answer::NotReady
    );
}

#[test]
fn names_outside_the_zone_transfers_and_other_classes_are_refused() {
    let mut chaos = Message::new(7, MessageType::Query, OpCode::Query);
    let mut version = op::Query::query(Name::from_ascii("version.bind.").unwrap(), RecordType::TXT);
    version.set_query_class(DNSClass::CH);
    chaos.add_query(version);
    let world = world("east");
    insta::assert_snapshot!(
        [
            world.dig("web.shop.svc.cluster.local", RecordKind::A),
            world.dig("clusterset.local", RecordKind::Transfer),
            dig(&respond(&world.table(), &chaos.to_vec().unwrap(), &mut Picks::default()).unwrap()),
        ]
        .join("\n")
    );
}

// Headless services.

#[test]
fn a_headless_name_gives_every_ready_address_once_and_another_first_each_time_b58() {
    let asked = headless().ask(DB, RecordKind::A, 3);
    let sorted = |answer: &String| answer.split(' ').map(ToString::to_string).collect::<BTreeSet<_>>();
    for answer in &asked {
        assert_eq!(answer.split(' ').count(), 3);
        assert_eq!(sorted(answer), ["10.1.1.5", "10.2.1.5", "10.2.1.6"].map(ToString::to_string).into());
    }
    let firsts: BTreeSet<_> = asked.iter().filter_map(|answer| answer.split(' ').next()).collect();
    assert_eq!(firsts.len(), 3);
}

#[test]
fn a_headless_name_with_nothing_ready_does_not_exist() {
    let lost = headless().lost("west");
    assert_eq!(lost.ask(&format!("south.{DB}"), RecordKind::A, 1), ["NoSuchName"]);
    assert_eq!(lost.ask(&format!("west.{DB}"), RecordKind::A, 1), ["NoSuchName"]);
    let mut none = lost;
    none.imports[1].sources.remove(&cluster("east"));
    assert_eq!(none.ask(DB, RecordKind::A, 1), ["NoSuchName"]);
    assert_eq!(none.ask(DB, RecordKind::Aaaa, 1), ["NoSuchName"]);
}

#[test]
fn a_headless_name_without_addresses_of_the_family_is_empty() {
    assert_eq!(headless().ask(DB, RecordKind::Aaaa, 1), ["NoData"]);
}

#[test]
fn two_names_that_share_their_letters_do_not_share_addresses_b40() {
    let world = world("south")
        .with(import("a-b.c", ServiceType::ClusterIp, &[("east", source(&["10.102.0.1"], true))]))
        .with(import("a.b-c", ServiceType::ClusterIp, &[("east", source(&["10.102.0.2"], true))]));
    assert_eq!(world.ask("a-b.c.svc.clusterset.local", RecordKind::A, 1), ["10.102.0.1"]);
    assert_eq!(world.ask("a.b-c.svc.clusterset.local", RecordKind::A, 1), ["10.102.0.2"]);
    assert_eq!(world.ask("b.a.c.svc.clusterset.local", RecordKind::A, 1), ["NoSuchName"]);
}

// Tables.

#[test]
fn tables_differ_in_what_they_say_and_not_in_their_number() {
    let one = world("east").table();
    let again = world("east").table().with_serial(8);
    assert!(one.says_the_same_as(&again) && one != again);
    assert!(!one.says_the_same_as(&world("east").lost("west").table()));
    assert_eq!((one.names(), one.serial(), again.serial()), (1, 7, 8));
}

#[test]
fn a_table_changed_service_by_service_is_the_one_built_from_all() {
    let full = world("east").with(import("db.data", ServiceType::Headless, &[("west", source(&["10.1.1.5"], true))]));
    let one = world("east").table();
    let grown = one.with_service(&key("db.data"), full.imports.last(), &full.local, &full.reach);
    assert_eq!(grown, full.table());
    assert_eq!(
        grown.with_service(&key("db.data"), None, &full.local, &full.reach),
        one,
        "its namespace is gone as well"
    );
}
