//! The loop between a model and its hands.
//!
//! A [`History`] is what was said and done, in a form that no provider can
//! refuse: a call exists in it only together with its result. A [`Backend`]
//! makes the next reply of it, as a stream of [`Delta`]s. [`Hands`] run the
//! calls of the reply. An [`Agent`] goes from one to the other until the model
//! has no further calls; what happens meanwhile is told in [`Event`]s, and
//! what has to be kept in [`Checkpoint`]s.
//!
//! The loop itself is a state machine without a runtime, a clock or a disk
//! (`machine`); a driver of few lines does what it wants done.
//!
//! What an agent is told to be is read here too, from text that the caller
//! has: [`AgentFile`]s, [`render`]ed prompts, [`Skill`]s.

#![forbid(unsafe_code)]

/// What providers refuse is written down once, for tests inside and outside.
#[cfg(test)]
extern crate self as ollie_agent;

mod agent;
mod agent_file;
mod backend;
pub mod backends;
mod backoff;
mod config;
mod driver;
pub mod duration;
mod error;
mod estimate;
mod event;
mod hands;
mod history;
mod machine;
mod message;
mod notice;
mod prompt;
mod request;
mod skill;
mod text;

pub use agent::{Agent, Handle};
pub use agent_file::AgentFile;
pub use backend::{Backend, BackendError, Delta, DeltaStream, Model, StopReason, Usage};
pub use config::{Config, Hooks, Limits, Visible};
pub use error::Error;
pub use event::{Event, Facts, Place, RuledBy, State, TurnEnd};
pub use hands::{CallEnd, Chunk, Hands, HandsError, ShellEnd};
pub use history::History;
pub use message::{Answered, Entry, ModelCall, Origin, Outcome, Reasoning, Reply};
pub use notice::{Checkpoint, Notice, Queued};
pub use ollie_protocol::Parallel;
pub use prompt::{Variables, render};
pub use request::{Request, Sampling, ToolDef};
pub(crate) use skill::SKILL;
pub use skill::{Skill, SkilledHands};
