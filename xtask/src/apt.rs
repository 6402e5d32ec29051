//! Debian packages of other suites, fetched and unpacked but not installed.
//!
//! apt is given a configuration of its own, so that the machine's package
//! lists stay as they are and an ordinary user can do it; the mirror and its
//! key are those that the machine already uses.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    failure::{At, Failure},
    step,
};

/// Debian's own keys, on every Debian. Without the file apt falls back to
/// what it trusts anyway; unsigned it takes nothing.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The mirror this machine's own Debian packages come from.
pub(crate) fn mirror_of_this_machine() -> Result<String, Failure> {
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
pub(crate) struct Apt {
    directory: PathBuf,
}

impl Apt {
    /// Keeps its state in `work/apt`.
    pub(crate) fn new(work: &Path) -> Result<Self, Failure> {
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

    /// One of apt's programs, with this state.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("APT_CONFIG", self.directory.join("apt.conf"))
            .current_dir(&self.directory);
        command
    }

    /// Fetches the lists of these suites, and from now on knows no others.
    pub(crate) fn use_suites(&self, mirror: &str, suites: &[&str]) -> Result<(), Failure> {
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

    /// Fetches a package; the result is its file.
    pub(crate) fn download(&self, package: &str) -> Result<PathBuf, Failure> {
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
}
