use std::task::Waker;

use crate::{Error, Fid, Rmessage, Tag};

/// Requests at once. Half of the tags, so that there is always one left to flush each of them with.
const REQUESTS: usize = 32767;

/// What is known of the request that a tag names.
#[derive(Debug)]
pub(super) enum Slot {
    /// Nothing: the tag is free.
    Free,
    /// Its answer is awaited. `frees` is the fid that may be used anew when it came.
    Waiting {
        waker: Option<Waker>,
        frees: Option<Fid>,
    },
    /// Its answer is here and was not taken yet.
    Done(Rmessage),
    /// Nobody awaits its answer, but it is to be carried out.
    Detached { frees: Option<Fid> },
    /// Its Tflush is on the way, and somebody awaits how that ends. The answer may still come, before Rflush.
    Cancelling {
        waker: Option<Waker>,
        answer: Option<Rmessage>,
    },
    /// Rflush came, and before it perhaps the answer.
    Cancelled(Option<Rmessage>),
    /// Its Tflush is on the way and nobody awaits anything. Until Rflush the tag cannot be used anew: the Tflush would
    /// hit the new request.
    Abandoned,
    /// It is the Tflush of `oldtag`.
    Flush { oldtag: Tag },
}

impl Slot {
    pub(super) fn waiting(frees: Option<Fid>) -> Self {
        Slot::Waiting { waker: None, frees }
    }
}

/// The tags of a connection.
#[derive(Debug)]
pub(super) struct Tags {
    slots: Vec<Slot>,
    free: Vec<Tag>,
    /// The slot of `NOTAG`.
    version: Slot,
}

impl Tags {
    pub(super) fn new() -> Self {
        Tags {
            slots: Vec::new(),
            free: Vec::new(),
            version: Slot::Free,
        }
    }

    /// A tag for a new request. A `bounded` one leaves tags over for what must always be possible.
    pub(super) fn reserve(&mut self, bounded: bool) -> Result<Tag, Error> {
        if bounded && self.slots.len() - self.free.len() >= REQUESTS {
            return Err(Error::TooManyRequests);
        }
        if let Some(tag) = self.free.pop() {
            return Ok(tag);
        }
        match u16::try_from(self.slots.len()).map(Tag) {
            Ok(tag) if tag != Tag::NONE => {
                self.slots.push(Slot::Free);
                Ok(tag)
            }
            _ => Err(Error::TooManyRequests),
        }
    }

    /// `NOTAG`, for Tversion: one at a time.
    pub(super) fn reserve_version(&self) -> Result<Tag, Error> {
        match self.version {
            Slot::Free => Ok(Tag::NONE),
            _ => Err(Error::TooManyRequests),
        }
    }

    pub(super) fn fill(&mut self, tag: Tag, slot: Slot) {
        if let Some(place) = self.slot(tag) {
            *place = slot;
        }
    }

    pub(super) fn release(&mut self, tag: Tag) {
        self.fill(tag, Slot::Free);
        if tag != Tag::NONE {
            self.free.push(tag);
        }
    }

    fn slot(&mut self, tag: Tag) -> Option<&mut Slot> {
        match tag {
            Tag::NONE => Some(&mut self.version),
            Tag(tag) => self.slots.get_mut(usize::from(tag)),
        }
    }

    /// Whom to wake when something comes for this tag.
    pub(super) fn listen(&mut self, tag: Tag, task: &Waker) {
        if let Some(Slot::Waiting { waker, .. } | Slot::Cancelling { waker, .. }) = self.slot(tag) {
            match waker {
                Some(known) if known.will_wake(task) => {}
                _ => *waker = Some(task.clone()),
            }
        }
    }

    /// The answer of a request; the tag is free then.
    pub(super) fn take_answer(&mut self, tag: Tag) -> Option<Rmessage> {
        let slot = self.slot(tag)?;
        if !matches!(slot, Slot::Done(_)) {
            return None;
        }
        let Slot::Done(answer) = std::mem::replace(slot, Slot::Free) else {
            return None;
        };
        self.release(tag);
        Some(answer)
    }

    /// The end of a cancelled request, which may be an answer; the tag is free then.
    pub(super) fn take_cancelled(&mut self, tag: Tag) -> Option<Option<Rmessage>> {
        let slot = self.slot(tag)?;
        let end = match std::mem::replace(slot, Slot::Free) {
            Slot::Done(answer) => Some(answer),
            Slot::Cancelled(end) => end,
            other => {
                *slot = other;
                return None;
            }
        };
        self.release(tag);
        Some(end)
    }

    /// Nobody waits for it any longer.
    pub(super) fn detach(&mut self, tag: Tag) {
        let Some(slot) = self.slot(tag) else { return };
        match slot {
            Slot::Waiting { frees, .. } => *slot = Slot::Detached { frees: *frees },
            Slot::Cancelling { .. } => *slot = Slot::Abandoned,
            Slot::Done(_) | Slot::Cancelled(_) => self.release(tag),
            Slot::Free | Slot::Detached { .. } | Slot::Abandoned | Slot::Flush { .. } => {}
        }
    }

    /// Nobody waits for it any longer; true if a Tflush is to be sent.
    pub(super) fn abandon(&mut self, tag: Tag) -> bool {
        match self.slot(tag) {
            Some(slot @ Slot::Waiting { .. }) if tag != Tag::NONE => {
                *slot = Slot::Abandoned;
                true
            }
            _ => {
                self.detach(tag);
                false
            }
        }
    }

    /// It is to be cancelled; true if a Tflush is to be sent.
    pub(super) fn cancel(&mut self, tag: Tag) -> bool {
        match self.slot(tag) {
            Some(slot @ Slot::Waiting { .. }) if tag != Tag::NONE => {
                *slot = Slot::Cancelling {
                    waker: None,
                    answer: None,
                };
                true
            }
            _ => false,
        }
    }

    /// Takes an answer from the server; returns a fid that may be used anew.
    pub(super) fn complete(&mut self, tag: Tag, message: Rmessage) -> Result<Option<Fid>, Error> {
        const UNASKED: Error = Error::Protocol("an answer to no request");
        let slot = self.slot(tag).ok_or(UNASKED)?;
        match slot {
            Slot::Waiting { waker, frees } => {
                let (waker, frees) = (waker.take(), *frees);
                *slot = Slot::Done(message);
                wake(waker);
                Ok(frees)
            }
            Slot::Detached { frees } => {
                let frees = *frees;
                self.release(tag);
                Ok(frees)
            }
            Slot::Cancelling { answer, .. } if answer.is_none() => {
                *answer = Some(message);
                Ok(None)
            }
            Slot::Abandoned => Ok(None),
            Slot::Flush { oldtag } => {
                let oldtag = *oldtag;
                self.release(tag);
                self.flushed(oldtag);
                Ok(None)
            }
            Slot::Free | Slot::Done(_) | Slot::Cancelling { .. } | Slot::Cancelled(_) => {
                Err(UNASKED)
            }
        }
    }

    /// Rflush came: from now on nothing comes for `oldtag`.
    fn flushed(&mut self, oldtag: Tag) {
        match self.slot(oldtag) {
            Some(slot @ Slot::Cancelling { .. }) => {
                if let Slot::Cancelling { waker, answer } = std::mem::replace(slot, Slot::Free) {
                    *slot = Slot::Cancelled(answer);
                    wake(waker);
                }
            }
            Some(Slot::Abandoned) => self.release(oldtag),
            _ => {}
        }
    }

    /// The connection is over: everybody is to look again.
    pub(super) fn wake_all(&mut self) {
        for slot in self.slots.iter_mut().chain([&mut self.version]) {
            if let Slot::Waiting { waker, .. } | Slot::Cancelling { waker, .. } = slot {
                wake(waker.take());
            }
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
