//! Which project files the person has trusted. Kept on this machine only.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use ollie_sandbox::Links;

use crate::error::Error;
use crate::paths::Paths;

/// The longest file that is read, in bytes: ten thousand projects.
const SIZE_MAX: usize = 4 * 1024 * 1024;

/// The file `$XDG_STATE_HOME/ollie/trusted`. Each line is a key, what the
/// project's rules come to on its host, and, for the reader, where that is.
#[derive(Debug, Clone)]
pub(crate) struct Trusted {
    file: PathBuf,
}

impl Trusted {
    pub(crate) fn at(paths: &Paths) -> Self {
        Self {
            file: paths.state.join("trusted"),
        }
    }

    /// What was trusted under this key.
    pub(crate) fn resolved(&self, key: &str) -> Result<Vec<String>, Error> {
        let text = ollie_sandbox::read_plain(&self.file, SIZE_MAX, Links::Followed)
            .map_err(|source| self.failed(source))?
            .unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let mut words = line.split(' ');
            (words.next() == Some(key)).then(|| words.next().map(str::to_owned))?
        });
        Ok(lines.collect())
    }

    /// Trusts it from now on. `what` is for the reader of the file.
    pub(crate) fn add(&self, key: &str, resolved: &str, what: &str) -> Result<(), Error> {
        if self.resolved(key)?.iter().any(|known| known == resolved) {
            return Ok(());
        }
        let add = || {
            if let Some(directory) = self.file.parent() {
                std::fs::create_dir_all(directory)?;
            }
            let mut file = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .open(&self.file)?;
            // One write, so that two at once do not mix.
            file.write_all(format!("{key} {resolved} {}\n", what.escape_debug()).as_bytes())
        };
        add().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::PolicyFile {
            path: self.file.clone(),
            source,
        }
    }
}
