use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Sleep;

use super::shared::{Errand, Shared};
use crate::outbox::Outbox;
use crate::turn::ask_again;
use crate::wire::Frames;
use crate::{Error, Rmessage};

/// Answers, and bytes of answers, that are handed over before those who wait for them get their turn.
const BURST: usize = 64;
const BURST_BYTES: usize = 128 * 1024;

/// How long the last requests have to be read by the server when nobody needs the connection any longer.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Moves bytes between the stream and the client's handles. It ends when the stream does or the last handle is gone.
pub(super) struct Driver<R, W> {
    shared: Arc<Shared>,
    reader: R,
    writer: W,
    frames: Frames,
    outbox: Outbox,
    linger: Option<Pin<Box<Sleep>>>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Driver<R, W> {
    pub(super) fn new(shared: Arc<Shared>, reader: R, writer: W) -> Self {
        Driver {
            shared,
            reader,
            writer,
            frames: Frames::new(),
            outbox: Outbox::default(),
            linger: None,
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        match self.poll_answers(cx) {
            Err(error) => return Poll::Ready(error),
            Ok(true) => ask_again(cx),
            Ok(false) => {}
        }
        loop {
            match self.shared.errand(&mut self.outbox, cx) {
                Errand::Finish => return Poll::Ready(Error::HungUp),
                Errand::WriteLast => {
                    let linger = self
                        .linger
                        .get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
                    if linger.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Error::HungUp);
                    }
                }
                Errand::Write => {}
            }
            match self.outbox.poll_write(cx, &mut self.writer) {
                Poll::Ready(Ok(())) if self.shared.has_errand() => {}
                Poll::Ready(Ok(())) => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Error::Io(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Reads answers; true if more may be there already.
    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        let mut bytes = 0;
        for _ in 0..BURST {
            if bytes > BURST_BYTES {
                break;
            }
            if let Some(frame) = self.frames.next(self.shared.config.msize)? {
                bytes += frame.len();
                let (tag, message) = Rmessage::decode(frame)?;
                self.shared.complete(tag, message)?;
                continue;
            }
            // A new future each time: `read_buf` keeps nothing in it between polls.
            match pin!(self.reader.read_buf(self.frames.space())).poll(cx) {
                Poll::Ready(Ok(0)) if self.frames.at_boundary() => return Err(Error::EndOfStream),
                Poll::Ready(Ok(0)) => return Err(Error::Truncated),
                Poll::Ready(Ok(_)) => self.shared.heard_now(),
                Poll::Ready(Err(error)) => return Err(Error::Io(error)),
                Poll::Pending => return Ok(false),
            }
        }
        Ok(true)
    }

    pub(super) fn end(self, error: Error) -> W {
        self.shared.close(error);
        self.writer
    }
}
