/// Why a toolsrv could not be talked to, or would not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// toolsrv refused the request; its own words say why and what to do. The
    /// connection is fine.
    #[error("{0}")]
    Refused(String),
    /// The connection ended. If a call was in flight, its outcome is unknown:
    /// it is not sent again.
    #[error("the connection to toolsrv ended")]
    Lost(#[source] ninep_rs::Error),
    /// The other side does not know the key of this session: it is not the
    /// toolsrv that was started. Nothing was sent to it.
    #[error("the other side could not prove that it is this session's toolsrv")]
    Impostor,
    /// toolsrv does not accept our proof.
    #[error("toolsrv refused the authentication")]
    NotAccepted(#[source] ninep_rs::Error),
    /// toolsrv sent something that is not what the protocol says.
    #[error("toolsrv sent a malformed {record}")]
    Malformed {
        /// Which record it was.
        record: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// toolsrv broke the protocol in another way.
    #[error("toolsrv broke the protocol: {0}")]
    Protocol(&'static str),
    /// The kernel gave no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
}

impl From<ninep_rs::Error> for Error {
    fn from(error: ninep_rs::Error) -> Self {
        match error {
            ninep_rs::Error::Remote(text) => Self::Refused(text),
            // A walk says how far it came and not why (walk(5)); here the one
            // reason is that the next name is not there.
            ninep_rs::Error::WalkStopped { .. } => {
                Self::Refused(ninep_rs::ename::NOT_FOUND.to_owned())
            }
            other => Self::Lost(other),
        }
    }
}
