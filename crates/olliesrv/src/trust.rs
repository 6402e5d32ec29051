//! Which project files the person has trusted. Kept on this machine only.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use crate::error::Error;
use crate::paths::Paths;
use crate::plain_file::{self, Links};

/// The longest file that is read, in bytes: ten thousand projects.
const SIZE_MAX: usize = 4 * 1024 * 1024;

/// The file `$XDG_STATE_HOME/ollie/trusted`: a key a line, then a space and
/// the directory it was given for, for the reader.
#[derive(Debug)]
pub(crate) struct Trust {
    file: PathBuf,
}

impl Trust {
    pub(crate) fn at(paths: &Paths) -> Self {
        Self {
            file: paths.state.join("trusted"),
        }
    }

    /// Whether this key was trusted.
    pub(crate) fn holds(&self, key: &str) -> Result<bool, Error> {
        let text = plain_file::read(&self.file, SIZE_MAX, Links::Followed)
            .map_err(|source| self.failed(source))?
            .unwrap_or_default();
        Ok(text.lines().any(|line| line.split(' ').next() == Some(key)))
    }

    /// Trusts it from now on. `what` is for the reader of the file.
    pub(crate) fn add(&self, key: &str, what: &str) -> Result<(), Error> {
        if self.holds(key)? {
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
            file.write_all(format!("{key} {}\n", what.escape_debug()).as_bytes())
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
