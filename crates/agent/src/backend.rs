use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Request;

/// One piece of a reply as it arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// The reply goes on.
    Text(String),
    /// The reasoning goes on. A signature or data ends its block; the next
    /// piece begins another.
    Reasoning {
        /// May be empty.
        text: String,
        /// See [`Reasoning::signature`](crate::Reasoning::signature).
        signature: Option<String>,
        /// See [`Reasoning::data`](crate::Reasoning::data).
        data: Option<Value>,
    },
    /// A call begins. Calls stand in the order of their beginnings.
    CallStart {
        /// Which one the fragments belong to. An index is used once.
        index: u32,
        /// The provider's id. Empty where it has none.
        id: String,
        /// The tool.
        name: String,
    },
    /// The arguments of a call go on.
    CallArguments {
        /// As in its `CallStart`.
        index: u32,
        /// A piece of the JSON text.
        fragment: String,
    },
    /// Tokens so far: cumulative for the reply, the last one counts.
    Usage(Usage),
    /// Why the reply ends. Usage may follow, nothing else does. A stream that
    /// ends without it was dropped.
    Stop(StopReason),
}

/// Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Everything that was read, cached or not.
    pub input: u64,
    /// Everything that was written, reasoning included.
    pub output: u64,
    /// How much of the input came from the provider's cache.
    #[serde(default)]
    pub cached_input: u64,
    /// How much of the output was reasoning.
    #[serde(default)]
    pub reasoning: u64,
}

impl Usage {
    /// Both together; it does not overflow.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached_input: self.cached_input.saturating_add(other.cached_input),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }
}

/// Why a reply ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The model has said what it wanted to say.
    End,
    /// It waits for results.
    ToolCalls,
    /// It reached the most tokens of a reply. The last call may be cut short.
    Length,
    /// The provider withheld the rest.
    Filtered,
    /// Another one, in the provider's word.
    Other(String),
}

/// Why there is no reply. No text of it holds a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The key is missing, wrong or not allowed to do this (401, 403). Final.
    #[error("the provider does not accept the key: {message}")]
    Authentication {
        /// The provider's words, or what to set.
        message: String,
    },
    /// Too many requests (429).
    #[error("the provider limits the rate of requests: {message}")]
    RateLimited {
        /// When to come back (RFC 9110, section 10.2.3).
        retry_after: Option<Duration>,
        /// The provider's words.
        message: String,
    },
    /// The provider is overloaded or broken (5xx, 408, an error in a stream
    /// that says so).
    #[error("the provider failed with status {status}: {message}")]
    Server {
        /// HTTP status.
        status: u16,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
        /// The provider's words.
        message: String,
    },
    /// No connection came about.
    #[error("the provider cannot be reached: {message}")]
    Unreachable {
        /// Which address, and what the network said.
        message: String,
    },
    /// The stream ended early, or nothing came for too long.
    #[error("the reply broke off: {message}")]
    Dropped {
        /// What happened.
        message: String,
    },
    /// The request is longer than the model's context.
    #[error("the context is too long for the model: {message}")]
    ContextTooLong {
        /// The provider's words.
        message: String,
    },
    /// The provider does not take this request (another 4xx). Final.
    #[error("the provider refused the request with status {status}: {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// What came is not the format of this provider.
    #[error("the provider sent what is no reply: {message}")]
    Malformed {
        /// What is wrong with it.
        message: String,
    },
    /// A recorded transcript has no further reply. Final.
    #[error("the recorded transcript has no further reply")]
    Exhausted,
}

impl BackendError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Server { .. }
            | Self::Unreachable { .. }
            | Self::Dropped { .. }
            | Self::Malformed { .. } => true,
            Self::Authentication { .. }
            | Self::ContextTooLong { .. }
            | Self::Refused { .. }
            | Self::Exhausted => false,
        }
    }

    /// When the provider asked to come back.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}

/// A model that a back end offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Its name in requests.
    pub id: String,
    /// Its context in tokens, where the provider tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
}

/// The pieces of one reply. Dropping it ends the request.
pub type DeltaStream = Pin<Box<dyn Stream<Item = Result<Delta, BackendError>> + Send>>;

/// Where replies come from. It connects and waits with time limits of its
/// own, tries nothing twice, and keeps its key to itself: `Debug` included.
pub trait Backend: Send + Sync + Debug {
    /// `openai`, `anthropic`, ... as it stands in [`Origin`](crate::Origin).
    fn name(&self) -> &str;

    /// Asks for a reply.
    fn stream<'a>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'a, Result<DeltaStream, BackendError>>;

    /// The models on offer.
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, BackendError>>;
}
