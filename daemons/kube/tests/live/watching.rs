use crate::stand::*;
use serde_json::json;
use std::time::Duration;
use tombolo_apiserver::{Backup, Faults, Gone};
use tombolo_core::model::{Api, Kind, WatchEvent};
use tombolo_core::roles::Input;
use tombolo_kube::{Connections, client};
use tombolo_shell::KubeHand as _;

const CLUSTERS: &[(Api, Kind)] = &[(Api::Local, Kind::Cluster)];

#[tokio::test(start_paused = true)]
async fn a_watch_lists_in_pages_and_then_follows() {
    let mut stand = Stand::with(tombolo_kube::Config { page_size: 2, ..config() });
    for name in ["a", "b", "c", "d", "e"] {
        stand.server.put("them", cluster_json(name)).unwrap();
    }
    stand.hand.watch(CLUSTERS);
    let listed = stand.lines(secs(1)).await;
    let expected: Vec<_> = ["began Cluster".to_owned()]
        .into_iter()
        .chain(["a", "b", "c", "d", "e"].map(|name| format!("applied Cluster {name}")))
        .chain(["synced Cluster".to_owned()])
        .collect();
    assert_eq!(listed, expected);
    stand.server.put("them", cluster_json("f")).unwrap();
    stand.server.delete("them", "submariner.io", "clusters", OWN, "a").unwrap();
    assert_eq!(stand.lines(secs(1)).await, ["applied Cluster f", "deleted Cluster a"]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_is_renewed_without_a_word() {
    let mut stand = Stand::new();
    stand.hand.watch(CLUSTERS);
    assert_eq!(stand.lines(secs(300)).await, ["began Cluster", "synced Cluster"]);
}

/// What was deleted while nobody watched is gone after the next listing.
async fn mark_and_sweep(gone: Gone) {
    let mut stand = Stand::new();
    stand.server.put("them", cluster_json("a")).unwrap();
    stand.server.put("them", cluster_json("b")).unwrap();
    stand.hand.watch(CLUSTERS);
    stand.lines(secs(1)).await;
    stand.server.set_faults(Faults { erroring: true, ..Faults::default() });
    stand.server.delete("them", "submariner.io", "clusters", OWN, "b").unwrap();
    stand.server.expire_history();
    assert_eq!(stand.lines(secs(20)).await, ["lost Cluster"], "{gone:?}");
    stand.server.set_faults(Faults { gone, ..Faults::default() });
    let expected = ["began Cluster", "applied Cluster a", "synced Cluster"];
    assert_eq!(stand.lines(secs(70)).await, expected, "{gone:?}");
    stand.server.put("them", cluster_json("c")).unwrap();
    assert_eq!(stand.lines(secs(1)).await, ["applied Cluster c"], "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn expired_history_leads_to_a_new_listing_if_told_in_the_stream() {
    mark_and_sweep(Gone::InStream).await;
}

#[tokio::test(start_paused = true)]
async fn expired_history_leads_to_a_new_listing_if_told_by_http() {
    mark_and_sweep(Gone::AsHttp).await;
}

#[tokio::test(start_paused = true)]
async fn an_open_watch_survives_expired_history() {
    let mut stand = Stand::new();
    stand.server.put("them", cluster_json("a")).unwrap();
    stand.hand.watch(CLUSTERS);
    stand.lines(secs(1)).await;
    stand.server.expire_history();
    let again = ["lost Cluster", "began Cluster", "applied Cluster a", "synced Cluster"];
    assert_eq!(stand.lines(secs(5)).await, again);
}

#[tokio::test(start_paused = true)]
async fn an_emptied_api_is_noticed_though_its_versions_begin_anew() {
    let mut stand = Stand::new();
    stand.server.put("them", cluster_json("a")).unwrap();
    stand.hand.watch(CLUSTERS);
    stand.lines(secs(1)).await;
    stand.server.restart_empty(|spec, _| spec.kind == "Namespace");
    assert_eq!(stand.lines(secs(15)).await, ["lost Cluster", "began Cluster", "synced Cluster"]);
    stand.server.put("them", cluster_json("b")).unwrap();
    assert_eq!(stand.lines(secs(1)).await, ["applied Cluster b"]);
}

/// What an old backup shows.
const OLD: [&str; 5] =
    ["began Cluster", "applied Cluster a", "applied Cluster b", "applied Cluster c", "synced Cluster"];

/// One that saw `new` alone, in an API that may come back with a, b and c; there the version of `new` stands for a.
async fn with_an_old_backup() -> (Stand, Backup) {
    let mut stand = Stand::new();
    for name in ["a", "b", "c"] {
        stand.server.put("them", cluster_json(name)).unwrap();
    }
    let backup = stand.server.back_up(|spec, _| spec.kind != "Namespace");
    stand.server.restart_empty(|spec, _| spec.kind == "Namespace");
    stand.server.put("them", cluster_json("new")).unwrap();
    stand.hand.watch(CLUSTERS);
    assert_eq!(stand.lines(secs(1)).await, ["began Cluster", "applied Cluster new", "synced Cluster"]);
    (stand, backup)
}

#[tokio::test(start_paused = true)]
async fn an_api_that_ends_a_watch_early_is_listed_anew_for_its_versions_may_stand_for_others() {
    let (mut stand, backup) = with_an_old_backup().await;
    // Answered at once, from the version of `new`, it would show what came after `a` only.
    stand.server.restore(&backup, |spec, _| spec.kind == "Namespace");
    assert_eq!(stand.lines(secs(15)).await, [&["lost Cluster"], OLD.as_slice()].concat());
}

#[tokio::test(start_paused = true)]
async fn an_api_that_came_back_with_an_old_store_is_seen_as_it_is_though_its_versions_stood_for_others() {
    let (mut stand, backup) = with_an_old_backup().await;
    stand.server.set_faults(Faults { erroring: true, ..Faults::default() });
    stand.server.restore(&backup, |spec, _| spec.kind == "Namespace");
    assert_eq!(stand.lines(secs(1)).await, ["lost Cluster"]);
    stand.server.set_faults(Faults::default());
    assert_eq!(stand.lines(secs(15)).await, OLD);
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_withdraws_nothing_and_what_happened_meanwhile_is_seen() {
    let mut stand = Stand::new();
    stand.server.put("them", cluster_json("a")).unwrap();
    stand.hand.watch(CLUSTERS);
    stand.lines(secs(1)).await;
    stand.server.set_faults(Faults { silent: true, ..Faults::default() });
    stand.server.put("them", cluster_json("b")).unwrap();
    stand.server.delete("them", "submariner.io", "clusters", OWN, "a").unwrap();
    assert_eq!(stand.lines(secs(600)).await, ["lost Cluster"], "and that once");
    stand.server.set_faults(Faults::default());
    assert_eq!(stand.lines(secs(60)).await, ["began Cluster", "applied Cluster b", "synced Cluster"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_down_at_the_start_is_waited_for_and_nothing_is_said_to_have_begun() {
    let mut stand = Stand::new();
    stand.server.set_faults(Faults { erroring: true, ..Faults::default() });
    stand.hand.watch(CLUSTERS);
    assert_eq!(stand.lines(secs(120)).await, Vec::<String>::new());
    stand.server.set_faults(Faults::default());
    assert_eq!(stand.lines(secs(40)).await, ["began Cluster", "synced Cluster"]);
}

/// The pauses have grown; then all is well for a while. How long does the next short outage blind us?
async fn after_a_long_outage(meanwhile: impl AsyncFn(&mut Stand)) -> Duration {
    let mut stand = Stand::new();
    stand.hand.watch(CLUSTERS);
    stand.lines(secs(1)).await;
    stand.server.set_faults(Faults { erroring: true, ..Faults::default() });
    stand.lines(secs(300)).await;
    stand.server.set_faults(Faults::default());
    assert_eq!(stand.lines(secs(40)).await, ["began Cluster", "synced Cluster"]);
    meanwhile(&mut stand).await;
    stand.server.set_faults(Faults { erroring: true, ..Faults::default() });
    stand.lines(secs(1)).await;
    stand.server.put("them", cluster_json("late")).unwrap();
    stand.server.set_faults(Faults::default());
    let healed = tokio::time::Instant::now();
    while line(&stand.next().await) != "applied Cluster late" {}
    healed.elapsed()
}

#[tokio::test(start_paused = true)]
async fn after_an_event_or_a_quiet_while_pauses_are_short_again() {
    let event = after_a_long_outage(async |stand| {
        stand.server.put("them", cluster_json("early")).unwrap();
        assert_eq!(line(&stand.next().await), "applied Cluster early");
    });
    assert!(event.await < secs(3));
    let quiet = after_a_long_outage(async |stand| {
        assert_eq!(stand.lines(secs(6)).await, Vec::<String>::new());
    });
    assert!(quiet.await < secs(3));
}

#[tokio::test(start_paused = true)]
async fn where_watches_are_refused_nothing_is_listed_again_and_again() {
    let mut stand = Stand::new();
    stand.server.set_faults(Faults { refuses_watches: true, ..Faults::default() });
    stand.hand.watch(CLUSTERS);
    assert_eq!(stand.lines(secs(300)).await, ["began Cluster", "synced Cluster"]);
    stand.server.put("them", cluster_json("a")).unwrap();
    stand.server.set_faults(Faults::default());
    assert_eq!(stand.lines(secs(40)).await, ["applied Cluster a"]);
}

#[tokio::test(start_paused = true)]
async fn garbage_is_told_once_and_spoils_nothing_else() {
    let mut stand = Stand::new();
    let mut bad = cluster_json("b");
    bad["spec"]["cluster_cidr"] = json!(["10.9.0.0/99"]);
    let reason = "told Cluster b at the local API: spec.cluster_cidr[0]: \"10.9.0.0/99\": \
                  not a range of the form 10.1.0.0/16 or fd00::/64";
    stand.server.put("them", cluster_json("a")).unwrap();
    stand.server.put("them", bad.clone()).unwrap();
    stand.server.put("them", cluster_json("c")).unwrap();
    stand.hand.watch(CLUSTERS);
    let expected = [reason, "began Cluster", "applied Cluster a", "applied Cluster c", "synced Cluster"];
    assert_eq!(stand.lines(secs(100)).await, expected);
    stand.server.expire_history();
    let again = ["lost Cluster", "began Cluster", "applied Cluster a", "applied Cluster c", "synced Cluster"];
    assert_eq!(stand.lines(secs(5)).await, again);
    stand.server.put("them", cluster_json("b")).unwrap();
    assert_eq!(stand.lines(secs(1)).await, ["applied Cluster b"]);
    stand.server.put("them", bad).unwrap();
    assert_eq!(stand.lines(secs(1)).await, [reason, "deleted Cluster b"]);
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_cannot_be_read_any_more_is_gone_though_its_name_does_not_tell_which_it_was() {
    let mut stand = Stand::new();
    let slice = |name: &str, cluster: &str| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [],
            "metadata": {
                "namespace": "shop", "name": name, "annotations": { "tombolo.dev/number": "0" },
                "labels": {
                    "multicluster.kubernetes.io/service-name": "web",
                    "multicluster.kubernetes.io/source-cluster": cluster,
                    "lighthouse.submariner.io/sourceNamespace": "shop",
                },
            },
        })
    };
    let (east, west) = ("web-fd481b84f93c2bd2", "web-945e66221fa12587");
    stand.server.put("them", slice(east, "east")).unwrap();
    stand.server.put("them", slice(west, "west")).unwrap();
    stand.hand.watch(&[(Api::Local, Kind::SourceSlice)]);
    stand.lines(secs(1)).await;
    stand.server.put("them", slice(east, "West!")).unwrap();
    stand.server.put("them", slice(west, "east")).unwrap();
    let mut deleted = Vec::new();
    while let Ok(arrival) = tokio::time::timeout(secs(1), stand.next()).await {
        if let Arrival::Input(Input::Watched(_, WatchEvent::Deleted(key))) = arrival {
            deleted.push((key.service().unwrap().to_string(), key.source.unwrap().cluster.to_string()));
        }
    }
    assert_eq!(deleted, ["east", "west"].map(|cluster| ("shop/web".to_owned(), cluster.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn at_the_broker_only_our_namespace_is_watched_and_at_home_all_that_services_live_in() {
    let mut stand = Stand::new();
    let service = |namespace: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "namespace": namespace, "name": "web" }, "spec": { "clusterIP": "10.101.0.1" },
        })
    };
    stand.server.put("them", service("shop")).unwrap();
    stand.server.put("them", service("default")).unwrap();
    stand.server.put("them", cluster_json("home")).unwrap();
    let mut far = cluster_json("far");
    far["metadata"]["namespace"] = json!("submariner-k8s-broker");
    stand.server.put("them", far).unwrap();
    stand.hand.watch(&[(Api::Broker, Kind::Cluster)]);
    assert_eq!(stand.lines(secs(1)).await, ["began Cluster", "applied Cluster far", "synced Cluster"]);
    stand.hand.watch(&[(Api::Local, Kind::Service)]);
    let services = ["began Service", "applied Service default/web", "applied Service shop/web", "synced Service"];
    assert_eq!(stand.lines(secs(1)).await, services);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_without_a_broker_is_told_so() {
    let server = server();
    let connections = Connections { local: piped(&server), broker: None };
    let mut stand = Stand::on(server, connections, config());
    stand.hand.watch(&[(Api::Broker, Kind::Cluster)]);
    assert_eq!(stand.lines(secs(1)).await, ["told broker Cluster: this daemon has no broker to watch"]);
}

/// A run with an API that fails now and then, with the time of each arrival.
async fn trace(seed: u64) -> Vec<(Duration, String)> {
    let mut stand = Stand::with(tombolo_kube::Config { seed, ..config() });
    let start = tokio::time::Instant::now();
    stand.hand.watch(&[(Api::Local, Kind::Cluster), (Api::Broker, Kind::Endpoint), (Api::Local, Kind::Lease)]);
    let mut trace = Vec::new();
    for round in 0..6_u8 {
        stand.server.put("them", cluster_json(&format!("c{round}"))).unwrap();
        stand.server.set_faults(Faults { erroring: round % 2 == 0, ..Faults::default() });
        if round == 3 {
            stand.server.expire_history();
        }
        let end = start + secs(20) * u32::from(round + 1);
        while let Ok(arrival) = tokio::time::timeout_at(end, stand.next()).await {
            trace.push((start.elapsed(), line(&arrival)));
        }
    }
    trace
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_trace() {
    let first = trace(1).await;
    assert!(first.len() > 15, "{first:?}");
    assert_eq!(first, trace(1).await);
    assert_ne!(first, trace(2).await, "the seed decides the pauses");
}

#[tokio::test]
async fn it_works_over_tcp() {
    let server = server();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = server.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(served.clone().serve_connection(stream));
        }
    });
    let connect = move |_| tokio::net::TcpStream::connect(address);
    let base = format!("http://{address}").parse().unwrap();
    let local = client(connect, &base, "test", secs(5)).unwrap();
    let mut stand = Stand::on(server, Connections { local, broker: None }, config());
    stand.server.put("them", cluster_json("a")).unwrap();
    stand.hand.watch(CLUSTERS);
    let listed: Vec<_> = [line(&stand.next().await), line(&stand.next().await), line(&stand.next().await)].into();
    assert_eq!(listed, ["began Cluster", "applied Cluster a", "synced Cluster"]);
    stand.server.put("them", cluster_json("b")).unwrap();
    assert_eq!(line(&stand.next().await), "applied Cluster b");
}
