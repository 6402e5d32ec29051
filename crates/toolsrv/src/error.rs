use std::path::PathBuf;

use ollie_protocol::{NotLetIn, Obstacle};

/// Why toolsrv could not start, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The boot record did not arrive whole, or says something impossible.
    #[error("boot record")]
    Boot(#[source] ollie_protocol::Error),
    /// Standard input or output cannot carry the protocol.
    #[error("{stream}: {problem}")]
    Stdio {
        /// Which one.
        stream: &'static str,
        /// What is wrong and what is expected.
        problem: String,
    },
    /// No place for the private directories. Every place that was tried is
    /// listed with its reason.
    #[error("no private directory can be made: {0}")]
    Places(String),
    /// The session's working directory cannot be used.
    #[error("working directory {path:?}")]
    Cwd {
        /// The directory, absolute.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: std::io::Error,
    },
    /// The policy cannot be understood or compiled.
    #[error("policy")]
    Policy(#[source] ollie_sandbox::Error),
    /// The project's policy file is none.
    #[error("cannot read {path:?}")]
    Project {
        /// The file.
        path: PathBuf,
        /// What it is instead, or what the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The processes that run commands cannot be made.
    #[error("companion process")]
    Companion(#[source] ollie_exec::Error),
    /// Who started it did not prove to be who had made the boot record.
    #[error("the first client was not let in: {0}")]
    NotLetIn(NotLetIn),
    /// The session to attach to cannot be reached; it may have ended.
    #[error("cannot attach to {socket:?}")]
    Attach {
        /// Its socket.
        socket: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// A system call failed.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// An error of a system call.
    pub(crate) fn system<E: Into<std::io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System {
            action,
            source: source.into(),
        }
    }

    /// What the ready line says of it.
    pub(crate) fn obstacle(&self) -> Obstacle {
        match self {
            Self::Cwd { .. } => Obstacle::WorkingDirectory,
            Self::Policy(_) | Self::Project { .. } => Obstacle::Policy,
            _ => Obstacle::Other,
        }
    }

    /// The message with all its causes, on one line.
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
