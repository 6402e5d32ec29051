//! What both ends of a tool connection share, and nothing that does I/O.
//!
//! A session starts with one [`Boot`] record on toolsrv's standard input and
//! one [`Ready`] line in answer. From then on the same byte stream carries
//! 9P2000. The two sides prove to each other that they know the session's
//! [`Key`] (module [`auth`]), then the client writes a [`ToolCall`] to the
//! file [`tree::PROC_NEW`] and reads [`Event`]s from the same fid; the last
//! one is the [`ToolResult`].
//!
//! A tool is described by its [`ToolSpec`], against which the arguments of a
//! call are checked before anything is started, and from which both people and
//! models are told of it.
//!
//! Every record is JSON, because every other language can read it, and every
//! record refuses fields it does not know, because a misspelt limit that is
//! silently ignored is not a limit.

#![forbid(unsafe_code)]

mod asked;
pub mod auth;
mod boot;
mod call;
mod call_reader;
mod chain;
mod condition;
mod definition;
mod door;
mod error;
mod event;
mod facts;
pub mod limits;
mod octets;
mod project;
mod render;
mod report;
mod result;
mod schema;
mod shell_args;
mod status;
mod tool_spec;
pub mod tree;

pub use asked::{Ask, Asked, Ruling};
pub use auth::{Key, Nonce, Proof};
pub use boot::{Attach, Boot, Obstacle, Ready};
pub use call::{CallId, EventFormat, ToolCall};
pub use call_reader::{CallReader, ValueReader};
pub use chain::chain;
pub use condition::{Condition, find_version, version};
pub use definition::{Defined, Definition, ToolInfo};
pub use door::{NotLetIn, TurnedAway};
pub use error::Error;
pub use event::{Event, Stream};
pub use facts::{GitFacts, HostFacts, Landlock, VersionRecord};
pub use octets::Octets;
pub use project::{ProjectFile, ProjectRecord, ProjectStanding};
pub use report::{Denial, DenialSource, Enforced, SandboxReport};
pub use result::{Exit, Failure, FailureKind, ToolResult, Truncation};
pub use schema::{Kind, Schema};
pub use shell_args::{Language, ShellArgs};
pub use status::{CallState, CallStatus, LogState, LogStates};
pub use tool_spec::{OutputLimit, Parallel, Run, ToolOrigin, ToolSpec, Variant, is_tool_name};
