use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::Error;

/// Where ollie keeps its own files on this machine (XDG Base Directory
/// Specification).
#[derive(Debug)]
pub(crate) struct Paths {
    /// `$XDG_CACHE_HOME/ollie`: installed versions of toolsrv.
    pub(crate) cache: PathBuf,
    /// `$XDG_CONFIG_HOME/ollie`.
    pub(crate) config: PathBuf,
    /// `$XDG_STATE_HOME/ollie`: which project files are trusted.
    pub(crate) state: PathBuf,
    /// `$XDG_RUNTIME_DIR`, or `/tmp`: sockets, whose paths have to be short.
    pub(crate) runtime: PathBuf,
    /// The directory of the daemon's socket.
    pub(crate) doorway: PathBuf,
    /// Places where a bundle is looked for, in order.
    pub(crate) bundles: Vec<PathBuf>,
}

impl Paths {
    /// Finds them. `var` looks a variable up; `program` is this executable.
    pub(crate) fn new(
        var: &dyn Fn(&str) -> Option<OsString>,
        program: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let absolute = |name: &str| {
            var(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base = |variable: &str, default: &str, what| {
            absolute(variable)
                .or_else(|| Some(absolute("HOME")?.join(default)))
                .map(|path| path.join("ollie"))
                .ok_or(Error::NoHome(what))
        };
        let directory = program.and_then(|program| Some(program.parent()?.to_owned()));
        let bundles = directory.map_or_else(Vec::new, |at| {
            vec![at.join(BUNDLE), at.join("../share/ollie").join(BUNDLE)]
        });
        Ok(Self {
            cache: base("XDG_CACHE_HOME", ".cache", "cache")?,
            config: base("XDG_CONFIG_HOME", ".config", "configuration")?,
            state: base("XDG_STATE_HOME", ".local/state", "state")?,
            runtime: absolute("XDG_RUNTIME_DIR").unwrap_or_else(|| "/tmp".into()),
            doorway: crate::doorway::directory(absolute("XDG_RUNTIME_DIR")),
            bundles,
        })
    }

    /// The bundle to use: the one that was named, or the first that is there.
    pub(crate) fn bundle(&self, named: Option<&PathBuf>) -> Result<PathBuf, Error> {
        match named {
            Some(path) => Ok(path.clone()),
            None => self
                .bundles
                .iter()
                .find(|path| path.exists())
                .cloned()
                .ok_or_else(|| Error::NoBundle(self.bundles.clone())),
        }
    }

    /// The user's configuration.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.config.join("config.yaml")
    }

    /// What leads back to sessions that live on.
    pub(crate) fn leases(&self) -> PathBuf {
        self.state.join("leases")
    }

    /// The user's tools.
    pub(crate) fn tools(&self) -> PathBuf {
        self.config.join("tools")
    }

    /// The user's policy file.
    pub(crate) fn policy(&self) -> PathBuf {
        self.config.join("sandbox.yaml")
    }
}

/// The name of a bundle file.
const BUNDLE: &str = "ollie-bundle.tar.xz";
