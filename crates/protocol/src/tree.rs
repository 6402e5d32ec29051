//! Names of the files toolsrv serves. docs/protocol.md describes each.

/// Record of the running build, JSON ([`crate::VersionRecord`]).
pub const VERSION: &str = "version";
/// Facts of this host, JSON ([`crate::HostFacts`]).
pub const HOST: &str = "host";
/// The effective policy and what of it is enforced, JSON.
pub const POLICY: &str = "policy";
/// The project's own policy file: what became of it, JSON
/// ([`crate::ProjectRecord`]). Written once, by whoever decides about it.
pub const PROJECT: &str = "project";
/// Write `OPERATION PATH`, read the policy's verdict, JSON.
pub const WHY: &str = "why";
/// Who was not let in at the socket: one line of JSON for each reason and user
/// ([`crate::TurnedAway`]), the latest last.
pub const DOOR: &str = "door";
/// Gauges, JSON.
pub const STATUS: &str = "status";
/// Commands to toolsrv itself.
pub const CTL: &str = "ctl";
/// Directory of calls.
pub const PROC: &str = "proc";
/// Clone file: write a call, read its events.
pub const NEW: &str = "new";

/// Clone file: write a call, read its id; the call goes on after the clunk.
pub const NEW_BG: &str = "new.bg";
/// One line of JSON for each call that is remembered.
pub const INDEX: &str = "index";
/// A call's state, and its result once there is one, JSON.
pub const CALL_STATUS: &str = "status";
/// A call's standard input.
pub const STDIN: &str = "stdin";
/// What a call asks of the person, JSON ([`crate::Event::Ask`]); the answer
/// ([`crate::Ruling`]) is written to it. Only calls with
/// [`crate::ToolCall::bypass`] have it.
pub const ASK: &str = "ask";
/// Read it to wait for a call's result.
pub const WAIT: &str = "wait";

/// Word for [`CTL`]: ends every call and then toolsrv.
pub const SHUTDOWN: &str = "shutdown";
/// Word for [`CTL`], with a space and a call id after it: no call of this id
/// ever starts; refused if one was started.
pub const BAR: &str = "bar";

/// Word for [`CTL`], with a space and a number of seconds after it: for so
/// long the session lives on without a client. 0: not at all.
pub const LEASE: &str = "lease";

/// Directory of tools.
pub const TOOLS: &str = "tools";
/// Clone file: write a [`crate::Definition`], read a [`crate::Defined`].
pub const DEFINE: &str = "define";
/// A tool's record, JSON ([`crate::ToolSpec`]).
pub const SPEC: &str = "spec";
/// A tool for people, Markdown.
pub const DOC: &str = "doc";
/// Which variant of a tool was chosen here, and why.
pub const VARIANT: &str = "variant";
/// Word for `tools/ctl`, with a space and a tool's name after it: this agent
/// has the tool again.
pub const LOAD: &str = "load";
/// Word for `tools/ctl`, with a space and a tool's name after it: this agent
/// has the tool no more.
pub const UNLOAD: &str = "unload";
/// Word for `tools/ctl`: what was found out about this host is forgotten, and
/// looked at anew.
pub const RELOAD: &str = "reload";

/// Path of the clone file, as a walk.
pub const PROC_NEW: [&str; 2] = [PROC, NEW];
