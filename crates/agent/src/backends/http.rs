use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::time::{Duration, SystemTime};

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, Url, redirect};
use serde_json::Value;

use super::retry_after::retry_after;
use super::{ApiKey, Endpoint, SetupError, failure, tls};
use crate::BackendError;

/// Bytes of an answer that is no stream: an error, a list of models.
const BODY_MAX: usize = 8 * 1024 * 1024;

/// Bytes of an error's body.
const ERROR_MAX: usize = 64 * 1024;

/// In which header the key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Auth {
    /// `Authorization: Bearer KEY`
    Bearer,
    /// `x-api-key: KEY`
    XApiKey,
}

/// One provider, over HTTP/1.1. It follows no redirect, since a key would go
/// along, and repeats nothing.
#[derive(Clone)]
pub(super) struct Http {
    client: Client,
    base: Url,
    key: Option<ApiKey>,
    idle: Duration,
}

impl Http {
    pub(super) fn new(
        endpoint: &Endpoint,
        auth: Auth,
        extra: &[(&'static str, &'static str)],
    ) -> Result<Self, SetupError> {
        let base = address("url", &endpoint.url)?;
        let mut headers = HeaderMap::new();
        for (name, value) in extra {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        if let Some(key) = &endpoint.key {
            let (name, value) = match auth {
                Auth::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                Auth::XApiKey => (HeaderName::from_static("x-api-key"), key.expose().into()),
            };
            let mut value = HeaderValue::try_from(zeroize::Zeroizing::new(value).as_str())
                .map_err(|_| SetupError::Client("the key fits into no header".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let uses_tls = [Some(&endpoint.url), endpoint.proxy.as_ref()]
            .into_iter()
            .flatten()
            .any(|it| it.to_ascii_lowercase().starts_with("https:"));
        let tls = if uses_tls || endpoint.ca_file.is_some() {
            tls::trusting(endpoint.ca_file.as_deref())?
        } else {
            tls::unused()?
        };
        let mut builder = Client::builder()
            .user_agent(concat!("ollie/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .http1_only()
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .connect_timeout(endpoint.connect_timeout)
            .tls_backend_preconfigured(tls);
        if let Some(proxy) = &endpoint.proxy {
            let address = address("proxy", proxy)?;
            let proxy = reqwest::Proxy::all(address).map_err(|error| SetupError::Url {
                what: "proxy",
                url: proxy.clone(),
                problem: chain(&error),
            })?;
            builder = builder.proxy(proxy);
        }
        Ok(Self {
            client: builder
                .build()
                .map_err(|error| SetupError::Client(chain(&error)))?,
            base,
            key: endpoint.key.clone(),
            idle: endpoint.idle_timeout,
        })
    }

    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// Sends a request whose answer is a stream of `accept`.
    pub(super) async fn post(
        &self,
        path: &str,
        body: Vec<u8>,
        accept: &'static str,
    ) -> Result<Response, BackendError> {
        let posted = self.try_post(path, body, accept).await;
        posted.map_err(|error| self.scrubbed(error))
    }

    /// A document.
    pub(super) async fn get(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Value, BackendError> {
        let got = self.try_get(path, query).await;
        got.map_err(|error| self.scrubbed(error))
    }

    async fn try_post(
        &self,
        path: &str,
        body: Vec<u8>,
        accept: &'static str,
    ) -> Result<Response, BackendError> {
        let request = self
            .request(Method::POST, path)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, accept)
            .body(body);
        let response = self.send(request).await?;
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or(accept);
        // An error with a status that says otherwise, or another kind of
        // server. Read as a stream it would be a reply of nothing.
        if kind.starts_with("text/html") || kind.starts_with("application/json") && kind != accept {
            let kind = kind.to_owned();
            let body = self.body(response, ERROR_MAX).await?;
            let told = serde_json::from_slice::<Value>(&body).ok();
            if let Some(error) = told.as_ref().and_then(|it| it.get("error")) {
                return Err(failure::in_stream(error));
            }
            let at = &self.base;
            return Err(failure::malformed(format!(
                "{at} answered with {kind} and not with a stream: is it the right url?"
            )));
        }
        Ok(response)
    }

    async fn try_get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, BackendError> {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.client.request(Method::GET, url);
        let request = request.header(ACCEPT, "application/json");
        let response = self.send(request).await?;
        let body = self.body(response, BODY_MAX).await?;
        serde_json::from_slice(&body)
            .map_err(|error| failure::no_json(&error, &String::from_utf8_lossy(&body)))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let base = self.base.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        url
    }

    /// The answer to a request, if it is a success.
    async fn send(&self, request: RequestBuilder) -> Result<Response, BackendError> {
        let sent = self.within_idle(request.send()).await?;
        let response = sent.map_err(|error| self.broken(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status.is_redirection() {
            let to = response.headers().get("location");
            let to = to.and_then(|it| it.to_str().ok()).unwrap_or("nowhere");
            return Err(BackendError::Refused {
                status: status.as_u16(),
                message: format!("{} moved to {to}: set that as url", self.base),
            });
        }
        let wait = retry_after(response.headers(), SystemTime::now());
        // Why the body cannot be read matters less than the status.
        let body = self.body(response, ERROR_MAX).await.unwrap_or_default();
        let body = String::from_utf8_lossy(&body);
        let at = self.base.as_str();
        Err(failure::of_status(status.as_u16(), wait, &body, at))
    }

    /// A body up to `most` bytes; what comes after them is not read.
    async fn body(&self, mut response: Response, most: usize) -> Result<Vec<u8>, BackendError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk(&mut response).await? {
            let room = most - body.len();
            body.extend(chunk.iter().take(room));
            if body.len() == most {
                break;
            }
        }
        Ok(body)
    }

    /// The next piece of a body.
    pub(super) async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<bytes::Bytes>, BackendError> {
        let chunk = self.within_idle(response.chunk()).await?;
        chunk.map_err(|error| failure::dropped(chain(&error)))
    }

    async fn within_idle<T>(&self, wait: impl Future<Output = T>) -> Result<T, BackendError> {
        tokio::time::timeout(self.idle, wait).await.map_err(|_| {
            let (at, idle) = (&self.base, self.idle);
            failure::dropped(format!("nothing came from {at} for {idle:?}"))
        })
    }

    fn broken(&self, error: &reqwest::Error) -> BackendError {
        let words = chain(error);
        if error.is_connect() {
            let at = &self.base;
            BackendError::Unreachable {
                message: format!("{at}: {words}"),
            }
        } else {
            failure::dropped(words)
        }
    }

    fn scrub(&self, text: &str) -> String {
        self.key
            .as_ref()
            .map_or_else(|| text.to_owned(), |key| key.scrub(text))
    }

    /// The error without the key, which some providers quote.
    pub(super) fn scrubbed(&self, mut error: BackendError) -> BackendError {
        match &mut error {
            BackendError::Authentication { message }
            | BackendError::RateLimited { message, .. }
            | BackendError::Server { message, .. }
            | BackendError::Unreachable { message }
            | BackendError::Dropped { message }
            | BackendError::ContextTooLong { message }
            | BackendError::Refused { message, .. }
            | BackendError::Malformed { message } => *message = self.scrub(message),
            BackendError::Exhausted => {}
        }
        error
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("base", &self.base.as_str())
            .field("key", &self.key)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

fn address(what: &'static str, text: &str) -> Result<Url, SetupError> {
    let wrong = |url: String, problem: &str| SetupError::Url {
        what,
        url,
        problem: problem.to_owned(),
    };
    let url = Url::parse(text).map_err(|error| wrong(text.to_owned(), &error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        // Not quoted: it holds a password.
        let shown = url.host_str().unwrap_or_default().to_owned();
        let problem = "a user name or password in an address ends up in logs: use a key";
        return Err(wrong(shown, problem));
    }
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong(
            text.to_owned(),
            "expected http:// or https:// and a host",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong(
            text.to_owned(),
            "expected an address without ? and #",
        ));
    }
    Ok(url)
}

/// The error and its causes in one line, without the address.
fn chain(error: &reqwest::Error) -> String {
    let mut words = Vec::new();
    // The outermost says that sending failed, and to which address.
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if words.last() != Some(&text) {
            words.push(text);
        }
        next = error.source();
    }
    if words.is_empty() {
        words.push(if error.is_builder() {
            "the client cannot be built".to_owned()
        } else {
            "the request failed".to_owned()
        });
    }
    words.join(": ")
}
