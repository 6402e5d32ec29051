//! A pair of sockets for a thread that asked for one (socketpair(2)).

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::notify::{Question, ioctl, still_waits};
use super::{NOFILE, check, errno};

/// SECCOMP_IOCTL_NOTIF_ADDFD: _IOW('!', 3) of a structure of 24 bytes,
/// Linux 5.9.
const ADD: u64 = 0x4018_2103;
/// SOCK_TYPE_MASK of linux/net.h.
const KINDS: i32 = 0xf;

/// `struct seccomp_notif_addfd`.
#[repr(C)]
struct Addition {
    id: u64,
    flags: u32,
    source: u32,
    number: u32,
    number_flags: u32,
}

/// Gives the thread a pair of sequenced packet sockets in place of the pair of
/// datagram sockets that it asked for. They keep the boundaries of messages,
/// too, and they are for each other alone: an address that comes with a
/// message is dropped (unix_seqpacket_sendmsg of net/unix/af_unix.c) and a
/// second connection is EISCONN. Any tool may make such a pair itself.
///
/// The thread must not be interrupted while it waits, or it could be anywhere
/// when its memory is written to; see [`super::asking_is_kept_up`].
pub(crate) fn of_packets(question: &Question) -> Result<(), i32> {
    let [_, kind, protocol, _] = question.arguments;
    // Both are an int, as the kernel takes them. Flags that it does not know
    // are its to refuse.
    let kind = kind as i32;
    let [one, other] = make(kind, protocol as i32)?;
    // No descriptor of another process can be closed, so whatever may fail
    // is tried before there is one. (If another thread takes the last number
    // or the memory away in this moment, its process keeps what it was given.)
    room_for_two(question)?;
    tell(question, [-1, -1])?;
    let keep_on_exec = kind & libc::SOCK_CLOEXEC == 0;
    let one = give(question, &one, keep_on_exec)?;
    let other = give(question, &other, keep_on_exec)?;
    tell(question, [one, other])
}

fn make(kind: i32, protocol: i32) -> Result<[OwnedFd; 2], i32> {
    let kind = (kind & !KINDS) | libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let mut fds = [0; 2];
    // SAFETY: there is room for two.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, protocol, fds.as_mut_ptr()) }.into())?;
    // SAFETY: the kernel just made these descriptors and nobody else has them.
    Ok(fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// EMFILE unless two more descriptors may be opened.
fn room_for_two(question: &Question) -> Result<(), i32> {
    let mut limit = [0u64; 2];
    // SAFETY: the kernel fills a struct rlimit64, which is two words.
    check(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            question.thread,
            NOFILE,
            std::ptr::null::<u64>(),
            limit.as_mut_ptr(),
        )
    })?;
    let [soft, _] = limit;
    let failed = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let mut taken = 0u64;
    for entry in std::fs::read_dir(format!("/proc/{}/fd", question.thread)).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        // Some may be above a limit that was lowered later.
        taken += u64::from(number.is_some_and(|number| number < soft));
    }
    if taken.saturating_add(2) > soft {
        return Err(libc::EMFILE);
    }
    still_waits(question)
}

/// Writes the two numbers where the thread wants them. EFAULT where it could
/// not write itself.
///
/// Should the thread be killed in this very moment and its number be given to
/// another process, that one is of the same call: Landlock lets this thread
/// write to no other (ABI 2, which is as old as what keeps the asking up).
fn tell(question: &Question, mut numbers: [i32; 2]) -> Result<(), i32> {
    let length = size_of_val(&numbers);
    let local = libc::iovec {
        iov_base: numbers.as_mut_ptr().cast(),
        iov_len: length,
    };
    let [.., there] = question.arguments;
    let remote = libc::iovec {
        iov_base: there as *mut libc::c_void,
        iov_len: length,
    };
    still_waits(question)?;
    // SAFETY: the kernel reads `length` bytes of `numbers`; what the other
    // process has at its address is the kernel's to check.
    let written = unsafe {
        libc::syscall(
            libc::SYS_process_vm_writev,
            question.thread,
            &raw const local,
            1u64,
            &raw const remote,
            1u64,
            0u64,
        )
    };
    match usize::try_from(written) {
        Ok(written) if written == length => Ok(()),
        Ok(_) => Err(libc::EFAULT),
        Err(_) => Err(errno()),
    }
}

/// Puts a duplicate of a descriptor into the thread's process, under the
/// lowest number that is free there.
fn give(question: &Question, source: &OwnedFd, keep_on_exec: bool) -> Result<i32, i32> {
    let mut addition = Addition {
        id: question.id,
        flags: 0,
        source: u32::try_from(source.as_raw_fd()).map_err(|_| libc::EBADF)?,
        number: 0,
        number_flags: if keep_on_exec {
            0
        } else {
            libc::O_CLOEXEC as u32
        },
    };
    ioctl(question.listener, ADD, (&raw mut addition).cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_size_that_the_request_names() {
        assert_eq!(size_of::<Addition>() as u64, ADD >> 16 & 0x3fff);
        assert_eq!(
            size_of::<Addition>(),
            size_of::<libc::seccomp_notif_addfd>()
        );
    }

    #[test]
    fn flags_that_the_kernel_does_not_know_are_refused() {
        assert_eq!(make(libc::SOCK_DGRAM | 0x100, 0).err(), Some(libc::EINVAL));
        let protocol = make(libc::SOCK_DGRAM, libc::IPPROTO_TCP);
        assert_eq!(protocol.err(), Some(libc::EPROTONOSUPPORT));
        // PF_UNIX is its own protocol.
        assert!(make(libc::SOCK_DGRAM, libc::AF_UNIX).is_ok());
    }
}
