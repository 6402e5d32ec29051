//! The child that a supervisor starts before there is a command: it confines
//! itself, waits for the command, and becomes it.

use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use ollie_sandbox::{Enforcement, Entered};

use crate::supervisor::Step;
use crate::sys::{Become, Files};
use crate::{Command, channel, sys};

/// What it leaves in the memory that it shares with its supervisor.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// The grace of the command; none if no command came.
    pub(crate) grace: Option<Duration>,
    /// Why it did not become the command.
    pub(crate) failure: Option<(Step, i32)>,
}

/// Its life until it becomes the command; returns only if it does not.
pub(crate) fn live(
    policy: u32,
    enforcement: &Enforcement,
    gate: Option<BorrowedFd<'_>>,
    control: &OwnedFd,
    left: &mut Left,
) {
    // Nothing that fails here is told before somebody asks for something.
    let entered = sys::leave_home()
        .map_err(|errno| (Step::Session, errno))
        .and_then(|()| enforcement.enter(gate).map_err(sandbox));
    let Some((command, files)) = receive(control) else {
        return;
    };
    // Of a start that fails late nothing but the standard streams is open any
    // more: these must not be closed twice.
    let files = ManuallyDrop::new(files);
    left.grace = Some(Duration::from_millis(command.grace_ms));
    let Err(failure) = entered.and_then(|entered| obey(policy, &command, &files, entered));
    left.failure = Some(failure);
}

fn obey(
    policy: u32,
    command: &Command,
    files: &Files,
    entered: Entered<'_>,
) -> Result<std::convert::Infallible, (Step, i32)> {
    if command.policy != policy {
        return Err((Step::Sandbox, libc::EINVAL));
    }
    // A descriptor that got lost must not make a path of it.
    if command.pinned && files.directory.is_none() {
        return Err((Step::Cwd, libc::EBADF));
    }
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| (Step::Exec, libc::EINVAL));
    let what = Become {
        candidates: command
            .candidates()
            .iter()
            .map(|path| text(path))
            .collect::<Result<_, _>>()?,
        argv: command
            .argv
            .iter()
            .map(|arg| text(arg.as_bytes()))
            .collect::<Result<_, _>>()?,
        env: command
            .env
            .iter()
            .map(|entry| text(entry.as_bytes()))
            .collect::<Result<_, _>>()?,
        cwd: text(command.cwd.as_bytes())?,
    };
    Err(sys::exec(&what, files, entered))
}

fn receive(control: &OwnedFd) -> Option<(Command, Files)> {
    let message = channel::receive(control.as_fd()).ok()?;
    let mut fds = message.fds.into_iter();
    let stdio = [fds.next()?, fds.next()?, fds.next()?];
    let json = match message.bytes.as_slice() {
        channel::LONG => channel::from_memfd(fds.next()?).ok()?,
        _ => message.bytes,
    };
    let directory = fds.next();
    let files = Files { stdio, directory };
    Some((serde_json::from_slice(&json).ok()?, files))
}

fn sandbox<T>((_, errno): (T, i32)) -> (Step, i32) {
    (Step::Sandbox, errno)
}
