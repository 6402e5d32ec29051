//! The threads that answer a call's questions.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::gate::GateRules;
use super::sys::notify::{self, Address, Question};
use super::sys::pair;

/// The most connections that one call can have waiting in connect(2). One
/// that would be the next waits its turn.
const THREADS: usize = 256;

/// They resolve paths of 4 KiB and allocate the rest.
const STACK: usize = 128 * 1024;

struct Doormen {
    listener: OwnedFd,
    rules: GateRules,
    idle: AtomicUsize,
    all: AtomicUsize,
}

/// Starts the first of them.
pub(crate) fn start(listener: OwnedFd, rules: GateRules) -> io::Result<()> {
    one_more(&Arc::new(Doormen {
        listener,
        rules,
        idle: AtomicUsize::new(0),
        all: AtomicUsize::new(0),
    }))
}

fn one_more(doormen: &Arc<Doormen>) -> io::Result<()> {
    let mine = Arc::clone(doormen);
    doormen.idle.fetch_add(1, Ordering::Relaxed);
    doormen.all.fetch_add(1, Ordering::Relaxed);
    let started = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || stand(&mine))
        .map(drop);
    if started.is_err() {
        doormen.idle.fetch_sub(1, Ordering::Relaxed);
        doormen.all.fetch_sub(1, Ordering::Relaxed);
    }
    started
}

/// One thread's life. A connection may block for minutes, so before it goes
/// to work another one waits at the door.
fn stand(doormen: &Arc<Doormen>) {
    // A tool has none, so what acts for it must have none. Otherwise nothing
    // is answered here: with the last thread the listener is closed, and
    // connect(2) is ENOSYS.
    if super::sys::drop_thread_capabilities().is_err() {
        return;
    }
    while let Some(question) = notify::next(doormen.listener.as_fd()) {
        let waiting = doormen.idle.fetch_sub(1, Ordering::Relaxed) - 1;
        if waiting == 0 && doormen.all.load(Ordering::Relaxed) < THREADS {
            // Failing means that the next question waits for this one.
            let _ = one_more(doormen);
        }
        let answer = answer(&question, &doormen.rules);
        notify::answer(doormen.listener.as_fd(), question.id, answer);
        doormen.idle.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes the connection or the pair that was asked for, or says with which errno it fails.
fn answer(question: &Question, rules: &GateRules) -> Result<(), i32> {
    if question.is_for_a_pair() {
        return pair::of_packets(question);
    }
    // From here on the number of the descriptor and the memory of the process
    // do not matter any more: this is the socket, and this is the address.
    let socket = notify::socket_of(question)?;
    let unix = notify::is_unix(socket.as_fd())?;
    let address = notify::address_of(question)?;
    let Some(path) = address.path().filter(|_| unix) else {
        // The internet, an abstract name, or nonsense. A socket that is not a
        // Unix one reaches no path whatever the address says.
        return notify::connect(socket.as_fd(), &address);
    };
    let found = notify::find(&absolute(path, question.thread))?;
    let there = format!("/proc/self/fd/{}", found.as_raw_fd());
    let name =
        std::fs::read_link(&there).map_err(|error| error.raw_os_error().unwrap_or(libc::EACCES))?;
    if !notify::is_socket(found.as_fd()) {
        // As the kernel answers for what is no socket (unix(7)).
        return Err(libc::ECONNREFUSED);
    }
    if !rules.allow(&name) {
        return Err(libc::EACCES);
    }
    // By its descriptor: the file that was looked at, wherever it is by now.
    notify::connect(socket.as_fd(), &Address::of_path(&there)?)
}

/// The path as the asking thread means it. What only the process itself may
/// say, `/proc/self`, is said with its number.
fn absolute(path: &[u8], thread: u32) -> PathBuf {
    let own = Path::new("/proc").join(thread.to_string());
    let path = Path::new(OsStr::from_bytes(path));
    for name in ["/proc/self", "/proc/thread-self"] {
        if let Ok(rest) = path.strip_prefix(name) {
            return own.join(rest);
        }
    }
    if path.is_absolute() {
        return path.to_owned();
    }
    own.join("cwd").join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_meant_as_the_asking_thread_means_it() {
        for (path, meant) in [
            ("/run/x", "/run/x"),
            ("x/y", "/proc/7/cwd/x/y"),
            ("/proc/self/fd/3/x", "/proc/7/fd/3/x"),
            ("/proc/thread-self/cwd", "/proc/7/cwd"),
            ("/proc/selfish/x", "/proc/selfish/x"),
        ] {
            assert_eq!(absolute(path.as_bytes(), 7), Path::new(meant));
        }
    }
}
