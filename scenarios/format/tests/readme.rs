//! The reference page is true: its examples parse, and it has every word of the format and every number as it is.

use super::super::{SCENARIO, parse};
use super::{folder, library};
use crate::{bounds, wording};
use std::collections::BTreeMap;
use std::fs;

fn readme() -> String {
    fs::read_to_string(folder().join("README.md")).unwrap()
}

/// The YAML blocks of the page, each made whole with the sections that it leaves out.
pub(super) fn examples() -> Vec<String> {
    let blocks = blocks();
    let whole = sections(&blocks[0]);
    let complete = |block: &String| {
        let mut file = whole.clone();
        file.extend(sections(block));
        file.into_values().collect()
    };
    blocks.iter().map(complete).collect()
}

/// The YAML blocks of the page.
fn blocks() -> Vec<String> {
    let mut examples = Vec::new();
    let readme = readme();
    let mut rest = readme.as_str();
    while let Some((_, block)) = rest.split_once("```yaml\n") {
        let (block, behind) = block.split_once("```").unwrap();
        examples.push(block.to_owned());
        rest = behind;
    }
    examples
}

/// A file cut at its top-level keys.
fn sections(text: &str) -> BTreeMap<String, String> {
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    let mut key = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if !line.starts_with(' ') {
            key = line.split(':').next().unwrap().to_owned();
        }
        let section = sections.entry(key.clone()).or_default();
        *section = format!("{section}{line}\n");
    }
    sections
}

#[test]
fn every_example_parses() {
    let examples = examples();
    assert!(examples.len() >= 4);
    for text in examples {
        parse("README.md", &text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    }
}

#[test]
fn every_word_of_the_format_is_told() {
    let readme = readme();
    let words = [super::super::timeline::VERBS.known(), super::super::expect::ENTRY.known(), SCENARIO.known()];
    for word in words.concat() {
        assert!(readme.contains(&format!("`{word}")), "{word} is not told");
    }
}

#[test]
fn every_number_is_the_one_in_force() {
    let numbers = [
        ("PROBE_EVERY", bounds::PROBE_EVERY),
        ("PROBE_TIMEOUT", bounds::PROBE_TIMEOUT),
        ("CONVERGED_WITHIN", bounds::CONVERGED_WITHIN),
        ("GONE_WITHIN", bounds::GONE_WITHIN),
        ("TAIL", bounds::TAIL),
        ("REQUEST_DEADLINE", bounds::REQUEST_DEADLINE),
    ];
    let readme = readme();
    for (name, value) in numbers {
        let row = format!("| `{name}` | {} |", wording::brief(value));
        assert!(readme.contains(&row), "the page lacks {row}");
    }
}

#[test]
fn the_library_is_listed() {
    let readme = readme();
    for (name, _) in library() {
        assert!(readme.contains(&format!("| `{name}` |")), "{name} is not listed");
    }
}
