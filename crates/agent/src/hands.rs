use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use ollie_protocol::Stream;

use crate::{Facts, ModelCall, Outcome, ToolDef};

/// A piece of a call's output as it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where it was written.
    pub stream: Stream,
    /// What. It may end inside a character.
    pub data: Bytes,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEnd {
    /// What the model is told.
    pub outcome: Outcome,
    /// What a person or a program is told beside.
    pub facts: Facts,
}

impl From<Outcome> for CallEnd {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            facts: Facts::default(),
        }
    }
}

/// How a command of a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellEnd {
    /// The status a shell would show; `None` if its time was up.
    pub status: Option<u8>,
    /// Standard output, text that is not UTF-8 replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

/// Why there are no hands.
#[derive(Debug, thiserror::Error)]
#[error("the tools cannot be reached: {message}")]
pub struct HandsError {
    /// What happened, where, and what to do.
    pub message: String,
}

/// Where calls are made: the toolsrv of a session, and around it what
/// answers calls on this side.
pub trait Hands: Send + Sync {
    /// The tools there are, in the order that the model is shown. Asked for
    /// before every request, so it should be answered from memory where
    /// nothing changed. The state is `connecting` while it waits.
    fn tools(&self) -> BoxFuture<'_, Result<Vec<ToolDef>, HandsError>>;

    /// Makes one call, whose arguments are a JSON object and whose tool is
    /// among [`tools`](Self::tools). Pieces of output go to `output` as they
    /// arrive. Dropping the future ends the call's whole process tree. A call
    /// that cannot be made, or whose end is unknown, is an outcome that says
    /// so.
    fn call<'a>(
        &'a self,
        call: &'a ModelCall,
        output: &'a mut (dyn FnMut(Chunk) + Send),
    ) -> BoxFuture<'a, CallEnd>;

    /// Runs `sh -c command` as the tool `shell` would, `stdin` on its standard
    /// input, and ends its tree after `limit`. Dropping the future does too.
    fn shell<'a>(
        &'a self,
        command: &'a str,
        stdin: Bytes,
        limit: Duration,
    ) -> BoxFuture<'a, Result<ShellEnd, HandsError>>;
}
