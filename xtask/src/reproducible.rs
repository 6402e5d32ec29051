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
    // The second is a copy of the first, so that an edit made meanwhile does
    // not look like a difference between directories.
    let one = Elsewhere::copy(&place.root, "source")?;
    let two = Elsewhere::copy(&one.source, "a/longer/path/to/the/source")?;
    compare(&one.build(place, &libc)?, &two.build(place, &libc)?)
}

/// Builds once elsewhere and compares with the one that is in `target/dist`.
pub(crate) fn against(place: &Place, libc: &Libc, built: &Path) -> Result<(), Failure> {
    let other = Elsewhere::copy(&place.root, "source")?;
    compare(built, &other.build(place, libc)?)
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
    source: PathBuf,
}

impl Elsewhere {
    /// Copies the source in `from` to the path `below` of a new directory.
    fn copy(from: &Path, below: &str) -> Result<Self, Failure> {
        let name = format!("ollie-reproducible-{}-{}", std::process::id(), below.len());
        let directory = std::env::temp_dir().join(name);
        let copy = Self {
            source: directory.join(below),
            directory,
        };
        for file in files(from)? {
            let (from, to) = (from.join(&file), copy.source.join(&file));
            // Listed by git, but removed from the work tree; or a submodule.
            if !from.is_file() {
                continue;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).at(parent)?;
            }
            fs::copy(&from, &to).at(&from)?;
        }
        Ok(copy)
    }

    fn build(&self, place: &Place, libc: &Libc) -> Result<PathBuf, Failure> {
        let place = Place {
            cargo_home: alias(&place.cargo_home, &self.directory.join("cargo"))?,
            ..place.clone()
        };
        let target = self.source.join("target");
        toolsrv::build(&place, &self.source, &target, libc, Voice::Loud)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // What cannot be removed from a temporary directory is the system's
        // to clean up.
        let _ = fs::remove_dir_all(&self.directory);
    }
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
pub(crate) fn files(source: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !source.join(".git").exists() {
        let mut files = Vec::new();
        walk(source, Path::new(""), &mut files)?;
        return Ok(files);
    }
    let list = step::answer(
        Command::new("git")
            .args(["ls-files", "--cached", "--others"])
            .args(["--exclude-standard", "-z"])
            .current_dir(source),
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
