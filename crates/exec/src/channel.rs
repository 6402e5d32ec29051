//! Messages between the processes: SOCK_SEQPACKET socket pairs (unix(7)),
//! which keep boundaries, carry descriptors and report end-of-file.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// The largest message; everything longer travels as a memfd beside it. It is
/// well below the smallest buffer a socket may have (net.core.wmem_default).
pub(crate) const MESSAGE_MAX: usize = 16 * 1024;
/// Stands for a message that is in the memfd.
pub(crate) const LONG: &[u8] = b"long";
/// The most descriptors in one message.
const FDS_MAX: usize = 5;

/// Both ends of a new channel, closed on exec.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// Sends one message. [`Errno::PIPE`] or [`Errno::CONNRESET`]: the other end
/// is gone.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::MSGSIZE);
    }
    rustix::io::retry_on_intr(|| {
        let parts = [io::IoSlice::new(bytes)];
        rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)
    })
    .map(drop)
}

/// A received message; empty bytes mean that the other end is gone.
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

/// Receives one message.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<Message, Errno> {
    let mut bytes = vec![0; MESSAGE_MAX];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut parts = [io::IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    bytes.truncate(received.bytes);
    let fds = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    Ok(Message { bytes, fds })
}

/// Puts bytes of any length where a descriptor can carry them.
pub(crate) fn to_memfd(bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("ollie", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file.into())
}

/// What [`to_memfd`] put there.
pub(crate) fn from_memfd(fd: OwnedFd) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut File::from(fd), &mut bytes)?;
    Ok(bytes)
}

/// Whether an error says that the other end is gone.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN)
}

/// Waits until one of `fds` can be read or has ended, at most for `timeout`,
/// and says which.
pub(crate) fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<std::time::Duration>,
) -> [bool; N] {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = timeout.and_then(|duration| Timespec::try_from(duration).ok());
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => polled.map(|fd| !fd.revents().is_empty()),
        // EINTR and ENOMEM: the caller's loop comes back.
        Err(_) => [false; N],
    }
}
