use serde_json::Value;

use super::calls::Calls;
use super::chunk::{Chunk, DeltaRecord};
use super::thoughts::Thoughts;
use crate::backends::decode::Progress;
use crate::backends::failure;
use crate::backends::sse::SseEvent;
use crate::backends::sse_decoder::{Events, SseDecoder};
use crate::{BackendError, Delta, StopReason};

/// Reads the stream of a chat completion.
pub(crate) type Decoder = SseDecoder<Completion>;

/// What has been read of it.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    calls: Calls,
    thoughts: Thoughts,
    reason: Option<String>,
    done: bool,
}

impl Events for Completion {
    fn event(&mut self, event: &SseEvent, to: &mut Vec<Delta>) -> Result<(), BackendError> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.end(to);
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        if event.name == "error" {
            let error = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
            return Err(failure::in_stream(error.get("error").unwrap_or(&error)));
        }
        let chunk: Chunk =
            serde_json::from_str(data).map_err(|error| failure::no_json(&error, data))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(failure::in_stream(&error));
        }
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(delta) = choice.delta {
                self.delta(delta, to);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.reason = Some(reason);
            }
        }
        if let Some(usage) = chunk.usage {
            to.push(Delta::Usage(usage.into()));
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
        self.thoughts.end(to);
        self.calls.end(to);
        let reason = match self.reason.as_deref() {
            // With calls, several servers say `stop` nevertheless.
            Some("stop") | None if self.calls.any() => StopReason::ToolCalls,
            Some("stop") | None => StopReason::End,
            Some("tool_calls" | "function_call") => StopReason::ToolCalls,
            Some("length") => StopReason::Length,
            Some("content_filter") => StopReason::Filtered,
            Some(other) => StopReason::Other(other.to_owned()),
        };
        to.push(Delta::Stop(reason));
    }
}

impl Completion {
    fn delta(&mut self, delta: DeltaRecord, to: &mut Vec<Delta>) {
        let DeltaRecord {
            content,
            refusal,
            reasoning,
            reasoning_content,
            reasoning_details,
            tool_calls,
        } = delta;
        self.thoughts
            .add(reasoning, reasoning_content, reasoning_details, to);
        let said = [content, refusal].into_iter().flatten();
        to.extend(said.filter(|text| !text.is_empty()).map(Delta::Text));
        for record in tool_calls.unwrap_or_default() {
            self.calls.add(record, to);
        }
    }
}
