use std::collections::HashSet;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

use ollie_sandbox::Enforcement;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};

use crate::supervisor::{Report, Step};
use crate::sys::Fork;
use crate::{Error, Litter, channel, supervisor, sys, tree};

/// How long supervisors have to end their trees once the server is gone.
const LAST_GRACE: Duration = Duration::from_secs(8);

/// The companion process, seen from the server.
#[derive(Debug)]
pub struct Companion {
    pub(crate) channel: OwnedFd,
    /// Its process id.
    pub pid: u32,
}

impl Companion {
    /// Forks the companion.
    ///
    /// The caller becomes a subreaper too, so that it inherits the trees if
    /// the companion is killed. Every descriptor above 2 except the new
    /// channel is closed on the companion's side, and its standard streams
    /// are `/dev/null`: it must not keep anybody's pipe open. `litter` is
    /// removed by whichever of the two ends last.
    ///
    /// # Errors
    /// [`Error::System`] if this process has more than one thread already, or
    /// the kernel refuses the fork.
    pub fn fork(litter: &Litter) -> Result<Self, Error> {
        let (ours, theirs) = channel::pair().map_err(Error::system("make a socket pair"))?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(Error::system("become a subreaper"))?;
        match sys::fork() {
            Err(source) => Err(Error::System {
                action: "fork the companion process",
                source,
            }),
            Ok(Fork::Parent(pid)) => Ok(Self {
                channel: ours,
                pid: pid.as_raw_pid().unsigned_abs(),
            }),
            Ok(Fork::Child) => {
                sys::close_all_but(theirs.as_raw_fd());
                std::mem::forget(ours);
                live(&theirs, litter);
                sys::exit_now(0)
            }
        }
    }
}

/// The companion's life: obey the server until it is gone, then clean up.
fn live(channel: &OwnedFd, litter: &Litter) {
    // By this name (PR_SET_NAME, prctl(2)) whoever kills "toolsrv" kills the
    // server alone, and there is somebody left to clean up.
    let _ = rustix::thread::set_name(c"ollie-companion");
    let _ = rustix::process::setsid();
    sys::ignore_signals();
    silence();
    let ready = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    if let (Ok(()), Ok(signals)) = (ready, sys::sigchld_fd()) {
        Life {
            channel,
            signals,
            policies: Vec::new(),
            supervisors: HashSet::new(),
        }
        .run();
    }
    // Nobody is left to tell of an error here.
    let _ = litter.remove();
}

struct Life<'a> {
    channel: &'a OwnedFd,
    signals: OwnedFd,
    policies: Vec<Enforcement>,
    supervisors: HashSet<u32>,
}

impl Life<'_> {
    fn run(&mut self) {
        loop {
            let [asked, _] =
                channel::wait_readable([self.channel.as_fd(), self.signals.as_fd()], None);
            sys::drain(&self.signals);
            self.reap();
            if asked && self.obey().is_none() {
                break;
            }
        }
        // Each supervisor has read end-of-file as well and ends its tree. Some
        // have ended by now, and are reaped here already.
        let mut left = self.supervisors.clone();
        tree::end_descendants(Duration::ZERO, &self.supervisors, &mut |pid, _| {
            left.remove(&number(pid));
        });
        let deadline = std::time::Instant::now() + LAST_GRACE;
        while !left.is_empty() && std::time::Instant::now() < deadline {
            channel::wait_readable([self.signals.as_fd()], Some(Duration::from_millis(100)));
            sys::drain(&self.signals);
            while let Ok(Some((pid, _))) = rustix::process::wait(WaitOptions::NOHANG) {
                left.remove(&number(pid));
            }
        }
        tree::end_descendants(Duration::ZERO, &HashSet::new(), &mut |_, _| ());
    }

    /// Reaps supervisors. One that did not end by itself was killed, and what
    /// it watched over has become this process's own.
    fn reap(&mut self) {
        let mut orphaned = false;
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let known = self.supervisors.remove(&pid.as_raw_pid().unsigned_abs());
            orphaned |= !known || !status.exited();
        }
        if orphaned {
            let supervisors = &mut self.supervisors;
            let spare = supervisors.clone();
            tree::end_descendants(Duration::ZERO, &spare, &mut |pid, _| {
                supervisors.remove(&pid.as_raw_pid().unsigned_abs());
            });
        }
    }

    /// One message of the server; `None` when it is gone.
    fn obey(&mut self) -> Option<()> {
        let message = match channel::receive(self.channel.as_fd()) {
            Ok(message) if !message.bytes.is_empty() => message,
            Err(Errno::AGAIN | Errno::INTR) => return Some(()),
            _ => return None,
        };
        let mut fds = message.fds.into_iter();
        match message.bytes.first() {
            Some(&Message::POLICY) => {
                let parts = channel::from_memfd(fds.next()?).ok()?;
                self.policies
                    .push(Enforcement::from_parts(fds.next(), &parts).ok()?);
            }
            Some(&Message::SUPERVISOR) => {
                let number = message.bytes.get(1..)?.try_into().ok()?;
                self.supervise(u32::from_le_bytes(number), &fds.next()?);
            }
            _ => return None,
        }
        Some(())
    }

    /// Forks a supervisor that waits for a command of one policy on `control`.
    fn supervise(&mut self, number: u32, control: &OwnedFd) {
        let refuse = |step, errno| supervisor::report(control, Report::NotStarted { step, errno });
        let index = usize::try_from(number).ok();
        let Some(policy) = index.and_then(|index| self.policies.get(index)) else {
            return refuse(Step::Sandbox, libc::EINVAL);
        };
        match sys::fork_single_threaded() {
            Ok(Fork::Parent(pid)) => {
                self.supervisors.insert(self::number(pid));
            }
            Ok(Fork::Child) => {
                // The channel must not stay open here: its end is how the
                // server learns that the companion is gone.
                sys::close_for_good(self.channel);
                sys::close_for_good(&self.signals);
                let _ = rustix::thread::set_name(c"ollie-call");
                supervisor::run(number, policy, control);
                sys::exit_now(0)
            }
            Err(error) => refuse(Step::Fork, error.raw_os_error().unwrap_or(libc::EAGAIN)),
        }
    }
}

/// First bytes of the messages from the server.
pub(crate) struct Message;

impl Message {
    /// A policy: its parts in a memfd, and the ruleset if there is one.
    pub(crate) const POLICY: u8 = b'P';
    /// A supervisor to be forked: the number of the policy whose commands it
    /// is for, 4 bytes little-endian, and its control channel.
    const SUPERVISOR: u8 = b'S';

    /// Asks for a supervisor of a policy.
    pub(crate) fn supervisor(policy: u32) -> [u8; 5] {
        let [a, b, c, d] = policy.to_le_bytes();
        [Self::SUPERVISOR, a, b, c, d]
    }
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_pid().unsigned_abs()
}

/// Points the standard streams at /dev/null.
fn silence() {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(null) = rustix::fs::open("/dev/null", flags, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
