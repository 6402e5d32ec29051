use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::{Finished, Invocation, Running, World, await_that};

/// How long a daemon may serve: longer than any test.
const LIMIT: Duration = Duration::from_secs(600);
/// How long an event is awaited.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon of a world: `olliesrv serve`.
#[derive(Debug)]
pub struct Served<'w> {
    world: &'w World,
    running: Running,
}

impl World {
    /// Starts the daemon and waits until it serves.
    #[must_use]
    pub fn serve(&self) -> Served<'_> {
        self.serve_by(self.ollie(["serve"]))
    }

    /// Starts the daemon by this invocation of `serve`.
    #[must_use]
    pub fn serve_by(&self, invocation: Invocation) -> Served<'_> {
        let running = invocation.limit(LIMIT).spawn();
        running.await_stderr("serving");
        Served {
            world: self,
            running,
        }
    }

    /// The daemon's socket.
    #[must_use]
    pub fn doorway(&self) -> PathBuf {
        self.base().join("run/ollie/9p")
    }
}

impl Served<'_> {
    /// `olliesrv fs` with these arguments.
    #[must_use]
    pub fn fs(&self, args: &[&str]) -> Finished {
        self.world.ollie(["fs"]).args(args).run()
    }

    /// A file of the tree.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    #[track_caller]
    pub fn read(&self, path: &str) -> String {
        self.fs(&["read", path]).ok()
    }

    /// Writes a file of the tree; what it answered.
    ///
    /// # Panics
    /// If that is refused.
    #[track_caller]
    pub fn write(&self, path: &str, text: &str) -> String {
        self.fs(&["write", path, text]).ok()
    }

    /// Makes a session, and gives its name.
    ///
    /// # Panics
    /// If that is refused.
    #[track_caller]
    pub fn session(&self, settings: &str) -> String {
        self.write("session/new", settings).trim_end().to_owned()
    }

    /// Gives a prompt and waits for the end of its turn; what was printed.
    #[must_use]
    pub fn send(&self, session: &str, prompt: &str) -> Finished {
        self.world
            .ollie(["session", "send", "--wait", session, prompt])
            // The first one on another host may pack toolsrv for the way.
            .limit(Duration::from_secs(180))
            .run()
    }

    /// Waits until a session does nothing.
    ///
    /// # Panics
    /// If it goes on.
    #[track_caller]
    pub fn await_rest(&self, session: &str) {
        let path = format!("session/{session}/state");
        let rests = || matches!(self.read(&path).trim(), "idle" | "failed");
        assert!(await_that(PATIENCE, rests), "{session} goes on");
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// kill -9
    pub fn kill(self) {
        self.running.signal(Signal::KILL);
        let _ = self.running.finish();
    }

    /// SIGTERM, and waits for the end.
    #[must_use]
    pub fn end(self) -> Finished {
        self.running.signal(Signal::TERM);
        self.running.finish()
    }
}
