/// The word of `known` that `word` was most likely meant to be, at most two
/// edits or a third of its length away.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any key: not a slip of the finger, and the distance is
    // quadratic.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    let most = (word.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|k| (distance(&word, k), k))
        .filter(|(d, k)| *d <= most && *d < k.len())
        .min()
        .map(|(_, k)| k)
}

/// Levenshtein's distance, one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_another_word_is_not() {
        let keys = ["filesystem", "network", "unix_sockets", "env", "limits"];
        assert_eq!(nearest("filesytem", keys), Some("filesystem"));
        assert_eq!(nearest("Network", keys), Some("network"));
        assert_eq!(nearest("unix-sockets", keys), Some("unix_sockets"));
        assert_eq!(nearest("envs", keys), Some("env"));
        assert_eq!(nearest("volumes", keys), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
