//! Debian's `rust-src` and `musl-dev`, fetched and unpacked but not installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    apt::{Apt, mirror_of_this_machine},
    failure::{At, Failure},
    place::Place,
    step,
};

/// Suites to look in, each with the ones it needs beside it. Backports has
/// the sources of many compilers, unstable those of the newest.
const SUITES: [&[&str]; 2] = [&["trixie", "trixie-backports"], &["sid"]];

/// What was unpacked.
#[derive(Debug)]
pub(crate) struct Packages {
    /// Rust's `library` directory.
    pub(crate) library: PathBuf,
    /// The directory with musl's `libc.a`.
    pub(crate) musl: PathBuf,
}

/// Fetches the two packages and unpacks what is needed of them below `work`.
pub(crate) fn unpack(place: &Place, work: &Path) -> Result<Packages, Failure> {
    let release = place.rustc.field("release");
    let mirror = mirror_of_this_machine()?;
    let apt = Apt::new(work)?;
    let mut version = None;
    for suites in SUITES {
        eprintln!(
            "looking for the sources of rustc {release} in Debian {}",
            suites.join(", ")
        );
        apt.use_suites(&mirror, suites)?;
        version = version_of(&apt, release)?;
        if version.is_some() {
            break;
        }
    }
    let Some(version) = version else {
        return Err(Failure::new(format!(
            "Debian has no rust-src {release}; use another toolchain, or `rustup target add`"
        )));
    };
    let root = work.join("root");
    fs::create_dir_all(&root).at(&root)?;
    let library = format!("./usr/src/rustc-{release}/library");
    let musl = format!("./usr/lib/{}-linux-musl", std::env::consts::ARCH);
    extract(
        &apt.download(&format!("rust-src={version}"))?,
        &library,
        &root,
    )?;
    extract(&apt.download("musl-dev")?, &musl, &root)?;
    Ok(Packages {
        library: root.join(library),
        musl: root.join(musl),
    })
}

/// The version of the `rust-src` that belongs to a release of rustc.
fn version_of(apt: &Apt, release: &str) -> Result<Option<String>, Failure> {
    let table = step::answer(apt.command("apt-cache").args(["madison", "rust-src"]))?;
    Ok(version_in(&table, release))
}

/// Of lines `rust-src | VERSION | origin` the version that is the release or
/// the release with Debian's suffix, not one that merely begins with it.
fn version_in(table: &str, release: &str) -> Option<String> {
    table.lines().find_map(|line| {
        let version = line.split('|').nth(1)?.trim();
        let suffix = version.strip_prefix(release)?;
        suffix
            .starts_with(['+', '-', '~'])
            .then(|| version.to_owned())
    })
}

/// Unpacks one directory of a package; the rest of rust-src, the compiler's
/// own source, would be some hundred megabytes more.
fn extract(package: &Path, directory: &str, root: &Path) -> Result<(), Failure> {
    let mut archive = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .at(Path::new("dpkg-deb"))?;
    let mut tar = Command::new("tar");
    tar.arg("--extract")
        .arg("--directory")
        .arg(root)
        .arg(directory);
    if let Some(stream) = archive.stdout.take() {
        tar.stdin(stream);
    }
    let unpacked = step::run(tar.args(["--file", "-"]));
    let status = archive.wait().at(package)?;
    unpacked?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} is damaged: dpkg-deb: {status}",
        package.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_are_those_of_the_very_release() {
        let table = " rust-src | 1.95.10+dfsg1-1 | http://m sid/main amd64 Packages\n \
                      rust-src | 1.95.1+dfsg1-2~bpo13+1 | http://m x/main amd64 Packages\n";
        assert_eq!(
            version_in(table, "1.95.1").as_deref(),
            Some("1.95.1+dfsg1-2~bpo13+1")
        );
        assert_eq!(version_in(table, "1.95.0"), None);
        assert_eq!(version_in(table, "1.95"), None);
    }
}
