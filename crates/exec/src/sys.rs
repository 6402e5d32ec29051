//! The basement: fork, the steps between fork and exec, signalfd.
#![expect(unsafe_code, reason = "fork(2) and execve(2) have no safe interface")]

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use ollie_sandbox::Enforcement;
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::supervisor::Step;

/// The side of a fork one is on.
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old one, with the number of the new one.
    Parent(Pid),
}

/// fork(2), for a process with a single thread: the child may do anything.
///
/// # Errors
/// EAGAIN and ENOMEM of fork(2), and EBUSY if there is another thread, whose
/// locks the child would find locked for ever.
pub(crate) fn fork() -> io::Result<Fork> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    fork_single_threaded()
}

/// fork(2) without the look at the threads, for the companion, which starts
/// none: the look costs more than the fork.
pub(crate) fn fork_single_threaded() -> io::Result<Fork> {
    // SAFETY: there is one thread, so no lock is held by another: `fork` has
    // just looked, or made this very process, which starts none.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Pid::from_raw(pid)
            .map(Fork::Parent)
            .ok_or_else(io::Error::last_os_error),
    }
}

/// Ends this process at once: no destructors, no exit handlers, which belong
/// to the process that was forked from.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) has no preconditions.
    unsafe { libc::_exit(status) }
}

/// Blocks SIGCHLD and returns a descriptor that becomes readable with it
/// (signalfd(2)).
pub(crate) fn sigchld_fd() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before anything reads it.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Forgets the SIGCHLDs that have been announced.
pub(crate) fn drain(signal_fd: &OwnedFd) {
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>() * 8];
    while rustix::io::read(signal_fd, &mut buffer).is_ok_and(|read| read > 0) {}
}

/// Ignores a signal, or obeys it again.
pub(crate) fn ignore(signal: i32) {
    // SAFETY: SIG_IGN is a valid disposition for every signal given here.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Closes every descriptor above 2 except `keep` (close_range(2), Linux 5.9;
/// one by one before that).
pub(crate) fn close_all_but(keep: RawFd) {
    let close = |first: RawFd, last: RawFd| {
        if first > last {
            return;
        }
        // SAFETY: the callers use no other descriptor again.
        let done = unsafe {
            libc::syscall(
                libc::SYS_close_range,
                first.unsigned_abs(),
                last.unsigned_abs(),
                0u32,
            )
        };
        if done != 0 {
            // The processes of this crate hold a few dozen at most, and were
            // started with no more than the usual limit of a shell.
            for fd in first..=last.min(1024) {
                // SAFETY: as above.
                unsafe { libc::close(fd) };
            }
        }
    };
    close(3, keep - 1);
    close(keep.max(2) + 1, RawFd::MAX);
}

/// Everything the child needs, made before the fork.
pub(crate) struct Exec<'a> {
    pub(crate) candidates: &'a [CString],
    pub(crate) argv: &'a [CString],
    pub(crate) env: &'a [CString],
    pub(crate) cwd: &'a CString,
    pub(crate) stdio: [OwnedFd; 3],
    pub(crate) enforcement: &'a Enforcement,
    /// Where the child sends the listener of its filter, if it has one.
    pub(crate) gate: Option<BorrowedFd<'a>>,
}

/// Stack of the child between clone and exec. It calls system calls and a few
/// small functions.
const STACK: usize = 64 * 1024;

/// What parent and child share while the child has no memory of its own.
struct Shared<'a> {
    exec: &'a Exec<'a>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    script: Vec<*const c_char>,
    failure: Option<(Step, i32)>,
}

/// Starts the command in a new process and waits until it runs.
///
/// The child borrows this process's memory until it has become the command
/// (CLONE_VM and CLONE_VFORK, clone(2)): nothing is copied, and a failure is
/// simply written where the parent finds it.
///
/// # Errors
/// The step that failed and its errno.
pub(crate) fn spawn(exec: &Exec<'_>) -> Result<Pid, (Step, i32)> {
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        let end = std::iter::once(std::ptr::null());
        list.iter().map(|text| text.as_ptr()).chain(end).collect()
    };
    let argv = pointers(exec.argv);
    // A text file without `#!` is given to sh, as execvp(3) does.
    let script = [c"/bin/sh".as_ptr(), std::ptr::null()]
        .into_iter()
        .chain(argv.iter().skip(1).copied())
        .collect();
    let mut shared = Shared {
        exec,
        argv,
        env: pointers(exec.env),
        script,
        failure: None,
    };
    // Aligned as every ABI asks for.
    let mut stack = vec![0u128; STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: there is one thread, and CLONE_VFORK stops it until the child
    // has let go of the memory, so nobody else touches `shared` or the stack
    // meanwhile; both outlive the child's use of them. The stack grows down
    // from its end on every machine this is built for.
    let child = unsafe {
        let top = stack.as_mut_ptr_range().end;
        libc::clone(become_command, top.cast(), flags, (&raw mut shared).cast())
    };
    let errno = io::Error::last_os_error().raw_os_error();
    let Some(child) = Pid::from_raw(child).filter(|_| child > 0) else {
        return Err((Step::Fork, errno.unwrap_or(libc::EAGAIN)));
    };
    // SAFETY: the child wrote it through the pointer that clone was given.
    match unsafe { (&raw const shared.failure).read_volatile() } {
        None => Ok(child),
        Some(failure) => {
            let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
            Err(failure)
        }
    }
}

/// The child's main function; it returns only if a step failed.
extern "C" fn become_command(shared: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `spawn` passes a pointer to its `Shared` and waits.
    let shared = unsafe { &mut *shared.cast::<Shared<'_>>() };
    // SAFETY: this is the child, and the lists end with a null pointer.
    let failure = unsafe { enter(shared.exec, &shared.argv, &shared.env, &mut shared.script) };
    shared.failure = Some(failure);
    exit_now(127)
}

/// The child's way from fork to exec. Returns only if a step failed.
///
/// # Safety
/// Only in the child, and `argv`, `env` and `script` end with a null pointer.
unsafe fn enter(
    exec: &Exec<'_>,
    argv: &[*const c_char],
    env: &[*const c_char],
    script: &mut [*const c_char],
) -> (Step, i32) {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(0);
    // SAFETY: plain system calls on values that outlive them.
    unsafe {
        // The supervisor is the parent: if it is killed, so is the command.
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::setsid() < 0 {
            return (Step::Session, errno());
        }
        // The descriptors are all above 2: the supervisor has those three.
        for (target, fd) in (0..).zip(&exec.stdio) {
            if libc::dup2(fd.as_raw_fd(), target) < 0 {
                return (Step::Stdio, errno());
            }
        }
        if libc::chdir(exec.cwd.as_ptr()) != 0 {
            return (Step::Cwd, errno());
        }
        // An ignored signal stays ignored across exec (signal(7)), and Rust
        // ignores SIGPIPE: a pipeline would never end.
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    if let Err((_, code)) = exec.enforcement.restrict_self(exec.gate) {
        return (Step::Sandbox, code);
    }
    // SAFETY: as above.
    unsafe {
        close_all_but(2);
        let mut denied = None;
        let mut last = libc::ENOENT;
        for path in exec.candidates {
            libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr());
            last = errno();
            if last == libc::ENOEXEC {
                script[1] = path.as_ptr();
                libc::execve(script[0], script.as_ptr(), env.as_ptr());
                return (Step::Exec, libc::ENOEXEC);
            }
            match last {
                libc::EACCES => denied = Some(last),
                libc::ENOENT | libc::ENOTDIR => {}
                _ => return (Step::Exec, last),
            }
        }
        (Step::Exec, denied.unwrap_or(last))
    }
}

/// Closes the descriptor of a value that this process neither uses nor drops
/// again: it ends by [`exit_now`], which runs no destructor.
pub(crate) fn close_for_good(fd: &OwnedFd) {
    // SAFETY: nobody uses the number after this, as said above.
    unsafe { libc::close(fd.as_raw_fd()) };
}

/// Registers a descriptor with the tokio runtime one is in.
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always names the same open file while it lives,
    // which is all that is asked of the value.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE | Interest::WRITABLE) }
        .map_err(Into::into)
}
