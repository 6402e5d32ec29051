//! Paths in the messages of programs that were refused something.
//!
//! There is no common form. What is read here are the shapes of coreutils,
//! the shells, Python, git, Go, Rust and Node.

use crate::Operation;

/// What one line says: the paths it names, and what was tried where the words
/// tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) paths: Vec<String>,
    pub(crate) tried: Option<Operation>,
    /// Whether a shell speaks.
    pub(crate) by_shell: bool,
}

/// The messages of strerror(3) for EACCES, EPERM and EXDEV, and their names.
const REFUSALS: [&str; 7] = [
    "permission denied",
    "operation not permitted",
    "invalid cross-device link",
    "eacces",
    "eperm",
    "exdev",
    "access is denied",
];

/// Words that tell what was tried, the more telling ones first.
const VERBS: [(&str, Operation); 27] = [
    ("cannot create directory", Operation::Create),
    ("cannot create symbolic", Operation::Create),
    ("cannot create hard", Operation::Create),
    ("failed to create directory", Operation::Create),
    // Of a file: it may be there already and only not writable.
    ("cannot create", Operation::Write),
    ("can't create", Operation::Write),
    ("could not create", Operation::Create),
    ("failed to create", Operation::Create),
    ("unable to create", Operation::Create),
    ("could not lock", Operation::Create),
    ("cannot touch", Operation::Write),
    ("for writing", Operation::Write),
    ("failed to write", Operation::Write),
    ("cannot write", Operation::Write),
    ("mkdir", Operation::Create),
    ("cannot make", Operation::Create),
    ("cannot remove", Operation::Remove),
    ("cannot unlink", Operation::Remove),
    ("failed to remove", Operation::Remove),
    ("unlink", Operation::Remove),
    ("cannot move", Operation::Create),
    ("cannot rename", Operation::Create),
    ("failed to rename", Operation::Create),
    ("cannot execute", Operation::Execute),
    ("failed to execute", Operation::Execute),
    ("exec", Operation::Execute),
    ("for reading", Operation::Read),
];

/// The most paths taken from one line.
const MAX_PATHS: usize = 4;

/// Programs that do nothing but read what they complain about.
const READERS: [&str; 15] = [
    "cat",
    "head",
    "tail",
    "less",
    "more",
    "ls",
    "dir",
    "grep",
    "egrep",
    "wc",
    "od",
    "du",
    "file",
    "sha256sum",
    "md5sum",
];

/// Reads one line; `None` when it is no refusal.
pub(crate) fn read(line: &str) -> Option<Complaint> {
    let lower = line.to_ascii_lowercase();
    if !REFUSALS.iter().any(|r| lower.contains(r)) {
        return None;
    }
    let first = line.split(':').next().unwrap_or_default();
    let name = first.rsplit('/').next().unwrap_or_default();
    let only_writes = ["tee", "touch", "truncate"].contains(&name);
    let only = match (only_writes, READERS.contains(&name)) {
        (true, _) => Some(Operation::Write),
        (_, true) => Some(Operation::Read),
        _ => None,
    };
    Some(Complaint {
        paths: paths(line),
        tried: verb(line).or(only),
        by_shell: ["sh", "bash", "dash", "zsh", "ksh", "ash"].contains(&name),
    })
}

fn verb(line: &str) -> Option<Operation> {
    let lower = line.to_ascii_lowercase();
    VERBS
        .iter()
        .find(|(verb, _)| lower.contains(verb))
        .map(|(_, op)| *op)
}

fn paths(line: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for candidate in quoted(line).into_iter().chain(bare(line)) {
        if paths.len() < MAX_PATHS && !paths.contains(&candidate) {
            paths.push(candidate);
        }
    }
    paths
}

/// The most lines before a refusal that may name what it is about.
const MAX_BEFORE: usize = 4;

/// Reads the refusal on line `at`. Where it names nothing, what it is about
/// stands above: `error: could not write '/a'`, `Caused by:`, and the refusal.
pub(crate) fn read_at(lines: &[&str], at: usize) -> Option<Complaint> {
    let mut complaint = read(lines.get(at)?)?;
    if !complaint.paths.is_empty() {
        return Some(complaint);
    }
    let above = lines.get(..at).unwrap_or_default().iter().rev();
    let telling = above.map(|line| line.trim()).filter(|line| {
        let lower = line.to_ascii_lowercase();
        !line.is_empty() && lower != "caused by:"
    });
    for line in telling.take(MAX_BEFORE) {
        // Another refusal is about something of its own.
        if read(line).is_some() || is_frame(line) {
            break;
        }
        let paths = paths(line);
        if !paths.is_empty() {
            complaint.tried = complaint.tried.or(verb(line));
            complaint.paths = paths;
            break;
        }
    }
    Some(complaint)
}

/// A line of a stack: it names source text, not what was refused.
fn is_frame(line: &str) -> bool {
    line.starts_with("File \"") || line.starts_with("at ")
}

/// `'...'`, `"..."`, `` `...` `` and the typographic pairs of coreutils.
fn quoted(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['\'', '"', '`', '\u{2018}', '\u{201c}']) {
        let opening = rest[at..].chars().next().unwrap_or('\'');
        let closing: &[char] = match opening {
            '\u{2018}' => &['\u{2019}'],
            '\u{201c}' => &['\u{201d}'],
            '`' => &['`', '\''],
            '"' => &['"'],
            _ => &['\''],
        };
        let inner = &rest[at + opening.len_utf8()..];
        let Some(end) = inner.find(closing) else {
            break;
        };
        if !inner[..end].is_empty() {
            found.push(inner[..end].to_owned());
        }
        let after = inner[end..].chars().next().map_or(1, char::len_utf8);
        rest = &inner[end + after..];
    }
    found
}

/// Parts between colons: `cat: /a b: Permission denied`, `sh: 1: cannot create
/// /a: Permission denied`. A part is taken whole when it begins like a path,
/// else its last word that looks like one.
fn bare(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, part) in line.split(": ").enumerate() {
        let part = part.trim().trim_end_matches([':', '.', ',', ';', ')']);
        if part.contains(['\'', '"', '`', '\u{2018}']) || part.is_empty() {
            continue;
        }
        let part = without_reason(part);
        let words = || part.split_whitespace().rev();
        if part.starts_with(['/', '.', '~']) {
            found.push(part.to_owned());
        } else if let Some(word) = words().find(|w| w.contains('/')) {
            let word = word.trim_start_matches('(').trim_end_matches([';', ',']);
            found.push(word.to_owned());
        } else if let Some(word) = words().next().filter(|_| begins_with_verb(part)) {
            found.push(word.to_owned());
        } else if part.bytes().all(|byte| byte.is_ascii_digit()) {
            // The number of a line.
        } else if !part.contains(' ') && (at > 0 || part.contains('.')) {
            // What follows a program's name may be a file of the directory.
            found.push(part.to_owned());
        }
    }
    found
}

/// `cannot create x.txt`: what follows is a file of the directory.
fn begins_with_verb(part: &str) -> bool {
    let lower = part.to_ascii_lowercase();
    VERBS.iter().any(|(verb, _)| {
        let rest = lower.strip_prefix(verb).filter(|_| verb.contains(' '));
        rest.is_some_and(|rest| !rest.trim().is_empty())
    })
}

/// Java puts the reason behind the path: `/a/b (Permission denied)`.
fn without_reason(part: &str) -> &str {
    let is_reason = |text: &str| {
        let lower = text.to_ascii_lowercase();
        REFUSALS.iter().any(|refusal| lower.starts_with(refusal))
    };
    match part.rsplit_once(" (") {
        Some((path, reason)) if is_reason(reason) => path,
        _ => part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differently_shaped_programs_are_understood() {
        for (line, path, tried) in [
            (
                "cat: /h/.ssh/id: Permission denied",
                "/h/.ssh/id",
                Some(Operation::Read),
            ),
            (
                "sh: 1: cannot create /h/x: Permission denied",
                "/h/x",
                Some(Operation::Write),
            ),
            (
                "sh: 1: cannot create x.txt: Permission denied",
                "x.txt",
                Some(Operation::Write),
            ),
            (
                "cannot write 'x.txt', it was not created: Permission denied (os error 13)",
                "x.txt",
                Some(Operation::Write),
            ),
            (
                "cannot make the directories above a/b: Permission denied (os error 13)",
                "a/b",
                Some(Operation::Create),
            ),
            (
                "bash: line 1: /h/.bashrc: Permission denied",
                "/h/.bashrc",
                None,
            ),
            ("zsh:1: permission denied: /h/x", "/h/x", None),
            (
                "PermissionError: [Errno 13] Permission denied: '/h/a b'",
                "/h/a b",
                None,
            ),
            (
                "fatal: could not open '/h/.gitconfig' for reading: Permission denied",
                "/h/.gitconfig",
                Some(Operation::Read),
            ),
            (
                "error: could not lock config file /h/.gitconfig: Permission denied",
                "/h/.gitconfig",
                Some(Operation::Create),
            ),
            (
                "cp: cannot create regular file '/h/b': Permission denied",
                "/h/b",
                Some(Operation::Write),
            ),
            (
                "touch: cannot touch \u{2018}/h/t\u{2019}: Permission denied",
                "/h/t",
                Some(Operation::Write),
            ),
            (
                "mv: cannot move 'a' to '/h/b': Invalid cross-device link",
                "/h/b",
                Some(Operation::Create),
            ),
            ("open /h/go.mod: permission denied", "/h/go.mod", None),
            (
                "java.io.FileNotFoundException: /h/a (1).txt (Permission denied)",
                "/h/a (1).txt",
                None,
            ),
            (
                "Error: EACCES: permission denied, open '/h/x.js'",
                "/h/x.js",
                None,
            ),
            ("failed to write `/h/Cargo.lock`", "", None),
            (
                "rm: cannot remove '/h/f': Permission denied",
                "/h/f",
                Some(Operation::Remove),
            ),
        ] {
            match read(line) {
                Some(complaint) => {
                    assert!(
                        complaint.paths.iter().any(|p| p == path),
                        "{line}: {complaint:?}"
                    );
                    assert_eq!(complaint.tried, tried, "{line}");
                    let numbers = complaint.paths.iter().filter(|p| p.parse::<u32>().is_ok());
                    assert_eq!(numbers.count(), 0, "{line}: {complaint:?}");
                }
                None => assert!(path.is_empty(), "{line}"),
            }
        }
    }

    #[test]
    fn a_refusal_is_not_about_the_source_of_a_stack() {
        for text in [
            "Traceback (most recent call last):\n  File \"/h/t.py\", line 1, in <module>\n    a, b = socketpair()\nPermissionError: [Errno 13] Permission denied",
            "    at Object.open (/h/a.js:1:2)\nError: operation not permitted",
        ] {
            let lines: Vec<_> = text.lines().collect();
            let complaint = read_at(&lines, lines.len() - 1).unwrap();
            assert_eq!(complaint.paths, Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn what_a_refusal_is_about_may_stand_above_it() {
        let read_last = |text: &str| {
            let lines: Vec<_> = text.lines().collect();
            read_at(&lines, lines.len() - 1).unwrap()
        };
        for (text, path, tried) in [
            // rustup and cargo (anyhow's report).
            (
                "error: could not create directory '/h/.rustup'\n\nCaused by:\n    Permission denied (os error 13)",
                "/h/.rustup",
                Some(Operation::Create),
            ),
            (
                "error: failed to open: /h/Cargo.lock\n\nCaused by:\n  0: Permission denied (os error 13)",
                "/h/Cargo.lock",
                None,
            ),
            (
                "error: could not write settings file: '/h/settings.toml'\nCaused by:\n    Operation not permitted",
                "/h/settings.toml",
                None,
            ),
        ] {
            let complaint = read_last(text);
            assert_eq!(complaint.paths, [path], "{text}");
            assert_eq!(complaint.tried, tried, "{text}");
        }
        // The line above is about something else.
        for text in [
            "cat: /h/a: Permission denied\nPermission denied",
            "opening /h/a\n1\n2\n3\n4\nPermission denied",
        ] {
            assert_eq!(read_last(text).paths, [""; 0], "{text}");
        }
    }

    #[test]
    fn other_failures_are_no_refusals() {
        for line in [
            "cat: /x: No such file or directory",
            "",
            "error[E0308]: mismatched types",
        ] {
            assert_eq!(read(line), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "\\PC{0,80}") {
            let _ = read(&format!("{line} permission denied"));
            let _ = read(&format!("permission denied{line}"));
        }
    }
}
