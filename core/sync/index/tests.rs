//! What is believed, and when.

use super::*;
use crate::base::{Epoch, Label, Wall};
use crate::model::{ClusterRecord, ExportRecord, ExportSummary, Family, Offer, ServiceExport, ServiceKey, ServiceType};
use alloc::string::{String, ToString};
use alloc::vec;
use core::time::Duration;

const LATER: Duration = Duration::from_secs(60);

fn record(cluster: &str, epoch: u64) -> Object {
    Object::from(ClusterRecord {
        cluster: ClusterId::new(cluster).unwrap(),
        pods: vec![],
        services: vec![],
        epoch: Epoch(epoch),
    })
}

fn key(cluster: &str) -> Key {
    record(cluster, 0).key()
}

fn gone(cluster: &str) -> (Api, Key) {
    (Api::Broker, key(cluster))
}

fn applied(cluster: &str, epoch: u64) -> WatchEvent {
    WatchEvent::Applied(record(cluster, epoch), Version(alloc::format!("{epoch}").as_str().into()))
}

fn at(time: Duration) -> Instant {
    Instant::from_origin(time)
}

fn watched(index: &mut Index, event: WatchEvent) -> Vec<Key> {
    index.watched(Api::Broker, event, Instant::ZERO)
}

fn list(index: &mut Index, clusters: &[&str]) -> Vec<Key> {
    watched(index, WatchEvent::Began(Kind::Cluster));
    for cluster in clusters {
        watched(index, applied(cluster, 1));
    }
    watched(index, WatchEvent::Synced(Kind::Cluster))
}

fn listed(clusters: &[&str]) -> Index {
    let mut index = Index::default();
    list(&mut index, clusters);
    index
}

fn known(index: &Index) -> Vec<&str> {
    index
        .objects(Api::Broker, Kind::Cluster)
        .filter_map(|(_, object)| object.cluster())
        .map(ClusterId::as_str)
        .collect()
}

#[test]
fn what_vanished_during_an_outage_is_gone_once_its_absence_has_lasted_b48() {
    let mut index = listed(&["a", "b"]);
    assert_eq!(list(&mut index, &["a"]), vec![key("b")]);
    assert_eq!(index.shown(Api::Broker, &key("b")), None);
    assert_eq!(index.get(Api::Broker, &key("b")), Some(&record("b", 1)));
    assert_eq!(index.poll_timeout(), Some(at(ABSENCE)));
    assert!(index.believe(at(ABSENCE / 2), |_, _, _| true).is_empty());
    assert_eq!(index.believe(at(ABSENCE), |_, _, _| true), vec![gone("b")]);
    assert_eq!(known(&index), ["a"]);
    assert_eq!(index.poll_timeout(), None);
}

#[test]
fn an_absence_lasts_on_until_it_may_be_believed() {
    let mut index = listed(&["a"]);
    list(&mut index, &[]);
    assert!(index.believe(at(LATER), |_, _, _| false).is_empty());
    assert_eq!(index.poll_timeout(), None, "nothing more comes of waiting");
    assert_eq!(known(&index), ["a"]);
    assert_eq!(index.believe(at(LATER), |_, _, object| *object == record("a", 1)), vec![gone("a")]);
}

#[test]
fn another_listing_without_it_does_not_count_its_absence_anew() {
    let mut index = listed(&["a"]);
    list(&mut index, &[]);
    index.watched(Api::Broker, WatchEvent::Began(Kind::Cluster), at(ABSENCE / 2));
    let again = index.watched(Api::Broker, WatchEvent::Synced(Kind::Cluster), at(ABSENCE / 2));
    assert_eq!(again, vec![], "that is no news");
    assert_eq!(index.believe(at(ABSENCE), |_, _, _| true), vec![gone("a")]);
}

#[test]
fn what_is_shown_again_or_deleted_is_not_missing() {
    let mut index = listed(&["a", "b"]);
    list(&mut index, &[]);
    assert_eq!(watched(&mut index, applied("a", 1)), vec![key("a")]);
    assert_eq!(watched(&mut index, WatchEvent::Deleted(key("b"))), vec![key("b")]);
    assert_eq!(index.poll_timeout(), None);
    assert_eq!(known(&index), ["a"]);
    assert!(index.believe(at(LATER), |_, _, _| true).is_empty());
}

#[test]
fn an_absence_that_is_renewed_has_to_last_from_then_on() {
    let mut index = listed(&["a", "b"]);
    list(&mut index, &[]);
    index.believe(at(ABSENCE), |_, _, _| false);
    let own = ClusterId::new("own").unwrap();
    index.hear_out(Api::Broker, Kind::Cluster, &own, &[key("a")], at(ABSENCE));
    assert_eq!(index.believe(at(ABSENCE), |_, _, _| true), vec![gone("b")]);
    assert_eq!(index.believe(at(ABSENCE * 2), |_, _, _| true), vec![gone("a")]);
}

#[test]
fn what_is_presumed_is_missing_from_the_first_complete_listing_on() {
    let mut index = Index::default();
    assert!(index.presume(Api::Broker, &record("a", 7), Instant::ZERO));
    assert!(index.presume(Api::Broker, &record("b", 7), Instant::ZERO));
    assert_eq!(index.poll_timeout(), None, "before, its absence says nothing");
    list(&mut index, &["b"]);
    assert_eq!(index.get(Api::Broker, &key("b")), Some(&record("b", 7)), "a copy of a later epoch counts");
    assert!(!index.presume(Api::Broker, &record("b", 7), Instant::ZERO));
    assert_eq!(index.believe(at(ABSENCE), |_, _, _| true), vec![gone("a")]);
    assert!(index.presume(Api::Broker, &record("a", 7), at(LATER)));
    assert_eq!(index.poll_timeout(), Some(at(LATER + ABSENCE)));
}

#[test]
fn what_goes_missing_while_nothing_else_is_as_it_was_may_be_lost_with_all_the_rest() {
    let mut index = listed(&["a", "b", "c"]);
    list(&mut index, &["a", "b"]);
    assert!(!index.may_be_lost(Api::Broker, &key("c")), "the API has kept the others");
    watched(&mut index, WatchEvent::Began(Kind::Cluster));
    watched(&mut index, applied("b", 2));
    watched(&mut index, WatchEvent::Synced(Kind::Cluster));
    let may_be_lost = ["a", "b", "c"].map(|name| index.may_be_lost(Api::Broker, &key(name)));
    assert_eq!(may_be_lost, [true, false, false]);
    watched(&mut index, applied("a", 1));
    assert!(!index.may_be_lost(Api::Broker, &key("a")));
}

#[test]
fn what_is_presumed_and_never_shown_may_be_lost_until_it_is_forgotten() {
    let mut index = listed(&["b"]);
    index.presume(Api::Broker, &record("a", 7), Instant::ZERO);
    assert!(index.may_be_lost(Api::Broker, &key("a")));
    index.forget(Api::Broker, &key("b"));
    index.forget(Api::Broker, &key("a"));
    assert_eq!(known(&index), ["b"], "what is shown is not forgotten");
    assert_eq!((index.poll_timeout(), index.may_be_lost(Api::Broker, &key("a"))), (None, false));
}

#[test]
fn what_the_cluster_owns_is_as_the_listing_says() {
    let service = ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() };
    let export = Object::from(ServiceExport::new(service, Wall::default()));
    let mut index = Index::default();
    watched(&mut index, WatchEvent::Applied(export.clone(), Version("1".into())));
    watched(&mut index, WatchEvent::Began(Kind::ServiceExport));
    assert!(index.get(Api::Broker, &export.key()).is_some(), "a view stays readable while listed anew");
    assert_eq!(watched(&mut index, WatchEvent::Synced(Kind::ServiceExport)), vec![export.key()]);
    assert_eq!(index.get(Api::Broker, &export.key()), None);
}

#[test]
fn a_listing_that_breaks_off_sweeps_nothing() {
    let mut index = listed(&["a", "b"]);
    watched(&mut index, WatchEvent::Began(Kind::Cluster));
    watched(&mut index, applied("a", 1));
    assert_eq!(list(&mut index, &["b", "a"]), vec![]);
    assert_eq!(index.poll_timeout(), None);
}

#[test]
fn nothing_is_synced_before_the_first_complete_listing() {
    let mut index = Index::default();
    assert!(!index.synced(Api::Broker, Kind::Cluster));
    watched(&mut index, WatchEvent::Began(Kind::Cluster));
    watched(&mut index, applied("a", 1));
    assert!(!index.synced(Api::Broker, Kind::Cluster));
    assert!(listed(&[]).synced(Api::Broker, Kind::Cluster));
}

#[test]
fn only_real_changes_are_reported() {
    let mut index = listed(&["a"]);
    assert_eq!(watched(&mut index, applied("a", 1)), vec![]);
    assert_eq!(watched(&mut index, applied("a", 2)), vec![key("a")]);
    assert_eq!(watched(&mut index, WatchEvent::Deleted(key("a"))), vec![key("a")]);
    assert_eq!(watched(&mut index, WatchEvent::Deleted(key("a"))), vec![]);
}

#[test]
fn a_word_older_than_one_before_is_none_unless_its_cluster_took_that_back() {
    let (mut index, a) = (listed(&[]), ClusterId::new("a").unwrap());
    let says = |index: &Index| index.word_of(Api::Broker, Kind::Cluster, &a).is_some();
    watched(&mut index, applied("a", 7));
    assert!(says(&index));
    watched(&mut index, applied("a", 6));
    assert!(!says(&index));
    watched(&mut index, WatchEvent::Deleted(key("a")));
    watched(&mut index, applied("a", 6));
    assert!(says(&index), "it has left, and came back with a clock that is behind");
    index.presume(Api::Broker, &record("a", 8), Instant::ZERO);
    assert!(!says(&index), "a copy knows of a newer one");
}

fn export(cluster: &str, created_s: u64) -> Object {
    Object::from(ExportRecord {
        cluster: ClusterId::new(cluster).unwrap(),
        key: web(),
        created: Wall::from_unix_secs(created_s),
        offer: alloc::sync::Arc::new(Offer::new(ServiceType::ClusterIp, [].into(), [Family::V4].into())),
    })
}

fn summary(cluster: &str, generation: u64) -> Object {
    Object::from(ExportSummary { cluster: ClusterId::new(cluster).unwrap(), generation, digest: Digest::EMPTY })
}

fn web() -> ServiceKey {
    ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() }
}

/// In which version, and what a new listing shows.
fn list_of(index: &mut Index, kind: Kind, version: &str, objects: &[Object]) -> Vec<Key> {
    watched(index, WatchEvent::Began(kind));
    let mut changed = Vec::new();
    for object in objects {
        changed.extend(watched(index, WatchEvent::Applied(object.clone(), Version(version.into()))));
    }
    changed.extend(watched(index, WatchEvent::Synced(kind)));
    changed
}

fn believed(index: &Index) -> Vec<Object> {
    index.believed_of_service(Kind::ExportRecord, &web()).cloned().collect()
}

fn asked(index: &mut Index) -> Vec<String> {
    index.take_unheard().iter().map(ToString::to_string).collect()
}

fn answered(index: &mut Index, cluster: &str, generation: u64) -> Vec<Key> {
    index.answered(&ClusterId::new(cluster).unwrap(), Some(&summary(cluster, generation)))
}

/// East was listed as it was, a and b have said a word, plain never does.
fn spoken() -> Index {
    let mut index = Index::default();
    list_of(&mut index, Kind::ExportRecord, "5", &[export("a", 2), export("plain", 2)]);
    list_of(&mut index, Kind::ExportSummary, "5", &[summary("a", 9), summary("b", 9)]);
    assert_eq!(asked(&mut index), [""; 0], "nothing was replaced");
    index
}

#[test]
fn what_a_listing_replaces_is_believed_until_its_cluster_s_word_was_read_and_is_of_now() {
    let mut index = spoken();
    list_of(&mut index, Kind::ExportRecord, "6", &[export("a", 3), export("b", 3), export("plain", 3)]);
    assert_eq!(believed(&index), [export("plain", 3), export("a", 2)], "who never says a word is not waited for");
    assert_eq!(index.shown(Api::Broker, &export("a", 3).key()).map(|(object, _)| object), Some(&export("a", 3)));
    assert_eq!((asked(&mut index), asked(&mut index)), (vec!["a".into(), "b".into()], vec![]));
    assert_eq!(answered(&mut index, "a", 9), [export("a", 3).key()]);
    assert_eq!(believed(&index), [export("a", 3), export("plain", 3)]);
    assert_eq!(index.answered(&ClusterId::new("b").unwrap(), None), [export("b", 3).key()], "it has none any more");
    assert_eq!(believed(&index), [export("a", 3), export("b", 3), export("plain", 3)]);
}

#[test]
fn what_a_listing_shows_of_one_whose_word_is_an_old_one_is_not_believed_until_there_is_another() {
    let mut index = spoken();
    let old = [export("a", 1), export("b", 1)];
    list_of(&mut index, Kind::ExportRecord, "3", &old);
    assert_eq!(asked(&mut index), ["a", "b"]);
    assert_eq!((answered(&mut index, "a", 8), answered(&mut index, "b", 8)), (vec![], vec![]));
    assert_eq!(believed(&index), [export("plain", 2), export("a", 2)]);
    // Another listing of the same changes nothing, and nobody is asked again.
    list_of(&mut index, Kind::ExportRecord, "3", &old);
    assert_eq!((believed(&index).len(), asked(&mut index)), (2, vec![]));
    // What is written now is of now, and so is all once its cluster says so.
    watched(&mut index, WatchEvent::Applied(export("a", 3), Version("7".into())));
    assert_eq!(believed(&index), [export("a", 3), export("plain", 2)]);
    watched(&mut index, WatchEvent::Applied(summary("b", 10), Version("8".into())));
    assert_eq!(asked(&mut index), ["b"]);
    assert_eq!(answered(&mut index, "b", 10), [export("b", 1).key()]);
    assert_eq!(believed(&index), [export("a", 3), export("b", 1), export("plain", 2)]);
}

#[test]
fn an_answer_speaks_for_what_was_listed_before_it_was_asked_for() {
    let mut index = spoken();
    list_of(&mut index, Kind::ExportRecord, "6", &[export("a", 3)]);
    assert_eq!(asked(&mut index), ["a"]);
    // A backup came meanwhile.
    list_of(&mut index, Kind::ExportRecord, "3", &[export("a", 1)]);
    assert_eq!(asked(&mut index), [""; 0], "one at a time");
    assert_eq!(answered(&mut index, "a", 9), []);
    assert_eq!(believed(&index), [export("plain", 2), export("a", 2)]);
    assert_eq!(asked(&mut index), ["a"]);
    index.unanswered(&ClusterId::new("a").unwrap());
    assert_eq!(asked(&mut index), ["a"], "again, as long as nobody answers");
    // It is as it was.
    list_of(&mut index, Kind::ExportRecord, "8", &[export("a", 2)]);
    watched(&mut index, WatchEvent::Deleted(export("a", 2).key()));
    assert_eq!(believed(&index), [export("plain", 2)]);
}

#[test]
fn what_a_cluster_takes_away_while_its_word_is_an_old_one_is_gone() {
    let mut index = spoken();
    list_of(&mut index, Kind::ExportRecord, "3", &[export("a", 1), export("plain", 2)]);
    assert_eq!((asked(&mut index), answered(&mut index, "a", 8)), (vec!["a".into()], vec![]));
    assert_eq!(watched(&mut index, WatchEvent::Deleted(export("a", 1).key())), [export("a", 1).key()]);
    assert_eq!(believed(&index), [export("plain", 2)]);
}

#[test]
fn a_watch_that_broke_off_is_followed_again_when_it_has_listed() {
    let mut index = spoken();
    let both = [Kind::ExportSummary, Kind::ExportRecord];
    assert!(index.follows(Api::Broker, &both));
    watched(&mut index, WatchEvent::Lost(Kind::ExportRecord));
    assert!(!index.follows(Api::Broker, &both));
    list_of(&mut index, Kind::ExportRecord, "5", &[export("a", 2)]);
    assert!(index.follows(Api::Broker, &both));
}

#[test]
fn what_is_shown_of_an_earlier_epoch_is_written_over_and_not_believed() {
    let mut index = listed(&[]);
    watched(&mut index, applied("a", 7));
    assert_eq!(watched(&mut index, applied("a", 6)), [key("a")]);
    let both = |index: &Index| {
        let shown =
            index.shown(Api::Broker, &key("a")).map(|(object, version)| (object.clone(), version.0.to_string()));
        (index.get(Api::Broker, &key("a")).cloned(), shown)
    };
    assert_eq!(both(&index), (Some(record("a", 7)), Some((record("a", 6), "6".into()))));
    assert_eq!(watched(&mut index, applied("a", 6)), [], "that is no news");
    assert_eq!(watched(&mut index, applied("a", 7)), [key("a")]);
    assert_eq!(both(&index), (Some(record("a", 7)), Some((record("a", 7), "7".into()))));
    watched(&mut index, applied("a", 6));
    list(&mut index, &[]);
    assert_eq!(both(&index), (Some(record("a", 7)), None), "and missing");
    watched(&mut index, WatchEvent::Deleted(key("a")));
    watched(&mut index, applied("a", 6));
    assert_eq!(
        both(&index),
        (Some(record("a", 6)), Some((record("a", 6), "6".into()))),
        "what has ended is no former one"
    );
}

#[test]
fn what_is_presumed_of_a_later_epoch_than_is_shown_is_believed() {
    let mut index = listed(&["a"]);
    assert!(index.presume(Api::Broker, &record("a", 7), Instant::ZERO));
    assert_eq!(index.get(Api::Broker, &key("a")), Some(&record("a", 7)));
    assert_eq!(index.shown(Api::Broker, &key("a")).map(|(object, _)| object), Some(&record("a", 1)));
    assert!(!index.presume(Api::Broker, &record("a", 6), Instant::ZERO));
}
