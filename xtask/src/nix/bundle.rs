//! The bundle of Nix beside cargo's: the same, except for toolsrv.

use std::{path::Path, process::Command};

use crate::{
    failure::{At, Failure},
    nix::flake::Built,
    place::Place,
    step,
    tally::Done,
};

pub(crate) fn compare(place: &Place, built: &Built) -> Result<Done, Failure> {
    let packer = built.packer.join("bin/ollie-bundle");
    let list = |bundle: &Path| step::answer(Command::new(&packer).arg("list").arg(bundle));
    let ours = list(&place.dist().join("ollie-bundle.tar.xz"))?;
    let theirs = list(&built.bootstrap.join("share/ollie/ollie-bundle.tar.xz"))?;
    if without_toolsrv(&ours) != without_toolsrv(&theirs) {
        return Err(Failure::new(format!(
            "the bundles differ in more than toolsrv:\n{ours}\n{theirs}"
        )));
    }
    match (note(&ours), note(&theirs)) {
        (Some(ours), Some(theirs)) if ours.ends_with("cargo") && theirs.ends_with("by Nix") => {
            Ok(Done::Yes(format!(
                "as cargo's, except for toolsrv: \"{theirs}\", not \"{ours}\""
            )))
        }
        (ours, theirs) => Err(Failure::new(format!(
            "the manifests do not say who built toolsrv: {ours:?}, {theirs:?}"
        ))),
    }
}

/// What a manifest says of where its toolsrv comes from.
fn note(manifest: &str) -> Option<&str> {
    let (_, rest) = manifest.split_once("\"path\": \"toolsrv/linux-")?;
    let (_, rest) = rest.split('}').next()?.split_once("\"note\": \"")?;
    rest.split('"').next()
}

/// The manual pages, the completions and the units are in the package of olliesrv.
pub(crate) fn pages(built: &Built) -> Result<Done, Failure> {
    let files = [
        "man/man1/olliesrv.1",
        "man/man1/olliesrv-exec.1",
        "bash-completion/completions/olliesrv.bash",
        "fish/vendor_completions.d/olliesrv.fish",
        "zsh/site-functions/_olliesrv",
    ];
    for file in files {
        let path = built.olliesrv.join("share").join(file);
        let read = std::fs::read_to_string(&path);
        if !read.is_ok_and(|text| text.contains("exec")) {
            return Err(Failure::new(format!(
                "{} is missing or empty",
                path.display()
            )));
        }
    }
    let started = format!("ExecStart={}/bin/olliesrv serve", built.olliesrv.display());
    for (unit, says) in [
        ("olliesrv.socket", "ListenStream=%t/ollie/9p"),
        ("olliesrv.service", started.as_str()),
    ] {
        // What nixpkgs' module for systemd looks at, and what others do.
        for place in ["lib", "share"] {
            let path = built.olliesrv.join(place).join("systemd/user").join(unit);
            let text = std::fs::read_to_string(&path).at(&path)?;
            if !text.lines().any(|line| line == says) {
                return Err(Failure::new(format!(
                    "{} does not say {says}",
                    path.display()
                )));
            }
        }
    }
    Ok(Done::Yes(
        "manual pages, completions of three shells, units".into(),
    ))
}

/// The entries of all other files in a manifest: mode, size, hash and path of
/// each. Behind the manifest stands the hash of the whole, which must differ.
fn without_toolsrv(manifest: &str) -> Vec<&str> {
    let other = |entry: &&str| entry.contains("\"path\":") && !entry.contains("\"toolsrv/linux-");
    manifest
        .split('}')
        .map(|entry| entry.trim_start_matches([',', '\n', ' ']))
        .filter(other)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(profile: &str, toolsrv: &str) -> String {
        format!(
            "{{\n  \"files\": [\n    {{\n      \"path\": \"sandbox-profiles/a.yaml\",\n      \
             \"sha256\": \"{profile}\"\n    }},\n    {{\n      \"path\": \
             \"toolsrv/linux-x86_64/toolsrv\",\n      \"sha256\": \"{toolsrv}\",\n      \
             \"note\": \"static, by Nix\"\n    }}\n  ]\n}}\n"
        )
    }

    #[test]
    fn only_toolsrv_may_differ() {
        let (one, two) = (manifest("aa", "bb"), manifest("aa", "cc"));
        assert_eq!(without_toolsrv(&one), without_toolsrv(&two));
        assert!(without_toolsrv(&one)[0].contains("aa"));
        assert_eq!(note(&one), Some("static, by Nix"));
        assert_eq!(
            note(one.split(",\n      \"note\"").next().unwrap_or("")),
            None
        );
        let three = manifest("dd", "bb");
        assert_ne!(without_toolsrv(&one), without_toolsrv(&three));
    }
}
