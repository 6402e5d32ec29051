use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ollie_protocol::{Boot, Error, Key, Nonce, Octets, auth, limits};

/// What is to be started, wherever that is.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The bundle that holds toolsrv.
    pub bundle: PathBuf,
    /// The policy layers as JSON, as the crate `sandbox` wrote them.
    pub policy: String,
    /// Working directory of the session. Default: where the process starts.
    pub cwd: Option<Octets>,
    /// Whether the person chose to run tools without enforcement.
    pub yolo: bool,
    /// Whether the project's own policy file is read. If there is one, nothing
    /// runs before it was decided about ([`crate::Process::project`]).
    pub project: bool,
    /// The session's name.
    pub session: String,
    /// For how long it shall live on without a client, and its background
    /// calls with it. In whole seconds, at most
    /// [`ollie_protocol::limits::LEASE_MAX`]. Default: it ends with its
    /// connection. [`crate::ProcessKeeper`] asks toolsrv for it.
    pub lease: Option<Duration>,
    /// Variables of this process that a toolsrv on this machine does not get.
    /// Default: none. Another host gets none of them but what ssh carries
    /// ([`crate::Remote::withheld`]).
    pub withheld: Vec<OsString>,
}

impl Plan {
    /// The boot record of one start, with a fresh mark and secret.
    pub(crate) fn boot(&self) -> Result<Boot, Error> {
        let no_random = |_| Error::Invalid {
            record: "boot record",
            field: "secret",
            problem: "the kernel gave no random numbers".to_owned(),
        };
        let mark = Nonce::random().map_err(no_random)?;
        let policy = serde_json::value::RawValue::from_string(self.policy.clone());
        Ok(Boot {
            protocol: limits::PROTOCOL,
            mark: format!("toolsrv-{}", auth::to_hex(&mark.as_bytes()[..16])),
            secret: Key::random().map_err(no_random)?,
            nonce: Some(Nonce::random().map_err(no_random)?),
            session: self.session.clone(),
            cwd: self.cwd.clone(),
            policy: policy.map_err(|source| Error::Malformed {
                record: "policy",
                source,
            })?,
            yolo: self.yolo,
            project: self.project,
        })
    }
}
