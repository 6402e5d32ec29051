//! The bundle of Nix beside cargo's: the same, except for toolsrv.

use std::{path::Path, process::Command};

use crate::{failure::Failure, nix::flake::Built, place::Place, step, tally::Done};

pub(crate) fn compare(place: &Place, built: &Built) -> Result<Done, Failure> {
    let packer = built.packer.join("bin/ollie-bundle");
    let list = |bundle: &Path| step::answer(Command::new(&packer).arg("list").arg(bundle));
    let ours = list(&place.dist().join("ollie-bundle.tar.xz"))?;
    let theirs = list(&built.bootstrap.join("share/ollie/ollie-bundle.tar.xz"))?;
    if without_toolsrv(&ours) == without_toolsrv(&theirs) {
        return Ok(Done::Yes("as cargo's, except for toolsrv".into()));
    }
    Err(Failure::new(format!(
        "the bundles differ in more than toolsrv:\n{ours}\n{theirs}"
    )))
}

/// The lines of all other files: mode, size, hash and path of each.
fn without_toolsrv(list: &str) -> Vec<&str> {
    let other = |line: &&str| !line.contains("toolsrv/linux-");
    list.lines().filter(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_toolsrv_may_differ() {
        let one =
            "0644 3 aa sandbox-profiles/default.yaml\n0755 9 bb toolsrv/linux-x86_64/toolsrv\n";
        let two =
            "0644 3 aa sandbox-profiles/default.yaml\n0755 8 cc toolsrv/linux-x86_64/toolsrv\n";
        let three =
            "0644 4 dd sandbox-profiles/default.yaml\n0755 9 bb toolsrv/linux-x86_64/toolsrv\n";
        assert_eq!(without_toolsrv(one), without_toolsrv(two));
        assert_ne!(without_toolsrv(one), without_toolsrv(three));
    }
}
