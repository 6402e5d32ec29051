use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a policy needs to know of the host it is expanded on.
///
/// Everything that `main` would read from the process (environment, working
/// directory, user) is passed in; the file system itself is looked at
/// directly.
#[derive(Clone, Copy)]
pub struct HostView<'a> {
    /// The directory the tools work in. It must exist.
    pub cwd: &'a Path,
    /// The user's home directory; rules that name `{HOME}` are skipped without
    /// one.
    pub home: Option<&'a Path>,
    /// The session's private directory for temporary files, which must exist.
    pub tmpdir: Option<&'a Path>,
    /// The value of PATH that tools get.
    pub path: Option<&'a OsStr>,
    /// Where ollie's own tools lie, `{OLLIE_TOOLS_PATH}`.
    pub tools_path: Option<&'a Path>,
    /// The program that runs its own tools by starting itself again, inside of
    /// the sandbox. It may be read and executed there.
    pub program: Option<&'a Path>,
    /// Directories that hold ollie's own files: configuration, cache, state,
    /// sockets. `{CWD}` is not granted when it contains one.
    pub ollie_roots: &'a [PathBuf],
    /// The environment, for variables in rules.
    pub env: &'a dyn Fn(&str) -> Option<OsString>,
    /// As whom tools run; without it mode bits are not looked at when a
    /// failure is explained.
    pub identity: Option<&'a Identity>,
}

impl fmt::Debug for HostView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostView")
            .field("cwd", &self.cwd)
            .field("home", &self.home)
            .field("tmpdir", &self.tmpdir)
            .field("ollie_roots", &self.ollie_roots)
            .finish_non_exhaustive()
    }
}

/// As whom a process asks for a file. Tools have no capabilities, so mode bits
/// hold for root as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}
