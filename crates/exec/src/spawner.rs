use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ollie_sandbox::Enforcement;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

use crate::companion::Message;
use crate::{Command, Companion, Error, Order, Report, channel, sys};

/// The server's way to start commands. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Spawner {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    channel: AsyncFd<OwnedFd>,
    policies: AtomicU32,
    /// For each policy a supervisor that waits for a command, with a child that
    /// is confined already.
    ready: Mutex<HashMap<u32, Control>>,
    /// Messages are whole, but a policy's number is its place in line.
    turn: tokio::sync::Mutex<()>,
}

impl Spawner {
    /// Takes the companion into a tokio runtime.
    ///
    /// # Errors
    /// [`Error::System`] if the descriptor cannot be registered.
    pub fn new(companion: Companion) -> Result<Self, Error> {
        Ok(Self {
            inner: Arc::new(Inner {
                channel: register(companion.channel)?,
                policies: AtomicU32::new(0),
                ready: Mutex::default(),
                turn: tokio::sync::Mutex::new(()),
            }),
        })
    }

    /// Hands a compiled policy to the companion; the number it returns is
    /// what [`Command::policy`] names.
    ///
    /// # Errors
    /// [`Error::CompanionGone`], or [`Error::System`].
    pub async fn add_policy(&self, enforcement: &Enforcement) -> Result<u32, Error> {
        let cannot = |source| Error::System {
            action: "hand over a policy",
            source,
        };
        let (ruleset, parts) = enforcement
            .parts()
            .map_err(|error| cannot(std::io::Error::other(error)))?;
        let parts = channel::to_memfd(&parts).map_err(cannot)?;
        let mut fds = vec![parts.as_fd()];
        fds.extend(ruleset);
        let _turn = self.inner.turn.lock().await;
        self.send(&[Message::POLICY], &fds).await?;
        let number = self.inner.policies.fetch_add(1, Ordering::Relaxed);
        // The newest policy is the one that is wanted, most likely.
        self.ready().clear();
        self.recruit(number).await?;
        Ok(number)
    }

    /// Starts a command. Whether it runs is the first [`Report`].
    ///
    /// With `stdin` the standard input is a pipe, else `/dev/null`. `directory`
    /// belongs to a [`Command::pinned`]; a descriptor of `O_PATH` will do.
    ///
    /// # Errors
    /// [`Error::CompanionGone`], or [`Error::System`] when descriptors run out.
    pub async fn spawn(
        &self,
        command: &Command,
        stdin: bool,
        directory: Option<BorrowedFd<'_>>,
    ) -> Result<Running, Error> {
        let cannot = |source| Error::System {
            action: "describe a command",
            source,
        };
        let json = serde_json::to_vec(command).map_err(|error| cannot(error.into()))?;
        let (json, long) = if json.len() > channel::MESSAGE_MAX {
            let memfd = channel::to_memfd(&json).map_err(cannot)?;
            (channel::LONG.to_vec(), Some(memfd))
        } else {
            (json, None)
        };
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(Error::system("make a pipe"));
        let (stdin_read, stdin_write) = if stdin {
            let (read, write) = pipe()?;
            (read, Some(write))
        } else {
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
            let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())
                .map_err(Error::system("open /dev/null"))?;
            (null, None)
        };
        let (stdout_read, stdout_write) = pipe()?;
        let (stderr_read, stderr_write) = pipe()?;
        let mut fds = vec![
            stdin_read.as_fd(),
            stdout_write.as_fd(),
            stderr_write.as_fd(),
        ];
        fds.extend(long.as_ref().map(OwnedFd::as_fd));
        fds.extend(directory);
        let control = self.hand_over(command.policy, &json, &fds).await?;
        // The next start finds a supervisor that waits.
        if !self.ready().contains_key(&command.policy) {
            self.recruit(command.policy).await?;
        }
        let watched = |source| Error::System {
            action: "watch a pipe",
            source,
        };
        Ok(Running {
            stdin: stdin_write
                .map(pipe::Sender::from_owned_fd)
                .transpose()
                .map_err(watched)?,
            stdout: pipe::Receiver::from_owned_fd(stdout_read).map_err(watched)?,
            stderr: pipe::Receiver::from_owned_fd(stderr_read).map_err(watched)?,
            control,
        })
    }

    /// Gives a command to the supervisor that waits, or to a new one.
    async fn hand_over(
        &self,
        policy: u32,
        json: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Control, Error> {
        let waiting = self.ready().remove(&policy);
        if let Some(control) = waiting {
            match send(&control.channel, json, fds).await {
                Ok(()) => return Ok(control),
                // Somebody killed it while it waited.
                Err(Error::CompanionGone) => {}
                Err(error) => return Err(error),
            }
        }
        let control = self.supervisor(policy).await?;
        send(&control.channel, json, fds).await?;
        Ok(control)
    }

    async fn recruit(&self, policy: u32) -> Result<(), Error> {
        let fresh = self.supervisor(policy).await?;
        self.ready().insert(policy, fresh);
        Ok(())
    }

    /// Asks for one more supervisor. The channel can be written to at once:
    /// what is written waits for it.
    async fn supervisor(&self, policy: u32) -> Result<Control, Error> {
        let (ours, theirs) = channel::pair().map_err(Error::system("make a socket pair"))?;
        self.send(&Message::supervisor(policy), &[theirs.as_fd()])
            .await?;
        Ok(Control {
            channel: Arc::new(register(ours)?),
        })
    }

    fn ready(&self) -> MutexGuard<'_, HashMap<u32, Control>> {
        self.inner
            .ready
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the companion is gone.
    pub async fn gone(&self) {
        // It sends nothing, so whatever can be received is end-of-file.
        let _ = receive(&self.inner.channel).await;
    }

    async fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        send(&self.inner.channel, bytes, fds).await
    }
}

/// A started command: its pipes and the line to its supervisor. Dropping
/// everything of it ends the tree.
#[derive(Debug)]
pub struct Running {
    /// The write end of its standard input, if it has one.
    pub stdin: Option<pipe::Sender>,
    /// The read end of its standard output.
    pub stdout: pipe::Receiver,
    /// The read end of its standard error.
    pub stderr: pipe::Receiver,
    /// The line to its supervisor.
    pub control: Control,
}

/// The line to a call's supervisor. When the last clone is dropped the
/// supervisor ends the tree: whoever holds one keeps the call alive.
#[derive(Debug, Clone)]
pub struct Control {
    channel: Arc<AsyncFd<OwnedFd>>,
}

impl Control {
    /// The next report; `None` when the supervisor is gone without a last
    /// word, which means that somebody killed it.
    pub async fn report(&self) -> Option<Report> {
        let message = match receive(&self.channel).await {
            // It went without reading our last order. The kernel says so once,
            // before it hands out what had been sent to us.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                receive(&self.channel).await
            }
            other => other,
        }
        .ok()?;
        // End-of-file is an empty message, which is no JSON.
        serde_json::from_slice(&message.bytes).ok()
    }

    /// Sends an order. To a supervisor that is gone it does nothing: there is
    /// nothing left to signal or to end.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses for another reason.
    pub async fn order(&self, order: Order) -> Result<(), Error> {
        let bytes = serde_json::to_vec(&order).map_err(|error| Error::System {
            action: "describe an order",
            source: error.into(),
        })?;
        match send(&self.channel, &bytes, &[]).await {
            Err(Error::CompanionGone) => Ok(()),
            other => other,
        }
    }
}

fn register(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>, Error> {
    rustix::io::ioctl_fionbio(&fd, true).map_err(Error::system("make a socket non-blocking"))?;
    sys::watch(fd).map_err(|source| Error::System {
        action: "watch a socket",
        source,
    })
}

async fn send(
    socket: &AsyncFd<OwnedFd>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    socket
        .async_io(Interest::WRITABLE, |socket| {
            channel::send(socket.as_fd(), bytes, fds).map_err(Into::into)
        })
        .await
        .map_err(|source| match Errno::from_io_error(&source) {
            Some(errno) if channel::is_gone(errno) => Error::CompanionGone,
            _ => Error::System {
                action: "send to the companion",
                source,
            },
        })
}

async fn receive(socket: &AsyncFd<OwnedFd>) -> std::io::Result<channel::Message> {
    socket
        .async_io(Interest::READABLE, |socket| {
            channel::receive(socket.as_fd()).map_err(Into::into)
        })
        .await
}
