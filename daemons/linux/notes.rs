//! What kernel parameters were before they were ours. The notes are comments in our nft table: they live exactly as long
//! as what they are about, and no file can be lost or stale.

use crate::nft::NOTES;
use std::collections::BTreeMap;
use std::fmt;
use tombolo_core::network::constants::NFT_TABLE;

/// By parameter, its value before; `None` if it came with a link of ours.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Notes(BTreeMap<String, Option<String>>);

impl Notes {
    /// Reads the comments.
    pub(crate) fn read<'a>(comments: impl IntoIterator<Item = &'a String>) -> Self {
        Self(comments.into_iter().filter_map(|comment| parse(comment)).collect())
    }

    /// The parameters that are ours.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Takes down what a parameter is, unless it is known what it was.
    pub(crate) fn take_down(&mut self, key: &str, value: impl FnOnce() -> Option<String>) {
        if !self.0.contains_key(key) {
            self.0.insert(key.to_owned(), value());
        }
    }

    /// Strikes a note out; gives what the parameter was.
    pub(crate) fn strike(&mut self, key: &str) -> Option<String> {
        self.0.remove(key).flatten()
    }
}

/// `sysctl KEY was VALUE`, or `sysctl KEY was not there`. Tabs stand in some values.
fn parse(comment: &str) -> Option<(String, Option<String>)> {
    let (key, was) = comment.strip_prefix("sysctl ")?.split_once(" was ")?;
    Some((key.to_owned(), if was == NOT_THERE { None } else { Some(was.to_owned()) }))
}

const NOT_THERE: &str = "not there";

/// As nft reads them: to be put behind the script that makes the table.
impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(f, "table inet {NFT_TABLE} {{\n\tchain {NOTES} {{")?;
        for (key, value) in &self.0 {
            writeln!(f, "\t\tcontinue comment \"sysctl {key} was {}\"", value.as_deref().unwrap_or(NOT_THERE))?;
        }
        writeln!(f, "\t}}\n}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_are_written() {
        let mut notes = Notes::default();
        notes.take_down("net.ipv4.ip_forward", || Some("0".into()));
        notes.take_down("net.ipv4.ip_forward", || Some("1".into()));
        notes.take_down("net.ipv4.tcp_rmem", || Some("4096\t131072 6291456".into()));
        notes.take_down("net.ipv4.conf.vx-tombolo.rp_filter", || None);
        let text = notes.to_string();
        let comments: Vec<_> = text.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        assert_eq!(Notes::read(&comments), notes);
        assert_eq!(notes.strike("net.ipv4.ip_forward").as_deref(), Some("0"));
        assert_eq!(notes.strike("net.ipv4.conf.vx-tombolo.rp_filter"), None);
        assert_eq!(notes.keys().collect::<Vec<_>>(), ["net.ipv4.tcp_rmem"]);
        assert_eq!(Notes::default().to_string(), "");
        assert_eq!(Notes::read(&["anything".to_owned()]), Notes::default());
    }
}
