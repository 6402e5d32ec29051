use super::decode::{Decode, Progress};
use super::failure;
use super::sse::{Sse, SseEvent};
use crate::{BackendError, Delta};

/// What a provider's server-sent events mean.
pub(crate) trait Events: Send {
    /// Takes the next event.
    fn event(&mut self, event: &SseEvent, to: &mut Vec<Delta>) -> Result<(), BackendError>;

    /// How far the reply is.
    fn progress(&self) -> Progress;

    /// The reply is complete: nothing more is to be read. Called while the
    /// reply settles, by a stream that ends without saying so.
    fn end(&mut self, to: &mut Vec<Delta>);
}

/// Reads a stream of server-sent events.
#[derive(Debug, Default)]
pub(crate) struct SseDecoder<E> {
    sse: Sse,
    events: E,
}

impl<E: Events> Decode for SseDecoder<E> {
    fn feed(&mut self, bytes: &[u8], to: &mut Vec<Delta>) -> Result<(), BackendError> {
        let pushed = self.sse.push(bytes);
        while let Some(event) = self.sse.next() {
            if self.progress() == Progress::Done {
                break;
            }
            self.events.event(&event, to)?;
        }
        pushed.map_err(|_| failure::malformed("a line without end"))
    }

    fn progress(&self) -> Progress {
        self.events.progress()
    }

    fn finish(&mut self, to: &mut Vec<Delta>) -> Result<(), BackendError> {
        match self.progress() {
            Progress::Done => Ok(()),
            Progress::Settling => {
                self.events.end(to);
                Ok(())
            }
            Progress::Open => Err(failure::dropped("the stream ended before the reply did")),
        }
    }
}
