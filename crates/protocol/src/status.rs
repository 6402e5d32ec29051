use serde::{Deserialize, Serialize};

use crate::{CallId, Exit, ToolResult};

/// A call as it stands now: the file `proc/ID/status`, and without logs and
/// result a line of `proc/index`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallStatus {
    /// The call.
    pub id: CallId,
    /// Its tool.
    pub tool: String,
    /// How far it is.
    pub state: CallState,
    /// Whether it was written to `proc/new.bg`.
    pub background: bool,
    /// When it started, in seconds since 1970 by the tool host's clock.
    pub started: u64,
    /// The process on the tool host, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How the process ended, once the call is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Its logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogStates>,
    /// Its result, once it is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<ToolResult>>,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallState {
    /// The person is asked whether it may run outside of the sandbox.
    Asking,
    /// It waits for its turn among the calls of its session.
    Queued,
    /// Whether it runs is not known yet.
    Starting,
    /// It runs.
    Running,
    /// No process of it is left; its output is still being read.
    Ended,
    /// The result is there.
    Finished,
}

/// The logs of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogStates {
    /// `proc/ID/stdout`
    pub stdout: LogState,
    /// `proc/ID/stderr`
    pub stderr: LogState,
    /// `proc/ID/output`: both, in the order in which they were read.
    pub output: LogState,
}

/// One log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogState {
    /// Bytes of the stream so far, kept or not.
    pub total: u64,
    /// What is not kept any more: from the first offset up to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<[u64; 2]>,
}
