//! The server engine: [`serve`] answers one connection from a [`Service`].

mod answers;
mod config;
mod connection;
mod dispatch;
mod fids;
mod lane;
mod ready;
mod service;
mod shield;

use std::future::poll_fn;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

pub use config::ServerConfig;
pub use service::{Answer, AuthFile, Created, File, Node, Service, answer};

use crate::Error;
use connection::Connection;

/// Serves one connection until it ends.
///
/// It runs as one task on either kind of tokio runtime, which needs its time driver. Dropping the future ends the connection and drops everything
/// it owns: fids, files, waiting requests. So does every other end.
///
/// # Errors
/// `Ok` means that the peer closed the connection between two messages. [`Error::Refused`] is a refusal of the service
/// that closes, a failed authentication for one; [`Error::AttachDeadline`], [`Error::FrameTooLong`],
/// [`Error::FrameTooShort`], [`Error::Malformed`], [`Error::Truncated`] and [`Error::Io`] say what they are named for.
pub async fn serve<S, R, W>(
    reader: R,
    writer: W,
    service: Arc<S>,
    config: ServerConfig,
) -> Result<(), Error>
where
    S: Service,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let linger = config.linger;
    let mut connection = Connection::new(reader, writer, service, config);
    let result = poll_fn(|cx| connection.poll(cx)).await;
    // The peer may be gone already: what mattered was written, or could not be.
    let _ = tokio::time::timeout(linger, connection.into_writer().shutdown()).await;
    result
}
