use super::*;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tombolo_apiserver::Faults;

#[tokio::test(start_paused = true)]
async fn a_slow_server_writes_at_once_and_answers_later() {
    let client = Client(server());
    let mut watch = client.watch(&format!("{LEASES}?watch=true&resourceVersion=2")).await;
    client.0.set_faults(Faults { slow: Duration::from_secs(8), ..Faults::default() });
    let before = Instant::now();
    let gave_up = timeout(Duration::from_secs(5), client.post(LEASES, &lease("a", "x"))).await;
    assert!(gave_up.is_err());
    assert!(client.0.get("coordination.k8s.io", "leases", "shop", "a").is_some(), "written all the same");
    assert_eq!(watch.told().await.unwrap(), "ADDED a");
    assert_eq!(before.elapsed().as_secs(), 8);
    client.0.set_faults(Faults::default());
    let before = Instant::now();
    client.get(LEASES).await;
    assert!(before.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_slow_delete_happens_though_the_client_went_away_and_checks_its_preconditions_then() {
    let client = Client(server());
    let (_, made) = client.post(LEASES, &lease("a", "x")).await;
    client.post(LEASES, &lease("b", "x")).await;
    client.0.set_faults(Faults { slow_deletes: Duration::from_secs(20), ..Faults::default() });
    let path = format!("{LEASES}/a");
    let guarded = json!({ "preconditions": { "resourceVersion": made["metadata"]["resourceVersion"] } });
    assert!(timeout(Duration::from_secs(5), client.call("DELETE", &path, &guarded)).await.is_err());
    assert!(timeout(Duration::from_secs(5), client.delete(&format!("{LEASES}/b"))).await.is_err());
    client.put(&path, &held_by(made, "y")).await;
    sleep(Duration::from_secs(20)).await;
    let left: Vec<_> = client.0.list("coordination.k8s.io", "leases", "shop");
    assert_eq!(left.iter().map(|one| &one["metadata"]["name"]).collect::<Vec<_>>(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_erroring_server_answers_500_and_ends_open_watches() {
    let client = Client(server());
    let mut watch = client.watch(&format!("{LEASES}?watch=true&resourceVersion=2")).await;
    client.0.set_faults(Faults { erroring: true, ..Faults::default() });
    assert_eq!(watch.next().await, None);
    let (code, status) = client.get(LEASES).await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    client.0.set_faults(Faults::default());
    assert_eq!(client.get(LEASES).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_answers_nothing_and_its_watches_go_on_afterwards() {
    let client = Client(server());
    let mut watch = client.watch(&format!("{LEASES}?watch=true&resourceVersion=2")).await;
    client.0.set_faults(Faults { silent: true, ..Faults::default() });
    assert!(timeout(Duration::from_secs(60), client.get(LEASES)).await.is_err());
    client.0.put("cluster", json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "namespace": "shop", "name": "a" },
    })).unwrap();
    assert!(timeout(Duration::from_secs(60), watch.next()).await.is_err());
    client.0.set_faults(Faults::default());
    assert_eq!(watch.told().await.unwrap(), "ADDED a");
}
