//! Each file of `scenarios/` and of `scenarios/corpus/`, played.

use libtest_mimic::{Failed, Trial};
use std::path::{Path, PathBuf};
use tombolo_scenarios::{Judgement, Options};
use tombolo_sim::Speed;

/// One seed is enough to see that a scenario still plays; `ci/scenarios` plays many, in release.
const SEED: u64 = 1;

const FOLDERS: [&str; 2] = ["scenarios", "scenarios/corpus"];

pub fn trials() -> Vec<Trial> {
    let speeds = [Speed::Core, Speed::Full];
    let each = FOLDERS.iter().flat_map(|folder| files(folder).into_iter().map(move |file| (*folder, file)));
    let each = each.flat_map(|(folder, file)| speeds.map(|speed| (folder, file.clone(), speed)));
    each.map(|(folder, file, speed)| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let shown = if folder == "scenarios" { name } else { format!("corpus/{name}") };
        Trial::test(format!("{speed} speed: {shown}"), move || play(folder, &file, speed))
    })
    .collect()
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

fn play(folder: &str, file: &Path, speed: Speed) -> Result<(), Failed> {
    let name = format!("{folder}/{}", file.file_name().unwrap().to_string_lossy());
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
