//! What the sockets get, and when.

use super::*;
use crate::base::laws::{Subject, prove};
use crate::base::{Epoch, Few, Label, NodeName, Rng, drain};
use crate::dns::{Answer, Picks, Query, RecordKind, answer};
use crate::model::{
    Digest, ExportSummary, Families, Family, Offer, Port, Protocol, ServiceType, SourceEndpoint, SourceSlice, Version,
};
use crate::sync::ABSENCE;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use alloc::{format, string::ToString};
use proptest::prelude::*;

const WEB: &str = "web.shop.svc.clusterset.local";

fn cluster(text: &str) -> ClusterId {
    ClusterId::new(text).unwrap()
}

fn key(name: &str) -> ServiceKey {
    ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new(name).unwrap() }
}

fn import(name: &str, sources: &[&str]) -> Object {
    Object::from(Import {
        key: key(name),
        offer: Arc::new(Offer::new(ServiceType::ClusterIp, Few::default(), Families::default())),
        sources: sources.iter().map(|id| (cluster(id), Wall::default())).collect(),
    })
}

fn slice(name: &str, id: &str, address: &str, ready: bool) -> Object {
    Object::from(SourceSlice {
        cluster: cluster(id),
        key: key(name),
        family: Family::V4,
        number: 0,
        endpoints: [SourceEndpoint { address: address.parse().unwrap(), hostname: None, ready }].into(),
        ports: Few::default(),
    })
}

/// An import of east's, and where it is found.
fn service(name: &str, address: &str) -> Vec<Object> {
    vec![import(name, &["east"]), slice(name, "east", address, true)]
}

fn web() -> Vec<Object> {
    service("web", "10.102.0.10")
}

fn gateway(node: &str, active: Option<u64>, reach: &[(&str, Reach)]) -> Object {
    Object::from(Gateway {
        node: NodeName::new(node).unwrap(),
        address: "192.0.2.1".parse().unwrap(),
        public: None,
        discovery_port: None,
        keys: vec![],
        active: active.map(Epoch),
        reach: reach.iter().map(|(id, reach)| (cluster(id), *reach)).collect(),
        remarks: [].into(),
    })
}

fn machine() -> Dns {
    Dns::new(cluster("west"), Zone::default(), Duration::from_secs(5), ["192.0.2.53".parse().unwrap()].into())
}

/// Feeds `event` and gives the table that comes of it.
fn feed(dns: &mut Dns, event: WatchEvent) -> Option<Arc<Table>> {
    handle(dns, Input::Watched(Api::Local, event))
}

fn handle(dns: &mut Dns, input: Input) -> Option<Arc<Table>> {
    dns.handle(input, Instant::ZERO);
    let outputs = drain(dns);
    assert!(outputs.len() <= 1, "one change, one table at most: {outputs:?}");
    outputs.into_iter().next().map(|output| {
        let Output::Dns(table) = output else { panic!("{output:?}") };
        table
    })
}

fn apply(dns: &mut Dns, object: Object) -> Option<Arc<Table>> {
    feed(dns, WatchEvent::Applied(object, Version("1".into())))
}

/// Feeds a complete listing of `kind`.
fn list(dns: &mut Dns, kind: Kind, objects: &[Object]) -> Option<Arc<Table>> {
    let begun = feed(dns, WatchEvent::Began(kind));
    assert_eq!(begun, None, "the beginning of a listing changes nothing");
    let mut last = None;
    for object in objects {
        last = apply(dns, object.clone()).or(last);
    }
    feed(dns, WatchEvent::Synced(kind)).or(last)
}

/// Shows all `objects`, and gives the last table that comes of it.
fn apply_all(dns: &mut Dns, objects: Vec<Object>) -> Option<Arc<Table>> {
    objects.into_iter().fold(None, |last, object| apply(dns, object).or(last))
}

/// What the cluster's discovery says when all it imports is there: just these.
fn says_all(generation: u64, services: &[Vec<Object>]) -> Object {
    let keys: Vec<Key> = services.iter().flatten().map(Object::key).collect();
    Object::from(ExportSummary { cluster: cluster("west"), generation, digest: keys.iter().collect() })
}

/// Feeds complete listings of imports and slices.
fn list_services(dns: &mut Dns, services: &[Vec<Object>]) -> Option<Arc<Table>> {
    let of = |kind| services.iter().flatten().filter(|o| o.kind() == kind).cloned().collect::<Vec<_>>();
    let first = list(dns, Kind::Import, &of(Kind::Import));
    list(dns, Kind::SourceSlice, &of(Kind::SourceSlice)).or(first)
}

/// A machine whose views are complete, and the table it gave.
fn ready(services: &[Vec<Object>], gateways: &[Object]) -> (Dns, Arc<Table>) {
    let mut dns = machine();
    drain(&mut dns);
    list_services(&mut dns, services);
    list(&mut dns, Kind::ExportSummary, &[says_all(7, services)]);
    let table = list(&mut dns, Kind::Gateway, gateways).unwrap();
    (dns, table)
}

fn says(table: &Table, name: &str) -> String {
    match answer(table, &Query::new(name, RecordKind::A).unwrap(), &mut Picks::default()) {
        Answer::Records(records) => format!("{records:?}"),
        empty @ (Answer::NoData | Answer::NoSuchName | Answer::NotReady | Answer::Refused) => format!("{empty:?}"),
    }
}

const EAST: &str = "[Address(10.102.0.10)]";

#[test]
fn the_sockets_begin_with_a_table_that_says_not_yet() {
    let outputs = drain(&mut machine());
    let [Output::Dns(table)] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(says(table, WEB), "NotReady");
}

#[test]
fn answers_begin_when_all_listings_are_complete_b54() {
    let mut dns = machine();
    drain(&mut dns);
    assert_eq!(list_services(&mut dns, &[web()]), None);
    assert_eq!(list(&mut dns, Kind::ExportSummary, &[]), None);
    assert_eq!(apply(&mut dns, gateway("gw-a", Some(1), &[])), None);
    let table = feed(&mut dns, WatchEvent::Synced(Kind::Gateway)).unwrap();
    assert_eq!(says(&table, WEB), EAST);
}

#[test]
fn a_name_is_denied_once_discovery_has_said_that_all_is_there() {
    const API: &str = "api.shop.svc.clusterset.local";
    let mut dns = machine();
    drain(&mut dns);
    list_services(&mut dns, &[web()]);
    list(&mut dns, Kind::ExportSummary, &[]);
    let table = list(&mut dns, Kind::Gateway, &[]).unwrap();
    assert_eq!(says(&table, API), "NotReady", "the API may have been emptied just before");
    let other = ExportSummary { cluster: cluster("east"), generation: 7, digest: Digest::EMPTY };
    assert_eq!(apply(&mut dns, Object::from(other)), None, "that is not the own discovery");
    assert_eq!(apply(&mut dns, says_all(0, &[])), None, "it was put back before all it speaks for");
    let table = apply(&mut dns, says_all(0, &[web()])).unwrap();
    assert_eq!((says(&table, API).as_str(), says(&table, WEB).as_str()), ("NoSuchName", EAST));
    assert_eq!(list(&mut dns, Kind::ExportSummary, &[]), None, "what was known is not forgotten");
}

#[test]
fn a_cluster_that_the_active_gateway_has_lost_is_hidden_until_it_is_reached_again() {
    let (mut dns, table) = ready(&[web()], &[gateway("gw-a", Some(1), &[("east", Reach::Connected)])]);
    assert_eq!(says(&table, WEB), EAST);
    let table = apply(&mut dns, gateway("gw-a", Some(1), &[("east", Reach::Lost)])).unwrap();
    assert_eq!(says(&table, WEB), "NoData");
    let table = apply(&mut dns, gateway("gw-a", Some(1), &[("east", Reach::Connected)])).unwrap();
    assert_eq!(says(&table, WEB), EAST);
}

#[test]
fn of_two_active_gateways_the_one_with_the_higher_epoch_decides() {
    let old = gateway("gw-z", Some(3), &[("east", Reach::Lost)]);
    let new = gateway("gw-a", Some(4), &[("east", Reach::Connected)]);
    let (_, table) = ready(&[web()], &[old, new]);
    assert_eq!(says(&table, WEB), EAST);
}

#[test]
fn without_an_active_gateway_nothing_is_known_and_nothing_hidden() {
    let lost = [("east", Reach::Lost)];
    let (mut dns, table) = ready(&[web()], &[gateway("gw-a", Some(1), &lost), gateway("gw-b", None, &lost)]);
    assert_eq!(says(&table, WEB), "NoData");
    let table = apply(&mut dns, gateway("gw-a", None, &lost)).unwrap();
    assert_eq!(says(&table, WEB), EAST);
}

#[test]
fn the_own_clusters_readiness_is_that_of_its_source() {
    let own = |ready| slice("web", "west", "10.101.0.10", ready);
    let both = vec![import("web", &["east", "west"]), slice("web", "east", "10.102.0.10", true), own(true)];
    let (mut dns, table) = ready(&[both], &[]);
    assert_eq!(says(&table, WEB), "[Address(10.101.0.10)]");
    let table = apply(&mut dns, own(false)).unwrap();
    assert_eq!(says(&table, WEB), EAST);
    let table = feed(&mut dns, WatchEvent::Deleted(slice("web", "east", "10.102.0.10", true).key())).unwrap();
    assert_eq!(says(&table, WEB), "NoData");
}

#[test]
fn a_slice_of_a_cluster_that_is_no_source_says_nothing_until_it_is_one() {
    let (mut dns, _) = ready(&[vec![slice("web", "east", "10.102.0.10", true)]], &[]);
    assert_eq!(apply(&mut dns, slice("web", "north", "10.103.0.10", true)), None);
    let table = apply(&mut dns, import("web", &["east"])).unwrap();
    assert_eq!(says(&table, WEB), EAST);
    assert_eq!(says(&table, &format!("north.{WEB}")), "NoSuchName");
}

#[test]
fn what_changes_no_answer_gives_no_table() {
    let reach = [("east", Reach::Connected)];
    let (mut dns, _) = ready(&[web()], &[gateway("gw-a", Some(1), &reach)]);
    assert_eq!(apply_all(&mut dns, web()), None);
    assert_eq!(apply(&mut dns, gateway("gw-b", None, &[("east", Reach::Lost)])), None);
    assert_eq!(apply(&mut dns, gateway("gw-a", Some(2), &reach)), None);
    assert_eq!(list_services(&mut dns, &[web()]), None);
    assert_eq!(handle(&mut dns, Input::Wall(Wall::from_unix_secs(5))), None);
}

#[test]
fn what_a_new_listing_lacks_is_gone_when_it_is_complete_and_that_has_lasted_b48() {
    let api = service("api", "10.102.0.11");
    let (mut dns, _) = ready(&[web(), api.clone()], &[]);
    assert_eq!(list_services(&mut dns, core::slice::from_ref(&api)), None);
    assert_eq!(apply(&mut dns, says_all(8, &[api])), None);
    let (at, why) = dns.poll_timeout().unwrap();
    assert_eq!((at, why), (Instant::ZERO + ABSENCE, DnsWake::Absence));
    dns.handle_timeout(at);
    let Some(Output::Dns(table)) = drain(&mut dns).pop() else { panic!("no table") };
    assert_eq!(says(&table, WEB), "NoSuchName");
    assert_eq!(says(&table, "api.shop.svc.clusterset.local"), "[Address(10.102.0.11)]");
}

#[test]
fn an_api_that_lost_its_data_and_gets_it_back_changes_no_answer() {
    let (mut dns, _) = ready(&[web()], &[gateway("gw-a", Some(1), &[("east", Reach::Connected)])]);
    assert_eq!(list_services(&mut dns, &[]), None);
    assert_eq!(list(&mut dns, Kind::Gateway, &[]), None);
    assert_eq!(apply(&mut dns, gateway("gw-a", Some(2), &[])), None);
    assert_eq!(apply_all(&mut dns, web()), None);
    assert_eq!(dns.poll_timeout(), None);
}

/// An import is created, and says whose it is in a second write.
#[test]
fn an_import_that_does_not_say_yet_whose_it_is_changes_no_answer() {
    let (mut dns, table) = ready(&[web()], &[]);
    assert_eq!(list(&mut dns, Kind::Import, &[import("web", &[])]), None);
    assert_eq!(apply(&mut dns, import("web", &[])), None);
    assert_eq!(apply(&mut dns, import("api", &[])), None);
    assert_eq!(says(&table, WEB), "[Address(10.102.0.10)]");
    let table = apply_all(&mut dns, service("api", "10.102.0.11")).unwrap();
    assert_eq!(says(&table, "api.shop.svc.clusterset.local"), "[Address(10.102.0.11)]");
    assert_eq!(says(&table, WEB), "[Address(10.102.0.10)]");
}

#[test]
fn an_api_that_lost_its_data_hides_nothing_until_discovery_has_said_that_all_is_there() {
    let (mut dns, _) = ready(&[web()], &[]);
    assert_eq!(list_services(&mut dns, &[]), None);
    assert_eq!(list(&mut dns, Kind::ExportSummary, &[]), None);
    let at = |wait: Duration| Instant::ZERO + wait;
    dns.handle_timeout(at(ABSENCE));
    assert_eq!(drain(&mut dns), [], "discovery is away: who knows?");
    // What it said in the backup that somebody restored is not its last word.
    let hears = |dns: &mut Dns, generation, wait| {
        let word = WatchEvent::Applied(says_all(generation, &[]), Version(generation.to_string().as_str().into()));
        dns.handle(Input::Watched(Api::Local, word), at(wait));
        let early = drain(dns);
        dns.handle_timeout(at(wait + ABSENCE));
        (early, drain(dns))
    };
    assert_eq!(hears(&mut dns, 6, ABSENCE * 2), (vec![], vec![]));
    let (early, late) = hears(&mut dns, 8, ABSENCE * 4);
    assert_eq!(early, [], "what it brings back may yet be on its way");
    let [Output::Dns(table)] = late.as_slice() else { panic!("{late:?}") };
    assert_eq!(says(table, WEB), "NoSuchName");
}

#[test]
fn a_word_about_other_names_than_the_api_shows_says_nothing_of_what_it_lacks() {
    // It was put back by one who had not seen yet that all the rest is lost, too.
    let (mut dns, _) = ready(&[web()], &[]);
    assert_eq!(list_services(&mut dns, &[]), None);
    assert_eq!(apply(&mut dns, says_all(8, &[web()])), None);
    dns.handle_timeout(Instant::ZERO + ABSENCE);
    assert_eq!(drain(&mut dns), []);
    assert_eq!(apply(&mut dns, says_all(9, &[])), None);
    let (at, _) = dns.poll_timeout().unwrap();
    dns.handle_timeout(at);
    assert_eq!(drain(&mut dns).len(), 1);
}

#[test]
fn the_serial_number_follows_the_clock_and_never_goes_back() {
    let (mut dns, first) = ready(&[], &[]);
    handle(&mut dns, Input::Wall(Wall::from_unix_secs(1_000)));
    let second = apply(&mut dns, import("web", &["east"])).unwrap();
    handle(&mut dns, Input::Wall(Wall::from_unix_secs(10)));
    let third = feed(&mut dns, WatchEvent::Deleted(import("web", &[]).key())).unwrap();
    assert_eq!((first.serial(), second.serial(), third.serial()), (1, 1_000, 1_001));
}

#[test]
fn it_falls_silent_when_stopped() {
    let (mut dns, _) = ready(&[], &[]);
    assert_eq!(handle(&mut dns, Input::Stop), None);
    assert_eq!(apply_all(&mut dns, web()), None);
}

/// Draws things that a watch may show, of a few imports, slices and gateways, and discovery's word.
fn any_event(rng: &mut Rng) -> WatchEvent {
    let kinds = [Kind::Gateway, Kind::Import, Kind::SourceSlice];
    let kind = kinds.get(usize::try_from(rng.below(10)).unwrap() / 3).copied().unwrap_or(Kind::ExportSummary);
    match rng.below(8) {
        0 => WatchEvent::Began(kind),
        1 | 2 => WatchEvent::Synced(kind),
        3 => WatchEvent::Deleted(any_object(rng, kind).key()),
        _ => WatchEvent::Applied(any_object(rng, kind), Version(rng.below(9).to_string().as_str().into())),
    }
}

#[test]
fn the_address_of_the_name_server_is_in_each_table() {
    let (mut dns, table) = ready(&[], &[]);
    let grown = apply_all(&mut dns, web()).unwrap();
    for table in [table, grown] {
        assert_eq!(says(&table, "ns.dns.clusterset.local"), "[Address(192.0.2.53)]");
    }
}

#[test]
fn slices_with_the_ports_of_their_import_share_them_whichever_comes_first() {
    let port = || Port { name: None, protocol: Protocol::Tcp, port: 80, app_protocol: None };
    let offer = Arc::new(Offer::new(ServiceType::ClusterIp, [port()].into(), Families::default()));
    let sources = [(cluster("east"), Wall::default())].into();
    let import = Object::from(Import { key: key("web"), offer, sources });
    let Object::SourceSlice(slice) = slice("web", "east", "10.102.0.10", true) else { panic!("no slice") };
    let slice = Object::from(SourceSlice { ports: [port()].into(), ..SourceSlice::clone(&slice) });
    for order in [[&import, &slice], [&slice, &import]] {
        let mut dns = machine();
        for object in order {
            apply(&mut dns, object.clone());
        }
        let kept = dns.index.get(Api::Local, &slice.key()).unwrap();
        assert_eq!(kept, &slice);
        assert!(as_slice(kept).unwrap().ports.is_the_same_as(&dns.import(&key("web")).unwrap().offer.ports));
    }
}

fn any_object(rng: &mut Rng, kind: Kind) -> Object {
    let clusters = ["east", "west", "north.eu"];
    let of = |rng: &mut Rng| clusters[usize::try_from(rng.below(3)).unwrap()];
    if kind == Kind::ExportSummary {
        says_all(rng.below(3), &[])
    } else if kind == Kind::Gateway {
        let reach = [Reach::Connected, Reach::Unknown, Reach::Lost][usize::try_from(rng.below(3)).unwrap()];
        let node = ["gw-a", "gw-b"][usize::try_from(rng.below(2)).unwrap()];
        let active = rng.chance(700_000).then(|| rng.below(3));
        gateway(node, active, &[(of(rng), reach), ("east", Reach::Lost)])
    } else {
        let name = ["web", "api", "db"][usize::try_from(rng.below(3)).unwrap()];
        if kind == Kind::Import {
            import(name, &[of(rng), "west"])
        } else {
            slice(name, of(rng), "10.102.0.10", rng.chance(700_000))
        }
    }
}

proptest! {
    #[test]
    fn deciding_what_is_touched_gives_the_same_as_deciding_everything(seed: u64, steps in 1..60usize) {
        let (mut dns, mut rng) = (machine(), Rng::new(seed));
        let mut last = drain(&mut dns).pop();
        for _ in 0..steps {
            dns.handle(Input::Watched(Api::Local, any_event(&mut rng)), Instant::ZERO);
            last = drain(&mut dns).pop().or(last);
            let everything = Dns { reach: dns.reach_now(), ..dns.clone() }.build();
            prop_assert!(!dns.synced() || everything.says_the_same_as(&dns.table));
            prop_assert_eq!(&last, &Some(Output::Dns(Arc::clone(&dns.table))));
        }
    }
}

/// A local API that shows anything.
struct AnyApi;

impl Subject for AnyApi {
    type M = Dns;
    const GAP_MAX: Duration = Duration::from_millis(200);

    fn begin(rng: &mut Rng) -> (Self, Dns) {
        let mut dns = machine();
        // Few lives are long enough to complete four listings by chance.
        if rng.chance(800_000) {
            for (api, kind) in dns.watches() {
                dns.handle(Input::Watched(*api, WatchEvent::Synced(*kind)), Instant::ZERO);
            }
        }
        (Self, dns)
    }

    fn input(&mut self, rng: &mut Rng, _: Instant) -> Input {
        match rng.below(20) {
            0 => Input::Wall(Wall::from_unix_secs(rng.below(1_000))),
            1 => Input::Watched(Api::Broker, any_event(rng)),
            2 if rng.chance(200_000) => Input::Stop,
            2 if rng.chance(200_000) => Input::Leave,
            _ => Input::Watched(Api::Local, any_event(rng)),
        }
    }

    fn react(&mut self, _: &Output, _: &mut Rng, _: Instant) -> Vec<(Duration, Input)> {
        vec![]
    }
}

#[test]
fn the_machine_laws_hold() {
    let proof = prove::<AnyApi>(320);
    assert!(proof.inputs > 1_000 && proof.outputs > 500, "{proof:?}");
}
