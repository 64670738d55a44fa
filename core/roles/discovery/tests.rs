//! Several clusters with one broker, and what their discoveries make of it.

mod backups;
mod leaving;
mod rules;
mod world;

use super::*;
use crate::base::laws::{Subject, prove};
use crate::base::{Rng, drain};
use crate::model::{Version, Write};
use crate::sync::ABSENCE;
use alloc::string::{String, ToString};
use alloc::vec;
use core::time::Duration;
use proptest::prelude::*;
use world::{
    World, announced, claimed, export, exported, headless, import_of, key_of, namespace, pods, record_of, service,
    slice, source_slice, summary_of,
};

#[test]
fn an_export_becomes_a_record_at_the_broker_and_an_import_in_every_cluster() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    assert_eq!(world.broker(), ["ExportRecord east.web.shop"]);
    for cluster in ["east", "west"] {
        assert_eq!(world.sources(cluster, "web"), ["east 10.102.0.10 ready"], "{cluster}");
    }
}

#[test]
fn exports_of_one_name_are_merged_and_each_cluster_arrives_at_the_same_import() {
    let mut world = World::of(&["east", "west", "north"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", exported("web", "10.101.0.10"));
    world.run();
    let imports: Vec<_> = ["east", "west", "north"].map(|cluster| world.import(cluster, "web")).into();
    assert!(imports.iter().all(|import| import.is_some() && *import == imports[0]), "{imports:?}");
    assert_eq!(world.sources("north", "web"), ["east 10.102.0.10 ready", "west 10.101.0.10 ready"]);
}

#[test]
fn when_an_export_ends_its_record_goes_and_the_import_with_the_last_source() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", exported("web", "10.101.0.10"));
    world.run();
    world.delete("east", &key_of(Kind::ServiceExport, "web"));
    world.run();
    assert_eq!(world.broker(), ["ExportRecord west.web.shop"]);
    assert_eq!(world.sources("east", "web"), ["west 10.101.0.10 ready"]);
    world.delete("west", &key_of(Kind::ServiceExport, "web"));
    world.run();
    assert!(world.broker().is_empty());
    assert_eq!((world.import("east", "web"), world.import("west", "web")), (None, None));
}

#[test]
fn what_was_unexported_while_the_daemon_was_away_is_withdrawn_at_its_start_b37() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.stop("east");
    for kind in [Kind::ServiceExport, Kind::Service] {
        world.delete("east", &key_of(kind, "web"));
    }
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    world.start("east");
    world.run();
    assert!(world.broker().is_empty());
    assert_eq!(world.import("west", "web"), None);
}

#[test]
fn nothing_is_withdrawn_while_an_own_listing_is_incomplete() {
    for missing in [Kind::ServiceExport, Kind::Service, Kind::EndpointSlice] {
        let mut world = World::of(&["east", "west"]);
        world.put("east", exported("web", "10.102.0.10"));
        world.run();
        world.stop("east");
        world.start_without("east", missing);
        world.run();
        assert_eq!(world.broker(), ["ExportRecord east.web.shop"], "without {missing}");
        assert_eq!(world.sources("east", "web"), ["east 10.102.0.10 ready"], "without {missing}");
    }
}

#[test]
fn what_a_cluster_exports_itself_stays_imported_until_it_has_looked_though_the_broker_lost_it() {
    for missing in [Kind::ServiceExport, Kind::Service, Kind::EndpointSlice] {
        let mut world = World::of(&["east"]);
        world.put("east", exported("web", "10.102.0.10"));
        world.run();
        world.stop("east");
        world.empty_broker();
        world.start_without("east", missing);
        world.run();
        assert_eq!(world.sources("east", "web"), ["east 10.102.0.10 ready"], "without {missing}");
    }
}

#[test]
fn imports_stay_over_a_restart_in_which_the_broker_is_unreachable_b51() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.stop("west");
    world.cut_broker("west");
    world.start("west");
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
}

#[test]
fn a_broker_outage_withdraws_nothing_and_what_was_missed_is_made_up_for_after_it() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("east", exported("api", "10.102.0.11"));
    world.run();
    world.cut_broker("west");
    world.delete("east", &key_of(Kind::ServiceExport, "web"));
    world.put("west", exported("db", "10.101.0.12"));
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    assert_eq!(world.broker(), ["ExportRecord east.api.shop"]);
    world.heal_broker("west");
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.import("west", "web"), None);
    assert_eq!(world.sources("west", "api"), ["east 10.102.0.11 ready"]);
    assert_eq!(world.sources("east", "db"), ["west 10.101.0.12 ready"]);
}

#[test]
fn a_broker_that_lost_its_data_takes_nothing_away_and_is_filled_again() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    let before = world.writes("west", Api::Local);
    assert_eq!(world.slices("west"), 1);
    world.empty_broker();
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.broker(), ["ExportRecord east.web.shop"]);
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    assert_eq!(world.writes("west", Api::Local), before, "not even for a moment");
}

#[test]
fn what_a_silent_cluster_had_at_a_broker_that_lost_its_data_stays_until_its_discovery_says_that_all_is_there() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.stop("east");
    world.empty_broker();
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    let all = [record_of("east", "web"), source_slice("east", "web", "10.102.0.10")];
    world.put_broker(summary_of("east", 9_998, &all));
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"], "it names what is not shown");
    world.put_broker(summary_of("east", 9_999, &[]));
    world.run_for(ABSENCE - Duration::from_secs(1));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"], "its records may be shown a little later");
    world.run_for(Duration::from_secs(2));
    assert_eq!((world.import("west", "web"), world.slices("west")), (None, 0));
}

#[test]
fn a_summary_is_written_when_all_is_there_and_once_for_many_changes() {
    let mut world = World::of(&["east"]);
    world.run();
    let summaries = |world: &World| {
        world.writes("east", Api::Broker).iter().filter(|write| write.contains("ExportSummary")).count()
    };
    assert_eq!(summaries(&world), 1);
    for number in 0..50 {
        world.put("east", exported(&alloc::format!("web-{number}"), "10.102.0.10"));
    }
    world.run();
    assert_eq!(world.broker().len(), 50);
    let before = summaries(&world);
    assert!(before < 25, "{before}");
    world.put("east", vec![slice("web-0", "web-0", false)]);
    world.run();
    assert_eq!(summaries(&world), before, "readiness is no coming or going");
}

#[test]
fn the_own_source_follows_the_own_cluster_even_while_the_broker_is_unreachable_b56() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", exported("web", "10.101.0.10"));
    world.run();
    world.cut_broker("west");
    world.put("west", vec![slice("web", "web", false)]);
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready", "west 10.101.0.10 not ready"]);
    world.delete("west", &key_of(Kind::ServiceExport, "web"));
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
}

#[test]
fn an_export_counts_in_the_own_cluster_only_once_it_is_published() {
    let mut world = World::of(&["west"]);
    world.run();
    world.cut_broker("west");
    world.put("west", exported("web", "10.101.0.10"));
    world.run();
    assert_eq!(world.import("west", "web"), None);
    world.heal_broker("west");
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.sources("west", "web"), ["west 10.101.0.10 ready"]);
}

#[test]
fn only_own_objects_are_ever_written_at_the_broker() {
    let mut world = World::of(&["west"]);
    world.put("west", vec![announced("east", "10.0.0.0/8")]);
    world.put_broker(record_of("east", "web"));
    world.put_broker(source_slice("east", "web", "10.102.0.10"));
    world.put("west", exported("web", "10.101.0.10"));
    world.run();
    world.delete("west", &key_of(Kind::ServiceExport, "web"));
    world.run();
    assert_eq!(world.broker(), ["ExportRecord east.web.shop"]);
    let slice = source_slice("west", "web", "10.101.0.10").key();
    let written: BTreeSet<String> = world.writes("west", Api::Broker).into_iter().collect();
    let expected = [
        "create ExportRecord west.web.shop".into(),
        "create ExportSummary west".into(),
        alloc::format!("create {slice}"),
        "delete ExportRecord west.web.shop".into(),
        alloc::format!("delete {slice}"),
        "replace ExportSummary west".into(),
    ];
    assert_eq!(written, expected.into());
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
}

#[test]
fn a_slice_that_moves_to_another_service_changes_both() {
    let mut world = World::of(&["east"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("east", exported("api", "10.102.0.11"));
    world.run();
    world.put("east", vec![slice("web", "api", true)]);
    world.delete("east", &slice("api", "api", true).key());
    world.run();
    assert_eq!(world.sources("east", "web"), ["east 10.102.0.10 not ready"]);
    assert_eq!(world.sources("east", "api"), ["east 10.102.0.11 ready"]);
}

#[test]
fn an_export_that_cannot_be_carried_out_says_why_once() {
    let mut world = World::of(&["east"]);
    let export = exported("web", "10.102.0.10").pop().unwrap();
    world.put("east", vec![export.clone()]);
    world.put("east", vec![slice("web", "web", true)]);
    world.run();
    assert_eq!(world.told("east"), ["ignored: service shop/web does not exist"]);
    assert!(world.broker().is_empty());
    world.put("east", vec![service("web", "10.102.0.10")]);
    world.run();
    assert_eq!(world.broker(), ["ExportRecord east.web.shop"]);
    assert_eq!(world.told("east").len(), 1);
}

#[test]
fn what_others_delete_or_damage_is_put_right() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.delete("west", &key_of(Kind::Import, "web"));
    world.put_broker(source_slice("east", "web", "10.99.0.1"));
    world.put("west", vec![source_slice("east", "web", "10.99.0.2")]);
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
}

#[test]
fn an_import_left_behind_by_nobody_is_removed() {
    let mut world = World::of(&["west"]);
    world.put("west", vec![import_of("web", "west"), source_slice("west", "web", "10.101.0.10")]);
    world.run();
    assert_eq!((world.import("west", "web"), world.slices("west")), (None, 0));
}

#[test]
fn with_no_change_in_the_world_nothing_is_written() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", exported("web", "10.101.0.10"));
    world.run();
    let before = world.all_writes();
    world.cut_broker("west");
    world.heal_broker("west");
    world.stop("east");
    world.start("east");
    world.run_for(Duration::from_secs(3_600));
    assert_eq!(world.all_writes(), before);
}

#[test]
fn what_is_in_a_namespace_that_is_not_here_is_imported_when_it_appears_and_not_tried_before_b41() {
    let mut world = World::of(&["east", "west"]);
    world.delete("west", &namespace().key());
    world.run();
    let quiet = world.writes("west", Api::Local);
    world.put("east", exported("web", "10.102.0.10"));
    world.run_for(Duration::from_secs(60));
    assert_eq!((world.import("west", "web"), world.writes("west", Api::Local)), (None, quiet));
    world.put("west", vec![namespace()]);
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    // The namespace goes with all that is in it, and comes back empty.
    world.delete("west", &namespace().key());
    for object in [import_of("web", "east"), source_slice("east", "web", "10.102.0.10")] {
        world.delete("west", &object.key());
    }
    world.run();
    assert_eq!(world.import("west", "web"), None);
    world.put("west", vec![namespace()]);
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    assert_eq!(world.sources("east", "web"), ["east 10.102.0.10 ready"], "nothing of it reached the others");
}

#[test]
fn a_headless_service_is_found_at_its_pods_of_all_clusters() {
    let mut world = World::of(&["east", "west"]);
    let pods_of = |pods_at: &[(&str, bool)]| vec![headless("db"), pods("db", "db", pods_at), export("db", 1_000)];
    world.put("east", pods_of(&[("10.2.1.5", true), ("10.2.1.6", false)]));
    world.put("west", pods_of(&[("10.1.1.5", true)]));
    world.run();
    for cluster in ["east", "west"] {
        let sources = ["east 10.2.1.5 ready, 10.2.1.6 not ready", "west 10.1.1.5 ready"];
        assert_eq!(world.sources(cluster, "db"), sources, "{cluster}");
    }
    world.put("east", vec![pods("db", "db", &[])]);
    world.run();
    assert_eq!(world.sources("west", "db"), ["east ", "west 10.1.1.5 ready"]);
    assert_eq!(world.slices("west"), 1);
}

#[test]
fn an_address_outside_what_a_cluster_announced_is_not_imported_whenever_the_announcement_comes() {
    let mut world = World::of(&["west"]);
    world.put("west", vec![announced("east", "10.102.0.0/16")]);
    world.put_broker(record_of("east", "web"));
    world.put_broker(source_slice("east", "web", "10.101.0.10"));
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.101.0.10 ready"], "nobody knows better yet");
    world.put_broker(announced("east", "10.102.0.0/16"));
    world.run();
    assert_eq!(world.sources("west", "web"), ["east "]);
    world.put_broker(source_slice("east", "web", "10.102.0.10"));
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    world.delete_broker(&announced("east", "10.102.0.0/16").key());
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"], "what it was is remembered");
}

#[test]
fn an_export_says_what_became_of_it() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", vec![export("web", 1_000)]);
    world.run();
    assert_eq!(world.conditions("east", "web"), ["Valid=False NoService", "Ready=False Pending"]);
    world.cut_broker("east");
    world.put("east", exported("web", "10.102.0.10").into_iter().take(2).collect());
    world.run();
    assert_eq!(world.conditions("east", "web"), ["Valid=True Valid", "Ready=False Pending"]);
    world.heal_broker("east");
    world.run();
    let fine = ["Valid=True Valid", "Ready=True Exported", "Conflict=False NoConflicts"];
    assert_eq!(world.conditions("east", "web"), fine);
    world.put("west", vec![headless("web"), pods("web", "web", &[]), export("web", 2_000)]);
    world.run();
    let conflict = ["Valid=True Valid", "Ready=True Exported", "Conflict=True TypeConflict"];
    for cluster in ["east", "west"] {
        assert_eq!(world.conditions(cluster, "web"), conflict, "on both exports (B42): {cluster}");
        assert_eq!(world.sources(cluster, "web"), ["east 10.102.0.10 ready"]);
    }
    world.delete("east", &key_of(Kind::ServiceExport, "web"));
    world.run();
    assert_eq!(world.conditions("west", "web"), fine, "it is over with the older export");
    assert_eq!(world.sources("east", "web"), ["west "]);
}

#[test]
fn an_export_that_is_taken_back_and_made_again_is_a_new_one() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.put("west", vec![headless("web"), export("web", 1_500)]);
    world.run();
    world.delete("east", &key_of(Kind::ServiceExport, "web"));
    world.put("east", vec![export("web", 3_000)]);
    world.run();
    assert_eq!(world.sources("east", "web"), ["west "], "the other one is older now");
    assert_eq!(world.conditions("east", "web")[2], "Conflict=True TypeConflict");
}

#[test]
fn a_refusal_of_the_broker_is_shown_and_ends_with_it() {
    let mut world = World::of(&["east"]);
    world.refuse_at_broker(Some("quota exceeded"));
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    assert_eq!(world.conditions("east", "web"), ["Valid=True Valid", "Ready=False Failed"]);
    world.refuse_at_broker(None);
    world.run();
    assert_eq!(world.conditions("east", "web")[1], "Ready=True Exported");
}

#[test]
fn it_falls_silent_when_stopped_and_leaves_what_it_published() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    world.handle("east", Input::Stop);
    world.delete("east", &key_of(Kind::ServiceExport, "web"));
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.broker(), ["ExportRecord east.web.shop"]);
}

/// Two APIs that show anything about a few services, and answer writes in any way. Like real ones they never give two
/// states the same version.
#[derive(Default)]
struct AnyApis {
    versions: u64,
    shown: Vec<(Object, Version)>,
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[usize::try_from(rng.below(from.len() as u64)).unwrap()]
}

fn any_object(rng: &mut Rng, kind: Kind) -> Object {
    let name = pick(rng, &["web", "api"]);
    let cluster = pick(rng, &["east", "west"]);
    let mut exported = exported(name, pick(rng, &["10.102.0.10", "10.102.0.11"]));
    if kind == Kind::ServiceExport {
        exported.swap_remove(2)
    } else if kind == Kind::Service {
        exported.swap_remove(0)
    } else if kind == Kind::EndpointSlice {
        slice(pick(rng, &["web", "api"]), name, rng.chance(500_000))
    } else if kind == Kind::Import {
        import_of(name, cluster)
    } else if kind == Kind::Namespace {
        namespace()
    } else if kind == Kind::SourceSlice {
        source_slice(cluster, name, pick(rng, &["10.102.0.10", "10.101.0.10"]))
    } else if kind == Kind::ExportSummary {
        summary_of(cluster, rng.below(5), &[])
    } else if kind == Kind::Cluster {
        announced(cluster, pick(rng, &["10.102.0.0/16", "10.0.0.0/8"]))
    } else if kind == Kind::Claims {
        claimed(&[(cluster, pick(rng, &["uid", "another"]))])
    } else {
        record_of(cluster, name)
    }
}

impl AnyApis {
    fn version(&mut self) -> Version {
        self.versions += 1;
        Version(self.versions.to_string().as_str().into())
    }

    fn watched(&mut self, rng: &mut Rng) -> Input {
        let watches = Discovery::new(ClusterId::new("east").unwrap(), "uid".into(), 0).watches();
        let (api, kind) = watches[usize::try_from(rng.below(watches.len() as u64)).unwrap()];
        let known = self.shown.iter().rev().find(|(object, _)| object.kind() == kind).cloned();
        let event = match (rng.below(10), known) {
            (0, _) => WatchEvent::Began(kind),
            (1 | 2, _) => WatchEvent::Synced(kind),
            (9, _) => WatchEvent::Lost(kind),
            (3, _) => WatchEvent::Deleted(any_object(rng, kind).key()),
            (4, Some((object, version))) => WatchEvent::Applied(object, version),
            _ => {
                let (object, version) = (any_object(rng, kind), self.version());
                self.shown.push((object.clone(), version.clone()));
                WatchEvent::Applied(object, version)
            }
        };
        Input::Watched(api, event)
    }

    /// Not every write is answered; some are followed by what the watch shows of them, in either order.
    fn answers(&mut self, output: &Output, rng: &mut Rng) -> Vec<(Duration, Input)> {
        let version = self.version();
        if let Output::Read(id, _, key) = output {
            let word = summary_of(&key.name, rng.below(5), &[]);
            let read = match rng.below(4) {
                0 => Err(ApiError::Unreachable),
                1 => Ok(None),
                _ => Ok(Some((word, version))),
            };
            return vec![(Duration::from_millis(rng.below(100)), Input::Read(*id, read))];
        }
        let Output::Write(request, api, write) = output else { return vec![] };
        let result = match rng.below(4) {
            0 => Err(ApiError::Conflict),
            1 => Err(ApiError::Unreachable),
            _ => Ok(version.clone()),
        };
        let shown = match write {
            Write::Create(object) | Write::Replace(object, _) => WatchEvent::Applied(object.clone(), version),
            Write::Delete(key, _) => WatchEvent::Deleted(key.clone()),
        };
        let mut answers = vec![];
        if result.is_ok() && rng.chance(900_000) {
            answers.push((Duration::from_millis(rng.below(100)), Input::Watched(*api, shown)));
        }
        if rng.chance(900_000) {
            answers.push((Duration::from_millis(rng.below(100)), Input::Written(*request, result)));
        }
        answers
    }
}

impl Subject for AnyApis {
    type M = Discovery;
    const GAP_MAX: Duration = Duration::from_secs(3);

    fn begin(rng: &mut Rng) -> (Self, Discovery) {
        let mut machine = Discovery::new(ClusterId::new("east").unwrap(), "uid".into(), rng.bits());
        // Few lives are long enough to complete all listings by chance.
        if rng.chance(800_000) {
            let own = WatchEvent::Applied(announced("east", "10.0.0.0/8"), Version("0".into()));
            machine.handle(Input::Watched(Api::Local, own), Instant::ZERO);
            for (api, kind) in machine.watches() {
                machine.handle(Input::Watched(*api, WatchEvent::Synced(*kind)), Instant::ZERO);
            }
        }
        (Self::default(), machine)
    }

    fn input(&mut self, rng: &mut Rng, _: Instant) -> Input {
        match rng.below(100) {
            0 => Input::Stop,
            1 => Input::Leave,
            _ => self.watched(rng),
        }
    }

    fn react(&mut self, output: &Output, rng: &mut Rng, _: Instant) -> Vec<(Duration, Input)> {
        self.answers(output, rng)
    }
}

#[test]
fn the_machine_laws_hold() {
    let proof = prove::<AnyApis>(60);
    assert!(proof.inputs > 500 && proof.outputs > 100 && proof.answers > 50, "{proof:?}");
    assert!(proof.wakes > 50 && proof.coincidences > 10, "{proof:?}");
}

proptest! {
    #[test]
    fn deciding_what_is_touched_gives_the_same_as_deciding_everything(seed: u64, steps in 1..120usize) {
        let (mut machine, mut rng) = (Discovery::new(ClusterId::new("east").unwrap(), "uid".into(), 0), Rng::new(seed));
        let (mut now, mut apis) = (Instant::ZERO, AnyApis::default());
        let mut coming: VecDeque<Input> = VecDeque::new();
        for _ in 0..steps {
            now = now + Duration::from_millis(rng.below(2_000));
            machine.handle_timeout(now);
            coming.extend(drain(&mut machine).iter().flat_map(|o| apis.answers(o, &mut rng)).map(|(_, input)| input));
            let next = coming.pop_front().filter(|_| rng.chance(700_000)).unwrap_or_else(|| apis.watched(&mut rng));
            machine.handle(next, now);
            coming.extend(drain(&mut machine).iter().flat_map(|o| apis.answers(o, &mut rng)).map(|(_, input)| input));

            let mut everything = machine.clone();
            for service in everything.services() {
                everything.judge(&service);
            }
            everything.summarise(Api::Broker);
            everything.summarise(Api::Local);
            prop_assert_eq!(drain(&mut everything), vec![]);
            prop_assert!(everything == machine, "{:#?}\nbut everything gives\n{:#?}", machine.writer, everything.writer);
        }
    }
}
