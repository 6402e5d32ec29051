//! The static toolsrv.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    elf,
    failure::{At, Failure},
    libc::Libc,
    place::Place,
    step::{self, Voice},
};

/// Builds toolsrv from the workspace in `source`, with cargo's files below
/// `target`, and checks that it needs nothing of the host it will run on.
pub(crate) fn build(
    place: &Place,
    source: &Path,
    target: &Path,
    libc: &Libc,
    voice: Voice,
) -> Result<PathBuf, Failure> {
    let mut cargo = place.cargo(source, target);
    cargo
        .args(["build", "--package", "toolsrv", "--bin", "toolsrv"])
        .args(["--profile", "toolsrv", "--target", &libc.triple])
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            encode(&flags(place, source, target, libc)),
        )
        .env_remove("RUSTFLAGS");
    step::cargo(&mut cargo, voice).map_err(|failure| failure.during("building toolsrv"))?;

    let program = target.join(&libc.triple).join("toolsrv").join("toolsrv");
    let bytes = fs::read(&program).at(&program)?;
    elf::check_static(&program, &bytes, std::env::consts::ARCH)?;
    Ok(program)
}

/// Flags that replace the ones of `RUSTFLAGS` and of the user's configuration:
/// what is sent to other people's hosts must not depend on them.
fn flags(place: &Place, source: &Path, target: &Path, libc: &Libc) -> Vec<OsString> {
    let mut flags = vec![
        OsString::from("-Ctarget-feature=+crt-static"),
        // Random numbers by the system call itself: a static glibc cannot be
        // asked by name, and /dev/urandom is not everywhere.
        OsString::from("--cfg=getrandom_backend=\"linux_getrandom\""),
        // Unwind tables are a sixth of the program, and shorter where they
        // need not follow each push and pop.
        OsString::from("-Cforce-frame-pointers=yes"),
    ];
    if let Some(sysroot) = &libc.sysroot {
        // Relocations by a bit each instead of 24 bytes; musl knows them from
        // 1.2.4 on, which toolchains' own musl may be older than.
        flags.push(OsString::from("-Clink-arg=-Wl,-z,pack-relative-relocs"));
        let mut flag = OsString::from("--sysroot=");
        flag.push(sysroot);
        flags.push(flag);
    }
    flags.extend(remap(place, source, target));
    flags
}

/// Replaces the paths of this machine, which panic messages carry, by names
/// that mean the same everywhere. Of two prefixes that match, rustc takes the
/// later one, so the workspace, which may contain the others, comes first.
pub(crate) fn remap(place: &Place, source: &Path, target: &Path) -> Vec<OsString> {
    let registry = place.cargo_home.join("registry/src");
    let std = place.sysroot.join("lib/rustlib/src/rust");
    let rustc = format!("/rustc/{}", place.rustc.field("commit-hash"));
    [
        (source, "/ollie"),
        (target, "/ollie/target"),
        (&registry, "/cargo/registry"),
        (&std, rustc.as_str()),
    ]
    .into_iter()
    .map(|(path, name)| {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(path);
        flag.push("=");
        flag.push(name);
        flag
    })
    .collect()
}

/// One variable for all flags, with a separator that no path contains; blanks
/// in the path of a home directory are thus no trouble.
pub(crate) fn encode(flags: &[OsString]) -> OsString {
    flags.join(std::ffi::OsStr::new("\u{1f}"))
}

/// A line of text on how a toolsrv was made, for the manifest: all that two
/// bundles of one source may differ in.
pub(crate) fn note(place: &Place, libc: &Libc) -> String {
    let first = place.rustc.text.lines().next().unwrap_or_default();
    format!("{}, {first}, cargo", libc.name)
}
