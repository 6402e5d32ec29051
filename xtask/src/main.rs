//! `cargo xtask`: builds, runs and tests ollie.
//!
//! It has one small dependency, because compiling it is the first thing that
//! a newcomer waits for; the packer and everything else heavy are programs
//! that it builds and calls.
//!
//! - [`place`] knows the directories, [`step`] runs other programs.
//! - [`libc`] decides how toolsrv is linked, [`musl`] prepares a musl std
//!   where none can be installed, [`toolsrv`] builds it, [`elf`] and
//!   [`binary`] check what came out.
//! - [`dist`] puts `olliesrv` and the bundle into `target/dist/`.
//! - [`reproducible`] builds twice and compares.
//! - [`devbox`] starts guests with other kernels.
//! - [`nix`] checks the flake.
//! - [`suite`] runs every test; [`packages`] is what they need.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a build tool talks to the person at the terminal"
)]

mod apt;
mod binary;
mod devbox;
mod dist;
mod elf;
mod failure;
mod libc;
mod musl;
mod nix;
mod options;
mod packages;
mod place;
mod reproducible;
mod step;
mod suite;
mod tally;
mod toolsrv;

use std::process::ExitCode;

use failure::Failure;
use options::{Command, USAGE};
use place::Place;
use step::Voice;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let command = options::parse(lexopt::Parser::from_env())?;
    let place = Place::here()?;
    match command {
        Command::Help => {
            print!("{USAGE}");
            Ok(())
        }
        Command::Build(build) => dist::build(&place, &build, Voice::Loud).map(drop),
        Command::Run(arguments) => dist::run(&place, arguments),
        Command::Bench(arguments) => dist::bench(&place, &arguments),
        Command::Devbox(arguments) => devbox::become_driver(&place, &arguments),
        Command::Musl => musl::prepare(&place).map(drop),
        Command::NixCheck => nix::check(&place),
        Command::Reproducible(wish) => reproducible::twice(&place, wish),
        Command::Test { full } => suite::run(&place, full),
    }
}
