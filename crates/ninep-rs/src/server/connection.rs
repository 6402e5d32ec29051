use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Sleep;

use super::answers::{Answers, Order};
use super::config::ServerConfig;
use super::fids::Fids;
use super::lane::{Lane, Size};
use super::ready::{LaneKey, Ready};
use super::service::Service;
use crate::trace::Direction;
use crate::turn::ask_again;
use crate::wire::{Frames, HEADER};
use crate::{Error, Refusal, Rmessage, Tag, Tagged, Tmessage, ename};

/// Frames that are answered before other tasks of the runtime get their turn.
const BURST: usize = 64;

/// Fids before the first successful attach: authentication files, each with two names that a stranger chose.
const FIDS_BEFORE_ATTACH: usize = 16;

/// The least msize: an `Rerror` with a useful text, and every message without names or data, fits in.
pub(super) const LEAST_MSIZE: u32 = 256;

/// One served connection: a state machine that one task polls.
///
/// Reading, the waiting requests, and writing share that task, so a request is answered, flushed or dropped by one
/// hand: there is no moment at which a read has taken its bytes and a flush can still lose them, on whatever runtime.
/// A half-read frame lives in `frames`, not in a future that could be dropped.
pub(super) struct Connection<S, R, W> {
    pub(super) service: Arc<S>,
    pub(super) config: ServerConfig,
    reader: R,
    writer: W,
    frames: Frames,
    answers: Answers,
    pub(super) fids: Fids,
    ready: Arc<Ready>,
    /// Lanes to carry on with in this turn or the next.
    due: Vec<LaneKey>,
    /// Zero until the first Tversion.
    pub(super) msize: u32,
    attached: bool,
    deadline: Option<Pin<Box<Sleep>>>,
    phase: Phase,
}

/// How far a lane came in its turn.
enum Advance {
    /// It has nothing to say.
    Waits,
    /// There was room for some of its answers.
    Served,
    /// There was none.
    PutOff,
}

enum Phase {
    Serving,
    /// Nothing is read any more; what is queued is written, then `serve` returns this.
    Closing(Option<Result<(), Error>>),
}

impl<S: Service, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<S, R, W> {
    pub(super) fn new(reader: R, writer: W, service: Arc<S>, mut config: ServerConfig) -> Self {
        config.msize = config.msize.max(LEAST_MSIZE);
        let ready = Arc::new(Ready::default());
        Connection {
            fids: Fids::new(FIDS_BEFORE_ATTACH.min(config.fids), Arc::clone(&ready)),
            deadline: config
                .attach_deadline
                .map(|after| Box::pin(tokio::time::sleep(after))),
            service,
            config,
            reader,
            writer,
            frames: Frames::new(),
            answers: Answers::default(),
            ready,
            due: Vec::new(),
            msize: 0,
            attached: false,
            phase: Phase::Serving,
        }
    }

    pub(super) fn into_writer(self) -> W {
        self.writer
    }

    /// One turn: waiting requests, new requests, answers.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.ready.register(cx.waker());
        let mut again = false;
        if matches!(self.phase, Phase::Serving) {
            self.carry_on();
            again = self.poll_requests(cx);
            self.poll_attach_deadline(cx);
        }
        let stalled = !self.has_room() || !self.takes_requests();
        match self.answers.poll_write(cx, &mut self.writer) {
            Poll::Ready(Ok(())) => {
                if let Phase::Closing(result) = &mut self.phase {
                    return Poll::Ready(result.take().unwrap_or(Ok(())));
                }
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(Error::Io(error))),
            Poll::Pending => {}
        }
        if let Phase::Closing(result) = &mut self.phase {
            let lingers = self
                .deadline
                .as_mut()
                .is_some_and(|linger| linger.as_mut().poll(cx).is_pending());
            return match lingers {
                true => Poll::Pending,
                false => Poll::Ready(result.take().unwrap_or(Ok(()))),
            };
        }
        // What was stalled and is so no longer has nobody else to wake it.
        let goes_on = stalled && self.has_room() && self.takes_requests();
        let due = self.can_carry_on();
        if again || goes_on || due || !self.ready.is_empty() {
            ask_again(cx);
        }
        Poll::Pending
    }

    /// Whether there is room for a long answer.
    fn has_room(&self) -> bool {
        self.answers.bulk() < self.config.output
    }

    /// Whether there is room for the next answer of a lane.
    pub(super) fn has_room_for(&self, size: Size) -> bool {
        match size {
            Size::Small => self.answers.ahead() < self.config.output,
            Size::Long => self.has_room(),
        }
    }

    /// Whether a lane that was put off has room now.
    fn can_carry_on(&mut self) -> bool {
        let due = std::mem::take(&mut self.due);
        let can = due
            .iter()
            .any(|key| match self.fids.lane(*key).map(|lane| lane.size()) {
                Some(size) => self.has_room_for(size),
                None => false,
            });
        self.due = due;
        can
    }

    /// Whether requests are read. Behind answers that nobody reads they are only as long as reads can be put off.
    fn takes_requests(&self) -> bool {
        self.answers.ahead() < self.config.output
            && (self.has_room() || self.fids.waiting() < self.config.requests)
    }

    /// Polls the waiting requests that woke.
    fn carry_on(&mut self) {
        for key in self.ready.take() {
            self.schedule(key);
        }
        // A lane that got its turn stands behind those that did not: else one with many reads would keep all the room.
        let mut served = Vec::new();
        for key in std::mem::take(&mut self.due) {
            match self.advance(key) {
                Advance::Waits => {}
                Advance::Served => served.push(key),
                Advance::PutOff => self.due.push(key),
            }
        }
        self.due.append(&mut served);
    }

    /// Polls a lane until it waits for itself or for room.
    fn advance(&mut self, key: LaneKey) -> Advance {
        let mut without_room = Advance::PutOff;
        loop {
            let Some(size) = self.fids.lane(key).map(|lane| lane.size()) else {
                return Advance::Waits;
            };
            if !self.has_room_for(size) {
                return without_room;
            }
            let Some(Poll::Ready((tag, answer))) = self.fids.lane(key).map(Lane::poll) else {
                return Advance::Waits;
            };
            self.fids.answered(tag);
            self.answer_lane(key, tag, answer);
            without_room = Advance::Served;
        }
    }

    /// Reads and answers requests; true if more may be there already.
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..BURST {
            if !self.takes_requests() || !matches!(self.phase, Phase::Serving) {
                return false;
            }
            match self.frames.next(self.frame_limit()) {
                Ok(Some(frame)) => self.request(frame),
                Ok(None) => {
                    // A new future each time: `read_buf` keeps nothing in it between polls.
                    match pin!(self.reader.read_buf(self.frames.space())).poll(cx) {
                        Poll::Ready(Ok(0)) => {
                            let end = match self.frames.at_boundary() {
                                true => Ok(()),
                                false => Err(Error::Truncated),
                            };
                            self.close(end);
                        }
                        Poll::Ready(Ok(_)) => {}
                        Poll::Ready(Err(error)) => self.close(Err(Error::Io(error))),
                        Poll::Pending => return false,
                    }
                }
                Err(error) => {
                    if let (Error::FrameTooLong { .. }, Some(tag)) =
                        (&error, self.frames.refused_tag())
                    {
                        self.answer(tag, Err(Refusal::new(ename::TOO_LONG)));
                    }
                    self.close(Err(error));
                }
            }
        }
        true
    }

    fn frame_limit(&self) -> u32 {
        match (self.attached, self.msize) {
            (false, _) => self.config.msize_before_attach,
            (true, 0) => self.config.msize,
            (true, msize) => msize,
        }
    }

    fn request(&mut self, frame: bytes::Bytes) {
        // `frames` gives out no shorter frame.
        let tag = Tag(u16::from_le_bytes([frame[HEADER - 2], frame[HEADER - 1]]));
        match Tmessage::decode(frame) {
            Ok((tag, message)) => {
                if let Some(trace) = &self.config.trace {
                    trace.line(Direction::In, &Tagged(tag, &message));
                }
                self.dispatch(tag, message);
            }
            Err(Error::UnknownType(_)) => {
                self.answer(tag, Err(Refusal::new(ename::UNKNOWN_TYPE)));
            }
            Err(error) => {
                self.answer(tag, Err(Refusal::new(ename::MALFORMED)));
                self.close(Err(error));
            }
        }
    }

    /// Queues the one answer of a request.
    pub(super) fn answer(&mut self, tag: Tag, answer: Result<Rmessage, Refusal>) {
        self.answer_in(Order::Behind, tag, answer);
    }

    /// Queues the answer of a lane, which overtakes everything but what was answered in the same lane.
    pub(super) fn answer_lane(
        &mut self,
        key: LaneKey,
        tag: Tag,
        answer: Result<Rmessage, Refusal>,
    ) {
        let earlier = self.fids.lane(key).map_or(0, |lane| lane.last_data);
        let order = match self.answers.has_gone(earlier) {
            true => Order::Ahead,
            false => Order::Behind,
        };
        let before = self.answers.data_queued();
        self.answer_in(order, tag, answer);
        let after = self.answers.data_queued();
        if after > before
            && let Some(lane) = self.fids.lane(key)
        {
            lane.last_data = after;
        }
    }

    /// The same, with a say in what it may overtake.
    pub(super) fn answer_in(&mut self, order: Order, tag: Tag, answer: Result<Rmessage, Refusal>) {
        match answer {
            Ok(message) => self.push(order, tag, message),
            Err(refusal) if refusal.closes() => {
                let ename = refusal.ename().to_owned();
                self.push(Order::Behind, tag, Rmessage::Error { ename });
                self.close(Err(Error::Refused(refusal.ename().to_owned())));
            }
            Err(refusal) => {
                let ename = refusal.ename().to_owned();
                self.push(order, tag, Rmessage::Error { ename });
            }
        }
    }

    fn push(&mut self, order: Order, tag: Tag, message: Rmessage) {
        let msize = self.msize.max(LEAST_MSIZE);
        let mut message = match message {
            Rmessage::Error { ename } => Rmessage::Error {
                ename: fitting(ename, msize),
            },
            other => other,
        };
        if self.answers.push(tag, &message, order, msize).is_err() {
            // A service's name or text that the wire cannot carry.
            let ename = ename::ANSWER_TOO_LONG.to_owned();
            message = Rmessage::Error { ename };
            let _fits = self.answers.push(tag, &message, order, msize);
        }
        if let Some(trace) = &self.config.trace {
            trace.line(Direction::Out, &Tagged(tag, &message));
        }
    }

    /// The first attach has succeeded: what protects against strangers is over.
    pub(super) fn admit(&mut self) {
        self.attached = true;
        self.deadline = None;
        self.fids.set_limit(self.config.fids);
    }

    /// Begins a lane's next request in the turn after this one.
    pub(super) fn schedule(&mut self, key: LaneKey) {
        if !self.due.contains(&key) {
            self.due.push(key);
        }
    }

    /// Ends everything the connection owns and stops reading. What is queued is still written.
    fn close(&mut self, result: Result<(), Error>) {
        if matches!(self.phase, Phase::Closing(_)) {
            return;
        }
        self.fids.clear();
        self.due.clear();
        self.deadline = Some(Box::pin(tokio::time::sleep(self.config.linger)));
        self.phase = Phase::Closing(Some(result));
    }

    fn poll_attach_deadline(&mut self, cx: &mut Context<'_>) {
        if let Phase::Serving = self.phase
            && let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            self.close(Err(Error::AttachDeadline));
        }
    }
}

/// Shortens a text so that its `Rerror` fits, and takes NULs out, which no string may hold.
fn fitting(mut ename: String, msize: u32) -> String {
    if ename.contains('\0') {
        ename = ename.replace('\0', "\u{fffd}");
    }
    let room = (msize as usize - HEADER - 2).min(usize::from(u16::MAX));
    let end = (0..=room.min(ename.len()))
        .rev()
        .find(|end| ename.is_char_boundary(*end));
    ename.truncate(end.unwrap_or(0));
    ename
}
