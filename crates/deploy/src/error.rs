use std::path::PathBuf;

/// Why there is no ready toolsrv.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bundle is missing, damaged, or holds no toolsrv for that machine.
    #[error("bundle {path:?}")]
    Bundle {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ollie_bundle::Error,
    },
    /// toolsrv could not be put where it is started from.
    #[error("cannot install toolsrv in {path:?}: {action}")]
    Install {
        /// The directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The directory could be written by others, who could then choose what
    /// is started.
    #[error("cannot install toolsrv in {path:?}: {problem}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// Who could write it.
        problem: String,
    },
    /// The program could not be started.
    #[error("cannot start {program:?}")]
    Start {
        /// The program.
        program: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// It was started and did not answer as toolsrv does. What it said
    /// instead is part of the message.
    #[error("toolsrv did not become ready: {0}")]
    NotReady(String),
    /// It answered that it will not serve this session, and why.
    #[error("toolsrv refused to start: {0}")]
    Refused(String),
    /// A record could not be made.
    #[error("boot record")]
    Record(#[source] ollie_protocol::Error),
    /// The connection to it failed.
    #[error("cannot connect to toolsrv")]
    Connect(#[source] ollie_client::Error),
}
