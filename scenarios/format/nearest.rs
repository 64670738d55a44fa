//! The word that was probably meant.

/// The one of `known` nearest to `word`, if any is near. The earlier of two equally near wins.
pub(super) fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let plain = plain(word);
    known
        .map(|candidate| (distance(&plain, &self::plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case and the kind of dash are how people differ, not what they mean.
fn plain(word: &str) -> String {
    word.to_lowercase().replace(['_', ' '], "-")
}

/// Edits between the two; a long common beginning counts as near.
fn distance(word: &str, candidate: &str) -> usize {
    let begun = word.chars().count() >= 3 && (candidate.starts_with(word) || word.starts_with(candidate));
    let edits = strsim::osa_distance(word, candidate);
    if begun { edits.min(1) } else { edits }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_found_and_a_stranger_is_not() {
        let verbs = ["power_off", "power_on", "crash"];
        assert_eq!(nearest("power-of", verbs.into_iter()), Some("power_off"));
        assert_eq!(nearest("PowerOn", verbs.into_iter()), Some("power_on"));
        assert_eq!(nearest("carsh", verbs.into_iter()), Some("crash"));
        assert_eq!(nearest("reboot", verbs.into_iter()), None);
    }
}
