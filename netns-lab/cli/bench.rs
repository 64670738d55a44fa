//! `bench`: measures in a lab of its own, and tells what came of it.

use super::args::{Bench, Format};
use super::output;
use super::run::{lab_comes_up, program, seen_in_a_lab};
use crate::bench::{self, Figures};
use crate::keeper::{self, Stay};
use anyhow::{Context as _, Result};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Measures what was asked for.
pub(super) fn bench(asked: &Bench) -> Result<()> {
    lab_comes_up()?;
    let mut beside = Vec::new();
    for named in &asked.beside {
        match find_program(named) {
            Some(program) => beside.push(seen_in_a_lab(&program)?),
            None => output::note(&format!("SKIPPED: {}: there is no such program", named.display())),
        }
    }
    if !beside.is_empty() && find_program(Path::new("wg")).is_none() {
        output::note("SKIPPED: all others: there is no wg to set them up");
        beside.clear();
    }
    let wanted = bench::Bench {
        program: program(asked.program.as_deref())?,
        beside,
        rounds: usize::try_from(asked.rounds)?,
        lasts: Duration::from_millis(asked.lasts),
    };
    let name = format!("bench-{}", std::process::id());
    let file = env::temp_dir().join(format!("{name}.yaml"));
    fs::write(&file, wanted.scenario()).with_context(|| file.display().to_string())?;
    let keeping = keeper::start(&file, &name, 1, &Stay::Measuring(wanted));
    let _ = fs::remove_file(&file);
    let figures: Figures = keeping?.done()?;
    match asked.output {
        Format::Table => output::say(&figures.to_string()),
        Format::Json => output::say(&serde_json::to_string(&figures)?),
    }
}

/// A program as it was named, or one of that name where programs are.
fn find_program(named: &Path) -> Option<PathBuf> {
    let is_name = named.components().count() == 1;
    let path = env::var_os("PATH").unwrap_or_default();
    let among = env::split_paths(&path).map(|folder| folder.join(named)).filter(|_| is_name);
    let found = among.chain([named.to_owned()]).find(|path| path.is_file())?;
    std::path::absolute(found).ok()
}
