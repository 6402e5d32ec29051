use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;

use super::answers::SMALL;
use super::ready::{LaneKey, LaneWaker, Ready, Way};
use super::service::{Answer, File};
use super::shield::{discard, shielded, shielded_poll};
use crate::{Refusal, Rmessage, Tag, ename};

/// A Tread or Twrite that is to be done.
pub(super) enum Operation {
    Read { offset: u64, count: u32 },
    Write { offset: u64, data: Bytes },
}

/// How long the next answer of a lane may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    Small,
    Long,
}

impl Operation {
    pub(super) fn size(&self) -> Size {
        match self {
            Operation::Read { count, .. } => Size::of(*count),
            Operation::Write { .. } => Size::Small,
        }
    }

    pub(super) fn way(&self) -> Way {
        match self {
            Operation::Read { .. } => Way::Read,
            Operation::Write { .. } => Way::Write,
        }
    }
}

impl Size {
    fn of(count: u32) -> Self {
        match count as usize <= SMALL {
            true => Size::Small,
            false => Size::Long,
        }
    }
}

enum Running {
    Read(Answer<Bytes>, u32),
    Write(Answer<u32>, u32),
}

/// The reads, or the writes, of one open fid: done one after the other, answered in the order they came.
pub(super) struct Lane {
    file: Arc<dyn File>,
    waker: Waker,
    running: Option<(Tag, Running)>,
    waiting: VecDeque<(Tag, Operation)>,
    /// The number of the last answer that had to wait in the queue of data.
    pub(super) last_data: u64,
}

impl Lane {
    pub(super) fn new(file: Arc<dyn File>, key: LaneKey, ready: &Arc<Ready>) -> Self {
        Lane {
            file,
            waker: Waker::from(LaneWaker::new(key, ready)),
            running: None,
            waiting: VecDeque::new(),
            last_data: 0,
        }
    }

    /// How long the next answer may be.
    pub(super) fn size(&self) -> Size {
        match (&self.running, self.waiting.front()) {
            (Some((_, Running::Read(_, count))), _) => Size::of(*count),
            (None, Some((_, operation))) => operation.size(),
            _ => Size::Small,
        }
    }

    /// Takes a request that is not to begin yet.
    pub(super) fn put_off(&mut self, tag: Tag, operation: Operation) {
        self.waiting.push_back((tag, operation));
    }

    /// Takes a request. Its answer, if it is there at once; else it waits, or waits for its turn.
    pub(super) fn submit(
        &mut self,
        tag: Tag,
        operation: Operation,
    ) -> Option<Result<Rmessage, Refusal>> {
        let first = self.running.is_none() && self.waiting.is_empty();
        self.waiting.push_back((tag, operation));
        if !first {
            return None;
        }
        match self.poll() {
            Poll::Ready((_, answer)) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// Carries on with the oldest request. Ready is its answer; pending means that it waits, or that there is none.
    pub(super) fn poll(&mut self) -> Poll<(Tag, Result<Rmessage, Refusal>)> {
        if self.running.is_none() {
            let Some((tag, operation)) = self.waiting.pop_front() else {
                return Poll::Pending;
            };
            match self.begin(operation) {
                Ok(running) => self.running = Some((tag, running)),
                Err(refusal) => return Poll::Ready((tag, Err(refusal))),
            }
        }
        let Some((tag, running)) = &mut self.running else {
            return Poll::Pending;
        };
        let tag = *tag;
        let answer = ready!(running.poll(&mut Context::from_waker(&self.waker)));
        discard(self.running.take());
        Poll::Ready((tag, answer))
    }

    fn begin(&self, operation: Operation) -> Result<Running, Refusal> {
        let file = Arc::clone(&self.file);
        shielded(|| {
            Ok(match operation {
                Operation::Read { offset, count } => Running::Read(file.read(offset, count), count),
                Operation::Write { offset, data } => {
                    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                    Running::Write(file.write(offset, data), length)
                }
            })
        })
    }

    /// Forgets one request.
    pub(super) fn cancel(&mut self, tag: Tag) {
        if let Some((running, _)) = &self.running
            && *running == tag
        {
            discard(self.running.take());
        } else {
            self.waiting.retain(|(waiting, _)| *waiting != tag);
        }
    }

    /// Forgets every request; the tags come oldest first.
    pub(super) fn cancel_all(&mut self) -> Vec<Tag> {
        let running = self.running.take();
        let tags = running.iter().map(|(tag, _)| *tag);
        let tags = tags
            .chain(self.waiting.drain(..).map(|(tag, _)| tag))
            .collect();
        discard(running);
        tags
    }
}

impl Running {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Rmessage, Refusal>> {
        match self {
            Running::Read(answer, count) => {
                let data = ready!(shielded_poll(|| answer.as_mut().poll(cx)));
                Poll::Ready(
                    data.and_then(|data| at_most(data.len(), *count, Rmessage::Read { data })),
                )
            }
            Running::Write(answer, length) => {
                let count = ready!(shielded_poll(|| answer.as_mut().poll(cx)));
                Poll::Ready(
                    count.and_then(|count| {
                        at_most(count as usize, *length, Rmessage::Write { count })
                    }),
                )
            }
        }
    }
}

/// A file that claims to have moved more than it was given is broken, and its claim would mislead the client.
pub(super) fn at_most(moved: usize, asked: u32, message: Rmessage) -> Result<Rmessage, Refusal> {
    if moved > asked as usize {
        return Err(Refusal::new(ename::INTERNAL));
    }
    Ok(message)
}
