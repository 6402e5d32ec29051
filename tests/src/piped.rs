use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};

use crate::must::must;
use crate::watchdog::Watchdog;

/// A child whose standard streams the test uses by itself. It is killed when
/// this is dropped.
#[derive(Debug)]
pub struct Piped {
    child: Child,
    /// Standard input.
    pub stdin: Option<ChildStdin>,
    /// Standard output.
    pub stdout: Option<ChildStdout>,
    _watchdog: Watchdog,
}

impl Piped {
    pub(crate) fn new(mut child: Child, watchdog: Watchdog) -> Self {
        Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            child,
            _watchdog: watchdog,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        must(self.child.wait(), "wait for a child")
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // Both fail if it has been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
