//! A client of the sessions' tree: that of a running daemon, or one in this
//! process.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ninep_rs::{Client, ClientConfig, Handle, OpenMode, ServerConfig, Stat, serve};
use ollie_sessions::Tree;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::error::Error;
use crate::{doorway, setup};

/// The longest file that is read whole, bytes.
const FILE_MAX: usize = 1024 * 1024 * 1024;
/// Bytes on their way between two ends in one process.
const PIPE: usize = 256 * 1024;

/// The root of a tree of sessions.
#[derive(Debug)]
pub(crate) struct Daemon {
    client: Client,
    root: Handle,
}

impl Daemon {
    /// The daemon that runs, if one does.
    pub(crate) async fn find() -> Result<Option<Self>, Error> {
        let socket = doorway::socket(&setup::own_paths()?.doorway);
        Self::at(&socket).await
    }

    /// The daemon that runs.
    pub(crate) async fn running() -> Result<Self, Error> {
        Self::find().await?.ok_or(Error::NotRunning)
    }

    async fn at(socket: &Path) -> Result<Option<Self>, Error> {
        use std::io::ErrorKind;
        match UnixStream::connect(socket).await {
            Ok(stream) => {
                let peer = stream.peer_cred().map_err(|source| Error::Io {
                    action: "ask who serves",
                    source,
                })?;
                // Below /tmp anybody may have been there first, and would learn
                // what is asked of a model.
                if peer.uid() != doorway::own_uid() {
                    return Err(Error::Stranger {
                        socket: socket.to_owned(),
                        uid: peer.uid(),
                    });
                }
                let (reader, writer) = stream.into_split();
                Ok(Some(Self::attach(reader, writer).await?))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(source) => Err(Error::Io {
                action: "connect to the daemon",
                source,
            }),
        }
    }

    /// A tree of this process.
    pub(crate) async fn own(tree: Tree) -> Result<Self, Error> {
        let (near, far) = tokio::io::duplex(PIPE);
        let (reader, writer) = tokio::io::split(far);
        tokio::spawn(serve(
            reader,
            writer,
            Arc::new(tree),
            ServerConfig::default(),
        ));
        let (reader, writer) = tokio::io::split(near);
        Self::attach(reader, writer).await
    }

    async fn attach(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Self, Error> {
        let client = Client::spawn(reader, writer, ClientConfig::default());
        let version = client.version();
        let (root, attached) = client.attach(None, "me", "");
        version.await.map_err(Error::Daemon)?;
        attached.await.map_err(Error::Daemon)?;
        Ok(Self { client, root })
    }

    /// Opens a file.
    pub(crate) async fn open(&self, path: &str, mode: OpenMode) -> Result<Handle, Error> {
        let handle = self.walk(path).await?;
        handle.open(mode).await.map_err(Error::Daemon)?;
        Ok(handle)
    }

    /// Finds a file.
    pub(crate) async fn walk(&self, path: &str) -> Result<Handle, Error> {
        let found = self.root.walk_path(path).await;
        found.map_err(|error| match error {
            ninep_rs::Error::WalkStopped { .. } => Error::NoFile(path.to_owned()),
            ninep_rs::Error::Remote(text) if text == ninep_rs::ename::NOT_FOUND => {
                Error::NoFile(path.to_owned())
            }
            error => Error::Daemon(error),
        })
    }

    /// What is known of a file.
    pub(crate) async fn stat(&self, path: &str) -> Result<Stat, Error> {
        self.walk(path).await?.stat().await.map_err(Error::Daemon)
    }

    /// A file as it is now: of a log, what is there.
    pub(crate) async fn read(&self, path: &str) -> Result<Bytes, Error> {
        let file = self.open(path, OpenMode::READ).await?;
        let stat = file.stat().await.map_err(Error::Daemon)?;
        if stat.mode & Stat::APPEND == 0 {
            return file.read_to_end(0, FILE_MAX).await.map_err(Error::Daemon);
        }
        let mut content = Vec::new();
        while (content.len() as u64) < stat.length {
            let at = content.len() as u64;
            let rest = u32::try_from(stat.length - at).unwrap_or(u32::MAX);
            let count = rest.min(self.client.max_data());
            let piece = file.read(at, count).await.map_err(Error::Daemon)?;
            if piece.is_empty() {
                break;
            }
            content.extend_from_slice(&piece);
        }
        Ok(content.into())
    }

    /// The same as text.
    pub(crate) async fn text(&self, path: &str) -> Result<String, Error> {
        let bytes = self.read(path).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Writes data in one piece, which is what makes it one order.
    pub(crate) async fn write(&self, path: &str, data: Bytes) -> Result<Handle, Error> {
        let file = self.open(path, OpenMode::WRITE).await?;
        self.send(&file, data).await?;
        Ok(file)
    }

    /// Writes to an open file in one piece.
    pub(crate) async fn send(&self, file: &Handle, data: Bytes) -> Result<(), Error> {
        let most = self.client.max_data() as usize;
        if data.len() > most {
            return Err(Error::Usage(format!(
                "{} bytes are too many for one write, of which {most} is the most",
                data.len()
            )));
        }
        file.write(0, data).await.map_err(Error::Daemon)?;
        Ok(())
    }

    /// Makes a session of `key=value` lines; its name.
    pub(crate) async fn make(&self, settings: String) -> Result<String, Error> {
        let file = self.open("session/new", OpenMode::READ_WRITE).await?;
        self.send(&file, settings.into()).await?;
        let name = file.read(0, 256).await.map_err(Error::Daemon)?;
        Ok(String::from_utf8_lossy(&name).trim_end().to_owned())
    }

    /// The most bytes of one read.
    pub(crate) fn max_data(&self) -> u32 {
        self.client.max_data()
    }
}
