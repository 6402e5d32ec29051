use std::time::Duration;

use ninep_rs::ClientConfig;
use ollie_client::{Credentials, ToolsrvConn, dial_toolsrv};
use ollie_protocol::{Key, Nonce, Octets};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::ssh::Ssh;
use crate::{Arrival, Error};

/// How long a toolsrv has to end once its channel is closed: longer than the
/// grace of its calls and the wait for processes that die slowly.
const FAREWELL: Duration = Duration::from_secs(20);

/// A toolsrv that has answered its boot record.
#[derive(Debug)]
pub struct Process {
    pub(crate) running: Running,
    pub(crate) secret: Key,
    /// The session's name.
    pub session: String,
    /// Process id of the 9P server on its host.
    pub server: u32,
    /// The session's socket on its host.
    pub socket: Octets,
    /// How it came to run, if it runs on another host.
    pub arrival: Option<Arrival>,
}

/// What ends when toolsrv has.
#[derive(Debug)]
pub(crate) enum Running {
    /// toolsrv itself.
    Local(tokio::process::Child),
    /// The ssh that leads to it.
    Remote(Ssh),
}

/// The byte stream to a toolsrv, on which 9P is next.
pub struct Channel {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) nonce: Nonce,
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
    /// [`Error::Connect`]
    pub async fn connect(
        &self,
        channel: Channel,
        agent: &str,
        config: ClientConfig,
    ) -> Result<ToolsrvConn, Error> {
        let credentials = Credentials {
            key: &self.secret,
            session: &self.session,
            agent,
            nonce: Some(channel.nonce),
        };
        dial_toolsrv(channel.reader, channel.writer, credentials, config)
            .await
            .map_err(Error::Connect)
    }

    /// Waits until the process is gone, once its channel is closed: then
    /// everything it started is gone as well. Returns whether that was seen.
    pub async fn ended(mut self) -> bool {
        match &mut self.running {
            Running::Local(child) => {
                let ended = tokio::time::timeout(FAREWELL, child.wait()).await;
                matches!(ended, Ok(Ok(_)))
            }
            // sshd closes the channel when toolsrv has ended, not before.
            Running::Remote(ssh) => ssh.ended(FAREWELL).await.is_some(),
        }
    }
}
