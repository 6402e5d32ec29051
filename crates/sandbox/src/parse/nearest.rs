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
        .map(|k| (distance(&word, k), k.len().abs_diff(word.len()), k))
        .filter(|(d, _, k)| *d <= most && *d < k.len())
        .min()
        .map(|(_, _, k)| k)
}

/// Levenshtein's distance, two letters that changed places counting as one
/// edit (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
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
        assert_eq!(nearest("rxw", ["ro", "rox", "rw", "rwx"]), Some("rwx"));
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
