//! The process that watches over one call.

use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use ollie_protocol::Exit;
use ollie_sandbox::{Enforcement, Error as SandboxError, Gate, Listener, TreeLimits};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};
use serde::{Deserialize, Serialize};

use crate::sys::Exec;
use crate::{Command, Exceeded, channel, sys, tree, usage};

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

/// Waits for a command on its control channel and runs it from start to end.
/// The caller is a fresh fork of the companion and exits afterwards.
///
/// The wait is what makes a start fast: this process is usually there, ready,
/// before it is needed. If the channel ends first, nothing was asked for.
pub(crate) fn run(policies: &[Enforcement], control: &OwnedFd) {
    let subreaper = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let signals = sys::sigchld_fd();
    // Done while nobody waits for it, and only if no policy would keep what
    // is given up here. If it fails, the child gives it up by itself.
    if policies.iter().all(Enforcement::is_confined)
        && let Some(policy) = policies.first()
    {
        let _ = policy.lighten_spawner();
    }
    let mut gates = Gates::new(policies);
    let Some((command, stdio)) = receive_command(control) else {
        return;
    };
    let mut supervisor = Supervisor {
        control,
        root: None,
        exit: None,
        listener: None,
        limits: TreeLimits::default(),
    };
    let policy = usize::try_from(command.policy)
        .ok()
        .and_then(|index| policies.get(index));
    let started = match (subreaper, signals, policy) {
        (Ok(()), Ok(signals), Some(enforcement)) => supervisor
            .start(&command, enforcement, &mut gates, stdio)
            .map(|()| signals),
        (Err(errno), ..) => Err((Step::Fork, errno.raw_os_error())),
        (_, Err(error), _) => Err((Step::Fork, error.raw_os_error().unwrap_or(libc::EMFILE))),
        (.., None) => Err((Step::Sandbox, libc::EINVAL)),
    };
    match started {
        Ok(signals) => supervisor.watch(&signals, Duration::from_millis(command.grace_ms)),
        Err((step, errno)) => supervisor.report(Report::NotStarted { step, errno }),
    }
}

/// The gate of the call's policy. It is made while nobody waits for it, where
/// there is only one policy that can be asked for.
struct Gates(Option<Result<Option<Gate>, i32>>);

impl Gates {
    fn new(policies: &[Enforcement]) -> Self {
        Self(match policies {
            [only] => Some(Self::of(only)),
            _ => None,
        })
    }

    fn take(&mut self, enforcement: &Enforcement) -> Result<Option<Gate>, (Step, i32)> {
        let made = self.0.take().unwrap_or_else(|| Self::of(enforcement));
        made.map_err(|errno| (Step::Sandbox, errno))
    }

    fn of(enforcement: &Enforcement) -> Result<Option<Gate>, i32> {
        enforcement.gate().map_err(|error| match error {
            SandboxError::Gate(source) => source.raw_os_error().unwrap_or(libc::EIO),
            _ => libc::EIO,
        })
    }
}

fn receive_command(control: &OwnedFd) -> Option<(Command, [OwnedFd; 3])> {
    let message = channel::receive(control.as_fd()).ok()?;
    let mut fds = message.fds.into_iter();
    let stdio = [fds.next()?, fds.next()?, fds.next()?];
    let json = match fds.next() {
        Some(long) => channel::from_memfd(long).ok()?,
        None => message.bytes,
    };
    Some((serde_json::from_slice(&json).ok()?, stdio))
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
    fn start(
        &mut self,
        command: &Command,
        enforcement: &Enforcement,
        gates: &mut Gates,
        stdio: [OwnedFd; 3],
    ) -> Result<(), (Step, i32)> {
        self.limits = enforcement.tree_limits();
        let gate = gates.take(enforcement)?;
        let text = |bytes: &[u8]| {
            CString::new(bytes).map_err(|_| (Step::Exec, Errno::INVAL.raw_os_error()))
        };
        let list = |list: Vec<&[u8]>| list.into_iter().map(text).collect::<Result<Vec<_>, _>>();
        let candidates = command.candidates();
        let exec = Exec {
            candidates: &list(candidates.iter().map(Vec::as_slice).collect())?,
            argv: &list(command.argv.iter().map(|arg| arg.as_bytes()).collect())?,
            env: &list(command.env.iter().map(|entry| entry.as_bytes()).collect())?,
            cwd: &text(command.cwd.as_bytes())?,
            stdio,
            enforcement,
            gate: gate.as_ref().map(Gate::child_end),
        };
        let pid = sys::spawn(&exec)?;
        self.root = Some(pid);
        // The command runs by now, so this has been sent. Without it nobody
        // answers, and connect(2) is ENOSYS.
        self.listener = gate.and_then(|gate| gate.listener().ok());
        self.report(Report::Started(pid.as_raw_pid().unsigned_abs()));
        Ok(())
        // Here `exec` is dropped, and with it this process's copies of the
        // pipes: the reader sees their end when the tree has closed them.
    }

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
                self.open_gate();
            }
            children = self.reap();
            if children && let Some(exceeded) = self.exceeded() {
                self.report(Report::Exceeded(exceeded));
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
            return self.report(Report::Ended {
                survivors: 0,
                confirmed: true,
            });
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
            self.report(Report::Exited(exit));
        }
        self.report(Report::Ended {
            survivors,
            confirmed,
        });
    }

    /// Reaps whatever has ended; whether there are children left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.root => {
                    if let Some(exit) = to_exit(status) {
                        self.root = None;
                        self.exit = Some(exit);
                        self.report(Report::Exited(exit));
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

    fn report(&self, report: Report) {
        // If the server is gone, the next look at the channel says so.
        if let Ok(bytes) = serde_json::to_vec(&report) {
            let _ = channel::send(self.control.as_fd(), &bytes, &[]);
        }
    }
}

fn to_exit(status: WaitStatus) -> Option<Exit> {
    let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    status
        .exit_status()
        .map(|code| Exit::Code(byte(code)))
        .or_else(|| status.terminating_signal().map(|n| Exit::Signal(byte(n))))
}
