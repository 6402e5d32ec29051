//! The numbers both ends agree on.

use std::time::Duration;

/// The version of the records in this crate, sent in [`crate::Boot`] and
/// [`crate::Ready`]. It changes when an old peer would misunderstand a new one.
pub const PROTOCOL: u32 = 1;

/// Largest 9P message in bytes (msize) that either side offers.
pub const MSIZE: u32 = 1024 * 1024;

/// Largest [`crate::Boot`] record, in bytes of JSON. It holds the policy
/// layers, which are bounded to 64 KiB a file where they are parsed.
pub const BOOT_MAX: usize = 1024 * 1024;

/// Largest policy file of a project, in bytes.
pub const PROJECT_MAX: usize = 64 * 1024;

/// Largest [`crate::ToolCall`], in bytes of JSON.
pub const CALL_MAX: usize = 4 * 1024 * 1024;

/// Longest [`crate::Definition`], in bytes of JSON.
pub const DEFINITION_MAX: usize = 4 * 1024 * 1024;

/// Longest script of a tool, in bytes.
pub const SCRIPT_MAX: usize = 1024 * 1024;

/// Longest description of a tool, in bytes.
pub const DESCRIPTION_MAX: usize = 16 * 1024;

/// Most arguments of a tool.
pub const PARAMETERS_MAX: usize = 64;

/// Most variants of a tool.
pub const VARIANTS_MAX: usize = 16;

/// Most tools of a session, besides those that toolsrv brings along.
pub const TOOLS_MAX: usize = 256;

/// Longest call id, session or agent name, in bytes. They travel into file
/// names and log lines, so the alphabet is fixed as well: `[A-Za-z0-9_.-]`,
/// not starting with a dot.
pub const NAME_MAX: usize = 64;

/// What is kept of each output stream of a finished call in `proc/ID/`, in
/// bytes. What is dropped in the middle is said in the log itself.
pub const LOG_KEEP: usize = 256 * 1024;

/// How much output [`crate::ToolResult::content`] holds at most, in bytes.
pub const CONTENT_MAX: usize = 64 * 1024;

/// How long a process tree has between SIGTERM and SIGKILL, unless the call
/// says otherwise ([`crate::ToolCall::grace_ms`]).
pub const GRACE: Duration = Duration::from_millis(2000);

/// Calls that run at the same time in one session.
pub const CALLS_MAX: usize = 256;

/// How long a call that asks to run outside of the sandbox waits for an
/// answer; after that it is denied.
pub const ASK: Duration = Duration::from_secs(60);

/// The longest [`crate::Asked`], in bytes of JSON.
pub const ASK_MAX: usize = 32 * 1024;

/// The longest reason for a call outside of the sandbox, in bytes.
pub const REASON_MAX: usize = 1024;

/// The longest time that a session may live on without a client.
pub const LEASE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many call ids a session remembers at least, those of calls that have
/// been forgotten included. An id among them is never started a second time.
pub const IDS_REMEMBERED: usize = 4096;

/// Whether `name` may stand as a call id, a session name or an agent name.
///
/// An agent name may also start with `@`, which marks the person's own side
/// (see [`crate::auth`]).
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}
