use std::io;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use crate::outbox::Outbox;
use crate::{Error, Rmessage, Tag};

/// Data up to this length make no answer a bulky one.
pub(super) const SMALL: usize = 4096;

/// What an answer may overtake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// It goes before data that wait to be written: a large reply in progress does not delay another fid.
    Ahead,
    /// It ends something, or stands behind data in a lane of reads: it stays behind whatever was answered before it.
    Behind,
}

/// Answers on their way out: small ones overtake data, frame by frame.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Written first, except for the rest of a frame of `bulk` that was begun.
    ahead: Outbox,
    bulk: Outbox,
    /// Frames that were ever put into `bulk`.
    bulk_frames: u64,
}

impl Answers {
    pub(super) fn is_empty(&self) -> bool {
        self.ahead.len() + self.bulk.len() == 0
    }

    /// Bytes of small answers that wait.
    pub(super) fn ahead(&self) -> usize {
        self.ahead.len()
    }

    /// Bytes of data, and of what must stay behind them, that wait.
    pub(super) fn bulk(&self) -> usize {
        self.bulk.len()
    }

    pub(super) fn push(
        &mut self,
        tag: Tag,
        message: &Rmessage,
        order: Order,
        msize: u32,
    ) -> Result<(), Error> {
        let bulky = matches!(message, Rmessage::Read { data } if data.len() > SMALL);
        // With no data in the way, both are the same queue.
        if bulky || (order == Order::Behind && self.bulk.len() > 0) {
            self.bulk.push_answer(tag, message, msize)?;
            self.bulk_frames += 1;
            return Ok(());
        }
        self.ahead.push_answer(tag, message, msize)
    }

    /// How many answers have ever had to wait in the queue of data, which makes a number of the last one.
    pub(super) fn data_queued(&self) -> u64 {
        self.bulk_frames
    }

    /// Whether that answer has been written.
    pub(super) fn has_gone(&self, number: u64) -> bool {
        number + self.bulk.frames() as u64 <= self.bulk_frames
    }

    /// Writes and flushes until nothing is left or the peer takes no more.
    pub(super) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        writer: &mut W,
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let begun = self.bulk.begun();
            if begun > 0 && self.ahead.len() > 0 {
                ready!(self.bulk.poll_some(cx, writer, begun))?;
            } else if self.ahead.len() > 0 {
                ready!(self.ahead.poll_some(cx, writer, usize::MAX))?;
            } else {
                ready!(self.bulk.poll_some(cx, writer, usize::MAX))?;
            }
        }
        ready!(self.ahead.poll_flush(cx, writer))?;
        self.bulk.poll_flush(cx, writer)
    }
}
