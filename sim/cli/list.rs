//! `list`: the corpus at a glance.

use super::{Ending, corpus, output};
use std::path::Path;

/// Width of the text beside the names.
const WIDTH: usize = 88;

/// Prints name, meaning and origin of each scenario of a directory.
pub(super) fn list(directory: &Path) -> anyhow::Result<Ending> {
    let files = corpus::files(directory)?;
    let mut ending = Ending::Held;
    let column = files.iter().map(|path| corpus::name(path).chars().count()).max().unwrap_or(0);
    for path in &files {
        match corpus::read(path) {
            Ok(entry) => {
                let mut about = entry.scenario.about.trim().to_owned();
                if !entry.scenario.origin.is_empty() {
                    about.push_str(&format!(" [{}]", entry.scenario.origin.join(", ")));
                }
                let mut label = corpus::name(path);
                for line in wrap(&about) {
                    output::say(format!("{label:column$}  {line}").trim_end())?;
                    label.clear();
                }
            }
            Err(error) => {
                output::complain(&format!("{error:#}"));
                ending = Ending::Unusable;
            }
        }
    }
    Ok(ending)
}

/// The text in lines of at most [`WIDTH`], where its words allow. At least one line.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_between_words() {
        let lines = wrap(&"word ".repeat(40));
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH && !line.ends_with(' ')));
        assert_eq!(wrap(""), [""]);
    }
}
