//! What the tests need of the machine besides cargo.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{failure::Failure, step};

/// How to see that a package is there.
enum Sign {
    /// A program on `PATH` or in a system directory.
    Program(&'static str),
    /// A file that the C compiler knows the place of.
    CompilerFile(&'static str),
    /// A module of Debian's Python.
    PythonModule(&'static str),
}

/// The one table: what shows that it is there, Debian's package, what for.
const NEEDED: &[(Sign, &str, &str)] = &[
    (
        Sign::Program("cc"),
        "gcc",
        "every Rust program is linked with it",
    ),
    (
        Sign::CompilerFile("libc.a"),
        "libc6-dev",
        "the static toolsrv without musl",
    ),
    (
        Sign::Program("ar"),
        "binutils",
        "the unwinder of the musl std",
    ),
    (
        Sign::Program("git"),
        "git",
        "the reproducibility check; repositories in tests",
    ),
    (
        Sign::Program("xz"),
        "xz-utils",
        "a second reader of the bundle",
    ),
    (
        Sign::Program("ssh"),
        "openssh-client",
        "ollie starts it to reach a host",
    ),
    (
        Sign::Program("sshd"),
        "openssh-server",
        "the host of the integration tests",
    ),
    (
        Sign::Program("python3"),
        "python3",
        "the driver of the devboxes",
    ),
    (
        Sign::Program("qemu-system-x86_64"),
        "qemu-system-x86",
        "the devboxes' machine",
    ),
    (
        Sign::Program("busybox"),
        "busybox-static",
        "the devboxes' first program",
    ),
    (
        Sign::Program("depmod"),
        "kmod",
        "drivers of the devboxes' kernels",
    ),
    (
        Sign::Program("zstd"),
        "zstd",
        "the devboxes' kernels are compressed with it",
    ),
    (
        Sign::Program("fish"),
        "fish",
        "a login shell that ssh may meet",
    ),
    (Sign::Program("tcsh"), "tcsh", "another one"),
    (Sign::Program("zsh"), "zsh", "another one"),
    (Sign::Program("mksh"), "mksh", "another one"),
    (Sign::Program("ksh"), "ksh", "another one"),
    (
        Sign::Program("script"),
        "bsdutils",
        "a terminal for ssh's questions",
    ),
    (
        Sign::Program("rg"),
        "ripgrep",
        "file_grep is compared with it",
    ),
    (
        Sign::Program("openssl"),
        "openssl",
        "HTTPS inside the sandbox; a hash on a bare host",
    ),
    (Sign::Program("perl"), "perl", "sockets inside the sandbox"),
    (Sign::Program("gdb"), "gdb", "a debugger inside the sandbox"),
    (
        Sign::Program("strace"),
        "strace",
        "tracing inside the sandbox",
    ),
    (
        Sign::Program("java"),
        "default-jre-headless",
        "Java inside the sandbox",
    ),
    (Sign::Program("go"), "golang-go", "Go inside the sandbox"),
    (Sign::Program("node"), "nodejs", "Node inside the sandbox"),
    (Sign::Program("npm"), "npm", "npm inside the sandbox"),
    (
        Sign::PythonModule("ensurepip"),
        "python3-venv",
        "a Python environment inside the sandbox, and one for a 9P peer",
    ),
];

/// Installs what is missing if that is possible without a question: Debian,
/// as root. The result names what is missing afterwards.
pub(crate) fn install() -> Result<String, String> {
    let missing = missing();
    if missing.is_empty() {
        return Ok("all there".to_owned());
    }
    let names: Vec<_> = missing.iter().map(|(package, _)| *package).collect();
    if !is_root() || find("apt-get").is_none() {
        return Err(sentence(&missing));
    }
    eprintln!("installing {}", names.join(" "));
    let installed = apt_get(&names).or_else(|_| {
        // The lists of a fresh machine are empty or old.
        step::answer(Command::new("apt-get").arg("update"))?;
        apt_get(&names)
    });
    match installed {
        Ok(()) => Ok(format!("installed {}", names.join(" "))),
        Err(failure) => Err(format!("{}: {failure}", sentence(&missing))),
    }
}

fn apt_get(names: &[&str]) -> Result<(), Failure> {
    step::answer(
        Command::new("apt-get")
            .args(["install", "--yes", "--no-install-recommends"])
            .args(names)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
    .map(drop)
}

fn missing() -> Vec<(&'static str, &'static str)> {
    let absent = |sign: &Sign| match sign {
        Sign::Program(name) => find(name).is_none(),
        Sign::CompilerFile(name) => {
            let flag = format!("-print-file-name={name}");
            !step::answer(Command::new("cc").arg(flag)).is_ok_and(|path| path.starts_with('/'))
        }
        Sign::PythonModule(name) => {
            let import = format!("import {name}");
            step::answer(Command::new("/usr/bin/python3").args(["-c", &import])).is_err()
        }
    };
    NEEDED
        .iter()
        .filter(|(sign, ..)| absent(sign))
        .map(|(_, package, why)| (*package, *why))
        .collect()
}

fn sentence(missing: &[(&str, &str)]) -> String {
    let items: Vec<_> = missing
        .iter()
        .map(|(package, why)| format!("{package} ({why})"))
        .collect();
    format!("missing Debian packages: {}", items.join(", "))
}

/// A program on `PATH`, or where Debian keeps what only root usually runs.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// Whether this process may do what root may: it owns its own entry in /proc.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata(Path::new("/proc/self")).is_ok_and(|own| own.uid() == 0)
}
