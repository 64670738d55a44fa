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
    world.source_mut("east").endpoints.push("fd00:102::10".into());
    assert_eq!(world.ask(WEB, RecordKind::A, 1), ["10.102.0.10"]);
    assert_eq!(world.ask(WEB, RecordKind::Aaaa, 1), ["fd00:102::10"]);
    world.source_mut("west").endpoints.push("fd00:101::10".into());
    world.source_mut("east").endpoints.pop();
    assert_eq!(world.ask(WEB, RecordKind::Aaaa, 1), ["NoData"], "no client is drawn away by the other family");
}

#[test]
fn a_turn_is_not_spent_on_a_cluster_without_that_family() {
    let mut world = world("south");
    world.source_mut("west").endpoints = vec!["fd00:101::10".into()];
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
        [
            ("dns-version.clusterset.local", RecordKind::Txt),
            ("clusterset.local", RecordKind::Soa),
            ("clusterset.local", RecordKind::Ns),
            ("ns.dns.clusterset.local", RecordKind::A),
        ]
        .map(|(name, kind)| world("east").dig(name, kind))
        .join("\n")
    );
}

#[test]
fn before_all_views_were_complete_nothing_is_denied_b54() {
    let mut world = world("east");
    world.knows = Knows::Nothing;
    insta::assert_snapshot!(
        [WEB, "api.shop.svc.clusterset.local", "example.com"].map(|n| world.dig(n, RecordKind::A)).join("\n")
    );
    assert_eq!(
        answer(&Table::default(), &Query::new(WEB, RecordKind::A).unwrap(), &mut Picks::default()),
        Answer::NotReady
    );
}

#[test]
fn while_names_may_be_lacking_those_that_are_here_are_answered_and_no_other_is_denied() {
    let mut world = world("east");
    world.knows = Knows::Some;
    let host = format!("no-host.west.{WEB}");
    insta::assert_snapshot!(
        [WEB, "api.shop.svc.clusterset.local", "api.bank.svc.clusterset.local", &host, "shop.svc.clusterset.local"]
            .map(|n| world.dig(n, RecordKind::A))
            .join("\n")
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
    let mut unready = headless();
    unready.services[1].sources.values_mut().for_each(|source| source.ready = false);
    assert_eq!(unready.ask(DB, RecordKind::A, 1), ["NoSuchName"], "its pods are there, and not ready");
    let mut none = lost;
    none.services[1].sources.remove("east");
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

// Services with ports, and hosts.

const HTTP: &str = "_http._tcp.web.shop.svc.clusterset.local";

#[test]
fn each_named_port_has_an_srv_record_that_points_to_the_service() {
    insta::assert_snapshot!(
        [world("east").dig(HTTP, RecordKind::Srv), world("east").dig(WEB, RecordKind::Srv)].join("\n")
    );
    assert_eq!(world("east").ask(HTTP, RecordKind::A, 1), ["NoData"]);
    assert_eq!(world("east").ask(HTTP, RecordKind::Any, 1), ["*:80[10.102.0.10]"]);
}

#[test]
fn a_port_leads_to_clusters_that_have_it_and_no_further() {
    let mut world = world("south");
    world.source_mut("west").ports = vec![port("metrics", 9090)];
    let metrics = "_metrics._tcp.web.shop.svc.clusterset.local";
    assert_eq!(world.ask(metrics, RecordKind::Srv, 3), ["*:9090[10.101.0.10]"; 3]);
    let http: BTreeSet<String> = world.ask(HTTP, RecordKind::Srv, 4).into_iter().collect();
    assert_eq!(http, ["*:80[10.102.0.10]".to_string(), "*:80[10.103.0.10]".to_string()].into());
    assert_eq!(world.lost("west").ask(metrics, RecordKind::Srv, 1), ["NoData"], "the name is there, nothing healthy");
}

#[test]
fn a_port_of_one_cluster_can_be_asked_for() {
    let world = world("east");
    let of = |cluster: &str| world.ask(&format!("_http._tcp.{cluster}.{WEB}"), RecordKind::Srv, 1).remove(0);
    assert_eq!(of("west"), "west:80[10.101.0.10]");
    assert_eq!(of("north.eu"), "north.eu:80[10.103.0.10]");
    assert_eq!(of("south"), "NoSuchName");
    assert_eq!(world.ask(&format!("west.{WEB}"), RecordKind::Srv, 1), ["west:80[10.101.0.10]"]);
}

#[test]
fn an_unknown_port_does_not_exist_but_what_is_between_names_does() {
    let world = world("east");
    let ask = |name: &str| world.ask(&format!("{name}.{WEB}"), RecordKind::Srv, 1).remove(0);
    assert_eq!(["_tcp", "_tcp.west"].map(ask), ["NoData", "NoData"]);
    assert_eq!(["_udp", "_web._tcp", "_http._udp", "_http"].map(ask), ["NoSuchName"; 4]);
}

fn stateful() -> World {
    world("east").with(import(
        "db.shop",
        ServiceType::Headless,
        &[
            ("east", source(&["10.2.1.5=db-0", "fd00:2::5=db-0", "10.2.1.6=db-1"], true)),
            ("north.eu", source(&["10.3.1.5=db-0", "10.3.1.6", "fd00:3::"], true)),
        ],
    ))
}

#[test]
fn each_host_of_a_headless_service_has_a_name_and_srv_records_point_to_it_b55() {
    let world = stateful();
    insta::assert_snapshot!(world.dig(&format!("_http._tcp.{DB}"), RecordKind::Srv));
    let request = question(7, &format!("_http._tcp.{DB}"), RecordKind::Srv).unwrap();
    let reply = Message::from_vec(&respond(&world.table(), &request, &mut Picks::default()).unwrap()).unwrap();
    assert_eq!(reply.answers.len(), 5);
    for record in &reply.answers {
        let hickory_proto::rr::RData::SRV(srv) = &record.data else { panic!("{record}") };
        let of = |kind| world.ask(&srv.target.to_utf8(), kind, 1).remove(0);
        let told = reply.additionals.iter().filter(|a| a.name == srv.target).map(|a| a.data.ip_addr().unwrap());
        let found = [of(RecordKind::A), of(RecordKind::Aaaa)].into_iter().filter(|answer| answer != "NoData");
        let told: BTreeSet<String> = told.map(|address| address.to_string()).collect();
        assert_eq!(told, found.collect::<BTreeSet<_>>(), "{}, asked literally", srv.target);
    }
}

#[test]
fn equal_hosts_of_two_clusters_have_different_names() {
    let ask = |name: &str, kind| stateful().ask(&format!("{name}.{DB}"), kind, 1).remove(0);
    assert_eq!(ask("db-0.east", RecordKind::A), "10.2.1.5");
    assert_eq!(ask("db-0.east", RecordKind::Aaaa), "fd00:2::5");
    assert_eq!(ask("db-0.north.eu", RecordKind::A), "10.3.1.5");
    assert_eq!(ask("db-1.east", RecordKind::Aaaa), "NoData");
    assert_eq!(ask("db-2.east", RecordKind::A), "NoSuchName");
}

#[test]
fn a_host_without_a_name_is_called_by_its_address() {
    let ask = |name: &str, kind| stateful().ask(&format!("{name}.{DB}"), kind, 1).remove(0);
    assert_eq!(ask("10-3-1-6.north.eu", RecordKind::A), "10.3.1.6");
    assert_eq!(ask("fd00-3--0.north.eu", RecordKind::Aaaa), "fd00:3::");
}

#[test]
fn two_pods_that_share_a_host_name_are_both_answered() {
    let world = world("east").with(import(
        "db.shop",
        ServiceType::Headless,
        &[("east", source(&["10.2.1.5=db", "10.2.1.6=db"], true))],
    ));
    assert_eq!(world.ask(&format!("db.east.{DB}"), RecordKind::A, 1), ["10.2.1.5 10.2.1.6"]);
}

#[test]
fn what_does_not_fit_beside_the_answer_is_left_out_without_a_word() {
    let many: Vec<String> = (0..14).map(|i| format!("10.2.1.{i}=a-rather-long-host-name-{i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let world = world("east").with(import("db.shop", ServiceType::Headless, &[("east", source(&many, true))]));
    let request = question(7, &format!("_http._tcp.{DB}"), RecordKind::Srv).unwrap();
    let reply = Message::from_vec(&respond(&world.table(), &request, &mut Picks::default()).unwrap()).unwrap();
    assert_eq!((reply.answers.len(), reply.metadata.truncation), (14, false));
    assert!(reply.additionals.len() < 14);
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
    let (db, slices) = (full.services[1].import(), full.services[1].slices());
    let grown = one.with_service(&db.key, Some(&db), &slices, &full.local, &full.reach);
    assert_eq!(grown, full.table());
    let again = grown.with_service(&db.key, None, &[], &full.local, &full.reach);
    assert_eq!(again, one, "its namespace is gone as well");
}
