//! std itself.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use super::apt::Packages;
use crate::{
    failure::{At, Failure},
    libc,
    place::Place,
    step::{self, Voice},
    toolsrv,
};

/// Compiles std with cargo's `-Z build-std` and copies the rlibs.
///
/// Object code and bitcode both go into them, as in rustup's: the one for
/// plain builds, the other for link-time optimisation. The unstable flag is
/// used here and nowhere else, so that no crate of toolsrv ever sees a
/// compiler that claims to be a nightly.
pub(crate) fn build(
    place: &Place,
    packages: &Packages,
    work: &Path,
    into: &Path,
) -> Result<(), Failure> {
    let sysroot = work.join("toolchain");
    let sources = sysroot.join("lib/rustlib/src/rust");
    link_toolchain(&place.sysroot, &sysroot)?;
    fs::create_dir_all(&sources).at(&sources)?;
    let library = sources.join("library");
    fs::rename(&packages.library, &library).at(&library)?;

    let rustc = work.join("rustc");
    let script = format!(
        "#!/bin/sh\nexec '{}/bin/rustc' --sysroot '{}' \"$@\"\n",
        quoted(&place.sysroot)?,
        quoted(&sysroot)?
    );
    fs::write(&rustc, script).at(&rustc)?;
    fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755)).at(&rustc)?;

    let seed = seed(work)?;
    let (triple, target) = (libc::triple("musl"), work.join("target"));
    let mut flags: Vec<OsString> = vec![
        "-Cembed-bitcode=yes".into(),
        "-Ctarget-feature=+crt-static".into(),
    ];
    flags.extend(toolsrv::remap(place, &seed, &target));
    let mut remap = OsString::from("--remap-path-prefix=");
    remap.push(&sources);
    remap.push(format!("=/rustc/{}", place.rustc.field("commit-hash")));
    flags.push(remap);
    eprintln!("compiling std for {triple}");
    step::cargo(
        place
            .cargo(&seed, &target)
            .args(["build", "--release", "--target", &triple])
            .args(["-Z", "build-std=std,panic_unwind,panic_abort"])
            // No reader of debug information: a program without symbols has
            // none. And small before fast, where std knows both.
            .args([
                "-Z",
                "build-std-features=default,panic-unwind,optimize_for_size",
            ])
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "z")
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC", &rustc)
            .env("CARGO_ENCODED_RUSTFLAGS", toolsrv::encode(&flags))
            .env_remove("RUSTFLAGS"),
        Voice::Loud,
    )?;
    let built = target.join(triple).join("release/deps");
    for entry in fs::read_dir(&built).at(&built)? {
        let entry = entry.at(&built)?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(".rlib") && !text.starts_with("libseed-") {
            fs::copy(entry.path(), into.join(&name)).at(&entry.path())?;
        }
    }
    Ok(())
}

/// The smallest package: cargo builds std only as part of something.
fn seed(work: &Path) -> Result<std::path::PathBuf, Failure> {
    let seed = work.join("seed");
    fs::create_dir_all(seed.join("src")).at(&seed)?;
    let manifest =
        "[package]\nname = \"seed\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n";
    for (name, text) in [("Cargo.toml", manifest), ("src/lib.rs", "#![no_std]\n")] {
        let path = seed.join(name);
        fs::write(&path, text).at(&path)?;
    }
    Ok(seed)
}

/// A sysroot of symbolic links to the installed one, with room for sources
/// that the installed one does not have.
fn link_toolchain(from: &Path, to: &Path) -> Result<(), Failure> {
    for (directory, open) in [("", "lib"), ("lib", "rustlib"), ("lib/rustlib", "src")] {
        let (from, to) = (from.join(directory), to.join(directory));
        fs::create_dir_all(&to).at(&to)?;
        for entry in fs::read_dir(&from).at(&from)? {
            let entry = entry.at(&from)?;
            if entry.file_name() != open {
                let link = to.join(entry.file_name());
                symlink(entry.path(), &link).at(&link)?;
            }
        }
    }
    Ok(())
}

/// A path between single quotes must not contain one.
fn quoted(path: &Path) -> Result<std::path::Display<'_>, Failure> {
    if path.to_string_lossy().contains('\'') {
        return Err(Failure::new(format!(
            "{} has a quotation mark in it, which a shell script cannot quote",
            path.display()
        )));
    }
    Ok(path.display())
}
