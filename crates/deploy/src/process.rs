use std::sync::PoisonError;
use std::time::Duration;

use ninep_rs::ClientConfig;
use ollie_client::{Credentials, Opening, ToolsrvConn, open_toolsrv};
use ollie_protocol::auth::{AGENT, OWNER};
use ollie_protocol::{Key, Nonce, Octets};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::ready::{Begun, Project, Said};
use crate::ssh::Ssh;
use crate::trouble::with_status;
use crate::{Arrival, Error, Lease, Sockets};

/// How long a toolsrv has to end once its channel is closed: longer than the
/// grace of its calls and the wait for processes that die slowly.
const FAREWELL: Duration = Duration::from_secs(20);

/// A toolsrv that has its boot record.
#[derive(Debug)]
pub struct Process {
    pub(crate) running: Running,
    /// The session's secret, or a token of it where the session is an older
    /// one.
    pub(crate) key: Key,
    /// Whether this leads to a session that lived on.
    pub(crate) again: bool,
    /// The session's name.
    pub session: String,
    /// What its ready line said, or where that will be.
    pub(crate) ready: Answer,
    /// The project's own policy file, if the plan asked for it and there is
    /// one; known once it is connected. Nothing runs before it was decided
    /// about ([`ToolsrvConn::decide`]).
    pub project: Option<Project>,
    /// How it came to run, if it runs on another host.
    pub arrival: Option<Arrival>,
}

/// The ready line.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It was read.
    Known { server: u32, socket: Octets },
    /// It comes with the first answer to the handshake; what is known of an
    /// older session until then.
    Awaited(Said, Option<(u32, Octets)>),
}

/// What ends when toolsrv has.
#[derive(Debug)]
pub(crate) enum Running {
    /// toolsrv itself.
    Local(tokio::process::Child),
    /// A session of this machine that lived on.
    Elsewhere,
    /// The ssh that leads to it.
    Remote {
        ssh: Ssh,
        /// The exec channel, where 9P goes another way.
        lifeline: Option<Lifeline>,
    },
}

/// toolsrv ends with its standard input, so this keeps it alive.
#[derive(Debug)]
pub(crate) struct Lifeline {
    pub(crate) _reader: OwnedReadHalf,
    pub(crate) _writer: OwnedWriteHalf,
    /// The forwarded socket.
    pub(crate) _sockets: Sockets,
}

/// The byte stream to a toolsrv, on which 9P is next.
pub struct Channel {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    nonce: Option<Nonce>,
}

impl Channel {
    pub(crate) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        nonce: Option<Nonce>,
    ) -> Self {
        Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
            nonce,
        }
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Channel")
    }
}

impl Process {
    /// Authenticates on the channel, as `agent`.
    ///
    /// # Errors
    /// [`Error::NotReady`] or [`Error::Refused`] if toolsrv did not come so
    /// far; [`Error::Connect`]; [`Error::Forward`] where sshd forbids the
    /// socket, which shows only now.
    pub async fn connect(
        &mut self,
        channel: Channel,
        agent: &str,
        config: ClientConfig,
    ) -> Result<ToolsrvConn, Error> {
        let opened = self.open(channel, agent, config).await;
        self.proved(opened).await
    }

    /// The first half of [`Process::connect`]: the handshake leaves, and a
    /// first call may leave with it ([`Opening::call`]).
    ///
    /// # Errors
    /// Those of the client, for [`Process::proved`] to explain.
    pub async fn open(
        &self,
        channel: Channel,
        agent: &str,
        config: ClientConfig,
    ) -> Result<Opening, ollie_client::Error> {
        let credentials = Credentials {
            key: &self.key,
            session: &self.session,
            agent,
            nonce: channel.nonce,
        };
        open_toolsrv(channel.reader, channel.writer, credentials, config).await
    }

    /// The other half.
    ///
    /// # Errors
    /// As [`Process::connect`].
    pub async fn proved(
        &mut self,
        opened: Result<Opening, ollie_client::Error>,
    ) -> Result<ToolsrvConn, Error> {
        let dialled = match opened {
            Ok(opening) => opening.proved().await,
            Err(error) => Err(error),
        };
        self.hear().await?;
        dialled.map_err(|error| match (&self.running, &self.arrival) {
            (
                Running::Remote {
                    ssh,
                    lifeline: Some(_),
                },
                Some(arrival),
            ) if lost(&error) => Error::Forward {
                target: arrival.target.clone(),
                problem: format!("{:?}", ssh.said()),
            },
            _ => Error::Connect(error),
        })
    }

    /// Takes the ready line from the stream that has read it.
    async fn hear(&mut self) -> Result<(), Error> {
        let Answer::Awaited(said, known) = &mut self.ready else {
            return Ok(());
        };
        let known = known.take();
        let said = said.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (said, &mut self.running) {
            (Some(Ok(Begun::Served(start))), _) => {
                self.ready = Answer::Known {
                    server: start.server,
                    socket: start.socket,
                };
                self.project = start.project;
                Ok(())
            }
            (Some(Ok(Begun::Attached)), _) => {
                if let Some((server, socket)) = known {
                    self.ready = Answer::Known { server, socket };
                }
                Ok(())
            }
            (Some(Err(Error::NotReady(problem))), Running::Remote { ssh, .. }) => {
                let (status, said) = ssh.last_words().await;
                Err(Error::NotReady(with_status(problem, status, &said)))
            }
            (Some(Err(error)), _) => Err(error),
            (None, _) => Ok(()),
        }
    }

    /// Process id of the 9P server on its host, once it is connected.
    #[must_use]
    pub fn server(&self) -> Option<u32> {
        match &self.ready {
            Answer::Known { server, .. } => Some(*server),
            Answer::Awaited(..) => None,
        }
    }

    /// The session's socket on its host, once it is connected.
    #[must_use]
    pub fn socket(&self) -> Option<&Octets> {
        match &self.ready {
            Answer::Known { socket, .. } => Some(socket),
            Answer::Awaited(..) => None,
        }
    }

    /// What leads back to this session from another connection, as `agent`,
    /// once it is connected and was given a lease.
    pub(crate) fn lease(&self, agent: &str, time: Duration, note: &str) -> Option<Lease> {
        let Answer::Known { server, socket } = &self.ready else {
            return None;
        };
        let class = if agent == OWNER { OWNER } else { AGENT };
        Some(Lease {
            session: self.session.clone(),
            target: self.arrival.as_ref().map(|arrival| arrival.target.clone()),
            socket: socket.as_os_str().to_str()?.to_owned(),
            server: *server,
            time,
            note: note.to_owned(),
            token: match self.again {
                true => self.key.clone(),
                false => self.key.token(class),
            },
        })
    }

    /// Whether this leads to a session that lived on, with its calls.
    #[must_use]
    pub fn is_again(&self) -> bool {
        self.again
    }

    /// Returns when the other host was silent for 12 s although it was asked,
    /// and how long; never for a process of this machine. What was in flight
    /// then has an unknown outcome.
    pub async fn silence(&self, conn: &ToolsrvConn) -> Duration {
        match &self.running {
            Running::Local(_) | Running::Elsewhere => std::future::pending().await,
            Running::Remote { ssh, .. } => {
                let quiet = crate::silence::silence(conn).await;
                if let Some(lane) = &ssh.lane {
                    lane.distrust();
                }
                quiet
            }
        }
    }

    /// Waits until the process is gone, once its channel is closed: then
    /// everything it started is gone as well. Returns whether that was seen.
    pub async fn ended(mut self) -> bool {
        match &mut self.running {
            Running::Local(child) => {
                let ended = tokio::time::timeout(FAREWELL, child.wait()).await;
                matches!(ended, Ok(Ok(_)))
            }
            Running::Elsewhere => match self.server() {
                Some(pid) => crate::local::gone(pid, FAREWELL).await,
                None => false,
            },
            // sshd closes the channel when toolsrv has ended, not before.
            Running::Remote { ssh, lifeline, .. } => {
                drop(lifeline.take());
                ssh.ended(FAREWELL).await.is_some()
            }
        }
    }
}

/// Whether the stream ended before anything was proved.
fn lost(error: &ollie_client::Error) -> bool {
    matches!(
        error,
        ollie_client::Error::Lost(_) | ollie_client::Error::NotAccepted(_)
    )
}
