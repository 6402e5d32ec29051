//! Debian's `rust-src` and `musl-dev`, fetched and unpacked but not installed.
//!
//! apt is given a configuration of its own, so that the machine's package
//! lists stay as they are and an ordinary user can do it; the mirror and its
//! key are those that the machine already uses.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
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
        version = apt.version_of(release)?;
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

/// Debian's own keys, on every Debian. Without the file apt falls back to
/// what it trusts anyway; unsigned it takes nothing.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The mirror this machine's own Debian packages come from.
fn mirror_of_this_machine() -> Result<String, Failure> {
    let targets = step::answer(
        Command::new("apt-get")
            .args(["indextargets", "--format", "$(REPO_URI) $(RELEASE)"])
            .args(["Created-By: Packages", "Component: main"]),
    )
    .map_err(|failure| failure.during("this needs Debian's apt-get"))?;
    let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
    mirror(&targets, &os)
        .ok_or_else(|| Failure::new("apt knows no mirror of this machine's Debian release"))
}

/// Takes the entry of the release that is installed. A machine may have other
/// repositories, and Debian's own for security updates has no compilers.
fn mirror(targets: &str, os: &str) -> Option<String> {
    let codename = os
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))?
        .trim_matches('"');
    targets
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(_, release)| release.trim() == codename)
        .map(|(mirror, _)| mirror.to_owned())
}

/// apt with state of its own.
struct Apt {
    directory: PathBuf,
}

impl Apt {
    fn new(work: &Path) -> Result<Self, Failure> {
        let directory = work.join("apt");
        for name in ["lists/partial", "cache/archives/partial", "parts"] {
            let path = directory.join(name);
            fs::create_dir_all(&path).at(&path)?;
        }
        let at = directory.display();
        // apt drops root to fetch, into a directory that it then cannot write.
        let configuration = format!(
            "Dir::State \"{at}\";\n\
             Dir::State::lists \"{at}/lists\";\n\
             Dir::State::status \"/var/lib/dpkg/status\";\n\
             Dir::Cache \"{at}/cache\";\n\
             Dir::Etc::sourcelist \"{at}/sources.list\";\n\
             Dir::Etc::sourceparts \"{at}/parts\";\n\
             Dir::Etc::preferencesparts \"{at}/parts\";\n\
             APT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
             Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";\n"
        );
        let path = directory.join("apt.conf");
        fs::write(&path, configuration).at(&path)?;
        Ok(Self { directory })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("APT_CONFIG", self.directory.join("apt.conf"))
            .current_dir(&self.directory);
        command
    }

    fn use_suites(&self, mirror: &str, suites: &[&str]) -> Result<(), Failure> {
        let key = match Path::new(KEYRING).exists() {
            true => format!("[signed-by={KEYRING}] "),
            false => String::new(),
        };
        let line = |suite: &&str| format!("deb {key}{mirror} {suite} main\n");
        let list: String = suites.iter().map(line).collect();
        let path = self.directory.join("sources.list");
        fs::write(&path, list).at(&path)?;
        step::answer(self.command("apt-get").arg("update")).map(drop)
    }

    /// The version of the `rust-src` that belongs to a release of rustc.
    fn version_of(&self, release: &str) -> Result<Option<String>, Failure> {
        let table = step::answer(self.command("apt-cache").args(["madison", "rust-src"]))?;
        Ok(version_in(&table, release))
    }

    fn download(&self, package: &str) -> Result<PathBuf, Failure> {
        let uris =
            step::answer(
                self.command("apt-get")
                    .args(["download", "--print-uris", package]),
            )?;
        // One line: 'uri' file size hash.
        let file = uris.split_whitespace().nth(1).unwrap_or_default();
        eprintln!("fetching {file}");
        step::answer(
            self.command("apt-get")
                .args(["download", "--quiet", package]),
        )?;
        Ok(self.directory.join(file))
    }
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
    fn the_mirror_of_the_installed_release_is_used_and_no_other() {
        let targets = "https://packages.example.org/x main\n\
                       http://mirror.example.net/debian-security/ bookworm-security\n\
                       http://mirror.example.net/debian/ bookworm\n\
                       http://mirror.example.net/other/ bookworm-updates\n";
        let os = "ID=debian\nVERSION_CODENAME=bookworm\n";
        assert_eq!(
            mirror(targets, os).as_deref(),
            Some("http://mirror.example.net/debian/")
        );
        assert_eq!(mirror(targets, "VERSION_CODENAME=noble\n"), None);
        assert_eq!(mirror("", os), None);
    }

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
