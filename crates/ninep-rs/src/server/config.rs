use std::time::Duration;

use crate::trace::Trace;

/// The limits of one served connection, and its trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The longest message, bytes, all of it counted. Default 1 MiB. Below 256 it counts as 256.
    pub msize: u32,
    /// The longest message taken before the first successful attach. Default 8 KiB. A longer one closes the connection.
    pub msize_before_attach: u32,
    /// How long a peer may take for its first successful attach before the connection is closed. Default 10 s; `None`
    /// waits for ever.
    pub attach_deadline: Option<Duration>,
    /// Requests that wait at once, per connection. Default 64. One more is answered with an `Rerror`. What is answered
    /// at once does not count, nor does `Tflush`, `Tclunk` or `Tversion`.
    pub requests: usize,
    /// Fids at once. Default 4096. One more is refused.
    pub fids: usize,
    /// Bytes of long answers that wait for the peer to read them, and likewise of small ones, of up to 4 KiB. Default
    /// 64 KiB. From there on reads of that kind are not carried on, nor are requests read behind so much of small ones
    /// or `requests` reads: at most twice this, one message and the errors of `requests` are held. A small answer
    /// overtakes all of it but a message that was begun; more of it makes nothing faster.
    pub output: usize,
    /// How long a connection that is being closed waits for the peer to read its last answers. Default 1 s.
    pub linger: Duration,
    /// Shows every message. Default: none.
    pub trace: Option<Trace>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            msize: 1024 * 1024,
            msize_before_attach: 8 * 1024,
            attach_deadline: Some(Duration::from_secs(10)),
            requests: 64,
            fids: 4096,
            output: 64 * 1024,
            linger: Duration::from_secs(1),
            trace: None,
        }
    }
}
