//! `target/dist/`: olliesrv, toolsrv and the bundle.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    time::UNIX_EPOCH,
};

use crate::{
    elf,
    failure::{At, Failure},
    libc::{self, Libc, Wish},
    options::Build,
    place::Place,
    step::{self, Voice},
    toolsrv,
};

/// The version of the workspace, which is the bundle's.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The program that packs it.
const PACKER: &str = "ollie-bundle";

/// The bundle's name: fixed, so that olliesrv finds it beside itself.
const BUNDLE: &str = "ollie-bundle.tar.xz";

/// What the bundle holds besides toolsrv: root in the bundle and directory.
const TREES: [&str; 2] = ["tools", "sandbox-profiles"];

/// What was built.
#[derive(Debug)]
pub(crate) struct Dist {
    pub(crate) libc: Libc,
    pub(crate) olliesrv: PathBuf,
    pub(crate) toolsrv: PathBuf,
    pub(crate) bundle: PathBuf,
}

/// Builds what is out of date.
pub(crate) fn build(place: &Place, options: &Build, voice: Voice) -> Result<Dist, Failure> {
    let libc = libc::choose(place, options.libc)?;
    if voice == Voice::Loud {
        eprintln!("toolsrv is linked with {}", libc.reason);
    }
    let out = out(place)?;
    let built = toolsrv::build(place, &place.root, &place.target, &libc, voice)?;
    let release = release(place, &["olliesrv", PACKER], voice)?;
    let dist = Dist {
        olliesrv: install(&release.join("olliesrv"), &out)?,
        toolsrv: install(&built, &out)?,
        bundle: out.join(BUNDLE),
        libc,
    };
    let repacked = bundle(place, &dist.libc, &release.join(PACKER), &options.others)?;
    if voice == Voice::Quiet && repacked {
        eprintln!("toolsrv is linked with {}", dist.libc.reason);
    }
    if voice == Voice::Loud {
        dist.print()?;
    }
    Ok(dist)
}

/// As [`build`], but nothing that is not in the bundle.
pub(crate) fn pack(place: &Place) -> Result<(), Failure> {
    let libc = libc::choose(place, Wish::default())?;
    let out = out(place)?;
    let built = toolsrv::build(place, &place.root, &place.target, &libc, Voice::Quiet)?;
    let release = release(place, &[PACKER], Voice::Quiet)?;
    install(&built, &out)?;
    bundle(place, &libc, &release.join(PACKER), &[]).map(drop)
}

/// Builds, then measures what was built.
pub(crate) fn bench(place: &Place, arguments: &[OsString]) -> Result<(), Failure> {
    build(place, &Build::default(), Voice::Quiet)?;
    let mut bench = place.cargo(&place.root, &place.target);
    bench
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "ollie-bench",
            "--",
        ])
        .args(arguments)
        .env("OLLIE_DIST", place.dist());
    step::run(&mut bench)
}

/// Builds, then becomes olliesrv: its process, its signals, its status.
pub(crate) fn run(place: &Place, arguments: Vec<OsString>) -> Result<(), Failure> {
    let dist = build(place, &Build::default(), Voice::Quiet)?;
    let mut olliesrv = Command::new(&dist.olliesrv);
    olliesrv.args(arguments);
    place.as_before_cargo(&mut olliesrv);
    let error = olliesrv.exec();
    Err(Failure::new(format!(
        "{}: {error}",
        dist.olliesrv.display()
    )))
}

impl Dist {
    fn print(&self) -> Result<(), Failure> {
        let files = [
            (&self.olliesrv, "release build of this machine".to_owned()),
            (
                &self.toolsrv,
                format!("{}, needs no interpreter and no library", self.libc.name),
            ),
            (
                &self.bundle,
                format!("what a host is sent, version {VERSION}"),
            ),
        ];
        for (path, what) in files {
            let size = fs::metadata(path).at(path)?.len();
            println!("{size:>11} bytes  {}  ({what})", path.display());
        }
        Ok(())
    }
}

fn out(place: &Place) -> Result<PathBuf, Failure> {
    let out = place.dist();
    fs::create_dir_all(&out).at(&out)?;
    Ok(out)
}

/// Programs named as their packages; returns the directory they are in.
fn release(place: &Place, programs: &[&str], voice: Voice) -> Result<PathBuf, Failure> {
    let mut cargo = place.cargo(&place.root, &place.target);
    cargo.args(["build", "--release"]);
    for program in programs {
        cargo.args(["--package", program, "--bin", program]);
    }
    let during = format!("building {}", programs.join(" and "));
    step::cargo(&mut cargo, voice).map_err(|failure| failure.during(&during))?;
    Ok(place.target.join("release"))
}

/// Copies a program unless the very same bytes are there, and never writes
/// into the old file: it may be running.
fn install(program: &Path, out: &Path) -> Result<PathBuf, Failure> {
    let Some(name) = program.file_name() else {
        return Err(Failure::new(format!("{} is no file", program.display())));
    };
    let installed = out.join(name);
    let bytes = fs::read(program).at(program)?;
    if fs::read(&installed).is_ok_and(|old| old == bytes) {
        return Ok(installed);
    }
    let staged = out.join(format!(
        ".{}.{}",
        name.to_string_lossy(),
        std::process::id()
    ));
    fs::copy(program, &staged).at(program)?;
    fs::rename(&staged, &installed).at(&installed)?;
    Ok(installed)
}

/// Packs the bundle if anything that goes into it has changed; says whether.
fn bundle(
    place: &Place,
    libc: &Libc,
    packer: &Path,
    others: &[(String, PathBuf)],
) -> Result<bool, Failure> {
    let out = place.dist();
    let (packed, toolsrv) = (out.join(BUNDLE), out.join("toolsrv"));
    let mut command = Command::new(packer);
    command
        .args(["pack", "--version", VERSION, "--out"])
        .arg(&packed);
    let native = format!("linux-{}", std::env::consts::ARCH);
    let note = toolsrv::note(place, libc);
    command
        .arg("--toolsrv")
        .arg(pair(&native, &toolsrv))
        .args(["--note", &note]);
    let mut inputs = vec![packer.to_owned(), toolsrv];
    for (platform, file) in others {
        let Some(arch) = platform.strip_prefix("linux-") else {
            return Err(Failure::new(format!("{platform} is no linux-ARCH")));
        };
        elf::check_static(file, &fs::read(file).at(file)?, arch)?;
        command.arg("--toolsrv").arg(pair(platform, file));
        inputs.push(file.clone());
    }
    for tree in TREES {
        let directory = place.root.join(tree);
        // An empty directory is not in git, so not in a fresh clone either.
        if directory.is_dir() {
            command.arg("--tree").arg(pair(tree, &directory));
            inputs.push(directory);
        }
    }
    let stamp = format!("{}\n{}", step::line(&command), fingerprint(&inputs)?);
    let kept = out.join(".bundle-inputs");
    if packed.exists() && fs::read_to_string(&kept).is_ok_and(|old| old == stamp) {
        return Ok(false);
    }
    step::run(&mut command).map_err(|failure| failure.during("packing the bundle"))?;
    fs::write(&kept, stamp).at(&kept)?;
    Ok(true)
}

fn pair(name: &str, path: &Path) -> OsString {
    let mut pair = OsString::from(format!("{name}="));
    pair.push(path);
    pair
}

/// Path, size, mode and time of each input: what make(1) would look at.
fn fingerprint(inputs: &[PathBuf]) -> Result<String, Failure> {
    use std::os::unix::fs::MetadataExt;

    let mut text = String::new();
    let mut left = inputs.to_vec();
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).at(&path)?;
        if metadata.is_dir() {
            for entry in fs::read_dir(&path).at(&path)? {
                left.push(entry.at(&path)?.path());
            }
            left.sort_unstable();
            continue;
        }
        let time = metadata.modified().at(&path)?.duration_since(UNIX_EPOCH);
        let (size, mode) = (metadata.len(), metadata.mode());
        // Writing into a String does not fail.
        let _ = writeln!(text, "{} {size} {mode:o} {time:?}", path.display());
    }
    Ok(text)
}
