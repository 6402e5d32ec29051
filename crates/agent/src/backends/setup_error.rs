use std::path::PathBuf;

/// Why there is no back end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An address that cannot be used.
    #[error("{what} {url:?}: {problem}")]
    Url {
        /// `url` or `proxy`.
        what: &'static str,
        /// As it was written.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A setting that this kind of back end does not have, or not with this
    /// value.
    #[error("{key}: {problem}")]
    Setting {
        /// Which one.
        key: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file of certificates without any, or with a broken one.
    #[error("{} holds no certificate that can be used: {problem}", path.display())]
    Certificates {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A recorded transcript that cannot be played.
    #[error("{name}, line {line}: {problem}")]
    Recording {
        /// The recording's name.
        name: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The HTTP client cannot be made.
    #[error("cannot set up the HTTP client: {0}")]
    Client(String),
}
