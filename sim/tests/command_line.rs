//! What a user or a script meets: exit codes, streams, and the text that matters.

use libtest_mimic::{Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result<(), Failed>| Trial::test(format!("command line: {name}"), test);
    vec![
        trial("help_documents_the_exit_codes", help_documents_the_exit_codes),
        trial("a_file_that_is_not_there_ends_with_2", a_file_that_is_not_there_ends_with_2),
        trial("what_is_not_found_says_where_it_was_looked_for", what_is_not_found_says_where_it_was_looked_for),
        trial("a_bad_file_keeps_no_other_from_running", a_bad_file_keeps_no_other_from_running),
        trial("a_file_in_the_folder_where_it_runs_needs_no_ending", a_file_in_the_folder_where_it_runs_needs_no_ending),
        trial("a_mistake_in_a_scenario_is_shown_with_its_place", a_mistake_in_a_scenario_is_shown_with_its_place),
        trial("full_speed_plays_the_same_scenario", full_speed_plays_the_same_scenario),
        trial("an_expectation_that_fails_ends_with_1_and_how_to_replay", an_expectation_that_fails_ends_with_1),
        trial("seeds_are_told_in_order_with_a_summary", seeds_are_told_in_order_with_a_summary),
        trial("a_timeline_shows_leadership_and_flows_before_the_verdicts", a_timeline_shows_leadership_and_flows),
        trial("json_is_one_document_a_run", json_is_one_document_a_run),
        trial("two_processes_print_the_same_trace", two_processes_print_the_same_trace),
        trial("two_processes_print_the_same_trace_at_full_speed", two_processes_print_the_same_trace_at_full_speed),
        trial("output_that_cannot_be_written_ends_with_2", output_that_cannot_be_written_ends_with_2),
        trial("who_stops_reading_is_no_failure", who_stops_reading_is_no_failure),
        trial("fuzz_plays_each_seed_and_says_what_it_came_to", fuzz_plays_each_seed),
        trial("fuzz_says_what_is_wrong_with_what_was_asked", fuzz_says_what_is_wrong_with_what_was_asked),
        trial("list_tells_what_each_scenario_is_about", list_tells_what_each_scenario_is_about),
        trial("schema_prints_the_kept_schema", schema_prints_the_kept_schema),
        trial("bench_tells_machine_steps_a_second", bench_tells_machine_steps_a_second),
    ]
}

fn sim(arguments: &[&str]) -> Output {
    sim_in(concat!(env!("CARGO_MANIFEST_DIR"), "/..").as_ref(), arguments)
}

fn sim_in(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tombolo-sim")).args(arguments).current_dir(folder).output().unwrap()
}

/// With its output going there.
fn sim_into(stdout: Stdio, arguments: &[&str]) -> Output {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo-sim"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    command.spawn().unwrap().wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A small scenario in a file of its own, with this expectation.
fn scenario(name: &str, expectation: &str) -> PathBuf {
    let text = format!(
        "scenario: {name}
about: For tests of the command line.
clusters:
  west: {{ pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, worker] }}
broker: west
cable: wireguard
workloads:
  - {{ service: web, namespace: shop, cluster: west, pods: 1, ports: [80/tcp], exported: false }}
expect:
  - {expectation}
"
    );
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.yaml"));
    std::fs::write(&path, text).unwrap();
    path
}

fn reachable(name: &str) -> PathBuf {
    scenario(name, "{ by: 1s, connect: { from: west/gw-a, to: \"web.shop.svc.cluster.local:80\" } }")
}

fn help_documents_the_exit_codes() -> Result<(), Failed> {
    let output = sim(&["--help"]);
    let text = stdout(&output);
    assert!(output.status.success());
    assert!(text.contains("Exit codes:") && text.contains("doublecheck"), "{text}");
    Ok(())
}

fn a_file_that_is_not_there_ends_with_2() -> Result<(), Failed> {
    let output = sim(&["run", "nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot find nowhere.yaml"), "{}", stderr(&output));
    Ok(())
}

fn what_is_not_found_says_where_it_was_looked_for() -> Result<(), Failed> {
    let here = stderr(&sim(&["run", "power-loss"]));
    assert!(here.contains("looked for power-loss, power-loss.yaml, scenarios/power-loss.yaml in "), "{here}");
    assert!(here.contains("did you mean gateway-power-loss"), "{here}");
    let elsewhere = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for arguments in [&["run", "gateway-power-loss"][..], &["list"]] {
        let output = sim_in(elsewhere, arguments);
        assert_eq!(output.status.code(), Some(2));
        let text = stderr(&output);
        assert!(text.contains(elsewhere.file_name().unwrap().to_str().unwrap()), "{text}");
        assert!(text.contains("there is no folder scenarios/ there: run this in the root of the project"), "{text}");
    }
    let empty = stderr(&sim(&["list", "core"]));
    assert!(empty.contains("no scenario (*.yaml) in core: looked in "), "{empty}");
    Ok(())
}

fn a_file_in_the_folder_where_it_runs_needs_no_ending() -> Result<(), Failed> {
    let path = reachable("beside");
    let output = sim_in(path.parent().unwrap(), &["run", "beside"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    Ok(())
}

fn a_bad_file_keeps_no_other_from_running() -> Result<(), Failed> {
    let bad = scenario("bad", "{ by: 1s, conect: { from: west/gw-a, to: \"10.1.2.10:80\" } }");
    let [good, other] = [reachable("good"), reachable("other")];
    let [bad, good, other] = [&bad, &good, &other].map(|path| path.to_str().unwrap());
    for command in ["run", "doublecheck"] {
        let output = sim(&[command, good, bad, other]);
        assert_eq!(output.status.code(), Some(2));
        let (told, wrong) = (stdout(&output), stderr(&output));
        assert!(told.contains("good | core") && told.contains("other | core"), "{told}");
        assert!(wrong.contains("bad.yaml:10:"), "{wrong}");
        let last = wrong.lines().last().unwrap();
        assert_eq!(last, format!("error: 1 of 3 scenarios did not run: {bad}"));
    }
    Ok(())
}

fn a_mistake_in_a_scenario_is_shown_with_its_place() -> Result<(), Failed> {
    let path = scenario("mistaken", "{ by: 1s, conect: { from: west/gw-a, to: \"10.1.2.10:80\" } }");
    let output = sim(&["run", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("mistaken.yaml:10:") && text.contains("connect"), "{text}");
    Ok(())
}

fn full_speed_plays_the_same_scenario() -> Result<(), Failed> {
    let output = sim(&["run", reachable("at-full-speed").to_str().unwrap(), "--speed", "full"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    Ok(())
}

fn an_expectation_that_fails_ends_with_1() -> Result<(), Failed> {
    let path = scenario("unreachable", "{ by: 1s, connect: { from: west/gw-a, to: \"10.1.9.9:80\" } }");
    let path = path.to_str().unwrap();
    let output = sim(&["run", path, "--seed", "4"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("FAILED"), "{text}");
    assert!(text.contains(&format!("replay: tombolo-sim run {path} --seed 4 --speed core --timeline")), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours where no terminal is");
    Ok(())
}

fn seeds_are_told_in_order_with_a_summary() -> Result<(), Failed> {
    let output = sim(&["run", reachable("many-seeds").to_str().unwrap(), "--seeds", "3..9"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    let seeds: Vec<&str> = text.lines().filter_map(|line| line.split("| seed ").nth(1)?.split(',').next()).collect();
    assert_eq!(seeds, ["3", "4", "5", "6", "7", "8", "9"]);
    assert!(text.lines().last().unwrap().starts_with("ok      many-seeds: 7 seeds, 0 failed"), "{text}");
    assert_eq!(stderr(&output), "", "no progress where no terminal is");
    Ok(())
}

fn a_timeline_shows_leadership_and_flows() -> Result<(), Failed> {
    let output = sim(&["run", reachable("with-timeline").to_str().unwrap(), "--timeline"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    let (timeline, verdicts) = text.split_once("with-timeline | core speed").unwrap();
    assert!(timeline.contains("leader") && timeline.contains("flow"), "{timeline}");
    assert!(verdicts.contains("by 1s: west/gw-a connects"), "{verdicts}");
    Ok(())
}

fn json_is_one_document_a_run() -> Result<(), Failed> {
    let output = sim(&["run", reachable("as-json").to_str().unwrap(), "--seeds", "1..2", "--output", "json"]);
    let documents: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seeds: Vec<u64> = documents.iter().map(|document| document["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [1, 2]);
    assert_eq!(documents[0]["verdicts"][0]["judgement"], "met");
    assert_eq!(documents[0]["judgement"], "met");
    assert!(documents[0]["replay"].as_str().unwrap().contains("--seed"));
    Ok(())
}

fn two_processes_print_the_same_trace() -> Result<(), Failed> {
    let output = sim(&["doublecheck", reachable("twice").to_str().unwrap(), "--seed", "5"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    let hash = text.trim_end().rsplit(' ').next().unwrap();
    assert!(hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{text}");
    Ok(())
}

fn two_processes_print_the_same_trace_at_full_speed() -> Result<(), Failed> {
    let path = reachable("twice-at-full-speed");
    let output = sim(&["doublecheck", path.to_str().unwrap(), "--seed", "5", "--speed", "full"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    Ok(())
}

fn output_that_cannot_be_written_ends_with_2() -> Result<(), Failed> {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return Ok(());
    }
    let path = reachable("nowhere-to-write");
    let path = path.to_str().unwrap();
    let asked = [
        &["run", path][..],
        &["run", path, "--output", "json"],
        &["run", path, "--seeds", "1..3", "--trace"],
        &["doublecheck", path],
        &["list"],
        &["bench", "--seconds", "1"],
        &["--help"],
    ];
    for arguments in asked {
        let output = std::fs::OpenOptions::new().write(true).open(full).unwrap();
        let output = sim_into(output.into(), arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains("error: cannot write the output: "), "{arguments:?}: {text}");
    }
    Ok(())
}

fn who_stops_reading_is_no_failure() -> Result<(), Failed> {
    let path = reachable("nobody-reads");
    for arguments in [&["run", path.to_str().unwrap(), "--trace"][..], &["list"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = sim_into(writer.into(), arguments);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{arguments:?}");
    }
    Ok(())
}

fn fuzz_plays_each_seed() -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let hunt = ["fuzz", "--seeds", "2..3", "--without", "restarted-empty", "--out", folder.to_str().unwrap()];
    let output = sim(&hunt);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert!(text.starts_with("ok      2 seeds at core speed in ") && text.contains("0 failed"), "{text}");
    let output = sim(&[&hunt[..], &["--output", "json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&stdout(&output))?;
    assert_eq!(document["seeds"], 2, "{document}");
    assert_eq!(document["failed"], serde_json::json!([]), "{document}");
    Ok(())
}

fn fuzz_says_what_is_wrong_with_what_was_asked() -> Result<(), Failed> {
    let asked = [
        (&["fuzz", "--seeds", "-1..3"][..], "a seed is 0 or more"),
        (&["fuzz", "--seeds", "7"], "no range of seeds such as 1..50"),
        (&["fuzz", "--seeds", "5..3"], "is empty"),
        (&["fuzz", "--minutes", "0"], "no number of minutes above 0, such as 10 or 0.5"),
        (&["fuzz", "--minutes", "-1"], "no number of minutes above 0"),
        (&["fuzz", "--minutes", "soon"], "no number of minutes above 0"),
        (&["fuzz", "--speed", "slow"], "core or full"),
        (&["fuzz", "--without", "earthquake"], "is none of power_off, power_on"),
        (&["fuzz", "--seeds", "1..1", "--out", "no/such/folder"], "no/such/folder is no folder: --out names"),
        (&["fuzz", "gateway-power-loss"], "unexpected argument"),
    ];
    for (arguments, says) in asked {
        let output = sim(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
    }
    Ok(())
}

fn list_tells_what_each_scenario_is_about() -> Result<(), Failed> {
    let output = sim(&["list"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("The active gateway of west loses power."), "{}", stdout(&output));
    assert_eq!(sim(&["list", "core"]).status.code(), Some(2));
    Ok(())
}

fn schema_prints_the_kept_schema() -> Result<(), Failed> {
    let output = sim(&["schema"]);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/schema.json");
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), std::fs::read_to_string(kept).unwrap()));
    Ok(())
}

fn bench_tells_machine_steps_a_second() -> Result<(), Failed> {
    let output = sim(&["bench", "--seconds", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("steps a second"), "{}", stdout(&output));
    Ok(())
}
