use std::path::PathBuf;

use ollie_protocol::Obstacle;

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
    #[error("toolsrv refused to start: {reason}")]
    Refused {
        /// What stands in the way.
        kind: Obstacle,
        /// toolsrv's own words.
        reason: String,
    },
    /// A record could not be made.
    #[error("boot record")]
    Record(#[source] ollie_protocol::Error),
    /// The connection to it failed.
    #[error("cannot connect to toolsrv")]
    Connect(#[source] ollie_client::Error),
    /// The text is no target.
    #[error("target {target:?}: {problem}")]
    Target {
        /// The text.
        target: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// ssh ended before the host had answered.
    #[error("ssh to {target}: {failure}: {said}")]
    Ssh {
        /// The target.
        target: String,
        /// What kind of failure it is.
        failure: SshFailure,
        /// The last lines it said.
        said: String,
    },
    /// ssh does not tell who a host is.
    #[error("`ssh -G` does not tell user, hostname and port of {target}")]
    Identity {
        /// The target.
        target: String,
    },
    /// Something answers there that does not do what a shell does.
    #[error("{target} does not answer as a shell: {problem}")]
    NoAnswer {
        /// The target.
        target: String,
        /// What came instead.
        problem: String,
    },
    /// The host is no Linux.
    #[error("{target} is {platform:?}; toolsrv runs on Linux")]
    Platform {
        /// The target.
        target: String,
        /// What it is.
        platform: String,
    },
    /// What every Linux has is not there, or not where shells look for it.
    #[error(
        "{target} has no {} on the PATH of a shell that ssh starts; install coreutils or busybox \
         there, or set PATH for it",
        programs.replace(' ', ", ")
    )]
    Lacks {
        /// The target.
        target: String,
        /// Their names, with blanks between them.
        programs: String,
    },
    /// Every place that was tried is listed with its reason.
    #[error("toolsrv can be put nowhere on {target}: {}", list(.refused))]
    NoRoot {
        /// The target.
        target: String,
        /// The places and why they cannot be used.
        refused: Vec<(String, String)>,
    },
    /// toolsrv could not be packed for the way.
    #[error("cannot pack toolsrv")]
    Pack {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A start failed before in a way that another attempt would repeat.
    #[error("not tried again")]
    Final(#[source] std::sync::Arc<Error>),
    /// The session that was to live on is not there any more, or cannot be
    /// reached. Its calls have ended; how is not known.
    #[error("the session has ended: {0}")]
    Gone(String),
    /// Another process of this machine follows the calls of a session that
    /// lives on.
    #[error(
        "another olliesrv of this machine follows session {0}: end that one first, or end the \
         session with `olliesrv reattach --end {0}`"
    )]
    Followed(String),
    /// What a session needs in a new toolsrv could not be done there.
    #[error("cannot prepare toolsrv")]
    Prepare(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection ended while a call ran, and nobody is left to ask. It is
    /// not sent again.
    #[error("the outcome of the call is unknown")]
    Unknown(#[source] Box<Error>),
    /// The connection ended before the call began. It never does now, so it
    /// may be made again under another id.
    #[error("the call was never started")]
    NeverStarted,
    /// The call was refused, or its answer makes no sense.
    #[error("call")]
    Call(#[source] ollie_client::Error),
    /// Nothing was heard from the host although it was asked.
    #[error("the host was silent for {} s", .0.as_secs())]
    Silent(std::time::Duration),
    /// The directory of leases cannot be used.
    #[error("leases in {path:?}")]
    Leases {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The directory for sockets cannot be used.
    #[error("sockets in {path:?}")]
    Sockets {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// toolsrv's socket could not be forwarded. The other transport needs
    /// nothing of sshd but the session.
    #[error("{target} does not forward toolsrv's socket: {problem}; use the transport stdio")]
    Forward {
        /// The target.
        target: String,
        /// Why.
        problem: String,
    },
    /// toolsrv was sent, and did not arrive as it was sent. What was there
    /// before is there still.
    #[error("sending toolsrv to {target}: {problem}")]
    Transfer {
        /// The target.
        target: String,
        /// Bytes, place and reason.
        problem: String,
    },
}

/// What kind of failure ended ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SshFailure {
    /// The host could not be reached. Trying later may help.
    Unreachable,
    /// The host's key is not the known one, or not known. This is never
    /// passed over; the person has to look.
    HostKey,
    /// The host refused every key and password. Trying again does not help.
    Authentication,
    /// Anything else; what ssh said is the message.
    Other,
}

impl std::fmt::Display for SshFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "the host could not be reached",
            Self::HostKey => "the host's key could not be verified",
            Self::Authentication => "the host refused the authentication",
            Self::Other => "it failed",
        })
    }
}

fn list(refused: &[(String, String)]) -> String {
    let mut text = String::new();
    for (root, reason) in refused {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&format!("{root:?}: {reason}"));
    }
    text
}
