use super::*;
use std::time::Duration;
use tombolo_apiserver::{Faults, Gone};

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_from_a_version_and_misses_nothing() {
    let client = Client(server());
    let (_, first) = client.post(LEASES, &lease("a", "x")).await;
    let (_, second) = client.put(&format!("{LEASES}/a"), &held_by(first.clone(), "y")).await;
    let mut watch = client.watch(&format!("{LEASES}?&watch=true&resourceVersion={}", version(&first))).await;
    let (told, object) = watch.next().await.unwrap();
    assert_eq!((told.as_str(), object), ("MODIFIED", second.clone()));
    client.post(LEASES, &lease("b", "x")).await;
    assert_eq!(watch.told().await.unwrap(), "ADDED b");
    client.delete(&format!("{LEASES}/a")).await;
    let (told, gone) = watch.next().await.unwrap();
    assert_eq!((told.as_str(), &gone["spec"]["holderIdentity"]), ("DELETED", &json!("y")));
    assert!(version(&gone) > version(&second), "with the version of the deletion");
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_version_begins_with_what_is_there() {
    let client = Client(server());
    client.post(LEASES, &lease("a", "x")).await;
    let mut watch = client.watch(&format!("{LEASES}?watch=1")).await;
    assert_eq!(watch.told().await.unwrap(), "ADDED a");
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = client.watch(&format!("{LEASES}?watch=1&{initial}")).await;
    assert_eq!(watch.told().await.unwrap(), "ADDED a");
    let (told, bookmark) = watch.next().await.unwrap();
    assert_eq!(
        (told.as_str(), &bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"]),
        ("BOOKMARK", &json!("true"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_cleanly_at_its_timeout_after_a_bookmark() {
    let client = Client(server());
    let before = tokio::time::Instant::now();
    let path = format!("{LEASES}?watch=true&timeoutSeconds=10&allowWatchBookmarks=true&resourceVersion=2");
    let mut watch = client.watch(&path).await;
    client.0.create_namespace("elsewhere").unwrap();
    let (told, bookmark) = watch.next().await.unwrap();
    assert_eq!((told.as_str(), version(&bookmark)), ("BOOKMARK", client.0.revision()));
    assert_eq!(watch.next().await, None);
    assert_eq!(before.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_long_watch_gets_a_bookmark_a_minute() {
    let client = Client(server());
    let before = tokio::time::Instant::now();
    let mut watch = client.watch(&format!("{LEASES}?watch=true&allowWatchBookmarks=true&resourceVersion=2")).await;
    for minute in 1..=3 {
        assert_eq!(watch.next().await.unwrap().0, "BOOKMARK");
        assert_eq!(before.elapsed().as_secs(), 60 * minute);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selection_is_told_as_deleted() {
    let client = Client(server());
    let labelled = |tier: &str| json!({ "metadata": { "name": "web", "labels": { "tier": tier } } });
    let mut watch = client.watch(&format!("{SERVICES}?watch=true&labelSelector=tier%3Dfront&resourceVersion=2")).await;
    client.post(SERVICES, &labelled("back")).await;
    client.put(&format!("{SERVICES}/web"), &labelled("front")).await;
    assert_eq!(watch.told().await.unwrap(), "ADDED web");
    client.put(&format!("{SERVICES}/web"), &labelled("back")).await;
    let (told, object) = watch.next().await.unwrap();
    assert_eq!((told.as_str(), version(&object)), ("DELETED", client.0.revision()));
}

#[tokio::test(start_paused = true)]
async fn expired_history_ends_open_watches_and_refuses_to_resume_in_either_way() {
    let client = Client(server());
    let path = format!("{LEASES}?watch=true&resourceVersion={}", client.0.revision());
    let mut open = client.watch(&path).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.0.expire_history();
    let gone = async |watch: &mut client::Watch| {
        let (told, status) = watch.next().await.unwrap();
        assert_eq!((told.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(410), &json!("Expired")));
        assert_eq!(watch.next().await, None);
    };
    gone(&mut open).await;
    gone(&mut client.watch(&path).await).await;
    client.0.set_faults(Faults { gone: Gone::AsHttp, ..Faults::default() });
    let (code, status) = client.get(&path).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
}

#[tokio::test(start_paused = true)]
async fn after_an_empty_restart_old_versions_lie_in_the_future() {
    let client = Client(server());
    for name in ["a", "b", "c"] {
        client.post(LEASES, &lease(name, "x")).await;
    }
    let path = format!("{LEASES}?watch=true&resourceVersion={}", client.0.revision());
    let mut open = client.watch(&path).await;
    client.0.restart_empty(|spec, _| spec.kind == "Namespace");
    assert_eq!(open.next().await, None);
    assert_eq!(client.get(LEASES).await.1["items"], json!([]));
    assert_eq!(client.get("/api/v1/namespaces/shop").await.0, 200);
    assert_eq!(client.get(&path).await.0, 504);
    assert_eq!(client.post(LEASES, &lease("a", "x")).await.0, 201);
}
