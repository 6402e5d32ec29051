use std::fmt::Display;
use std::sync::Arc;

/// Which way a traced message went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// This end received it.
    In,
    /// This end queued it for sending.
    Out,
}

/// Called with every message of a connection, both ways, one line each.
///
/// Data are shown by their length only, so neither proofs nor contents get into a log. It runs inside the engine: it
/// must return quickly and must not panic.
#[derive(Clone)]
pub struct Trace(Arc<Hook>);

type Hook = dyn Fn(Direction, &dyn Display) + Send + Sync;

impl Trace {
    /// A trace that calls `hook`.
    pub fn new(hook: impl Fn(Direction, &dyn Display) + Send + Sync + 'static) -> Self {
        Trace(Arc::new(hook))
    }

    pub(crate) fn line(&self, direction: Direction, message: &dyn Display) {
        (self.0)(direction, message);
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trace")
    }
}
