//! Each file of `scenarios/`, played.

use libtest_mimic::{Failed, Trial};
use std::path::{Path, PathBuf};
use tombolo_scenarios::{Judgement, Options};
use tombolo_sim::Speed;

/// One seed is enough to see that a scenario still plays; `ci/scenarios` plays many, in release.
const SEED: u64 = 1;

pub fn trials() -> Vec<Trial> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario was found");
    let speeds = [Speed::Core, Speed::Full];
    let each = files.iter().flat_map(|file| speeds.map(|speed| (file.clone(), speed)));
    each.map(|(file, speed)| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        Trial::test(format!("{speed} speed: {name}"), move || play(&file, speed))
    })
    .collect()
}

fn play(file: &Path, speed: Speed) -> Result<(), Failed> {
    let name = format!("scenarios/{}", file.file_name().unwrap().to_string_lossy());
    let scenario =
        tombolo_scenarios::parse(&name, &std::fs::read_to_string(file)?).map_err(|errors| errors.to_string())?;
    let mut stage = speed.stage(&scenario, SEED)?;
    let report = tombolo_scenarios::run(&scenario, stage.as_mut(), &Options { seed: SEED });
    if report.judgement() == Judgement::Met {
        return Ok(());
    }
    let replay = format!("cargo run --release -p tombolo-sim -- run {name} --seed {SEED} --speed {speed} --timeline");
    Err(format!("{}\n  replay: {replay}", report.table()).into())
}
