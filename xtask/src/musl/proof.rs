//! The proof that what was prepared is right.

use std::{ffi::OsString, fs, path::Path, process::Command};

use crate::{
    elf,
    failure::{At, Failure},
    libc,
    place::Place,
    step,
};

/// Compiles a small program with the sysroot, as toolsrv is compiled, and runs
/// it: it must be static, and a panic in it must unwind.
pub(crate) fn run(place: &Place, sysroot: &Path) -> Result<(), Failure> {
    let program = place.musl().join(format!("proof-{}", std::process::id()));
    let mut flag = OsString::from("--sysroot=");
    flag.push(sysroot);
    let built = step::run(
        Command::new("rustc")
            .current_dir(&place.root)
            .arg(flag)
            .args(["--target", &libc::triple("musl"), "--edition", "2024"])
            .args([
                "-Copt-level=s",
                "-Clto=fat",
                "-Ccodegen-units=1",
                "-Cstrip=symbols",
            ])
            .args(["-Ctarget-feature=+crt-static", "-o"])
            .arg(&program)
            .arg(place.root.join("xtask/musl/proof.rs")),
    );
    let proved = built.and_then(|()| {
        let bytes = fs::read(&program).at(&program)?;
        elf::check_static(&program, &bytes, std::env::consts::ARCH)?;
        step::run(&mut Command::new(&program))
    });
    // It is not there if it could not be built.
    let _ = fs::remove_file(&program);
    proved
        .map_err(|failure| failure.during("proving that panics unwind in a static musl program"))?;
    eprintln!("a static musl program catches its panics");
    Ok(())
}
