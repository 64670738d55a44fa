//! Scenarios played with real daemons. They are short; `ci/lab` plays those of the library.

use crate::Test;
use crate::bed::{LAB, Machine, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;

pub const TESTS: &[Test] = &[
    ("a_failover_holds_and_is_told_as_in_the_simulator", failover),
    ("what_does_not_hold_fails_the_run_and_is_judged_alike_in_the_simulator", wrong),
    ("what_no_machine_can_do_is_skipped_with_the_reason", skipped),
    ("a_run_that_is_killed_leaves_nothing", killed),
    ("what_cannot_be_played_is_told", unusable),
    ("cables_that_do_not_encrypt_say_so", open),
];

/// What the tests of this page lack, if anything.
pub fn lacking() -> Option<String> {
    let program = Path::new(LAB).with_file_name("tombolo");
    (!program.is_file()).then(|| format!("there is no {}: cargo build -p tombolo-daemon", program.display()))
}

fn scenario(timeline: &str, expect: &str) -> String {
    format!(
        "\
scenario: short
about: For tests.
clusters:
  west: {{ pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, gw-b*, worker] }}
  east: {{ pods: 10.2.0.0/16, services: 10.102.0.0/16, nodes: [gw-a*, worker] }}
broker: own
workloads:
  - {{ service: web, namespace: shop, cluster: east, pods: 2, ports: [80/tcp], exported: true }}
{timeline}expect:
{expect}"
    )
}

/// The JSON report of a run.
fn play(machine: &Machine, text: &str, more: &[&str]) -> Value {
    let file = machine.file("short", text);
    let said = machine.lab(&[&["run", &file, "--output", "json"], more].concat());
    let said = said.unwrap_or_else(|error| panic!("{error}"));
    serde_json::from_str(&said).unwrap()
}

fn failover() {
    let machine = Machine::new();
    let before = machine.snapshot();
    // A busy machine may take longer than the second that the library asks for.
    let text = scenario(
        "timeline:\n  - { at: 8s, do: { power_off: west/active-gateway } }\n  - { at: 12s, do: { power_on: west/last-powered-off } }\n",
        "  - { by: 7s, connect: { from: west/worker, to: \"web.shop.svc.clusterset.local:80\" } }
  - { during: 8s..20s, outage: { from: west/worker, to: \"web.shop.svc.clusterset.local:80\", at_most: 3s } }
  - { during: 7s..20s, dns: { from: west/worker, name: web.shop.svc.clusterset.local, any_of: [east/shop/web] } }\n",
    );
    let report = play(&machine, &text, &["--against", "core"]);
    assert_eq!((&report["judgement"], &report["differs"]), (&"met".into(), &Value::Array(vec![])), "{report:#}");
    assert_eq!(report["stage"], "lab");
    let gap = report["verdicts"][1]["measured_ms"].as_f64().unwrap();
    println!("longest outage when a gateway lost power: {gap:.0} ms");
    assert!(gap > 100.0, "nothing failed: {report:#}");
    // All that left a site passed a relay.
    let passed = &report["passed"];
    assert_eq!((&passed["clear"], &passed["first"]), (&0.into(), &Value::Null), "{passed:#}");
    for kind in ["sealed", "apis", "discovery"] {
        assert!(passed[kind].as_u64().unwrap() > 0, "{kind}: {passed:#}");
    }
    machine.is_as(&before);
}

fn wrong() {
    let machine = Machine::new();
    let text = scenario(
        "timeline:\n  - { at: 5s, do: { unready: east/shop/web } }\n",
        "  - { during: 6s..12s, outage: { from: west/worker, to: \"web.shop.svc.clusterset.local:80\", at_most: 1s } }\n",
    );
    let output = machine.run(&["run", &machine.file("short", &text), "--against", "core"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let verdict = said.lines().find(|line| line.contains("outage west/worker to web")).unwrap_or_default();
    assert!(verdict.starts_with("  FAILED"), "{said}");
    assert!(said.ends_with("  same    verdicts as at core speed\n"), "{said}");
}

fn skipped() {
    let machine = Machine::new();
    let text = scenario(
        "timeline:\n  - { at: 5s, do: { clock_skew: { node: west/worker, by: 1h } } }\n",
        "  - { by: 10s, settled: true }\n",
    );
    let report = play(&machine, &text, &[]);
    assert_eq!(report["judgement"], "skipped");
    assert_eq!(report["skipped"], "needs clocks: all nodes have the machine's clock: play it in the simulator");
}

fn open() {
    let machine = Machine::new();
    let expect = "  - { by: 8s, connect: { from: west/worker, to: \"web.shop.svc.clusterset.local:80\" } }\n";
    let text = scenario("cable: vxlan\n", expect);
    let output = machine.run(&["run", &machine.file("short", &text)]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("\n  open    its cables do not encrypt: what passes between sites can be read\n"), "{said}");
}

fn killed() {
    let machine = Machine::new();
    let before = machine.snapshot();
    let file = machine.file("short", &scenario("", "  - { by: 60s, settled: true }\n"));
    let folder = Path::new(&file).with_file_name("record").display().to_string();
    let mut run = machine.start(&["run", &file, "--record", &folder]);
    // Who runs it, the keeper, and of the daemons those of five nodes and two clusters.
    until("all its daemons run", || machine.processes().len() >= 2 + 9);
    kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), Signal::SIGKILL).unwrap();
    run.wait().unwrap();
    until("its processes are gone", || machine.processes().is_empty());
    machine.is_as(&before);
}

fn unusable() {
    let machine = Machine::new();
    let file = machine.file("short", "scenario: nothing\n");
    for (arguments, told) in [
        (vec!["run", "no-such-file"], "error: cannot play no-such-file: there is no scenario no-such-file"),
        (vec!["run", &file], "error: cannot play "),
        (vec!["run", &file, "--program", "/no/such"], "error: there is no /no/such: cargo build -p tombolo-daemon"),
        (vec!["run", &file, "--record", "/run/x"], "error: /run/x is not seen in a lab"),
        (vec!["run", &file, "--trace", "--output", "json"], "error: --trace and --timeline are for people"),
    ] {
        let output = machine.run(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.starts_with(told), "{arguments:?}: {said}");
    }
}
