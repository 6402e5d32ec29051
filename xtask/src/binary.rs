//! The finished toolsrv, as the hosts it is sent to will see it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    elf,
    failure::{At, Failure},
    libc::Libc,
    packages, step,
    tally::Done,
};

/// What toolsrv may take on a host: 2.5 MiB, with the std that `cargo xtask
/// musl` prepares. With others it is larger, and has no bound.
const SIZE: usize = 2_621_440;

/// Checks the size and the program headers, then runs it where nothing else
/// is.
pub(crate) fn check(toolsrv: &Path, libc: &Libc) -> Result<Done, Failure> {
    let bytes = fs::read(toolsrv).at(toolsrv)?;
    if libc.sysroot.is_some() && bytes.len() > SIZE {
        return Err(Failure::new(format!(
            "toolsrv has {} bytes, more than {SIZE}; docs/performance.md says what they are spent on",
            bytes.len()
        )));
    }
    elf::check_static(toolsrv, &bytes, std::env::consts::ARCH)?;
    let empty = Empty::with(toolsrv)?;
    let mut command = if packages::is_root() {
        Command::new("chroot")
    } else {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]);
        if let Err(failure) =
            step::answer(Command::new("unshare").args(["--user", "--map-root-user", "true"]))
        {
            return Ok(Done::No(format!(
                "no PT_INTERP, but not run in an empty root: that needs root or a user namespace ({failure})"
            )));
        }
        command.arg("chroot");
        command
    };
    let said = step::answer(command.arg(&empty.0).args(["/toolsrv", "--version"]))
        .map_err(|failure| failure.during("toolsrv in an empty root directory"))?;
    let version = env!("CARGO_PKG_VERSION");
    if !said.contains(version) {
        return Err(Failure::new(format!(
            "`toolsrv --version` in an empty root directory said {said:?}, not {version}"
        )));
    }
    Ok(Done::Yes(format!(
        "{} bytes, no PT_INTERP, runs in an empty root directory",
        bytes.len()
    )))
}

/// A directory that holds one program and is removed again.
struct Empty(PathBuf);

impl Empty {
    fn with(program: &Path) -> Result<Self, Failure> {
        let name = format!("ollie-empty-root-{}", std::process::id());
        let empty = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&empty.0).at(&empty.0)?;
        fs::copy(program, empty.0.join("toolsrv")).at(&empty.0)?;
        Ok(empty)
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        // What cannot be removed from a temporary directory is the system's
        // to clean up.
        let _ = fs::remove_dir_all(&self.0);
    }
}
