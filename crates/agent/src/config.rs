use std::time::Duration;

use crate::Sampling;

/// How an agent works. It can be changed at any time; a request that is on
/// its way is not affected.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The session's id, as hooks are told.
    pub session: String,
    /// The agent's name, as hooks are told.
    pub agent: String,
    /// The model's name at the back end.
    pub model: String,
    /// The system prompt, rendered.
    pub system: String,
    /// The tools that the model is shown.
    pub tools: Visible,
    /// How the model chooses its words.
    pub sampling: Sampling,
    /// The model's context in tokens. Where it is not known, nothing is
    /// compacted before the provider says that the context is too long.
    pub context_window: Option<u64>,
    /// Commands around a turn.
    pub hooks: Hooks,
    /// When to stop.
    pub limits: Limits,
}

/// Which of the tools a model is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Visible {
    /// Every one.
    #[default]
    All,
    /// Those of these names.
    Only(Vec<String>),
}

impl Visible {
    /// Whether the tool is shown.
    #[must_use]
    pub fn shows(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|shown| shown == name),
        }
    }
}

/// Commands that run in the session's sandbox around a turn, one after
/// another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hooks {
    /// Before a prompt reaches the model.
    pub pre_turn: Vec<String>,
    /// After a turn that ended by itself.
    pub post_turn: Vec<String>,
}

/// When to stop, to cut and to give up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Requests to the model in one turn. Default: 200.
    pub steps: u32,
    /// Rounds of nothing but failed calls, one after another, before the turn
    /// ends. At half of it the model is told. Default: 10.
    pub failing_rounds: u32,
    /// Read-class calls at the same time. Default: 8.
    pub parallel: usize,
    /// How often a failed request is made again. Default: 6.
    pub retries: u32,
    /// The wait before the first repetition; each further one is twice as
    /// long. Default: 1 s.
    pub backoff_first: Duration,
    /// The longest of these waits. Default: 60 s.
    pub backoff_most: Duration,
    /// The longest wait that a provider may ask for; beyond it the turn fails
    /// and says so. Default: 10 min.
    pub retry_after_most: Duration,
    /// A hook's time. Default: 60 s.
    pub hook: Duration,
    /// Time of one reply. Default: 30 min.
    pub reply_time: Duration,
    /// Bytes of one reply: text, reasoning and arguments. Default: 4 MiB.
    pub reply_bytes: usize,
    /// Calls in one reply that are made. Default: 128.
    pub calls: usize,
    /// Bytes of a result that the model is told; more is cut in the middle.
    /// Default: 128 KiB.
    pub outcome_bytes: usize,
    /// Bytes of a call's output that are streamed as events. Default: 1 MiB.
    pub streamed_bytes: usize,
    /// Bytes of a prompt. Default: 1 MiB.
    pub prompt_bytes: usize,
    /// Prompts that wait. Default: 64.
    pub queue: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 200,
            failing_rounds: 10,
            parallel: 8,
            retries: 6,
            backoff_first: Duration::from_secs(1),
            backoff_most: Duration::from_secs(60),
            retry_after_most: Duration::from_secs(600),
            hook: Duration::from_secs(60),
            reply_time: Duration::from_secs(30 * 60),
            reply_bytes: 4 * 1024 * 1024,
            calls: 128,
            outcome_bytes: 128 * 1024,
            streamed_bytes: 1024 * 1024,
            prompt_bytes: 1024 * 1024,
            queue: 64,
        }
    }
}
