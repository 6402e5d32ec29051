//! Attempts with pairs of datagram sockets.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::attempt_socket::{address, check, connect_to, socket, two};

/// Whether one of these words is understood, and what came of it.
pub(crate) fn attempt(words: &[&str]) -> Option<Result<()>> {
    Some(match words {
        ["pair-messages"] => pair_messages(),
        ["pair-kept"] => pair_kept(),
        ["pair-nonsense"] => pair_nonsense(),
        ["pair-sendto", path] => pair_sendto(path),
        _ => return None,
    })
}

fn send(socket: &OwnedFd, text: &[u8], to: Option<&libc::sockaddr_un>) -> Result<()> {
    let (address, length) = match to {
        Some(address) => (std::ptr::from_ref(address).cast(), size_of_val(address)),
        None => (std::ptr::null(), 0),
    };
    // SAFETY: the text and the address, with their lengths.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            text.as_ptr().cast(),
            text.len(),
            libc::MSG_NOSIGNAL,
            address,
            length as u32,
        )
    };
    check(sent as i32).map(drop)
}

/// One message; without waiting.
fn receive(socket: &OwnedFd) -> Result<Vec<u8>> {
    let mut room = [0u8; 64];
    // SAFETY: there is room for 64.
    let length = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            room.as_mut_ptr().cast(),
            64,
            libc::MSG_DONTWAIT,
        )
    };
    Ok(room[..check(length as i32)? as usize].to_vec())
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should: T) -> Result<()> {
    match (is, should) {
        (is, should) if is == should => Ok(()),
        (is, should) => Err(Error::other(format!("{what}: {is:?} and not {should:?}"))),
    }
}

fn errno_of<T>(answer: Result<T>) -> i32 {
    answer.err().and_then(|e| e.raw_os_error()).unwrap_or(0)
}

/// Messages of a pair of datagram sockets, both ways and as long as they were,
/// and the flags that were asked for.
fn pair_messages() -> Result<()> {
    for flags in [
        0,
        libc::SOCK_CLOEXEC,
        libc::SOCK_NONBLOCK,
        libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
    ] {
        let [one, other] = two(libc::SOCK_DGRAM | flags)?;
        for (from, to) in [(&one, &other), (&other, &one)] {
            send(from, b"first", None)?;
            send(from, b"second message", None)?;
            expect("the first", receive(to)?, b"first".to_vec())?;
            expect("the second", receive(to)?, b"second message".to_vec())?;
            expect("no third", errno_of(receive(to)), libc::EAGAIN)?;
        }
        for end in [&one, &other] {
            // SAFETY: integers.
            let (fd, status) = unsafe {
                (
                    libc::fcntl(end.as_raw_fd(), libc::F_GETFD),
                    libc::fcntl(end.as_raw_fd(), libc::F_GETFL),
                )
            };
            expect("close on exec", fd != 0, flags & libc::SOCK_CLOEXEC != 0)?;
            expect(
                "not blocking",
                status & libc::O_NONBLOCK != 0,
                flags & libc::SOCK_NONBLOCK != 0,
            )?;
        }
    }
    Ok(())
}

/// A pair stays one: its ends cannot be connected to anything else. (A pair of
/// datagram sockets of the kernel can.)
fn pair_kept() -> Result<()> {
    let [one, other] = two(libc::SOCK_DGRAM)?;
    let path = format!("kept-{}", std::process::id());
    let server = socket(libc::AF_UNIX, libc::SOCK_SEQPACKET)?;
    let there = address(&path);
    // SAFETY: an address of that size; a socket that is bound.
    unsafe {
        check(libc::bind(
            server.as_raw_fd(),
            (&raw const there).cast(),
            size_of_val(&there) as u32,
        ))?;
        check(libc::listen(server.as_raw_fd(), 1))?;
    }
    let again = connect_to(one.as_raw_fd(), &there);
    expect("connected again", errno_of(again), libc::EISCONN)?;
    let mut nowhere = there;
    nowhere.sun_family = libc::AF_UNSPEC as u16;
    let loose = connect_to(one.as_raw_fd(), &nowhere);
    expect("disconnected", errno_of(loose), libc::EINVAL)?;
    // SAFETY: a descriptor that is open.
    let listens = check(unsafe { libc::listen(one.as_raw_fd(), 1) });
    expect("listens", errno_of(listens), libc::EINVAL)?;
    send(&one, b"still", None)?;
    expect("the other end", receive(&other)?, b"still".to_vec())
}

/// What the kernel answers for a bad pointer, bad flags, and descriptors that
/// run out; and that nothing is left of it.
fn pair_nonsense() -> Result<()> {
    let open = || std::fs::read_dir("/proc/self/fd").map(Iterator::count);
    let before = open()?;
    let ask = |kind: i32, at: *mut i32| {
        // SAFETY: the kernel checks the pointer, that is the point.
        errno_of(check(unsafe {
            libc::socketpair(libc::AF_UNIX, kind, 0, at)
        }))
    };
    let mut fds = [0; 2];
    // SAFETY: a page that may be read and not written to, and one that may not
    // be touched behind it.
    let page: *mut i32 = unsafe {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(
            std::ptr::null_mut(),
            8192,
            libc::PROT_READ | libc::PROT_WRITE,
            kind,
            -1,
            0,
        );
        libc::mprotect(pages.cast::<u8>().add(4096).cast(), 4096, libc::PROT_READ);
        pages.cast()
    };
    let dgram = libc::SOCK_DGRAM;
    expect("null", ask(dgram, std::ptr::null_mut()), libc::EFAULT)?;
    expect(
        "read only",
        ask(dgram, page.wrapping_add(1024)),
        libc::EFAULT,
    )?;
    expect("half", ask(dgram, page.wrapping_add(1023)), libc::EFAULT)?;
    expect("flags", ask(dgram | 0x100, fds.as_mut_ptr()), libc::EINVAL)?;
    expect("left behind", open()?, before)?;
    // All numbers but one are taken.
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a structure that outlives the calls; the descriptors are those
    // of this process.
    unsafe {
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        limit.rlim_cur = 64;
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit))?;
        while libc::dup(0) >= 0 {}
        libc::close(63);
    }
    expect("one number", ask(dgram, fds.as_mut_ptr()), libc::EMFILE)?;
    // SAFETY: integers.
    let free = unsafe { libc::fcntl(63, libc::F_GETFD) };
    expect("not left behind", free, -1)?;
    // SAFETY: a descriptor of this process.
    unsafe { libc::close(62) };
    expect("two numbers", ask(dgram, fds.as_mut_ptr()), 0)?;
    fds.sort_unstable();
    expect("the lowest", fds, [62, 63])
}

/// A message with the address of a server outside, on a pair. An error where
/// the other end gets it instead, or nobody.
fn pair_sendto(path: &str) -> Result<()> {
    let [one, other] = two(libc::SOCK_DGRAM)?;
    send(&one, b"hello", Some(&address(path)))?;
    match receive(&other) {
        Ok(text) => Err(Error::other(format!(
            "the other end got {} bytes",
            text.len()
        ))),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(()),
        Err(error) => Err(error),
    }
}
