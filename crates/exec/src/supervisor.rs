//! The process that watches over one call.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use ollie_protocol::Exit;
use ollie_sandbox::{Enforcement, Error as SandboxError, Gate, Listener, TreeLimits};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait, waitpid};
use serde::{Deserialize, Serialize};

use crate::{Exceeded, channel, recruit, sys, tree, usage};

/// How long a tree has to end by itself once its server is gone: nobody is
/// left to ask for more.
const ORPHANED: Duration = Duration::from_millis(200);

/// How often the tree is looked at while a limit on it is set. A look costs a
/// millisecond or so; in the meantime a fork bomb makes a few hundred more.
const LOOK: Duration = Duration::from_millis(50);

/// What a supervisor tells its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The command runs, as this process.
    Started(u32),
    /// The command does not run; nothing is left of the attempt.
    NotStarted {
        /// What failed.
        step: Step,
        /// Why (errno(3)).
        errno: i32,
    },
    /// The command itself has ended; its tree may not have.
    Exited(Exit),
    /// The tree went beyond a limit and is being ended.
    Exceeded(Exceeded),
    /// The tree has ended. The last report.
    Ended {
        /// Processes that outlived the command and were ended.
        survivors: u32,
        /// Whether waitpid(2) confirmed that none is left.
        confirmed: bool,
    },
}

/// What a server tells a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Send a signal to the command's process group, as a terminal would.
    Signal(i32),
    /// End the tree: SIGTERM, this many milliseconds, SIGKILL.
    End {
        /// Milliseconds between the two.
        grace_ms: u64,
    },
}

/// The steps of a start, for errors that say which one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Making the process (fork(2)).
    Fork,
    /// A session of its own (setsid(2)).
    Session,
    /// Standard input, output and error (dup2(2)).
    Stdio,
    /// Entering the working directory (chdir(2)).
    Cwd,
    /// Confining itself; nothing ran unconfined.
    Sandbox,
    /// Running the program (execve(2)).
    Exec,
}

/// Waits for a command of one policy on its control channel and runs it from
/// start to end. The caller is a fresh fork of the companion and exits
/// afterwards. If the channel ends first, nothing was asked for.
///
/// Everything that does not depend on the command has happened before it
/// comes: there is a child, confined already, and it is the child that waits.
pub(crate) fn run(policy: u32, enforcement: &Enforcement, control: &OwnedFd) {
    let (signals, gate) = match prepare(enforcement) {
        Ok(prepared) => prepared,
        Err((step, errno)) => return refuse(control, step, errno),
    };
    let mut left = recruit::Left::default();
    let gate_end = gate.as_ref().map(Gate::child_end);
    let child = sys::lend_memory(&mut || {
        recruit::live(policy, enforcement, gate_end, control, &mut left);
    });
    let root = match child {
        Ok(root) => root,
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
            return refuse(control, Step::Fork, errno);
        }
    };
    let mut supervisor = Supervisor {
        control,
        root: Some(root),
        exit: None,
        listener: None,
        limits: enforcement.tree_limits(),
    };
    match (left.grace, left.failure) {
        // The server is gone; or somebody has killed the child while it waited.
        (None, _) => {}
        (_, Some((step, errno))) => {
            let _ = waitpid(Some(root), WaitOptions::empty());
            report(control, Report::NotStarted { step, errno });
        }
        (Some(grace), None) => {
            // It has been sent before the child waited. Without it nobody
            // answers, and connect(2) is ENOSYS.
            supervisor.listener = gate.and_then(|gate| gate.listener().ok());
            report(control, Report::Started(root.as_raw_pid().unsigned_abs()));
            supervisor.watch(&signals, grace);
        }
    }
}

/// What a supervisor needs before it has a child.
fn prepare(enforcement: &Enforcement) -> Result<(OwnedFd, Option<Gate>), (Step, i32)> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| (Step::Fork, errno.raw_os_error()))?;
    let signals = sys::sigchld_fd()
        .map_err(|error| (Step::Fork, error.raw_os_error().unwrap_or(libc::EMFILE)))?;
    let gate = enforcement.gate().map_err(|error| match error {
        SandboxError::Gate(source) => (Step::Sandbox, source.raw_os_error().unwrap_or(libc::EIO)),
        _ => (Step::Sandbox, libc::EIO),
    })?;
    Ok((signals, gate))
}

/// Answers the command, when it comes, with what has failed already.
fn refuse(control: &OwnedFd, step: Step, errno: i32) {
    if channel::receive(control.as_fd()).is_ok_and(|message| !message.bytes.is_empty()) {
        report(control, Report::NotStarted { step, errno });
    }
}

struct Supervisor<'a> {
    control: &'a OwnedFd,
    /// The command's process; its group has the same number, and is only
    /// signalled while the process is not reaped, so that the number is its.
    root: Option<Pid>,
    exit: Option<Exit>,
    /// Readable when the command's tree first asks for a connection.
    listener: Option<Listener>,
    limits: TreeLimits,
}

impl Supervisor<'_> {
    fn watch(&mut self, signals: &OwnedFd, grace: Duration) {
        let mut children = self.reap();
        let pause = (!self.limits.is_empty()).then_some(LOOK);
        while children && self.exit.is_none() {
            let asks = self
                .listener
                .as_ref()
                .map_or(signals.as_fd(), Listener::as_fd);
            let [ordered, signalled, asked] =
                channel::wait_readable([self.control.as_fd(), signals.as_fd(), asks], pause);
            if signalled {
                sys::drain(signals);
            }
            if asked {
                self.ask_gate();
            }
            children = self.reap();
            if children && let Some(exceeded) = self.exceeded() {
                report(self.control, Report::Exceeded(exceeded));
                // No grace: it would use it to make more.
                return self.end(Duration::ZERO);
            }
            if ordered {
                match self.order() {
                    Some(Order::Signal(number)) => self.signal(number),
                    Some(Order::End { grace_ms }) => {
                        return self.end(Duration::from_millis(grace_ms));
                    }
                    None => return self.end(ORPHANED),
                }
            }
        }
        self.end(grace);
    }

    fn exceeded(&self) -> Option<Exceeded> {
        if self.limits.is_empty() {
            return None;
        }
        usage::exceeded(self.limits, &tree::pids())
    }

    /// Opens the gate for a question. If there is none nobody is left that
    /// could have one.
    fn ask_gate(&mut self) {
        match &self.listener {
            Some(listener) if listener.is_asked() => self.open_gate(),
            _ => self.listener = None,
        }
    }

    /// Lets threads answer from now on. Most commands never connect, and are
    /// spared the cost of them.
    fn open_gate(&mut self) {
        if let Some(listener) = self.listener.take() {
            // If that fails the listener is closed, and connect(2) is ENOSYS.
            let _ = listener.serve();
        }
    }

    /// Ends what is left of the tree and says so.
    fn end(&mut self, grace: Duration) {
        if !self.reap() {
            return report(
                self.control,
                Report::Ended {
                    survivors: 0,
                    confirmed: true,
                },
            );
        }
        // What shuts down may have to tell somebody.
        self.open_gate();
        let survivors = self.exit.map_or(0, |_| tree::count());
        let (root, mut exit) = (self.root, self.exit);
        let confirmed = tree::end_descendants(grace, &HashSet::new(), &mut |pid, status| {
            if Some(pid) == root {
                exit = to_exit(status).or(exit);
            }
        });
        if self.exit.is_none()
            && let Some(exit) = exit
        {
            report(self.control, Report::Exited(exit));
        }
        report(
            self.control,
            Report::Ended {
                survivors,
                confirmed,
            },
        );
    }

    /// Reaps whatever has ended; whether there are children left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.root => {
                    if let Some(exit) = to_exit(status) {
                        self.root = None;
                        self.exit = Some(exit);
                        report(self.control, Report::Exited(exit));
                    }
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn signal(&self, number: i32) {
        if let Some(root) = self.root
            && let Some(signal) = Signal::from_named_raw(number)
        {
            let _ = kill_process_group(root, signal);
        }
    }

    fn order(&self) -> Option<Order> {
        let message = channel::receive(self.control.as_fd()).ok()?;
        serde_json::from_slice(&message.bytes).ok()
    }
}

/// Tells the server. If it is gone, the next look at the channel says so.
pub(crate) fn report(control: &OwnedFd, report: Report) {
    if let Ok(bytes) = serde_json::to_vec(&report) {
        let _ = channel::send(control.as_fd(), &bytes, &[]);
    }
}

fn to_exit(status: WaitStatus) -> Option<Exit> {
    let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    status
        .exit_status()
        .map(|code| Exit::Code(byte(code)))
        .or_else(|| status.terminating_signal().map(|n| Exit::Signal(byte(n))))
}
