//! `file_glob`: names, newest first.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::call::{call, parts};
use serde_json::{Value, json};

/// A tree in which each file is older than the one before it.
fn tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(".git")).unwrap();
    let names = [
        "b.rs",
        "a.rs",
        "src/a.rs",
        "src/deep/c.rs",
        "src/d.txt",
        ".hidden.rs",
        "target/e.rs",
        ".gitignore",
    ];
    for (name, age) in names.iter().zip(1..) {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = if *name == ".gitignore" {
            "target\n"
        } else {
            ""
        };
        fs::write(&path, content).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age))
            .unwrap();
    }
    directory
}

#[test]
fn names_are_found_as_git_would_have_them() {
    let tree = tree();
    let found = |pattern: &str, more: Value| {
        let mut arguments = json!({"path": tree.path(), "pattern": pattern});
        for (key, value) in more.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        let result = call("file_glob", &arguments).ok();
        let (body, note) = parts(&result);
        let names: Vec<String> = body
            .lines()
            .map(|line| {
                line.strip_prefix(&format!("{}/", tree.path().display()))
                    .unwrap()
                    .to_owned()
            })
            .collect();
        (names.join(" "), note.to_owned())
    };
    assert_eq!(
        found("*.rs", json!({})).0,
        "b.rs a.rs src/a.rs src/deep/c.rs"
    );
    assert_eq!(found("/*.rs", json!({})).0, "b.rs a.rs");
    assert_eq!(found("src/*.rs", json!({})).0, "src/a.rs");
    assert_eq!(
        found("src/**/*.{rs,txt}", json!({})).0,
        "src/a.rs src/deep/c.rs src/d.txt"
    );
    assert_eq!(found("[ac].rs", json!({})).0, "a.rs src/a.rs src/deep/c.rs");
    assert_eq!(
        found("*.rs", json!({"hidden": true})).0,
        "b.rs a.rs src/a.rs src/deep/c.rs .hidden.rs"
    );
    assert_eq!(
        found("*.rs", json!({"ignored": true})).0,
        "b.rs a.rs src/a.rs src/deep/c.rs target/e.rs"
    );
    assert_eq!(
        found("*.py", json!({})),
        (String::new(), "[no file matches]\n".to_owned())
    );
    let (names, note) = found("*.rs", json!({"limit": 2}));
    assert_eq!(
        (&names[..], &note[..]),
        ("b.rs a.rs", "[the 2 newest of 4 files]\n")
    );
}

#[test]
fn a_pattern_that_is_none_is_refused() {
    let answer = call("file_glob", &json!({"pattern": "a[", "path": "/"}));
    assert_eq!(answer.status, 2);
    assert!(
        answer.err.starts_with("`pattern` is no glob: "),
        "{}",
        answer.err
    );
    let error = call("file_glob", &json!({"pattern": "*", "path": "/absent"})).refused();
    assert!(error.contains("/absent: No such file"), "{error}");
}
