use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};

/// Kills a process whose time is up, so that nobody waits for it for ever.
#[derive(Debug)]
pub(crate) struct Watchdog {
    bitten: Arc<AtomicBool>,
    /// Closed when the process is not to be watched any more.
    _leash: Sender<()>,
}

impl Watchdog {
    /// Watches the process behind a pidfd, which always means this very
    /// process and never a later one with its number.
    pub(crate) fn new(process: OwnedFd, limit: Duration) -> Self {
        let (leash, watched) = channel::<()>();
        let bitten = Arc::new(AtomicBool::new(false));
        let bites = Arc::clone(&bitten);
        std::thread::spawn(move || {
            if watched.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                bites.store(true, Ordering::SeqCst);
                let _ = pidfd_send_signal(&process, Signal::KILL);
            }
        });
        Self {
            bitten,
            _leash: leash,
        }
    }

    /// Whether the time was up.
    pub(crate) fn has_bitten(&self) -> bool {
        self.bitten.load(Ordering::SeqCst)
    }
}
