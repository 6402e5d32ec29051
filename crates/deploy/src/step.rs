use std::fmt;

use crate::{Connection, Packing, Upload};

/// What happens on the way to a remote toolsrv.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// ssh starts.
    Connecting {
        /// Whose connection it is to have.
        connection: Connection,
    },
    /// sshd takes no further session on the shared connection; another one is
    /// the next attempt.
    Full,
    /// The shared connection is lost or silent; another one is the next
    /// attempt.
    Dead,
    /// The host is too busy to let ssh in; the next attempt follows.
    Busy,
    /// A shell there has answered.
    Answered {
        /// `os kernel arch`, as the host says.
        host: String,
    },
    /// A place where toolsrv could be cannot be used.
    Refused {
        /// The place.
        root: String,
        /// Why.
        reason: String,
    },
    /// toolsrv is packed for the way, which takes some seconds once for each
    /// version and architecture.
    Packing,
    /// toolsrv is not there, or not the right one, and is sent.
    Sending {
        /// Where to.
        root: String,
        /// How it is packed.
        packing: Packing,
        /// Bytes on the way.
        bytes: u64,
    },
    /// toolsrv is there, verified, and starts.
    Starting {
        /// Where it is.
        program: String,
        /// What was sent of it.
        upload: Option<Upload>,
    },
    /// The session lives on there, and this is the way to it.
    Attaching {
        /// The toolsrv that leads there.
        program: String,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting { connection } => f.write_str(match connection {
                Connection::Own => "ssh starts",
                Connection::Users => "ssh starts, over the connection of your own master",
                Connection::First => "ssh starts; other sessions will share its connection",
                Connection::Shared => "ssh starts, over the connection of another session",
                Connection::Daemon => "ssh starts, over the connection of the daemon",
            }),
            Self::Full => f.write_str("the host takes no further session on that connection"),
            Self::Dead => f.write_str("nobody answers on that connection"),
            Self::Busy => f.write_str("the host lets nobody in at the moment; once more"),
            Self::Answered { host } => write!(f, "a shell answers: {host}"),
            Self::Refused { root, reason } => write!(f, "not in {root}: {reason}"),
            Self::Packing => f.write_str(
                "toolsrv is packed, which is done once for each version and takes some seconds",
            ),
            Self::Sending {
                root,
                packing,
                bytes,
            } => write!(f, "{bytes} bytes ({packing}) go to {root}"),
            Self::Attaching { program } => write!(f, "the session lives on; {program} leads there"),
            Self::Starting {
                program,
                upload: None,
            } => write!(f, "nothing was sent: {program} is there and right"),
            Self::Starting {
                program,
                upload: Some(upload),
            } => write!(f, "{program}: {} bytes, verified", upload.size),
        }
    }
}
