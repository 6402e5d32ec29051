use serde::{Deserialize, Serialize};

/// Those who were not let in at a session's socket, for one reason: a line of
/// the file `door`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnedAway {
    /// Why.
    pub reason: NotLetIn,
    /// The user at the other end.
    pub uid: u32,
    /// The process, at the last time; absent where it is not to be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How often.
    pub count: u64,
    /// The first time, in seconds since 1970 by the tool host's clock.
    pub first: u64,
    /// The last time.
    pub last: u64,
}

/// Why a connection ended that never attached. The stranger itself is told
/// less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotLetIn {
    /// Another user of the host.
    ForeignUser,
    /// A process that toolsrv has started: a tool.
    OwnTool,
    /// The uname was another than the session's.
    WrongSession,
    /// The aname was none.
    BadName,
    /// The proof was wrong: another key, or a recorded connection.
    WrongProof,
    /// Something else than a nonce and a proof was written.
    BadProof,
    /// An attach without the afid of a finished handshake.
    NoProof,
    /// An attach with another file's fid, or for other names than the afid's.
    ForeignAfid,
    /// There was no attach in time.
    TooSlow,
    /// It was the oldest of too many that had not attached.
    Displaced,
    /// A message that is too long for a stranger.
    TooLong,
    /// A message that is none.
    Malformed,
    /// As many as may be have attached.
    Full,
    /// It went away by itself.
    Left,
}

impl std::fmt::Display for NotLetIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ForeignUser => "another user",
            Self::OwnTool => "a tool of the session itself",
            Self::WrongSession => "another session's name",
            Self::BadName => "a name that is none",
            Self::WrongProof => "a wrong proof",
            Self::BadProof => "something else than a proof",
            Self::NoProof => "an attach without a proof",
            Self::ForeignAfid => "an attach with a foreign afid",
            Self::TooSlow => "no attach in time",
            Self::Displaced => "displaced by others that had not attached",
            Self::TooLong => "a message that is too long",
            Self::Malformed => "a malformed message",
            Self::Full => "too many connections",
            Self::Left => "it went away without an attach",
        })
    }
}

impl std::fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { reason, uid, .. } = self;
        write!(f, "{reason}, {} times, user {uid}", self.count)?;
        match self.pid {
            Some(pid) => write!(f, ", process {pid}"),
            None => Ok(()),
        }
    }
}
