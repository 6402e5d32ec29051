use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ollie_client::ToolsrvConn;
use tokio::io::{AsyncRead, ReadBuf};

/// After how much silence a sign of life is asked for.
const PING: Duration = Duration::from_secs(3);
/// After how much silence nobody is believed to be there.
const SILENCE: Duration = Duration::from_secs(12);

/// When something was last heard from the other side.
#[derive(Debug, Clone)]
pub(crate) struct Life(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    began: Instant,
    /// Milliseconds after `began`.
    heard: AtomicU64,
}

/// A reader every byte of which is a sign of life.
#[derive(Debug)]
pub(crate) struct Heard<R> {
    reader: R,
    life: Life,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            began: Instant::now(),
            heard: AtomicU64::new(0),
        }))
    }

    pub(crate) fn hear<R>(&self, reader: R) -> Heard<R> {
        Heard {
            reader,
            life: self.clone(),
        }
    }

    /// Returns when nothing came for 12 s, although it was asked for. A
    /// connection through which much data crawls is alive, however late the
    /// answer to a question behind that data comes.
    pub(crate) async fn silence(&self, conn: &ToolsrvConn) -> Duration {
        // What is behind us does not count: nothing was asked then.
        self.mark();
        let mut asked = None;
        loop {
            let quiet = self.quiet();
            if quiet >= SILENCE {
                return quiet;
            }
            if quiet >= PING && asked.is_none() {
                asked = Some(Box::pin(conn.ping()));
            }
            let pause = tokio::time::sleep(PING);
            match &mut asked {
                None => pause.await,
                Some(ping) => {
                    let answered = tokio::select! {
                        // That the connection has ended is for others to tell.
                        _ = ping => true,
                        () = pause => false,
                    };
                    if answered {
                        asked = None;
                        tokio::time::sleep(PING).await;
                    }
                }
            }
        }
    }

    fn mark(&self) {
        let since = self.0.began.elapsed().as_millis();
        let heard = u64::try_from(since).unwrap_or(u64::MAX);
        self.0.heard.store(heard, Ordering::Relaxed);
    }

    fn quiet(&self) -> Duration {
        let heard = Duration::from_millis(self.0.heard.load(Ordering::Relaxed));
        self.0.began.elapsed().saturating_sub(heard)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Heard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let read = Pin::new(&mut self.reader).poll_read(context, buffer);
        if read.is_ready() {
            self.life.mark();
        }
        read
    }
}
