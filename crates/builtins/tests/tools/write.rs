//! `file_write`: all or nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use crate::call::call;
use serde_json::json;

fn write(path: &Path, content: &str) -> crate::call::Answer {
    call("file_write", &json!({"path": path, "content": content}))
}

#[test]
fn a_file_is_made_and_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let name = path.display();
    // FIPS 180-2, appendix B.1: SHA-256 of "abc".
    let version = "sha256:ba7816bf8f01cfea";
    assert_eq!(
        write(&path, "abc").ok(),
        format!("[{name}: created with 3 bytes; {version}; no newline at the end]\n")
    );
    // As open(2) makes a file: 0666 less the umask, which is this process's.
    let other = directory.path().join("other");
    fs::write(&other, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode();
    assert_eq!(mode(&path), mode(&other));
    let answer = write(&path, "de\n").ok();
    assert!(
        answer.contains(": 3 bytes in place of 3; sha256:"),
        "{answer}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "de\n");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn whoever_reads_meanwhile_sees_one_content_or_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let contents = ["a".repeat(100_000), "b".repeat(200_000)];
    write(&path, &contents[0]).ok();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..40 {
                write(&path, &contents[round % 2]).ok();
            }
        });
        let mut seen = 0;
        while !writer.is_finished() {
            let now = fs::read_to_string(&path).unwrap();
            assert!(contents.contains(&now), "{} bytes", now.len());
            seen += 1;
        }
        assert!(seen > 0);
    });
}

#[test]
fn links_lead_to_the_file_and_stay() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("deep")).unwrap();
    fs::write(at("deep/file"), "old").unwrap();
    symlink("deep/file", at("link")).unwrap();
    symlink("link", at("second")).unwrap();
    symlink("deep/absent", at("dangling")).unwrap();
    write(&at("second"), "new").ok();
    write(&at("dangling"), "made").ok();
    assert_eq!(fs::read_to_string(at("deep/file")).unwrap(), "new");
    assert_eq!(fs::read_to_string(at("deep/absent")).unwrap(), "made");
    for link in ["link", "second", "dangling"] {
        assert!(at(link).is_symlink(), "{link}");
    }
}

#[test]
fn other_hard_links_keep_the_old_content_and_that_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("one"), "old").unwrap();
    fs::hard_link(at("one"), at("two")).unwrap();
    let answer = write(&at("one"), "new").ok();
    assert!(
        answer.contains("2 hard links; the others keep the old content"),
        "{answer}"
    );
    assert_eq!(fs::read_to_string(at("two")).unwrap(), "old");
}

#[test]
fn directories_are_made_when_that_is_wanted_and_not_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/file");
    let error = write(&path, "x").refused();
    assert!(
        error.contains("there is no directory") && error.contains("create_dirs"),
        "{error}"
    );
    let arguments = json!({"path": path, "content": "x", "create_dirs": true});
    call("file_write", &arguments).ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "x");
    // A name that no file system takes (NAME_MAX of limits.h is 255).
    let bad = directory.path().join("c/d").join("x".repeat(300));
    let arguments = json!({"path": bad, "content": "x", "create_dirs": true});
    call("file_write", &arguments).refused();
    assert!(!directory.path().join("c").exists());
}

#[test]
fn another_version_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "somebody's").unwrap();
    let arguments = json!({
        "path": path, "content": "mine", "expected_hash": "sha256:ba7816bf8f01cfea",
    });
    let error = call("file_write", &arguments).refused();
    assert!(error.contains("any more but sha256:"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
    fs::write(&path, "abc").unwrap();
    call("file_write", &arguments).ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn attributes_stay() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    // tmpfs has these since Linux 6.6.
    let has = rustix::fs::setxattr(&path, "user.ollie", b"kept", flags).is_ok();
    write(&path, "new").ok();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    if has {
        let mut value = [0; 8];
        let length = rustix::fs::getxattr(&path, "user.ollie", &mut value).unwrap();
        assert_eq!(&value[..length], b"kept");
    }
}
