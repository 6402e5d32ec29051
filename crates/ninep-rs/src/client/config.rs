use crate::trace::Trace;

/// The limits of a client, and its trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The longest message to offer in Tversion, bytes, all of it counted. Default 1 MiB. Below 256 it counts as 256.
    pub msize: u32,
    /// Bytes of requests that may wait for the server to read them. Default 4 MiB. From there on a request fails with
    /// [`Error::QueueFull`](crate::Error::QueueFull); `Tclunk` and `Tflush` never do.
    pub queue: usize,
    /// Shows every message. Default: none.
    pub trace: Option<Trace>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        ClientConfig {
            msize: 1024 * 1024,
            queue: 4 * 1024 * 1024,
            trace: None,
        }
    }
}
