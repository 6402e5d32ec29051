//! Ollama's own API (<https://docs.ollama.com/api>).

mod decoder;
mod request;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

pub(crate) use decoder::Decoder;

use self::request::{Body, Settings};
use super::http::{Auth, Http};
use super::{Endpoint, SetupError, body_of, list, reply};
use crate::{Backend, BackendError, DeltaStream, Model, Request};

/// An Ollama server. A key is only needed for ollama.com.
#[derive(Debug)]
pub struct Ollama {
    name: String,
    http: Http,
    think: Option<Value>,
    context: Option<u64>,
}

impl Ollama {
    /// Where Ollama listens if nothing else is configured.
    pub const URL: &str = "http://localhost:11434";

    /// A back end of this name. Nothing is sent before the first request.
    ///
    /// # Errors
    /// If the address, the proxy or the certificates cannot be used.
    pub fn new(name: impl Into<String>, endpoint: &Endpoint) -> Result<Self, SetupError> {
        Ok(Self {
            name: name.into(),
            http: Http::new(endpoint, Auth::Bearer, &[])?,
            think: None,
            context: None,
        })
    }

    /// Sets `think`: a boolean, or a level that the model knows. Default: not
    /// sent, and models that can think do.
    #[must_use]
    pub fn with_think(mut self, think: Value) -> Self {
        self.think = Some(think);
        self
    }

    /// Sets `num_ctx`, the tokens of context that the model is loaded with.
    /// Default: Ollama's, which is small.
    #[must_use]
    pub fn with_context(mut self, tokens: u64) -> Self {
        self.context = Some(tokens);
        self
    }

    /// The body of a request: a pure function of it.
    #[must_use]
    pub fn body(&self, request: &Request<'_>) -> Vec<u8> {
        let settings = Settings {
            backend: &self.name,
            think: self.think.as_ref(),
            context: self.context,
        };
        body_of(&Body::new(request, settings))
    }

    async fn ask(&self, request: Request<'_>) -> Result<DeltaStream, BackendError> {
        let body = self.body(&request);
        let response = self
            .http
            .post("api/chat", body, "application/x-ndjson")
            .await?;
        Ok(reply(self.http.clone(), response, Decoder::default()))
    }

    /// The list does not tell contexts; what counts is how a model is loaded,
    /// which is what was configured.
    async fn list(&self) -> Result<Vec<Model>, BackendError> {
        let answer = self.http.get("api/tags", &[]).await?;
        list(&answer, "models", "name", |_| self.context)
    }
}

impl Backend for Ollama {
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
