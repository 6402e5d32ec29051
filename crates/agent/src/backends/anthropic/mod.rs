//! The Messages API (<https://platform.claude.com/docs/en/api/messages>).

mod decoder;
mod events;
mod request;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

pub(crate) use decoder::Decoder;

use self::request::Body;
use super::http::{Auth, Http};
use super::{Endpoint, SetupError, body_of, list, reply};
use crate::{Backend, BackendError, DeltaStream, Model, Request};

/// Pages of the list of models that are asked for.
const PAGES_MAX: usize = 16;

/// How a model may think before it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Thinking {
    /// As much as it finds useful; for models that offer it.
    Adaptive,
    /// So many tokens at most, 1024 at least. They count as output.
    Budget(u64),
}

/// Anthropic, or a server that speaks its API. The key goes into `x-api-key`.
///
/// The system prompt, the tools and the conversation up to the last two
/// messages of the user are marked to be cached.
#[derive(Debug)]
pub struct Anthropic {
    name: String,
    http: Http,
    thinking: Option<Thinking>,
}

impl Anthropic {
    /// Where Anthropic is.
    pub const URL: &str = "https://api.anthropic.com/v1";

    /// A back end of this name. Nothing is sent before the first request.
    ///
    /// # Errors
    /// If the address, the proxy or the certificates cannot be used.
    pub fn new(name: impl Into<String>, endpoint: &Endpoint) -> Result<Self, SetupError> {
        Ok(Self {
            name: name.into(),
            http: Http::new(
                endpoint,
                Auth::XApiKey,
                &[("anthropic-version", "2023-06-01")],
            )?,
            thinking: None,
        })
    }

    /// Lets the model think. Default: `thinking` is not sent, and most models
    /// do not. With it, temperature and top_p are not sent, since the API
    /// refuses them.
    #[must_use]
    pub fn with_thinking(mut self, thinking: Thinking) -> Self {
        self.thinking = Some(thinking);
        self
    }

    /// The body of a request: a pure function of it.
    #[must_use]
    pub fn body(&self, request: &Request<'_>) -> Vec<u8> {
        body_of(&Body::new(request, &self.name, self.thinking))
    }

    async fn ask(&self, request: Request<'_>) -> Result<DeltaStream, BackendError> {
        let body = self.body(&request);
        let response = self
            .http
            .post("messages", body, "text/event-stream")
            .await?;
        Ok(reply(self.http.clone(), response, Decoder::default()))
    }

    async fn list(&self) -> Result<Vec<Model>, BackendError> {
        let mut models = Vec::new();
        let mut after: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut query = vec![("limit", "1000")];
            query.extend(after.as_deref().map(|id| ("after_id", id)));
            let page = self.http.get("models", &query).await?;
            models.extend(list(&page, "data", "id", |model| {
                model.get("max_input_tokens")?.as_u64()
            })?);
            let more = page.get("has_more").and_then(Value::as_bool);
            let last = page.get("last_id").and_then(Value::as_str);
            match (more, last) {
                (Some(true), Some(last)) => after = Some(last.to_owned()),
                _ => break,
            }
        }
        Ok(models)
    }
}

impl Backend for Anthropic {
    fn name(&self) -> &str {
        &self.name
    }

    fn stream<'a>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'a, Result<DeltaStream, BackendError>> {
        self.ask(request).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, BackendError>> {
        self.list().boxed()
    }
}
