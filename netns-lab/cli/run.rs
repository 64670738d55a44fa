//! `run`: plays each scenario in a lab of its own, one after the other, and tells what came of it.

use super::args::{Format, Run, Soak};
use super::spread::Spread;
use super::{find_file, output};
use crate::abilities;
use crate::keeper::{self, Played, Stay};
use crate::run::{Play, Stall, growth};
use anyhow::{Context as _, Result, bail};
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tombolo_scenarios::{Judgement, Options, Report};
use tombolo_sim::Speed;

/// From here on it is told that the machine was busy: as long as probes are apart.
const STALL_TOLD: Duration = Duration::from_millis(50);

/// What a run of the command comes to, the worse the greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ending {
    Held,
    Failed,
    Unusable,
}

/// Plays what was asked for.
pub(super) fn run(asked: &Run) -> Result<ExitCode> {
    if asked.told.output == Format::Json && (asked.trace || asked.timeline) {
        bail!("--trace and --timeline are for people: leave them out, or leave out --output json");
    }
    lab_comes_up()?;
    let program = program(asked.told.program.as_deref())?;
    let record = asked.told.record.as_deref().map(folder).transpose()?;
    let mut ending = Ending::Held;
    for file in &asked.files {
        let mut spread = Spread::default();
        for seed in asked.seed..asked.seed.saturating_add(asked.times) {
            let play = Play { seed, program: program.clone(), record: record.clone() };
            ending = ending.max(one(asked, file, play, &mut spread).unwrap_or_else(|error| {
                output::complain(&format!("cannot play {}: {error:#}", file.display()));
                Ending::Unusable
            }));
        }
        if asked.times > 1 && asked.told.output == Format::Table {
            output::say(&spread.to_string())?;
        }
    }
    Ok(match ending {
        Ending::Held => ExitCode::SUCCESS,
        Ending::Failed => ExitCode::FAILURE,
        Ending::Unusable => ExitCode::from(2),
    })
}

/// Draws a long scenario, and plays it.
pub(super) fn soak(asked: Soak) -> Result<ExitCode> {
    let Soak { minutes, seed, told } = asked;
    let scenario = tombolo_scenarios::fuzz::soak(seed, Duration::from_secs(minutes * 60));
    let folder = told.record.as_deref().map_or_else(|| Ok(std::env::temp_dir()), folder)?;
    let file = folder.join(format!("soak-{seed}.yaml"));
    fs::write(&file, tombolo_scenarios::format::write(&scenario)).with_context(|| file.display().to_string())?;
    let acts = scenario.timeline.len();
    output::note(&format!("{acts} acts, in {}: tombolo-sim run plays them too", file.display()));
    let files = vec![file];
    run(&Run { files, seed, times: 1, against: None, trace: false, timeline: false, told })
}

fn one(asked: &Run, file: &Path, mut play: Play, spread: &mut Spread) -> Result<Ending> {
    let path = find_file(file)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).context("the file has no name")?;
    let seed = play.seed;
    if let Some(folder) = &mut play.record {
        *folder = folder.join(format!("{stem}-{seed}"));
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let record = play.record.clone();
    let keeping = keeper::start(&std::path::absolute(&path)?, &stem, seed, &Stay::Playing(play))?;
    let played = keeping.done::<Played>()?;
    if let Some(folder) = record {
        for (name, text) in [("trace", &played.trace), ("table", &played.table)] {
            let file = folder.join(format!("{stem}.{name}"));
            fs::write(&file, text).with_context(|| file.display().to_string())?;
        }
    }
    // What was not played is not compared.
    let against = asked.against.filter(|_| played.judgement != Judgement::Skipped);
    let against = against.map(|speed| simulate(&path, seed, speed)).transpose()?;
    let differs = against.as_ref().map(|report| differences(&played, report));
    tell(asked, &played, against.as_ref().zip(differs.as_deref()))?;
    let is_read = played.passed.as_ref().is_some_and(|passed| passed.clear > 0);
    spread.add(&played);
    let differs = differs.is_some_and(|differs| !differs.is_empty());
    let holds = played.judgement != Judgement::Failed && !differs && !is_read && growth(&played.looks).is_empty();
    Ok(if holds { Ending::Held } else { Ending::Failed })
}

fn tell(asked: &Run, played: &Played, against: Option<(&Report, &[String])>) -> Result<()> {
    if asked.told.output == Format::Json {
        let mut value = played.report.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("judgement".into(), serde_json::to_value(played.judgement)?);
            fields.insert("stall_ms".into(), (played.stall.lasted.as_secs_f64() * 1000.0).into());
            fields.insert("passed".into(), serde_json::to_value(&played.passed)?);
            fields.insert("looks".into(), serde_json::to_value(&played.looks)?);
            fields.insert("growth".into(), growth(&played.looks).into());
            if let Some((report, differs)) = against {
                fields.insert("against".into(), report.stage.clone().into());
                fields.insert("differs".into(), differs.into());
            }
        }
        return output::say(&value.to_string());
    }
    if asked.trace {
        output::say(&played.trace)?;
    }
    if asked.timeline {
        output::say(&played.timeline)?;
    }
    output::say(&played.table)?;
    let Stall { at, lasted } = played.stall;
    if lasted >= STALL_TOLD {
        let (lasted, at) = (lasted.as_secs_f64(), at.as_secs_f64());
        output::say(&format!(
            "  stall   for {lasted:.3}s until {at:.3}s the machine did not let the lab work: a gap then may be its own"
        ))?;
    }
    match &played.passed {
        Some(passed) if passed.clear > 0 => output::say(&format!("  FAILED  {passed}"))?,
        Some(passed) => output::say(&format!("  secret  {passed}"))?,
        None if played.judgement == Judgement::Skipped => {}
        None => output::say("  open    its cables do not encrypt: what passes between sites can be read")?,
    }
    if let [first, _, .., last] = played.looks.as_slice() {
        output::say(&format!("  taken   {first}\n          {last}"))?;
        let grown = growth(&played.looks);
        grown.iter().try_for_each(|grown| output::say(&format!("  FAILED  {grown}")))?;
    }
    let Some((report, differs)) = against else { return Ok(()) };
    if differs.is_empty() {
        return output::say(&format!("  same    verdicts as at {}", report.stage));
    }
    output::say(&report.table())?;
    output::say(&differs.iter().map(|line| format!("  differs {line}")).collect::<Vec<_>>().join("\n"))
}

/// The same scenario and seed in the simulator.
fn simulate(path: &Path, seed: u64, speed: Speed) -> Result<Report> {
    let scenario = keeper::read(path)?;
    let mut stage = speed.stage(&scenario, seed)?;
    Ok(tombolo_scenarios::run(&scenario, stage.as_mut(), &Options { seed }))
}

/// What the two worlds judge otherwise. What one of them skipped it has not judged.
fn differences(played: &Played, simulated: &Report) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let empty = Vec::new();
    let list = |name: &str| played.report.get(name).and_then(serde_json::Value::as_array).unwrap_or(&empty).clone();
    let mut lines = Vec::new();
    for (verdict, other) in list("verdicts").iter().zip(&simulated.verdicts) {
        let (judged, skipped) = (text(&verdict["judgement"]), Judgement::Skipped);
        let own = serde_json::from_value::<Judgement>(verdict["judgement"].clone()).unwrap_or(skipped);
        if own != other.judgement && own != skipped && other.judgement != skipped {
            lines.push(format!("{}: {judged} here, {} there", other.expectation, other.judgement.word()));
        }
    }
    for (watch, other) in list("watches").iter().zip(&simulated.watches) {
        let broken = watch["broken"].as_u64().unwrap_or_default();
        if (broken == 0) != (other.broken == 0) {
            let name = other.invariant;
            lines.push(format!("always: {name}: broken {broken} times here, {} times there", other.broken));
        }
    }
    let failures = list("failures");
    if failures.is_empty() != simulated.failures.is_empty() {
        lines.push(format!("{} failures of the run here, {} there", failures.len(), simulated.failures.len()));
    }
    lines
}

/// Whether a lab can come up at all.
pub(super) fn lab_comes_up() -> Result<()> {
    abilities::lacking().map_or(Ok(()), |why| bail!("no lab can come up here: {why} (tombolo-lab check)"))
}

/// The program of the daemons.
pub(super) fn program(named: Option<&Path>) -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program is gone")?;
    let path = named.map_or_else(|| own.with_file_name("tombolo"), Path::to_owned);
    if !path.is_file() {
        bail!("there is no {}: cargo build -p tombolo-daemon makes it, or say --program", path.display());
    }
    seen_in_a_lab(&path)
}

fn folder(path: &Path) -> Result<PathBuf> {
    seen_in_a_lab(&std::path::absolute(path)?)?;
    fs::create_dir_all(path).with_context(|| path.display().to_string())?;
    seen_in_a_lab(path)
}

/// Nodes have a `/run` of their own.
pub(super) fn seen_in_a_lab(path: &Path) -> Result<PathBuf> {
    // What is not there yet cannot be a link to there.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.starts_with("/run") {
        bail!("{} is not seen in a lab, where each node has a /run of its own: take another place", path.display());
    }
    Ok(path)
}
