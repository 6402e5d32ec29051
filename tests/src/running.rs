use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::must::must;
use crate::processes::contains;
use crate::tap::Tap;
use crate::tree::Tree;
use crate::watchdog::Watchdog;

/// How long an event is awaited.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    line: String,
    watchdog: Watchdog,
    stdout: Option<Tap>,
    stderr: Option<Tap>,
}

impl Running {
    pub(crate) fn new(mut child: Child, line: String, watchdog: Watchdog, tapped: bool) -> Self {
        let stdout = if tapped {
            child.stdout.take().map(Tap::new)
        } else {
            None
        };
        let stderr = child.stderr.take().map(Tap::new);
        Self {
            child,
            line,
            watchdog,
            stdout,
            stderr,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard output of an [`untapped`](crate::Invocation::untapped)
    /// command.
    ///
    /// # Panics
    /// If it is tapped, or was taken before.
    #[must_use]
    pub fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("standard output is tapped")
    }

    /// Waits until standard output holds `text`.
    ///
    /// # Panics
    /// If it ends without.
    pub fn await_stdout(&self, text: &str) {
        let Some(tap) = &self.stdout else {
            panic!("standard output is not tapped");
        };
        let found = tap.wait(PATIENCE, |seen| contains(seen, text.as_bytes()));
        assert!(found, "no {text:?} on standard output\n{}", self.so_far());
    }

    /// Waits until standard error holds `text`.
    ///
    /// # Panics
    /// If it ends without.
    pub fn await_stderr(&self, text: &str) {
        let found = self
            .stderr
            .as_ref()
            .is_some_and(|tap| tap.wait(PATIENCE, |seen| contains(seen, text.as_bytes())));
        assert!(found, "no {text:?} on standard error\n{}", self.so_far());
    }

    /// The processes of its session, once there are all of them.
    ///
    /// # Panics
    /// If there is no toolsrv with a call.
    #[must_use]
    pub fn await_tree(&self) -> Tree {
        let mut tree = None;
        let deadline = std::time::Instant::now() + PATIENCE;
        while tree.is_none() && std::time::Instant::now() < deadline {
            tree = Tree::below(self.pid());
            std::thread::sleep(Duration::from_millis(5));
        }
        tree.unwrap_or_else(|| panic!("no session to be seen\n{}", self.so_far()))
    }

    /// Sends a signal to this one process.
    pub fn signal(&self, signal: Signal) {
        // It may have ended already.
        let _ = pidfd_send_signal(pidfd(self.pid()), signal);
    }

    /// What Ctrl-C on a terminal does: SIGINT to the whole foreground group.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn ctrl_c(&self) {
        let group = must(pid(self.pid()), "find the process group");
        must(
            rustix::process::kill_process_group(group, Signal::INT),
            "signal the process group",
        );
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// If the time is up.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        // If the test has it, the test also reads it.
        let status = must(self.child.wait(), "wait for a child");
        let take = |tap: &mut Option<Tap>| tap.take().map(Tap::finish).unwrap_or_default();
        let finished = Finished {
            line: self.line.clone(),
            status: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            signal: status.signal(),
            stdout: take(&mut self.stdout),
            stderr: take(&mut self.stderr),
        };
        assert!(
            !self.watchdog.has_bitten(),
            "its time was up, it was killed\n{finished}"
        );
        finished
    }

    fn so_far(&self) -> String {
        let text = |tap: &Option<Tap>| {
            let bytes = tap.as_ref().map(Tap::so_far).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        format!(
            "{}\nstdout: {}\nstderr: {}",
            self.line,
            text(&self.stdout),
            text(&self.stderr)
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Finished {
    line: String,
    /// The exit status; 128 and the signal if a signal ended it.
    pub status: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Everything it wrote to standard output, if that was tapped.
    pub stdout: Vec<u8>,
    /// Everything it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Finished {
    /// Standard output as text.
    #[must_use]
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    #[must_use]
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Standard output, of a command that must have succeeded.
    ///
    /// # Panics
    /// If it has not.
    #[track_caller]
    #[must_use]
    pub fn ok(self) -> String {
        self.has_status(0).out()
    }

    /// Itself, if it has this exit status.
    ///
    /// # Panics
    /// If it has another.
    #[track_caller]
    #[must_use]
    pub fn has_status(self, status: i32) -> Self {
        assert_eq!(self.status, status, "wrong exit status (left)\n{self}");
        self
    }

    /// Itself, if it failed.
    ///
    /// # Panics
    /// If it succeeded.
    #[track_caller]
    #[must_use]
    pub fn failed(self) -> Self {
        assert_ne!(self.status, 0, "it should have failed\n{self}");
        self
    }

    /// Itself, if standard error holds all of these.
    ///
    /// # Panics
    /// If one is missing.
    #[track_caller]
    #[must_use]
    pub fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(
                contains(&self.stderr, text.as_bytes()),
                "no {text:?} on standard error\n{self}"
            );
        }
        self
    }

    /// The JSON values of standard output, one a line.
    ///
    /// # Panics
    /// If a line is none.
    #[track_caller]
    #[must_use]
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        self.out()
            .lines()
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("{line:?} is not JSON: {error}\n{self}"))
            })
            .collect()
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4000)]).into_owned();
            format!("({} bytes) {text}", bytes.len())
        };
        writeln!(f, "{}", self.line)?;
        writeln!(f, "status: {}", self.status)?;
        writeln!(f, "stdout: {}", short(&self.stdout))?;
        write!(f, "stderr: {}", short(&self.stderr))
    }
}

fn pid(number: u32) -> Result<Pid, &'static str> {
    i32::try_from(number)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or("not a process id")
}

/// A descriptor of a child that was not waited for, so that the number is its.
pub(crate) fn pidfd(number: u32) -> OwnedFd {
    let pid = must(pid(number), "name a process");
    must(pidfd_open(pid, PidfdFlags::empty()), "open a pidfd")
}
