use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ninep_rs::{Answer, File, Refusal};
use ollie_exec::Command;
use ollie_protocol::{Octets, ShellArgs, ToolCall, limits};
use tokio::sync::{Notify, watch};

use crate::call::Call;
use crate::driver;
use crate::session::Session;
use crate::stream::EventStream;

/// The open half of `proc/new`: takes a tool call, then standard input, and
/// gives events. Dropping it cancels the call.
///
/// The write that completes the call takes no more than the call: its count
/// says where the standard input begins that came with it.
pub(crate) struct CallFile {
    session: Arc<Session>,
    state: Mutex<State>,
    /// True once the call has begun or was refused.
    ready: watch::Sender<bool>,
}

enum State {
    /// JSON that is not complete yet.
    Collecting(Vec<u8>),
    /// A write is starting the call.
    Starting,
    /// The call runs, or ran.
    Begun(Arc<EventStream>),
    /// The call was refused; every later request says why.
    Refused(Refusal),
}

impl CallFile {
    pub(crate) fn new(session: &Arc<Session>) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            state: Mutex::new(State::Collecting(Vec::new())),
            ready: watch::Sender::new(false),
        })
    }

    async fn take(self: Arc<Self>, data: Bytes) -> Result<u32, Refusal> {
        if let Some(stream) = self.begun()? {
            if data.is_empty() {
                stream.call().end_stdin();
                return Ok(0);
            }
            return stream.call().stdin()?.write(data).await;
        }
        let Some((call, taken)) = self.collect(&data)? else {
            return Ok(u32::try_from(data.len()).unwrap_or(u32::MAX));
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
        let State::Collecting(json) = &mut *state else {
            return Err(Refusal::new("the call is being started"));
        };
        let before = json.len();
        let parsed = if before + data.len() > limits::CALL_MAX {
            Err(Refusal::new(format!(
                "tool call is too long: at most {} bytes",
                limits::CALL_MAX
            )))
        } else {
            json.extend_from_slice(data);
            parse(json)
        };
        match parsed {
            Ok(None) => Ok(None),
            Ok(Some((call, end))) => {
                *state = State::Starting;
                let taken = u32::try_from(end.saturating_sub(before)).unwrap_or(u32::MAX);
                Ok(Some((call, taken)))
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
        let state = match start(&self.session, call).await {
            Ok(stream) => State::Begun(Arc::new(stream)),
            Err(refusal) => State::Refused(refusal),
        };
        *self.state() = state;
        self.ready.send_replace(true);
    }

    /// Returns when the call has begun or was refused.
    async fn wait(&self) {
        let mut ready = self.ready.subscribe();
        // The sender lives as long as `self`.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// The call's events if it has begun.
    fn begun(&self) -> Result<Option<Arc<EventStream>>, Refusal> {
        match &*self.state() {
            State::Begun(stream) => Ok(Some(Arc::clone(stream))),
            State::Refused(refusal) => Err(refusal.clone()),
            State::Collecting(_) | State::Starting => Ok(None),
        }
    }

    async fn events(self: Arc<Self>, count: u32) -> Result<Bytes, Refusal> {
        self.wait().await;
        match self.begun()? {
            Some(stream) => stream.read(count).await,
            None => Ok(Bytes::new()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File for CallFile {
    fn read(self: Arc<Self>, _offset: u64, count: u32) -> Answer<Bytes> {
        Box::pin(self.events(count))
    }

    fn write(self: Arc<Self>, _offset: u64, data: Bytes) -> Answer<u32> {
        Box::pin(self.take(data))
    }
}

/// The first JSON value and where it ends; `None` while it is incomplete.
fn parse(json: &[u8]) -> Result<Option<(ToolCall, usize)>, Refusal> {
    let mut values = serde_json::Deserializer::from_slice(json).into_iter::<ToolCall>();
    let call = match values.next() {
        None => return Ok(None),
        Some(Err(error)) if error.is_eof() => return Ok(None),
        Some(Err(error)) => return Err(Refusal::new(format!("malformed tool call: {error}"))),
        Some(Ok(call)) => call,
    };
    let end = values.byte_offset();
    call.validate()
        .map_err(|error| Refusal::new(error.to_string()))?;
    if call.stdin {
        return Ok(Some((call, end)));
    }
    let rest = json.get(end..).unwrap_or_default();
    if rest.iter().any(|byte| !byte.is_ascii_whitespace()) {
        return Err(Refusal::new(
            "something follows the tool call: for standard input set stdin in it",
        ));
    }
    Ok(Some((call, json.len())))
}

/// Starts a call of the one tool there is.
async fn start(session: &Arc<Session>, call: ToolCall) -> Result<EventStream, Refusal> {
    if call.tool != "shell" {
        return Err(Refusal::new(format!(
            "no tool named {:?} here: there is shell",
            call.tool
        )));
    }
    let argv = ShellArgs::parse(&call.args).map_err(|error| {
        let mut text = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            text = format!("{text}: {cause}");
        }
        Refusal::new(text)
    })?;
    let confinement =
        session.sandbox.confinement.as_ref().map_err(|reason| {
            Refusal::new(format!("no call is run without a sandbox: {reason}"))
        })?;
    let cwd = match &call.cwd {
        None => session.cwd.clone(),
        Some(cwd) => session.cwd.join(Path::new(cwd.as_os_str())),
    };
    let cwd = Octets::from(cwd.into_os_string());
    let mut env = confinement.env.clone();
    for (name, value) in &call.env {
        let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
        env.retain(|known| !known.as_bytes().starts_with(&entry[..=name.len()]));
        env.push(entry.into());
    }
    let grace = call.grace_ms.map_or(limits::GRACE.as_millis(), u128::from);
    let command = Command {
        argv: argv.clone(),
        env,
        cwd: cwd.clone(),
        policy: confinement.policy,
        grace_ms: u64::try_from(grace).unwrap_or(u64::MAX),
    };
    let failed = |error: ollie_exec::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        Refusal::new(format!("{error}{}", cause.unwrap_or_default()))
    };
    let running = session
        .spawner
        .spawn(&command, call.stdin)
        .await
        .map_err(failed)?;
    let call = Call::new(session, call, argv, cwd, running);
    session.calls.add(&call)?;
    let gone = Arc::new(Notify::new());
    tokio::spawn(driver::drive(Arc::clone(&call), Arc::clone(&gone)));
    Ok(EventStream::new(call, gone))
}
