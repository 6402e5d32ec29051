use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::Lifeline;
use crate::{Error, Rmessage, Tag};

/// The answer that a request will get: a future.
///
/// The request is queued already when this exists, so a burst is: make several, then await them. Dropping it cancels
/// the request with a `Tflush`, except for a clunk, a remove and a version, which are carried out all the same.
#[must_use = "dropping it cancels the request"]
pub struct Pending<T> {
    state: State,
    understand: fn(Rmessage, u32) -> Result<T, Error>,
    /// What `understand` compares the answer with.
    asked: u32,
    /// Whether dropping it lets the request go on.
    goes_on: bool,
}

enum State {
    Submitted(Arc<Lifeline>, Tag),
    Failed(Error),
    Over,
}

impl<T> Pending<T> {
    pub(super) fn new(
        lifeline: &Arc<Lifeline>,
        submitted: Result<Tag, Error>,
        asked: u32,
        understand: fn(Rmessage, u32) -> Result<T, Error>,
    ) -> Self {
        Pending {
            state: match submitted {
                Ok(tag) => State::Submitted(Arc::clone(lifeline), tag),
                Err(error) => State::Failed(error),
            },
            understand,
            asked,
            goes_on: false,
        }
    }

    pub(super) fn going_on(mut self) -> Self {
        self.goes_on = true;
        self
    }

    /// Lets the request be carried out without anybody waiting for its answer.
    pub fn detach(mut self) {
        self.goes_on = true;
    }

    /// Cancels the request and waits until the server has let go of it.
    ///
    /// `Some` is the answer if the request had been answered before: what a read had taken is not lost.
    ///
    /// # Errors
    /// Those of the request, if it was answered with one, and [`Error::Closed`].
    pub async fn cancel(mut self) -> Result<Option<T>, Error> {
        let (lifeline, tag) = match std::mem::replace(&mut self.state, State::Over) {
            State::Submitted(lifeline, tag) => (lifeline, tag),
            State::Failed(error) => return Err(error),
            State::Over => return Ok(None),
        };
        lifeline.0.cancel(tag);
        // From here on a drop leaves the tag to its Rflush.
        self.state = State::Submitted(Arc::clone(&lifeline), tag);
        let end = std::future::poll_fn(|cx| lifeline.0.poll_cancelled(tag, cx)).await;
        self.state = State::Over;
        end?.map(|answer| understood(self.understand, answer, self.asked))
            .transpose()
    }
}

fn understood<T>(
    understand: fn(Rmessage, u32) -> Result<T, Error>,
    answer: Rmessage,
    asked: u32,
) -> Result<T, Error> {
    match answer {
        Rmessage::Error { ename } => Err(Error::Remote(ename)),
        answer => understand(answer, asked),
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &self.state {
            State::Submitted(lifeline, tag) => ready!(lifeline.0.poll_answer(*tag, cx)),
            State::Failed(_) => match std::mem::replace(&mut self.state, State::Over) {
                State::Failed(error) => Err(error),
                State::Submitted(..) | State::Over => Err(Error::Protocol("never sent")),
            },
            State::Over => Err(Error::Protocol("the answer was taken already")),
        };
        self.state = State::Over;
        Poll::Ready(answer.and_then(|answer| understood(self.understand, answer, self.asked)))
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let State::Submitted(lifeline, tag) = &self.state {
            match self.goes_on {
                true => lifeline.0.detach(*tag),
                false => lifeline.0.abandon(*tag),
            }
        }
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.state {
            State::Submitted(_, tag) => write!(f, "Pending(tag {tag})"),
            State::Failed(error) => write!(f, "Pending({error})"),
            State::Over => f.write_str("Pending(over)"),
        }
    }
}
