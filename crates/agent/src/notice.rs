use serde::{Deserialize, Serialize};

use crate::{Event, History, Usage};

/// What an agent tells its owner, in order.
#[derive(Debug)]
pub enum Notice {
    /// Something happened.
    Event(Event),
    /// Save this now: an agent that starts from it has lost nothing but the
    /// round in flight. Comes when a prompt is accepted, when it begins, after
    /// every round of calls, and at the end of a turn.
    Checkpoint(Checkpoint),
}

/// Everything that a restart needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// What was said and done.
    pub history: History,
    /// Tokens of all requests so far.
    #[serde(default)]
    pub usage: Usage,
    /// Prompts that wait, oldest first; the first may be one that had begun
    /// and was not in the history yet.
    #[serde(default)]
    pub queue: Vec<String>,
}

/// A prompt that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// Names it as long as this agent lives.
    pub number: u64,
    /// Byte for byte.
    pub text: String,
}
