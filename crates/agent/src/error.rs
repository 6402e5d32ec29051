/// Why the agent does not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A prompt without a single visible character. No provider takes one.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A prompt that is too long.
    #[error(
        "the prompt has {length} bytes, at most {most} are taken: put long text into a file and name it"
    )]
    LongPrompt {
        /// Its length in bytes.
        length: usize,
        /// [`Limits::prompt_bytes`](crate::Limits::prompt_bytes).
        most: usize,
    },
    /// Too many prompts wait already.
    #[error("{0} prompts wait already: let some of them run, or remove them from the queue")]
    QueueFull(usize),
    /// No prompt of this number waits: it has begun, or was removed.
    #[error("no prompt of number {0} waits: it has begun or was removed")]
    NotQueued(u64),
    /// A turn runs, and this cannot be done beside it.
    #[error("a turn is running: stop it first")]
    Busy,
    /// There is nothing to go on with.
    #[error("there is nothing to go on with: give a prompt")]
    NothingToResume,
    /// There is nothing that a summary could replace.
    #[error("the history is too short to be compacted")]
    NothingToCompact,
    /// The agent has ended.
    #[error("the agent has ended")]
    Ended,
    /// A prompt's template that cannot be rendered.
    #[error("line {line} of the prompt: {problem}")]
    Template {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// An agent's file that says what it cannot mean.
    #[error("the agent's file: {0}")]
    AgentFile(String),
    /// A file that is no skill.
    #[error("the skill {name:?}: {problem}")]
    Skill {
        /// The name of the file, without `.md`.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A stored history that cannot be one.
    #[error("this is no valid history: {0}")]
    History(String),
}
