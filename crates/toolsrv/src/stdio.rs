use std::io::IsTerminal as _;
use std::os::fd::OwnedFd;

use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::Error;

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// The exec channel: standard input and output as sshd or ollie gave them,
/// pipes or sockets.
pub(crate) struct Stdio {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
}

impl Stdio {
    /// Takes both into the runtime.
    ///
    /// # Errors
    /// [`Error::Stdio`] for anything but pipes and sockets.
    pub(crate) fn open() -> Result<Self, Error> {
        if std::io::stdin().is_terminal() {
            return Err(Error::Stdio {
                stream: "standard input",
                problem: "is a terminal; toolsrv is started by olliesrv, which speaks 9P to it"
                    .to_owned(),
            });
        }
        let input = duplicate("standard input", rustix::stdio::stdin())?;
        let output = duplicate("standard output", rustix::stdio::stdout())?;
        let reader: Reader = match kind(&input) {
            FileType::Fifo => {
                Box::new(pipe::Receiver::from_owned_fd(input).map_err(unusable("standard input"))?)
            }
            _ => Box::new(socket("standard input", input)?),
        };
        let writer: Writer = match kind(&output) {
            FileType::Fifo => {
                Box::new(pipe::Sender::from_owned_fd(output).map_err(unusable("standard output"))?)
            }
            _ => Box::new(socket("standard output", output)?),
        };
        Ok(Self { reader, writer })
    }
}

/// Points the standard streams at /dev/null: sshd keeps a channel open for as
/// long as anybody holds them.
pub(crate) fn let_go() {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    if let Ok(null) = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn socket(stream: &'static str, fd: OwnedFd) -> Result<UnixStream, Error> {
    if kind(&fd) != FileType::Socket {
        return Err(Error::Stdio {
            stream,
            problem: "is neither a pipe nor a socket".to_owned(),
        });
    }
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true).map_err(unusable(stream))?;
    UnixStream::from_std(socket).map_err(unusable(stream))
}

fn duplicate(stream: &'static str, fd: std::os::fd::BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    fd.try_clone_to_owned().map_err(unusable(stream))
}

fn kind(fd: &OwnedFd) -> FileType {
    rustix::fs::fstat(fd).map_or(FileType::Unknown, |stat| {
        FileType::from_raw_mode(stat.st_mode)
    })
}

fn unusable(stream: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::Stdio {
        stream,
        problem: error.to_string(),
    }
}
