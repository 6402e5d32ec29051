//! The command line.

use std::{ffi::OsString, path::PathBuf};

use lexopt::prelude::*;

use crate::{failure::Failure, libc::Wish};

pub(crate) const USAGE: &str = "\
usage: cargo xtask build [--libc auto|gnu|musl] [--toolsrv OS-ARCH=FILE]...
                            olliesrv, toolsrv and the bundle, into target/dist/;
                            --toolsrv adds one that was built for another platform
       cargo xtask run -- ARGUMENTS
                            builds, then becomes `olliesrv ARGUMENTS`
       cargo xtask test [--full]
                            every test; --full also the ones that take long
       cargo xtask bench [ROUNDS]
                            what the hot paths cost, each beside a reference
       cargo xtask devbox test [SCENARIO]... | list | shell ROLE [USERLAND]
                            scenarios on guests with other kernels; a guest to log into
       cargo xtask nix-check
                            what can be shown of the flake without nixpkgs
       cargo xtask reproducible [--libc auto|gnu|musl]
                            builds toolsrv in two directories and compares
       cargo xtask musl     builds the musl std from Debian's source packages,
                            where `rustup target add` cannot fetch it
";

/// What the person asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Build(Build),
    Run(Vec<OsString>),
    Bench(Vec<OsString>),
    Devbox(Vec<OsString>),
    Musl,
    NixCheck,
    Reproducible(Wish),
    Test { full: bool },
}

/// The options of `build`.
#[derive(Debug, Default)]
pub(crate) struct Build {
    /// Which C library toolsrv is linked with.
    pub(crate) libc: Wish,
    /// More toolsrvs for the bundle: platform and file.
    pub(crate) others: Vec<(String, PathBuf)>,
}

pub(crate) fn parse(mut args: lexopt::Parser) -> Result<Command, Failure> {
    let mut build = Build::default();
    let mut full = false;
    let command = match args.next()? {
        None | Some(Short('h') | Long("help")) => return Ok(Command::Help),
        Some(Value(name)) => name.string()?,
        Some(other) => return Err(other.unexpected().into()),
    };
    if command == "run" {
        // All of it is olliesrv's, with or without a `--` in front.
        let mut rest: Vec<_> = args.raw_args()?.collect();
        if rest.first().is_some_and(|first| first == "--") {
            rest.remove(0);
        }
        return Ok(Command::Run(rest));
    }
    if command == "bench" {
        return Ok(Command::Bench(args.raw_args()?.collect()));
    }
    if command == "devbox" {
        return Ok(Command::Devbox(args.raw_args()?.collect()));
    }
    while let Some(arg) = args.next()? {
        match (command.as_str(), arg) {
            (_, Short('h') | Long("help")) => return Ok(Command::Help),
            ("build" | "reproducible", Long("libc")) => build.libc = args.value()?.parse()?,
            ("build", Long("toolsrv")) => build.others.push(platform(args.value()?)?),
            ("test", Long("full")) => full = true,
            (_, other) => return Err(other.unexpected().into()),
        }
    }
    match command.as_str() {
        "build" => Ok(Command::Build(build)),
        "test" => Ok(Command::Test { full }),
        "reproducible" => Ok(Command::Reproducible(build.libc)),
        "musl" => Ok(Command::Musl),
        "nix-check" => Ok(Command::NixCheck),
        _ => Err(Failure::new(format!("no command `{command}`\n{USAGE}"))),
    }
}

fn platform(value: OsString) -> Result<(String, PathBuf), Failure> {
    let value = value.string()?;
    match value.split_once('=') {
        Some((platform, file)) => Ok((platform.to_owned(), file.into())),
        None => Err(Failure::new(format!("{value} is not OS-ARCH=FILE"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, Failure> {
        let words = line.split_whitespace();
        parse(lexopt::Parser::from_args(words))
    }

    #[test]
    fn run_hands_everything_on_as_it_is() {
        for line in ["run -- exec -- uname -a", "run exec -- uname -a"] {
            let Ok(Command::Run(arguments)) = parsed(line) else {
                panic!("{line} is a run");
            };
            assert_eq!(arguments, ["exec", "--", "uname", "-a"], "{line}");
        }
        assert!(matches!(parsed("run"), Ok(Command::Run(rest)) if rest.is_empty()));
        assert!(matches!(parsed("run --help"), Ok(Command::Run(rest)) if rest == ["--help"]));
    }

    #[test]
    fn an_option_belongs_to_its_command() {
        assert!(matches!(
            parsed("test --full"),
            Ok(Command::Test { full: true })
        ));
        assert!(matches!(
            parsed("build --libc musl"),
            Ok(Command::Build(Build {
                libc: Wish::Musl,
                ..
            }))
        ));
        for line in [
            "test --libc gnu",
            "musl --full",
            "build --libc uclibc",
            "bild",
            "build x",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
