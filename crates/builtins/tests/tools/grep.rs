//! `file_grep` finds what ripgrep finds, in the same order.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::call::{call, parts};
use serde_json::{Value, json};

/// A name with bytes that no text has, and how it is shown.
const ODD: (&[u8], &str) = (b"odd\n\xff.txt", r"odd\n\377.txt");

/// A tree with what a search may stumble over.
fn corpus() -> tempfile::TempDir {
    corpus_with(50_000)
}

/// The same with a line of twice so many bytes and some.
fn corpus_with(half: usize) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &[u8], content: &[u8]| {
        let path = directory.path().join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let wide = |text: &str| -> Vec<u8> {
        let units = [0xfeff].into_iter().chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    put(b".git/HEAD", b"needle\n");
    put(b".gitignore", b"*.log\n/build/\n!kept.log\n");
    put(
        b"a.txt",
        b"one\nneedle two\nthree\nfour\nfive\nneedle six\nseven\n",
    );
    put(b"a/x", b"needle\n");
    put(b"a-b/x", b"a needle\n");
    put(b"a.b/x", b"Needle, NEEDLE\n");
    put(b"a/.hidden", b"needle\n");
    put(b"skipped.log", b"needle\n");
    put(b"kept.log", b"needle\n");
    put(b"build/out", b"needle\n");
    put(b"deep/build/out", b"needle\n");
    put(b"deep/.gitignore", b"secret\n!other.log\n");
    put(b"deep/er/secret", b"needle\n");
    put(b"deep/er/other.log", b"needle\n");
    put(b"deep/.ignore", b"never.txt\n");
    put(b"deep/never.txt", b"needle\n");
    put(
        b"crlf.txt",
        b"one\r\nneedle\r\nthree needle\r\n\r\nfive\r\n",
    );
    put(b"latin1.txt", b"gr\xf6\xdfer needle\nplain needle\n");
    put(b"utf8.txt", "größer →needle←\nÄRGER, ärger\n".as_bytes());
    put(b"utf16.txt", &wide("one\nneedle größer\n"));
    put(b"unended.txt", b"x\nneedle");
    put(b"empty.txt", b"");
    put(b"binary.dat", b"needle\n\0\0needle\n");
    put(
        b"late.dat",
        &[&b"needle\n".repeat(20_000)[..], b"\0\nneedle\n"].concat(),
    );
    let long = [&b"x".repeat(half)[..], b"needle", &b"y".repeat(half)].concat();
    put(b"long.txt", &[&long[..], b"\nneedle\n"].concat());
    put(ODD.0, b"needle\n");
    symlink(".", directory.path().join("loop")).unwrap();
    symlink("a.txt", directory.path().join("link")).unwrap();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    directory
}

/// What ripgrep prints, line by line.
fn ripgrep(directory: &Path, options: &[&str], pattern: &str) -> Vec<String> {
    let output = Command::new("rg")
        .args([
            "--no-config",
            "--sort=path",
            "--heading",
            "--color=never",
            "--crlf",
        ])
        .args([
            "--line-number",
            "--with-filename",
            "--no-mmap",
            "--no-messages",
        ])
        .args(options)
        .arg("--regexp")
        .arg(pattern)
        .arg(directory)
        .stdin(Stdio::null())
        .output()
        .expect("ripgrep is compared with: install it (Debian: ripgrep)");
    assert!(output.status.code() < Some(2), "{output:?}");
    // A name with a newline would be two lines.
    let odd = [b"/", ODD.0].concat();
    let mut bytes = output.stdout;
    if let Some(at) = bytes.windows(odd.len()).position(|it| it == odd) {
        let start = bytes[..at]
            .iter()
            .rposition(|it| *it == b'\n')
            .map_or(0, |at| at + 1);
        let name = String::from_utf8(bytes[start..at].to_vec()).unwrap();
        let shown = format!("\"{name}/{}\"", ODD.1);
        bytes.splice(start..at + odd.len(), shown.into_bytes());
    }
    let lines = bytes.split(|byte| *byte == b'\n');
    lines
        // The same sentences stand in our own words.
        .filter(|line| !line.starts_with(b"WARNING: "))
        .map(|line| match std::str::from_utf8(line) {
            Ok(text) => text.to_owned(),
            Err(_) => line.iter().map(|byte| char::from(*byte)).collect(),
        })
        .map(|line| match line.split_once(": binary file matches") {
            Some((name, _)) => name.to_owned(),
            None => shortened(&line),
        })
        .collect()
}

/// A line that neither side shows in the same way, by its number. With --crlf
/// ripgrep ends its own lines so as well.
fn shortened(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    if line.len() > 900 || line.contains("[... ") {
        let end = line.find([':', '-']).unwrap();
        return format!("{}long", &line[..=end]);
    }
    line.to_owned()
}

fn ours(directory: &Path, options: &Value, pattern: &str) -> Vec<String> {
    let mut arguments = json!({"path": directory, "pattern": pattern, "limit": 100_000});
    for (key, value) in options.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    let result = call("file_grep", &arguments).ok();
    let (body, note) = parts(&result);
    assert!(!note.contains("there are more"), "{note}");
    let body = match options.get("mode") {
        None => body.strip_suffix('\n').unwrap_or(body),
        Some(_) => body,
    };
    body.split('\n')
        .filter(|line| !line.starts_with("[binary file"))
        .map(shortened)
        .collect()
}

#[test]
fn the_same_matches_in_the_same_order_as_ripgrep() {
    let corpus = corpus();
    // What a result can show of many lines is bounded.
    fs::remove_file(corpus.path().join("late.dat")).unwrap();
    let mut compared = 0;
    for (options, flags) in [
        (json!({}), &[][..]),
        (json!({"ignore_case": true}), &["--ignore-case"][..]),
        (json!({"context": 1}), &["--context=1"]),
        (
            json!({"context": 3, "hidden": true}),
            &["--context=3", "--hidden"],
        ),
        (json!({"ignored": true}), &["--no-ignore"]),
        (
            json!({"hidden": true, "ignored": true}),
            &["--hidden", "--no-ignore"],
        ),
        (json!({"glob": "*.txt"}), &["--glob=*.txt"]),
        (json!({"glob": "!*.txt"}), &["--glob=!*.txt"]),
        (json!({"glob": "*.{log,dat}"}), &["--glob=*.{log,dat}"]),
        (json!({"multiline": true}), &["--multiline"]),
        (json!({"fixed": true}), &["--fixed-strings"]),
    ] {
        for pattern in [
            "needle",
            "^needle$",
            r"needle\s+t",
            r"\bneedle\b",
            "größer",
            "ärger",
            r"^\s*$",
            r"\w+ö\w+",
            "three|five",
            "ne{2}dle",
            "(?i)NEEDLE",
            r"x\nneedle|needle",
            "[^n]eedle",
            "e.",
            "nothing like it",
        ] {
            let across_lines = pattern.contains(r"\n") && !flags.contains(&"--multiline");
            // In ripgrep 13 the dot is also the carriage return there.
            if pattern == "e." && flags.contains(&"--multiline") {
                continue;
            }
            if across_lines && !flags.contains(&"--fixed-strings") {
                continue;
            }
            assert_eq!(
                ours(corpus.path(), &options, pattern),
                ripgrep(corpus.path(), flags, pattern),
                "{pattern} {options}"
            );
            compared += 1;
        }
    }
    assert!(compared > 140, "{compared}");
}

/// Files of all shapes that a few tokens can have: lines that are empty, that
/// end in either way or not at all, matches that touch.
fn scraps(ends: [&str; 3]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    // Knuth's multiplier; the same files each time.
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for number in 0..400 {
        let mut text = String::new();
        for _ in 0..next(60) {
            let tokens = ["a", "b", " ", "é", "ab"].into_iter().chain(ends);
            text.push_str(tokens.clone().nth(next(8) as usize).unwrap());
        }
        fs::write(directory.path().join(format!("{number:03}")), text).unwrap();
    }
    directory
}

#[test]
fn lines_are_taken_apart_as_by_ripgrep() {
    let scraps = scraps(["\n", "\n", "\r\n"]);
    for pattern in [
        "a", "^b", "b$", "a b", r"\bab\b", "^$", "^", r"\Aa", "é", "x*", "^a|b$",
    ] {
        for context in 0..4_usize {
            let flag = format!("--context={context}");
            assert_eq!(
                ours(scraps.path(), &json!({"context": context}), pattern),
                ripgrep(scraps.path(), &[&flag], pattern),
                "{pattern} {context}"
            );
        }
    }
    for pattern in [
        r"a\n+b", r"b\s+a", r"\n\n", "a", r"(a|b)\n", r"\na", "^$", r"\s*",
    ] {
        for context in 0..3_usize {
            // Where nothing matches behind the last line end, ripgrep shows
            // the context of a match and not the match.
            if context > 0 && ["^$", r"\s*"].contains(&pattern) {
                continue;
            }
            let flag = format!("--context={context}");
            let arguments = json!({"context": context, "multiline": true});
            assert_eq!(
                ours(scraps.path(), &arguments, pattern),
                ripgrep(scraps.path(), &["--multiline", &flag], pattern),
                "{pattern} {context}"
            );
        }
    }
}

/// With --crlf ripgrep sees no end of the text in front of a newline alone.
#[test]
fn the_end_of_the_text_is_the_end_of_each_line() {
    let scraps = scraps(["\n"; 3]);
    for pattern in [r"b\z", r"\A\z", r"\Aa?b\z"] {
        assert_eq!(
            ours(scraps.path(), &json!({"context": 1}), pattern),
            ripgrep(scraps.path(), &["--context=1", "--no-crlf"], pattern),
            "{pattern}"
        );
    }
}

#[test]
fn files_and_counts_are_those_of_ripgrep() {
    let corpus = corpus();
    for pattern in ["needle", "^needle$", "one", "nothing like it", "größer"] {
        let ours = |mode| ours(corpus.path(), &json!({"mode": mode}), pattern);
        let rg = |flag| ripgrep(corpus.path(), &[flag], pattern);
        assert_eq!(ours("files"), rg("--files-with-matches"), "{pattern}");
        assert_eq!(ours("count"), rg("--count"), "{pattern}");
    }
}

#[test]
fn a_named_file_is_searched_as_ripgrep_does_it() {
    let corpus = corpus_with(5 << 20);
    for name in [
        "a.txt",
        "crlf.txt",
        "utf16.txt",
        "binary.dat",
        "skipped.log",
        "link",
        "long.txt",
    ] {
        let path = corpus.path().join(name);
        assert_eq!(
            ours(&path, &json!({}), "needle"),
            ripgrep(&path, &[], "needle"),
            "{name}"
        );
    }
}

#[test]
fn the_first_matches_by_path_are_shown_whoever_is_searched_first() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..300 {
        let path = directory
            .path()
            .join(format!("{:02}/{number:03}", number % 20));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{number}\nneedle\n").repeat(3)).unwrap();
    }
    let all = ripgrep(directory.path(), &["--context=1"], "needle");
    for limit in [1, 7, 100] {
        let arguments = json!({
            "path": directory.path(), "pattern": "needle", "context": 1, "limit": limit,
        });
        let result = call("file_grep", &arguments).ok();
        let (body, note) = parts(&result);
        assert!(note.contains("there are more"), "{note}");
        let lines: Vec<_> = body.strip_suffix("\n\n").unwrap().split('\n').collect();
        let matches = lines
            .iter()
            .filter(|line| line.ends_with(":needle"))
            .count();
        assert_eq!(matches, limit, "{note}");
        // All but the context behind the last match, which goes on in the
        // context of the next.
        assert!(
            all.iter().zip(&lines).all(|(one, other)| one == other),
            "{body}"
        );
    }
}

#[test]
fn a_result_is_bounded_and_says_so() {
    let corpus = corpus();
    let arguments = json!({"path": corpus.path(), "pattern": "needle", "limit": 1_000_000});
    let result = call("file_grep", &arguments).ok();
    assert!(result.len() < 65_536, "{}", result.len());
    let (_, note) = parts(&result);
    assert!(note.contains("there are more"), "{note}");
}

#[test]
fn a_match_in_ten_megabytes_is_shown_with_its_surroundings() {
    let corpus = corpus_with(5 << 20);
    let arguments = json!({"path": corpus.path().join("long.txt"), "pattern": "needle"});
    let result = call("file_grep", &arguments).ok();
    let line = result.lines().nth(1).unwrap();
    assert!(
        line.starts_with("1:[... 5242580 bytes] x") && line.contains("xneedley"),
        "{line}"
    );
    assert!(line.len() < 1100);
}

#[test]
fn what_could_not_be_searched_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = |pattern: &str| json!({"path": directory.path(), "pattern": pattern});
    let none = call("file_grep", &arguments("x")).ok();
    assert_eq!(none, "[no match in 0 files]\n");
    for (pattern, what) in [
        ("(", "unclosed group"),
        (r"a\nb", "multiline"),
        (r"(?=a)", "look-around"),
    ] {
        let answer = call("file_grep", &arguments(pattern));
        assert_eq!(answer.status, 2, "{pattern}");
        assert!(
            answer.err.starts_with("`pattern` ") && answer.err.contains(what),
            "{}",
            answer.err
        );
    }
}
