//! Packs, and lists, the bootstrap bundle: the program behind both
//! `cargo xtask build` and the Nix package, so that the two give the same
//! bytes by construction.
//!
//! ```text
//! ollie-bundle pack --version V --out FILE
//!              [--toolsrv OS-ARCH=FILE [--note TEXT]]... [--tree ROOT=DIR]...
//! ollie-bundle list FILE
//! ```
//!
//! `list` verifies the whole file before it prints the manifest.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a build-time program whose output is its interface; olliesrv is the one users meet"
)]

use std::{
    error::Error,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use lexopt::prelude::*;
use ollie_bundle::{Builder, Bundle};

const USAGE: &str = "usage: ollie-bundle pack --version V --out FILE \
[--toolsrv OS-ARCH=FILE [--note TEXT]]... [--tree ROOT=DIR]...\n       ollie-bundle list FILE";

fn main() -> ExitCode {
    match run(lexopt::Parser::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut line = format!("ollie-bundle: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                line.push_str(&format!(": {error}"));
                cause = error.source();
            }
            eprintln!("{line}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: lexopt::Parser) -> Result<(), Box<dyn Error>> {
    let Some(Value(command)) = args.next()? else {
        return Err(USAGE.into());
    };
    match command.to_str() {
        Some("pack") => pack(args),
        Some("list") => list(args),
        _ => Err(USAGE.into()),
    }
}

fn list(mut args: lexopt::Parser) -> Result<(), Box<dyn Error>> {
    let Some(Value(file)) = args.next()? else {
        return Err(USAGE.into());
    };
    let bundle = Bundle::open(PathBuf::from(file))?;
    let json = String::from_utf8(bundle.manifest().to_json()?)?;
    println!("{json}sha256 of the bundle: {}", bundle.sha256());
    Ok(())
}

fn pack(args: lexopt::Parser) -> Result<(), Box<dyn Error>> {
    let inputs = Inputs::parse(args)?;
    let mut builder = Builder::new(inputs.version);
    for toolsrv in inputs.toolsrvs {
        let program = read(&toolsrv.file)?;
        let note = toolsrv.note.as_deref();
        builder = builder.toolsrv(&toolsrv.os, &toolsrv.arch, program, note)?;
    }
    for (root, directory) in inputs.trees {
        builder = builder.tree(&root, &directory)?;
    }
    let bytes = builder.pack()?;
    // Whoever reads the old bundle at this moment keeps the old one whole.
    let mut staged = inputs.out.clone().into_os_string();
    staged.push(format!(".{}", std::process::id()));
    fs::write(&staged, bytes)?;
    fs::rename(&staged, inputs.out)?;
    Ok(())
}

struct Inputs {
    version: String,
    out: PathBuf,
    toolsrvs: Vec<Toolsrv>,
    trees: Vec<(String, PathBuf)>,
}

struct Toolsrv {
    os: String,
    arch: String,
    file: PathBuf,
    note: Option<String>,
}

impl Inputs {
    fn parse(mut args: lexopt::Parser) -> Result<Self, Box<dyn Error>> {
        let (mut version, mut out) = (None, None);
        let (mut toolsrvs, mut trees) = (Vec::<Toolsrv>::new(), Vec::new());
        while let Some(arg) = args.next()? {
            match arg {
                Long("version") => version = Some(args.value()?.string()?),
                Long("out") => out = Some(PathBuf::from(args.value()?)),
                Long("tree") => trees.push(pair(args.value()?)?),
                Long("toolsrv") => {
                    let (platform, file) = pair(args.value()?)?;
                    let (os, arch) = platform
                        .split_once('-')
                        .ok_or_else(|| format!("{platform} is not an OS-ARCH"))?;
                    toolsrvs.push(Toolsrv {
                        os: os.to_owned(),
                        arch: arch.to_owned(),
                        file,
                        note: None,
                    });
                }
                Long("note") => {
                    let last = toolsrvs
                        .last_mut()
                        .ok_or("--note belongs behind --toolsrv")?;
                    last.note = Some(args.value()?.string()?);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Self {
            version: version.ok_or("--version is missing")?,
            out: out.ok_or("--out is missing")?,
            toolsrvs,
            trees,
        })
    }
}

fn pair(value: OsString) -> Result<(String, PathBuf), Box<dyn Error>> {
    let value = value.string()?;
    let (name, path) = value
        .split_once('=')
        .ok_or_else(|| format!("{value} is not NAME=PATH"))?;
    Ok((name.to_owned(), PathBuf::from(path)))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
