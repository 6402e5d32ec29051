//! `cargo xtask nix-check`: what can be shown of the flake without nixpkgs.
//!
//! nixpkgs is a hundred thousand files, and without a binary cache a day of
//! compiling. So the flake is built with a stand-in for it, and what only
//! nixpkgs can show is said at the end. See `docs/nix.md`.

mod bundle;
mod faults;
mod flake;
mod lint;
mod modules;
mod tool;

use std::{env, fs, path::PathBuf, process::Command};

use crate::{
    dist,
    failure::{At, Failure},
    place::Place,
    reproducible, step,
    tally::{Done, Tally},
};

use flake::Flake;

/// What a green run does not say.
const NOT_SHOWN: &str = "\
Not shown here, because it needs nixpkgs: that its compilers build the packages, that its
module system accepts the modules, `nix flake check` and with it the NixOS tests.
`cargo xtask devbox test` runs the scripts of those tests on other guests.";

/// Runs all parts and prints their table.
pub(crate) fn check(place: &Place) -> Result<(), Failure> {
    let mut tally = Tally::new(env::var_os("CI").is_some_and(|value| value == "true"));
    tally.part("cargo's bundle", || {
        dist::pack(place).map(|()| Done::Yes("packed".into()))
    });
    parts(place, &mut tally);
    println!("\n{}{NOT_SHOWN}", tally.table());
    tally.verdict()
}

/// Adds the parts to a run. Those that build are skipped where there is no nix.
pub(crate) fn parts(place: &Place, tally: &mut Tally) {
    tally.part("nix scripts", || scripts(place));
    tally.part("nix lint", || lint::run(place));
    let mut found = None;
    tally.part("nix", || match tool::find(place) {
        Ok(nix) => {
            let version = nix.version()?;
            found = Some(nix);
            Ok(Done::Yes(version))
        }
        Err(failure) => Ok(Done::No(failure.to_string())),
    });
    let Some(nix) = found else {
        return;
    };
    let mut flake = None;
    tally.part("nix flake", || {
        let found = Flake::new(place, nix)?;
        found.lock()?;
        let text = found.evaluate()?;
        flake = Some(found);
        Ok(Done::Yes(text))
    });
    let Some(flake) = flake else {
        return;
    };
    let mut built = None;
    tally.part("nix build", || {
        built = Some(flake.build()?);
        Ok(Done::Yes(
            "olliesrv, toolsrv, bootstrap; the latter two again: the same bytes".into(),
        ))
    });
    let Some(built) = built else {
        return;
    };
    tally.part("nix run", || {
        let said = flake.run(&["exec", "--", "uname", "-a"])?;
        let here = step::answer(Command::new("uname").arg("-a"))?;
        if said != here {
            return Err(Failure::new(format!("it printed {said:?}, not {here:?}")));
        }
        Ok(Done::Yes("olliesrv exec -- uname -a".into()))
    });
    tally.part("nix bundle", || bundle::compare(place, &built));
    tally.part("nix modules", || modules::check(&flake, &built));
    tally.part("nix pages", || bundle::pages(&built));
    tally.part("nix faults", || faults::check(&flake));
}

/// The scripts of the NixOS tests and their driver: Nix takes a script with a
/// wrong syntax as it takes any text.
fn scripts(place: &Place) -> Result<Done, Failure> {
    let mut scripts = Vec::new();
    for directory in ["vm-tests", "vm-tests/driver"] {
        let directory = place.root.join(directory);
        for entry in fs::read_dir(&directory).at(&directory)? {
            let path: PathBuf = entry.at(&directory)?.path();
            if path.extension().is_some_and(|extension| extension == "py") {
                scripts.push(path);
            }
        }
    }
    let program = "import sys\nfor f in sys.argv[1:]: compile(open(f).read(), f, 'exec')";
    step::answer(Command::new("python3").args(["-c", program]).args(&scripts))?;
    Ok(Done::Yes(format!("{} Python files compile", scripts.len())))
}

/// A copy of the source without anything that was built in it: Nix would copy
/// all of `target` into its store.
fn source(place: &Place) -> Result<PathBuf, Failure> {
    let copy = place.target.join("nix/source");
    if copy.exists() {
        fs::remove_dir_all(&copy).at(&copy)?;
    }
    for file in reproducible::files(&place.root)? {
        let (from, to) = (place.root.join(&file), copy.join(&file));
        // Listed by git, but removed from the work tree.
        if !from.is_file() {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).at(parent)?;
        }
        fs::copy(&from, &to).at(&from)?;
    }
    // Nix follows no symbolic link on the way to a flake.
    copy.canonicalize().at(&copy)
}
