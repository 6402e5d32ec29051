use serde::{Deserialize, Serialize};

use crate::Octets;

/// What is known of the tool host, read from files and system calls alone:
/// no program runs to find it out, since any program a hostile checkout
/// brings along could answer (file `host`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// `linux`.
    pub os: String,
    /// Machine as uname(2) gives it: `x86_64`, `aarch64`.
    pub arch: String,
    /// The host's own name for itself.
    pub hostname: String,
    /// Kernel release (uname -r).
    pub kernel: String,
    /// `PRETTY_NAME` of os-release(5), or `unknown`.
    pub distribution: String,
    /// Whether this is NixOS: `ID=nixos` in os-release(5).
    pub nixos: bool,
    /// Numeric user id that tools run as.
    pub uid: u32,
    /// `$USER` or `$LOGNAME`, or the number.
    pub user: String,
    /// Home directory.
    pub home: Octets,
    /// `$SHELL`, or `/bin/sh`.
    pub shell: Octets,
    /// The session's working directory, absolute.
    pub cwd: Octets,
    /// State of the git checkout around `cwd`, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitFacts>,
    /// What the kernel offers to confine tools.
    pub landlock: Landlock,
    /// `/sys/kernel/security/lsm`, empty where it cannot be read.
    #[serde(default)]
    pub lsm: Vec<String>,
}

/// A git checkout, read from its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitFacts {
    /// Top directory of the checkout.
    pub root: Octets,
    /// The branch `HEAD` names; absent when it is detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit `HEAD` names, if it could be followed to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// Landlock on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Landlock {
    /// ABI version, 0 where there is none.
    pub abi: u32,
    /// Why there is none: not built in, or disabled at boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The file `version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRecord {
    /// [`crate::limits::PROTOCOL`] of the running toolsrv.
    pub protocol: u32,
    /// Release of ollie it belongs to.
    pub version: String,
    /// SHA-256 of the running executable, 64 hexadecimal digits.
    pub build: String,
    /// Process id of the 9P server.
    pub pid: u32,
    /// Start time, seconds since the epoch.
    pub started: u64,
}
