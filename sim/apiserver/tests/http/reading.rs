use super::*;

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_are_of_one_snapshot() {
    let client = Client(server());
    for name in ["a", "b", "c", "d", "e"] {
        client.post(LEASES, &lease(name, "x")).await;
    }
    let (_, first) = client.get(&format!("{LEASES}?&limit=2")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    client.delete(&format!("{LEASES}/d")).await;
    client.post(LEASES, &lease("bb", "x")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, second) = client.get(&format!("{LEASES}?limit=9&continue={token}")).await;
    assert_eq!(code, 200);
    let names: Vec<_> = second["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["c", "d", "e"]);
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["metadata"].get("continue"), None);
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_expires_with_the_history_and_a_malformed_one_is_refused() {
    let client = Client(server());
    for name in ["a", "b"] {
        client.post(LEASES, &lease(name, "x")).await;
    }
    let (_, first) = client.get(&format!("{LEASES}?limit=1")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    client.0.expire_history();
    let (code, status) = client.get(&format!("{LEASES}?limit=1&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    assert_eq!(client.get(&format!("{LEASES}?limit=1&continue=what")).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_of_one_namespace_or_of_all_and_obeys_selectors() {
    let client = Client(server());
    client.0.create_namespace("other").unwrap();
    let labelled = |name: &str, tier: &str| json!({ "metadata": { "name": name, "labels": { "tier": tier } } });
    client.post(SERVICES, &labelled("web", "front")).await;
    client.post(SERVICES, &labelled("db", "back")).await;
    client.post("/api/v1/namespaces/other/services", &labelled("web", "back")).await;
    let count = async |path: &str| client.get(path).await.1["items"].as_array().unwrap().len();
    assert_eq!(count(SERVICES).await, 2);
    assert_eq!(count("/api/v1/services").await, 3);
    assert_eq!(count("/api/v1/services?labelSelector=tier%3Dback").await, 2);
    assert_eq!(count("/api/v1/services?fieldSelector=metadata.name%3Dweb,metadata.namespace%3Dshop").await, 1);
    assert_eq!(count("/api/v1/namespaces/nowhere/services").await, 0);
    assert_eq!(client.get("/api/v1/services?fieldSelector=spec.type%3Dx").await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn a_revision_in_the_future_is_waited_for_and_then_refused() {
    let client = Client(server());
    let before = tokio::time::Instant::now();
    let (code, status) = client.get(&format!("{LEASES}?resourceVersion=999")).await;
    assert_eq!((code, &status["details"]["causes"][0]["reason"]), (504, &json!("ResourceVersionTooLarge")));
    assert_eq!(before.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn items_of_custom_lists_say_what_they_are_and_those_of_built_in_ones_do_not() {
    let client = Client(server());
    client.post(LEASES, &lease("a", "x")).await;
    client.post(EXPORTS, &json!({ "metadata": { "name": "web" } })).await;
    let (_, leases) = client.get(LEASES).await;
    assert_eq!((&leases["kind"], leases["items"][0].get("kind")), (&json!("LeaseList"), None));
    let (_, exports) = client.get(EXPORTS).await;
    assert_eq!(exports["items"][0]["apiVersion"], "multicluster.x-k8s.io/v1alpha1");
    let (_, other) = client.get(&EXPORTS.replace("v1alpha1", "v1beta1")).await;
    assert_eq!(other["items"][0]["apiVersion"], "multicluster.x-k8s.io/v1beta1");
}

#[tokio::test(start_paused = true)]
async fn clients_find_out_what_is_served() {
    let client = Client(server());
    let (_, groups) = client.get("/apis").await;
    assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "submariner.io"));
    let (_, resources) = client.get("/apis/multicluster.x-k8s.io/v1beta1").await;
    let names: Vec<_> = resources["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["serviceexports", "serviceexports/status", "serviceimports", "serviceimports/status"]);
    assert_eq!(client.get("/apis/nothing.example/v1").await.0, 404);
}
