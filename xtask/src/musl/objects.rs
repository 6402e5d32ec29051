//! What rustc links a musl program with besides Rust's own libraries.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::apt::Packages;
use crate::{
    failure::{At, Failure},
    place::Place,
    step,
};

/// The source of what libgcc's unwinder misses in musl.
pub(crate) const FIND_OBJECT: &str = include_str!("../../musl/find_object.c");

/// From musl: how a process starts, and its C library.
const MUSL: [&str; 6] = ["crt1.o", "Scrt1.o", "rcrt1.o", "crti.o", "crtn.o", "libc.a"];

/// From the machine's C compiler: where the tables of the unwinder begin and
/// end.
const COMPILER: [&str; 4] = ["crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o"];

/// Fills a `self-contained` directory.
pub(crate) fn collect(place: &Place, packages: &Packages, into: &Path) -> Result<(), Failure> {
    for name in MUSL {
        let path = packages.musl.join(name);
        fs::copy(&path, into.join(name)).at(&path)?;
    }
    for name in COMPILER {
        let path = of_compiler(name)?;
        fs::copy(&path, into.join(name)).at(&path)?;
    }
    unwinder(place, into)
}

/// `libunwind.a`, the name under which std asks for it: libgcc's unwinder
/// with our function, merged into one object, so that what it refers to
/// weakly comes along whichever part of it is used first.
fn unwinder(place: &Place, into: &Path) -> Result<(), Failure> {
    let source = place.root.join("xtask/musl/find_object.c");
    let (own, merged) = (into.join("find_object.o"), into.join("unwind.o"));
    step::run(
        Command::new("cc")
            // The two that a distribution may switch on by default call
            // functions of glibc.
            .args([
                "-c",
                "-O2",
                "-fPIC",
                "-fno-stack-protector",
                "-U_FORTIFY_SOURCE",
            ])
            .args(["-Wall", "-Wextra", "-Werror", "-o"])
            .args([&own, &source]),
    )?;
    step::run(
        Command::new("cc")
            .args(["-r", "-nostdlib", "-o"])
            .arg(&merged)
            .arg("-Wl,--whole-archive")
            .arg(of_compiler("libgcc_eh.a")?)
            .arg("-Wl,--no-whole-archive")
            .arg(&own),
    )?;
    step::run(
        Command::new("ar")
            .arg("rcsD")
            .arg(into.join("libunwind.a"))
            .arg(&merged),
    )?;
    for path in [own, merged] {
        fs::remove_file(&path).at(&path)?;
    }
    Ok(())
}

/// The compiler prints a path where it has the file, else the bare name.
fn of_compiler(name: &str) -> Result<PathBuf, Failure> {
    let answer = step::answer(Command::new("cc").arg(format!("-print-file-name={name}")))?;
    let path = PathBuf::from(answer.trim_end());
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Failure::new(format!(
        "the C compiler has no {name} (Debian: gcc)"
    )))
}
