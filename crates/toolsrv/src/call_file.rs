use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ninep_rs::{Answer, File, Refusal};
use ollie_protocol::{CallReader, ToolCall};
use tokio::sync::{Notify, watch};

use crate::call::Call;
use crate::driver;
use crate::plan::Plan;
use crate::stream::EventStream;
use crate::tool_tree::View;
use crate::unfinished::Unfinished;

/// The open half of `proc/new` and of `proc/new.bg`: takes a tool call, then
/// standard input. From the first come events, and dropping it cancels the
/// call; from the second comes the call's id, and the call goes on.
///
/// The write that completes the call takes no more than the call: its count
/// says where the standard input begins that came with it.
pub(crate) struct CallFile {
    view: View,
    background: bool,
    state: Mutex<State>,
    /// True once the call has begun or was refused.
    ready: watch::Sender<bool>,
}

enum State {
    /// A call that is not complete yet.
    Collecting(CallReader, Unfinished),
    /// A write is starting the call.
    Starting,
    /// The call runs, or ran.
    Begun(Begun),
    /// The call was refused; every later request says why.
    Refused(Refusal),
}

#[derive(Clone)]
enum Begun {
    Foreground(Arc<EventStream>),
    Background(Arc<Call>),
}

impl Begun {
    fn call(&self) -> &Arc<Call> {
        match self {
            Self::Foreground(stream) => stream.call(),
            Self::Background(call) => call,
        }
    }
}

impl CallFile {
    pub(crate) fn new(view: &View, background: bool) -> Arc<Self> {
        Arc::new(Self {
            view: view.clone(),
            background,
            state: Mutex::new(State::Collecting(
                CallReader::default(),
                Unfinished::default(),
            )),
            ready: watch::Sender::new(false),
        })
    }

    async fn take(self: Arc<Self>, data: Bytes) -> Result<u32, Refusal> {
        let whole = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if let Some(begun) = self.begun()? {
            let call = begun.call();
            if data.is_empty() {
                call.end_stdin();
                return Ok(0);
            }
            // The newline that ends a line of JSON may come in a write of its own.
            if !call.spec().stdin && data.iter().all(u8::is_ascii_whitespace) {
                return Ok(whole);
            }
            return call.stdin()?.write(data).await;
        }
        // Nothing is taken before that, so a flush leaves the file as it was.
        self.view.session.decided().await;
        let Some((call, taken)) = self.collect(&data)? else {
            return Ok(whole);
        };
        // A task of its own: a flush of this write must not leave a call that
        // has half begun.
        tokio::spawn(Arc::clone(&self).begin(call));
        self.wait().await;
        self.begun().map(|_| taken)
    }

    /// Adds to the JSON. Once it is complete: the call, and how many bytes of
    /// `data` belong to it.
    fn collect(&self, data: &[u8]) -> Result<Option<(ToolCall, u32)>, Refusal> {
        let mut state = self.state();
        let State::Collecting(reader, room) = &mut *state else {
            return Err(Refusal::new("the call is being started"));
        };
        let added = room.add(data.len());
        match added.and_then(|()| reader.push(data).map_err(|error| refused(&error))) {
            Ok(None) => Ok(None),
            Ok(Some((call, taken))) => {
                *state = State::Starting;
                Ok(Some((call, u32::try_from(taken).unwrap_or(u32::MAX))))
            }
            Err(refusal) => {
                *state = State::Refused(refusal.clone());
                drop(state);
                self.ready.send_replace(true);
                Err(refusal)
            }
        }
    }

    async fn begin(self: Arc<Self>, call: ToolCall) {
        let state = match self.start(call).await {
            Ok(begun) => State::Begun(begun),
            Err(refusal) => State::Refused(refusal),
        };
        *self.state() = state;
        self.ready.send_replace(true);
    }

    async fn start(&self, call: ToolCall) -> Result<Begun, Refusal> {
        let View { session, agent, .. } = &self.view;
        let tool = session.registry.find(agent, &call.tool)?;
        let (plan, work) = Plan::new(session, &tool, &call, self.background).await?;
        if self.background {
            return driver::start(session, call, plan, work, None).map(Begun::Background);
        }
        let gone = Arc::new(Notify::new());
        let call = driver::start(session, call, plan, work, Some(Arc::clone(&gone)))?;
        Ok(Begun::Foreground(Arc::new(EventStream::new(call, gone))))
    }

    /// Returns when the call has begun or was refused.
    async fn wait(&self) {
        let mut ready = self.ready.subscribe();
        // The sender lives as long as `self`.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// The call if it has begun.
    fn begun(&self) -> Result<Option<Begun>, Refusal> {
        match &*self.state() {
            State::Begun(begun) => Ok(Some(begun.clone())),
            State::Refused(refusal) => Err(refusal.clone()),
            State::Collecting(..) | State::Starting => Ok(None),
        }
    }

    async fn give(self: Arc<Self>, offset: u64, count: u32) -> Result<Bytes, Refusal> {
        self.wait().await;
        match self.begun()? {
            Some(Begun::Foreground(stream)) => stream.read(count).await,
            Some(Begun::Background(call)) => {
                let line = Bytes::from(format!("{}\n", call.id()));
                let start = usize::try_from(offset).map_or(line.len(), |at| at.min(line.len()));
                let end = start.saturating_add(count as usize).min(line.len());
                Ok(line.slice(start..end))
            }
            None => Ok(Bytes::new()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File for CallFile {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(self.give(offset, count))
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        Box::pin(self.take(data))
    }
}

/// An error with its cause, as the text of an answer.
pub(crate) fn refused(error: &dyn std::error::Error) -> Refusal {
    let cause = error.source().map(|cause| format!(": {cause}"));
    Refusal::new(format!("{error}{}", cause.unwrap_or_default()))
}
