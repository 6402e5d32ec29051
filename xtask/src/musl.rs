//! A std for musl where `rustup target add` cannot fetch one.
//!
//! std is compiled once, from Debian's package of this very compiler's
//! sources, and laid out as rustup would have laid it out: rlibs, and beside
//! them in `self-contained/` the start files, `libc.a` and `libunwind.a` that
//! rustc links a musl program with. From then on `--sysroot` is all that a
//! build needs; no linker script, no wrapper of gcc (whose specs of some
//! Debian releases leave an interpreter in a static program), no nightly
//! feature, and so the same toolsrv as with rustup's std.
//!
//! Nothing is installed: all of it lies in `target/musl/` and can be made
//! again.

mod apt;
mod library;
mod objects;
mod proof;

use std::{fs, path::PathBuf};

use crate::{
    failure::{At, Failure},
    libc,
    place::Place,
};

/// The file in a sysroot that says what it was made of.
const STAMP: &str = "made-of";

/// To be counted up when the steps change.
const RECIPE: u32 = 2;

/// The sysroot, or in a few words why there is none.
pub(crate) fn prepared(place: &Place) -> Result<PathBuf, String> {
    let sysroot = place.musl().join("sysroot");
    match fs::read_to_string(sysroot.join(STAMP)) {
        Ok(stamp) if stamp == made_of(place) => Ok(sysroot),
        Ok(_) => Err("the prepared one is for another compiler or another ollie".to_owned()),
        Err(_) => Err("none is installed or prepared".to_owned()),
    }
}

/// Prepares the sysroot if it is not there, and proves that panics unwind.
pub(crate) fn prepare(place: &Place) -> Result<PathBuf, Failure> {
    if let Ok(sysroot) = prepared(place) {
        proof::run(place, &sysroot)?;
        println!("musl std is ready: {}", sysroot.display());
        return Ok(sysroot);
    }
    let work = Work::new(place)?;
    let packages = apt::unpack(place, &work.0)?;
    let staged = work.0.join("sysroot");
    let libraries = staged
        .join("lib/rustlib")
        .join(libc::triple("musl"))
        .join("lib");
    let objects = libraries.join("self-contained");
    fs::create_dir_all(&objects).at(&objects)?;
    objects::collect(place, &packages, &objects)?;
    library::build(place, &packages, &work.0, &libraries)?;
    proof::run(place, &staged)?;
    let stamp = staged.join(STAMP);
    fs::write(&stamp, made_of(place)).at(&stamp)?;

    let sysroot = place.musl().join("sysroot");
    if sysroot.exists() {
        fs::remove_dir_all(&sysroot).at(&sysroot)?;
    }
    fs::rename(&staged, &sysroot).at(&sysroot)?;
    println!("musl std is ready: {}", sysroot.display());
    Ok(sysroot)
}

fn made_of(place: &Place) -> String {
    format!(
        "recipe {RECIPE}\n{}{}",
        place.rustc.text,
        objects::FIND_OBJECT
    )
}

/// Half a gigabyte of sources and objects that nobody needs afterwards.
struct Work(PathBuf);

impl Work {
    fn new(place: &Place) -> Result<Self, Failure> {
        let work = Self(place.musl().join(format!("work-{}", std::process::id())));
        fs::create_dir_all(&work.0).at(&work.0)?;
        Ok(work)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // `cargo clean` removes what could not be removed now.
        let _ = fs::remove_dir_all(&self.0);
    }
}
