//! `cargo xtask devbox`: guests with other kernels.
//!
//! The driver is Python, because what it runs is: scenarios in the language
//! and with the surface of the NixOS test driver. Here is only what leads to
//! it. See `docs/devboxes.md`.

use std::{
    ffi::OsString,
    io::Write as _,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    dist,
    failure::{At, Failure},
    options::Build,
    packages,
    place::Place,
    step,
    step::Voice,
    tally::Done,
};

/// Becomes the driver: its process, its signals, its status.
pub(crate) fn become_driver(place: &Place, arguments: &[OsString]) -> Result<(), Failure> {
    if let Err(missing) = packages::install() {
        eprintln!("xtask: {missing}");
    }
    dist::build(place, &Build::default(), Voice::Quiet)?;
    let mut driver = driver(place, &place.dist(), &escape(place)?);
    place.as_before_cargo(&mut driver);
    let error = driver.args(arguments).exec();
    Err(Failure::new(format!("cannot run python3: {error}")))
}

/// Runs all scenarios, as a part of the tests.
pub(crate) fn test(place: &Place, closing: &mut Vec<String>) -> Result<Done, Failure> {
    let mut seen = Seen::default();
    let mut driver = driver(place, &place.dist(), &escape(place)?);
    let result = step::watch(driver.arg("test"), |text| {
        // A terminal that went away is no reason to stop testing.
        let _ = std::io::stderr().write_all(text.as_bytes());
        seen.line(text);
    });
    closing.extend(seen.counts.clone());
    seen.verdict(result)
}

/// The attempts of the escape suite, small enough to be sent to a guest.
fn escape(place: &Place) -> Result<PathBuf, Failure> {
    let directory = place.target.join("devbox");
    std::fs::create_dir_all(&directory).at(&directory)?;
    let small = directory.join("ollie-escape");
    // With the features that the tests have, so nothing is compiled for it twice.
    let build = ["build", "--workspace", "--bin", "ollie-escape"];
    step::cargo(
        place.cargo(&place.root, &place.target).args(build),
        Voice::Quiet,
    )
    .map_err(|failure| failure.during("building ollie-escape"))?;
    step::run(
        Command::new("strip")
            .arg("-o")
            .args([&small, &place.target.join("debug/ollie-escape")]),
    )?;
    Ok(small)
}

/// The driver, ended with us: it ends its guests.
fn driver(place: &Place, dist: &Path, escape: &Path) -> Command {
    let mut command = Command::new("python3");
    command
        .arg("-B")
        .arg(place.root.join("vm-tests/driver"))
        .env("OLLIE_DEVBOX", place.target.join("devbox"))
        .env("OLLIE_DIST", dist)
        .env("OLLIE_ESCAPE", escape);
    command
}

/// What the driver said that counts.
#[derive(Debug, Default)]
struct Seen {
    gaps: Vec<String>,
    counts: Option<String>,
}

impl Seen {
    fn line(&mut self, text: &str) {
        let text = text.trim_end();
        if let Some(gap) = text.strip_prefix("gap: ") {
            self.gaps.push(gap.to_owned());
        }
        if text.starts_with("devboxes: ") {
            self.counts = Some(text.to_owned());
        }
    }

    /// A failure without a failed scenario is a gap that is too wide.
    fn verdict(self, result: Result<(), Failure>) -> Result<Done, Failure> {
        let gaps = self.gaps.join("; ");
        let counts = self.counts.unwrap_or_default();
        match result {
            Ok(()) if gaps.is_empty() => Ok(Done::Yes(counts)),
            Ok(()) => Ok(Done::Yes(format!("{counts}, GAP: {gaps}"))),
            Err(_) if !gaps.is_empty() && (counts.is_empty() || counts.contains(", 0 failed")) => {
                Ok(Done::No(gaps))
            }
            Err(failure) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &[&str], result: Result<(), Failure>) -> Result<Done, Failure> {
        let mut seen = Seen::default();
        lines.iter().for_each(|line| seen.line(line));
        seen.verdict(result)
    }

    #[test]
    fn a_failed_scenario_is_a_failure_also_beside_a_gap() {
        let lines = ["gap: no fish\n", "devboxes: 9 passed, 1 failed\n"];
        assert!(verdict(&lines, Err(Failure::new("status 1"))).is_err());
        assert!(verdict(&[], Err(Failure::new("status 1"))).is_err());
    }

    #[test]
    fn a_gap_is_named_whether_it_stops_the_tests_or_not() {
        let lines = [
            "gap: no kernel for the role abi6\n",
            "devboxes: 9 passed, 0 failed\n",
        ];
        let Ok(Done::Yes(text)) = verdict(&lines, Ok(())) else {
            panic!("the rest has passed");
        };
        assert!(text.contains("GAP: no kernel for the role abi6"), "{text}");
        let failure = || Err(Failure::new("status 3"));
        assert!(matches!(verdict(&lines, failure()), Ok(Done::No(_))));
        let lines = ["gap: not installed: qemu-system-x86_64\n"];
        let Ok(Done::No(text)) = verdict(&lines, failure()) else {
            panic!("nothing could run");
        };
        assert_eq!(text, "not installed: qemu-system-x86_64");
    }
}
