use std::sync::Arc;
use std::time::Duration;

use crate::{
    Backend, BackendError, CallEnd, Chunk, Delta, HandsError, History, ModelCall, Notice, Request,
    Sampling, ShellEnd, ToolDef,
};

/// Says what an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ticket(u64);

impl Ticket {
    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// What the driver has to do.
#[derive(Debug)]
pub(crate) enum Output {
    /// Tell the owner.
    Notice(Notice),
    /// Begin this, and tell the machine what happens.
    Do(Ticket, Action),
    /// Drop everything that was begun.
    Cancel,
    /// Drop everything and leave.
    End,
}

/// What can be begun.
#[derive(Debug)]
pub(crate) enum Action {
    /// [`Happened::Tools`], before it [`Happened::Connecting`] if that takes
    /// time.
    ListTools,
    /// Any number of [`Happened::Delta`], then [`Happened::Ended`],
    /// [`Happened::Failed`] or [`Happened::OutOfTime`].
    Ask(Box<Ask>),
    /// Any number of [`Happened::Chunk`], then [`Happened::CallEnded`]. Of its
    /// output no more than `streamed` bytes and one further are of use.
    Call {
        slot: usize,
        call: ModelCall,
        streamed: usize,
    },
    /// [`Happened::HookEnded`].
    Hook {
        command: String,
        stdin: String,
        limit: Duration,
    },
    /// [`Happened::Elapsed`].
    Sleep(Duration),
}

/// A request that owns what it is about.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) model: String,
    pub(crate) system: String,
    pub(crate) history: History,
    pub(crate) tools: Arc<[ToolDef]>,
    pub(crate) sampling: Sampling,
    /// The time of the whole reply.
    pub(crate) limit: Duration,
}

impl Ask {
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            model: &self.model,
            system: &self.system,
            history: &self.history,
            tools: &self.tools,
            sampling: &self.sampling,
        }
    }
}

/// What can happen to something that was begun.
#[derive(Debug)]
pub(crate) enum Happened {
    Connecting,
    Tools(Result<Vec<ToolDef>, HandsError>),
    Delta(Delta),
    Failed(BackendError),
    Ended,
    OutOfTime,
    Chunk(usize, Chunk),
    CallEnded(usize, CallEnd),
    HookEnded(Result<ShellEnd, HandsError>),
    Elapsed,
}
