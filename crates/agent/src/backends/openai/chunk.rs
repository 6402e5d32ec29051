//! The records of a chat completion's stream, as far as they are used. All of
//! them are optional: servers leave out what they have not, or say `null`.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Usage;

/// `chat.completion.chunk`
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<UsageRecord>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    pub(super) index: Option<u32>,
    pub(super) delta: Option<DeltaRecord>,
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DeltaRecord {
    pub(super) content: Option<String>,
    pub(super) refusal: Option<String>,
    /// OpenRouter, newer vLLM.
    pub(super) reasoning: Option<String>,
    /// DeepSeek, llama.cpp, older vLLM.
    pub(super) reasoning_content: Option<String>,
    /// OpenRouter: what goes back.
    pub(super) reasoning_details: Option<Vec<Map<String, Value>>>,
    pub(super) tool_calls: Option<Vec<CallRecord>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallRecord {
    pub(super) index: Option<u32>,
    pub(super) id: Option<String>,
    pub(super) function: Option<FunctionRecord>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionRecord {
    pub(super) name: Option<String>,
    /// Text; some servers send the object itself.
    pub(super) arguments: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct UsageRecord {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl From<UsageRecord> for Usage {
    fn from(record: UsageRecord) -> Self {
        let cached = record.prompt_tokens_details.and_then(|it| it.cached_tokens);
        let reasoning = record
            .completion_tokens_details
            .and_then(|it| it.reasoning_tokens);
        Self {
            input: record.prompt_tokens.unwrap_or(0),
            output: record.completion_tokens.unwrap_or(0),
            cached_input: cached.unwrap_or(0),
            reasoning: reasoning.unwrap_or(0),
        }
    }
}
