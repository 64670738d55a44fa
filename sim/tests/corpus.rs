//! Each file of `scenarios/` and of `scenarios/corpus/`, played.

use libtest_mimic::{Failed, Trial};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tombolo_core::roles::Event;
use tombolo_scenarios::{Fact, Judgement, Options, Place, Rate, Report, Scenario, Stage, Verb, What, timeline};
use tombolo_sim::Speed;
use tombolo_sim::core_speed::CoreSpeed;
use tombolo_sim::full_speed::FullSpeed;

/// One seed is enough to see that a scenario still plays; `ci/scenarios` plays many, in release.
const SEED: u64 = 1;

const FOLDERS: [&str; 2] = ["scenarios", "scenarios/corpus"];

pub fn trials() -> Vec<Trial> {
    let speeds = [Speed::Core, Speed::Full];
    let each = FOLDERS.iter().flat_map(|folder| files(folder).into_iter().map(move |file| (*folder, file)));
    let each = each.flat_map(|(folder, file)| speeds.map(|speed| (folder, file.clone(), speed)));
    let plays = each.map(|(folder, file, speed)| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let shown = if folder == "scenarios" { name } else { format!("corpus/{name}") };
        Trial::test(format!("{speed} speed: {shown}"), move || play(folder, &file, speed))
    });
    plays.chain(spoilt()).chain(unclamped()).chain(terms()).chain([readme()]).collect()
}

/// README shows lines of what the demo prints. The hash is of this version of the code; who changes that has no need to renew it.
fn readme() -> Trial {
    Trial::test("README shows what the demo prints", || {
        let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md"))?;
        let block = page.split("```").find(|block| block.contains("\ngateway power loss | full speed | seed 1\n"));
        let scenario = read("scenarios", Path::new("gateway-power-loss.yaml"))?;
        let report = judge(&scenario, Speed::Full)?;
        let prints = timeline(&scenario, &report.facts) + &report.table();
        let is_printed = |line: &str| prints.lines().any(|printed| printed.trim_end() == line.trim_end());
        let shown = block.ok_or("no such block")?.lines().filter(|line| !line.contains(", trace "));
        let strange: Vec<&str> = shown.filter(|line| !line.is_empty() && !is_printed(line)).collect();
        if strange.is_empty() { Ok(()) } else { Err(format!("not printed any more: {strange:#?}\n{prints}").into()) }
    })
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario was found in {folder}");
    files
}

/// What a scenario stands on, taken away: it has to fail.
fn spoilt() -> impl Iterator<Item = Trial> {
    let links: (_, fn(&mut Scenario), _) = ("small-mtu-wan", take_no_hello, "web.shop.svc.clusterset.local:80");
    let boxes: (_, fn(&mut Scenario), _) = ("behind-nat", put_all_behind_nat, "web.shop.svc.clusterset.local:80");
    [links, boxes].into_iter().flat_map(|(name, change, fails)| {
        [Speed::Core, Speed::Full].map(|speed| {
            Trial::test(format!("{speed} speed: {name}, spoilt"), move || {
                let mut scenario = read("scenarios", Path::new(&format!("{name}.yaml")))?;
                change(&mut scenario);
                let table = judge(&scenario, speed)?.table();
                let failed = table.lines().any(|line| line.contains("FAILED") && line.contains(fails));
                if failed { Ok(()) } else { Err(table.into()) }
            })
        })
    })
}

/// Without the clamp, what pods send is too long for the cables.
fn unclamped() -> impl Iterator<Item = Trial> {
    [Speed::Core, Speed::Full].into_iter().map(|speed| {
        Trial::test(format!("{speed} speed: mss-clamp, without the clamp"), move || {
            let scenario = read("scenarios", Path::new("mss-clamp.yaml"))?;
            let mut stage: Box<dyn Stage> = match speed {
                Speed::Core => Box::new(CoreSpeed::new(&scenario, SEED)?.without_clamps()),
                Speed::Full => Box::new(FullSpeed::new(&scenario, SEED)?.without_clamps()),
            };
            let table = tombolo_scenarios::run(&scenario, stage.as_mut(), &Options { seed: SEED }).table();
            let fails = |line: &str| line.contains("FAILED") && line.contains("connect");
            // To east, from east, to and from north.
            let failed = table.lines().filter(|line| fails(line)).count();
            if failed == 4 { Ok(()) } else { Err(table.into()) }
        })
    })
}

/// Whatever the clocks say, the terms of a cluster's gateways do not overlap; unless they differ by more than the lease's
/// durations bear, three to two.
fn terms() -> impl Iterator<Item = Trial> {
    let right: fn(&mut Scenario) = |_| {};
    let plays = [("clock-skew", right, 1), ("clock-rate", right, 1), ("clock-rate", run_three_times_as_fast, 2)];
    plays.into_iter().zip(1..).flat_map(|((name, change, most), number)| {
        [Speed::Core, Speed::Full].map(|speed| {
            Trial::test(format!("{speed} speed: terms {number} of {name}"), move || {
                let mut scenario = read("scenarios", Path::new(&format!("{name}.yaml")))?;
                change(&mut scenario);
                let at_once = holders_at_once(&judge(&scenario, speed)?.facts);
                if at_once == most { Ok(()) } else { Err(format!("{at_once} held the lease of west at once").into()) }
            })
        })
    })
}

/// How many of west's gateways announced at once, at most.
fn holders_at_once(facts: &[Fact]) -> usize {
    let (mut holders, mut most) = (BTreeSet::new(), 0);
    for Fact { place, what, .. } in facts {
        let Place::Daemon(cluster, ..) = place else { continue };
        if matches!(what, What::Told(Event::Elected(_))) && cluster.as_str() == "west" {
            holders.insert(place);
        }
        if matches!(what, What::Told(Event::StoodDown { .. }) | What::Process(false)) {
            holders.remove(place);
        }
        most = most.max(holders.len());
    }
    most
}

fn run_three_times_as_fast(scenario: &mut Scenario) {
    for act in &mut scenario.timeline {
        if let Verb::ClockRate(_, Rate(millionths)) = &mut act.verb {
            *millionths *= 10;
        }
    }
}

fn take_no_hello(scenario: &mut Scenario) {
    for link in scenario.links.pairs.values_mut() {
        link.mtu = 100;
    }
}

/// Then nobody reaches anybody first. (The format refuses it, so long as no cable dials what discovery found.)
fn put_all_behind_nat(scenario: &mut Scenario) {
    let nat = scenario.clusters.values().find_map(|cluster| cluster.nat);
    scenario.clusters.values_mut().for_each(|cluster| cluster.nat = nat);
}

/// The scenario of that file.
fn read(folder: &str, file: &Path) -> Result<Scenario, Failed> {
    let name = format!("{folder}/{}", file.file_name().unwrap().to_string_lossy());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&name);
    tombolo_scenarios::parse(&name, &std::fs::read_to_string(path)?).map_err(|errors| errors.to_string().into())
}

fn judge(scenario: &Scenario, speed: Speed) -> Result<Report, Failed> {
    let mut stage = speed.stage(scenario, SEED)?;
    Ok(tombolo_scenarios::run(scenario, stage.as_mut(), &Options { seed: SEED }))
}

fn play(folder: &str, file: &Path, speed: Speed) -> Result<(), Failed> {
    let name = format!("{folder}/{}", file.file_name().unwrap().to_string_lossy());
    let report = judge(&read(folder, file)?, speed)?;
    // At core speed everything is played.
    if report.judgement() == Judgement::Met || (report.judgement() == Judgement::Skipped && speed == Speed::Full) {
        return Ok(());
    }
    let replay = format!("cargo run --release -p tombolo-sim -- run {name} --seed {SEED} --speed {speed} --timeline");
    Err(format!("{}\n  replay: {replay}", report.table()).into())
}
