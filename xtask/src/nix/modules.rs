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

/// What must stand in config.yaml: options of a remote that the list of remotes
/// does not show, and those of back ends.
const WRITTEN: [&str; 20] = [
    "97s",
    "backend",
    "work",
    "anthropic",
    "https://models.example.org/v1",
    "key_command",
    "pass",
    "claude-sonnet",
    "32768",
    "8000",
    "11s",
    "13m",
    "proxy.example.org:3128",
    "/etc/ssl/work.pem",
    "openai",
    "SOME_KEY",
    "ollama",
    "/run/secrets/models",
    "replay",
    "/srv/tour.jsonl",
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
        return Err(Failure::new(
            "a right configuration is refused, or a key in the store accepted",
        ));
    }
    if flake.value(&expression("units"))? != r#"{"home":true,"nixos":true}"# {
        return Err(Failure::new("serve.enable does not reach systemd"));
    }
    flake.build_expression(&as_output(&expression("home")))?;
    let file = flake.build_expression(&as_output(&expression("nixos")))?;
    let configuration = file.join("config.yaml");
    let written = std::fs::read_to_string(&configuration)
        .map_err(|error| Failure::new(format!("{}: {error}", configuration.display())))?;
    for value in WRITTEN {
        if !written.contains(value) {
            return Err(Failure::new(format!(
                "an option's {value} does not reach the file: {written}"
            )));
        }
    }
    let known = remotes(flake, built, &file)?;
    for expected in EXPECTED {
        if !known.contains(expected) {
            return Err(Failure::new(format!(
                "olliesrv does not know {expected}: {known}"
            )));
        }
    }
    for (attribute, says) in [("misspelt", "traget"), ("without", "expected a recording")] {
        match flake.build_expression(&as_output(&expression(attribute))) {
            Ok(_) => {
                let text = format!("a wrong setting ({attribute}) is accepted");
                return Err(Failure::new(text));
            }
            Err(failure) if failure.to_string().contains(says) => {}
            Err(failure) => {
                let during = format!("a wrong setting ({attribute}) is refused for another reason");
                return Err(failure.during(&during));
            }
        }
    }
    Ok(Done::Yes(
        "every option is described and reaches olliesrv".into(),
    ))
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
