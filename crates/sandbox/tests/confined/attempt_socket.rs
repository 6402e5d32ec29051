//! Attempts with sockets that take more than one call.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Whether one of these words is understood, and what came of it.
pub(crate) fn attempt(words: &[&str]) -> Option<Result<()>> {
    Some(match words {
        ["unix", kind, path] => kind_of(kind).and_then(|kind| connect(kind, path)),
        ["unix-relative", directory, name] => {
            std::env::set_current_dir(directory).and_then(|()| connect(libc::SOCK_STREAM, name))
        }
        ["unix-by-fd", directory, name] => by_fd(libc::SOCK_STREAM, directory, name),
        ["unix-pair", kind] => kind_of(kind).and_then(pair),
        ["own-abstract"] => own_abstract(),
        ["own-kinds", directory] => own_kinds(directory),
        ["echo", directory, rounds] => echo(directory, rounds.parse().unwrap_or(0)),
        ["rewrite", ours, theirs, rounds] => rewrite(ours, theirs, rounds.parse().unwrap_or(0)),
        ["swap", theirs, rounds] => swap(theirs, rounds.parse().unwrap_or(0)),
        ["swap-link", directory, theirs, rounds] => {
            swap_link(directory, theirs, rounds.parse().unwrap_or(0))
        }
        ["full-backlog", directory] => full_backlog(directory),
        ["bad-addresses"] => bad_addresses(),
        ["parallel", directory] => parallel(directory),
        ["undumpable", directory] => undumpable(directory),
        _ => return None,
    })
}

fn kind_of(word: &str) -> Result<i32> {
    match word {
        "stream" => Ok(libc::SOCK_STREAM),
        "datagram" => Ok(libc::SOCK_DGRAM),
        "raw" => Ok(libc::SOCK_RAW),
        "packets" => Ok(libc::SOCK_SEQPACKET),
        _ => Err(Error::from_raw_os_error(libc::EINVAL)),
    }
}

pub(crate) fn check(answer: i32) -> Result<i32> {
    match answer {
        0.. => Ok(answer),
        _ => Err(Error::last_os_error()),
    }
}

pub(crate) fn socket(family: i32, kind: i32) -> Result<OwnedFd> {
    // SAFETY: integers; the descriptor is new.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?)) }
}

pub(crate) fn address(path: &str) -> libc::sockaddr_un {
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as u16,
        sun_path: [0; 108],
    };
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    address
}

pub(crate) fn connect_to(fd: i32, address: *const libc::sockaddr_un) -> Result<()> {
    // SAFETY: the address is of that size, whatever is in it.
    let answer =
        unsafe { libc::connect(fd, address.cast(), size_of::<libc::sockaddr_un>() as u32) };
    check(answer).map(drop)
}

fn connect(kind: i32, path: &str) -> Result<()> {
    let socket = socket(libc::AF_UNIX, kind)?;
    connect_to(socket.as_raw_fd(), &address(path))
}

/// The way around the 108 bytes that a path may have.
fn by_fd(kind: i32, directory: &str, name: &str) -> Result<()> {
    let directory = std::fs::File::open(directory)?;
    let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
    connect(kind, &path)
}

fn pair(kind: i32) -> Result<()> {
    two(kind).map(drop)
}

pub(crate) fn two(kind: i32) -> Result<[OwnedFd; 2]> {
    let mut fds = [0; 2];
    // SAFETY: room for two, both of which are new.
    unsafe {
        check(libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()))?;
        Ok(fds.map(|fd| OwnedFd::from_raw_fd(fd)))
    }
}

fn own_abstract() -> Result<()> {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("ollie-own-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address)?;
    let _client = UnixStream::connect_addr(&address)?;
    listener.accept().map(drop)
}

/// A server and a client for each kind, by every way to say where.
fn own_kinds(directory: &str) -> Result<()> {
    std::env::set_current_dir(directory)?;
    for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
        let _ = std::fs::remove_file("own.sock");
        let server = socket(libc::AF_UNIX, kind)?;
        let there = address("own.sock");
        let length = size_of::<libc::sockaddr_un>() as u32;
        // SAFETY: an address of that size; a listening socket.
        unsafe {
            check(libc::bind(
                server.as_raw_fd(),
                (&raw const there).cast(),
                length,
            ))?;
            check(libc::listen(server.as_raw_fd(), 8))?;
        }
        let absolute = std::env::current_dir()?.join("own.sock");
        connect(kind, "own.sock")?;
        connect(kind, "./own.sock")?;
        connect(kind, absolute.to_str().unwrap_or_default())?;
        connect(kind, "/proc/self/cwd/own.sock")?;
        let _ = std::fs::remove_file("link");
        std::os::unix::fs::symlink("own.sock", "link")?;
        connect(kind, "link")?;
        by_fd(kind, ".", "own.sock")?;
    }
    Ok(())
}

/// Bytes through a connection that was made at the gate.
fn echo(directory: &str, rounds: usize) -> Result<()> {
    use std::io::{Read, Write};
    let path = format!("{directory}/echo.sock");
    let listener = UnixListener::bind(&path)?;
    let server = std::thread::spawn(move || -> Result<()> {
        for _ in 0..rounds {
            let (mut stream, _) = listener.accept()?;
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            stream.write_all(&byte)?;
        }
        Ok(())
    });
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        let mut stream = UnixStream::connect(&path)?;
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])?;
    }
    let _ = std::fs::write(
        "echo-ns",
        (start.elapsed().as_nanos() / rounds as u128).to_string(),
    );
    server.join().unwrap_or(Ok(()))
}

/// One thread connects, another changes the address all the time.
fn rewrite(ours: &str, theirs: &str, rounds: usize) -> Result<()> {
    let listener = UnixListener::bind(ours)?;
    listener.set_nonblocking(true)?;
    let shared: &'static mut libc::sockaddr_un = Box::leak(Box::new(address(ours)));
    let there = AtomicPtr::new(std::ptr::from_mut(shared));
    let stop = AtomicBool::new(false);
    let paths = [address(ours), address(theirs)];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for path in &paths {
                    // SAFETY: the memory lives for ever; that it is read
                    // meanwhile is the attack.
                    unsafe { there.load(Ordering::Relaxed).write_volatile(*path) };
                }
            }
        });
        for _ in 0..rounds {
            if let Ok(socket) = socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK) {
                let _ = connect_to(socket.as_raw_fd(), there.load(Ordering::Relaxed));
                say_hello(&socket);
            }
            while listener.accept().is_ok() {}
        }
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// One thread connects a descriptor, another puts sockets of two families
/// under its number.
fn swap(theirs: &str, rounds: usize) -> Result<()> {
    let place = socket(libc::AF_INET, libc::SOCK_STREAM)?;
    let inet = socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    let unix = socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    let there = address(theirs);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for from in [&inet, &unix] {
                    // SAFETY: both are open.
                    unsafe { libc::dup2(from.as_raw_fd(), place.as_raw_fd()) };
                }
            }
        });
        for _ in 0..rounds {
            let _ = connect_to(place.as_raw_fd(), &raw const there);
        }
        stop.store(true, Ordering::Relaxed);
    });
    say_hello(&unix);
    Ok(())
}

/// One thread connects to a link, another points it there and back.
fn swap_link(directory: &str, theirs: &str, rounds: usize) -> Result<()> {
    std::env::set_current_dir(directory)?;
    let listener = UnixListener::bind("mine.sock")?;
    listener.set_nonblocking(true)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for to in ["mine.sock", theirs] {
                    let _ = std::os::unix::fs::symlink(to, "next");
                    let _ = std::fs::rename("next", "current");
                }
            }
        });
        for _ in 0..rounds {
            if let Ok(socket) = socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK) {
                let _ = connect_to(socket.as_raw_fd(), &address("current"));
                say_hello(&socket);
            }
            while listener.accept().is_ok() {}
        }
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}

fn say_hello(socket: &OwnedFd) {
    // SAFETY: one byte.
    unsafe {
        libc::send(
            socket.as_raw_fd(),
            b"!".as_ptr().cast(),
            1,
            libc::MSG_NOSIGNAL,
        )
    };
}

/// A server that does not accept holds up whoever waits for it and nobody
/// else; who does not wait is told so.
fn full_backlog(directory: &str) -> Result<()> {
    std::env::set_current_dir(directory)?;
    let full = UnixListener::bind("full.sock")?;
    // SAFETY: a listening socket.
    check(unsafe { libc::listen(full.as_raw_fd(), 0) })?;
    let mut held = Vec::new();
    let refused = loop {
        let socket = socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        match connect_to(socket.as_raw_fd(), &address("full.sock")) {
            Ok(()) => held.push(socket),
            Err(error) => break error.raw_os_error(),
        }
    };
    if refused != Some(libc::EAGAIN) {
        return Err(Error::from_raw_os_error(refused.unwrap_or(0)));
    }
    let waiting: Vec<_> = (0..20)
        .map(|_| std::thread::spawn(|| connect(libc::SOCK_STREAM, "full.sock")))
        .collect();
    let free = UnixListener::bind("free.sock")?;
    connect(libc::SOCK_STREAM, "free.sock")?;
    drop(free);
    for _ in 0..held.len() + waiting.len() {
        full.accept()?;
    }
    for thread in waiting {
        thread.join().unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// What the kernel answers for nonsense (connect(2)).
fn bad_addresses() -> Result<()> {
    let unix = socket(libc::AF_UNIX, libc::SOCK_STREAM)?;
    let try_it = |fd: i32, at: *const libc::sockaddr_un, length: i64| {
        // SAFETY: the kernel checks all of it, that is the point.
        let answer = unsafe { libc::syscall(libc::SYS_connect, fd, at, length) };
        match answer {
            0 => 0,
            _ => Error::last_os_error().raw_os_error().unwrap_or(0),
        }
    };
    let good = address("/nowhere");
    let fd = unix.as_raw_fd();
    let null = std::ptr::null();
    for (what, answer, expected) in [
        ("no socket", try_it(2, &raw const good, 110), libc::ENOTSOCK),
        ("closed", try_it(999, &raw const good, 110), libc::EBADF),
        ("null", try_it(fd, null, 110), libc::EFAULT),
        ("too long", try_it(fd, &raw const good, 4096), libc::EINVAL),
        ("negative", try_it(fd, &raw const good, -1), libc::EINVAL),
        ("empty", try_it(fd, &raw const good, 0), libc::EINVAL),
        ("nowhere", try_it(fd, &raw const good, 110), libc::ENOENT),
    ] {
        if answer != expected {
            return Err(Error::other(format!("{what}: {answer}")));
        }
    }
    let file = "plain";
    std::fs::write(file, "")?;
    match connect(libc::SOCK_STREAM, file) {
        Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) => Ok(()),
        other => Err(Error::other(format!("a plain file: {other:?}"))),
    }
}

/// More connections at once than there are processors, of threads and of
/// processes.
fn parallel(directory: &str) -> Result<()> {
    let path = format!("{directory}/many.sock");
    let listener = UnixListener::bind(&path)?;
    let clients: Vec<_> = (0..32)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                (0..20).try_for_each(|_| UnixStream::connect(&path).map(drop))
            })
        })
        .collect();
    for _ in 0..32 * 20 {
        listener.accept()?;
    }
    clients
        .into_iter()
        .try_for_each(|c| c.join().unwrap_or(Ok(())))
}

/// A process whose memory nobody may read (ssh-agent does that) is refused,
/// not waved through.
fn undumpable(directory: &str) -> Result<()> {
    let path = format!("{directory}/u.sock");
    let _listener = UnixListener::bind(&path)?;
    // SAFETY: integers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0u64, 0u64, 0u64, 0u64) };
    connect(libc::SOCK_STREAM, &path)
}
