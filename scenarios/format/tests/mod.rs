//! Whole files in; scenarios or mistakes out.

mod broken;
mod garbage;
mod meaning;
mod readme;
mod schema;
mod written;

use super::parse;
use std::fs;
use std::path::{Path, PathBuf};

/// A file in which each section has something to break.
const BASE: &str = "\
scenario: two clusters
about: A file in which each section has something to break.
clusters:
  west: { pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, gw-b*, worker] }
  east: { pods: 10.2.0.0/16, services: 10.102.0.0/16, nodes: [gw-a*, worker] }
broker: east
links: { default: { latency: 5ms }, pairs: [{ between: [west, east], latency: 20ms, loss: 1% }] }
workloads:
  - { service: web, namespace: shop, cluster: east, pods: 2, ports: [80/tcp], exported: true }
timeline:
  - { at: 20s, do: { power_off: west/active-gateway } }
  - { at: 30s, do: { api: { of: west, is: slow, by: 6s } } }
  - { at: 40s, do: { power_on: west/last-powered-off } }
expect:
  - { by: 10s, connect: { from: west/worker, to: \"web.shop.svc.clusterset.local:80\" } }
  - { during: 20s..60s, outage: { from: west/worker, to: \"web.shop.svc.clusterset.local:80\", at_most: 1s } }
  - { during: 42s..60s, unchanged: west/active-gateway }
";

/// [`BASE`] with one thing replaced.
fn base_with(old: &str, new: &str) -> String {
    assert_eq!(BASE.matches(old).count(), 1, "'{old}' must stand once in the base");
    BASE.replace(old, new)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Name and text of each file that is kept for a person to read.
fn library() -> Vec<(String, String)> {
    files(&folder())
}

/// Name and text of each file that chance has found.
fn corpus() -> Vec<(String, String)> {
    files(&folder().join("corpus"))
}

fn files(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let read =
        |path: PathBuf| (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap());
    files.into_iter().map(read).collect()
}

#[test]
fn every_file_of_the_library_parses_and_is_named_like_its_scenario() {
    assert!(!library().is_empty() && !corpus().is_empty());
    let kept = corpus();
    for (name, text) in library().iter().chain(&kept) {
        let scenario = parse(&format!("{name}.yaml"), text).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(scenario.name.replace(' ', "-"), *name);
        assert!(!scenario.timeline.is_empty(), "{name} tells no story");
        // What was found by chance may be judged by the invariants alone.
        let is_kept = kept.iter().any(|(other, _)| other == name);
        assert!(is_kept || !scenario.expect.is_empty(), "{name} expects nothing");
    }
}
