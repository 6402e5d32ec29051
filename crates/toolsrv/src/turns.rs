use std::sync::Arc;

use ollie_protocol::Parallel;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The order in which the calls of a session run: those that read beside each
/// other, those that write alone, and none is overtaken for ever, because they
/// get their turns in the order in which they asked.
#[derive(Default)]
pub(crate) struct Turns(Arc<RwLock<()>>);

/// The turn of one call, for as long as it is kept.
pub(crate) enum Turn {
    /// Beside others.
    Read(#[expect(dead_code, reason = "it is kept and dropped")] OwnedRwLockReadGuard<()>),
    /// Alone.
    Write(#[expect(dead_code, reason = "it is kept and dropped")] OwnedRwLockWriteGuard<()>),
}

impl Turns {
    /// Waits for a turn. Whoever drops the future has left the queue.
    pub(crate) async fn take(&self, parallel: Parallel) -> Turn {
        let lock = Arc::clone(&self.0);
        match parallel {
            Parallel::Read => Turn::Read(lock.read_owned().await),
            Parallel::Write => Turn::Write(lock.write_owned().await),
        }
    }
}
