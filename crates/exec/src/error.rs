use std::io;

/// Why a command could not be handed to the companion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The companion process is gone; the session ends.
    #[error("the companion process of toolsrv is gone")]
    CompanionGone,
    /// A system call on this side failed, for instance because no descriptor
    /// is left.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn system(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::System {
            action,
            source: errno.into(),
        }
    }
}
