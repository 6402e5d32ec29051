//! Chat Completions
//! (<https://platform.openai.com/docs/api-reference/chat>), as OpenAI,
//! OpenRouter, llama.cpp, vLLM and many others speak it.

mod calls;
mod chunk;
mod decoder;
mod request;
mod thoughts;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

pub(crate) use decoder::Decoder;

use self::request::{Body, Settings};
use super::http::{Auth, Http};
use super::{Endpoint, SetupError, body_of, list, reply};
use crate::{Backend, BackendError, DeltaStream, Model, Request};

/// A server that speaks Chat Completions. The key goes into `Authorization:
/// Bearer`.
#[derive(Debug)]
pub struct OpenAi {
    name: String,
    http: Http,
    effort: Option<String>,
}

impl OpenAi {
    /// Where OpenAI is. An own server's address ends with `/v1` as well.
    pub const URL: &str = "https://api.openai.com/v1";

    /// A back end of this name. Nothing is sent before the first request.
    ///
    /// # Errors
    /// If the address, the proxy or the certificates cannot be used.
    pub fn new(name: impl Into<String>, endpoint: &Endpoint) -> Result<Self, SetupError> {
        Ok(Self {
            name: name.into(),
            http: Http::new(endpoint, Auth::Bearer, &[])?,
            effort: None,
        })
    }

    /// Sets `reasoning_effort`: `minimal`, `low`, `medium`, `high`, as the
    /// model takes it. Default: not sent.
    #[must_use]
    pub fn with_effort(mut self, effort: impl Into<String>) -> Self {
        self.effort = Some(effort.into());
        self
    }

    /// The body of a request: a pure function of it.
    #[must_use]
    pub fn body(&self, request: &Request<'_>) -> Vec<u8> {
        let settings = Settings {
            backend: &self.name,
            effort: self.effort.as_deref(),
            completion_tokens: self.http.base().host_str() == Some("api.openai.com"),
        };
        body_of(&Body::new(request, settings))
    }

    async fn ask(&self, request: Request<'_>) -> Result<DeltaStream, BackendError> {
        let body = self.body(&request);
        let response = self
            .http
            .post("chat/completions", body, "text/event-stream")
            .await?;
        Ok(reply(self.http.clone(), response, Decoder::default()))
    }

    async fn list(&self) -> Result<Vec<Model>, BackendError> {
        let answer = self.http.get("models", &[]).await?;
        list(&answer, "data", "id", context)
    }
}

/// OpenAI does not tell the context. OpenRouter, vLLM and llama.cpp do, each
/// in its own way; llama.cpp tells what the model was trained with.
fn context(model: &Value) -> Option<u64> {
    ["/context_length", "/max_model_len", "/meta/n_ctx_train"]
        .iter()
        .find_map(|path| model.pointer(path)?.as_u64())
}

impl Backend for OpenAi {
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
