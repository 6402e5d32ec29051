//! A recorded model: for tests, demonstrations, and a first run without a
//! key.

mod recording;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, stream};

use self::recording::{Recording, Step};
use super::SetupError;
use crate::{Backend, BackendError, DeltaStream, Entry, Model, Request};

/// Plays the replies of a recording, one for each request, whatever the
/// request says; docs/backends.md describes the format. When there are no
/// more, requests fail with [`BackendError::Exhausted`].
///
/// The first request begins after as many replies as its history holds, so
/// that a session that was stored goes on where it was. Each session needs one
/// of its own.
pub struct Replay {
    name: String,
    recording: Recording,
    next: Mutex<Option<usize>>,
}

impl Replay {
    /// Bytes that a recording may have.
    pub const SIZE_MAX: usize = 16 * 1024 * 1024;

    /// The one model that there is.
    pub const MODEL: &str = "recorded";

    /// Reads a recording. `name` is the back end's, `source` says where the
    /// recording is from.
    ///
    /// # Errors
    /// [`SetupError::Recording`] names the line that cannot be played.
    pub fn parse(
        name: impl Into<String>,
        source: &str,
        recording: &str,
    ) -> Result<Self, SetupError> {
        let recording = Recording::parse(recording).map_err(|(line, problem)| {
            let name = source.to_owned();
            SetupError::Recording {
                name,
                line,
                problem,
            }
        })?;
        Ok(Self {
            name: name.into(),
            recording,
            next: Mutex::new(None),
        })
    }

    /// How many replies are recorded, failed ones not counted.
    #[must_use]
    pub fn replies(&self) -> usize {
        self.recording.replies()
    }

    fn play(&self, request: Request<'_>) -> Result<DeltaStream, BackendError> {
        let entries = request.history.entries();
        let replies = entries.filter(|it| matches!(it, Entry::Reply(_))).count();
        let take = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = next.get_or_insert_with(|| self.recording.after(replies));
            let take = self.recording.take(*at).ok_or(BackendError::Exhausted)?;
            *at += 1;
            take
        };
        let mut steps: VecDeque<Step> = take.iter().cloned().collect();
        // A server that refuses does so before a stream begins.
        if let Some(Step::Fail(failure)) = steps.front() {
            return Err(failure.error());
        }
        let played = stream::unfold(std::mem::take(&mut steps), |mut steps| async move {
            loop {
                let next = match steps.pop_front()? {
                    Step::Wait(time) => {
                        tokio::time::sleep(time).await;
                        continue;
                    }
                    Step::Delta(delta) => Ok(delta),
                    Step::Fail(failure) => Err(failure.error()),
                };
                return Some((next, steps));
            }
        });
        Ok(Box::pin(played))
    }
}

impl Backend for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn stream<'a>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'a, Result<DeltaStream, BackendError>> {
        std::future::ready(self.play(request)).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, BackendError>> {
        let model = Model {
            id: Self::MODEL.to_owned(),
            context: None,
        };
        std::future::ready(Ok(vec![model])).boxed()
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("name", &self.name)
            .field("replies", &self.replies())
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
