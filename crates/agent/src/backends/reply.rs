use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream;
use reqwest::Response;

use super::decode::{Decode, Progress};
use super::failure;
use super::http::Http;
use crate::{BackendError, Delta, DeltaStream};

/// Bytes of one reply. A model writes at most some hundred thousand tokens;
/// the envelope of each can have some hundred bytes.
const REPLY_MAX: usize = 256 * 1024 * 1024;

/// How long the usage may come after the model has stopped. Servers that do
/// not say that they are done may keep the connection for as long as they
/// like.
const SETTLING: Duration = Duration::from_secs(5);

/// How long the end of a body may come after the end of a reply. It comes in
/// the same packet, mostly.
const LAST_WORDS: Duration = Duration::from_millis(50);

struct Reading<D> {
    http: Http,
    /// `None` after the last byte that is of interest; the connection is free
    /// or closed then.
    response: Option<Response>,
    decoder: D,
    ready: VecDeque<Result<Delta, BackendError>>,
    bytes: usize,
}

/// Moves bytes from the connection to the decoder. Dropping the stream closes
/// the connection, at which servers stop their model.
pub(super) fn reply<D: Decode + 'static>(
    http: Http,
    response: Response,
    decoder: D,
) -> DeltaStream {
    let reading = Reading {
        http,
        response: Some(response),
        decoder,
        ready: VecDeque::new(),
        bytes: 0,
    };
    Box::pin(stream::unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Some((next, reading))
    }))
}

impl<D: Decode> Reading<D> {
    async fn next(&mut self) -> Option<Result<Delta, BackendError>> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                if next.is_err() {
                    self.response = None;
                }
                return Some(next);
            }
            let mut deltas = Vec::new();
            let read = self.read(&mut deltas).await?;
            self.ready.extend(deltas.into_iter().map(Ok));
            if let Err(error) = read {
                self.response = None;
                self.ready.push_back(Err(self.http.scrubbed(error)));
            }
        }
    }

    /// Reads once. `None` if there is nothing more to read.
    async fn read(&mut self, to: &mut Vec<Delta>) -> Option<Result<(), BackendError>> {
        let response = self.response.as_mut()?;
        let chunk = match self.decoder.progress() {
            Progress::Open => self.http.chunk(response).await,
            Progress::Settling => {
                let chunk = self.http.chunk(response);
                // The reply is whole: whatever happens now ends it.
                let waited = tokio::time::timeout(SETTLING, chunk).await;
                Ok(waited.ok().and_then(Result::ok).flatten())
            }
            Progress::Done => return None,
        };
        Some(match chunk {
            Ok(Some(bytes)) => {
                self.bytes = self.bytes.saturating_add(bytes.len());
                if self.bytes > REPLY_MAX {
                    return Some(Err(failure::malformed(format!(
                        "a reply of more than {REPLY_MAX} bytes"
                    ))));
                }
                let fed = self.decoder.feed(&bytes, to);
                if self.decoder.progress() == Progress::Done {
                    // Read to its end, the connection serves the next request.
                    let end = self.http.chunk(response);
                    tokio::time::timeout(LAST_WORDS, end).await.ok();
                    self.response = None;
                }
                fed
            }
            Ok(None) => {
                self.response = None;
                self.decoder.finish(to)
            }
            Err(error) => Err(error),
        })
    }
}
