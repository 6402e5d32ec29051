use std::path::PathBuf;

/// Why a tool, or a directory of tools, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The metadata are not YAML of the expected shape.
    #[error("{path}:{line}:{column}: {message}", path = .path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 where the whole file is meant.
        line: u64,
        /// The column, from 1; 0 where the whole file is meant.
        column: u64,
        /// What is wrong there.
        message: String,
    },
    /// The metadata have the right shape and say something that is not
    /// allowed.
    #[error("{path}", path = .path.display())]
    Tool {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: ollie_protocol::Error,
    },
    /// A script's header comments, or the name of a directory, are not what
    /// they should be.
    #[error("{path}: {problem}", path = .path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// What is wrong and what is expected.
        problem: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// The message with its causes, on one line.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
