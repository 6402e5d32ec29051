use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::backends::failure;
use crate::{BackendError, Delta, StopReason, Usage};

/// The longest wait of a recording.
const WAIT_MAX_MS: u64 = 60_000;

/// Replies in their order, failed attempts among them.
#[derive(Debug)]
pub(super) struct Recording(Vec<Take>);

/// What one request gets.
#[derive(Debug)]
struct Take {
    steps: Vec<Step>,
    failed: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Delta(Delta),
    Wait(Duration),
    Fail(Failure),
}

/// One line. Each has one key, and a line of another kind is an error.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Note(#[expect(dead_code, reason = "a note is for people")] String),
    Text(String),
    Reasoning(String),
    Call(Call),
    Usage(Usage),
    WaitMs(u64),
    Stop(Stop),
    Fail(Failure),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    /// An object, played as it is written; or a text, whose content is.
    arguments: Box<RawValue>,
    #[serde(default)]
    id: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stop {
    End,
    ToolCalls,
    Length,
    Filtered,
}

/// An attempt that fails: as an HTTP server would with this status, or, with
/// none, by breaking off.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    status: Option<u16>,
    message: String,
    retry_after_ms: Option<u64>,
}

impl Failure {
    pub(super) fn error(&self) -> BackendError {
        let Some(status) = self.status else {
            return failure::dropped(self.message.as_str());
        };
        let wait = self.retry_after_ms.map(Duration::from_millis);
        failure::of_status(status, wait, &self.message, "the recording")
    }
}

impl Recording {
    /// An error is the number of a line, from 1, and what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut takes = Vec::new();
        let mut steps = Vec::new();
        let mut calls = 0;
        let mut number = 0;
        for line in text.lines() {
            number += 1;
            if line.trim().is_empty() {
                continue;
            }
            let line: Line =
                serde_json::from_str(line).map_err(|error| (number, error.to_string()))?;
            let failed = matches!(line, Line::Fail(_));
            let ends = failed || matches!(line, Line::Stop(_));
            line.append(&mut calls, &mut steps)
                .map_err(|problem| (number, problem))?;
            if ends {
                takes.push(Take {
                    steps: std::mem::take(&mut steps),
                    failed,
                });
                calls = 0;
            }
        }
        if !steps.is_empty() {
            let problem = "the last reply has no line with \"stop\" or \"fail\"";
            return Err((number, problem.to_owned()));
        }
        if takes.is_empty() {
            return Err((number.max(1), "there is no reply".to_owned()));
        }
        Ok(Self(takes))
    }

    pub(super) fn replies(&self) -> usize {
        self.0.iter().filter(|take| !take.failed).count()
    }

    /// Where to go on after so many replies.
    pub(super) fn after(&self, replies: usize) -> usize {
        let whole = self.0.iter().enumerate().filter(|(_, take)| !take.failed);
        match replies.checked_sub(1) {
            None => 0,
            Some(last) => whole
                .map(|(at, _)| at + 1)
                .nth(last)
                .unwrap_or(self.0.len()),
        }
    }

    pub(super) fn take(&self, at: usize) -> Option<&[Step]> {
        self.0.get(at).map(|take| take.steps.as_slice())
    }
}

impl Line {
    fn append(self, calls: &mut u32, to: &mut Vec<Step>) -> Result<(), String> {
        match self {
            Self::Note(_) => {}
            Self::Text(text) => to.push(Step::Delta(Delta::Text(text))),
            Self::Reasoning(text) => to.push(Step::Delta(Delta::Reasoning {
                text,
                signature: None,
                data: None,
            })),
            Self::Call(call) => {
                let index = *calls;
                *calls = calls.saturating_add(1);
                to.push(Step::Delta(Delta::CallStart {
                    index,
                    id: call.id,
                    name: call.name,
                }));
                to.push(Step::Delta(Delta::CallArguments {
                    index,
                    fragment: serde_json::from_str(call.arguments.get())
                        .unwrap_or_else(|_| call.arguments.get().to_owned()),
                }));
            }
            Self::Usage(usage) => to.push(Step::Delta(Delta::Usage(usage))),
            Self::WaitMs(ms) if ms > WAIT_MAX_MS => {
                return Err(format!(
                    "a wait of {ms} ms: at most {WAIT_MAX_MS} are waited"
                ));
            }
            Self::WaitMs(ms) => to.push(Step::Wait(Duration::from_millis(ms))),
            Self::Stop(stop) => to.push(Step::Delta(Delta::Stop(match stop {
                Stop::End => StopReason::End,
                Stop::ToolCalls => StopReason::ToolCalls,
                Stop::Length => StopReason::Length,
                Stop::Filtered => StopReason::Filtered,
            }))),
            Self::Fail(failure) => to.push(Step::Fail(failure)),
        }
        Ok(())
    }
}
