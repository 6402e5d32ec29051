//! `cargo xtask test`: every test, and what each part of them took.

use std::{env, io::Write as _, process::Command};

use crate::{
    binary, devbox, dist,
    failure::Failure,
    libc::{self, Wish},
    musl, nix,
    options::Build,
    packages,
    place::Place,
    reproducible, step,
    step::Voice,
    tally::{Done, Tally},
};

/// Runs all parts, prints the table and then the runners' closing lines.
pub(crate) fn run(place: &Place, full: bool) -> Result<(), Failure> {
    let mut tally = Tally::new(env::var_os("CI").is_some_and(|value| value == "true"));
    let mut closing = Vec::new();

    tally.part("packages", || match packages::install() {
        Ok(text) => Ok(Done::Yes(text)),
        Err(missing) => Ok(Done::No(missing)),
    });
    tally.part("format", || {
        if !has(place, "fmt") {
            return Ok(Done::No("rustfmt is not installed".into()));
        }
        cargo(place, &["fmt", "--all", "--check"]).map(|()| Done::Yes("rustfmt".into()))
    });
    tally.part("lints", || {
        if !has(place, "clippy") {
            return Ok(Done::No("clippy is not installed".into()));
        }
        let clippy = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ];
        cargo(place, &clippy).map(|()| Done::Yes("clippy, no warning".into()))
    });
    tally.part("musl std", || musl_std(place));
    let mut dist = None;
    tally.part("build", || {
        let built = dist::build(place, &Build::default(), Voice::Loud)?;
        let reason = built.libc.reason.clone();
        dist = Some(built);
        Ok(Done::Yes(reason))
    });
    tally.part("tests", || tests(place, full, &mut closing));
    tally.part("doc tests", || doc_tests(place, &mut closing));
    if let Some(dist) = &dist {
        tally.part("toolsrv alone", || binary::check(&dist.toolsrv, &dist.libc));
        tally.part("reproducible", || {
            reproducible::against(place, &dist.libc, &dist.toolsrv)?;
            Ok(Done::Yes("the same bytes from another directory".into()))
        });
        tally.part("devboxes", || devbox::test(place, &mut closing));
    } else {
        let no = |what: &str| Ok(Done::No(format!("{what}: there is no toolsrv")));
        tally.part("toolsrv alone", || no("program headers, empty root"));
        tally.part("reproducible", || no("comparison"));
        tally.part("devboxes", || no("scenarios"));
    }
    if full {
        tally.part("static glibc", || glibc(place));
        nix::parts(place, &mut tally);
    }

    println!("\n{}", tally.table());
    if !full {
        println!(
            "`cargo xtask test --full` also builds toolsrv with glibc, twice, and compares, and checks the flake."
        );
    }
    // Last, where people and programs look for them.
    closing.iter().for_each(|line| println!("{line}"));
    tally.verdict()
}

fn cargo(place: &Place, arguments: &[&str]) -> Result<(), Failure> {
    step::cargo(
        place.cargo(&place.root, &place.target).args(arguments),
        Voice::Loud,
    )
}

/// Whether cargo has this command.
fn has(place: &Place, command: &str) -> bool {
    place
        .cargo(&place.root, &place.target)
        .args([command, "--version"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// What users are sent is linked with our own std for musl, so that is what
/// is tested, if it can be had.
fn musl_std(place: &Place) -> Result<Done, Failure> {
    match musl::prepare(place) {
        Ok(_) => Ok(Done::Yes("prepared, panics unwind".into())),
        Err(failure) => {
            let instead = libc::choose(place, Wish::Auto)?.name;
            Ok(Done::No(format!(
                "{failure}; the toolsrv of this run is {instead}"
            )))
        }
    }
}

fn tests(place: &Place, full: bool, closing: &mut Vec<String>) -> Result<Done, Failure> {
    let mut command = place.cargo(&place.root, &place.target);
    let nextest = has(place, "nextest");
    if nextest {
        command.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    } else {
        eprintln!("cargo-nextest is not installed, so `cargo test` runs the tests");
        command.args([
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--no-fail-fast",
        ]);
    }
    // Tests note here what they could not try on this machine.
    let gaps = place.target.join("gaps.txt");
    let _ = std::fs::remove_file(&gaps);
    command
        .env("OLLIE_DIST", place.dist())
        .env("OLLIE_GAPS", &gaps);
    if full {
        command.env("OLLIE_FULL", "1");
    }
    let result = runner(&mut command, closing);
    let name = if nextest {
        "cargo nextest"
    } else {
        "cargo test"
    };
    result?;
    match std::fs::read_to_string(&gaps) {
        Ok(gaps) => Ok(Done::No(format!(
            "{name} passed, without what this machine does not offer: {}",
            gaps.trim().replace('\n', "; ")
        ))),
        Err(_) => Ok(Done::Yes(format!("{name}, closing lines below"))),
    }
}

fn doc_tests(place: &Place, closing: &mut Vec<String>) -> Result<Done, Failure> {
    let mut command = place.cargo(&place.root, &place.target);
    command.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
    runner(&mut command, closing).map(|()| Done::Yes("the examples in the documentation".into()))
}

/// Shows all that a test runner prints and keeps the lines it closes with.
fn runner(command: &mut Command, closing: &mut Vec<String>) -> Result<(), Failure> {
    step::watch(command, |text| {
        // A terminal that went away is no reason to stop testing.
        let _ = std::io::stderr().write_all(text.as_bytes());
        if is_closing(text) {
            closing.push(text.trim().to_owned());
        }
    })
}

/// nextest ends with one `Summary`, cargo's own runner with one result for
/// each program, most of which hold no test.
fn is_closing(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("Summary [")
        || line.starts_with("test result:") && !line.contains(" 0 passed; 0 failed;")
}

/// The other way to link toolsrv, where musl is the usual one.
fn glibc(place: &Place) -> Result<Done, Failure> {
    reproducible::twice(place, Wish::Gnu)?;
    Ok(Done::Yes("the same bytes from two directories".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners_are_kept() {
        assert!(is_closing(
            "     Summary [   0.5s] 10 tests run: 10 passed, 0 skipped\n"
        ));
        assert!(is_closing(
            "test result: ok. 4 passed; 0 failed; 0 ignored;\n"
        ));
        assert!(is_closing(
            "test result: FAILED. 0 passed; 1 failed; 0 ignored;\n"
        ));
        assert!(!is_closing(
            "test result: ok. 0 passed; 0 failed; 0 ignored;\n"
        ));
        assert!(!is_closing(
            "        PASS [   0.003s] xtask suite::tests::summary\n"
        ));
    }
}
