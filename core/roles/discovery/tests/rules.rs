//! Rules of the MCS API for which the other scenes have no room.

use super::*;
use crate::base::Epoch;
use crate::model::{ConditionType, Service, ServiceType};

#[test]
fn a_service_without_an_export_of_its_own_is_no_source_though_another_cluster_exports_its_name() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", exported("web", "10.101.0.10").into_iter().take(2).collect());
    world.run();
    for cluster in ["east", "west"] {
        assert_eq!(world.sources(cluster, "web"), ["east 10.102.0.10 ready"], "{cluster}");
    }
}

#[test]
fn when_an_export_ends_its_slices_go_from_the_broker_and_from_every_cluster() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", exported("web", "10.101.0.10"));
    world.run();
    assert_eq!(["east", "west"].map(|cluster| world.slices(cluster)), [2, 2]);
    world.delete("east", &key_of(Kind::ServiceExport, "web"));
    world.run();
    assert_eq!(["east", "west"].map(|cluster| world.slices(cluster)), [1, 1]);
    let deleted = source_slice("east", "web", "10.102.0.10").key();
    assert!(world.writes("east", Api::Broker).contains(&alloc::format!("delete {deleted}")));
    assert!(world.writes("west", Api::Local).contains(&alloc::format!("delete {deleted}")));
}

#[test]
fn an_export_whose_service_becomes_an_alias_or_goes_is_withdrawn_and_stays() {
    let Object::Service(plain) = service("web", "10.102.0.10") else { unreachable!() };
    let alias = Service { service_type: ServiceType::ExternalName, cluster_ips: vec![], ..Service::clone(&plain) };
    for (becomes, reason) in [(Some(alias), "InvalidServiceType"), (None, "NoService")] {
        let mut world = World::of(&["east", "west"]);
        world.put("east", exported("web", "10.102.0.10"));
        world.run();
        match becomes {
            Some(service) => world.put("east", vec![Object::from(service)]),
            None => world.delete("east", &key_of(Kind::Service, "web")),
        }
        world.run();
        assert!(world.broker().is_empty(), "{reason}");
        for cluster in ["east", "west"] {
            assert_eq!((world.import(cluster, "web"), world.slices(cluster)), (None, 0), "{reason} {cluster}");
        }
        assert_eq!(world.conditions("east", "web")[0], alloc::format!("Valid=False {reason}"));
        world.put("east", vec![service("web", "10.102.0.10")]);
        world.run();
        assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"], "{reason}");
    }
}

#[test]
fn a_cluster_writes_imports_their_slices_and_conditions_and_leaves_its_own_services_alone() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", exported("web", "10.101.0.10"));
    world.run();
    world.delete("east", &key_of(Kind::ServiceExport, "web"));
    world.run();
    let written = world.writes("east", Api::Local);
    for write in &written {
        let kind = write.split(' ').nth(1).unwrap();
        // The summary is discovery's own, and tells of imports.
        assert!(["Import", "SourceSlice", "ServiceExport", "ExportSummary"].contains(&kind), "{write}");
    }
    assert!(!written.iter().any(|write| write.contains("create ServiceExport")));
}

#[test]
fn before_a_cluster_is_announced_it_publishes_and_imports_nothing_and_afterwards_it_stays_a_member() {
    let mut world = World::of(&["east", "west"]);
    let record = announced("west", "10.101.0.0/16");
    world.stop("west");
    world.delete("west", &record.key());
    world.start("west");
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", exported("api", "10.101.0.10"));
    world.run();
    assert_eq!(world.broker(), ["ExportRecord east.web.shop"]);
    assert_eq!((world.import("west", "web"), world.slices("west")), (None, 0));
    assert_eq!(world.import("east", "api"), None);
    world.put_broker(record.clone());
    world.run();
    assert_eq!(world.broker(), ["ExportRecord west.api.shop", "ExportRecord east.web.shop"]);
    assert_eq!(world.import("west", "web"), None, "the gateways have yet to say that they know all members");
    world.put("west", vec![record.clone()]);
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    world.delete("west", &record.key());
    world.delete_broker(&record.key());
    world.run();
    assert_eq!(world.broker().len(), 2);
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
}

#[test]
fn an_export_is_told_which_of_its_labels_no_import_can_have() {
    let mut world = World::of(&["east", "west"]);
    let labelled = |labels: &[(&str, &str)]| {
        let mut objects = exported("web", "10.102.0.10");
        for object in &mut objects {
            if let Object::ServiceExport(export) = object {
                Arc::make_mut(export).labels =
                    labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            }
        }
        objects
    };
    world.put("east", labelled(&[("team", "a"), ("tier", "not a label!")]));
    world.run();
    assert_eq!(world.import("west", "web").unwrap().offer.labels, [("team".into(), "a".into())].into());
    assert_eq!(
        world.conditions("east", "web"),
        ["Valid=True Valid", "Ready=True Exported", "Conflict=False NoConflicts"]
    );
    let message = |world: &World| world.message("east", "web", ConditionType::Valid);
    assert!(message(&world).starts_with("label \"tier\" is left out: its value"), "{}", message(&world));
    world.put("east", labelled(&[("team", "a")]));
    world.run();
    assert_eq!(message(&world), "");
}

/// East and west have lost their APIs, and west's discovery starts again; east's does not.
fn alone_after_a_loss(epoch: u64) -> World {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.stop("east");
    world.stop("west");
    world.empty_broker();
    for object in [import_of("web", "east"), source_slice("east", "web", "10.102.0.10"), summary_of("west", 0, &[])] {
        world.delete("west", &object.key());
    }
    let Object::Cluster(mut east) = announced("east", "10.0.0.0/8") else { unreachable!() };
    Arc::make_mut(&mut east).epoch = Epoch(epoch);
    world.put("west", vec![Object::Cluster(east)]);
    world.start("west");
    world.run();
    world
}

fn west_says_all(world: &World) -> bool {
    world.writes("west", Api::Local).iter().filter(|write| *write == "create ExportSummary west").count() > 1
}

/// A DNS that starts then would deny what everybody else still answers.
#[test]
fn where_no_word_stands_yet_it_is_given_when_each_member_has_given_its_own_b54() {
    let mut world = alone_after_a_loss(1);
    assert!(!west_says_all(&world));
    world.start("east");
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    assert!(west_says_all(&world));
}

#[test]
fn a_member_that_gives_no_word_is_not_waited_for_for_ever_and_plain_submariner_not_at_all() {
    let mut world = alone_after_a_loss(1);
    world.run_for(PATIENCE - Duration::from_secs(6));
    assert!(!west_says_all(&world));
    world.run();
    assert!(west_says_all(&world));
    assert!(west_says_all(&alone_after_a_loss(0)));
}

/// Listings of all that a discovery watches, among them many records at the broker, and then answers to its writes.
#[test]
fn at_a_start_all_is_written_and_not_all_at_once() {
    const RECORDS: usize = WRITES_AT_ONCE + 100;
    let mut east = Discovery::new(ClusterId::new("east").unwrap(), "uid".into(), 1);
    let version = || Version("1".into());
    let records: Vec<Object> = (0..RECORDS).map(|i| record_of("west", &alloc::format!("s{i}"))).collect();
    for (api, kind) in east.watches() {
        let there = match (api, kind) {
            (Api::Local, Kind::Cluster) => ["east", "west"].map(|of| announced(of, "10.102.0.0/16")).into(),
            (Api::Local, Kind::Namespace) => vec![namespace()],
            (Api::Broker, Kind::ExportRecord) => records.clone(),
            (Api::Broker, Kind::ExportSummary) => vec![summary_of("west", 1, &records)],
            _ => vec![],
        };
        let shown = there.into_iter().map(|object| WatchEvent::Applied(object, version()));
        for event in [WatchEvent::Began(*kind)].into_iter().chain(shown).chain([WatchEvent::Synced(*kind)]) {
            east.handle(Input::Watched(*api, event), Instant::ZERO);
        }
    }
    let (mut under_way, mut most, mut written) = (VecDeque::new(), 0, Vec::new());
    loop {
        while let Some(output) = east.poll_output() {
            let Output::Write(request, api, Write::Create(object)) = output else { panic!("{output:?}") };
            under_way.push_back((request, api, object));
        }
        most = most.max(under_way.len());
        let Some((request, api, object)) = under_way.pop_front() else { break };
        written.push(object.kind());
        east.handle(Input::Written(request, Ok(version())), Instant::ZERO);
        east.handle(Input::Watched(api, WatchEvent::Applied(object, version())), Instant::ZERO);
    }
    assert_eq!(most, WRITES_AT_ONCE + 1, "and the summary at the broker, where nothing is to be written");
    let imports = written.iter().filter(|kind| **kind == Kind::Import).count();
    assert_eq!((imports, written.last()), (RECORDS, Some(&Kind::ExportSummary)));
}
