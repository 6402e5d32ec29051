//! seccomp_unotify(2), and what is done on behalf of the asking process.

use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{check, errno};

/// SECCOMP_IOCTL_NOTIF_RECV and SECCOMP_IOCTL_NOTIF_SEND: _IOWR('!', 0 and 1)
/// of structures of 80 and 24 bytes. SECCOMP_IOCTL_NOTIF_ID_VALID:
/// _IOW('!', 2, __u64).
const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const STILL_WAITS: u64 = 0x4008_2102;
/// PIDFD_THREAD, Linux 6.9
const PIDFD_THREAD: i32 = libc::O_EXCL;

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Default)]
struct Notice {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// A thread that waits in connect(2) or socketpair(2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) id: u64,
    /// Its number, as this process sees it.
    pub(crate) thread: u32,
    number: i32,
    pub(super) arguments: [u64; 4],
    pub(super) listener: i32,
}

impl Question {
    /// Whether a pair of sockets is asked for, and not a connection.
    pub(crate) fn is_for_a_pair(&self) -> bool {
        i64::from(self.number) == libc::SYS_socketpair
    }
}

/// The descriptor in a message of one byte.
pub(crate) fn receive(from: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut byte = [0u8];
    let mut control = Control::default();
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut message = control.message(&mut part);
    // SAFETY: `message` describes memory that outlives the call.
    let received =
        unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled the buffer that `message` still describes, and
    // a descriptor in it is new and nobody else's.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let fd = libc::CMSG_DATA(header).cast::<i32>().read_unaligned();
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sends a descriptor, in the child between fork and exec.
pub(super) fn send(to: BorrowedFd<'_>, fd: i32) -> Result<(), i32> {
    let mut byte = [0u8];
    let mut control = Control::default();
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let message = control.message(&mut part);
    // SAFETY: the buffer has room for a header and one descriptor.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd);
        libc::sendmsg(to.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    check(sent as libc::c_long)
}

/// Room for a header and one descriptor, aligned for it.
#[derive(Default)]
struct Control([u64; 3]);

impl Control {
    fn message(&mut self, part: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: all zeros is a message without name, data and control.
        let mut message = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
        message.msg_iov = part;
        message.msg_iovlen = 1;
        message.msg_control = self.0.as_mut_ptr().cast();
        message.msg_controllen = size_of::<Self>() as _;
        message
    }
}

/// Waits for the next question; `None` when the call has ended.
pub(crate) fn next(listener: BorrowedFd<'_>) -> Option<Question> {
    loop {
        // Room to spare, should the kernel's structure grow.
        let mut notice = (Notice::default(), [0u64; 16]);
        match ioctl(listener.as_raw_fd(), RECEIVE, (&raw mut notice).cast()) {
            Ok(_) => {
                let [first, second, third, fourth, ..] = notice.0.arguments;
                return Some(Question {
                    id: notice.0.id,
                    thread: notice.0.pid,
                    number: notice.0.number,
                    arguments: [first, second, third, fourth],
                    listener: listener.as_raw_fd(),
                });
            }
            // The process that asked was killed in the meantime; or there is
            // none left that could ask.
            Err(libc::ENOENT | libc::EINTR) if !is_over(listener) => {}
            Err(_) => return None,
        }
    }
}

/// Whether a question is there.
pub(crate) fn is_asked(listener: BorrowedFd<'_>) -> bool {
    state_of(listener) & libc::POLLIN != 0
}

fn is_over(listener: BorrowedFd<'_>) -> bool {
    state_of(listener) & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

fn state_of(listener: BorrowedFd<'_>) -> libc::c_short {
    let mut polled = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which outlives the call.
    unsafe { libc::poll(&raw mut polled, 1, 0) };
    polled.revents
}

/// Ends the wait. That nobody waits any more (ENOENT) is no error.
pub(crate) fn answer(listener: BorrowedFd<'_>, id: u64, answer: Result<(), i32>) {
    let mut response = Response {
        id,
        value: 0,
        error: answer.err().map_or(0, |errno| -errno),
        flags: 0,
    };
    let _ = ioctl(listener.as_raw_fd(), SEND, (&raw mut response).cast());
}

/// A duplicate of the socket that the thread connects.
pub(crate) fn socket_of(question: &Question) -> Result<OwnedFd, i32> {
    let process = process_of(question)?;
    // The low half, as the kernel does.
    let number = question.arguments[0] as i32;
    // SAFETY: integers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0u32) };
    owned(fd)
}

/// The thread that asks, once it is certain that its number is still its own.
fn process_of(question: &Question) -> Result<OwnedFd, i32> {
    let open = |pid: i64, flags: i32| {
        // SAFETY: integers only.
        owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) })
    };
    let process = match open(question.thread.into(), PIDFD_THREAD) {
        // Before Linux 6.9 there is a descriptor for whole processes only.
        Err(libc::EINVAL) => open(group_of(question.thread)?, 0)?,
        other => other?,
    };
    still_waits(question).map(|()| process)
}

/// The process of a thread (proc(5), status).
fn group_of(thread: u32) -> Result<i64, i32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))
        .map_err(|error| error.raw_os_error().unwrap_or(libc::ESRCH))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
        .ok_or(libc::ESRCH)
}

pub(super) fn still_waits(question: &Question) -> Result<(), i32> {
    let mut id = question.id;
    ioctl(question.listener, STILL_WAITS, (&raw mut id).cast()).map(drop)
}

/// The largest address, `struct sockaddr_storage`.
const LARGEST: usize = 128;

/// An address of any family, in memory that nobody else can change.
#[derive(Debug)]
pub(crate) struct Address {
    bytes: Bytes,
    length: usize,
}

/// Aligned as every address is.
#[derive(Debug)]
#[repr(C, align(8))]
struct Bytes([u8; LARGEST]);

impl Address {
    /// The path that a Unix address names: with a name that does not begin
    /// with NUL. A Unix socket takes no other family, so an address without a
    /// path reaches no file.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        let bytes = self.bytes.0.get(..self.length)?;
        let (family, name) = bytes.split_at_checked(offset_of!(libc::sockaddr_un, sun_path))?;
        if u16::from_ne_bytes([*family.first()?, *family.get(1)?]) != libc::AF_UNIX as u16 {
            return None;
        }
        let end = name.iter().position(|byte| *byte == 0);
        let path = name.get(..end.unwrap_or(name.len()))?;
        (!path.is_empty()).then_some(path)
    }

    /// The address of a path.
    pub(crate) fn of_path(path: &str) -> Result<Self, i32> {
        let mut bytes = [0; LARGEST];
        let start = offset_of!(libc::sockaddr_un, sun_path);
        let length = start + path.len() + 1;
        bytes[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
        let room = bytes.get_mut(start..length - 1);
        room.ok_or(libc::ENAMETOOLONG)?
            .copy_from_slice(path.as_bytes());
        Ok(Self {
            bytes: Bytes(bytes),
            length,
        })
    }
}

/// Copies the address out of the thread's memory, once.
pub(crate) fn address_of(question: &Question) -> Result<Address, i32> {
    let [_, there, length, _] = question.arguments;
    // An int, as the kernel takes it.
    let length = usize::try_from(length as i32).map_err(|_| libc::EINVAL)?;
    let mut bytes = [0; LARGEST];
    let room = bytes.get_mut(..length).ok_or(libc::EINVAL)?;
    if !room.is_empty() {
        let local = libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: length,
        };
        let remote = libc::iovec {
            iov_base: there as *mut libc::c_void,
            iov_len: length,
        };
        // SAFETY: the kernel writes at most `length` bytes into `room`; what
        // the other process has at its address is the kernel's to check.
        let copied = unsafe {
            libc::syscall(
                libc::SYS_process_vm_readv,
                question.thread,
                &raw const local,
                1u64,
                &raw const remote,
                1u64,
                0u64,
            )
        };
        check(copied)?;
        if usize::try_from(copied) != Ok(length) {
            return Err(libc::EFAULT);
        }
    }
    still_waits(question)?;
    Ok(Address {
        bytes: Bytes(bytes),
        length,
    })
}

/// Connects, by this thread's own rights.
pub(crate) fn connect(socket: BorrowedFd<'_>, address: &Address) -> Result<(), i32> {
    // SAFETY: the address is `length` bytes of memory of this process.
    check(unsafe {
        libc::syscall(
            libc::SYS_connect,
            socket.as_raw_fd(),
            address.bytes.0.as_ptr(),
            address.length,
        )
    })
}

/// Whether this is a Unix socket. What it is cannot change. ENOTSOCK where it
/// is none at all.
pub(crate) fn is_unix(socket: BorrowedFd<'_>) -> Result<bool, i32> {
    let mut domain = 0i32;
    let mut length = 4;
    // SAFETY: the kernel writes one int.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &raw mut length,
        )
    };
    check(answer.into()).map(|()| domain == libc::AF_UNIX)
}

/// Opens whatever is at a path, without any right on it, links followed as
/// connect(2) does.
pub(crate) fn find(path: &Path) -> Result<OwnedFd, i32> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    // SAFETY: `name` is a C string.
    let fd = unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(errno());
    }
    owned(fd.into())
}

/// Whether a descriptor is of a socket's file.
pub(crate) fn is_socket(file: BorrowedFd<'_>) -> bool {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel fills a structure in which all zeros is valid.
    let stat = unsafe {
        libc::fstat(file.as_raw_fd(), stat.as_mut_ptr());
        stat.assume_init()
    };
    stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
}

fn owned(fd: libc::c_long) -> Result<OwnedFd, i32> {
    check(fd)?;
    let fd = i32::try_from(fd).map_err(|_| libc::EBADF)?;
    // SAFETY: the kernel just made this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn ioctl(fd: i32, request: u64, argument: *mut libc::c_void) -> Result<i32, i32> {
    // SAFETY: each caller passes the structure that its request is defined
    // for, in memory that outlives the call.
    let answer = unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) };
    check(answer).and_then(|()| i32::try_from(answer).map_err(|_| libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(name: &[u8]) -> Address {
        let mut bytes = [0; LARGEST];
        bytes[..2].copy_from_slice(&1u16.to_ne_bytes());
        bytes[2..2 + name.len()].copy_from_slice(name);
        Address {
            bytes: Bytes(bytes),
            length: 2 + name.len(),
        }
    }

    /// unix(7), "Address format".
    #[test]
    fn a_path_ends_at_its_nul_or_with_the_address() {
        assert_eq!(unix(b"/a\0rest").path(), Some(&b"/a"[..]));
        assert_eq!(unix(b"/a").path(), Some(&b"/a"[..]));
        assert_eq!(unix(b"\0abstract").path(), None);
        assert_eq!(unix(b"").path(), None);
        let mut inet = unix(b"/a");
        inet.bytes.0[..2].copy_from_slice(&2u16.to_ne_bytes());
        assert_eq!(inet.path(), None);
        assert_eq!(Address::of_path("/a").unwrap().path(), Some(&b"/a"[..]));
        assert!(Address::of_path(&"a".repeat(LARGEST)).is_err());
    }

    #[test]
    fn the_structures_have_the_sizes_that_the_requests_name() {
        assert_eq!(size_of::<Notice>() as u64, RECEIVE >> 16 & 0x3fff);
        assert_eq!(size_of::<Response>() as u64, SEND >> 16 & 0x3fff);
        assert_eq!(size_of::<Notice>(), size_of::<libc::seccomp_notif>());
        assert_eq!(size_of::<Response>(), size_of::<libc::seccomp_notif_resp>());
    }
}
