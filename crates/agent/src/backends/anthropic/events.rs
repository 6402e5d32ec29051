//! The events of a message's stream
//! (<https://platform.claude.com/docs/en/build-with-claude/streaming>), as far
//! as they are used.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Usage;

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Record {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: MessageDelta,
        usage: Option<UsageRecord>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Start {
    pub(super) usage: Option<UsageRecord>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        signature: Option<String>,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Map<String, Value>,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum BlockDelta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageDelta {
    pub(super) stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct UsageRecord {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl UsageRecord {
    pub(super) fn update(&mut self, new: Self) {
        self.input_tokens = new.input_tokens.or(self.input_tokens);
        self.output_tokens = new.output_tokens.or(self.output_tokens);
        self.cache_creation_input_tokens = new
            .cache_creation_input_tokens
            .or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens = new.cache_read_input_tokens.or(self.cache_read_input_tokens);
        if new.output_tokens_details.is_some() {
            self.output_tokens_details = new.output_tokens_details;
        }
    }
}

/// Anthropic counts what it read from its cache, and what it wrote into it,
/// beside `input_tokens` and not in it.
impl From<&UsageRecord> for Usage {
    fn from(record: &UsageRecord) -> Self {
        let cached = record.cache_read_input_tokens.unwrap_or(0);
        let written = record.cache_creation_input_tokens.unwrap_or(0);
        let fresh = record.input_tokens.unwrap_or(0);
        Self {
            input: fresh.saturating_add(cached).saturating_add(written),
            output: record.output_tokens.unwrap_or(0),
            cached_input: cached,
            reasoning: record
                .output_tokens_details
                .as_ref()
                .and_then(|it| it.thinking_tokens)
                .unwrap_or(0),
        }
    }
}
