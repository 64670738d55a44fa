//! Measurements: that there are some, and what is told when there are none. How high they are is no matter of tests.

use crate::Test;
use crate::bed::Machine;
use serde_json::Value;
use std::path::Path;

pub const TESTS: &[Test] = &[
    ("a_bench_measures_tombolo_beside_others_and_leaves_nothing", measured),
    ("what_cannot_be_measured_is_told", unusable),
];

fn measured() {
    let machine = Machine::new();
    let before = machine.snapshot();
    let output = machine.run(&["bench", "--rounds", "1", "--lasts", "100", "--output", "json"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let measured = figures["measured"].as_array().unwrap();
    let mut expected = vec!["no cable", "tombolo"];
    // Else it was said.
    if told.is_empty() {
        expected.push("wireguard-go");
    } else {
        assert!(told.starts_with("SKIPPED: "), "{told}");
    }
    for way in ["gateway to gateway", "worker to worker"] {
        let of_way = measured.iter().filter(|one| one["way"] == way);
        let mut names: Vec<&str> = of_way.clone().map(|one| one["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{figures:#}");
        for one in of_way {
            let round = &one["rounds"][0];
            let rates = round["rates"].as_array().unwrap().iter().chain([&round["trip"]]);
            assert!(rates.map(|rate| rate.as_f64().unwrap()).all(|rate| rate > 0.0), "{one:#}");
        }
    }
    machine.is_as(&before);
}

fn unusable() {
    let machine = Machine::new();
    let before = machine.snapshot();
    for (arguments, told) in [
        (["--beside", "/bin/true"], "makes no link that wg can set up, as wireguard-go does"),
        (["--program", "/no/such"], "error: there is no /no/such: cargo build -p tombolo-daemon"),
        (["--lasts", "0"], "error: invalid value '0' for '--lasts <MS>'"),
    ] {
        let output = machine.run(&[&["bench", "--rounds", "1"], arguments.as_slice()].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_skipped = said.contains("there is no wg") && !Path::new("/usr/bin/wg").exists();
        assert!(is_skipped || (!output.status.success() && said.contains(told)), "{arguments:?}: {said}");
    }
    machine.is_as(&before);
}
