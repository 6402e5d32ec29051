//! Where things are.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    failure::{At, Failure},
    step,
};

/// The directories of one checkout, and the compiler that works in it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The workspace.
    pub(crate) root: PathBuf,
    /// Cargo's target directory: `CARGO_TARGET_DIR`, default `target`.
    pub(crate) target: PathBuf,
    /// `CARGO_HOME`, default `~/.cargo`.
    pub(crate) cargo_home: PathBuf,
    /// What `rustc --print sysroot` says.
    pub(crate) sysroot: PathBuf,
    /// What `rustc -vV` says.
    pub(crate) rustc: Version,
}

/// The compiler: its plain text, and the lines of it that matter here.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) text: String,
}

impl Version {
    /// `release`, `host` or `commit-hash`; empty where there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        let lines = self.text.lines();
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| *key == name)
            .map_or("", |(_, value)| value.trim())
    }
}

impl Place {
    pub(crate) fn here() -> Result<Self, Failure> {
        // Cargo says at run time where the package lies; the path that was
        // compiled in is for an xtask started by hand.
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = match package.parent() {
            Some(root) => root.canonicalize().at(root)?,
            None => return Err(Failure::new("xtask lies in no workspace")),
        };
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(target) => std::path::absolute(&target).at(Path::new(&target))?,
            None => root.join("target"),
        };
        let cargo_home = match (env::var_os("CARGO_HOME"), env::home_dir()) {
            (Some(home), _) => PathBuf::from(home),
            (None, Some(home)) => home.join(".cargo"),
            (None, None) => return Err(Failure::new("neither CARGO_HOME nor HOME is set")),
        };
        let text = step::answer(Command::new("rustc").arg("-vV").current_dir(&root))?;
        let sysroot = step::answer(
            Command::new("rustc")
                .args(["--print", "sysroot"])
                .current_dir(&root),
        )?;
        Ok(Self {
            root,
            target,
            cargo_home,
            sysroot: PathBuf::from(sysroot.trim_end()),
            rustc: Version { text },
        })
    }

    /// Where the finished files go.
    pub(crate) fn dist(&self) -> PathBuf {
        self.target.join("dist")
    }

    /// Where the prepared musl std and everything for it lies.
    pub(crate) fn musl(&self) -> PathBuf {
        self.target.join("musl")
    }

    /// Cargo, in a source directory and with a target directory of its own.
    pub(crate) fn cargo(&self, source: &Path, target: &Path) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command
            .current_dir(source)
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_HOME", &self.cargo_home)
            .env_remove("CARGO_BUILD_TARGET");
        for (name, _) in env::vars_os() {
            if is_cargo_s_own(&name) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Takes out of a command's environment what `cargo run` put there for
    /// xtask: a program that the person asked for should not see it.
    pub(crate) fn as_before_cargo(&self, command: &mut Command) {
        for (name, _) in env::vars_os() {
            if is_cargo_s_own(&name) {
                command.env_remove(name);
            }
        }
        for name in [
            "CARGO",
            "RUST_RECURSION_COUNT",
            "RUSTUP_TOOLCHAIN",
            "RUSTUP_TOOLCHAIN_SOURCE",
        ] {
            command.env_remove(name);
        }
        let Some(paths) = env::var_os("LD_LIBRARY_PATH") else {
            return;
        };
        let own =
            |path: &PathBuf| !path.starts_with(&self.target) && !path.starts_with(&self.sysroot);
        let kept: Vec<_> = env::split_paths(&paths).filter(own).collect();
        match env::join_paths(&kept) {
            Ok(paths) if !kept.is_empty() => command.env("LD_LIBRARY_PATH", paths),
            _ => command.env_remove("LD_LIBRARY_PATH"),
        };
    }
}

/// What cargo tells a program about the package it belongs to.
fn is_cargo_s_own(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_rustc_are_found_by_name() {
        let text = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\n\
                    commit-hash: 59807616e1\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        let version = Version {
            text: text.to_owned(),
        };
        assert_eq!(version.field("release"), "1.95.0");
        assert_eq!(version.field("commit-hash"), "59807616e1");
        assert_eq!(version.field("absent"), "");
    }
}
