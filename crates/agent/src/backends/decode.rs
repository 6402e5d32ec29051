use crate::{BackendError, Delta};

/// Makes deltas of a provider's bytes, without input or output. Any way of
/// cutting the same bytes into chunks gives the same deltas, and an error
/// comes after everything before it.
pub(crate) trait Decode: Send {
    /// Takes the next bytes; what they complete is appended to `to`.
    fn feed(&mut self, bytes: &[u8], to: &mut Vec<Delta>) -> Result<(), BackendError>;

    /// How far the reply is.
    fn progress(&self) -> Progress;

    /// Nothing more will come. An error if something is missing.
    fn finish(&mut self, to: &mut Vec<Delta>) -> Result<(), BackendError>;
}

/// How far a reply is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The model is at work.
    Open,
    /// The model has stopped; only the usage may be missing. Some servers say
    /// nothing more and keep the connection.
    Settling,
    /// Nothing more is to be read.
    Done,
}
