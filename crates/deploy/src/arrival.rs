use crate::{Connection, Packing, Transport};

/// How a toolsrv came to run on a host: for `--verbose`, `--json` and doctor.
///
/// What the host says of itself here is not checked, and has to be escaped
/// before a terminal sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arrival {
    /// The target, as it was given.
    pub target: String,
    /// Which way 9P goes; never [`Transport::Auto`].
    pub transport: Transport,
    /// Whose ssh connection it is.
    pub connection: Connection,
    /// What uname(1) and the shell say: `os`, `kernel`, `arch`, `uid`, `home`,
    /// `tools`.
    pub facts: Vec<(String, String)>,
    /// Where toolsrv is there.
    pub program: String,
    /// Its SHA-256, which the handshake proves.
    pub build: String,
    /// What was sent of it.
    pub upload: Option<Upload>,
    /// Places where it could not be put, and why.
    pub refused: Vec<(String, String)>,
    /// What rc files and banners printed where they should not.
    pub noise: Option<String>,
    /// How often ssh was started: more than once if sshd was too busy, or a
    /// place filled up.
    pub attempts: u32,
}

/// A toolsrv that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload {
    /// Bytes on the way.
    pub sent: u64,
    /// Bytes of the file.
    pub size: u64,
    /// How it was packed.
    pub packing: Packing,
}

impl Arrival {
    /// One of [`Arrival::facts`].
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}
