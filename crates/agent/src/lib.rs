//! The loop between a model and its hands.
//!
//! A [`History`] is what was said and done, in a form that no provider can
//! refuse: a call exists in it only together with its result. A [`Backend`]
//! makes the next reply of it, as a stream of [`Delta`]s. [`Hands`] run the
//! calls of the reply. What happens meanwhile is told in [`Event`]s.

#![forbid(unsafe_code)]

mod backend;
mod config;
mod error;
mod event;
mod hands;
mod history;
mod message;
mod notice;
mod request;

pub use backend::{Backend, BackendError, Delta, DeltaStream, Model, StopReason, Usage};
pub use config::{Config, Hooks, Limits, Visible};
pub use error::Error;
pub use event::{Event, Facts, State, TurnEnd};
pub use hands::{CallEnd, Chunk, Hands, HandsError, ShellEnd};
pub use history::History;
pub use message::{Answered, Entry, ModelCall, Origin, Outcome, Reasoning, Reply};
pub use notice::{Checkpoint, Notice, Queued};
pub use request::{Parallel, Request, Sampling, ToolDef};
