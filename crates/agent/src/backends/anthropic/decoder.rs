use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::events::{Block, BlockDelta, Record, UsageRecord};
use crate::backends::decode::Progress;
use crate::backends::failure;
use crate::backends::sse::SseEvent;
use crate::backends::sse_decoder::{Events, SseDecoder};
use crate::{BackendError, Delta, StopReason, Usage};

/// Reads the stream of a message.
pub(crate) type Decoder = SseDecoder<Message>;

/// What has been read of it.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// Open content blocks by their index.
    blocks: BTreeMap<u64, Open>,
    calls: u32,
    usage: UsageRecord,
    reason: Option<String>,
    done: bool,
}

/// What is kept of a block until it ends.
#[derive(Debug)]
enum Open {
    Text,
    Thinking {
        signature: Option<String>,
    },
    Call {
        index: u32,
        input: Input,
    },
    /// A block of a kind that ollie never asks for.
    Other,
}

/// The arguments of a call. They come in fragments; the block that opens the
/// call has an empty object in their place.
#[derive(Debug)]
enum Input {
    Whole(Map<String, Value>),
    Fragments,
}

impl Events for Message {
    fn event(&mut self, event: &SseEvent, to: &mut Vec<Delta>) -> Result<(), BackendError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if event.name == "error" {
            let error = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
            return Err(failure::in_stream(error.get("error").unwrap_or(&error)));
        }
        let record = serde_json::from_str(data).map_err(|error| failure::no_json(&error, data))?;
        match record {
            Record::MessageStart { message } => self.usage(message.usage, to),
            Record::ContentBlockStart {
                index,
                content_block,
            } => self.open(index, content_block, to),
            Record::ContentBlockDelta { index, delta } => self.delta(index, delta, to),
            Record::ContentBlockStop { index } => self.close(index, to),
            Record::MessageDelta { delta, usage } => {
                self.usage(usage, to);
                if delta.stop_reason.is_some() {
                    self.reason = delta.stop_reason;
                }
            }
            Record::MessageStop => self.end(to),
            Record::Error { error } => return Err(failure::in_stream(&error)),
            // `ping`, and what will be added: the documentation asks to pass
            // over events that are not known.
            Record::Other => {}
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        match (self.done, &self.reason) {
            (true, _) => Progress::Done,
            (false, Some(_)) => Progress::Settling,
            (false, None) => Progress::Open,
        }
    }

    fn end(&mut self, to: &mut Vec<Delta>) {
        self.done = true;
        to.push(Delta::Stop(match self.reason.as_deref() {
            Some("end_turn" | "stop_sequence") => StopReason::End,
            None if self.calls == 0 => StopReason::End,
            Some("tool_use") | None => StopReason::ToolCalls,
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
            Some("refusal") => StopReason::Filtered,
            Some(other) => StopReason::Other(other.to_owned()),
        }));
    }
}

impl Message {
    /// The counts are cumulative, and one that is left out has not changed.
    fn usage(&mut self, new: Option<UsageRecord>, to: &mut Vec<Delta>) {
        let Some(new) = new else { return };
        self.usage.update(new);
        to.push(Delta::Usage(Usage::from(&self.usage)));
    }

    fn open(&mut self, at: u64, block: Block, to: &mut Vec<Delta>) {
        let open = match block {
            Block::Text { text } => {
                push_text(text, to);
                Open::Text
            }
            Block::Thinking {
                thinking,
                signature,
            } => {
                push_thinking(thinking, to);
                Open::Thinking {
                    signature: signature.filter(|it| !it.is_empty()),
                }
            }
            Block::RedactedThinking { data } => {
                to.push(Delta::Reasoning {
                    text: String::new(),
                    signature: None,
                    data: Some(Value::from(data)),
                });
                Open::Other
            }
            Block::ToolUse { id, name, input } => {
                let index = self.calls;
                self.calls = self.calls.saturating_add(1);
                to.push(Delta::CallStart { index, id, name });
                Open::Call {
                    index,
                    input: Input::Whole(input),
                }
            }
            Block::Other => Open::Other,
        };
        self.blocks.insert(at, open);
    }

    fn delta(&mut self, at: u64, delta: BlockDelta, to: &mut Vec<Delta>) {
        match (self.blocks.get_mut(&at), delta) {
            (Some(Open::Text), BlockDelta::Text { text }) => push_text(text, to),
            (Some(Open::Thinking { .. }), BlockDelta::Thinking { thinking }) => {
                push_thinking(thinking, to);
            }
            (Some(Open::Thinking { signature }), BlockDelta::Signature { signature: new }) => {
                *signature = Some(new);
            }
            (Some(Open::Call { index, input }), BlockDelta::InputJson { partial_json })
                if !partial_json.is_empty() =>
            {
                *input = Input::Fragments;
                to.push(Delta::CallArguments {
                    index: *index,
                    fragment: partial_json,
                });
            }
            _ => {}
        }
    }

    fn close(&mut self, at: u64, to: &mut Vec<Delta>) {
        match self.blocks.remove(&at) {
            Some(Open::Thinking {
                signature: Some(signature),
            }) => to.push(Delta::Reasoning {
                text: String::new(),
                signature: Some(signature),
                data: None,
            }),
            Some(Open::Call {
                index,
                input: Input::Whole(input),
            }) => to.push(Delta::CallArguments {
                index,
                fragment: Value::Object(input).to_string(),
            }),
            _ => {}
        }
    }
}

fn push_text(text: String, to: &mut Vec<Delta>) {
    if !text.is_empty() {
        to.push(Delta::Text(text));
    }
}

fn push_thinking(text: String, to: &mut Vec<Delta>) {
    if !text.is_empty() {
        to.push(Delta::Reasoning {
            text,
            signature: None,
            data: None,
        });
    }
}
