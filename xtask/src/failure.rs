//! What went wrong, as the sentence that is printed.

use std::{fmt, io, path::Path};

/// One sentence for the person at the terminal; a program that wants to tell
/// causes apart does not call xtask.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// The same failure, with what was being done in front.
    pub(crate) fn during(self, what: &str) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

/// Puts the name of a file in front of what the system says about it.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, Failure>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("{}: {error}", path.display())))
    }
}
