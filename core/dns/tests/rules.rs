//! Rules of the MCS DNS specification for which the other files have no scene.

use super::*;
use crate::base::Few;
use hickory_proto::op::Message;
use hickory_proto::rr::RData;

const A: RecordKind = RecordKind::A;
const SRV: RecordKind = RecordKind::Srv;
const PTR: RecordKind = RecordKind::Other(12);

fn bytes(table: &Table, name: &str, kind: RecordKind) -> Vec<u8> {
    respond(table, &question(7, name, kind).unwrap(), &mut Picks::default()).unwrap()
}

fn reply(table: &Table, name: &str, kind: RecordKind) -> Message {
    Message::from_vec(&bytes(table, name, kind)).unwrap()
}

#[test]
fn a_port_without_a_name_has_no_name_in_the_zone_and_is_among_those_of_the_service() {
    let mut world = world("east");
    for id in ["east", "north.eu", "west"] {
        world.source_mut(id).ports = vec![port("", 80)];
    }
    assert_eq!(world.ask(WEB, SRV, 1), ["*:80[10.102.0.10]"]);
    assert_eq!(world.ask(&format!("_tcp.{WEB}"), SRV, 1), ["NoSuchName"], "no name is below it");
}

#[test]
fn the_name_servers_name_gives_its_addresses_and_the_zones_ns_record_brings_them_along() {
    let mut world = world("east");
    let (zone, server) = ("ClusterSet.local", "ns.dns.ClusterSet.local");
    assert_eq!(world.ask(server, A, 1), ["NoData"], "nobody said where it is");
    assert_eq!(reply(&world.table(), zone, RecordKind::Ns).additionals, []);
    world.servers = ["192.0.2.53", "2001:db8::53"].map(|address| address.parse().unwrap()).into();
    assert_eq!(world.ask(server, A, 1), ["192.0.2.53"]);
    assert_eq!(world.ask(server, RecordKind::Aaaa, 1), ["2001:db8::53"]);
    assert_eq!(world.ask(server, RecordKind::Txt, 1), ["NoData"]);
    let told = reply(&world.table(), zone, RecordKind::Ns);
    let beside: Vec<String> = told.additionals.iter().map(|r| format!("{} {}", r.name, r.data)).collect();
    assert_eq!(beside, ["ns.dns.ClusterSet.local. 192.0.2.53", "ns.dns.ClusterSet.local. 2001:db8::53"]);
    assert_eq!(told.to_vec().unwrap(), bytes(&world.table(), zone, RecordKind::Ns), "no name is written twice");
}

#[test]
fn a_headless_service_has_an_srv_record_for_each_host_and_port() {
    let mut pods = source(&["10.2.1.5=db-0", "10.2.1.6=db-1"], true);
    pods.ports.push(port("metrics", 9090));
    let world = world("east").with(import("db.shop", ServiceType::Headless, &[("east", pods)]));
    let records = |name: &str| world.ask(name, SRV, 1).remove(0).split(' ').map(String::from).collect::<BTreeSet<_>>();
    let all = |ports: &[u16]| {
        let of =
            |port: &u16| ["0", "1"].map(|n| format!("db-{n}.east:{port}[10.2.1.{}]", 5 + n.parse::<u8>().unwrap()));
        ports.iter().flat_map(of).collect::<BTreeSet<_>>()
    };
    assert_eq!(records(DB), all(&[80, 9090]));
    assert_eq!(records(&format!("_metrics._tcp.{DB}")), all(&[9090]));
}

/// RFC 2782: priority, weight, port, target, and the target is not compressed; an old resolver could not read it (RFC
/// 3597 4).
#[test]
fn an_srv_record_has_its_numbers_in_order_and_its_target_written_out() {
    let name = "_http._tcp.web.shop.svc.clusterset.local";
    let reply = bytes(&world("east").table(), name, SRV);
    let question_ends = 12 + name.len() + 2 + 4;
    let (owner, record) = reply[question_ends..].split_at(2);
    assert_eq!(owner, [0xc0, 12], "the owner is compressed to the question");
    let (head, data) = record.split_at(10);
    let target = [&b"\x03web\x04shop\x03svc\x0aclusterset\x05local\x00"[..]].concat();
    let length = u8::try_from(6 + target.len()).unwrap();
    assert_eq!(head, [0, 33, 0, 1, 0, 0, 0, 5, 0, length]);
    assert_eq!(data[..usize::from(length)], [&[0, 0, 0, 100, 0, 80][..], &target].concat());
}

#[test]
fn a_denial_may_be_cached_for_five_seconds_at_most_and_all_records_of_an_answer_equally_long() {
    let world = headless();
    for (ttl_s, negative_ttl_s) in [(60, 5), (5, 5), (3, 3), (0, 0)] {
        let table = Table::build(Contents {
            zone: &Zone::default(),
            ttl: Duration::from_secs(ttl_s.into()),
            local: &world.local,
            servers: &Few::default(),
            imports: &world.services.iter().map(Service::import).collect::<Vec<_>>(),
            slices: &world.services.iter().flat_map(Service::slices).collect::<Vec<_>>(),
            reach: &world.reach,
            knows: Knows::All,
            serial: 7,
        });
        let ttls = reply(&table, DB, A).answers.iter().map(|record| record.ttl).collect::<Vec<_>>();
        assert_eq!(ttls, [ttl_s; 3]);
        for (name, kind) in [("api.shop.svc.clusterset.local", A), (WEB, RecordKind::Txt)] {
            let said = reply(&table, name, kind);
            let RData::SOA(soa) = &said.authorities[0].data else { panic!("{said:?}") };
            assert_eq!((said.authorities[0].ttl, soa.minimum), (negative_ttl_s, negative_ttl_s), "{name}");
        }
    }
}

#[test]
fn reverse_names_are_not_ours_and_no_name_has_a_pointer() {
    let world = headless();
    assert_eq!(world.ask("10.0.102.10.in-addr.arpa", PTR, 1), ["Refused"]);
    assert_eq!([WEB, DB].map(|name| world.ask(name, PTR, 1).remove(0)), ["NoData", "NoData"]);
}

#[test]
fn a_name_that_exists_is_empty_for_every_type_that_it_has_not() {
    let world = headless();
    let host = format!("10-2-1-5.east.{DB}");
    let names = ["clusterset.local", "svc.clusterset.local", "shop.svc.clusterset.local", WEB, DB, &host];
    // CNAME, MX, HTTPS, DS, and one that nobody has given a meaning.
    for kind in [5, 15, 65, 43, 65_000].map(RecordKind::Other) {
        for name in names {
            assert_eq!(world.ask(name, kind, 1), ["NoData"], "{name} {kind:?}");
        }
    }
}

#[test]
fn a_namespace_without_an_import_does_not_exist() {
    for kind in [A, RecordKind::Aaaa, SRV, RecordKind::Txt] {
        assert_eq!(world("east").ask("store.svc.clusterset.local", kind, 1), ["NoSuchName"], "{kind:?}");
    }
}

#[test]
fn a_port_that_only_some_clusters_have_is_answered_from_those() {
    let mut west = source(&["10.1.1.5=db-0"], true);
    west.ports = vec![port("metrics", 9090)];
    let east = source(&["10.2.1.5=db-0"], true);
    let world = world("east").with(import("db.shop", ServiceType::Headless, &[("east", east), ("west", west)]));
    assert_eq!(world.ask(&format!("_metrics._tcp.{DB}"), SRV, 1), ["db-0.west:9090[10.1.1.5]"]);
}

/// A target of more than 255 octets is no name (RFC 1035 2.3.4).
#[test]
fn a_host_whose_name_would_be_too_long_is_left_out_of_the_services_ports() {
    let long = "a".repeat(63);
    let (service, cluster) = (format!("{long}.{long}"), "c".repeat(63));
    let name = format!("_http._tcp.{service}.svc.clusterset.local");
    let with = |pods: &[&str]| {
        world("east").with(import(&service, ServiceType::Headless, &[(&cluster, source(pods, true))])).table()
    };
    let host = format!("10.2.1.5={}", "h".repeat(63));
    let both = reply(&with(&[&host, "10.2.1.6=db-1"]), &name, SRV);
    assert_eq!((both.answers.len(), both.additionals.len()), (1, 1));
    assert_eq!(both.additionals[0].data.ip_addr(), Some("10.2.1.6".parse().unwrap()));
    let none = reply(&with(&[&host]), &name, SRV);
    assert_eq!((none.answers.len(), none.authorities.len()), (0, 1), "an empty answer carries the SOA");
}
