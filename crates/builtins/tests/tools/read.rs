//! `file_read`: any part of any file, or a word on why not.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::call::{call, parts};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(path: &Path, more: &Value) -> crate::call::Answer {
    let mut arguments = json!({"path": path});
    for (key, value) in more.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    call("file_read", &arguments)
}

/// How a text is written into a file.
#[derive(Debug, Clone, Copy)]
enum Writing {
    Utf8,
    Utf16Le,
    Utf16Be,
    Latin1,
}

impl Writing {
    /// The text that the encoding can have, and its bytes.
    fn bytes(self, text: &str) -> (String, Vec<u8>) {
        let kept: String = match self {
            // Without any of these it would be ASCII, or by chance UTF-8.
            Self::Latin1 => text.chars().filter(char::is_ascii).collect::<String>() + "é ü",
            _ => text.to_owned(),
        };
        let units = kept.encode_utf16();
        let bytes = match self {
            Self::Utf8 => kept.clone().into_bytes(),
            Self::Utf16Le => [0xfeff]
                .into_iter()
                .chain(units)
                .flat_map(u16::to_le_bytes)
                .collect(),
            Self::Utf16Be => [0xfeff]
                .into_iter()
                .chain(units)
                .flat_map(u16::to_be_bytes)
                .collect(),
            Self::Latin1 => kept.chars().map(|one| one as u8).collect(),
        };
        (kept, bytes)
    }
}

fn writings() -> impl Strategy<Value = Writing> {
    prop::sample::select(vec![
        Writing::Utf8,
        Writing::Utf16Le,
        Writing::Utf16Be,
        Writing::Latin1,
    ])
}

/// Text with many lines and characters of every length.
fn texts() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            4 => Just("\n".to_owned()),
            1 => Just("\r\n".to_owned()),
            2 => "[a-z]{1,20}",
            2 => "[äß→😀\u{10ffff}]{1,5}",
            1 => "[^\\x00\u{feff}]",
        ],
        1..60,
    )
    .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn slices_of_bytes_reassemble_the_file(
        text in texts(), writing in writings(), limit in 1_u64..40
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let (text, bytes) = writing.bytes(&text);
        fs::write(&path, &bytes).unwrap();
        let (mut whole, mut offset) = (String::new(), 0);
        while offset < bytes.len() as u64 {
            let more = json!({"byte_offset": offset, "byte_limit": limit});
            let result = read(&path, &more).ok();
            let (body, _) = parts(&result);
            whole.push_str(body.strip_suffix('\n').unwrap());
            offset += limit;
        }
        prop_assert_eq!(whole, text);
    }

    #[test]
    fn slices_of_lines_reassemble_the_file(
        text in texts(), writing in writings(), limit in 1_u64..9
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let (text, bytes) = writing.bytes(&text);
        fs::write(&path, bytes).unwrap();
        let (mut whole, mut offset) = (String::new(), 1);
        loop {
            let more = json!({"offset": offset, "limit": limit});
            let result = read(&path, &more).ok();
            let (body, note) = parts(&result);
            for line in body.split_inclusive('\n') {
                let (number, rest) = line.split_once('\t').unwrap();
                prop_assert_eq!(number.trim().parse::<u64>().unwrap(), offset);
                whole.push_str(rest);
                offset += 1;
            }
            if note.contains("no newline at the end") {
                whole.pop();
            }
            let next = format!("read on with offset={offset}");
            if !note.contains(&next) {
                break;
            }
        }
        prop_assert_eq!(whole, text);
    }
}

#[test]
fn a_file_comes_with_numbers_and_what_is_known_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "one\ntwo\nthree\n").unwrap();
    // printf 'one\ntwo\nthree\n' | sha256sum
    let version = "sha256:b6285c57e8797db5";
    let name = path.display();
    assert_eq!(
        read(&path, &json!({})).ok(),
        format!(
            "     1\tone\n     2\ttwo\n     3\tthree\n[{name}: lines 1-3 of 3; UTF-8; {version}]\n"
        )
    );
    assert_eq!(
        read(
            &path,
            &json!({"offset": 2, "limit": 1, "line_numbers": false})
        )
        .ok(),
        format!("two\n[{name}: lines 2-2 of 3; read on with offset=3; UTF-8; {version}]\n")
    );
    assert_eq!(
        read(&path, &json!({"offset": 5})).refused(),
        format!("{name}: `offset` 5 is behind the end: the file has 3 lines\n")
    );
}

#[test]
fn ten_gigabytes_take_no_longer_than_ten_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let file = fs::File::create(&path).unwrap();
    file.set_len(10 << 30).unwrap();
    file.write_all_at("first line\n".repeat(100_000).as_bytes(), 0)
        .unwrap();
    file.write_all_at(b"the tail\n", (10 << 30) - 9).unwrap();
    let before = peak_memory();
    let start = Instant::now();
    let head = read(&path, &json!({"limit": 1})).ok();
    let tail = read(&path, &json!({"byte_offset": -9})).ok();
    let took = start.elapsed();
    assert!(head.starts_with("     1\tfirst line\n"), "{head}");
    assert!(
        head.contains("read on with offset=2; UTF-8; stat:10737418240-"),
        "{head}"
    );
    assert!(tail.starts_with("the tail\n\n["), "{tail}");
    // Measured 1 ms; reading all of it takes seconds.
    assert!(took < Duration::from_millis(200), "{took:?}");
    let grown = peak_memory() - before;
    assert!(grown < 8 << 10, "{grown} KiB");
}

/// The most memory this process ever had, in KiB (proc_pid_status(5)).
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_long_line_is_cut_between_characters_and_leads_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let line = "a→".repeat(300_000) + "\nshort\n";
    fs::write(&path, &line).unwrap();
    let result = read(&path, &json!({})).ok();
    let shown = result.lines().next().unwrap();
    let (text, rest) = shown.split_once(" [").unwrap();
    assert!(line.starts_with(&text[7..]) && text.len() > 4000, "{text}");
    let offset: i64 = rest
        .split_once("byte_offset=")
        .unwrap()
        .1
        .trim_end_matches(']')
        .parse()
        .unwrap();
    assert_eq!(offset as usize, text.len() - 7);
    let on = read(&path, &json!({"byte_offset": offset, "byte_limit": 4})).ok();
    assert!(on.starts_with("a→\n[") || on.starts_with("→a\n["), "{on}");
    assert!(result.contains("\n     2\tshort\n"));
}

#[test]
fn results_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "é\n".repeat(1 << 20)).unwrap();
    for more in [
        json!({"limit": 1_000_000}),
        json!({"byte_offset": 1, "byte_limit": 1_000_000}),
    ] {
        let result = read(&path, &more).ok();
        assert!(
            result.len() < 65_536 && result.len() > 30_000,
            "{}",
            result.len()
        );
        assert!(result.contains("read on with"));
    }
}

#[test]
fn what_is_no_text_is_refused_by_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let elf = read(&std::env::current_exe().unwrap(), &json!({})).refused();
    assert!(elf.contains("an ELF program"), "{elf}");
    for (content, what) in [
        (&b"ab\0cd"[..], "a NUL byte at offset 2), 5 bytes"),
        (b"\x1f\x8b\x08rest", "compressed by gzip"),
        (b"a\0b\0c\0d\0", "UTF-16 without a byte order mark"),
    ] {
        fs::write(at("file"), content).unwrap();
        let error = read(&at("file"), &json!({})).refused();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let made = std::process::Command::new("mkfifo")
        .arg(at("fifo"))
        .status();
    assert!(made.unwrap().success());
    symlink("loop", at("loop")).unwrap();
    symlink("fifo", at("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for (path, what) in [
        (at("fifo"), "is a FIFO"),
        (at("link"), "is a FIFO"),
        (at("socket"), "is a socket"),
        (at("loop"), "symbolic links"),
        (at("absent"), "No such file"),
        (directory.path().to_owned(), "is a directory; file_glob"),
        ("/dev/zero".into(), "is a character device"),
    ] {
        for tool in ["file_read", "file_edit", "file_write", "file_grep"] {
            if path.ends_with("absent") && tool == "file_write" {
                continue;
            }
            if path.is_dir() && tool == "file_grep" {
                continue;
            }
            let arguments = match tool {
                "file_read" => json!({"path": path}),
                "file_edit" => json!({"path": path, "edits": [{"old": "a", "new": "b"}]}),
                "file_write" => json!({"path": path, "content": ""}),
                _ => json!({"path": path, "pattern": "a"}),
            };
            let start = Instant::now();
            let error = call(tool, &arguments).refused();
            assert!(error.contains(what), "{tool}: {error}");
            assert!(start.elapsed() < Duration::from_secs(1), "{tool} {path:?}");
        }
    }
}

#[test]
fn a_name_may_have_any_byte() {
    let directory = tempfile::tempdir().unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"a\n\"\xff\\");
    fs::write(directory.path().join(odd), "here\n").unwrap();
    let arguments = json!({"path": directory.path(), "pattern": "*"});
    let listed = call("file_glob", &arguments).ok();
    let name = listed.lines().next().unwrap();
    let result = call("file_read", &json!({"path": name})).ok();
    assert!(result.starts_with("     1\there\n"), "{result}");
    assert!(result.contains(&format!("[{name}: lines")), "{result}");
}
