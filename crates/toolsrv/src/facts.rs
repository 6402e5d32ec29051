use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ollie_protocol::{HostFacts, Landlock, Octets};

/// What toolsrv knows of the host and its user, read once at the start.
pub(crate) struct Environment {
    /// All variables toolsrv was started with.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// `$HOME`, or `/` where it is not set.
    pub(crate) home: PathBuf,
}

impl Environment {
    /// Takes the variables apart.
    pub(crate) fn new(variables: Vec<(OsString, OsString)>) -> Self {
        let home = variables
            .iter()
            .find(|(name, _)| name == "HOME")
            .map(|(_, value)| PathBuf::from(value))
            .filter(|home| home.is_absolute())
            .unwrap_or_else(|| "/".into());
        Self { variables, home }
    }

    /// One variable.
    pub(crate) fn var(&self, name: &str) -> Option<OsString> {
        self.variables
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    }
}

/// The facts of this host, for a session in `cwd`. Nothing is executed.
pub(crate) fn gather(environment: &Environment, cwd: &Path) -> HostFacts {
    let uname = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    let release = os_release();
    let field = |name: &str| {
        release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| value.trim_matches(['"', '\'']).to_owned())
    };
    let uid = rustix::process::getuid().as_raw();
    let named = |name: &str| {
        environment
            .var(name)
            .map(|v| v.to_string_lossy().into_owned())
    };
    HostFacts {
        os: "linux".to_owned(),
        arch: text(uname.machine()),
        hostname: text(uname.nodename()),
        kernel: text(uname.release()),
        distribution: field("PRETTY_NAME").unwrap_or_else(|| "unknown".to_owned()),
        nixos: field("ID").as_deref() == Some("nixos"),
        uid,
        user: named("USER")
            .or_else(|| named("LOGNAME"))
            .unwrap_or_else(|| uid.to_string()),
        home: environment.home.clone().into_os_string().into(),
        shell: environment
            .var("SHELL")
            .map_or_else(|| Octets::from("/bin/sh"), Octets::from),
        cwd: cwd.as_os_str().to_owned().into(),
        git: crate::git::facts(cwd),
        landlock: landlock(),
        lsm: std::fs::read_to_string("/sys/kernel/security/lsm")
            .map(|list| list.trim().split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    }
}

fn landlock() -> Landlock {
    ollie_sandbox::probe()
}

/// os-release(5): the first of its two places.
fn os_release() -> String {
    ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default()
}
