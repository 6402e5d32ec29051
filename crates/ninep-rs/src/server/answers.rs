use std::io;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use crate::outbox::Outbox;
use crate::{Error, Rmessage, Tag};

/// Data up to this length make no answer a bulky one.
const SMALL: usize = 4096;

/// What an answer may overtake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// It goes before data that wait to be written: a large reply in progress does not delay another fid.
    Ahead,
    /// It ends something, or belongs to a lane of reads: it stays behind whatever was answered before it.
    Behind,
}

/// Answers on their way out: small ones overtake data, frame by frame.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Written first, except for the rest of a frame of `bulk` that was begun.
    ahead: Outbox,
    bulk: Outbox,
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
        let outbox = match order {
            // With no data in the way, both are the same queue.
            Order::Behind if bulky || self.bulk.len() > 0 => &mut self.bulk,
            Order::Behind | Order::Ahead => &mut self.ahead,
        };
        outbox.push_answer(tag, message, msize)
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
