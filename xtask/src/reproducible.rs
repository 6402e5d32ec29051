//! The same source gives the same toolsrv, wherever it lies and wherever
//! cargo keeps the libraries.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    failure::{At, Failure},
    libc::{self, Libc, Wish},
    place::Place,
    step::{self, Voice},
    toolsrv,
};

/// Builds in two directories whose paths differ in length, and compares.
pub(crate) fn twice(place: &Place, wish: Wish) -> Result<(), Failure> {
    let libc = libc::choose(place, wish)?;
    eprintln!("toolsrv is linked with {}", libc.reason);
    let (one, two) = (
        elsewhere(place, &libc, "source")?,
        elsewhere(place, &libc, "a/longer/path/to/the/source")?,
    );
    compare(&one.toolsrv, &two.toolsrv)
}

/// Builds once elsewhere and compares with the one that is in `target/dist`.
pub(crate) fn against(place: &Place, libc: &Libc, built: &Path) -> Result<(), Failure> {
    let other = elsewhere(place, libc, "source")?;
    compare(built, &other.toolsrv)
}

fn compare(one: &Path, two: &Path) -> Result<(), Failure> {
    let (first, second) = (fs::read(one).at(one)?, fs::read(two).at(two)?);
    if first == second {
        let sum = step::answer(Command::new("sha256sum").arg(one))?;
        let sum = sum.split_whitespace().next().unwrap_or_default();
        println!("toolsrv is the same from both directories: sha256 {sum}");
        return Ok(());
    }
    let at = first.iter().zip(&second).position(|(one, two)| one != two);
    Err(Failure::new(format!(
        "{} ({} bytes) and {} ({} bytes) differ, first at byte {}",
        one.display(),
        first.len(),
        two.display(),
        second.len(),
        at.unwrap_or(first.len().min(second.len())),
    )))
}

/// A copy of the source with what was built in it, removed when dropped.
struct Elsewhere {
    directory: PathBuf,
    toolsrv: PathBuf,
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // What cannot be removed from a temporary directory is the system's
        // to clean up.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn elsewhere(place: &Place, libc: &Libc, below: &str) -> Result<Elsewhere, Failure> {
    let directory = format!("ollie-reproducible-{}-{}", std::process::id(), below.len());
    let directory = std::env::temp_dir().join(directory);
    let mut copy = Elsewhere {
        toolsrv: PathBuf::new(),
        directory,
    };
    let source = copy.directory.join(below);
    for file in files(place)? {
        let (from, to) = (place.root.join(&file), source.join(&file));
        // Listed by git, but removed from the work tree; or a submodule.
        if !from.is_file() {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).at(parent)?;
        }
        fs::copy(&from, &to).at(&from)?;
    }
    let place = Place {
        cargo_home: alias(&place.cargo_home, &copy.directory.join("cargo"))?,
        ..place.clone()
    };
    let target = source.join("target");
    copy.toolsrv = toolsrv::build(&place, &source, &target, libc, Voice::Loud)?;
    Ok(copy)
}

/// Another path to the same `CARGO_HOME`. Messages of panics in libraries name
/// their files below it, so this is where a build would first show its place.
fn alias(home: &Path, to: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(to).at(to)?;
    for entry in fs::read_dir(home).at(home)? {
        let entry = entry.at(home)?;
        let link = to.join(entry.file_name());
        symlink(entry.path(), &link).at(&link)?;
    }
    Ok(to.to_owned())
}

/// All source files: tracked ones and new ones, not what git ignores. In an
/// unpacked archive of the source there is no git; there, all but `target`.
fn files(place: &Place) -> Result<Vec<PathBuf>, Failure> {
    if !place.root.join(".git").exists() {
        let mut files = Vec::new();
        walk(&place.root, Path::new(""), &mut files)?;
        return Ok(files);
    }
    let list = step::answer(
        Command::new("git")
            .args(["ls-files", "--cached", "--others"])
            .args(["--exclude-standard", "-z"])
            .current_dir(&place.root),
    )?;
    Ok(list.split_terminator('\0').map(PathBuf::from).collect())
}

fn walk(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let directory = root.join(below);
    for entry in fs::read_dir(&directory).at(&directory)? {
        let entry = entry.at(&directory)?;
        let path = below.join(entry.file_name());
        if path == Path::new("target") {
            continue;
        }
        if entry.file_type().at(&directory)?.is_dir() {
            walk(root, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
