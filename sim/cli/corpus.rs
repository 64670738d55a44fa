//! Scenario files.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use tombolo_scenarios::Scenario;

/// Where the project's own scenarios are, seen from its root.
pub(super) const DIRECTORY: &str = "scenarios";

/// A scenario with the file it came from.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) scenario: Scenario,
}

/// Reads a scenario: a file, or the name of one in [`DIRECTORY`] without its ending.
pub(super) fn read(file: &Path) -> anyhow::Result<Entry> {
    let named = Path::new(DIRECTORY).join(file).with_extension("yaml");
    let path = if !file.exists() && named.exists() { named } else { file.to_owned() };
    if path.is_dir() {
        bail!("{} is a directory: name files, such as {}/*.yaml", path.display(), path.display());
    }
    let text = std::fs::read_to_string(&path).with_context(|| {
        let library = if path.exists() { "" } else { " (nor is it the name of a scenario: see `tombolo-sim list`)" };
        format!("cannot read {}{library}", path.display())
    })?;
    match tombolo_scenarios::parse(&path.display().to_string(), &text) {
        Ok(scenario) => Ok(Entry { path, scenario }),
        Err(errors) => bail!("{errors}"),
    }
}

/// The scenario files of a directory, by name.
pub(super) fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot list {}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
