use std::{io, path::PathBuf};

/// Why a bundle could not be made, read or used.
///
/// All but [`Io`](Error::Io) and [`NoToolsrv`](Error::NoToolsrv) mean, when
/// reading, that the file is damaged or was not made by [`Builder`]: get it
/// again or build it again; trying the same file a second time is of no use.
///
/// [`Builder`]: crate::Builder
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of this machine could not be read. The cause says why.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The compressed stream or a tar header is malformed or ends too early.
    #[error("damaged bundle")]
    Damaged {
        /// What the decoder found.
        source: io::Error,
    },
    /// The first entry is not a `manifest.json`, or it does not parse.
    #[error("bad manifest: {why}")]
    Manifest {
        /// What is wrong with it.
        why: String,
    },
    /// The manifest is of a format that this ollie does not know.
    #[error("bundle format {found}, this ollie reads format {known}")]
    Format {
        /// The number in the manifest.
        found: u64,
        /// The number this version reads and writes.
        known: u64,
    },
    /// A path that could mean a place outside the bundle.
    #[error("refused path {path:?}: {why}")]
    Path {
        /// The path, control characters escaped.
        path: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// Two files of one name, or a file where another needs a directory.
    #[error("{path} is in the way of another file")]
    Conflict {
        /// The path that is there twice.
        path: String,
    },
    /// An entry or a file to be packed that is no regular file: a link, a
    /// device, a directory, an extension header.
    #[error("{path} is {kind}, not a regular file")]
    Kind {
        /// Its path, control characters escaped.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// The archive holds another entry than the manifest says comes next.
    #[error("{found} stands where the manifest has {expected}")]
    Unexpected {
        /// What the manifest names, or `the end`.
        expected: String,
        /// What is there, or `the end`.
        found: String,
    },
    /// A size, mode or hash differs from what the manifest promises.
    #[error("{path}: {what} is not the manifest's")]
    Mismatch {
        /// The file.
        path: String,
        /// `size`, `mode` or `SHA-256`.
        what: &'static str,
    },
    /// More than [`limits`](crate::limits) allow.
    #[error("{what} is over the limit of {limit}")]
    TooLarge {
        /// What was counted.
        what: String,
        /// The most that is allowed, in bytes or files.
        limit: u64,
    },
    /// Bytes follow the end of the archive.
    #[error("bytes follow the end of the bundle")]
    Trailing,
    /// No toolsrv for the platform that was asked for.
    #[error("this bundle has no toolsrv for {wanted}, only for {present}")]
    NoToolsrv {
        /// The platform, `<os>-<arch>`.
        wanted: String,
        /// The platforms that are there, or `none`.
        present: String,
    },
}
