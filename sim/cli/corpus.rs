//! Scenario files.

use super::output;
use anyhow::{Context as _, bail};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tombolo_scenarios::Scenario;

/// Where the project's own scenarios are, seen from its root.
pub(super) const DIRECTORY: &str = "scenarios";

/// So much of a file is read: more than a scenario may be long.
const READ_MAX: u64 = 2 << 20;

/// A scenario with the file it came from.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) scenario: Scenario,
}

/// Reads each of them. The mistakes of those that cannot be read are told here, and which they are is given back: one bad
/// file keeps no other from being played.
pub(super) fn read_all(files: &[PathBuf]) -> (Vec<Entry>, Vec<PathBuf>) {
    let (mut entries, mut unread) = (Vec::new(), Vec::new());
    for file in files {
        match read(file) {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                output::complain(&format!("{error:#}"));
                unread.push(file.clone());
            }
        }
    }
    (entries, unread)
}

/// Reads a scenario: a file, or the name of one here or in [`DIRECTORY`], with or without its ending.
pub(super) fn read(file: &Path) -> anyhow::Result<Entry> {
    let path = find(file)?;
    if path.is_dir() {
        bail!("{} is a directory: name files, such as {}/*.yaml", path.display(), path.display());
    }
    let text = read_text(&path).with_context(|| format!("cannot read {}", path.display()))?;
    match tombolo_scenarios::parse(&path.display().to_string(), &text) {
        Ok(scenario) => Ok(Entry { path, scenario }),
        Err(errors) => bail!("{errors}"),
    }
}

/// The text of a file, as far as a scenario may be long and a little further, so that one that is longer is told as such.
fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(READ_MAX).read_to_end(&mut text)?;
    let not_text = |error: std::string::FromUtf8Error| {
        let line = 1 + error.as_bytes().iter().take(error.utf8_error().valid_up_to()).filter(|b| **b == b'\n').count();
        std::io::Error::other(format!("line {line} is not UTF-8 text; a scenario is a YAML file"))
    };
    // What was cut off may have been cut within a character.
    if u64::try_from(text.len()).is_ok_and(|read| read == READ_MAX) {
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    String::from_utf8(text).map_err(not_text)
}

/// The first of [`places`] where something is. A folder is what is meant only if nothing else is.
fn find(file: &Path) -> anyhow::Result<PathBuf> {
    let places = places(file);
    if let Some(path) = places.iter().find(|path| path.is_file()).or_else(|| places.iter().find(|path| path.exists())) {
        return Ok(path.clone());
    }
    let looked: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
    bail!("cannot find {}: looked for {} in {}\n  {}", file.display(), looked.join(", "), here(), hint(file))
}

/// Where a scenario may be: a path is a path; a name may stand here or in [`DIRECTORY`], and needs no ending.
fn places(file: &Path) -> Vec<PathBuf> {
    let mut places = vec![file.to_owned()];
    if file.components().count() != 1 || file.is_absolute() {
        return places;
    }
    let mut named = file.as_os_str().to_owned();
    if file.extension().is_none_or(|ending| ending != "yaml") {
        named.push(".yaml");
        places.push(named.clone().into());
    }
    places.push(Path::new(DIRECTORY).join(named));
    places
}

/// What to do about a scenario that is not there.
fn hint(file: &Path) -> String {
    if !Path::new(DIRECTORY).is_dir() {
        return outside();
    }
    let meant = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = files(Path::new(DIRECTORY)).unwrap_or_default().iter().map(|path| name(path)).collect();
    let near =
        names.iter().filter(|name| !meant.is_empty() && (name.contains(&meant) || meant.contains(name.as_str())));
    let near: Vec<&str> = near.map(String::as_str).collect();
    if near.is_empty() {
        "`tombolo-sim list` lists what is there".into()
    } else {
        format!("did you mean {}?", near.join(" or "))
    }
}

/// That there is no library where this runs.
fn outside() -> String {
    format!(
        "there is no folder {DIRECTORY}/ there: run this in the root of the project, or name files and folders by their path"
    )
}

fn here() -> String {
    std::env::current_dir().map_or_else(|_| "this folder".into(), |folder| folder.display().to_string())
}

/// The name of a scenario file.
pub(super) fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The scenario files of a directory, by name.
pub(super) fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || {
        let missing = if directory == Path::new(DIRECTORY) && !directory.exists() {
            format!("\n  {}", outside())
        } else {
            String::new()
        };
        format!("cannot list {}: looked in {}{missing}", directory.display(), here())
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!("no scenario (*.yaml) in {}: looked in {}", directory.display(), here());
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_stand_here_or_in_the_library_and_a_path_is_a_path() {
        let found =
            |file: &str| places(Path::new(file)).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(found("wan-cut"), ["wan-cut", "wan-cut.yaml", "scenarios/wan-cut.yaml"]);
        assert_eq!(found("wan-cut.yaml"), ["wan-cut.yaml", "scenarios/wan-cut.yaml"]);
        assert_eq!(found("v1.2"), ["v1.2", "v1.2.yaml", "scenarios/v1.2.yaml"]);
        assert_eq!(found("mine/wan-cut"), ["mine/wan-cut"]);
    }
}
