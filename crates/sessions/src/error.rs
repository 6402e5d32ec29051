use std::path::PathBuf;

/// Why something was not done to a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name cannot be a session's.
    #[error("{name:?} is no name for a session: {rule}")]
    Name {
        /// The name.
        name: String,
        /// What a name may be.
        rule: &'static str,
    },
    /// Another session has the name.
    #[error("there is a session {0} already: choose another name")]
    Taken(String),
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(String),
    /// A setting that is not known, or not like this. The text says what to
    /// write.
    #[error("{0}")]
    Setting(String),
    /// Something that cannot be done now. The text says what to do first.
    #[error("{0}")]
    NotNow(String),
    /// The agent does not do it now; its words say why.
    #[error(transparent)]
    Agent(#[from] ollie_agent::Error),
    /// Another olliesrv has the session.
    #[error("session {0} is in use by another olliesrv: end the chat that uses it first")]
    InUse(String),
    /// There are no hands for the session. The text is that of the failure.
    #[error("{0}")]
    Hands(String),
    /// The kernel gave no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
    /// A stored file cannot be understood.
    #[error("{path:?} is damaged: {problem}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file of ours.
    #[error("cannot {action} {path:?}: {source}")]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}
