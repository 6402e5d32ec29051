use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::config::ClientConfig;
use super::tags::{Slot, Tags};
use crate::outbox::Outbox;
use crate::trace::Direction;
use crate::{Error, Fid, IO_HEADER, Rmessage, Tag, Tagged, Tmessage};

/// What the client's handles and its driver share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) config: ClientConfig,
    born: Instant,
    /// Microseconds after `born` at which the last bytes came.
    heard: AtomicU64,
}

#[derive(Debug)]
pub(super) struct State {
    tags: Tags,
    outbox: Outbox,
    /// Bytes that the driver has taken from `outbox` and not yet written.
    sending: usize,
    driver: Option<Waker>,
    /// Tasks that wait for room in the queue or for the end.
    waiters: Vec<Waker>,
    free_fids: Vec<Fid>,
    next_fid: u32,
    msize: u32,
    hanging_up: bool,
    closed: Option<Arc<Error>>,
}

/// What the driver is to do next.
pub(super) enum Errand {
    Write,
    /// The same, but nobody needs the connection any longer.
    WriteLast,
    Finish,
}

/// What a server takes from a peer that has not attached yet, and so what to keep to before Rversion says more.
const MSIZE_BEFORE_VERSION: u32 = 8192;

impl Shared {
    pub(super) fn new(mut config: ClientConfig) -> Self {
        config.msize = config.msize.max(256);
        Shared {
            state: Mutex::new(State {
                tags: Tags::new(),
                outbox: Outbox::default(),
                sending: 0,
                driver: None,
                waiters: Vec::new(),
                free_fids: Vec::new(),
                next_fid: 0,
                msize: MSIZE_BEFORE_VERSION.min(config.msize),
                hanging_up: false,
                closed: None,
            }),
            config,
            born: Instant::now(),
            heard: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request. `bounded` requests fail when the queue is full.
    pub(super) fn submit(
        &self,
        message: &Tmessage,
        slot: Slot,
        bounded: bool,
    ) -> Result<Tag, Error> {
        let mut state = self.lock();
        let tag = state.submit(message, slot, bounded, &self.config)?;
        state.wake_driver();
        Ok(tag)
    }

    /// Looks whether the answer is here. When it is, the tag is free again.
    pub(super) fn poll_answer(
        &self,
        tag: Tag,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Rmessage, Error>> {
        let mut state = self.lock();
        if let Some(answer) = state.tags.take_answer(tag) {
            return Poll::Ready(Ok(answer));
        }
        if let Some(error) = &state.closed {
            return Poll::Ready(Err(Error::Closed(Arc::clone(error))));
        }
        state.tags.listen(tag, cx.waker());
        Poll::Pending
    }

    /// Nobody waits for this answer any longer, but the request is to be carried out.
    pub(super) fn detach(&self, tag: Tag) {
        self.lock().tags.detach(tag);
    }

    /// Nobody waits for this answer any longer: the request is to be cancelled.
    pub(super) fn abandon(&self, tag: Tag) {
        let mut state = self.lock();
        if state.tags.abandon(tag) && state.flush(tag, &self.config) {
            state.wake_driver();
        }
    }

    /// Cancels a request whose end is still awaited.
    pub(super) fn cancel(&self, tag: Tag) {
        let mut state = self.lock();
        if state.tags.cancel(tag) && state.flush(tag, &self.config) {
            state.wake_driver();
        }
    }

    /// Looks whether a cancelled request has come to its end: its answer, or none.
    pub(super) fn poll_cancelled(
        &self,
        tag: Tag,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Rmessage>, Error>> {
        let mut state = self.lock();
        if let Some(end) = state.tags.take_cancelled(tag) {
            return Poll::Ready(Ok(end));
        }
        if let Some(error) = &state.closed {
            return Poll::Ready(Err(Error::Closed(Arc::clone(error))));
        }
        state.tags.listen(tag, cx.waker());
        Poll::Pending
    }

    pub(super) fn take_fid(&self) -> Fid {
        let mut state = self.lock();
        state.free_fids.pop().unwrap_or_else(|| {
            let fid = Fid(state.next_fid);
            // 4294967295 is NOFID; a connection that clunks never comes near.
            state.next_fid = state.next_fid.saturating_add(1).min(Fid::NONE.0 - 1);
            fid
        })
    }

    pub(super) fn max_data(&self) -> u32 {
        self.lock().msize - IO_HEADER
    }

    pub(super) fn last_heard(&self) -> Instant {
        self.born + Duration::from_micros(self.heard.load(Ordering::Relaxed))
    }

    pub(super) fn heard_now(&self) {
        let micros = u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.heard.store(micros, Ordering::Relaxed);
    }

    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = self.lock();
        if let Some(error) = &state.closed {
            return Poll::Ready(Err(Error::Closed(Arc::clone(error))));
        }
        if state.queued() < self.config.queue {
            return Poll::Ready(Ok(()));
        }
        state.listen(cx.waker());
        Poll::Pending
    }

    pub(super) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<Arc<Error>> {
        let mut state = self.lock();
        if let Some(error) = &state.closed {
            return Poll::Ready(Arc::clone(error));
        }
        state.listen(cx.waker());
        Poll::Pending
    }

    /// The last handle is gone.
    pub(super) fn hang_up(&self) {
        let mut state = self.lock();
        state.hanging_up = true;
        state.wake_driver();
    }

    /// The driver's turn: gives it what was queued, and hears how much of the earlier is still unwritten.
    pub(super) fn errand(&self, outbox: &mut Outbox, cx: &mut Context<'_>) -> Errand {
        let mut state = self.lock();
        match &state.driver {
            Some(known) if known.will_wake(cx.waker()) => {}
            _ => state.driver = Some(cx.waker().clone()),
        }
        let before = state.queued();
        outbox.append(&mut state.outbox);
        state.sending = outbox.len();
        if before >= self.config.queue && state.queued() < self.config.queue {
            state.waiters.drain(..).for_each(Waker::wake);
        }
        match (state.hanging_up, outbox.len()) {
            (true, 0) => Errand::Finish,
            (true, _) => Errand::WriteLast,
            (false, _) => Errand::Write,
        }
    }

    /// Whether [`Shared::errand`] would have more to say than when it was last asked.
    pub(super) fn has_errand(&self) -> bool {
        let state = self.lock();
        state.queued() > 0 || state.hanging_up
    }

    /// An answer came.
    pub(super) fn complete(&self, tag: Tag, message: Rmessage) -> Result<(), Error> {
        if let Some(trace) = &self.config.trace {
            trace.line(Direction::In, &Tagged(tag, &message));
        }
        let mut state = self.lock();
        if let (Tag::NONE, Rmessage::Version { msize, version }) = (tag, &message) {
            if *msize > self.config.msize {
                return Err(Error::Protocol("Rversion offers more than Tversion"));
            }
            if version == crate::VERSION {
                state.msize = (*msize).max(256);
            }
        }
        if let Some(fid) = state.tags.complete(tag, message)? {
            state.free_fids.push(fid);
        }
        Ok(())
    }

    /// The connection is over: everybody hears why.
    pub(super) fn close(&self, error: Error) {
        let mut state = self.lock();
        if state.closed.is_none() {
            state.closed = Some(Arc::new(error));
        }
        state.outbox = Outbox::default();
        state.tags.wake_all();
        state.waiters.drain(..).for_each(Waker::wake);
    }
}

impl State {
    fn queued(&self) -> usize {
        self.outbox.len() + self.sending
    }

    fn listen(&mut self, task: &Waker) {
        if !self.waiters.iter().any(|known| known.will_wake(task)) {
            self.waiters.push(task.clone());
        }
    }

    fn submit(
        &mut self,
        message: &Tmessage,
        slot: Slot,
        bounded: bool,
        config: &ClientConfig,
    ) -> Result<Tag, Error> {
        if let Some(error) = &self.closed {
            return Err(Error::Closed(Arc::clone(error)));
        }
        if bounded && self.queued() >= config.queue {
            return Err(Error::QueueFull);
        }
        let tag = match message {
            Tmessage::Version { .. } => self.tags.reserve_version()?,
            _ => self.tags.reserve(bounded)?,
        };
        if let Err(error) = self.outbox.push_request(tag, message, self.msize) {
            self.tags.release(tag);
            return Err(error);
        }
        self.tags.fill(tag, slot);
        if let Some(trace) = &config.trace {
            trace.line(Direction::Out, &Tagged(tag, message));
        }
        Ok(tag)
    }

    fn flush(&mut self, oldtag: Tag, config: &ClientConfig) -> bool {
        let flush = Tmessage::Flush { oldtag };
        self.submit(&flush, Slot::Flush { oldtag }, false, config)
            .is_ok()
    }

    fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }
}
