//! What one change costs among 100 clusters × 1,000 exported names, what an export takes in memory, and what an answer
//! costs among 100,000 names. `cargo bench -p tombolo-core --bench scale`
//!
//! Prints medians. The targets: a change is decided in 0.5 ms, an export takes 1 KiB in each daemon, an answer takes 1 µs
//! from question to records and 2 µs from bytes to bytes. The numbers of two machines, or of two hours on a busy one, do not
//! compare; the columns of one run do.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers")]
#![allow(clippy::disallowed_types, reason = "a bench measures real time")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench may fail loudly")]
#![allow(clippy::wildcard_enum_match_arm, reason = "of all kinds it has a few")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};
use tombolo_core::base::{ClusterId, Epoch, Few, Instant, Label, Machine as _, Wall};
use tombolo_core::dns::{Picks, Query, RecordKind, Table, Zone, answer, question, respond};
use tombolo_core::model::{
    Api, ClusterRecord, Digest, ExportRecord, ExportSummary, Family, Import, Kind, Namespace, Object, Offer, Port,
    Protocol, ServiceKey, ServiceType, SourceEndpoint, SourceSlice, Version, WatchEvent, Write,
};
use tombolo_core::roles::{Discovery, Dns, Input, Output, Role as _};

const CLUSTERS: u32 = 100;
const NAMES: u32 = 1_000;
const EXPORTS: u32 = CLUSTERS * NAMES;
/// All names are spread over so many namespaces.
const NAMESPACES: u32 = 100;
const ROUNDS: u32 = 2_000;

fn main() {
    println!("{CLUSTERS} clusters x {NAMES} exported names");
    let before = resident();
    let (mut dns, mut table, took) = full_dns();
    report("dns: all listings, in all", took);
    bytes("dns: memory of an export", before);
    let changes = median((0..ROUNDS).map(|round| {
        let input = Input::Watched(Api::Local, applied(slice(round % EXPORTS, round % 2 == 0), round.into()));
        let began = Clock::now();
        dns.handle(input, Instant::ZERO);
        while let Some(output) = dns.poll_output() {
            if let Output::Dns(new) = output {
                table = new;
            }
        }
        began.elapsed()
    }));
    report("dns: one endpoint changes", changes);
    answers(&table);

    let before = resident();
    let (mut discovery, took) = full_discovery();
    report("discovery: all listings, in all", took);
    bytes("discovery: memory of an export", before);
    let changes = median((0..ROUNDS).map(|round| change(&mut discovery, round)));
    report("discovery: one export changes", changes);
}

fn answers(table: &Table) {
    let mut picks = Picks::default();
    let names: Vec<String> = (0..ROUNDS).map(|round| name(round.wrapping_mul(7_919) % EXPORTS)).collect();
    let queries: Vec<Query> = names.iter().map(|name| Query::new(name, RecordKind::A).unwrap()).collect();
    let each = |query: &Query, picks: &mut Picks| {
        let began = Clock::now();
        drop(black_box(answer(table, black_box(query), picks)));
        began.elapsed()
    };
    for query in &queries {
        each(query, &mut picks);
    }
    report("dns: an answer, question to records", median(queries.iter().map(|query| each(query, &mut picks))));
    let requests: Vec<Vec<u8>> = names.iter().map(|name| question(7, name, RecordKind::A).unwrap()).collect();
    let each = |request: &Vec<u8>, picks: &mut Picks| {
        let began = Clock::now();
        drop(black_box(respond(table, black_box(request), picks)));
        began.elapsed()
    };
    report("dns: an answer, bytes to bytes", median(requests.iter().map(|request| each(request, &mut picks))));
}

fn report(what: &str, took: Duration) {
    println!("{what:<40} {:>12.3} us", took.as_secs_f64() * 1e6);
}

fn bytes(what: &str, before: u64) {
    println!("{what:<40} {:>12} bytes", resident().saturating_sub(before) / u64::from(EXPORTS));
}

/// Resident memory of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

fn cluster(export: u32) -> ClusterId {
    ClusterId::new(&format!("cluster-{}", export / NAMES)).unwrap()
}

fn key(export: u32) -> ServiceKey {
    let namespace = label(&format!("namespace-{}", export % NAMESPACES));
    ServiceKey { namespace, name: label(&format!("service-{export}")) }
}

fn name(export: u32) -> String {
    let ServiceKey { namespace, name } = key(export);
    format!("{name}.{namespace}.svc.clusterset.local")
}

fn port() -> Port {
    Port { name: Some(label("http")), protocol: Protocol::Tcp, port: 80, app_protocol: None }
}

fn record(export: u32, age_s: u64) -> Object {
    let offer = Offer::new(ServiceType::ClusterIp, [port()].into(), [Family::V4].into());
    let created = Wall::from_unix_secs(age_s);
    Object::from(ExportRecord { cluster: cluster(export), key: key(export), created, offer: Arc::new(offer) })
}

fn slice(export: u32, ready: bool) -> Object {
    let [_, b, c, d] = export.to_be_bytes();
    Object::from(SourceSlice {
        cluster: cluster(export),
        key: key(export),
        family: Family::V4,
        number: 0,
        endpoints: [SourceEndpoint { address: [10, b, c, d].into(), hostname: None, ready }].into(),
        ports: [port()].into(),
    })
}

fn applied(object: Object, version: u64) -> WatchEvent {
    WatchEvent::Applied(object, Version(version.to_string().as_str().into()))
}

/// All listings that a daemon watches, of what is there.
fn list(machine: &mut impl FnMut(Input), watches: &[(Api, Kind)], there: impl Fn(Api, Kind) -> Vec<Object>) {
    for (api, kind) in watches {
        machine(Input::Watched(*api, WatchEvent::Began(*kind)));
        for object in there(*api, *kind) {
            machine(Input::Watched(*api, applied(object, 1)));
        }
        machine(Input::Watched(*api, WatchEvent::Synced(*kind)));
    }
}

/// A discovery of a cluster that exports nothing, all of whose writes were carried out and are shown.
fn full_discovery() -> (Discovery, Duration) {
    let mut discovery = Discovery::new(ClusterId::new("home").unwrap(), "uid".into(), 1);
    let began = Clock::now();
    let watches = discovery.watches();
    let mut feed = |input| {
        discovery.handle(input, Instant::ZERO);
        settle(&mut discovery);
    };
    list(&mut feed, watches, |api, kind| match (api, kind) {
        (Api::Local, Kind::Cluster) => vec![Object::from(ClusterRecord {
            cluster: ClusterId::new("home").unwrap(),
            pods: vec![],
            services: vec![],
            epoch: Epoch(1),
        })],
        (Api::Local, Kind::Namespace) => (0..NAMESPACES)
            .map(|number| Object::from(Namespace { name: label(&format!("namespace-{number}")) }))
            .collect(),
        (Api::Broker, Kind::ExportRecord) => (0..EXPORTS).map(|export| record(export, 1)).collect(),
        (Api::Broker, Kind::SourceSlice) => (0..EXPORTS).map(|export| slice(export, true)).collect(),
        (Api::Broker, Kind::ExportSummary) => (0..CLUSTERS)
            .map(|number| {
                Object::from(ExportSummary { cluster: cluster(number * NAMES), generation: 1, digest: Digest::EMPTY })
            })
            .collect(),
        _ => Vec::new(),
    });
    (discovery, began.elapsed())
}

/// An object as a watch shows it: read anew, so that it shares nothing with what was written.
fn read_anew(object: Object) -> Object {
    match object {
        Object::Import(import) => {
            let Import { key, offer, sources } = &*import;
            let offer = Arc::new(Offer { ports: offer.ports.to_vec().into(), ..Offer::clone(offer) });
            let sources = sources.iter().map(|(cluster, since)| (cluster.clone(), *since)).collect();
            Object::from(Import { key: key.clone(), offer, sources })
        }
        Object::SourceSlice(slice) => {
            let (endpoints, ports) = (slice.endpoints.to_vec().into(), slice.ports.to_vec().into());
            Object::from(SourceSlice { endpoints, ports, ..SourceSlice::clone(&slice) })
        }
        other => other,
    }
}

/// Carries out all writes.
fn settle(discovery: &mut Discovery) {
    while let Some(output) = discovery.poll_output() {
        let Output::Write(request, api, write) = output else { continue };
        let version = Version("2".into());
        let shown = match write {
            Write::Create(object) | Write::Replace(object, _) => {
                WatchEvent::Applied(read_anew(object), version.clone())
            }
            Write::Delete(key, _) => WatchEvent::Deleted(key),
        };
        discovery.handle(Input::Written(request, Ok(version)), Instant::ZERO);
        discovery.handle(Input::Watched(api, shown), Instant::ZERO);
    }
}

/// One export becomes another: until the write is decided.
fn change(discovery: &mut Discovery, round: u32) -> Duration {
    let export = round.wrapping_mul(7_919) % EXPORTS;
    let input = Input::Watched(Api::Broker, applied(record(export, u64::from(round) + 2), u64::from(round) + 10));
    let began = Clock::now();
    discovery.handle(input, Instant::ZERO);
    let took = began.elapsed();
    settle(discovery);
    took
}

fn full_dns() -> (Dns, std::sync::Arc<Table>, Duration) {
    let mut dns = Dns::new(ClusterId::new("home").unwrap(), Zone::default(), Duration::from_secs(5), Few::default());
    let began = Clock::now();
    let watches = dns.watches();
    let mut table = None;
    let mut feed = |input| {
        dns.handle(input, Instant::ZERO);
        while let Some(output) = dns.poll_output() {
            if let Output::Dns(new) = output {
                table = Some(new);
            }
        }
    };
    list(&mut feed, watches, |_, kind| match kind {
        Kind::Import => (0..EXPORTS)
            .map(|export| {
                let Object::ExportRecord(record) = record(export, 1) else { unreachable!() };
                let sources = [(record.cluster.clone(), record.created)].into();
                Object::from(Import { key: record.key.clone(), offer: record.offer.clone(), sources })
            })
            .collect(),
        Kind::SourceSlice => (0..EXPORTS).map(|export| slice(export, true)).collect(),
        _ => Vec::new(),
    });
    (dns, table.unwrap(), began.elapsed())
}
