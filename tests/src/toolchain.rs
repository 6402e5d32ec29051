//! A Rust toolchain that another user can read.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::must::must;

/// Links the programs, libraries and standard library of the toolchain that
/// runs the tests into `at`; the directory with cargo and rustc.
pub(crate) fn install(at: &Path) -> PathBuf {
    let answer = |arguments: &[&str]| {
        let output = must(
            Command::new("rustc").args(arguments).output(),
            "ask rustc for its place",
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let sysroot = PathBuf::from(answer(&["--print", "sysroot"]));
    let host = answer(&["--print", "host-tuple"]);
    for part in ["bin", "lib"] {
        link_files(&sysroot.join(part), &at.join(part), false);
    }
    let library = Path::new("lib/rustlib").join(host);
    link_files(&sysroot.join(&library), &at.join(&library), true);
    at.join("bin")
}

/// Links the files of a directory, or everything below it.
fn link_files(from: &Path, to: &Path, deep: bool) {
    must(std::fs::create_dir_all(to), "make a directory");
    let list = must(std::fs::read_dir(from), "read the toolchain");
    for entry in list.flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_file() {
            link_or_copy(&path, &target);
        } else if deep && path.is_dir() {
            link_files(&path, &target, deep);
        }
    }
}

/// A hard link, or a copy where there can be none.
pub(crate) fn link_or_copy(from: &Path, to: &Path) {
    let real = must(from.canonicalize(), "find a file");
    if std::fs::hard_link(&real, to).is_err() {
        must(std::fs::copy(&real, to), "copy a file");
    }
}
