use std::fmt;
use std::str::FromStr;

use ollie_protocol::{Asked, CallId};
use serde::{Deserialize, Serialize};

use crate::Usage;

/// What happens, in order. Serialised, these are the lines of a session's
/// file `events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A prompt begins its turn.
    User {
        /// Byte for byte.
        text: String,
    },
    /// The reply goes on.
    Assistant {
        /// The next piece.
        text: String,
    },
    /// The reasoning goes on.
    Reasoning {
        /// The next piece.
        text: String,
    },
    /// A call is made, or refused at once.
    Call {
        /// Unique in the session.
        id: String,
        /// The tool.
        name: String,
        /// JSON text as the model wrote it.
        arguments: String,
    },
    /// A call asks the person whether it may run outside of the sandbox.
    Ask {
        /// The call.
        id: String,
        /// Seconds since 1970.
        at: u64,
        /// For how many milliseconds it waits; then it is denied.
        left_ms: u64,
        /// SHA-256 of `call`, to which an answer is bound.
        digest: String,
        /// What is asked about. Its `id` is the name to answer by.
        call: Box<Asked>,
        /// Where it would run.
        place: Place,
    },
    /// A question waits no more.
    Ruling {
        /// The call.
        id: String,
        /// The `id` of what was asked about.
        ask: CallId,
        /// Seconds since 1970.
        at: u64,
        /// Whether the call may run outside of the sandbox.
        approved: bool,
        /// How that came about.
        by: RuledBy,
    },
    /// Output of a call as it arrives. The first chunk is empty and says that
    /// the call runs. The result is not repeated.
    Tool {
        /// The call.
        id: String,
        /// The next piece.
        chunk: String,
    },
    /// A call has its result.
    ToolResult {
        /// The call.
        id: String,
        /// Whether it did what it was asked.
        ok: bool,
        /// What the model was told, if nothing of it was streamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// More about it.
        #[serde(flatten)]
        facts: Facts,
    },
    /// What the reply cost.
    Usage(Usage),
    /// The request failed and is made again. Every [`Assistant`] and
    /// [`Reasoning`] since the last request is void: the reply begins anew.
    ///
    /// [`Assistant`]: Event::Assistant
    /// [`Reasoning`]: Event::Reasoning
    Retry {
        /// 1 for the first repetition.
        attempt: u32,
        /// How long it waits, milliseconds.
        after_ms: u64,
        /// Why.
        reason: String,
    },
    /// A sentence for the person.
    Info {
        /// The sentence.
        text: String,
    },
    /// Something failed.
    Error {
        /// What, where, and what to do.
        text: String,
    },
    /// The state changed.
    State {
        /// Into this.
        state: State,
    },
    /// A turn is over.
    Turn {
        /// How.
        outcome: TurnEnd,
    },
}

/// Where a call runs, and as whom.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    /// The host as the person named it; none is olliesrv's own machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The user there.
    pub user: String,
    /// Whether that is the user with the number 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub root: bool,
}

/// How a question came to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuledBy {
    /// The person answered, through the session.
    Ctl,
    /// Nobody answered in time.
    Time,
    /// Another connection of the person's to toolsrv answered.
    Toolsrv,
    /// The call was ended while it asked.
    End,
}

/// Short facts about a finished call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// The status a shell would show, where a process ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// How long it took, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What of the policy the kernel could not hold it to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// What the sandbox denied it, a sentence each, and how to allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// The identical call of the same reply whose result this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
}

/// What the agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing: it waits for a prompt.
    #[default]
    Idle,
    /// The model is asked, or a hook runs.
    Thinking,
    /// Calls run; the name is that of the first which has not ended.
    Calling(String),
    /// The person is asked whether a call of this tool may run outside of the
    /// sandbox. Whoever has the hands sets it, not the loop.
    Asking(String),
    /// The history is being summarised.
    Compacting,
    /// It waits for its hands.
    Connecting,
    /// The last turn failed. It waits for a prompt.
    Failed,
}

impl State {
    /// Whether a turn runs.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !matches!(self, Self::Idle | Self::Failed)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Thinking => f.write_str("thinking"),
            Self::Calling(tool) => write!(f, "calling:{tool}"),
            Self::Asking(tool) => write!(f, "asking:{tool}"),
            Self::Compacting => f.write_str("compacting"),
            Self::Connecting => f.write_str("connecting"),
            Self::Failed => f.write_str("failed"),
        }
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "idle" => Self::Idle,
            "thinking" => Self::Thinking,
            "compacting" => Self::Compacting,
            "connecting" => Self::Connecting,
            "failed" => Self::Failed,
            other => match other.split_once(':') {
                Some(("calling", tool)) => Self::Calling(tool.to_owned()),
                Some(("asking", tool)) => Self::Asking(tool.to_owned()),
                _ => return Err(format!("{other:?} is no state")),
            },
        })
    }
}

impl Serialize for State {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model had no further calls.
    Done,
    /// The person stopped it.
    Stopped,
    /// It could not go on; an [`Event::Error`] said why.
    Failed,
    /// It reached a limit; an [`Event::Info`] said which.
    Limit,
}
