//! No input makes the parser panic, and whatever it says points into the file.

use super::super::parse;
use super::{BASE, library};
use proptest::prelude::*;

/// Parses, and checks what can be checked of any outcome.
fn survive(text: &str) {
    let Err(errors) = parse("garbage.yaml", text) else { return };
    assert!(!errors.mistakes().is_empty());
    let lines: Vec<&str> = text.split('\n').collect();
    for mistake in errors.mistakes() {
        let line = lines[mistake.line - 1];
        assert!(mistake.column <= line.chars().count() + 1, "{mistake:?}");
        assert!(mistake.width >= 1);
    }
    assert!(errors.to_string().contains("garbage.yaml:"));
}

/// What a hand that slips puts into a file.
fn scrap() -> impl Strategy<Value = String> {
    let words = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        ",",
        "-",
        "*",
        "&",
        "!",
        "|",
        ">",
        "'",
        "\"",
        "#",
        "%",
        "@",
        "\t",
        "\n",
        "\r\n",
        "---\n",
        "...\n",
        "~",
        "null",
        "..",
        "/",
        "é",
        "\u{feff}",
        "\u{0}",
        "{ at: 20s, do: { heal: { from: west, to: east } } }",
        "west/",
        "/west",
        "west/gateway-to-",
        "east/shop/",
        "0s..",
        "10.0.0.0/8",
        "fd00::/64",
        "[::1]:80",
    ];
    prop_oneof![prop::sample::select(words.to_vec()).prop_map(str::to_owned), ".{0,8}"]
}

/// `text` with the part between two places replaced.
fn spliced(text: &str, from: usize, length: usize, scrap: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let from = from % (chars.len() + 1);
    let to = (from + length).min(chars.len());
    chars[..from].iter().copied().chain(scrap.chars()).chain(chars[to..].iter().copied()).collect()
}

proptest! {
    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        survive(&text);
    }

    #[test]
    fn any_text_of_yaml_signs_is_survived(text in "[-{}\\[\\]:,*&!|>'\"#%@~ \\t\\na-z0-9/.]{0,80}") {
        survive(&text);
    }

    #[test]
    fn a_valid_file_with_slips_is_survived(
        slips in prop::collection::vec((any::<usize>(), 0usize..12, scrap()), 1..6),
        which in any::<prop::sample::Index>(),
    ) {
        let mut files: Vec<String> = library().into_iter().map(|(_, text)| text).collect();
        files.push(BASE.to_owned());
        let mut text = which.get(&files).clone();
        for (from, length, scrap) in slips {
            text = spliced(&text, from, length, &scrap);
        }
        survive(&text);
    }
}

#[test]
fn deep_nesting_and_long_files_are_refused_at_once() {
    survive(&"[".repeat(100_000));
    survive(&"- ".repeat(100_000));
    survive(&"{a: ".repeat(100_000));
    survive(&"a".repeat((1 << 20) + 1));
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_no_mistake() {
    assert!(parse("windows.yaml", &BASE.replace('\n', "\r\n")).is_ok());
    assert!(parse("bom.yaml", &format!("\u{feff}{BASE}")).is_ok());
}
