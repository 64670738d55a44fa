//! `bench`: how fast core speed is, on a scenario that is always the same.
#![allow(clippy::disallowed_types, reason = "a measurement reads the real clock")]

use super::{Ending, output};
use anyhow::Context as _;
use core::time::Duration;
use std::time::Instant;
use tombolo_scenarios::Stage as _;
use tombolo_sim::core_speed::CoreSpeed;

/// Three clusters of three nodes, two of them gateways, and a broker of its own.
const SCENARIO: &str = "
scenario: bench
about: For measurements.
clusters:
  a: { pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, gw-b*, worker] }
  b: { pods: 10.2.0.0/16, services: 10.102.0.0/16, nodes: [gw-a*, gw-b*, worker] }
  c: { pods: 10.3.0.0/16, services: 10.103.0.0/16, nodes: [gw-a*, gw-b*, worker] }
broker: own
cable: wireguard
links: { default: { latency: 5ms, jitter: 1ms } }
workloads:
  - { service: web, namespace: shop, cluster: a, pods: 2, ports: [80/tcp], exported: true }
expect:
  - { by: 10s, settled: true }
";

/// Runs it for so many simulated seconds and prints the rates.
pub(super) fn bench(simulated: u64, seed: u64) -> anyhow::Result<Ending> {
    let scenario = tombolo_scenarios::parse("bench", SCENARIO).map_err(|errors| anyhow::anyhow!("{errors}"))?;
    let mut world = CoreSpeed::new(&scenario, seed).context("cannot lay the world out")?;
    let began = Instant::now();
    world.advance(Duration::from_secs(simulated)).context("the run ended early")?;
    let wall = began.elapsed().as_secs_f64();
    let facts = world.facts().len();
    output::say(&format!(
        "3 clusters x 3 nodes, {simulated} simulated seconds, seed {seed}\n\
         wall time          {wall:>12.3} s\n\
         machine steps      {:>12}\n\
         steps a second     {:>12.0}\n\
         times real time    {:>12.0}\n\
         facts              {facts:>12}",
        world.steps(),
        world.steps() as f64 / wall,
        simulated as f64 / wall,
    ))?;
    Ok(Ending::Held)
}
