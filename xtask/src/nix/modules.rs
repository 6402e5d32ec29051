//! The modules: every option is described and reaches the tool.

use std::process::Command;

use crate::{
    failure::Failure,
    nix::flake::{Built, Flake},
    step,
    tally::Done,
};

/// What `olliesrv remotes` must know when all options of a remote are set, as
/// `nix/host-stand-in/module-check.nix` sets them.
const EXPECTED: [&str; 8] = [
    "me@devbox.example.org:2222",
    "/srv/work",
    "forward",
    "strict",
    "plain",
    "[2001:db8::1]",
    "free@form",
    "full",
];

pub(crate) fn check(flake: &Flake, built: &Built) -> Result<Done, Failure> {
    let expression = |attribute: &str| {
        format!(
            "(import {}/nix/host-stand-in/module-check.nix {{ olliesrv = \"{}\"; }}).{attribute}",
            flake.source.display(),
            built.olliesrv.display(),
        )
    };
    let undocumented = flake.value(&expression("undocumented"))?;
    if undocumented != "[]" {
        let text = format!("options without a description or an example: {undocumented}");
        return Err(Failure::new(text));
    }
    if flake.value(&expression("assertions"))? != "true" {
        return Err(Failure::new("a right configuration is refused"));
    }
    flake.build_expression(&as_output(&expression("home")))?;
    let file = flake.build_expression(&as_output(&expression("nixos")))?;
    let configuration = file.join("config.yaml");
    let written = std::fs::read_to_string(&configuration)
        .map_err(|error| Failure::new(format!("{}: {error}", configuration.display())))?;
    if !written.contains("97s") {
        return Err(Failure::new(
            "the option answerTimeout does not reach the file",
        ));
    }
    let known = remotes(flake, built, &file)?;
    for expected in EXPECTED {
        if !known.contains(expected) {
            return Err(Failure::new(format!(
                "olliesrv does not know {expected}: {known}"
            )));
        }
    }
    match flake.build_expression(&as_output(&expression("misspelt"))) {
        Ok(_) => Err(Failure::new("a misspelt setting is accepted")),
        Err(failure) if failure.to_string().contains("traget") => Ok(Done::Yes(
            "every option is described and reaches olliesrv".into(),
        )),
        Err(failure) => Err(failure.during("a misspelt setting is refused for another reason")),
    }
}

/// The derivation that a path into its output comes from.
fn as_output(expression: &str) -> String {
    format!(
        "let path = {expression}; context = builtins.attrNames (builtins.getContext path); in \
         import (builtins.head context)"
    )
}

fn remotes(flake: &Flake, built: &Built, directory: &std::path::Path) -> Result<String, Failure> {
    let home = flake.source.with_file_name("home");
    let link = home.join("ollie");
    let made = std::fs::create_dir_all(&home).and_then(|()| {
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(directory, &link)
    });
    made.map_err(|error| Failure::new(format!("{}: {error}", link.display())))?;
    step::answer(
        Command::new(built.olliesrv.join("bin/olliesrv"))
            .args(["remotes", "--json"])
            .env("XDG_CONFIG_HOME", &home),
    )
}
