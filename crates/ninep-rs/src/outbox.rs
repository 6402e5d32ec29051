use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;

use crate::{Error, Rmessage, Tag, Tmessage};

/// Data up to this length are copied behind their header; longer ones are sent from where they are.
const COPIED: usize = 4096;

/// Slices handed to one `writev`.
const SLICES: usize = 32;

/// Frames on their way out, in order, and how many bytes they are.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Written first.
    parts: VecDeque<Bytes>,
    /// Written last: where small frames gather, so that a burst is one write.
    tail: BytesMut,
    /// Bytes of `tail` that are written.
    written: usize,
    bytes: usize,
    /// The length of each frame that waits; of the first, what is left.
    frames: VecDeque<usize>,
    /// Whether some of the first frame is written.
    inside: bool,
    unflushed: bool,
}

impl Outbox {
    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Frames that wait, one that was begun included.
    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn push_answer(
        &mut self,
        tag: Tag,
        message: &Rmessage,
        msize: u32,
    ) -> Result<(), Error> {
        let before = self.tail.len();
        let data = message.encode_head(tag, &mut self.tail)?;
        self.push_data(before, data, msize)
    }

    pub(crate) fn push_request(
        &mut self,
        tag: Tag,
        message: &Tmessage,
        msize: u32,
    ) -> Result<(), Error> {
        let before = self.tail.len();
        let data = message.encode_head(tag, &mut self.tail)?;
        self.push_data(before, data, msize)
    }

    fn push_data(&mut self, before: usize, data: Option<&Bytes>, msize: u32) -> Result<(), Error> {
        let length = self.tail.len() - before + data.map_or(0, Bytes::len);
        if length > msize as usize {
            self.tail.truncate(before);
            return Err(Error::TooLong("message"));
        }
        self.bytes += length;
        self.frames.push_back(length);
        match data {
            Some(data) if data.len() > COPIED => {
                self.seal();
                self.parts.push_back(data.clone());
            }
            Some(data) => self.tail.extend_from_slice(data),
            None => {}
        }
        Ok(())
    }

    /// Moves everything from `other` behind what is here.
    pub(crate) fn append(&mut self, other: &mut Outbox) {
        if self.bytes == 0 {
            std::mem::swap(self, other);
            return;
        }
        self.seal();
        other.seal();
        self.parts.append(&mut other.parts);
        self.frames.append(&mut other.frames);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    fn seal(&mut self) {
        self.tail.advance(std::mem::take(&mut self.written));
        if !self.tail.is_empty() {
            self.parts.push_back(self.tail.split().freeze());
        }
    }

    /// What is left of a frame that was begun: nothing else may be written before it.
    pub(crate) fn begun(&self) -> usize {
        match self.inside {
            true => self.frames.front().copied().unwrap_or(0),
            false => 0,
        }
    }

    /// Writes and flushes until nothing is left or the peer takes no more.
    pub(crate) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        writer: &mut W,
    ) -> Poll<io::Result<()>> {
        while self.bytes > 0 {
            ready!(self.poll_some(cx, writer, usize::MAX))?;
        }
        self.poll_flush(cx, writer)
    }

    /// Flushes what was written.
    pub(crate) fn poll_flush<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        writer: &mut W,
    ) -> Poll<io::Result<()>> {
        if self.unflushed {
            ready!(Pin::new(writer).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes once, at most `most` bytes.
    pub(crate) fn poll_some<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        writer: &mut W,
        most: usize,
    ) -> Poll<io::Result<()>> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut used = 0;
        let mut room = most;
        let tail = &self.tail[self.written..];
        for part in self.parts.iter().map(|part| &part[..]).chain([tail]) {
            if used == SLICES || room == 0 {
                break;
            }
            let part = &part[..part.len().min(room)];
            room -= part.len();
            slices[used] = IoSlice::new(part);
            used += 1;
        }
        let writer = Pin::new(writer);
        let written = ready!(match used > 1 && writer.is_write_vectored() {
            true => writer.poll_write_vectored(cx, &slices[..used]),
            false => writer.poll_write(cx, &slices[0]),
        })?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.unflushed = true;
        self.advance(written);
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        self.advance_frames(written);
        while let Some(part) = self.parts.front_mut() {
            if written < part.len() {
                part.advance(written);
                return;
            }
            written -= part.len();
            self.parts.pop_front();
        }
        self.written += written;
        if self.written == self.tail.len() {
            self.written = 0;
            self.tail.clear();
        }
    }

    fn advance_frames(&mut self, mut written: usize) {
        while let Some(frame) = self.frames.front_mut() {
            if written < *frame {
                *frame -= written;
                self.inside |= written > 0;
                return;
            }
            written -= *frame;
            self.frames.pop_front();
            self.inside = false;
        }
    }
}
