use std::sync::Arc;

/// What went wrong between the two ends of a connection.
///
/// A refusal that the other end expressed as `Rerror` is [`Error::Remote`]; the connection is fine then. After any of
/// the framing errors the stream cannot be read on and the connection is over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered `Rerror`: this text says why. The connection can be used on.
    #[error("{0}")]
    Remote(String),
    /// A walk went only part of the way: the fid was not made. `walked` names of `wanted` exist.
    #[error("only {walked} of the {wanted} names of the path exist")]
    WalkStopped {
        /// Names that exist.
        walked: usize,
        /// Names that were asked for.
        wanted: usize,
    },
    /// The connection is over: this is why. Everything that was pending got this error; nothing is sent again.
    #[error("the connection is closed")]
    Closed(#[source] Arc<Error>),
    /// The other end closed the connection between two messages.
    #[error("the other end closed the connection")]
    EndOfStream,
    /// The other end closed the connection inside a message.
    #[error("the connection ended inside a message")]
    Truncated,
    /// This end let go of the client.
    #[error("this end closed the connection")]
    HungUp,
    /// Reading from or writing to the stream failed.
    #[error("the connection failed")]
    Io(#[source] std::io::Error),
    /// A message whose length field is below the 7 bytes that every message has.
    #[error("a message of {0} bytes cannot be")]
    FrameTooShort(u32),
    /// A message longer than what was negotiated, or than what is taken before an attach.
    #[error("a message of {size} bytes is over the limit of {limit}")]
    FrameTooLong {
        /// Its length field.
        size: u32,
        /// What is taken.
        limit: u32,
    },
    /// A message that is not what its type says: which rule it breaks.
    #[error("a message is malformed: {0}")]
    Malformed(&'static str),
    /// A message type that 9P2000 does not have in this direction.
    #[error("no message of type {0} is expected")]
    UnknownType(u8),
    /// An open mode with bits that are not understood.
    #[error("the open mode {0:#x} is not supported")]
    OpenMode(u8),
    /// Something does not fit the wire: a string of more than 65535 bytes, a walk of more than 16 names, a message
    /// over msize.
    #[error("the {0} is too long to be sent")]
    TooLong(&'static str),
    /// The other end broke the protocol; the text says how.
    #[error("the other end broke the protocol: {0}")]
    Protocol(&'static str),
    /// The server speaks another protocol; this is the version it gave.
    #[error("the server does not speak 9P2000 but {0:?}")]
    Version(String),
    /// The client's queue is full because the server does not read. Wait with `Client::ready`.
    #[error("the server does not read its requests")]
    QueueFull,
    /// More requests are in flight than the client has tags for (32767). Wait for answers.
    #[error("too many requests are in flight")]
    TooManyRequests,
    /// Nobody attached before the server's deadline.
    #[error("nobody attached in time")]
    AttachDeadline,
    /// The server closed the connection together with this refusal, a failed authentication for one.
    #[error("the connection was refused: {0}")]
    Refused(String),
}
