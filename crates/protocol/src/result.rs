use serde::{Deserialize, Serialize};

use crate::{CallId, SandboxReport};

/// How a call ended: the last line of its event stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The call it belongs to.
    pub id: CallId,
    /// The tool that was called.
    pub tool: String,
    /// Which variant of the tool it was, counted from 0.
    #[serde(default)]
    pub variant: usize,
    /// The name of the host it ran on.
    pub host: String,
    /// Whether the tool did what it was asked: it started, ended by itself
    /// and with status 0.
    pub ok: bool,
    /// How the process ended; absent when nothing was started or the end is
    /// not known, and then [`failure`](Self::failure) says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// What ollie, not the tool, could not do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Both output streams in the order they were read, cut in the middle to
    /// [`crate::limits::CONTENT_MAX`] bytes at a character boundary, bytes
    /// that are not UTF-8 replaced by U+FFFD. Empty in the raw event format.
    #[serde(default)]
    pub content: String,
    /// Present when `content` is not the whole output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
    /// From the start of the process to the end of its tree, milliseconds.
    pub duration_ms: u64,
    /// The call was ended because its time was up.
    #[serde(default)]
    pub timed_out: bool,
    /// The call was ended because its client asked, or went away.
    #[serde(default)]
    pub cancelled: bool,
    /// Whether it was confirmed that no process of the call's tree is left.
    pub tree_ended: bool,
    /// How many processes were still alive when the first one had ended, and
    /// were ended with it.
    #[serde(default)]
    pub survivors: u32,
    /// What the kernel held the call to.
    pub sandbox: SandboxReport,
}

/// What kept a call from running, or its end from being known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// For programs.
    pub kind: FailureKind,
    /// For people: what happened, where, and what to do.
    pub message: String,
}

/// The kinds of [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// There is no such program.
    NotFound,
    /// The program is there and may not be executed: by its mode, by the
    /// policy, or because it is not a program.
    NotExecutable,
    /// The working directory is missing, not a directory, or closed to us.
    WorkingDirectory,
    /// This kernel cannot enforce the policy, so nothing was started.
    NoSandbox,
    /// It asked to run outside of the sandbox and the person did not allow it,
    /// or nobody answered in time. It was never started.
    Denied,
    /// The process that watched over the call was killed. The tree has been
    /// ended; what the call had done by then is not known.
    SupervisorLost,
    /// The tree went beyond a limit of the policy, which the message names,
    /// and was ended.
    LimitExceeded,
    /// A system call failed: no process, descriptor or memory left.
    System,
}

/// How a process ended (wait(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// It called exit with this status, 0 to 255.
    Code(u8),
    /// This signal ended it.
    Signal(u8),
}

impl Exit {
    /// The status a shell would show: the code, or 128 and the signal.
    #[must_use]
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128u8.saturating_add(signal),
        }
    }
}

/// What is missing from [`ToolResult::content`] and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truncation {
    /// Bytes of output in `content`.
    pub kept: u64,
    /// Bytes of output in all.
    pub total: u64,
    /// The file of the tree with more of it.
    pub rest: String,
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn a_signal_is_shown_as_a_shell_shows_it() {
        // sh(1): "128 plus the signal number"; SIGKILL is 9, SIGTERM 15.
        assert_eq!(Exit::Signal(9).shell_status(), 137);
        assert_eq!(Exit::Signal(15).shell_status(), 143);
        assert_eq!(Exit::Code(7).shell_status(), 7);
    }
}
