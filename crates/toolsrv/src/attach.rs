use std::path::Path;

use ollie_protocol::{Attach, limits};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::Error;
use crate::start::announce;
use crate::stdio::Stdio;

/// Carries standard input and output to the socket of a session, until that
/// closes the connection. Once it is connected it says so, after `mark`.
///
/// # Errors
/// [`Error::Attach`] if there is no session; the other side is told the same.
pub fn attach(socket: &Path, mark: &str) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::system("make a runtime"))?;
    runtime.block_on(async {
        match connect(socket).await {
            Ok(session) => {
                let stdio = Stdio::open()?;
                let attached = Attach::Attached {
                    protocol: limits::PROTOCOL,
                };
                announce(mark, &attached, &[])?;
                carry(stdio, session).await;
                Ok(())
            }
            Err(error) => {
                let reason = error.chain();
                announce(mark, &Attach::Refused { reason }, &[])?;
                Err(error)
            }
        }
    })
}

/// The peer must be of this user: the path may be another's by now, and it
/// would learn who knocks.
async fn connect(socket: &Path) -> Result<UnixStream, Error> {
    let failed = |source| Error::Attach {
        socket: socket.to_owned(),
        source,
    };
    let stream = UnixStream::connect(socket).await.map_err(failed)?;
    let own = rustix::process::getuid().as_raw();
    if stream.peer_cred().map_err(failed)?.uid() != own {
        let text = "it belongs to another user";
        return Err(failed(std::io::Error::other(text)));
    }
    Ok(stream)
}

async fn carry(stdio: Stdio, session: UnixStream) {
    let (from, to) = session.into_split();
    let there = tokio::spawn(copy(stdio.reader, to));
    // When the session has closed, nothing that is still said reaches it.
    copy(from, stdio.writer).await;
    there.abort();
}

/// Copies until either side has ended, and then ends the other.
async fn copy(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    mut to: impl AsyncWrite + Unpin + Send + 'static,
) {
    // How a stream ends makes no difference to the other one.
    let _ = tokio::io::copy(&mut from, &mut to).await;
    let _ = to.shutdown().await;
}
