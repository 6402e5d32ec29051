use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::must::must;
use crate::piped::Piped;
use crate::running::{Finished, Running};
use crate::watchdog::Watchdog;

/// How long a command has, unless its test says otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// A command that is about to be run.
pub struct Invocation {
    command: Command,
    input: Option<Box<dyn Read + Send>>,
    limit: Duration,
    tapped: bool,
}

impl std::fmt::Debug for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.command.fmt(f)
    }
}

impl Invocation {
    pub(crate) fn new(mut command: Command) -> Self {
        // As a shell starts a job: signals of a terminal go to this group.
        command.process_group(0);
        Self {
            command,
            input: None,
            limit: LIMIT,
            tapped: true,
        }
    }

    /// One argument more.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable. There are no others but those of the world.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts in another directory than the world's project.
    #[must_use]
    pub fn cwd(mut self, directory: impl AsRef<std::path::Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Standard input; without, it is empty.
    #[must_use]
    pub fn stdin(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin_from(std::io::Cursor::new(bytes.into()))
    }

    /// Standard input from a reader, which a thread passes on.
    #[must_use]
    pub fn stdin_from(mut self, reader: impl Read + Send + 'static) -> Self {
        self.input = Some(Box::new(reader));
        self
    }

    /// Another limit than a minute.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Leaves standard output to the test ([`Running::take_stdout`]), to be
    /// read slowly or not at all.
    #[must_use]
    pub fn untapped(mut self) -> Self {
        self.tapped = false;
        self
    }

    /// Starts it with pipes to a test that speaks with it itself. It is killed
    /// when its time is up.
    #[must_use]
    pub fn piped(mut self) -> Piped {
        let line = format!("{:?}", self.command);
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = must(self.command.spawn(), &format!("start {line}"));
        let watchdog = Watchdog::new(crate::running::pidfd(child.id()), self.limit);
        Piped::new(child, watchdog)
    }

    /// Starts it.
    #[must_use]
    pub fn spawn(mut self) -> Running {
        let line = format!("{:?}", self.command);
        let stdin = match self.input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        self.command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = must(self.command.spawn(), &format!("start {line}"));
        // It holds no pipe any more, so that their ends can be seen.
        drop(self.command);
        if let (Some(mut from), Some(mut to)) = (self.input, child.stdin.take()) {
            std::thread::spawn(move || {
                // A process need not read its input to the end.
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.flush();
            });
        }
        let watchdog = Watchdog::new(crate::running::pidfd(child.id()), self.limit);
        Running::new(child, line, watchdog, self.tapped)
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If that takes longer than the limit.
    #[must_use]
    pub fn run(self) -> Finished {
        self.spawn().finish()
    }
}
