use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Replace, myers};
use similar::{DiffOp, group_diff_ops};

use crate::name::Name;

/// Bytes of a diff that are shown.
const SHOWN: usize = 48 << 10;

/// Then the rest counts as replaced.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lines of context.
const CONTEXT: usize = 3;

/// A unified diff, as diff(1) prints it with `-u`.
///
/// The algorithm is the one of `similar`; its texts are not used, since they
/// bring every other algorithm as well, half a megabyte of them.
pub(crate) fn unified(name: &Name, before: &[u8], after: &[u8]) -> String {
    let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (lines(before), lines(after));
    let mut text = format!("--- {name}\n+++ {name}\n");
    for group in group_diff_ops(differences(&old, &new), CONTEXT) {
        hunk(&group, &old, &new, &mut text);
    }
    if text.len() > SHOWN {
        let lines = text.lines().count();
        let shown = text.as_bytes().get(..SHOWN).unwrap_or_default();
        let end = memchr::memrchr(b'\n', shown).map_or(0, |at| at + 1);
        text.truncate(end);
        let shown = text.lines().count();
        let _ = writeln!(text, "[{} more lines of the diff]", lines - shown);
    }
    text
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn differences(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    let mut known = HashMap::new();
    let (old, new) = (numbers(&mut known, old), numbers(&mut known, new));
    let mut found = Replace::new(Capture::new());
    let deadline = Instant::now().checked_add(PATIENCE);
    let (all_old, all_new) = (0..old.len(), 0..new.len());
    match myers::diff_deadline_raw(&mut found, &old[..], all_old, &new[..], all_new, deadline) {
        Ok(()) => found.into_inner().into_ops(),
    }
}

/// The same number for the same line: numbers are compared faster.
fn numbers<'a>(known: &mut HashMap<&'a [u8], usize>, lines: &[&'a [u8]]) -> Vec<usize> {
    let number = |line: &&'a [u8]| {
        let next = known.len();
        *known.entry(line).or_insert(next)
    };
    lines.iter().map(number).collect()
}

fn hunk(group: &[DiffOp], old: &[&[u8]], new: &[&[u8]], text: &mut String) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return;
    };
    let range = |start: usize, end: usize| match end - start {
        // The line before stands for an empty range.
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    };
    let _ = writeln!(
        text,
        "@@ -{} +{} @@",
        range(first.old_range().start, last.old_range().end),
        range(first.new_range().start, last.new_range().end)
    );
    for part in group {
        let removed = old.get(part.old_range()).unwrap_or_default();
        let added = new.get(part.new_range()).unwrap_or_default();
        if matches!(part, DiffOp::Equal { .. }) {
            put(' ', removed, text);
        } else {
            put('-', removed, text);
            put('+', added, text);
        }
    }
}

fn put(mark: char, lines: &[&[u8]], text: &mut String) {
    for line in lines {
        text.push(mark);
        text.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each expectation is what `diff -u` of diffutils 3.8 prints, without its
    /// times.
    #[test]
    fn a_diff_is_what_diff_prints() {
        let shown = |before: &str, after: &str| {
            let name: Name = "f".parse().unwrap();
            unified(&name, before.as_bytes(), after.as_bytes())
        };
        assert_eq!(
            shown("a\nb\nc\n", "a\nB\nc\n"),
            "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        );
        assert_eq!(
            shown("a\n", "a\nb"),
            "--- f\n+++ f\n@@ -1 +1,2 @@\n a\n+b\n\\ No newline at end of file\n"
        );
        assert_eq!(shown("a\n", ""), "--- f\n+++ f\n@@ -1 +0,0 @@\n-a\n");
        assert_eq!(shown("", "a\n"), "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n");
    }

    #[test]
    fn a_long_diff_is_cut_at_a_line() {
        let before = "line\n".repeat(20_000);
        let text = unified(&"f".parse().unwrap(), before.as_bytes(), b"");
        assert!(text.len() < SHOWN + 100 && text.ends_with(" more lines of the diff]\n"));
    }
}
