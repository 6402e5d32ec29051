//! `file_edit`: what it promises, against a model that only knows strings.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::call;
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
struct Edit {
    old: String,
    new: String,
    all: bool,
}

fn edit(path: &Path, edits: &[Edit]) -> crate::call::Answer {
    let edits: Vec<Value> = edits
        .iter()
        .map(|it| json!({"old": it.old, "new": it.new, "replace_all": it.all}))
        .collect();
    call("file_edit", &json!({"path": path, "edits": edits}))
}

fn once(old: &str, new: &str) -> Edit {
    Edit {
        old: old.to_owned(),
        new: new.to_owned(),
        all: false,
    }
}

/// What a list of edits makes of a text; `None` if one of them is refused.
fn model(text: &str, edits: &[Edit]) -> Option<String> {
    let mut now = text.to_owned();
    for edit in edits {
        let places = (0..now.len())
            .filter(|at| now.is_char_boundary(*at) && now[*at..].starts_with(&edit.old))
            .count();
        let fits = match places {
            0 => false,
            1 => true,
            _ => edit.all,
        };
        if edit.old.is_empty() || edit.old == edit.new || !fits {
            return None;
        }
        now = now.replace(&edit.old, &edit.new);
    }
    (now != text).then_some(now)
}

/// Few letters, so that much is found, and found often.
fn pieces(longest: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "é", "→", "\n"]),
        0..longest,
    )
    .prop_map(|all| all.concat())
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let one =
        (pieces(4), pieces(4), any::<bool>()).prop_map(|(old, new, all)| Edit { old, new, all });
    prop::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn edits_do_what_the_model_does(text in pieces(40), edits in edits()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        // A newline at the end takes the one leniency out of the game.
        let text = text + "\n";
        fs::write(&path, &text).unwrap();
        let answer = edit(&path, &edits);
        let now = fs::read_to_string(&path).unwrap();
        match model(&text, &edits) {
            Some(expected) => {
                prop_assert_eq!(answer.status, 0, "{}", answer.err);
                prop_assert_eq!(now, expected);
            }
            // The model does not know the end of a file without a newline,
            // which an earlier edit may have made.
            None if answer.status == 0 => prop_assert!(edits.len() > 1),
            None => prop_assert_eq!(now, text),
        }
        prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn line_ends_and_encoding_make_no_difference(
        text in pieces(40), edits in edits(), crlf: bool, writing in 0..3
    ) {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("plain");
        let other = directory.path().join("other");
        // So that the line ends are known even where no newline is near.
        let text = text + "\n";
        let text = if writing == 2 { text.replace('→', "e") } else { text };
        let disguise = |text: &str| {
            let text = if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
            match writing {
                0 => text.into_bytes(),
                1 => [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect(),
                // Without this it would be ASCII, or by chance UTF-8.
                _ => (text + "é é").chars().map(|one| u8::try_from(u32::from(one)).unwrap()).collect(),
            }
        };
        let edits: Vec<Edit> = edits
            .into_iter()
            .map(|edit| match writing {
                2 => Edit {
                    old: edit.old.replace('→', "e"),
                    new: edit.new.replace('→', "e"),
                    ..edit
                },
                _ => edit,
            })
            .collect();
        let tail = if writing == 2 { "é é" } else { "" };
        fs::write(&plain, text.clone() + tail).unwrap();
        fs::write(&other, disguise(&text)).unwrap();
        let (one, two) = (edit(&plain, &edits), edit(&other, &edits));
        prop_assert_eq!(one.status, two.status, "{} {}", one.err, two.err);
        let result = fs::read_to_string(&plain).unwrap();
        // As long as the line ends are still seen.
        if let Some(rest) = result.strip_suffix(tail)
            && rest.contains('\n')
        {
            prop_assert_eq!(fs::read(&other).unwrap(), disguise(rest));
        }
    }

    #[test]
    fn what_is_not_edited_stays_byte_for_byte(
        before: Vec<u8>, after: Vec<u8>
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let around = |middle: &[u8]| [&before, middle, &after].concat();
        fs::write(&path, around(b"<unique text>")).unwrap();
        let wide = before.starts_with(b"\xff\xfe") || before.starts_with(b"\xfe\xff");
        prop_assume!(!wide);
        edit(&path, &[once("<unique text>", "<other>")]).ok();
        prop_assert_eq!(fs::read(&path).unwrap(), around(b"<other>"));
    }
}

#[test]
fn the_answer_is_a_unified_diff() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let numbers: String = (1..=9).map(|number| format!("{number}\n")).collect();
    fs::write(&path, &numbers).unwrap();
    let answer = edit(&path, &[once("5\n", "five\n")]).ok();
    let name = path.display();
    // diff -u of diffutils 3.8, with other headings; sha256sum.
    assert_eq!(
        answer,
        format!(
            "--- {name}\n+++ {name}\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
             [{name}: 21 bytes; UTF-8; sha256:0f36174a7431e148]\n"
        )
    );
}

#[test]
fn several_edits_are_made_together_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "a b\n").unwrap();
    let error = edit(&path, &[once("a", "x"), once("c", "y")]).refused();
    assert!(error.contains("edit 2 of 2: `old` is not there"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a b\n");
    // The second sees what the first made.
    edit(&path, &[once("a", "c"), once("c b", "d")]).ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "d\n");
}

#[test]
fn what_is_there_twice_is_refused_with_the_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "x = 1\ny = 2\nx = 1\n").unwrap();
    let error = edit(&path, &[once("x = 1", "x = 3")]).refused();
    assert!(error.contains("2 times, in lines 1, 3"), "{error}");
    let all = Edit {
        all: true,
        ..once("x = 1", "x = 3")
    };
    edit(&path, &[all]).ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "x = 3\ny = 2\nx = 3\n");
}

#[test]
fn what_is_not_there_is_refused_with_the_nearest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "fn a() {}\n\nfn width() -> u32 {\n    80\n}\n").unwrap();
    let error = edit(&path, &[once("fn width() -> u64 {\n    80\n}", "")]).refused();
    assert!(
        error.contains(
            "Most like it:\n  line 3:\n     3\tfn width() -> u32 {\n     4\t    80\n     5\t}"
        ),
        "{error}"
    );
}

#[test]
fn a_character_that_the_encoding_has_not_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, b"caf\xe9\n").unwrap();
    edit(&path, &[once("café", "thé")]).ok();
    assert_eq!(fs::read(&path).unwrap(), b"th\xe9\n");
    let error = edit(&path, &[once("thé", "→")]).refused();
    assert!(
        error.contains("windows-1252, which has no character '→'"),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"th\xe9\n");
}

#[test]
fn mode_and_owner_stay() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "a\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
    let before = fs::metadata(&path).unwrap();
    // Only root may give a file away; the others keep their own.
    let owner = if before.uid() == 0 {
        12_345
    } else {
        before.uid()
    };
    std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
    edit(&path, &[once("a", "b")]).ok();
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.mode() & 0o7777, after.uid()), (0o4751, owner));
    assert_ne!(after.ino(), before.ino(), "the file was written in place");
}

#[test]
fn an_edit_of_another_version_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "abc").unwrap();
    let arguments = |version: &str, new: &str| json!({"path": path, "edits": [{"old": "b", "new": new}], "expected_hash": version});
    // FIPS 180-2, appendix B.1: SHA-256 of "abc".
    let known = "sha256:ba7816bf8f01cfea";
    let answer = call("file_edit", &arguments(known, "bb")).ok();
    assert!(answer.contains("sha256:"), "{answer}");
    let error = call("file_edit", &arguments(known, "x")).refused();
    assert!(
        error.contains("is not sha256:ba7816bf8f01cfea any more but sha256:"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "abbc");
}

/// Somebody replaces the file all the time. Each of his versions says `old`;
/// so an edit that is not refused leaves a version of his with `new`, and
/// whatever comes later is one of his again, whole.
#[test]
fn a_file_that_is_replaced_meanwhile_is_never_mixed_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let content = |number: u32, word: &str| format!("{number}\n{word}\n").repeat(1000) + "end\n";
    let put = |number: u32| {
        let beside = directory.path().join("beside");
        fs::write(&beside, content(number, "old")).unwrap();
        fs::rename(&beside, &path).unwrap();
    };
    put(0);
    let stop = AtomicBool::new(false);
    let (mut made, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..10).cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                put(number);
            }
        });
        let edits = [Edit {
            all: true,
            ..once("old", "new")
        }];
        for _ in 0..200 {
            let answer = edit(&path, &edits);
            if answer.status == 0 {
                made += 1;
            } else {
                refused += 1;
                let known = ["replaced", "not there"];
                assert!(
                    known.iter().any(|word| answer.err.contains(word)),
                    "{}",
                    answer.err
                );
            }
            let now = fs::read_to_string(&path).unwrap();
            let whole = (0..10)
                .any(|number| now == content(number, "old") || now == content(number, "new"));
            assert!(whole, "{}", &now[..40]);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(refused > 0, "{made} edits, and nobody was noticed");
}
