//! From one script of our table to the next: the commands that change what differs, in one transaction.
//!
//! A script names blocks: sets, maps and chains. Blocks that are equal are left alone, so that one changed service costs
//! the same among ten as among a thousand. The order lets each command find what it names:
//!
//! ```text
//! new chains, empty · changed and old chains emptied · old elements out · new elements in
//! new sets, rules of new and changed chains · old chains and sets away
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tombolo_core::network::constants::NFT_TABLE;

/// A set, a map or a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block<'a> {
    kind: &'a str,
    /// What stands between its braces.
    body: &'a str,
}

/// The commands that lead from `old`, which made the table as it is, to `new`. `None` where only the whole does it.
pub(crate) fn delta(old: &str, new: &str) -> Option<String> {
    let (old, new) = (blocks(old)?, blocks(new)?);
    let mut delta = Delta::default();
    for (name, block) in &new {
        match old.get(name) {
            Some(was) if was == block => {}
            Some(was) if was.kind != block.kind => return None,
            Some(_) if block.kind == "chain" => {
                delta.command("flush chain", name);
                delta.define(name, *block);
            }
            Some(was) => delta.exchange(name, was.body, block.body)?,
            None => {
                if block.kind == "chain" {
                    // The first line of a base chain says where it hangs; without it, it would be none for good.
                    let hook = block.body.lines().next().filter(|line| line.trim_start().starts_with("type "));
                    delta.declare(name, hook.unwrap_or_default());
                }
                delta.define(name, *block);
            }
        }
    }
    for (name, was) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        if was.kind == "chain" {
            delta.command("flush chain", name);
        }
        delta.bury(was.kind, name);
    }
    Some(delta.script())
}

/// The blocks of a script by name; `None` if it leaves no table or is not written as ours are.
fn blocks(script: &str) -> Option<BTreeMap<&str, Block<'_>>> {
    let mut blocks = BTreeMap::new();
    let mut rest = script;
    while let Some(start) = rest.find("\n\t").map(|at| at + 2) {
        let (head, body) = rest.get(start..)?.split_once(" {\n")?;
        let (kind, name) = head.split_once(' ')?;
        // A block ends with the first brace that stands as far out as its name.
        let end = if body.starts_with("\t}") { 0 } else { body.find("\n\t}")? + 1 };
        if !["set", "map", "chain"].contains(&kind)
            || blocks.insert(name, Block { kind, body: body.get(..end)? }).is_some()
        {
            return None;
        }
        // From the line break before the brace's line end on.
        rest = body.get(end + 2..)?;
    }
    (!blocks.is_empty()).then_some(blocks)
}

/// What stands before the elements of a set, and the elements, by key.
fn elements(body: &str) -> Option<(&str, BTreeMap<&str, &str>)> {
    let (head, rest) = body.split_once("\t\telements = {\n")?;
    let (listed, _) = rest.split_once("\t\t}")?;
    let texts = listed.split([',', '\n']).map(str::trim).filter(|text| !text.is_empty());
    let keyed = |text| (str::split_once(text, " : ").map_or(text, |(key, _)| key), text);
    Some((head, texts.map(keyed).collect()))
}

/// Commands, by their place.
#[derive(Default)]
struct Delta {
    declared: String,
    first: String,
    out: String,
    into: String,
    defined: String,
    last: String,
}

impl Delta {
    fn declare(&mut self, name: &str, hook: &str) {
        let _ = writeln!(self.declared, "\tchain {name} {{\n{hook}\n\t}}");
    }

    fn command(&mut self, command: &str, name: &str) {
        let _ = writeln!(self.first, "{command} inet {NFT_TABLE} {name}");
    }

    fn define(&mut self, name: &str, block: Block<'_>) {
        let _ = writeln!(self.defined, "\t{} {name} {{\n{}\t}}", block.kind, block.body);
    }

    fn bury(&mut self, kind: &str, name: &str) {
        let _ = writeln!(self.last, "delete {kind} inet {NFT_TABLE} {name}");
    }

    fn exchange(&mut self, name: &str, old: &str, new: &str) -> Option<()> {
        let ((old_head, old), (head, new)) = (elements(old)?, elements(new)?);
        if old_head != head {
            return None;
        }
        let gone: BTreeSet<_> =
            old.iter().filter(|(key, text)| new.get(*key) != Some(text)).map(|(key, _)| *key).collect();
        let come: Vec<_> =
            new.iter().filter(|(key, text)| old.get(*key) != Some(text)).map(|(_, text)| *text).collect();
        if !gone.is_empty() {
            let gone: Vec<_> = gone.into_iter().collect();
            let _ = writeln!(self.out, "delete element inet {NFT_TABLE} {name} {{ {} }}", gone.join(", "));
        }
        if !come.is_empty() {
            let _ = writeln!(self.into, "add element inet {NFT_TABLE} {name} {{ {} }}", come.join(", "));
        }
        Some(())
    }

    fn script(self) -> String {
        let Self { declared, first, out, into, defined, last } = self;
        let within = |blocks: &str| match blocks {
            "" => String::new(),
            blocks => format!("table inet {NFT_TABLE} {{\n{blocks}}}\n"),
        };
        format!("{}{first}{out}{into}{}{last}", within(&declared), within(&defined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(blocks: &str) -> String {
        format!("table inet tombolo\ndelete table inet tombolo\ntable inet tombolo {{\n{blocks}}}\n")
    }

    const SERVICE: &str = "\tmap services4 {\n\t\ttype a : verdict\n\t\telements = {\n\t\t\t10.0.0.1 . tcp . 80 : goto to-1,\n\t\t}\n\t}\n\
        \tchain to-1 {\n\t\tdnat ip to jhash ip saddr mod 1 map {\n\t\t\t0 : 10.1.0.7 . 80,\n\t\t}\n\t}\n";

    #[test]
    fn the_blocks_of_a_script_are_found_with_all_that_is_in_them() {
        let script = script(SERVICE);
        let blocks = blocks(&script).unwrap();
        assert_eq!(blocks.keys().collect::<Vec<_>>(), [&"services4", &"to-1"]);
        let inner = "\t\tdnat ip to jhash ip saddr mod 1 map {\n\t\t\t0 : 10.1.0.7 . 80,\n\t\t}\n";
        assert_eq!(blocks["to-1"], Block { kind: "chain", body: inner });
    }

    #[test]
    fn equal_scripts_differ_in_nothing_and_only_the_whole_makes_or_removes_a_table() {
        let (some, none) = (script(SERVICE), "table inet tombolo\ndelete table inet tombolo\n".to_owned());
        assert_eq!(delta(&some, &some).unwrap(), "");
        assert_eq!(delta(&none, &some), None);
        assert_eq!(delta(&some, &none), None);
    }

    #[test]
    fn one_service_more_is_one_element_and_one_chain() {
        let more = SERVICE.replace(" : goto to-1,", " : goto to-1, 10.0.0.2 . tcp . 80 : goto to-2,");
        let more = format!("{more}\tchain to-2 {{\n\t\tdrop\n\t}}\n");
        let (old, new) = (script(SERVICE), script(&more));
        assert_eq!(
            delta(&old, &new).unwrap(),
            "table inet tombolo {\n\tchain to-2 {\n\n\t}\n}\n\
             add element inet tombolo services4 { 10.0.0.2 . tcp . 80 : goto to-2 }\n\
             table inet tombolo {\n\tchain to-2 {\n\t\tdrop\n\t}\n}\n"
        );
        assert_eq!(
            delta(&new, &old).unwrap(),
            "flush chain inet tombolo to-2\ndelete element inet tombolo services4 { 10.0.0.2 . tcp . 80 }\n\
             delete chain inet tombolo to-2\n"
        );
    }

    #[test]
    fn notes_behind_the_table_are_blocks_too() {
        let notes = "table inet tombolo {\n\tchain notes {\n\t\tcontinue comment \"x\"\n\t}\n}\n";
        let (old, new) = (script(SERVICE), script(SERVICE) + notes);
        assert!(delta(&old, &new).unwrap().contains("chain notes {\n\t\tcontinue comment \"x\"\n\t}"));
        assert_eq!(delta(&new, &old).unwrap(), "flush chain inet tombolo notes\ndelete chain inet tombolo notes\n");
    }
}
