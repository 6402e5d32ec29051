use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, Bytes};
use ninep_rs::Refusal;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

/// From this many waiting bytes on, a write waits: the writer is slowed down
/// to the speed of the process. At most one message more is held.
const ROOM: usize = 256 * 1024;

/// Standard input of a call.
///
/// A write is taken whole or, if it is flushed, not at all, so that several
/// may be on their way at once without mixing up their order.
pub(crate) struct Stdin {
    queue: Mutex<Queue>,
    /// There is something to write, or an end.
    filled: Notify,
    /// There is room, or nobody reads any more.
    drained: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Bytes>,
    bytes: usize,
    /// No more is coming.
    ended: bool,
    /// The process does not read any more.
    broken: bool,
}

impl Stdin {
    /// What is written waits until there is a process.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
        })
    }

    /// All of the input, of any length.
    pub(crate) fn given(data: Bytes) -> Arc<Self> {
        let stdin = Self::new();
        let mut queue = stdin.queue();
        queue.bytes = data.len();
        queue.waiting.extend((!data.is_empty()).then_some(data));
        queue.ended = true;
        drop(queue);
        stdin
    }

    /// Feeds `pipe` from a task of its own until the end of input, or until
    /// the process closes its side.
    pub(crate) fn feed(self: &Arc<Self>, pipe: pipe::Sender) {
        tokio::spawn(Arc::clone(self).pump(pipe));
    }

    /// There will be no process.
    pub(crate) fn give_up(&self) {
        let mut queue = self.queue();
        queue.broken = true;
        queue.waiting.clear();
        drop(queue);
        self.drained.notify_waiters();
    }

    /// Takes `data` once there is room.
    pub(crate) async fn write(&self, data: Bytes) -> Result<u32, Refusal> {
        loop {
            let drained = self.drained.notified();
            {
                let mut queue = self.queue();
                if queue.broken {
                    return Err(Refusal::new(
                        "standard input: the process does not read it any more",
                    ));
                }
                if queue.ended {
                    return Err(Refusal::new("standard input was ended already"));
                }
                if queue.bytes < ROOM {
                    let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
                    queue.bytes += data.len();
                    queue.waiting.push_back(data);
                    self.filled.notify_one();
                    return Ok(count);
                }
            }
            drained.await;
        }
    }

    /// Ends the input after what was written.
    pub(crate) fn end(&self) {
        self.queue().ended = true;
        self.filled.notify_one();
    }

    async fn pump(self: Arc<Self>, pipe: pipe::Sender) {
        loop {
            let filled = self.filled.notified();
            let next = {
                let queue = self.queue();
                match queue.waiting.front() {
                    Some(data) => Some(data.clone()),
                    None if queue.ended => return,
                    None => None,
                }
            };
            let Some(data) = next else {
                tokio::select! {
                    () = filled => {}
                    // The process may close its side while nothing is written.
                    () = closed(&pipe) => break,
                }
                continue;
            };
            let written = match pipe.writable().await.and_then(|()| pipe.try_write(&data)) {
                Ok(written) => written,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => break,
            };
            let mut queue = self.queue();
            queue.bytes -= written;
            if let Some(front) = queue.waiting.front_mut() {
                front.advance(written);
                if front.is_empty() {
                    queue.waiting.pop_front();
                }
            }
            drop(queue);
            self.drained.notify_waiters();
        }
        self.give_up();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns when the read end of a pipe is closed (POLLERR, poll(2)).
async fn closed(pipe: &pipe::Sender) {
    let _ = pipe.ready(tokio::io::Interest::ERROR).await;
}
