//! Which C library toolsrv is linked with, and why that one.

use std::{path::PathBuf, process::Command, str::FromStr};

use crate::{failure::Failure, musl, place::Place, step};

/// What the person asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wish {
    /// musl where its std is there, else glibc, said aloud.
    #[default]
    Auto,
    /// glibc, static.
    Gnu,
    /// musl, or a failure.
    Musl,
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "gnu" => Ok(Self::Gnu),
            "musl" => Ok(Self::Musl),
            _ => Err("it is auto, gnu or musl".to_owned()),
        }
    }
}

/// The C library that will be used.
#[derive(Clone, Debug)]
pub(crate) struct Libc {
    /// The target triple.
    pub(crate) triple: String,
    /// A sysroot of our own that has the target's std; else rustc's.
    pub(crate) sysroot: Option<PathBuf>,
    /// For the terminal: which one, and why.
    pub(crate) reason: String,
    /// For the manifest: which one, without anything of this machine.
    pub(crate) name: &'static str,
}

/// The triple of this machine with another C library.
pub(crate) fn triple(libc: &str) -> String {
    format!("{}-unknown-linux-{libc}", std::env::consts::ARCH)
}

/// Decides; what stands in the way of musl is part of the reason.
pub(crate) fn choose(place: &Place, wish: Wish) -> Result<Libc, Failure> {
    let gnu = |reason: String| Libc {
        triple: triple("gnu"),
        sysroot: None,
        reason,
        name: "static glibc",
    };
    if wish == Wish::Gnu {
        return Ok(gnu("static glibc, as asked for".to_owned()));
    }
    let triple = triple("musl");
    match musl::prepared(place) {
        Ok(sysroot) => Ok(Libc {
            triple,
            sysroot: Some(sysroot),
            reason: "static musl: std was built by `cargo xtask musl`".to_owned(),
            name: "static musl",
        }),
        Err(why) if has_std(place, &triple)? => Ok(Libc {
            reason: format!(
                "static musl with the toolchain's std ({why}; `cargo xtask musl` gives a smaller toolsrv)"
            ),
            triple,
            sysroot: None,
            name: "static musl with the toolchain's std",
        }),
        Err(why) if wish == Wish::Musl => Err(Failure::new(format!(
            "no musl std ({why}); run `cargo xtask musl` or `rustup target add {triple}`"
        ))),
        Err(why) => Ok(gnu(format!(
            "static glibc: no musl std ({why}); `cargo xtask musl` or `rustup target add {triple}` gives a smaller toolsrv"
        ))),
    }
}

/// Whether the toolchain itself has the target's std.
fn has_std(place: &Place, triple: &str) -> Result<bool, Failure> {
    let directory = step::answer(
        Command::new("rustc")
            .args(["--print", "target-libdir", "--target", triple])
            .current_dir(&place.root),
    )?;
    let Ok(mut files) = std::fs::read_dir(directory.trim_end()) else {
        return Ok(false);
    };
    Ok(files.any(|file| {
        file.is_ok_and(|file| {
            let name = file.file_name();
            let name = name.to_string_lossy();
            name.starts_with("libstd-") && name.ends_with(".rlib")
        })
    }))
}
