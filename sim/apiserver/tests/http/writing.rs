use super::*;
use std::sync::{Arc, Mutex};
use tombolo_apiserver::Change;

const PATCH: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

#[tokio::test(start_paused = true)]
async fn a_created_object_gets_identity_and_a_second_one_exists_already() {
    let client = Client(server());
    let (code, made) = client.post(LEASES, &lease("a", "x")).await;
    assert_eq!(code, 201);
    assert_eq!(made["metadata"]["namespace"], "shop");
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    let (code, status) = client.post(LEASES, &lease("a", "y")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
    let (_, other) = client.post(LEASES, &lease("b", "x")).await;
    assert_ne!(made["metadata"]["uid"], other["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_create_is_refused_in_a_missing_namespace_with_a_version_or_with_a_bad_name() {
    let client = Client(server());
    assert_eq!(client.post(&LEASES.replace("shop", "nowhere"), &lease("a", "x")).await.0, 404);
    let versioned = json!({ "metadata": { "name": "a", "resourceVersion": "3" } });
    assert_eq!(client.post(LEASES, &versioned).await.0, 500);
    assert_eq!(client.post(LEASES, &lease("Bad_Name", "x")).await.0, 422);
    let elsewhere = json!({ "metadata": { "name": "a", "namespace": "default" } });
    assert_eq!(client.post(LEASES, &elsewhere).await.0, 400);
    assert_eq!(client.post(LEASES, &json!([1])).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn a_replace_needs_the_latest_version_and_one_that_changes_nothing_keeps_it() {
    let client = Client(server());
    let path = format!("{LEASES}/a");
    let (_, made) = client.post(LEASES, &lease("a", "x")).await;
    let (code, second) = client.put(&path, &held_by(made.clone(), "y")).await;
    assert_eq!((code, version(&second)), (200, version(&made) + 1));
    assert_eq!(second["metadata"]["generation"], 2);
    let (code, status) = client.put(&path, &held_by(made, "z")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let (code, same) = client.put(&path, &second).await;
    assert_eq!((code, &same), (200, &second));
    let (code, _) = client.put(&path, &lease("a", "z")).await;
    assert_eq!(code, 422, "a lease is not overwritten unseen");
    let mut reborn = second.clone();
    reborn["metadata"]["uid"] = json!("another");
    assert_eq!(client.put(&path, &reborn).await.0, 409);
    assert_eq!(client.put(&format!("{LEASES}/b"), &lease("b", "x")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn what_is_immutable_stays_and_metadata_does_not_move_the_generation() {
    let client = Client(server());
    let (_, made) = client.post(LEASES, &lease("a", "x")).await;
    let mut changed = made.clone();
    changed["metadata"]["creationTimestamp"] = json!("1999-01-01T00:00:00Z");
    changed["metadata"]["labels"] = json!({ "a": "b" });
    let (_, after) = client.put(&format!("{LEASES}/a"), &changed).await;
    assert_eq!(after["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
    assert_eq!(after["metadata"]["labels"]["a"], "b");
    assert_eq!(after["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_status_subresource_is_written_apart() {
    let client = Client(server());
    let path = format!("{EXPORTS}/web");
    let object = json!({ "metadata": { "name": "web" }, "spec": { "a": 1 }, "status": { "b": 1 } });
    let (_, made) = client.post(EXPORTS, &object).await;
    assert_eq!(made.get("status"), None);
    let mut both = made.clone();
    both["spec"]["a"] = json!(2);
    both["status"] = json!({ "b": 2 });
    let (_, after) = client.put(&format!("{path}/status"), &both).await;
    assert_eq!((&after["spec"]["a"], &after["status"]["b"]), (&json!(1), &json!(2)));
    assert_eq!(after["metadata"]["generation"], 1);
    both["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
    both["status"] = json!({ "b": 3 });
    let (_, after) = client.put(&path, &both).await;
    assert_eq!((&after["spec"]["a"], &after["status"]["b"]), (&json!(2), &json!(2)));
    assert_eq!(after["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_carries_its_status_as_an_ordinary_field() {
    let client = Client(server());
    let path = "/apis/submariner.io/v1/namespaces/shop/gateways";
    let gateway = json!({ "metadata": { "name": "gw-a" }, "status": { "haStatus": "active" } });
    assert_eq!(client.post(path, &gateway).await.1["status"]["haStatus"], "active");
}

#[tokio::test(start_paused = true)]
async fn a_delete_obeys_its_preconditions() {
    let client = Client(server());
    let path = format!("{LEASES}/a");
    let (_, made) = client.post(LEASES, &lease("a", "x")).await;
    let options = |uid: &Value, version: &str| json!({ "preconditions": { "uid": uid, "resourceVersion": version } });
    let uid = &made["metadata"]["uid"];
    assert_eq!(client.call("DELETE", &path, &options(uid, "1")).await.0, 409);
    assert_eq!(client.call("DELETE", &path, &options(&json!("another"), "")).await.0, 409);
    let (code, status) = client.call("DELETE", &path, &options(uid, &version(&made).to_string())).await;
    assert_eq!((code, &status["details"]["uid"]), (200, uid));
    assert_eq!(client.delete(&path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_an_object_until_it_is_removed() {
    let client = Client(server());
    let path = format!("{LEASES}/a");
    let object = json!({ "metadata": { "name": "a", "finalizers": ["tombolo.dev/x"] } });
    client.post(LEASES, &object).await;
    let (code, going) = client.delete(&path).await;
    assert_eq!((code, going["metadata"].get("deletionTimestamp").is_some()), (200, true));
    let mut free = going.clone();
    free["metadata"]["finalizers"] = json!([]);
    assert_eq!(client.put(&path, &free).await.0, 200);
    assert_eq!(client.get(&path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_with_it() {
    let client = Client(server());
    client.post(LEASES, &lease("a", "x")).await;
    assert_eq!(client.delete("/api/v1/namespaces/shop").await.0, 200);
    assert_eq!(client.get(&format!("{LEASES}/a")).await.0, 404);
    assert_eq!(client.post(LEASES, &lease("a", "x")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_merge_patch_changes_what_it_names_unless_its_version_is_stale() {
    let client = Client(server());
    let path = format!("{LEASES}/a");
    let (_, made) = client.post(LEASES, &lease("a", "x")).await;
    let patch = json!({ "metadata": { "annotations": { "k": "v" } }, "spec": { "holderIdentity": null } });
    let (code, after) = client.typed("PATCH", &path, PATCH, &patch).await;
    assert_eq!((code, &after["metadata"]["annotations"]["k"]), (200, &json!("v")));
    assert_eq!(after["spec"], json!({}));
    let stale = json!({ "metadata": { "resourceVersion": made["metadata"]["resourceVersion"] }, "spec": {} });
    assert_eq!(client.typed("PATCH", &path, PATCH, &stale).await.0, 409);
    assert_eq!(client.typed("PATCH", &path, "application/json-patch+json", &json!([])).await.0, 415);
}

#[tokio::test(start_paused = true)]
async fn an_apply_creates_then_merges_and_needs_a_manager() {
    let client = Client(server());
    let path = format!("{LEASES}/a");
    let wanted = lease("a", "x");
    assert_eq!(client.typed("PATCH", &path, APPLY, &wanted).await.0, 422);
    let by = |who: &str| format!("{path}?fieldManager={who}");
    assert_eq!(client.typed("PATCH", &by("one"), APPLY, &wanted).await.0, 201);
    let more = json!({ "metadata": { "labels": { "a": "b" } } });
    let (code, merged) = client.typed("PATCH", &by("two"), APPLY, &more).await;
    assert_eq!((code, &merged["spec"]["holderIdentity"]), (200, &json!("x")));
    let (code, _) = client.typed("PATCH", &by("two"), APPLY, &lease("a", "y")).await;
    assert_eq!(code, 409);
    let forced = format!("{}&force=true", by("two"));
    let (code, forced) = client.typed("PATCH", &forced, APPLY, &lease("a", "y")).await;
    assert_eq!((code, &forced["spec"]["holderIdentity"]), (200, &json!("y")));
    assert_eq!(forced["metadata"]["labels"], json!({}), "what is applied no more is gone, its map may stay");
}

#[tokio::test(start_paused = true)]
async fn the_observer_is_told_who_wrote_what_and_nothing_of_what_changed_nothing() {
    let client = Client(server());
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    client.0.observe(move |accepted| {
        let holder = accepted.object["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        log.lock().unwrap().push((accepted.who.to_owned(), accepted.change, accepted.name.to_owned(), holder));
    });
    let (_, made) = client.post(LEASES, &lease("a", "x")).await;
    client.put(&format!("{LEASES}/a"), &made).await;
    client.put(&format!("{LEASES}/a"), &held_by(made, "y")).await;
    client.post(LEASES, &lease("a", "z")).await;
    client.delete(&format!("{LEASES}/a")).await;
    let entry = |change, holder: &str| (client::WHO.to_owned(), change, "a".to_owned(), holder.to_owned());
    let expected = [entry(Change::Created, "x"), entry(Change::Replaced, "y"), entry(Change::Deleted, "y")];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_cluster_itself_may_choose_identity_and_status_and_a_client_may_not() {
    let client = Client(server());
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": "gw-a", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z" },
        "status": { "addresses": [] },
    });
    let chosen = client.0.put("cluster", node.clone()).unwrap();
    assert_eq!((&chosen["metadata"]["uid"], &chosen["status"]), (&json!("u"), &node["status"]));
    client.delete("/api/v1/nodes/gw-a").await;
    let (_, made) = client.post("/api/v1/nodes", &node).await;
    assert_ne!(made["metadata"]["uid"], "u");
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn two_servers_of_one_seed_give_the_same_answers() {
    let run = async |seed: u64| {
        let server = ApiServer::new(Registry::clusterset(), seed, || Wall::from_unix_secs(0));
        server.create_namespace("shop").unwrap();
        Client(server).post(LEASES, &lease("a", "x")).await.1
    };
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await["metadata"]["uid"], run(2).await["metadata"]["uid"]);
}
