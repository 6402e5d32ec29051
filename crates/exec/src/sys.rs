//! The basement: fork, the steps between fork and exec, signalfd.
#![expect(unsafe_code, reason = "fork(2) and execve(2) have no safe interface")]

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use ollie_sandbox::Entered;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::thread::futex::{self, Timespec};
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

/// What companion and supervisors ignore: a terminal's Ctrl-C goes to its whole
/// foreground group, and they end when their server does and not before. Rust
/// ignores SIGPIPE; with it ignored a command's pipelines would never end.
const IGNORED: [i32; 4] = [libc::SIGINT, libc::SIGHUP, libc::SIGTERM, libc::SIGPIPE];

/// Ignores those signals from now on.
pub(crate) fn ignore_signals() {
    for signal in IGNORED {
        // SAFETY: SIG_IGN is a valid disposition for each of them.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
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

/// Stack of a process that borrows memory. It parses a command and makes
/// system calls; only what it touches becomes memory.
const STACK: usize = 256 * 1024;

/// Starts a process that borrows this one's memory (CLONE_VM, clone(2)), has
/// it do `run`, and returns once it has become another program or has ended.
///
/// Nothing is copied, and what `run` leaves in memory is found here. It may do
/// anything that the caller could do meanwhile, which sleeps: it is as if the
/// caller itself did it, in another process. When `run` returns that process
/// ends. What it has allocated and not freed stays allocated.
///
/// # Errors
/// EAGAIN and ENOMEM of clone(2).
pub(crate) fn lend_memory(mut run: &mut dyn FnMut()) -> io::Result<Pid> {
    struct Loan<'a> {
        run: &'a mut dyn FnMut(),
        state: &'a AtomicU32,
    }
    extern "C" fn begin(loan: *mut libc::c_void) -> libc::c_int {
        // SAFETY: it is the pointer that was given to clone below, whose
        // caller sleeps and does not use it meanwhile.
        let loan = unsafe { &mut *loan.cast::<Loan<'_>>() };
        // SAFETY: the address outlives this process's use of the memory, since
        // the caller waits for what the kernel writes there.
        unsafe { libc::syscall(libc::SYS_set_tid_address, loan.state.as_ptr()) };
        loan.state.store(BORROWED, Ordering::Release);
        let _ = futex::wake(loan.state, futex::Flags::empty(), 1);
        (loan.run)();
        exit_now(127)
    }
    // The kernel sets it to zero and wakes who waits for that when the process
    // lets go of the memory (set_tid_address(2); musl's clone refuses the flag
    // that asks for the same). With CLONE_VFORK it would make this one wait by
    // itself, in a state that counts as load.
    let state = AtomicU32::new(STARTING);
    let mut loan = Loan {
        run: &mut run,
        state: &state,
    };
    // Aligned as every ABI asks for.
    let mut stack = vec![0u128; STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::SIGCHLD;
    // SAFETY: there is one thread, and until `state` is zero it does nothing
    // but make the system calls that wait for that, which touch no memory but
    // its own stack. So the two never change the same memory at once, and the
    // stack and `loan` outlive the use of them. The stack grows down from its
    // end on every machine this is built for.
    let child = unsafe {
        libc::clone(
            begin,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            (&raw mut loan).cast(),
        )
    };
    let Some(child) = Pid::from_raw(child).filter(|_| child > 0) else {
        return Err(io::Error::last_os_error());
    };
    await_return(child, &state);
    Ok(child)
}

/// The process of [`lend_memory`] has not begun.
const STARTING: u32 = 2;
/// It uses the memory.
const BORROWED: u32 = 1;

/// Waits until the process of [`lend_memory`] has let go of the memory.
fn await_return(child: Pid, state: &AtomicU32) {
    loop {
        // Not a private futex: the kernel wakes as for a shared one.
        match state.load(Ordering::Acquire) {
            0 => return,
            BORROWED => {
                let _ = futex::wait(state, futex::Flags::empty(), BORROWED, None);
            }
            // Killed now, it would never tell.
            starting => {
                let _ = futex::wait(state, futex::Flags::empty(), starting, Some(&START_LOOK));
                let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                if matches!(waitid(WaitId::Pid(child), look), Ok(Some(_)))
                    && state.load(Ordering::Acquire) == starting
                {
                    return;
                }
            }
        }
    }
}

/// How often a process that has not begun is looked at.
const START_LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Separates the calling process from its parent's session and signals, as far
/// as that can be done before it is needed.
///
/// # Errors
/// The errno of prctl(2) or setsid(2).
pub(crate) fn leave_home() -> Result<(), i32> {
    // SAFETY: integers only.
    unsafe {
        // The supervisor is the parent: if it is killed, so is the command.
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::setsid() < 0 {
            return Err(errno());
        }
        // An ignored signal stays ignored across exec (signal(7)).
        for signal in (1..=64).filter(|signal| !IGNORED.contains(signal)) {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    Ok(())
}

/// What becomes of the calling process.
#[derive(Debug)]
pub(crate) struct Become {
    pub(crate) candidates: Vec<CString>,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) cwd: CString,
}

/// The descriptors that come with it.
pub(crate) struct Files {
    pub(crate) stdio: [OwnedFd; 3],
    /// The working directory, where it is to be none but this one.
    pub(crate) directory: Option<OwnedFd>,
}

/// Becomes the command; returns only if a step failed.
pub(crate) fn exec(what: &Become, files: &Files, entered: Entered<'_>) -> (Step, i32) {
    let (argv, env) = (pointers(&what.argv), pointers(&what.env));
    // SAFETY: plain system calls on values that outlive them.
    unsafe {
        // The descriptors are all above 2: the supervisor has those three.
        for (target, fd) in (0..).zip(&files.stdio) {
            if libc::dup2(fd.as_raw_fd(), target) < 0 {
                return (Step::Stdio, errno());
            }
        }
        let cwd = match &files.directory {
            Some(directory) => libc::fchdir(directory.as_raw_fd()),
            None => libc::chdir(what.cwd.as_ptr()),
        };
        if cwd != 0 {
            return (Step::Cwd, errno());
        }
        // It may have been moved, or removed, and its name be another's.
        if files.directory.is_some()
            && !rustix::process::getcwd(Vec::new()).is_ok_and(|name| name == what.cwd)
        {
            return (Step::Cwd, libc::ESTALE);
        }
        for signal in IGNORED {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    if let Err((_, code)) = entered.finish() {
        return (Step::Sandbox, code);
    }
    close_all_but(2);
    let mut denied = None;
    let mut last = libc::ENOENT;
    for path in &what.candidates {
        // SAFETY: both lists end with a null pointer.
        unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
        last = errno();
        match last {
            libc::ENOEXEC => return (Step::Exec, exec_script(path, &what.argv, &env)),
            libc::EACCES => denied = Some(last),
            libc::ENOENT | libc::ENOTDIR => {}
            _ => return (Step::Exec, last),
        }
    }
    (Step::Exec, denied.unwrap_or(last))
}

/// Gives a text file without `#!` to sh, as execvp(3) does. The errno if that
/// fails: the file's own.
fn exec_script(path: &CStr, argv: &[CString], env: &[*const c_char]) -> i32 {
    let mut script = pointers(argv);
    script.splice(
        ..script.len().min(2) - 1,
        [c"/bin/sh".as_ptr(), path.as_ptr()],
    );
    // SAFETY: both lists end with a null pointer.
    unsafe { libc::execve(script[0], script.as_ptr(), env.as_ptr()) };
    libc::ENOEXEC
}

/// The list as execve(2) takes it: with a null pointer at its end.
fn pointers(list: &[CString]) -> Vec<*const c_char> {
    let end = std::iter::once(std::ptr::null());
    list.iter().map(|text| text.as_ptr()).chain(end).collect()
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
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
