//! Attempts that act on files, processes and the network.

use std::ffi::CString;
use std::fs;
use std::io::{Error, Read as _, Result};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether one of these words is understood, and what came of it.
pub(crate) fn run(words: &[&str]) -> Option<Result<()>> {
    Some(match words {
        ["truncate", path] => fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(0))
            .or_else(|_| truncate(path)),
        ["rename", from, to] => fs::rename(from, to),
        ["link", from, to] => fs::hard_link(from, to),
        ["race-link", secret, rounds] => race_link(secret, rounds.parse().unwrap_or(0)),
        ["mknod", path] => mknod(path),
        ["kill", pid] => number(pid).and_then(|pid| {
            // SAFETY: signal 0 only asks.
            check(unsafe { libc::kill(pid, 0) }.into())
        }),
        ["tgkill", pid, thread] => number(pid).and_then(|pid| {
            let thread = number(thread)?;
            // SAFETY: signal 0 only asks.
            check(unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, 0) })
        }),
        ["ptrace", pid] => number(pid).and_then(ptrace),
        ["vmread", pid] => number(pid).and_then(vm_read),
        ["getfd", pid] => number(pid).and_then(get_fd),
        ["abstract", name] => abstract_connect(name),
        ["tcp", port] => number(port).and_then(|port| {
            let port = u16::try_from(port).unwrap_or(0);
            std::net::TcpStream::connect(("127.0.0.1", port)).map(drop)
        }),
        ["listen", port] => number(port).and_then(|port| {
            let port = u16::try_from(port).unwrap_or(0);
            std::net::TcpListener::bind(("127.0.0.1", port)).map(drop)
        }),
        ["fastopen", port] => number(port).and_then(fast_open),
        ["descriptors"] => descriptors(),
        ["superuser"] => {
            // SAFETY: it cannot fail.
            match unsafe { libc::geteuid() } {
                0 => Ok(()),
                _ => Err(Error::from_raw_os_error(libc::EPERM)),
            }
        }
        ["memfd-exec"] => memfd_exec(),
        #[cfg(target_arch = "x86_64")]
        ["int80"] => int80(),
        _ => return None,
    })
}

fn number(text: &str) -> Result<i32> {
    text.parse()
        .map_err(|_| Error::from_raw_os_error(libc::EINVAL))
}

fn check(answer: i64) -> Result<()> {
    match answer {
        0.. => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

fn truncate(path: &str) -> Result<()> {
    let path = CString::new(path)?;
    // SAFETY: `path` is a C string.
    check(unsafe { libc::truncate(path.as_ptr(), 0) }.into())
}

/// Reads a name while another thread points it to a secret and back.
fn race_link(secret: &str, rounds: usize) -> Result<()> {
    fs::write("harmless", "harmless")?;
    let stop = AtomicBool::new(false);
    let mut found = false;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for to in ["harmless", secret] {
                    let _ = std::os::unix::fs::symlink(to, "link-next");
                    let _ = fs::rename("link-next", "link-now");
                }
            }
        });
        for _ in 0..rounds {
            let read = fs::read_to_string("link-now").unwrap_or_default();
            if read.contains("PRIVATE KEY") {
                found = true;
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    match found {
        true => Ok(()),
        false => Err(Error::from_raw_os_error(libc::EACCES)),
    }
}

fn mknod(path: &str) -> Result<()> {
    let path = CString::new(path)?;
    // SAFETY: `path` is a C string. 1:7 is /dev/full.
    check(unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 7)) }.into())
}

fn ptrace(pid: i32) -> Result<()> {
    // PTRACE_SEIZE does not stop the process; it is let go when this ends.
    // SAFETY: integers only.
    check(unsafe { libc::syscall(libc::SYS_ptrace, 0x4206, pid, 0, 0) })
}

fn vm_read(pid: i32) -> Result<()> {
    let mut byte = [0u8];
    let local = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(4096),
        iov_len: 1,
    };
    // SAFETY: the kernel writes one byte at most; nothing is mapped over there.
    check(
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) } as i64,
    )
}

fn get_fd(pid: i32) -> Result<()> {
    // SAFETY: integers only.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        check(process)?;
        check(libc::syscall(libc::SYS_pidfd_getfd, process, 1, 0))
    }
}

fn abstract_connect(name: &str) -> Result<()> {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    std::os::unix::net::UnixStream::connect_addr(&address).map(drop)
}

/// Connects inside of a send.
fn fast_open(port: i32) -> Result<()> {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: u16::try_from(port).unwrap_or(0).to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: an address of 16 bytes and a byte to send.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        check(socket.into())?;
        check(libc::sendto(
            socket,
            b"x".as_ptr().cast(),
            1,
            libc::MSG_FASTOPEN,
            (&raw const address).cast(),
            16,
        ) as i64)
    }
}

/// Whether there is any descriptor but the three.
fn descriptors() -> Result<()> {
    // SAFETY: it only asks.
    let open = |fd: i32| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    match (3..1024).any(open) {
        true => Ok(()),
        false => Err(Error::from_raw_os_error(libc::EPERM)),
    }
}

/// Executes a program that lies in no directory.
fn memfd_exec() -> Result<()> {
    // SAFETY: a C string.
    let fd = unsafe { libc::memfd_create(c"program".as_ptr(), 0) };
    check(fd.into())?;
    let mut program = Vec::new();
    fs::File::open("/bin/true")?.read_to_end(&mut program)?;
    fs::write(format!("/proc/self/fd/{fd}"), program)?;
    let status =
        std::process::Command::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::from_raw_os_error(libc::EACCES)),
    }
}

/// getpid by the table of 32-bit programs.
#[cfg(target_arch = "x86_64")]
fn int80() -> Result<()> {
    let mut answer: i64 = 20;
    // SAFETY: the call takes nothing and changes rax only.
    unsafe { std::arch::asm!("int 0x80", inout("rax") answer) };
    match answer {
        1.. => Ok(()),
        _ => Err(Error::from_raw_os_error(libc::ENOSYS)),
    }
}
