use super::super::process::ProcessId;
use super::*;
use tombolo_core::base::{Epoch, Wall};
use tombolo_core::model::{ClusterRecord, ServiceExport, ServiceKey};

const CLIENT: Client = Client { process: ProcessId(0), boot: 1 };

fn record(cluster: &str, epoch: u64) -> Object {
    let cluster = cluster.parse().unwrap();
    Object::from(ClusterRecord { cluster, pods: Vec::new(), services: Vec::new(), epoch: Epoch(epoch) })
}

fn server() -> ApiServer {
    ApiServer::new(ApiRef::Broker, HostId(0))
}

fn create(api: &mut ApiServer, object: Object) -> Version {
    version(api.write(Api::Local, Write::Create(object)).unwrap().0)
}

fn watch(api: &mut ApiServer, from: Option<Revision>) -> Answer {
    let ask = Ask::Watch { watch: 0, session: 1, kind: Kind::Cluster, from };
    api.serve(CLIENT, Api::Local, ask).0
}

fn events(answer: Answer) -> (Vec<WatchEvent>, Revision) {
    match answer {
        Answer::Watched { events, revision, .. } => (events, revision),
        Answer::Read(..) | Answer::Written(..) | Answer::Ended { .. } => panic!("{answer:?}"),
    }
}

#[test]
fn a_watch_lists_first_and_then_tells_changes_of_its_kind_and_space_only() {
    let mut api = server();
    let first = create(&mut api, record("east", 1));
    let (listed, _) = events(watch(&mut api, None));
    assert_eq!(
        listed,
        [
            WatchEvent::Began(Kind::Cluster),
            WatchEvent::Applied(record("east", 1), first.clone()),
            WatchEvent::Synced(Kind::Cluster)
        ]
    );
    assert!(api.batch_left((CLIENT, 0, 1)).is_none());

    let export = ServiceExport::new(
        ServiceKey { namespace: "shop".parse().unwrap(), name: "web".parse().unwrap() },
        Wall::default(),
    );
    create(&mut api, Object::from(export));
    api.write(Api::Broker, Write::Create(record("west", 1))).unwrap();
    assert!(api.batches().is_empty());

    api.write(Api::Local, Write::Delete(record("east", 1).key(), first)).unwrap();
    let (told, _) = events(api.batches().remove(0).1);
    assert_eq!(told, [WatchEvent::Deleted(record("east", 1).key())]);
}

#[test]
fn changes_wait_in_one_batch_until_the_batch_before_has_left() {
    let mut api = server();
    events(watch(&mut api, None));
    create(&mut api, record("east", 1));
    create(&mut api, record("west", 1));
    assert!(api.batches().is_empty(), "the listing has not left yet");
    let (told, _) = events(api.batch_left((CLIENT, 0, 1)).unwrap());
    assert_eq!(told.len(), 2);
}

#[test]
fn a_watch_goes_on_where_it_was_or_learns_that_this_is_forgotten() {
    let mut api = server();
    create(&mut api, record("east", 1));
    let (_, seen) = events(watch(&mut api, None));
    create(&mut api, record("west", 1));
    let (told, _) = events(watch(&mut api, Some(seen)));
    assert_eq!(told.len(), 1);

    let told = api.set_fault(ApiFault::HistoryExpired);
    assert!(matches!(told.as_slice(), [(CLIENT, Answer::Ended { .. })]));
    assert!(matches!(watch(&mut api, Some(seen)), Answer::Ended { .. }));
}

#[test]
fn a_stale_write_conflicts_and_a_replace_by_the_same_changes_nothing() {
    let mut api = server();
    let first = create(&mut api, record("east", 1));
    let (revision, accepted) = api.write(Api::Local, Write::Replace(record("east", 1), first.clone())).unwrap();
    assert_eq!((version(revision), accepted), (first.clone(), None));
    let (_, accepted) = api.write(Api::Local, Write::Replace(record("east", 2), first.clone())).unwrap();
    assert_eq!(accepted.unwrap().change, Change::Replaced);
    let stale = api.write(Api::Local, Write::Replace(record("east", 3), first.clone()));
    assert_eq!(stale, Err(ApiError::Conflict));
    assert_eq!(api.write(Api::Local, Write::Delete(record("east", 1).key(), first)), Err(ApiError::Conflict));
    assert_eq!(api.write(Api::Local, Write::Create(record("east", 1))), Err(ApiError::Conflict));
}

#[test]
fn restarted_empty_it_keeps_only_what_a_cluster_has_without_us() {
    let mut api = server();
    create(&mut api, record("east", 1));
    let export = Object::from(ServiceExport::new(
        ServiceKey { namespace: "shop".parse().unwrap(), name: "web".parse().unwrap() },
        Wall::default(),
    ));
    create(&mut api, export.clone());
    let (_, seen) = events(watch(&mut api, None));
    let told = api.set_fault(ApiFault::RestartedEmpty);
    assert!(matches!(told.as_slice(), [(CLIENT, Answer::Ended { .. })]));
    assert!(api.get(Api::Local, &record("east", 1).key()).is_none());
    assert_eq!(api.get(Api::Local, &export.key()).unwrap().0, &export);
    assert!(matches!(watch(&mut api, Some(seen)), Answer::Ended { .. }), "its future is not ours");
}

#[test]
fn an_erroring_server_changes_nothing() {
    let mut api = server();
    api.set_fault(ApiFault::Erroring);
    let ask = Ask::Write(RequestId(1), Write::Create(record("east", 1)));
    let (answer, accepted) = api.serve(CLIENT, Api::Local, ask);
    assert!(matches!(answer, Answer::Written(RequestId(1), Err(ApiError::Unreachable))));
    assert_eq!(accepted, None);
    assert!(api.get(Api::Local, &record("east", 1).key()).is_none());
}
