//! Format and unused names of the Nix expressions.
//!
//! nixpkgs' formatter is not at hand, but one that writes the same is a crate.

use std::{path::PathBuf, process::Command};

use crate::{
    failure::Failure,
    packages,
    place::Place,
    reproducible,
    step::{self, Voice},
    tally::Done,
};

/// Program, crate and version: another version may want another format.
const TOOLS: [(&str, &str, &str); 2] = [
    ("nixfmt", "nixfmt_rs", "0.5.3"),
    ("deadnix", "deadnix", "1.3.1"),
];

pub(crate) fn run(place: &Place) -> Result<Done, Failure> {
    let mut programs = Vec::new();
    for (program, package, version) in TOOLS {
        match tool(place, program, package, version) {
            Ok(path) => programs.push(path),
            Err(failure) => return Ok(Done::No(failure.to_string())),
        }
    }
    let files: Vec<_> = reproducible::files(&place.root)?
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "nix"))
        .filter(|file| place.root.join(file).is_file())
        .collect();
    let options: [&[&str]; 2] = [&["--check"], &["--fail"]];
    for (program, options) in programs.iter().zip(options) {
        let mut command = Command::new(program);
        command.args(options).args(&files).current_dir(&place.root);
        step::answer(&mut command)?;
    }
    Ok(Done::Yes(format!("{} expressions", files.len())))
}

/// The one on PATH, or one that cargo installs below `target`.
fn tool(place: &Place, program: &str, package: &str, version: &str) -> Result<PathBuf, Failure> {
    let root = place.target.join("nix/tools");
    let own = root.join("bin").join(program);
    if own.exists() {
        return Ok(own);
    }
    if let Some(found) = packages::find(program) {
        return Ok(found);
    }
    let mut cargo = place.cargo(&place.root, &place.target.join("nix/tools-build"));
    cargo
        .args([
            "install",
            "--locked",
            "--version",
            version,
            package,
            "--root",
        ])
        .arg(&root);
    step::cargo(&mut cargo, Voice::Loud)?;
    if own.exists() {
        return Ok(own);
    }
    Err(Failure::new(format!(
        "{package} {version} has no {program}"
    )))
}
