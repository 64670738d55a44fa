//! Settings from a file: a YAML mapping by the names of the flags. They go before the command line's, whose flags win, and
//! a setting that the environment has is left out.

use crate::settings::Cli;
use clap::{Command, CommandFactory};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no mapping in YAML.
    #[error("{path}: {because}", path = .path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Where and why.
        because: String,
    },
    /// There is no such setting.
    #[error("{path}: `tombolo {command}` has no setting `{name}`: it has {known}", path = .path.display())]
    Unknown {
        /// Which file.
        path: PathBuf,
        /// For which daemon.
        command: String,
        /// What it names.
        name: String,
        /// What there is.
        known: String,
    },
    /// A value is not one that a flag could have.
    #[error("{path}: `{name}` is text, a number, true or false, or a list of such", path = .path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// Of which setting.
        name: String,
    },
}

/// The command line, with the settings of the file that it names put in.
///
/// # Errors
/// What is wrong with the file.
pub fn with_file(
    line: Vec<OsString>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>, FileError> {
    let Some(path) = named(&line).or_else(|| environment("TOMBOLO_CONFIG").map(PathBuf::from)) else { return Ok(line) };
    let cli = Cli::command();
    let command = line.get(1).and_then(|name| name.to_str()).and_then(|name| cli.find_subcommand(name));
    let Some(command) = command.filter(|command| !["cable", "replay"].contains(&command.get_name())) else {
        return Ok(line);
    };
    let text = std::fs::read_to_string(&path).map_err(|source| FileError::Read { path: path.clone(), source })?;
    let settings = flags(&path, &text, command, environment)?;
    let (head, tail) = line.split_at(2.min(line.len()));
    Ok(head.iter().cloned().chain(settings.into_iter().map(OsString::from)).chain(tail.iter().cloned()).collect())
}

/// The file that the command line names.
fn named(line: &[OsString]) -> Option<PathBuf> {
    let mut words = line.iter();
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|word| word.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    None
}

fn flags(
    path: &Path,
    text: &str,
    command: &Command,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<String>, FileError> {
    let path = path.to_owned();
    let settings: BTreeMap<String, Value> = serde_saphyr::from_str(text)
        .map_err(|error| FileError::Syntax { path: path.clone(), because: error.to_string() })?;
    let known = || command.get_arguments().filter_map(|argument| Some((argument.get_long()?, argument)));
    let known = || known().filter(|(name, _)| !["help", "version", "config"].contains(name));
    let mut flags = Vec::new();
    for (name, value) in settings {
        let Some((_, argument)) = known().find(|(long, _)| *long == name) else {
            let mut known: Vec<&str> = known().map(|(long, _)| long).collect();
            known.sort_unstable();
            let command = command.get_name().to_owned();
            return Err(FileError::Unknown { path, command, name, known: known.join(", ") });
        };
        let from_environment = argument.get_env().and_then(|name| name.to_str()).and_then(&environment);
        if from_environment.is_some() {
            continue;
        }
        match (words(&value), value.as_bool()) {
            (_, Some(wished)) if !argument.get_action().takes_values() => {
                flags.extend(wished.then(|| format!("--{name}")));
            }
            (Some(words), _) => flags.push(format!("--{name}={words}")),
            (None, _) => return Err(FileError::Value { path, name }),
        }
    }
    Ok(flags)
}

/// A value as a flag has it: of a list, with commas.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Array(values) => {
            let all: Option<Vec<String>> =
                values.iter().map(|value| words(value).filter(|_| !value.is_array())).collect();
            all.map(|all| all.join(","))
        }
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::settings;
    use clap::Parser;

    fn flags_of(text: &str, environment: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let cli = Cli::command();
        let has = |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        flags(Path::new("t.yaml"), text, cli.find_subcommand("dns").unwrap(), has).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_gives_flags_by_their_names() {
        let text = "cluster-id: west\ndns-ttl: 7\ndns-listen: ['127.0.0.1:5353', '[::1]:5353']\nleave: true\n";
        let expected = ["--cluster-id=west", "--dns-listen=127.0.0.1:5353,[::1]:5353", "--dns-ttl=7", "--leave"];
        assert_eq!(flags_of(text, &[]).unwrap(), expected);
    }

    #[test]
    fn what_the_environment_has_the_file_does_not_change() {
        assert_eq!(flags_of("dns-ttl: 7\n", &[("TOMBOLO_DNS_TTL", "9")]), Ok(vec![]));
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let line = ["tombolo", "dns", "--dns-ttl=7", "--cluster-id=west", "--dns-ttl", "9"];
        let settings::Command::Dns(dns) = Cli::try_parse_from(line).unwrap().command else { panic!() };
        assert_eq!(dns.dns_ttl, 9);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        let unknown = flags_of("dns-tll: 7\n", &[]).unwrap_err();
        assert!(
            unknown.starts_with("t.yaml: `tombolo dns` has no setting `dns-tll`: it has cluster-id, "),
            "{unknown}"
        );
        assert_eq!(
            flags_of("dns-ttl: { a: 1 }\n", &[]).unwrap_err(),
            "t.yaml: `dns-ttl` is text, a number, true or false, or a list of such"
        );
        let syntax = flags_of("dns-ttl: [1\n", &[]).unwrap_err();
        assert!(syntax.starts_with("t.yaml: "), "{syntax}");
    }

    #[test]
    fn the_command_line_names_its_file_in_either_way() {
        let of = |words: &[&str]| named(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of(&["tombolo", "dns", "--config", "a"]), Some("a".into()));
        assert_eq!(of(&["tombolo", "dns", "--config=b"]), Some("b".into()));
        assert_eq!(of(&["tombolo", "dns"]), None);
    }
}
