use serde::Deserialize;
use serde_json::Value;

use crate::backends::decode::{Decode, Progress};
use crate::backends::failure;
use crate::backends::lines::Lines;
use crate::{BackendError, Delta, StopReason, Usage};

/// Reads the stream of `/api/chat`: one JSON object a line.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    lines: Lines,
    calls: u32,
    done: bool,
}

#[derive(Debug, Deserialize)]
struct Record {
    message: Option<Message>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Message {
    content: Option<String>,
    thinking: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Debug, Deserialize)]
struct Call {
    id: Option<String>,
    function: Function,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    arguments: Option<Value>,
}

impl Decode for Decoder {
    fn feed(&mut self, bytes: &[u8], to: &mut Vec<Delta>) -> Result<(), BackendError> {
        let pushed = self.lines.push(bytes);
        while let Some(line) = self.lines.next() {
            if self.done {
                break;
            }
            self.line(&line, to)?;
        }
        pushed.map_err(|_| failure::malformed("a line without end"))
    }

    fn progress(&self) -> Progress {
        if self.done {
            Progress::Done
        } else {
            Progress::Open
        }
    }

    fn finish(&mut self, to: &mut Vec<Delta>) -> Result<(), BackendError> {
        let rest = self.lines.rest().filter(|_| !self.done);
        // Cut in the middle of a line is dropped, not malformed.
        if let Some(rest) = rest
            && serde_json::from_str::<Value>(&rest).is_ok()
        {
            self.line(&rest, to)?;
        }
        if self.done {
            Ok(())
        } else {
            Err(failure::dropped("the stream ended before the reply did"))
        }
    }
}

impl Decoder {
    fn line(&mut self, line: &str, to: &mut Vec<Delta>) -> Result<(), BackendError> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        let record: Record =
            serde_json::from_str(line).map_err(|error| failure::no_json(&error, line))?;
        if let Some(error) = record.error.filter(|error| !error.is_null()) {
            return Err(failure::in_stream(&error));
        }
        if let Some(message) = record.message {
            self.message(message, to);
        }
        if !record.done {
            return Ok(());
        }
        self.done = true;
        to.push(Delta::Usage(Usage {
            input: record.prompt_eval_count.unwrap_or(0),
            output: record.eval_count.unwrap_or(0),
            ..Usage::default()
        }));
        to.push(Delta::Stop(match record.done_reason.as_deref() {
            Some("stop") | None if self.calls > 0 => StopReason::ToolCalls,
            Some("stop") | None => StopReason::End,
            Some("length") => StopReason::Length,
            Some(other) => StopReason::Other(other.to_owned()),
        }));
        Ok(())
    }

    fn message(&mut self, message: Message, to: &mut Vec<Delta>) {
        if let Some(text) = message.thinking.filter(|text| !text.is_empty()) {
            to.push(Delta::Reasoning {
                text,
                signature: None,
                data: None,
            });
        }
        if let Some(text) = message.content.filter(|text| !text.is_empty()) {
            to.push(Delta::Text(text));
        }
        for call in message.tool_calls.unwrap_or_default() {
            let index = self.calls;
            self.calls = self.calls.saturating_add(1);
            to.push(Delta::CallStart {
                index,
                id: call.id.unwrap_or_default(),
                name: call.function.name,
            });
            to.push(Delta::CallArguments {
                index,
                fragment: match call.function.arguments {
                    None | Some(Value::Null) => "{}".to_owned(),
                    Some(Value::String(text)) => text,
                    Some(whole) => whole.to_string(),
                },
            });
        }
    }
}
