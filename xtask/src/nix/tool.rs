//! Nix itself: the one on PATH, or Debian's, in a directory of ours.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    apt::{Apt, mirror_of_this_machine},
    failure::{At, Failure},
    packages,
    place::Place,
    step,
};

/// The suite whose nix is new enough to know flakes well.
const SUITE: &str = "sid";

/// A nix with a store, a state and a configuration of its own.
#[derive(Debug, Clone)]
pub(crate) struct Nix {
    program: PathBuf,
    /// The dynamic linker and the libraries to start it with, if they are not
    /// this machine's.
    linker: Option<(PathBuf, PathBuf)>,
    directory: PathBuf,
}

/// Finds one, or fetches it.
pub(crate) fn find(place: &Place) -> Result<Nix, Failure> {
    let directory = place.target.join("nix");
    for name in ["conf", "store", "state", "log", "cache"] {
        let path = directory.join(name);
        fs::create_dir_all(&path).at(&path)?;
    }
    // Nix wants no symbolic link above its store, and `target` may be one.
    let directory = directory.canonicalize().at(&directory)?;
    // Without Nix's build sandbox, because the stand-in builds with the tools
    // of this machine. The hook would be nix started again, by a name that the
    // dynamic linker in front of it does not have.
    let configuration = directory.join("conf/nix.conf");
    let text = "experimental-features = nix-command flakes\nbuild-users-group =\nsandbox = false\n\
                substituters =\nflake-registry =\nbuild-hook =\nwarn-dirty = false\n";
    fs::write(&configuration, text).at(&configuration)?;
    if let Some(program) = packages::find("nix") {
        return Ok(Nix {
            program,
            linker: None,
            directory,
        });
    }
    let prefix = directory.join("debian");
    let marker = prefix.join("complete");
    if !marker.exists() {
        fetch(&directory, &prefix)?;
        fs::write(&marker, "").at(&marker)?;
    }
    let libraries = prefix.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    let linker = fs::read_dir(&libraries)
        .at(&libraries)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| name(path).starts_with("ld-linux"))
        .ok_or_else(|| Failure::new("Debian's nix came without a dynamic linker"))?;
    Ok(Nix {
        program: prefix.join("usr/bin/nix"),
        linker: Some((linker, libraries)),
        directory,
    })
}

/// nix and the libraries it needs, all of one suite. The rest of what the
/// package depends on, such as a service manager, it does not load.
fn fetch(directory: &Path, prefix: &Path) -> Result<(), Failure> {
    eprintln!("fetching nix from Debian {SUITE}");
    if prefix.exists() {
        fs::remove_dir_all(prefix).at(prefix)?;
    }
    fs::create_dir_all(prefix).at(prefix)?;
    let apt = Apt::new(directory)?;
    apt.use_suites(&mirror_of_this_machine()?, &[SUITE])?;
    let plan = step::answer(
        apt.command("apt-get")
            .args(["--option", "Dir::State::status=/dev/null", "--simulate"])
            .args(["--no-install-recommends", "install", "nix-bin"]),
    )?;
    let needed: Vec<_> = plan
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next())
        .filter(|name| name.starts_with("lib") || *name == "nix-bin")
        .collect();
    step::answer(
        apt.command("apt-get")
            .args(["download", "--quiet"])
            .args(&needed),
    )?;
    let downloaded = directory.join("apt");
    for entry in fs::read_dir(&downloaded).at(&downloaded)? {
        let path = entry.at(&downloaded)?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            step::answer(
                Command::new("dpkg-deb")
                    .arg("--extract")
                    .arg(&path)
                    .arg(prefix),
            )?;
        }
    }
    fs::remove_dir_all(&downloaded).at(&downloaded)
}

fn name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

impl Nix {
    /// `nix`, with nothing that it keeps outside of our directory.
    pub(crate) fn command(&self) -> Command {
        let mut command = match &self.linker {
            None => Command::new(&self.program),
            Some((linker, libraries)) => {
                let mut command = Command::new(linker);
                command
                    .arg("--library-path")
                    .arg(libraries)
                    .args(["--argv0", "nix"])
                    .arg(&self.program);
                command
            }
        };
        let at = |name: &str| self.directory.join(name);
        command
            .env("NIX_STORE_DIR", at("store"))
            .env("NIX_STATE_DIR", at("state"))
            .env("NIX_LOG_DIR", at("log"))
            .env("NIX_CONF_DIR", at("conf"))
            .env("XDG_CACHE_HOME", at("cache"))
            .env("XDG_CONFIG_HOME", at("conf"))
            .env_remove("NIX_REMOTE")
            .env_remove("NIX_PATH");
        command
    }

    pub(crate) fn version(&self) -> Result<String, Failure> {
        let version = step::answer(self.command().arg("--version"))?;
        Ok(version.trim().to_owned())
    }
}
