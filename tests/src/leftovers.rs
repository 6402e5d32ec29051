//! What sessions leave in a world: nothing.

use std::time::{Duration, Instant};

use crate::processes::entries;
use crate::{Process, Tree, World};

/// "A moment": how long the last process of a session may live on. Trees have
/// two seconds between SIGTERM and SIGKILL; the rest is for a busy machine.
const MOMENT: Duration = Duration::from_secs(6);

impl World {
    /// Every process of this world: its arguments or its environment name the
    /// base, or it belongs to a user who is in this test alone.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        let base = self.base.display().to_string();
        let own = self.user.is_other().then_some(self.user.uid());
        Process::all()
            .into_iter()
            .filter(|process| process.mentions(&base) || Some(process.uid) == own)
            .collect()
    }

    /// What is left of sessions now: processes, and entries of the directories
    /// for sockets and temporary files.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let processes = self.processes().into_iter().map(|process| process.line());
        let files = ["run", "tmp"]
            .into_iter()
            .flat_map(|directory| entries(&self.base.join(directory)));
        processes.chain(files).collect()
    }

    /// Awaits that no process and no file of a session is left.
    ///
    /// # Panics
    /// If something still is, a moment later.
    #[track_caller]
    pub fn nothing_left(&self) {
        let deadline = Instant::now() + MOMENT;
        loop {
            let left = self.leftovers();
            if left.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "left after {MOMENT:?}:\n  {}",
                left.join("\n  ")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills what is left, so that a test that fails leaves nothing behind.
    fn sweep(&self) {
        let deadline = Instant::now() + MOMENT;
        while Instant::now() < deadline {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            left.iter().for_each(|process| Tree::kill(process.pid));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.sweep();
            return;
        }
        let deadline = Instant::now() + MOMENT;
        let mut left = self.leftovers();
        while !left.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            left = self.leftovers();
        }
        self.sweep();
        assert!(
            left.is_empty(),
            "left at the end of the test:\n  {}",
            left.join("\n  ")
        );
    }
}
