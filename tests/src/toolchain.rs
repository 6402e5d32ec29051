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
    let library = Path::new("lib/rustlib").join(host);
    for part in [
        Path::new("bin"),
        Path::new("lib"),
        &library,
        &library.join("lib"),
    ] {
        must(std::fs::create_dir_all(at.join(part)), "make a directory");
        let list = must(std::fs::read_dir(sysroot.join(part)), "read the toolchain");
        for entry in list.flatten() {
            if entry.path().is_file() {
                let name = entry.file_name();
                link_or_copy(&entry.path(), &at.join(part).join(name));
            }
        }
    }
    at.join("bin")
}

/// A hard link, or a copy where there can be none.
pub(crate) fn link_or_copy(from: &Path, to: &Path) {
    let real = must(from.canonicalize(), "find a file");
    if std::fs::hard_link(&real, to).is_err() {
        must(std::fs::copy(&real, to), "copy a file");
    }
}
