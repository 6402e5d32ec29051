//! The flake of a copy of the source, with the stand-in in place of nixpkgs.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    failure::Failure,
    libc::{self, Wish},
    nix::tool::Nix,
    place::Place,
    step::{self, Voice},
};

/// Where the packages were built.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) olliesrv: PathBuf,
    pub(crate) bootstrap: PathBuf,
    pub(crate) packer: PathBuf,
}

/// A copy of the source, and nix.
#[derive(Debug, Clone)]
pub(crate) struct Flake {
    nix: Nix,
    pub(crate) source: PathBuf,
    /// What the stand-in is told of this machine.
    host: Vec<(&'static str, String)>,
}

const PACKAGES: [&str; 4] = ["olliesrv", "toolsrv", "bootstrap", "ollie-bundle"];

impl Flake {
    pub(crate) fn new(place: &Place, nix: Nix) -> Result<Self, Failure> {
        // The stand-in takes crates from where cargo keeps what it downloaded.
        step::cargo(
            place
                .cargo(&place.root, &place.target)
                .args(["fetch", "--locked"]),
            Voice::Quiet,
        )?;
        let sysroot = libc::choose(place, Wish::Musl)
            .ok()
            .and_then(|libc| libc.sysroot)
            .map(|path| path.display().to_string());
        let rustup = env::var("RUSTUP_HOME")
            .ok()
            .or_else(|| Some(env::home_dir()?.join(".rustup").display().to_string()));
        let bin = place.sysroot.join("bin");
        Ok(Self {
            source: super::source(place)?,
            host: vec![
                (
                    "OLLIE_HOST_PATH",
                    format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin", bin.display()),
                ),
                (
                    "OLLIE_HOST_CARGO_HOME",
                    place.cargo_home.display().to_string(),
                ),
                ("OLLIE_HOST_RUSTUP_HOME", rustup.unwrap_or_default()),
                ("OLLIE_HOST_SYSROOT", sysroot.unwrap_or_default()),
            ],
            nix,
        })
    }

    /// The same flake over another copy of the source.
    pub(crate) fn over(&self, source: PathBuf) -> Self {
        Self {
            source,
            ..self.clone()
        }
    }

    /// Builds one package; the result is its path in the store.
    pub(crate) fn package(&self, package: &str) -> Result<PathBuf, Failure> {
        let options = ["--no-link", "--print-out-paths", "--print-build-logs"];
        let said = self.answer("build", &options, package)?;
        Ok(PathBuf::from(said.trim()))
    }

    /// Every input is locked: nothing has to be asked of anybody.
    pub(crate) fn lock(&self) -> Result<(), Failure> {
        step::answer(
            self.nix
                .command()
                .args([
                    "flake",
                    "metadata",
                    "--json",
                    "--offline",
                    "--no-update-lock-file",
                ])
                .arg(self.reference("")),
        )
        .map(drop)
        .map_err(|failure| failure.during("flake.lock does not lock every input"))
    }

    /// Evaluates the packages for both architectures, and reads every other
    /// expression.
    pub(crate) fn evaluate(&self) -> Result<String, Failure> {
        for system in ["x86_64-linux", "aarch64-linux"] {
            for package in PACKAGES {
                let attribute = format!("packages.{system}.{package}.drvPath");
                self.answer("eval", &["--raw"], &attribute)?;
            }
            self.answer(
                "eval",
                &["--raw"],
                &format!("apps.{system}.olliesrv.program"),
            )?;
        }
        let expression = format!(
            "let vm = {0}/vm-tests; names = builtins.filter (n: builtins.match \".*[.]nix\" n != null) \
             (builtins.attrNames (builtins.readDir vm)); scenarios = builtins.filter \
             (n: n != \"default.nix\" && n != \"common.nix\") names; \
             script = n: (import (vm + \"/${{n}}\") {{ self = {{ }}; }}).testScript; in \
             map (n: builtins.stringLength (script n) > 0) scenarios ++ \
             map (f: builtins.isFunction (import f)) \
             [ {0}/nix/module.nix {0}/nix/home-module.nix {0}/nix/target-module.nix \
             {0}/nix/checks.nix {0}/nix/shell.nix {0}/nix/overlay.nix (vm + \"/common.nix\") \
             (vm + \"/default.nix\") ]",
            self.source.display()
        );
        let said = step::answer(self.command("eval").args(["--json", "--expr", &expression]))?;
        if said.contains("false") || !said.contains("true") {
            return Err(Failure::new(format!(
                "an expression is not what it should be: {said}"
            )));
        }
        Ok(format!(
            "locked; {} packages for two systems",
            PACKAGES.len()
        ))
    }

    /// Builds all packages, and toolsrv and the bundle again, to compare. Linking
    /// toolsrv keeps one processor busy, so something else is built meanwhile.
    pub(crate) fn build(&self) -> Result<Built, Failure> {
        let (toolsrv, packer) = both(|| self.package("toolsrv"), || self.package("ollie-bundle"))?;
        let closure = self.closure(&toolsrv)?;
        if closure != [toolsrv] {
            return Err(Failure::new(format!(
                "toolsrv needs more than itself: {closure:?}"
            )));
        }
        let bootstrap = self.package("bootstrap")?;
        let again = || {
            self.rebuild("toolsrv")
                .and_then(|()| self.rebuild("bootstrap"))
        };
        let (olliesrv, ()) = both(|| self.package("olliesrv"), again)?;
        Ok(Built {
            olliesrv,
            bootstrap,
            packer,
        })
    }

    /// What a path in the store names, and what that names, and so on.
    fn closure(&self, path: &Path) -> Result<Vec<PathBuf>, Failure> {
        let mut command = self.nix.command();
        command.args(["path-info", "--recursive"]).arg(path);
        Ok(step::answer(&mut command)?
            .lines()
            .map(PathBuf::from)
            .collect())
    }

    /// Builds again and compares.
    pub(crate) fn rebuild(&self, package: &str) -> Result<(), Failure> {
        self.answer("build", &["--no-link", "--rebuild"], package)
            .map(drop)
    }

    /// Builds an expression of our own; the result is its path in the store.
    pub(crate) fn build_expression(&self, expression: &str) -> Result<PathBuf, Failure> {
        let said = step::answer(self.command("build").args([
            "--no-link",
            "--print-out-paths",
            "--expr",
            expression,
        ]))?;
        Ok(PathBuf::from(said.trim()))
    }

    /// The JSON of an expression of our own.
    pub(crate) fn value(&self, expression: &str) -> Result<String, Failure> {
        let said = step::answer(self.command("eval").args(["--json", "--expr", expression]))?;
        Ok(said.trim().to_owned())
    }

    /// What `nix run .#olliesrv` prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        let mut command = self.command("run");
        command
            .args(self.overridden())
            .arg(self.reference("olliesrv"))
            .arg("--")
            .args(arguments)
            .current_dir(&self.source);
        step::answer(&mut command)
    }

    fn answer(&self, what: &str, options: &[&str], attribute: &str) -> Result<String, Failure> {
        let mut command = self.command(what);
        command
            .args(options)
            .args(self.overridden())
            .arg(self.reference(attribute));
        step::answer(&mut command)
    }

    fn command(&self, what: &str) -> Command {
        let mut command = self.nix.command();
        command.args([what, "--impure", "--offline"]);
        for (name, value) in &self.host {
            command.env(name, value);
        }
        command
    }

    fn overridden(&self) -> [String; 4] {
        let stand_in = self.source.join("nix/host-stand-in");
        [
            "--no-write-lock-file".to_owned(),
            "--override-input".to_owned(),
            "nixpkgs".to_owned(),
            format!("path:{}", stand_in.display()),
        ]
    }

    fn reference(&self, attribute: &str) -> String {
        reference(&self.source, attribute)
    }
}

/// Does two things at once.
fn both<A, B: Send>(
    one: impl FnOnce() -> Result<A, Failure>,
    other: impl FnOnce() -> Result<B, Failure> + Send,
) -> Result<(A, B), Failure> {
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        let one = one();
        let other = other
            .join()
            .unwrap_or_else(|_| Err(Failure::new("a thread panicked")));
        Ok((one?, other?))
    })
}

fn reference(source: &Path, attribute: &str) -> String {
    match attribute {
        "" => format!("path:{}", source.display()),
        _ => format!("path:{}#{attribute}", source.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flake_is_named_by_its_path_and_never_by_a_registry() {
        let source = Path::new("/a/source");
        assert_eq!(reference(source, ""), "path:/a/source");
        assert_eq!(reference(source, "olliesrv"), "path:/a/source#olliesrv");
    }
}
