//! Where replies come from: [`OpenAi`] (and who speaks its Chat Completions),
//! [`Anthropic`], [`Ollama`], and [`Replay`], which plays a recorded
//! transcript.
//!
//! Each format has a pure function that makes a request's body of a history,
//! and a decoder that makes deltas of bytes; `http` and `reply` move the bytes
//! between them. [`BackendConfig`] is what a configuration file says about a
//! back end. Where its key is kept is for the caller to know: this crate takes
//! an [`ApiKey`].

mod anthropic;
mod call_ids;
mod config;
mod decode;
#[cfg(test)]
mod decode_tests;
mod endpoint;
mod failure;
mod format;
mod function;
mod http;
mod key;
mod lines;
mod models;
mod ollama;
mod openai;
mod replay;
mod reply;
mod retry_after;
#[cfg(test)]
mod samples;
mod setup_error;
mod sse;
mod sse_decoder;
mod tls;
mod turns;

pub use self::anthropic::{Anthropic, Thinking};
pub use self::config::{BackendConfig, BackendKind, KeySource};
pub use self::endpoint::Endpoint;
pub use self::format::Format;
pub use self::key::{ApiKey, KeyError};
pub use self::ollama::Ollama;
pub use self::openai::OpenAi;
pub use self::replay::Replay;
pub use self::setup_error::SetupError;

use self::models::list;
use self::reply::reply;

/// A request's body. What is serialised are texts, numbers and JSON that was
/// parsed before: there is nothing in it that JSON has no form for.
fn body_of(body: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}
