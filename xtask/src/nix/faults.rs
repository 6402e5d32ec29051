//! Faults put in on purpose: a check that has never failed shows nothing.

use std::fs;
use std::path::Path;

use crate::{
    failure::{At, Failure},
    nix::flake::Flake,
    step,
    tally::Done,
};

/// One change of the source, and how a build must fail on it.
struct Fault {
    name: &'static str,
    file: &'static str,
    change: fn(&str) -> Option<String>,
    package: &'static str,
    /// Whether the first build succeeds and the second finds it.
    twice: bool,
    says: &'static str,
}

const FAULTS: [Fault; 3] = [
    Fault {
        name: "a time stamp in the bundle",
        file: "nix/bootstrap.nix",
        change: |text| {
            replaced(
                text,
                "pack --version ${version}",
                "pack --version $(date +%N)",
            )
        },
        package: "bootstrap",
        twice: true,
        says: "may not be deterministic",
    },
    Fault {
        name: "a source file that is not there",
        file: "nix/source.nix",
        change: |text| replaced(text, "    ../xtask\n", ""),
        package: "ollie-bundle",
        twice: false,
        says: "xtask",
    },
    Fault {
        name: "a changed checksum in Cargo.lock",
        file: "Cargo.lock",
        change: |text| {
            let (before, checksum) = text.split_once("\nchecksum = \"")?;
            let digit = if checksum.starts_with('0') { '1' } else { '0' };
            let rest = checksum.get(1..)?;
            Some(format!("{before}\nchecksum = \"{digit}{rest}"))
        },
        package: "ollie-bundle",
        twice: false,
        says: "hash mismatch",
    },
];

/// Each fault stops its build, and for its own reason.
pub(crate) fn check(flake: &Flake) -> Result<Done, Failure> {
    for fault in FAULTS {
        let found = build(flake, &fault);
        match found {
            Err(failure) if failure.to_string().contains(fault.says) => {}
            Err(failure) => {
                let during = format!("{} is found for another reason", fault.name);
                return Err(failure.during(&during));
            }
            Ok(()) => return Err(Failure::new(format!("{} is not noticed", fault.name))),
        }
    }
    Ok(Done::Yes(format!("{} put in, all found", FAULTS.len())))
}

fn build(flake: &Flake, fault: &Fault) -> Result<(), Failure> {
    let copy = flake.source.with_file_name("faulty");
    if copy.exists() {
        fs::remove_dir_all(&copy).at(&copy)?;
    }
    let from = flake.source.as_os_str();
    step::answer(
        std::process::Command::new("cp")
            .arg("-r")
            .arg(from)
            .arg(&copy),
    )?;
    put_in(&copy.join(fault.file), fault)?;
    let flake = flake.over(copy);
    let first = flake.package(fault.package).map(drop);
    if !fault.twice {
        return first;
    }
    first.map_err(|failure| failure.during("the first build, which must succeed"))?;
    flake.rebuild(fault.package)
}

fn put_in(file: &Path, fault: &Fault) -> Result<(), Failure> {
    let text = fs::read_to_string(file).at(file)?;
    let changed = (fault.change)(&text).ok_or_else(|| {
        Failure::new(format!(
            "{} has no place for {}",
            file.display(),
            fault.name
        ))
    })?;
    fs::write(file, changed).at(file)
}

fn replaced(text: &str, from: &str, to: &str) -> Option<String> {
    text.contains(from).then(|| text.replacen(from, to, 1))
}
